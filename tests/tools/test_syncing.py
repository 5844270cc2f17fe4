import base64
import gzip
import json
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import EpisodicMemory
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.store import auto_associate
from memory_retrievers.tools.tool import ToolContext

from .conftest import everything, exported, imported, sync

STRATEGIES = ["skip_duplicates", "overwrite", "create_versions", "merge_metadata"]


@pytest.fixture
def other(clock):
    """Another store with the same root."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        yield ToolContext(memory=memory, root="user/alice", allow_scopes=True)


@pytest.fixture
def rich(alice, keep, clock):
    """Memories that differ in every field, two of them associated, and one of somebody else."""
    keep(
        alice, "the nightly backup of the database runs at two", id="m1", scope="work/infra", tags=["ops", "db"],
        metadata={"k": {"nested": [1, None]}}, category="goal", tier="short_term", content_type="code",
        agent_id="agent", importance=0.25, importance_pinned=True, access_count=3, keywords=["night"],
        last_accessed_at=datetime(2026, 2, 1, tzinfo=UTC), consolidated_from=("a", "b"),
        created_at=datetime(2025, 1, 1, 0, 0, 0, 123456, tzinfo=UTC), updated_at=datetime(2025, 2, 1, tzinfo=UTC),
        expires_at=datetime(2027, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    clock.advance(minutes=1)
    second = keep(alice, "the nightly backup of the database runs at two – ünïcödé", id="m2", scope="work/infra")
    auto_associate(alice, second)
    keep(alice, "green tea", id="m3")
    keep(ToolContext(memory=alice.memory, root="user/bob"), "a secret of bob", id="bobs")
    return alice


def test_an_export_says_what_it_leaves_out(alice, keep):
    keep(alice, "green tea", id="m3")
    assert "left_out" not in sync(alice, "export")
    alice.memory.remember_episode(scope="user/alice/work", summary="They drank tea.")
    assert sync(alice, "export")["left_out"] == "1 episode: ask for them with kind='all'"
    assert sync(alice, "export", kind="episodes")["left_out"] == "1 fact: ask for them with kind='all'"
    assert "left_out" not in sync(alice, "export", kind="all")
    alice.memory.add_messages("user/alice", [{"role": "user", "content": "More tea?"}])
    alice.memory.add_messages("user/bob", [{"role": "user", "content": "No tea."}])
    told = sync(alice, "export")
    still_open = "1 conversation not yet closed: flush, or AgentMemory.export"
    assert told["left_out"] == f"1 episode: ask for them with kind='all'; {still_open}"
    assert told["item_count"] == 1
    told = sync(alice, "export", kind="all")
    assert (told["left_out"], told["item_count"]) == (still_open, 2)
    told = sync(alice, "import", data=told["data"], kind="facts")
    assert told["left_out"] == "1 episode of the document"


def test_the_document_is_written_byte_for_byte(alice, keep, clock):
    keep(alice, "Grüße", id="m1", scope="work", tags=["ops"], metadata={"k": 1})
    clock.advance(days=1)
    assert (
        sync(alice, "export")["data"]
        == """{
  "format_version": "1.0",
  "export_timestamp": "2026-03-02T09:00:00Z",
  "export_scope": null,
  "total_memories": 1,
  "include_associations": true,
  "memories": [
    {
      "memory_id": "m1",
      "content": "Grüße",
      "scope": "work",
      "metadata": {
        "k": 1
      },
      "tags": [
        "ops"
      ],
      "category": "note",
      "created_at": "2026-03-01T09:00:00Z",
      "updated_at": "2026-03-01T09:00:00Z",
      "associations": []
    }
  ],
  "associations": []
}"""
    )


def test_an_export_at_each_level(rich, tmp_path):
    assert sync(rich, "export", file_path="all.json", response_level="minimal") == {
        "success": True,
        "operation_type": "export",
    }
    standard = sync(rich, "export", file_path="all.json")
    assert standard == {"success": True, "operation_type": "export", "item_count": 3, "file_path": "all.json"}
    full = sync(rich, "export", file_path="all.json", response_level="full")
    assert full["detailed_summary"] == {"exported": 3, "associations": 1}
    assert full["file_info"] == {
        "file_path": "all.json",
        "size_bytes": (tmp_path / "all.json").stat().st_size,
        "compressed": False,
        "format_version": "1.0",
    }
    assert full["processing_stats"] == {"total_memories": 3, "export_timestamp": "2026-03-01T09:01:00Z"}
    assert "data" not in full
    assert json.loads((tmp_path / "all.json").read_text())["total_memories"] == 3


def test_an_import_at_each_level(rich, other, keep):
    data = sync(rich, "export")["data"]
    assert sync(other, "import", data=data, response_level="minimal") == {"success": True, "operation_type": "import"}
    assert sync(other, "import", data=data) == {"success": True, "operation_type": "import", "item_count": 0}
    full = imported(other, data)
    assert full["detailed_summary"] == {
        "imported": 0,
        "skipped": 3,
        "overwritten": 0,
        "merged": 0,
        "errors": 0,
        "error_details": [],
    }
    assert full["processing_stats"] == {"total_memories": 3, "associations": 0, "merge_strategy": "skip_duplicates"}
    assert full["file_info"] == {"size_bytes": len(data.encode())}


@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_was_exported_is_imported_the_same(rich, other, tmp_path, strategy, as_file, compression):
    if as_file:
        sync(rich, "export", file_path="deep/all.txt", compression=compression)
        context = ToolContext(memory=other.memory, root="user/alice", allow_scopes=True, sync_directory=tmp_path)
        sync(context, "import", file_path="deep/all.txt", merge_strategy=strategy)
    else:
        data = sync(rich, "export", compression=compression)["data"]
        assert imported(other, data, merge_strategy=strategy)["processing_stats"]["associations"] == 1
    assert everything(other) == everything(rich)


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "merge_metadata"])
def test_what_is_there_already_stays_the_same(rich, strategy):
    before = everything(rich)
    imported(rich, exported(rich), merge_strategy=strategy)
    assert everything(rich) == before


def test_overwriting_by_the_same_keeps_the_history_of_a_fact(alice, keep, clock):
    keep(alice, "Alice lives in Lyon", id="m1")
    clock.advance(days=1)
    alice.memory.update("m1", scope="user/alice", fact="Alice lives in Nantes")
    document = exported(alice)
    before = alice.memory.history("m1", scope="user/alice")
    answer = imported(alice, document, merge_strategy="overwrite")
    assert answer["detailed_summary"]["overwritten"] == 1
    assert alice.memory.history("m1", scope="user/alice") == before
    assert [version.fact for version in before] == ["Alice lives in Lyon", "Alice lives in Nantes"]


def test_versions_stand_beside_what_is_there_with_their_associations(rich):
    answer = imported(rich, exported(rich, scope="work"), merge_strategy="create_versions")
    assert answer["detailed_summary"]["imported"] == 2
    memories, edges = everything(rich)
    assert [memory.id for memory in memories] == ["m3", "m1", "m1_v20260301_090100", "m2", "m2_v20260301_090100"]
    assert memories[2].created_at == memories[1].created_at
    pairs = {frozenset((edge.source.id, edge.target.id)) for edge in edges}
    assert pairs == {frozenset(("m1", "m2")), frozenset(("m1_v20260301_090100", "m2_v20260301_090100"))}
    imported(rich, exported(rich, scope="work"), merge_strategy="create_versions")
    assert "m1_v20260301_090100_2" in {memory.id for memory in everything(rich)[0]}


def test_overwriting_leaves_one_memory_with_its_other_associations(alice, keep):
    keep(alice, "the nightly backup of the database runs at two", id="m1")
    keep(alice, "the nightly backup of the database runs at three", id="m2")
    auto_associate(alice, alice.memory.get("m2", scope="user/alice"))
    document = {"memories": [{"memory_id": "m1", "content": "changed", "scope": ".", "tags": ["new"], "metadata": {}}]}
    answer = imported(alice, document, merge_strategy="overwrite")
    assert answer["detailed_summary"]["overwritten"] == 1
    memories, edges = everything(alice)
    assert [(memory.id, memory.fact, memory.tags) for memory in memories] == [
        ("m1", "changed", ("new",)),
        ("m2", "the nightly backup of the database runs at three", ()),
    ]
    assert len(edges) == 1


def test_merging_adds_metadata_and_tags_and_nothing_else(alice, keep):
    keep(alice, "old", id="m1", metadata={"a": 1, "b": 1}, tags=["x"])
    line = {"memory_id": "m1", "content": "new", "scope": ".", "metadata": {"b": 2, "c": 3}, "tags": ["x", "y"]}
    assert imported(alice, {"memories": [line]}, merge_strategy="merge_metadata")["detailed_summary"]["merged"] == 1
    now = alice.memory.get("m1", scope="user/alice")
    assert (now.fact, now.metadata, now.tags) == ("old", {"a": 1, "b": 2, "c": 3}, ("x", "y"))


def test_skipping_keeps_the_old_one(alice, keep):
    old = keep(alice, "old", id="m1")
    imported(alice, {"memories": [{"memory_id": "m1", "content": "new", "scope": "."}]})
    assert everything(alice)[0] == [old]


def test_a_scope_is_exported_with_those_below_it(rich):
    document = exported(rich, scope="work")
    assert document["export_scope"] == "work"
    assert [(each["memory_id"], each["scope"]) for each in document["memories"]] == [
        ("m2", "work/infra"),
        ("m1", "work/infra"),
    ]


def test_associations_lead_to_exported_memories_only_and_can_be_left_out(rich, keep):
    auto_associate(
        rich, keep(rich, "the nightly backup of the database runs at two today", id="m4", scope="work/infra")
    )
    rich.manager.move([rich.memory.get("m4", scope="user/alice/work/infra")], target_scope="user/alice/home")
    document = exported(rich, scope="work")
    (edge,) = document["associations"]
    assert (edge["source_id"], edge["target_id"], edge["association_type"]) == ("m2", "m1", "semantic")
    assert edge["auto_generated"] is True
    assert [each["associations"] for each in document["memories"]] == [["m1"], ["m2"]]
    bare = exported(rich, scope="work", include_associations=False)
    assert "associations" not in bare
    assert [each["associations"] for each in bare["memories"]] == [[], []]


def test_a_prefix_puts_everything_below_it(rich, other):
    imported(other, exported(rich), scope="from/alice/")
    assert [memory.scope for memory in everything(other)[0]] == [
        "user/alice/from/alice",
        "user/alice/from/alice/work/infra",
        "user/alice/from/alice/work/infra",
    ]
    assert len(everything(other)[1]) == 1


def test_what_another_program_wrote_needs_only_content_and_is_stored_once(other):
    document = {
        "memories": [
            {
                "content": "green tea",
                "category": None,
                "tags": None,
                "unknown": 1,
                "origin": "book",
                "last_confirmed_at": "?",
            }
        ]
    }
    imported(other, document)
    assert imported(other, document)["detailed_summary"]["skipped"] == 1
    (memory,) = everything(other)[0]
    assert (memory.fact, memory.scope, str(memory.origin)) == ("green tea", "user/alice", "tool")


def test_an_export_names_nothing_outside_the_root_and_no_episode(rich):
    rich.memory.remember_episode(scope="user/alice", summary="They met.", messages=[])
    everything_of_alice = ToolContext(memory=rich.memory, root="user/alice")
    text = sync(ToolContext(memory=rich.memory, root="user/alice", kinds="all"), "export")["data"]
    for said in (text, sync(everything_of_alice, "export")["data"]):
        assert "bob" not in said
        assert "user/" not in said
        assert "They met" not in said


@pytest.mark.parametrize("scope", ["..", "../bob", "work/../../bob", "/bob", "a//b", "", " ", "a/" * 10 + "b"])
def test_no_scope_of_a_document_leads_out_of_the_root(alice, keep, scope):
    bob = ToolContext(memory=alice.memory, root="user/bob")
    keep(bob, "untouched", id="m1")
    lines = [{"memory_id": "m1", "content": "x", "scope": scope}, {"memory_id": "ok", "content": "fine", "scope": "."}]
    answer = imported(alice, {"memories": lines}, merge_strategy="overwrite")
    (error,) = answer["detailed_summary"]["error_details"]
    assert (error["index"], error["memory_id"]) == (0, "m1")
    assert [memory.id for memory in everything(alice)[0]] == ["ok"]
    assert [memory.fact for memory in everything(bob)[0]] == ["untouched"]


@pytest.mark.parametrize("scope", ["..", "../bob", "/bob", "a//b"])
@pytest.mark.parametrize("operation", ["export", "import"])
def test_no_scope_of_an_argument_leads_out_of_the_root(alice, operation, scope):
    arguments = {"data": '{"memories": [{"content": "x"}]}'} if operation == "import" else {}
    with pytest.raises(ValidationError):
        sync(alice, operation, scope=scope, **arguments)
    assert everything(alice)[0] == []


def test_associations_of_a_document_join_only_its_own_memories(alice, keep):
    keep(alice, "there", id="there")
    keep(ToolContext(memory=alice.memory, root="user/bob"), "bobs", id="bobs")
    edges = [
        {"source_id": "m1", "target_id": "there", "strength": 0.9},
        {"source_id": "m1", "target_id": "bobs", "target_scope": "../bob", "strength": 0.9},
        {"source_id": "m1", "target_id": "m1", "strength": 0.9},
        {"source_id": "m1", "target_id": "m2", "strength": 7},
        {"source_id": "m1", "target_id": "m2", "strength": 0.5, "association_type": "temporal"},
        "nonsense",
    ]
    lines = [{"memory_id": id, "content": id, "scope": "."} for id in ("m1", "m2")]
    answer = imported(alice, {"memories": lines, "associations": edges})
    assert answer["processing_stats"]["associations"] == 1
    (edge,) = everything(alice)[1]
    assert ({edge.source.id, edge.target.id}, str(edge.type), edge.strength) == ({"m1", "m2"}, "temporal", 0.5)


def test_an_episode_is_not_overwritten(alice):
    alice.memory.remember_episode(scope="user/alice", summary="They met.", messages=[], id="m1")
    with pytest.raises(ValidationError, match="episode"):
        imported(alice, {"memories": [{"memory_id": "m1", "content": "x", "scope": "."}]}, merge_strategy="overwrite")
    assert isinstance(alice.memory.get("m1", scope="user/alice"), EpisodicMemory)


def test_one_bad_memory_does_not_stop_the_others(alice):
    lines = [
        {"memory_id": "m1", "content": "fine", "scope": "."},
        {"memory_id": "m2", "content": "x", "tags": [f"t{number}" for number in range(101)], "scope": "."},
        {"memory_id": "m3", "content": "x", "category": "weather", "scope": "."},
        {"memory_id": "m1", "content": "twice", "scope": "."},
        {"memory_id": "m5", "content": "late", "scope": ".", "expires_at": "2020-01-01"},
        {"memory_id": "m6", "content": "x", "scope": ".", "created_at": "yesterday"},
    ]
    summary = imported(alice, {"memories": lines})["detailed_summary"]
    assert (summary["imported"], summary["skipped"], summary["errors"]) == (1, 1, 4)
    assert [error["index"] for error in summary["error_details"]] == [1, 2, 3, 5]
    assert [memory.fact for memory in everything(alice)[0]] == ["fine"]


def test_it_fails_if_nothing_can_be_taken_in(alice):
    arguments = {
        "operation": "import",
        "data": '{"memories": [{"content": "x", "scope": ".."}]}',
        "response_level": "full",
    }
    answer = LocalToolbox(alice).call("memory_sync", arguments).artifact
    assert answer["success"] is False
    assert answer["message"].startswith("Nothing could be imported; memory 0: ")
    assert answer["details"]["errors"][0]["index"] == 0


@pytest.mark.parametrize(
    "data",
    [
        "[]", "{}", '{"memories": {}}', '{"memories": [{"content": " "}]}', '{"memories": [{}]}', '{"memories": [1]}',
        '{"memories": [], "format_version": "9"}', '{"memories": [], "associations": {}}', "{", "", "no packed text",
        '{"memories": [{"content": "ok"}, {"content": 1}]}', base64.b64encode(b"no gzip").decode(),
        base64.b64encode(gzip.compress(b"\xff\xfe", mtime=0)).decode(), base64.b64encode(gzip.compress(b"x" * 99, mtime=0)[:-9]).decode(),
        '{"memories": ' + "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused_whole(alice, data):
    with pytest.raises(ValidationError):
        sync(alice, "import", data=data)
    assert everything(alice)[0] == []


def test_without_validation_what_has_no_content_is_only_left_out(alice):
    data = {"memories": [{"content": "ok"}, {"content": 1}, "x"]}
    for name in ("validate", "validate_data"):
        assert imported(alice, data, **{name: False})["detailed_summary"]["errors"] == 2
    with pytest.raises(ValidationError, match="memory 1 has no content"):
        imported(alice, data)


def test_an_import_needs_one_source(alice):
    for arguments in ({}, {"data": "{}", "file_path": "x.json"}):
        with pytest.raises(ValidationError, match="needs either file_path or data"):
            sync(alice, "import", **arguments)


def test_an_unknown_operation_or_strategy_is_named(alice):
    with pytest.raises(ValidationError, match=r"^Invalid operation: explode\. Must be one of: export, import$"):
        sync(alice, "explode")
    with pytest.raises(ValidationError, match=r"^Invalid merge_strategy: explode\."):
        sync(alice, "import", data="{}", merge_strategy="explode")


def test_an_import_that_fails_half_way_leaves_nothing(tmp_path, clock, keep):
    calls = []

    def embed(texts):
        calls.append(texts)
        if any("fatal" in text for text in texts):
            raise RuntimeError("the embedder died")
        return [[1.0, 0.0] for _ in texts]

    with AgentMemory.in_memory(embedder=embed, embedder_id="fragile", clock=clock) as memory:
        context = ToolContext(memory=memory, root="user/alice", allow_scopes=True)
        keep(context, "old", id="m1")
        lines = [
            {"memory_id": "m1", "content": "new", "scope": "."},
            {"memory_id": "m2", "content": "fatal", "scope": "."},
        ]
        with pytest.raises(Exception, match="embedder"):
            imported(context, {"memories": lines}, merge_strategy="overwrite")
        assert [memory.fact for memory in everything(context)[0]] == ["old"]


lines = st.fixed_dictionaries(
    {"content": st.text(min_size=1, max_size=30).filter(str.strip), "scope": st.sampled_from([".", "work", "work/a"])},
    optional={
        "memory_id": st.text(min_size=1, max_size=5).filter(str.strip),
        "tags": st.lists(st.text(max_size=5), max_size=3),
        "metadata": st.dictionaries(
            st.text(max_size=3), st.none() | st.integers(-5, 5) | st.text(max_size=3), max_size=2
        ),
        "importance_score": st.floats(0, 1),
        "created_at": st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1)).map(datetime.isoformat),  # noqa: DTZ001
    },
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(lines, max_size=5), st.sampled_from(STRATEGIES))
def test_whatever_was_imported_is_exported_and_imported_the_same(memories, strategy):
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    with (
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as one,
        AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as two,
    ):
        first, second = (ToolContext(memory=memory, root="r", allow_scopes=True) for memory in (one, two))
        sync(first, "import", data=json.dumps({"memories": memories}))
        sync(second, "import", data=sync(first, "export")["data"], merge_strategy=strategy)
        assert everything(second) == everything(first)


def test_merging_keeps_to_the_limits_of_one_memory(alice, keep):
    keep(alice, "old", id="m1", tags=[f"a{number}" for number in range(60)], metadata={"a": "x" * 600_000})
    for more in ({"tags": [f"b{number}" for number in range(60)]}, {"metadata": {"b": "x" * 600_000}}):
        lines = [{"memory_id": "m1", "content": "new", "scope": "."} | more, {"content": f"fine with {more.keys()}"}]
        summary = imported(alice, {"memories": lines}, merge_strategy="merge_metadata")["detailed_summary"]
        assert (summary["imported"], summary["merged"], summary["errors"]) == (1, 0, 1)
        assert summary["error_details"][0]["memory_id"] == "m1"
    now = alice.memory.get("m1", scope="user/alice")
    assert (len(now.tags), set(now.metadata)) == (60, {"a"})


def test_no_count_of_accesses_comes_in_that_could_not_be_counted_on(alice):
    lines = [{"content": "endless", "access_count": 2**63 - 1}, {"content": "many", "access_count": 2**53 - 1}]
    assert imported(alice, {"memories": lines})["detailed_summary"]["errors"] == 1
    toolbox = LocalToolbox(alice)
    for _ in range(2):
        assert [hit["content"] for hit in toolbox.call("memory_search", {"query": "many"}).artifact["results"]] == [
            "many"
        ]
