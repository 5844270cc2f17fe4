import json

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation.custom import Pair, check, load
from memory_retrievers.testing import HashEmbedder

GOOD = {"scope": "user/ruth", "query": "bees?", "memory_ids": ["m1", "m2"]}


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        file = tmp_path / "own.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    return write


def test_a_pair_a_line_is_read_and_blank_lines_count_as_lines(write):
    assert load(write(json.dumps(GOOD), "", json.dumps(GOOD | {"query": "boats?\u2028"}))) == [
        Pair(line=1, scope="user/ruth", query="bees?", memory_ids=frozenset({"m1", "m2"})),
        Pair(line=3, scope="user/ruth", query="boats?\u2028", memory_ids=frozenset({"m1", "m2"})),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "line 2: "),
        ("[]", "line 2: "),
        (json.dumps({"scope": "a", "query": "b"}), "line 2: memory_ids"),
        (json.dumps(GOOD | {"memory_ids": []}), "line 2: memory_ids"),
        (json.dumps(GOOD | {"query": "  "}), "line 2: query"),
        (json.dumps(GOOD | {"memory_id": "m1"}), "line 2: memory_id"),
    ],
)
def test_a_line_that_is_no_pair_is_named(write, line, said):
    with pytest.raises(ValidationError, match=rf'{said}.*: give each question a line {{"scope": '):
        load(write(json.dumps(GOOD), line))


def test_an_empty_or_missing_file_is_told(write, tmp_path):
    with pytest.raises(ValidationError, match="no question"):
        load(write("", " "))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(tmp_path / "nowhere.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValidationError, match="UTF-8"):
        load(tmp_path / "bytes")


def test_a_memory_that_is_not_in_the_scope_is_told_with_the_line(write):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/ruth", id="m1", fact="Ruth keeps bees")
        memory.remember_fact(scope="user/sami", id="m2", fact="Sami has a boat")
        check(load(write(json.dumps(GOOD | {"memory_ids": ["m1"]}))), memory)
        with pytest.raises(ValidationError, match="line 1: there is no memory 'm2' in the scope 'user/ruth'"):
            check(load(write(json.dumps(GOOD))), memory)
        with pytest.raises(ValidationError, match="line 1: "):
            check(load(write(json.dumps(GOOD | {"scope": "a//b"}))), memory)


def test_a_seed_splits_about_in_half_and_always_alike():
    pairs = [Pair(line=n, scope="s", query=f"question {n}", memory_ids=frozenset({"m"})) for n in range(400)]
    for seed in range(5):
        held_out = [pair.is_held_out(seed) for pair in pairs]
        assert 150 < sum(held_out) < 250
        assert held_out == [pair.is_held_out(seed) for pair in pairs]
    assert [pair.is_held_out(0) for pair in pairs] != [pair.is_held_out(1) for pair in pairs]
