"""Searches and lists of tools are narrowed by tags, metadata and times, and blocks by tokens."""

from datetime import UTC, datetime

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

MARCH, MAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def call():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        stored = {"scope": "user/alice", "allow_duplicates": True}
        memory.remember_fact(id="a", fact="Rain in Lyon", tags=["x"], metadata={"n": 1}, created_at=MARCH, **stored)
        memory.remember_fact(id="b", fact="Rain in Nice", tags=["x", "y"], metadata={"n": 2}, created_at=MAY, **stored)
        memory.remember_episode(
            id="e", scope="user/alice", summary="Rain all day", metadata={"n": 1}, start_at=MARCH, created_at=MAY
        )
        memory.remember_fact(id="c", scope="user/bob", fact="Rain in Bern", metadata={"n": 1}, created_at=MARCH)
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice"))
        yield lambda name, **arguments: toolbox.call(name, arguments)


NARROWED = [
    ({}, {"a", "b", "e"}),
    ({"tags": ["x"]}, {"a", "b"}),
    ({"tags": ["x", "y"]}, {"b"}),
    ({"metadata": {"n": 1}}, {"a", "e"}),
    ({"metadata": {"n": "1"}}, set()),
    ({"metadata": {"n": 1}, "tags": ["x"]}, {"a"}),
    ({"since": "2026-04-01"}, {"b"}),
    ({"until": "2026-04-01T00:00:00Z"}, {"a", "e"}),
    ({"since": "2026-02-01", "until": "2026-04-01"}, {"a", "e"}),
    ({"where": {"metadata.n": {"gte": 2}}}, {"b"}),
    ({"where": {"or": [{"tags": "y"}, {"time": {"lt": "2026-04-01"}}]}, "metadata": {"n": 1}}, {"a", "e"}),
]


@pytest.mark.parametrize(("narrowed", "expected"), NARROWED, ids=range(len(NARROWED)))
def test_each_tool_that_finds_is_narrowed_alike(call, narrowed, expected):
    found = call("retrieve_memory", query="rain", **narrowed).artifact
    assert {each["id"] for kind in ("semantic", "episodic") for each in found[kind]} == expected
    searched = call("memory_search", query="rain", **narrowed).artifact["results"]
    assert {each["id"] for each in searched} == expected
    listed = call("memory_list", **narrowed).artifact
    assert ({each["id"] for each in listed["memories"]}, listed["total"]) == (expected, len(expected))


@pytest.mark.parametrize("tool", ["retrieve_memory", "memory_search", "memory_list"])
@pytest.mark.parametrize(
    "narrowed",
    [
        {"metadata": {f"k{number}": 1 for number in range(17)}},
        {"metadata": {"k" * 1_001: 1}},
        {"metadata": {"k": "v" * 1_001}},
        {"metadata": {"k": [1]}},
        {"metadata": "n=1"},
        {"tags": "x"},
        {"where": {"team": "a"}},
        {"where": {"metadata.n": {"in": list(range(40))}}},
        {"since": "yesterday"},
        {"since": "2026-05-01", "until": "2026-04-01"},
    ],
    ids=range(10),
)
def test_what_cannot_be_a_filter_is_refused(call, tool, narrowed):
    needed = {} if tool == "memory_list" else {"query": "rain"}
    output = call(tool, **needed, **narrowed)
    assert output.is_error
    assert output.artifact["error_type"] == "ValidationError"


def test_a_block_is_cut_to_its_tokens_and_its_detail_stands(call):
    whole = call("retrieve_memory", query="rain").content
    cut = call("retrieve_memory", query="rain", max_tokens=25).content
    assert 0 < len(cut) <= 100 < len(whole)
    assert len(call("retrieve_memory", query="rain", max_tokens=25).artifact["semantic"]) == 2
    assert call("context_pre_retrieve", query="rain in Lyon", max_tokens=0).content == ""
    assert call("retrieve_memory", query="rain", max_tokens=-1).is_error


@pytest.mark.parametrize("value", ["yesterday", "2026-02-30", [1]])
@pytest.mark.parametrize("name", ["retrieve_memory", "memory_list"])
def test_a_time_that_is_none_is_answered_with_an_example_of_one(tool, name, value):
    asked = {"query": "tea"} if name == "retrieve_memory" else {}
    assert tool(name, since=value, **asked)["message"].endswith(": give ISO 8601, such as 2026-03-01T09:00:00Z")
