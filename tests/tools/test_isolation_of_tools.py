"""What lies outside a root does not exist for its tools: it shows in no answer, and nothing they do reaches it."""

import json
import re
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, SceneEvent, SemanticMemory
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import Association, AssociationType, MemoryFilter
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext

NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
OURS, THEIRS = "user/1", "user/10"  # the one is the beginning of the other
MARK = "zebra"
MADE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

IDS = ("a1", "a2", "shared", "zebra-1", "zebra-2", "nothing", "../10", "user/10", "%", "a1' OR '1'='1", "")
SCOPES = (".", "work", "user/10", "user/10/zebra", "../10", "/user/10", "session/zebra", "user", "..", "")
MORE_SCOPES = (
    *SCOPES, "10", "../../user/10", "zebra", "work/../../10", "session/old", "%", "*", " ", "user/1", "work/",
    "user%2F10", "\u2025/10", "user/10/", "./user/10", "user\\10", "0", "user/1/../10", "user/10/session/zebra",
)  # fmt: skip
TEXTS = ("The door code is 4711", "zebra", "The zebra keeps the door code", "door", "python tutorial", "user/10/zebra")
DOCUMENTS = tuple(
    json.dumps({"memories": [{"memory_id": id, "content": "The zebra came in a file", "scope": scope}]})
    for id, scope in (("zebra-1", "../10"), ("zebra-1", "/user/10"), ("shared", "work"), ("new", "user/10/zebra"))
)
FILES = ("export.json", "../export.json", "/etc/passwd", "zebra/../../x.json", "sub/export.json")
TIMES = ("2020-01-01", "2030-01-01T00:00:00Z", "2026-03-01T09:00:00", "yesterday")
BY_NAME = {
    "id": IDS, "memory_id": IDS, "ids": IDS, "memory_ids": IDS, "session_id": ("old", "zebra", "../10", "a/b", "new"),
    "scope": SCOPES, "target_scope": SCOPES, "parent_scope": SCOPES, "current_scope": SCOPES,
    "data": DOCUMENTS, "file_path": FILES, "older_than": TIMES, "created_after": TIMES, "created_before": TIMES,
    "tags": ("ops", "zebra", "door"),
}  # fmt: skip
UNKNOWN = ("where", "filter", "root", "kinds", "allow_scopes", "user_id", "conversation_id", "scope", "include_all")


