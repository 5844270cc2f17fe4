"""What the migrations take along, and that their samples have the shape of what they stand for."""

import json
import runpy
from datetime import UTC, datetime

import pytest
from langgraph.store.base import SearchItem
from langgraph.store.memory import InMemoryStore

from memory_retrievers import AgentMemory, ValidationError
from memory_retrievers.testing import FixedClock, HashEmbedder

MARCH = datetime(2025, 3, 15, tzinfo=UTC)


def migrated(names, rows, *, times=1):
    """A memory that the rows were taken into."""
    memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(MARCH))
    for _ in range(times):
        memory.remember_many([names["fact_of"](row) for row in rows], replace=True)
    return memory


@pytest.fixture
def mem0(examples):
    return runpy.run_path(str(examples / "migrate_from_mem0.py"), run_name="example")


@pytest.fixture
def langmem(examples):
    return runpy.run_path(str(examples / "migrate_from_langmem.py"), run_name="example")


def test_the_memories_of_mem0_are_found_by_whose_they_are(run_example):
    lines = run_example("migrate_from_mem0.py").splitlines()
    assert lines[0] == "5 memories in agent/support, user/alice, user/bo"
    assert [line for line in lines if line.startswith("- [note] Eats")] == [lines[-1]]
    # the badge has expired, and how support answers bears on nobody's address
    assert sum(line.startswith("- [note") for line in lines) == 3
    assert "- [note, as of 2025-02-20] Moved from Lyon to Nantes in February" in lines
    assert "guest badge" not in "".join(lines)


def test_ids_times_labels_and_metadata_of_mem0_are_kept(mem0):
    rows = json.loads(mem0["SAMPLE"].read_text("utf-8"))["results"]
    with migrated(mem0, rows, times=2) as memory:
        assert memory.stats().facts == len(rows) == 5
        by_id = {fact.id: fact for scope in memory.scopes() for fact in memory.list(scope).memories}
    moved, allergy, badge = (
        next(fact for fact in by_id.values() if word in fact.fact) for word in ("Nantes", "peanuts", "badge")
    )
    assert set(by_id) == {row["id"] for row in rows}
    assert moved.created_at == datetime(2025, 2, 20, 18, 3, 44, 120377, tzinfo=UTC)
    assert moved.updated_at == datetime(2025, 3, 1, 7, 30, 0, 512, tzinfo=UTC)
    assert moved.metadata == {"source": "chat", "session": "s-17", "actor_id": "alice", "role": "user"}
    assert allergy.tags == ("health",)
    assert badge.expires_at == datetime(2025, 4, 1, tzinfo=UTC)  # mem0 names the last day on which it holds


def test_an_owner_with_a_slash_in_the_id_is_nobodys_child(mem0):
    assert mem0["scope_of"]({"user_id": "alice/work"}) == "user/alice%2Fwork"
    assert mem0["scope_of"]({"user_id": "alice@example.com", "agent_id": "bot"}) == "user/alice@example.com"
    assert mem0["scope_of"]({"user_id": None, "agent_id": "bot"}) == "agent/bot"


def test_the_items_of_langmem_are_found_in_their_namespaces(run_example):
    lines = run_example("migrate_from_langmem.py").splitlines()
    assert lines[0] == "4 memories in memories/alice, memories/bo"
    found = [line for line in lines if line.startswith("- [note] ")]
    assert "- [note] Alice has moved from Lyon to Nantes" in found[:2]
    assert found[2:] == ["- [note] Bo eats no meat"]  # her language bears on neither question


def test_the_sample_of_langmem_is_what_a_store_gives(langmem):
    items = json.loads(langmem["SAMPLE"].read_text("utf-8"))
    assert [SearchItem(**item).dict() for item in items] == items


def test_what_a_real_store_exports_is_taken_in(langmem):
    store = InMemoryStore()
    store.put(("memories", "a/b"), "k1", {"content": "Alice lives in Lyon"})
    store.put(("memories", "a/b"), "k2", {"kind": "Memory", "content": {"content": "Alice rides a bicycle"}})
    store.put(("settings",), "k3", {"theme": "dark"})  # not of langmem
    items = json.loads(json.dumps([item.dict() for item in store.search((), limit=10_000)]))
    with migrated(langmem, items) as memory:
        facts = {fact.id: fact for fact in memory.list("memories/a%2Fb").memories}
        assert [fact.fact for fact in memory.list("settings").memories] == ['{"theme": "dark"}']
    assert {id: fact.fact for id, fact in facts.items()} == {"k1": "Alice lives in Lyon", "k2": "Alice rides a bicycle"}
    assert facts["k1"].created_at == store.get(("memories", "a/b"), "k1").created_at


def test_an_export_that_is_broken_leaves_nothing_half_done(langmem):
    items = json.loads(langmem["SAMPLE"].read_text("utf-8"))
    items[-1]["namespace"] = [""]
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        with pytest.raises(ValidationError, match="scope"):
            memory.remember_many([langmem["fact_of"](item) for item in items], replace=True)
        assert memory.stats().facts == 0


@pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")
def test_a_collection_moves_from_an_ensemble_with_its_vectors(told):
    sections = told("migrate_from_ensemble.py")
    teal = "Teal paint is mixed from two parts blue and one part green."
    # its words are split at spaces alone, so that TEAL is not Teal, and notes without a word in common come first
    assert sections["EnsembleRetriever"][0] != teal
    assert sections["MemoryRetriever"][0] == f"{teal}, dense_rank 1, bm25_rank 1"
    assert len(sections["MemoryRetriever"]) == 2
    assert sections["with a new note"][0].startswith("TEAL-7 is mixed without green.")
