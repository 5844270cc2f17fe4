"""Finding by id and listing: nothing outside the root exists, and nothing that has expired."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_retrievers import AgentMemory, ConfigurationError, NotFoundError, ToolSettings, ValidationError
from memory_retrievers.models import MemoryKey, Tier
from memory_retrievers.models.filters import Filters
from memory_retrievers.models.management import (
    Association,
    AssociationType,
    Change,
    MemoryFilter,
    SearchMode,
    SearchRequest,
)
from memory_retrievers.testing import HashEmbedder

ROOT = MemoryFilter(scope="user/1", include_child_scopes=True, kinds="all")


def test_an_id_is_looked_for_in_its_scope_and_then_in_the_root(manager, draft):
    manager.add(
        [draft("here", id="m"), draft("below", id="m", scope="user/1/work"), draft("deep", id="d", scope="user/1/a/b")]
    )
    assert manager.find("m", root="user/1", scope="user/1").fact == "here"
    assert manager.find("m", root="user/1", scope="user/1/work").fact == "below"
    assert manager.find("d", root="user/1", scope="user/1").fact == "deep"


def test_an_id_of_several_scopes_has_to_be_told_apart(manager, draft):
    manager.add([draft("a", id="m", scope="user/1/a"), draft("b", id="m", scope="user/1/b")])
    with pytest.raises(ValidationError, match="name the one meant") as error:
        manager.find("m", root="user/1", scope="user/1")
    assert "user/1" not in str(error.value)


@pytest.mark.parametrize("scope", ["user", "user/2", "user/10", "other"])
def test_what_lies_outside_the_root_does_not_exist(manager, memory, draft, scope):
    manager.add([draft("theirs", id="m", scope=scope)])
    (mine,) = manager.add([draft("mine", id="mine")])
    edge = Association(
        source=MemoryKey(scope="user/1", id="mine"),
        target=MemoryKey(scope=scope, id="m"),
        type=AssociationType.SEMANTIC,
        strength=1.0,
        auto_generated=True,
        created_at=manager.now(),
    )
    manager.associate([edge])
    for asked_scope in ("user/1", scope):
        with pytest.raises(NotFoundError, match=r"^Memory not found: m$"):
            manager.find("m", root="user/1", scope=asked_scope)
    assert manager.select(ROOT) == [mine]
    assert manager.scopes(root="user/1") == {"user/1": 1}
    assert manager.associations_of(mine, within="user/1") == []
    for mode in SearchMode:
        assert [hit.memory.id for hit in manager.search(SearchRequest("mine theirs", ROOT, top_k=9, mode=mode))] == [
            "mine"
        ]


@pytest.mark.parametrize("id", ["", "nope", "'; DROP TABLE memories; --", "\ud800", "%", "\x00", "x" * 5000])
def test_an_unknown_id_is_not_found_whatever_it_is(manager, draft, id):
    manager.add([draft("tea")])
    with pytest.raises(NotFoundError, match="Memory not found"):
        manager.find(id, root="user/1", scope="user/1")


def test_both_kinds_and_invalidated_facts_are_found_by_id(manager, memory):
    episode = memory.remember_episode(scope="user/1", summary="They met")
    fact = memory.invalidate(memory.remember_fact(scope="user/1", fact="It was so").id, scope="user/1")
    for each in (episode, fact):
        assert manager.find(each.id, root="user/1", scope="user/1") == each
    assert manager.select(ROOT) == [episode]


def test_pages_do_not_overlap_and_come_newest_first(manager, draft, clock):
    for number in range(7):
        manager.add([draft(f"tea {number}", scope=f"user/1/{number % 2}")])
        clock.advance(seconds=number % 2)
    pages = [manager.select(ROOT, limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    everything = [memory for page in pages for memory in page]
    assert everything == manager.select(ROOT)
    assert everything == sorted(
        sorted(everything, key=lambda each: each.id), key=lambda each: -each.created_at.timestamp()
    )


def test_what_has_expired_is_invisible_at_once_and_removed_with_a_later_write(manager, memory, draft, clock):
    ends = clock.now().replace(hour=10)
    manager.add(
        [draft(f"tea {n}", id=str(n), tier=Tier.SHORT_TERM, expires_at=ends if n < 3 else None) for n in range(5)]
    )
    assert manager.count(ROOT) == 5
    clock.advance(hours=1)
    assert [each.id for each in manager.select(ROOT)] == ["3", "4"]
    assert manager.count(ROOT) == 2
    assert manager.scopes(root="user/1") == {"user/1": 2}
    for mode in SearchMode:
        assert {hit.memory.id for hit in manager.search(SearchRequest("tea", ROOT, top_k=9, mode=mode))} == {"3", "4"}
    with pytest.raises(NotFoundError):
        manager.find("0", root="user/1", scope="user/1")
    assert memory.verify().memories == 5
    manager.add([draft("coffee", id="c")])
    assert memory.verify().memories == 3
    assert memory.verify().ok


def test_expired_memories_are_cleared_out_once_in_an_interval(memory, manager, draft, clock):
    manager.add([draft("tea")])
    manager.add([draft("soon", expires_at=clock.now().replace(minute=1))])
    clock.advance(seconds=200)
    manager.add([draft("coffee")])
    assert memory.verify().memories == 3
    clock.advance(seconds=100)
    manager.add([draft("milk")])
    assert memory.verify().memories == 3


def test_short_term_memories_expire_by_themselves_only_where_that_was_asked_for(clock, draft):
    for expires in (False, True):
        settings = ToolSettings(short_term_expires=expires, short_term_ttl_seconds=60)
        with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
            memory.manager.add([draft("tea", tier=Tier.SHORT_TERM), draft("milk")])
            clock.advance(seconds=60)
            assert memory.manager.count(ROOT) == (1 if expires else 2)


def test_a_moved_memory_is_found_in_its_new_scope_alone(manager, memory, draft):
    stored = manager.add([draft("green tea", id="a"), draft("black tea", id="b", metadata={"k": 1})])
    here, there = MemoryFilter(scope="user/1"), MemoryFilter(scope="user/1/tea")
    for where in (here, there):
        for mode in SearchMode:  # remembered by every index
            manager.search(SearchRequest("tea", where, top_k=5, mode=mode))
    (moved,) = manager.move(stored[1:], target_scope="user/1/tea")
    assert moved == stored[1].model_copy(update={"scope": "user/1/tea"})
    for where, id in ((here, "a"), (there, "b")):
        for mode in SearchMode:
            assert [hit.memory.id for hit in manager.search(SearchRequest("tea", where, top_k=5, mode=mode))] == [id]
        assert [hit.memory.id for hit in memory.retrieve("tea", scope=where.scope).semantic] == [id]
    assert memory.verify().ok
    (back,) = manager.move([moved], target_scope="user/1")
    assert back == stored[1]
    assert memory.scopes() == ["user/1"]
    assert memory.verify().ok


def test_a_move_onto_a_taken_id_or_a_malformed_scope_changes_nothing(manager, memory, draft):
    one, two = manager.add([draft("one", id="1"), draft("two", id="2")])
    manager.add([draft("two there", id="2", scope="user/2")])
    with pytest.raises(ValidationError, match="'2' is already taken"):
        manager.move([one, two], target_scope="user/2")
    with pytest.raises(ValidationError, match="malformed"):
        manager.move([one], target_scope="user//2")
    assert manager.count(MemoryFilter(scope="user/1")) == 2
    assert memory.verify().ok


def test_everything_is_there_after_a_restart_and_after_an_export(tmp_path, draft, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        manager = memory.manager
        one, two = manager.add([draft("one", id="1", tags=("a",)), draft("two", id="2", scope="user/1/x")])
        edge = Association(
            source=MemoryKey(scope="user/1", id="1"),
            target=MemoryKey(scope="user/1/x", id="2"),
            type=AssociationType.CAUSAL,
            strength=0.75,
            auto_generated=True,
            created_at=manager.now(),
        )
        manager.associate([edge])
        manager.importance.set(one, score=0.25, reason="because")
        noted = manager.audit(one)
        memory.export(tmp_path / "all.jsonl")
        memory.export(tmp_path / "part.jsonl", scope="user/1/x")
    opened = [
        AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock),
        AgentMemory.import_(tmp_path / "all.jsonl", into=tmp_path / "copy", embedder=HashEmbedder(), clock=clock),
    ]
    for memory in opened:
        with memory:
            again = memory.manager.find("1", root="user/1", scope="user/1")
            assert (again.importance, again.importance_pinned, again.tags) == (0.25, True, ("a",))
            assert memory.manager.associations_of(two, within="user/1") == [edge]
            assert memory.manager.audit(one) == noted
    part = AgentMemory.import_(tmp_path / "part.jsonl", into=tmp_path / "part", embedder=HashEmbedder(), clock=clock)
    with part:
        assert part.manager.associations_of(two, within="user/1") == []
        assert part.scopes() == ["user/1/x"]


def test_an_export_with_an_association_of_nobody_is_refused(tmp_path, draft, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        memory.manager.add([draft("one", id="1"), draft("two", id="2")])
        edge = Association(
            source=MemoryKey(scope="user/1", id="1"),
            target=MemoryKey(scope="user/1", id="2"),
            type=AssociationType.TEMPORAL,
            strength=0.5,
            auto_generated=False,
            created_at=memory.manager.now(),
        )
        memory.manager.associate([edge])
        memory.export(tmp_path / "all.jsonl")
    whole = (tmp_path / "all.jsonl").read_text().partition('{"type":"checksum"')[0]
    for damaged, message in (
        (whole.replace('"target":{"scope":"user/1","id":"2"}', '"target":{"scope":"user/1","id":"3"}'), "line 4"),
        ("".join(line for line in whole.splitlines(keepends=True) if '"association"' not in line), "0 associations"),
        (whole.replace('"strength":0.5', '"strength":1.5'), "strength"),
    ):
        assert damaged != whole
        (tmp_path / "damaged.jsonl").write_text(damaged)
        with pytest.raises(ValidationError, match=message):
            AgentMemory.import_(tmp_path / "damaged.jsonl", into=tmp_path / "copy", embedder=HashEmbedder())
        assert not (tmp_path / "copy").exists()


def test_threads_may_store_search_and_move_at_once(tmp_path, draft):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        manager = memory.manager

        def work(number):
            (it,) = manager.add([draft(f"tea {number}", scope=f"user/1/{number % 3}")])
            manager.search(SearchRequest("tea", ROOT, top_k=5, mode=SearchMode.HYBRID))
            manager.importance.access([it], how="get")
            return manager.move([manager.update(Change(it, tags=("t",)))], target_scope="user/1/all")[0].id

        with ThreadPoolExecutor(8) as executor:
            ids = list(executor.map(work, range(40)))
        assert {
            each.id for each in manager.select(MemoryFilter(scope="user/1/all", filters=Filters(tags=("t",))))
        } == set(ids)
        assert memory.scopes() == ["user/1/all"]
        assert memory.verify().ok


def test_the_settings_have_the_documented_defaults_and_bounds(monkeypatch):
    settings = ToolSettings.from_environment()
    assert settings == ToolSettings()
    assert (settings.batch_max_size, settings.search_default_top_k, settings.embedding_batch_size) == (100, 10, 32)
    assert (settings.max_content_length, settings.importance_max_accesses, settings.rrf_constant) == (
        1_000_000,
        100,
        60,
    )
    assert (settings.consolidation_min_memories, settings.consolidation_max_memories) == (2, 50)
    assert (settings.access_log_rate_limit_seconds, settings.cleanup_interval_seconds) == (60, 300)
    assert settings.short_term_ttl_seconds == 3600
    for name, wrong in (
        ("BATCH_MAX_SIZE", "1001"),
        ("CLEANUP_INTERVAL_SECONDS", "59"),
        ("SEARCH_DEFAULT_TOP_K", "ten"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(f"LLM_MEMORY_{name}", wrong)
            with pytest.raises(ConfigurationError, match=name):
                ToolSettings.from_environment()
    monkeypatch.setenv("LLM_MEMORY_BATCH_MAX_SIZE", "7")
    assert ToolSettings.from_environment().batch_max_size == 7
    monkeypatch.setenv("LLM_MEMORY_CONSOLIDATION_MIN_MEMORIES", "51")
    with pytest.raises(ConfigurationError, match="consolidation_max_memories"):
        ToolSettings.from_environment()


@pytest.mark.embedded("handles of one directory share an engine; connections do not")
def test_a_store_is_shared_only_on_the_same_terms(tmp_path):
    with AgentMemory.open(tmp_path / "s", embedder=HashEmbedder(), tools=ToolSettings(batch_max_size=5)) as memory:
        assert memory.manager.settings.batch_max_size == 5
        with pytest.raises(ConfigurationError):
            AgentMemory.open(tmp_path / "s", embedder=HashEmbedder())
