"""Mutated exports: whatever is changed in one, it is refused with a named error, or the store made of it is whole."""

import base64
import copy
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

from memory_retrievers import AgentMemory, MemoryRetrieversError, Message, SceneEvent, ValidationError
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import Association, AssociationType, AuditEntry, AuditType
from memory_retrievers.testing import HashEmbedder, inside

HOSTILE = (
    None, True, -1, 0, 10**30, 1e308, "", " ", "\x00", "\ud800", "x" * 1_001, [], [[]], {}, {"a": {"b": []}}, "9999-99-99",
    "0001-01-01T00:00:00+14:00", "turn 0", "turn 00", "turn 9", "turn " + "9" * 5_000, "user//x", "episodic", "semantic", "AAAA", "AACAfwAAgH8=",
)  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Every kind of line there is."""
    path = tmp_path_factory.mktemp("export") / "export.jsonl"
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        said = [Message(role="user", content="We moved to Lyon."), Message(role="assistant", content="When?")]
        memory.remember_episode(scope="user/a", id="e1", title="Move", summary="They moved.", messages=said)
        memory.remember_fact(scope="user/a", id="f1", fact="Alice lives in Lyon", keywords=["Lyon"])
        memory.add_scene_events("user/a", [SceneEvent(id="s1", summary="Bob left.", emotional_impact={"Bob": "sad"})])
        memory.add_messages("user/b", [Message(role="user", content="Hello")])
        memory.retrieve("Lyon", scope="user/a")
        assert memory.pending_reviews("user/a")  # they are filed when somebody looks
        inside(memory).ledger.conversations.take_reviews("user/a", conversation=said, at=inside(memory).store.now())
        memory.retrieve("moved to Lyon", scope="user/a")
        with inside(memory).ledger.database.write():
            ends = [MemoryKey(scope="user/a", id=each) for each in ("e1", "f1")]
            now = inside(memory).store.now()
            inside(memory).ledger.management.associate(
                [
                    Association(
                        source=ends[0], target=ends[1], type=next(iter(AssociationType)), strength=0.5, auto_generated=False, created_at=now
                    )
                ]
            )  # fmt: skip
            inside(memory).ledger.management.note(
                [AuditEntry(memory=ends[1], type=next(iter(AuditType)), at=now, old=0.1, new=0.2, reason="x")]
            )
        memory.export(path)
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-2]]  # but for the checksum


def imported(lines):
    """Import these lines, and tell what verify says of them; None if they were refused with a named error."""
    with tempfile.TemporaryDirectory() as directory:
        source, into = Path(directory) / "export.jsonl", Path(directory) / "store"
        source.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        try:
            memory = AgentMemory.import_(source, into=into, embedder=HashEmbedder())
        except MemoryRetrieversError as error:
            return None if "line " in str(error) and not into.exists() else (f"not refused by its line: {error!r}",)
        with memory:
            memory.retrieve("Lyon", scope="user/a")
            memory.export(Path(directory) / "again.jsonl")
            return memory.verify().problems


def places(value, path=()):
    """The path of every value within a line."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in members:
        yield from places(each, (*path, key))


def mutated(lines, chance):
    """The lines with one to three changes: a value replaced, left out, copied from elsewhere, or a line doubled."""
    lines = copy.deepcopy(lines)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        line = chance.choice(lines[1:])
        *path, last = chance.choice([path for path in places(line) if path] or [("type",)])
        holder = line
        for step in path:
            holder = holder[step]
        if not isinstance(holder, dict | list) or (isinstance(holder, dict) and last not in holder):
            continue
        what = chance.random()
        if what < 0.6:
            holder[last] = copy.deepcopy(chance.choice(HOSTILE))
        elif what < 0.75:
            del holder[last]
        elif what < 0.9:
            other = chance.choice(lines[1:])
            holder[last] = copy.deepcopy(chance.choice(list(other.values())))
        else:
            lines.insert(chance.randrange(1, len(lines)), copy.deepcopy(line))
    return lines


@pytest.mark.parametrize("seed", range(8))
def test_a_mutated_export_is_refused_by_name_or_makes_a_store_that_is_whole(exported, seed):
    chance = random.Random(seed)
    refused = 0
    for _ in range(25):
        problems = imported(mutated(exported, chance))
        refused += problems is None
        assert not problems, problems
    assert refused > 5


