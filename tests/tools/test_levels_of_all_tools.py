"""What every tool answers at every level, and how much of a model's context it costs.

``UPDATE_SNAPSHOTS=1`` writes the snapshots and ``docs/tools.md`` anew instead of comparing with them.
"""

import itertools
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cases import tried_in_one
from levels import estimate_tokens

import memory_retrievers
from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext

SNAPSHOTS = Path(__file__).parent / "snapshots"
DOCUMENTATION = Path(memory_retrievers.__file__).parents[1] / "docs" / "tools.md"
LEVELS = ("minimal", "standard", "full")
MANAGING = [name for name in REGISTRY if name not in {"retrieve_memory", "context_pre_retrieve", "recent_memory"}]
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
UPDATE = "UPDATE_SNAPSHOTS" in os.environ
MADE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

# Specification §4.2 and §4.4: what the first example of each tool has, at least; each level adds to the one before.
SPECIFIED = {
    "memory_store": (
        "success memory_id",
        "id memory_tier created_at content scope associations_count",
        "memory_object associations_details duplicate_analysis",
    ),
    "memory_search": ("success total_count", "total results", "search_metadata"),
    "memory_get": (
        "success id",
        "content content_type memory_tier tags metadata created_at updated_at",
        "",
    ),
    "memory_update": ("success id", "updated updated_at", ""),
    "memory_delete": ("success deleted_count deleted_ids", "", ""),
    "memory_list": ("success total", "memories limit offset", ""),
    "memory_batch_store": ("success stored_count stored_ids errors", "", ""),  # who is told of a failure is told why
    "memory_batch_update": ("success updated_count updated_ids errors", "", ""),
    "memory_get_score": ("success memory_id", "importance_score access_count", ""),
    "memory_set_score": ("success memory_id", "previous_score new_score", ""),
    "memory_consolidate": ("success consolidated_memory_id original_count", "preserved summary_length", ""),
    "memory_manage": ("success exists", "memory", "associations metadata"),
    "memory_discover_associations": ("success association_count", "associations", "discovery_metadata"),
    "memory_move": ("success", "moved_count target_scope", "moved_items source_scope"),
    "memory_list_all": ("success total_count", "memories", "pagination_info"),
    "memory_sync": ("success operation_type", "item_count", "detailed_summary file_info processing_stats"),
    "scope_list": ("success scope_count", "scopes", "statistics"),
    "scope_suggest": (
        "success suggested_scope",
        "confidence alternatives",
        "suggestion_analysis all_alternatives reasoning",
    ),
    "session_manage": (
        "success session_id",
        "session_info action_summary",
        "session_details affected_memories",
    ),
    "scene": ("success token_count", "scene", "characters"),
}


@pytest.fixture(scope="module")
def call(stock):
    """Calls a tool on a memory of its own that holds what ``stock`` stores; the same call is made once for all tests."""
    answers = {}

    def call(name, arguments):
        made = name, json.dumps(arguments)
        if made not in answers:
            answers[made] = answer(name, arguments)
        return answers[made]

    def answer(name, arguments):
        clock = FixedClock(NOW)
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword="sqlite_bm25") as memory:
            stock(memory, "user/alice")
            context = ToolContext(memory=memory, root="user/alice", allow_scopes=True)
            return LocalToolbox(context).call(name, arguments)

    return call


def with_known_ids(value):
    """The value with the ids that were made during the call replaced by numbered ones."""
    text = json.dumps(value, ensure_ascii=False)
    numbers = {id: f"made-{number}" for number, id in enumerate(dict.fromkeys(MADE_ID.findall(text)), 1)}
    return json.loads(MADE_ID.sub(lambda found: numbers[found[0]], text))


def cases(tool_examples, name):
    return [(case or "plain", arguments) for tool, case, arguments in tool_examples if tool == name]


def at_each_level(call, name, arguments):
    return {level: call(name, arguments | {"response_level": level}) for level in LEVELS}


def test_there_is_an_example_of_every_tool(tool_examples):
    assert {name for name, _, _ in tool_examples} == set(REGISTRY)
    assert set(SPECIFIED) == set(MANAGING)