def values_of(name, schema):
    """Arguments as a model might give them: of the right type, from a pool of telling values."""
    if "anyOf" in schema:
        return st.one_of(*(values_of(name, each) for each in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return st.lists(values_of(name, schema.get("items", {})), max_size=4)
    if kind == "object" and "properties" in schema:
        return calls_of(schema)
    if kind == "object":
        return st.dictionaries(st.sampled_from(["scope", "zebra", "page"]), st.sampled_from(TEXTS), max_size=2)
    plain = {
        "string": st.sampled_from(BY_NAME.get(name, TEXTS)),
        "integer": st.integers(1, 20),
        "number": st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return plain.get(kind, st.sampled_from(TEXTS))


def calls_of(schema):
    required = set(schema.get("required", ()))
    known = {name: values_of(name, each) for name, each in schema["properties"].items()}
    return st.fixed_dictionaries(
        {name: each for name, each in known.items() if name in required},
        optional={name: each for name, each in known.items() if name not in required},
    )


def a_call(tool):
    """A call with the arguments its schema has; now and then one is nonsense, or there is one that it has not."""
    schema = tool.arguments.model_json_schema()
    schema["properties"].pop("compression", None)  # packed, the ids made on the way could not be told apart
    nonsense = st.dictionaries(
        st.sampled_from([*schema["properties"], *UNKNOWN]),
        st.sampled_from([*SCOPES, -1, [], {}]),
        min_size=1,
        max_size=1,
    )
    extra = st.integers(0, 5).flatmap(lambda dice: nonsense if dice == 0 else st.just({}))
    return st.tuples(st.just(tool.name), st.builds(lambda more, given: given | more, extra, calls_of(schema)))


ANY_CALL = st.one_of(*map(a_call, REGISTRY.values()))


def note(scope, id, fact, **fields):
    return SemanticMemory.new(scope=scope, id=id, fact=fact, origin="tool", created_at=NOW, **fields)


def fill(memory, *, with_theirs):
    """Ours; and theirs, whose every text, tag and scope is marked, and one of whose ids is also ours."""
    memory.manager.add([
        note(OURS, "a1", "The door code is 4711", tags=["door"]),
        note(OURS, "shared", "The door code of the cellar is 4712", tags=["door", "ops"]),
        note(f"{OURS}/work", "a2", "The door of the office opens at nine", tier="working"),
        note(f"{OURS}/session/old", "a3", "The old session was about doors"),
    ])  # fmt: skip
    memory.remember_episode(scope=OURS, id="e1", summary="The door was locked")
    memory.add_scene_events(OURS, [_event("shared-event", "The hero opened the door", "Hero")])
    if with_theirs:
        memory.manager.add([
            note(THEIRS, "zebra-1", "The zebra keeps the door code 4711", tags=["zebra", "door"], metadata={"zebra": 1}),
            note(THEIRS, "shared", "The zebra has a door code, too", tags=["zebra"], agent_id="zebra"),
            note("user", "a1", "Above, a zebra keeps the door code 4711", tags=["zebra"]),
            note(f"{THEIRS}/zebra", "zebra-2", "The zebra's door", tier="working"),
            note(f"{THEIRS}/session/zebra", "zebra-3", "The zebra's session"),
        ])  # fmt: skip
        memory.remember_episode(scope=THEIRS, id="zebra-e", summary="The zebra went through the door")
        for scope in (THEIRS, f"{THEIRS}/zebra", "user"):
            memory.add_scene_events(scope, [_event("shared-event", "The zebra opened the door", "Zebra")])
        memory.manager.associate([
            Association(
                source=MemoryKey(scope=THEIRS, id="zebra-1"), target=MemoryKey(scope=THEIRS, id="shared"),
                type=AssociationType.SEMANTIC, strength=0.9, auto_generated=True, created_at=NOW,
            )
        ])  # fmt: skip


def _event(id, summary, name):
    return SceneEvent(
        id=id, summary=summary, message_ids=[1], characters_involved=[name], emotional_impact={name: "glad"}
    )


def all_of(memory, scope, *, below=True):
    """Everything a scope holds, with what it is associated with."""
    seen = MemoryFilter(scope=scope, include_child_scopes=below, kinds="all", include_invalidated=True)
    found = memory.manager.select(seen)
    return [(each.model_dump(), memory.manager.associations_of(each, within="user")) for each in found]


@contextmanager
def a_world(*, with_theirs, **rules):
    with (
        tempfile.TemporaryDirectory() as directory,
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(NOW), keyword="sqlite_bm25") as memory,
    ):
        fill(memory, with_theirs=with_theirs)
        files = Path(directory) / "files"
        files.mkdir()
        yield memory, LocalToolbox(ToolContext(memory=memory, root=OURS, sync_directory=files, **rules))
        assert [each.name for each in Path(directory).iterdir()] == ["files"]


class Answers:
    """What a toolbox answered, with the ids that were made on the way replaced by numbered ones."""

    def __init__(self, toolbox):
        self.toolbox = toolbox
        self.numbers = {}

    def to(self, name, arguments):
        output = self.toolbox.call(name, arguments)
        known = [
            MADE_ID.sub(lambda found: self.numbers.setdefault(found[0], f"made-{len(self.numbers)}"), text)
            for text in (output.content, json.dumps(output.artifact, ensure_ascii=False))
        ]
        return output.is_error, *known


@pytest.mark.parametrize("kinds", ["tool", "all"])
@pytest.mark.parametrize("allow_scopes", [False, True])
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(calls=st.lists(ANY_CALL, min_size=1, max_size=6))
def test_whatever_a_model_calls_others_neither_show_nor_change(calls, allow_scopes, kinds):
    rules = {"allow_scopes": allow_scopes, "kinds": kinds}
    with (
        a_world(with_theirs=False, **rules) as (alone, toolbox_alone),
        a_world(with_theirs=True, **rules) as (together, toolbox),
    ):
        theirs, above = all_of(together, THEIRS), all_of(together, "user", below=False)
        expected, told = Answers(toolbox_alone), Answers(toolbox)
        for name, arguments in calls:
            assert told.to(name, arguments) == expected.to(name, arguments)
        assert all_of(together, THEIRS) == theirs
        assert all_of(together, "user", below=False) == above
        assert len(all_of(together, OURS)) == len(all_of(alone, OURS))


NAMING_SCOPES = [
    ("memory_store", {"content": "A new door"}, "scope"),
    ("memory_store", {"content": "A new door", "allow_duplicates": False, "duplicate_threshold": 0.1}, "scope"),
    ("memory_search", {"query": "door code", "include_child_scopes": True, "response_level": "full"}, "scope"),
    ("memory_manage", {"operation": "get", "memory_id": "shared", "response_level": "full"}, "scope"),
    ("memory_manage", {"operation": "update", "memory_id": "shared", "content": "mine now"}, "scope"),
    ("memory_manage", {"operation": "delete", "memory_id": "shared"}, "scope"),
    ("memory_sync", {"operation": "export"}, "scope"),
    ("memory_sync", {"operation": "import", "data": DOCUMENTS[2], "merge_strategy": "overwrite"}, "scope"),
    ("memory_move", {"memory_ids": ["a1"]}, "target_scope"),
    ("scope_list", {"response_level": "full"}, "parent_scope"),
    ("scope_suggest", {"content": "zebra door", "response_level": "full"}, "current_scope"),
    ("scene", {"chat_length": 5, "query": "zebra door", "response_level": "full"}, "scope"),
]


@pytest.mark.parametrize(("name", "arguments", "argument"), NAMING_SCOPES)
def test_no_path_leads_out_of_the_root(name, arguments, argument):
    with (
        a_world(with_theirs=False, allow_scopes=True, kinds="all") as (_, toolbox_alone),
        a_world(with_theirs=True, allow_scopes=True, kinds="all") as (together, toolbox),
    ):
        theirs, above = all_of(together, THEIRS), all_of(together, "user", below=False)
        expected, told = Answers(toolbox_alone), Answers(toolbox)
        for scope in MORE_SCOPES:
            assert told.to(name, arguments | {argument: scope}) == expected.to(name, arguments | {argument: scope})
        assert all_of(together, THEIRS) == theirs
        assert all_of(together, "user", below=False) == above


def test_every_argument_that_names_a_scope_is_among_those():
    naming = {(name, argument) for name, tool in REGISTRY.items() for argument in tool.scoped}
    assert naming == {(name, argument) for name, _, argument in NAMING_SCOPES}


BY_ID = [
    ("memory_get", {"id": "{id}"}),
    ("memory_update", {"id": "{id}", "content": "mine now"}),
    ("memory_delete", {"id": "{id}"}),
    ("memory_delete", {"ids": ["{id}"]}),
    ("memory_batch_update", {"updates": [{"id": "{id}", "tags": ["mine"]}], "on_error": "continue"}),
    ("memory_get_score", {"id": "{id}"}),
    ("memory_set_score", {"id": "{id}", "score": 1.0}),
    ("memory_consolidate", {"memory_ids": ["a1", "{id}"], "preserve_originals": False}),
    ("memory_manage", {"operation": "get", "memory_id": "{id}"}),
    ("memory_manage", {"operation": "update", "memory_id": "{id}", "content": "mine now"}),
    ("memory_manage", {"operation": "delete", "memory_id": "{id}"}),
    ("memory_discover_associations", {"memory_id": "{id}"}),
    ("memory_move", {"memory_ids": ["{id}"], "target_scope": "."}),
]


@pytest.mark.parametrize("level", ["minimal", "standard", "full"])
@pytest.mark.parametrize(("name", "arguments"), BY_ID)
@pytest.mark.parametrize("id", ["zebra-1", "zebra-2", "zebra-e"])
def test_an_id_of_another_root_is_answered_like_one_that_was_never_given(name, arguments, id, level):
    with a_world(with_theirs=True, allow_scopes=True, kinds="all") as (memory, toolbox):
        before = all_of(memory, "user")

        def answer(id):
            given = json.loads(json.dumps(arguments | {"response_level": level}).replace("{id}", id))
            return toolbox.call(name, given).content.replace(id, "{id}")

        assert answer(id) == answer("never-given")
        assert "Memory not found" in answer(id) or '"deleted_count":0' in answer(id) or '"exists":false' in answer(id)
        assert all_of(memory, "user") == before


def test_every_tool_that_takes_an_id_is_among_those():
    taking = {
        name
        for name, tool in REGISTRY.items()
        if {"id", "ids", "memory_id", "memory_ids", "updates"} & set(tool.arguments.model_fields)
    }
    assert taking == {name for name, _ in BY_ID}


@pytest.mark.parametrize("allow_scopes", [False, True])
def test_an_id_that_others_have_too_is_ours(allow_scopes):
    with a_world(with_theirs=True, allow_scopes=allow_scopes) as (memory, toolbox):
        theirs = all_of(memory, THEIRS)
        assert toolbox.call("memory_get", {"id": "shared"}).artifact["content"].endswith("4712")
        assert toolbox.call("memory_delete", {"id": "shared"}).artifact["deleted_ids"] == ["shared"]
        assert toolbox.call("memory_get", {"id": "shared"}).is_error
        assert all_of(memory, THEIRS) == theirs


def test_deleting_by_condition_stops_at_the_root_and_at_what_tools_have_stored():
    with a_world(with_theirs=True) as (memory, toolbox):
        theirs, above = all_of(memory, THEIRS), all_of(memory, "user", below=False)
        told = toolbox.call("memory_delete", {"memory_tier": "long_term", "older_than": "2030-01-01"}).artifact
        assert MARK not in json.dumps(told)
        assert {each["id"] for each, _ in all_of(memory, OURS, below=False)} == {"e1", "shared-event"}
        assert all_of(memory, THEIRS) == theirs
        assert all_of(memory, "user", below=False) == above