def test_every_value_of_an_export_may_be_any_other(exported):
    """Each value in turn becomes one of those that no record holds."""
    chance = random.Random(0)
    for number, line in enumerate(exported[1:], start=1):
        for *path, last in (path for path in places(line) if path):
            lines = copy.deepcopy(exported)
            holder = lines[number]
            for step in path:
                holder = holder[step]
            holder[last] = copy.deepcopy(chance.choice(HOSTILE))
            assert not imported(lines), (number, path, last, holder[last])


def test_the_export_itself_is_taken(exported):
    assert {line.get("type") for line in exported} == {
        None,
        "memory",
        "pending_review",
        "review_job",
        "queue",
        "association",
        "audit",
        "event",
        "character",
    }
    assert imported(exported) == ()


def vector(numbers):
    return base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda passages: passages[0].update(vector=vector(np.full(256, 0.5))), "the length 8 instead of 1"),
        (lambda passages: passages[0].update(vector=vector(np.zeros(256))), "the length 0 instead of 1"),
        (lambda passages: passages[0].update(vector=vector(np.full(256, np.nan))), "NaN or infinity"),
        (lambda passages: passages[0].update(vector=vector([1.0])), "has 1 numbers"),
        (lambda passages: passages[0].update(text="Bob knows the secret"), "'episodic' has another text"),
        (lambda passages: passages[1].update(text="Bob knows the secret"), "'turn 0' has another text"),
        (lambda passages: passages[1].update(speaker="Mallory", tells_time=False), "another text or speaker"),
        (lambda passages: passages[1].update(part="turn 00"), "'turn 00' is not a part of this memory"),
        (lambda passages: passages[1].update(part="turn 7"), "'turn 7' is not a part of this memory"),
        (lambda passages: passages[1].update(part="turn " + "7" * 5_000), "777' is not a part of this memory"),
        (lambda passages: passages[1].update(part="semantic"), "'semantic' is not a part of this memory"),
        (lambda passages: passages.append(passages[1]), "is listed twice"),
        (lambda passages: passages.pop(1), "others have none"),
        (lambda passages: passages.pop(0), "'episodic' is missing"),
        (lambda passages: passages.clear(), "'episodic' is missing"),
    ],
)
def test_passages_that_would_not_verify_are_refused_with_their_line(exported, tmp_path, change, complaint):
    lines = copy.deepcopy(exported)
    number = next(place for place, line in enumerate(lines) if line.get("id") == "e1")
    change(lines[number]["passages"])
    source = tmp_path / "export.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(ValidationError, match=f"line {number + 1}: .*{complaint}"):
        AgentMemory.import_(source, into=tmp_path / "store", embedder=HashEmbedder())
    assert not (tmp_path / "store").exists()


def test_tokens_that_are_cut_off_are_refused_with_their_line(tmp_path):
    with AgentMemory.in_memory() as memory:  # by the bundled embedder
        memory.remember_fact(scope="user/a", fact="Alice lives in Lyon")
        memory.export(tmp_path / "export.jsonl")
    header, fact, *rest = map(json.loads, (tmp_path / "export.jsonl").read_text("utf-8").splitlines()[:-1])
    assert len(base64.b64decode(fact["passages"][0]["tokens"])) % 64 == 0
    fact["passages"][0]["tokens"] = "AAAA"
    (tmp_path / "cut.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (header, fact, *rest)))
    with pytest.raises(ValidationError, match="line 2: tokens: have 3 bytes, which is not a multiple of 64"):
        AgentMemory.import_(tmp_path / "cut.jsonl", into=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("kind", "change", "complaint"),
    [
        ("audit", lambda lines, line: line["memory"].update(id="f9"), "a memory that is in no line before"),
        ("queue", lambda lines, line: line.update(messages=[]), "no message, or one that waits"),
        ("queue", lambda lines, line: line["messages"].append(line["messages"][0]), "no message, or one that waits"),
        ("queue", lambda lines, line: lines.insert(1, {**line, "conversation": "c2"}), "no message, or one that waits"),
        ("character", lambda lines, line: lines.insert(lines.index(line), line), "this character is in a line before"),
    ],
)
def test_a_line_of_which_nothing_would_be_kept_is_refused(exported, tmp_path, kind, change, complaint):
    lines = copy.deepcopy(exported)
    line = next(line for line in lines if line.get("type") == kind)
    change(lines, line)
    number = len(lines) - lines[::-1].index(line)
    source = tmp_path / "export.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(ValidationError, match=f"line {number}: .*{complaint}"):
        AgentMemory.import_(source, into=tmp_path / "store", embedder=HashEmbedder())
    assert not (tmp_path / "store").exists()
