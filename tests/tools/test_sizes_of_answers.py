"""The sizes of answers that the documentation quotes. ``UPDATE_SNAPSHOTS=1`` writes them anew."""

import os
import re
from pathlib import Path

import levels
import pytest

import memory_retrievers
from memory_retrievers.models import ResponseLevel
from memory_retrievers.tools.registry import REGISTRY

DOCUMENTATION = Path(memory_retrievers.__file__).parents[1] / "docs" / "tools.md"
UPDATE = "UPDATE_SNAPSHOTS" in os.environ
BEGIN, END = "<!-- sizes -->\n", "\n<!-- end of sizes -->"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with levels.filled(tmp_path_factory.mktemp("levels") / "store") as bench:
        yield bench


@pytest.fixture(scope="module")
def sizes(bench):
    return levels.sizes(bench)


def test_every_tool_is_measured_at_every_level(sizes):
    assert list(sizes) == list(REGISTRY)
    assert all(list(of_it) == list(ResponseLevel) for of_it in sizes.values())


def test_no_level_costs_less_than_the_one_before(sizes):
    tokens = {
        name: [int(cell.split(" · ")[1].replace(",", "")) for cell in each.values()] for name, each in sizes.items()
    }
    assert [name for name, costs in tokens.items() if costs != sorted(costs)] == []


def test_the_sizes_in_the_documentation_are_those_of_the_answers(sizes):
    if not DOCUMENTATION.exists():
        pytest.skip("the documentation is part of a checkout only")
    text = DOCUMENTATION.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    told, after = rest.split(END, 1)
    if UPDATE:
        DOCUMENTATION.write_text(f"{before}{BEGIN}{levels.table(sizes)}{END}{after}", encoding="utf-8")
        return
    assert told == levels.table(sizes)


def test_what_a_call_writes_is_undone(bench, sizes):
    assert levels.sizes(bench).keys() == sizes.keys()
    assert bench.memory.manager.scopes(root=levels.ROOT) == bench.scopes
    assert [bench.memory.get(id, scope=levels.ROOT).fact for id in bench.ids[:2]] == list(bench.texts[:2])


def test_times_are_told_of_every_tool_and_level(bench, monkeypatch):
    monkeypatch.setattr(levels.Bench, "calls", lambda self: {"memory_get": {"id": self.ids[0]}})
    measured = levels.times(bench, rounds=2)
    assert list(measured["memory_get"]) == list(ResponseLevel)
    assert all(re.fullmatch(r"\d+\.\d\d · [\d,]+", cell) for cell in measured["memory_get"].values())