@pytest.mark.parametrize("name", MANAGING)
def test_what_a_tool_answers_at_each_level(call, tool_examples, name):
    told = {
        case: {level: output.artifact for level, output in at_each_level(call, name, arguments).items()}
        for case, arguments in cases(tool_examples, name)
    }
    snapshot = SNAPSHOTS / f"{name}.json"
    if UPDATE:
        snapshot.write_text(json.dumps(with_known_ids(told), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    assert with_known_ids(told) == json.loads(snapshot.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MANAGING)
def test_every_level_has_the_keys_of_the_one_before_and_those_specified(call, tool_examples, name):
    specified = [set(keys.split()) for keys in SPECIFIED[name]]
    for case, arguments in cases(tool_examples, name):
        outputs = at_each_level(call, name, arguments)
        keys = [set(output.artifact) for output in outputs.values()]
        if not any(output.is_error for output in outputs.values()):
            assert keys[0] <= keys[1] <= keys[2], case
        if case == "plain":
            wanted = itertools.accumulate(specified, set.union)
            assert [some - had for some, had in zip(wanted, keys, strict=True)] == [set()] * 3
            assert not (specified[1] | specified[2]) & keys[0]
            assert not specified[2] & keys[1]


@pytest.mark.parametrize("name", MANAGING)
def test_the_text_is_the_answer_as_compact_json(call, tool_examples, name):
    for _, arguments in cases(tool_examples, name):
        output = call(name, arguments)
        assert json.loads(output.content) == output.artifact
        assert output.content == json.dumps(output.artifact, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("name", REGISTRY)
def test_the_standard_level_is_what_is_answered_when_none_is_named(call, tool_examples, name):
    _, arguments = cases(tool_examples, name)[0]
    expected = call(name, arguments)
    for given in (None, "standard", "STANDARD"):
        output = call(name, arguments | {"response_level": given})
        assert with_known_ids(output.artifact) == with_known_ids(expected.artifact)


@tried_in_one("name", REGISTRY)
def test_every_tool_offers_the_response_level(name):
    assert REGISTRY[name].arguments.offered()[-1] == "response_level"


@pytest.mark.parametrize("name", REGISTRY)
def test_an_unknown_level_is_refused_by_every_tool(call, tool_examples, name):
    _, arguments = cases(tool_examples, name)[0]
    output = call(name, arguments | {"response_level": "loud"})
    assert output.is_error
    assert output.artifact["message"] == "Invalid response_level: loud. Must be one of: minimal, standard, full"


LONG = "A long story about the nightly backups of the wiki. " * 100

SINGLE = {
    "memory_store": {"content": LONG, "tags": ["ops", "backups", "wiki"]},
    "memory_search": {"query": "nightly backups", "top_k": 1},
    "memory_get": {"id": "{id}"},
    "memory_update": {"id": "{id}", "tags": ["ops"]},
    "memory_delete": {"id": "{id}"},
    "memory_list": {"limit": 1},
    "memory_get_score": {"id": "{id}"},
    "memory_set_score": {"id": "{id}", "score": 0.5},
    "memory_manage": {"operation": "get", "memory_id": "{id}"},
    "memory_discover_associations": {"memory_id": "{id}", "limit": 1},
    "memory_move": {"memory_ids": ["{id}"], "target_scope": "work/projects"},
    "memory_list_all": {"per_page": 1},
    "scope_suggest": {"content": LONG},
    "session_manage": {"action": "create"},
}


@pytest.fixture
def long_memory(clock):
    """One memory of 5,200 characters with three tags, and one like it."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        drafts = [
            SemanticMemory.new(scope="user/alice", fact=fact, tags=["ops", "backups", "wiki"], origin="tool")
            for fact in (LONG, LONG + "And another.")
        ]
        stored, _ = memory.manager.add(drafts)
        yield memory, stored.id


def single(long_memory, name, level):
    memory, id = long_memory
    arguments = json.loads(json.dumps(SINGLE[name]).replace("{id}", id))
    toolbox = LocalToolbox(ToolContext(memory=memory, root="user/alice", allow_scopes=True))
    output = toolbox.call(name, arguments | {"response_level": level})
    assert not output.is_error, output.content
    return estimate_tokens(output.content)


@pytest.mark.parametrize("name", SINGLE)
def test_about_one_memory_a_minimal_answer_stays_below_50_tokens_and_a_standard_one_below_200(long_memory, name):
    assert single(long_memory, name, "minimal") < 50
    if name not in {"memory_get", "memory_list"}:  # whose standard answers have whole contents (specification §3.3)
        assert single(long_memory, name, "standard") < 200


@pytest.mark.parametrize(
    ("name", "estimates"),
    [("memory_store", (30, 120, 500)), ("memory_search", (20, 200, 2000))],
)
def test_storing_and_searching_cost_no_more_than_is_specified(call, tool_examples, name, estimates):
    _, arguments = cases(tool_examples, name)[0]
    costs = [estimate_tokens(output.content) for output in at_each_level(call, name, arguments).values()]
    assert costs == sorted(costs)
    assert [cost for cost, most in zip(costs, estimates, strict=True) if cost > most] == []


def test_retrieve_memory_costs_next_to_nothing_at_the_minimal_level(call):
    output = call("retrieve_memory", {"query": "nightly backups", "response_level": "minimal"})
    assert json.loads(output.content) == {"success": True, "semantic_count": 4, "episodic_count": 0}
    assert estimate_tokens(output.content) < 20


def keys_at_each_level(tool_examples, name):
    """The keys each level adds, over all examples of a tool that succeed."""
    told = json.loads((SNAPSHOTS / f"{name}.json").read_text(encoding="utf-8"))
    answers = [answer for answer in told.values() if "error" not in answer["full"]]
    keys = [list(dict.fromkeys(key for answer in answers for key in answer[level])) for level in LEVELS]
    return [keys[0], [key for key in keys[1] if key not in keys[0]], [key for key in keys[2] if key not in keys[1]]]


def _table(tool_examples):
    rows = ["| tool | parameters | minimal | + standard | + full |", "|---|---|---|---|---|"]
    for name in MANAGING:
        spec = REGISTRY[name]
        parameters = [
            argument + ("¹" if argument in spec.scoped else "")
            for argument in spec.arguments.offered()
            if argument != "response_level"
        ]
        columns = [", ".join(parameters)]
        columns += [", ".join(keys) or "–" for keys in keys_at_each_level(tool_examples, name)]
        title = f"`{name}`" + (" ²" if spec.is_about_scopes else "")
        rows.append(f"| {' | '.join((title, *columns))} |")
    return "\n".join(rows)


def test_the_table_in_the_documentation_is_what_the_tools_do(tool_examples):
    if not DOCUMENTATION.exists():
        pytest.skip("the documentation is part of a checkout only")
    text = DOCUMENTATION.read_text(encoding="utf-8")
    before, rest = text.split("<!-- table -->\n", 1)
    _, after = rest.split("\n<!-- end of table -->", 1)
    expected = f"{before}<!-- table -->\n{_table(tool_examples)}\n<!-- end of table -->{after}"
    if UPDATE:
        DOCUMENTATION.write_text(expected, encoding="utf-8")
    assert DOCUMENTATION.read_text(encoding="utf-8") == expected
