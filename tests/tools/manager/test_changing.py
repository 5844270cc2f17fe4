"""Storing, changing and deleting by the manager: whole or not at all, and seen at once."""

import pytest

from memory_retrievers import AgentMemory, NotFoundError, ValidationError
from memory_retrievers.models import Category, MemoryKey, Tier
from memory_retrievers.models.management import (
    Association,
    AssociationType,
    Change,
    MemoryFilter,
    SearchMode,
    SearchRequest,
)
from memory_retrievers.testing import HashEmbedder, inside

WHERE = MemoryFilter(scope="user/1")


def key(memory):
    return MemoryKey(scope=memory.scope, id=memory.id)


def words(manager, query):
    return [hit.memory.id for hit in manager.search(SearchRequest(query, WHERE, top_k=10, mode=SearchMode.KEYWORD))]


def test_metadata_is_merged_and_tags_are_replaced(manager, draft, clock):
    (it,) = manager.add([draft("tea", tags=("a", "b"), metadata={"x": 1, "y": {"z": 1}})])
    clock.advance(days=1)
    after = manager.update(Change(it, tags=["c", "c"], metadata={"y": 2, "n": None}, category=Category.GOAL))
    assert (after.tags, after.metadata) == (("c",), {"x": 1, "y": 2, "n": None})
    assert (after.category, after.created_at, after.updated_at) == (Category.GOAL, it.created_at, clock.now())
    assert manager.find(it.id, root="user/1", scope="user/1") == after


def test_a_change_that_changes_nothing_leaves_the_time_alone(manager, draft, clock):
    (it,) = manager.add([draft("tea", tags=("a",))])
    clock.advance(days=1)
    assert manager.update(Change(it)) == manager.update(Change(it, content="tea", tags=("a",), metadata={})) == it


def test_metadata_is_merged_into_what_somebody_else_has_written_meanwhile(manager, draft):
    (stale,) = manager.add([draft("tea")])
    manager.update(Change(stale, metadata={"x": 1}))
    assert manager.update(Change(stale, metadata={"y": 2})).metadata == {"x": 1, "y": 2}


def test_a_batch_of_changes_is_embedded_once_and_may_name_a_memory_twice(clock, draft):
    batches = []

    class Counting(HashEmbedder):
        def embed_documents(self, texts):
            batches.append(len(texts))
            return super().embed_documents(texts)

    with AgentMemory.in_memory(embedder=Counting(), embedder_id="counting", clock=clock) as memory:
        manager = memory.manager
        one, two = manager.add([draft("one"), draft("two")])
        batches.clear()
        changes = [
            Change(memory=one, content="first"),
            Change(memory=two, content="second"),
            Change(memory=one, tags=("t",)),
        ]
        first, second, again = manager.update_many(changes)
        assert batches == [2]
        assert (first.fact, first.tags, again.fact, again.tags) == ("first", (), "first", ("t",))
        assert memory.get(one.id, scope=one.scope) == again
        assert memory.get(two.id, scope=two.scope) == second
        assert words(manager, "one two first second") == [one.id, two.id]
        assert memory.verify().ok


def test_a_batch_of_changes_is_whole_or_not_at_all(manager, memory, draft):
    one, two = manager.add([draft("one"), draft("two")])
    manager.delete([two])
    with pytest.raises(NotFoundError, match=two.id):
        manager.update_many([Change(memory=one, content="first"), Change(memory=two, content="second")])
    assert words(manager, "one first") == [one.id]
    assert memory.get(one.id, scope=one.scope) == one
    with pytest.raises(ValidationError, match="fact"):
        manager.update(Change(one, content="  "))


def test_an_episode_keeps_its_content(manager, memory):
    episode = memory.remember_episode(scope="user/1", summary="They met", tags=["a"])
    with pytest.raises(ValidationError, match="is an episode; only the content of facts can be updated"):
        manager.update(Change(episode, content="another"))
    with pytest.raises(ValidationError, match="category"):
        manager.update(Change(episode, category=Category.GOAL))
    assert manager.update(Change(episode, tags=["b"], metadata={"k": 1})).tags == ("b",)


def test_promotion_clears_the_time_and_other_moves_leave_it(manager, draft, clock):
    clock_end = clock.now().replace(year=2027)
    (it,) = manager.add([draft("tea", tier=Tier.SHORT_TERM, expires_at=clock_end)])
    it = manager.update(Change(it, tier=Tier.WORKING))
    assert (it.tier, it.expires_at) == (Tier.WORKING, clock_end)
    it = manager.update(Change(it, tier=Tier.LONG_TERM))
    assert (it.tier, it.expires_at) == (Tier.LONG_TERM, None)
    assert manager.update(Change(it, tier=Tier.SHORT_TERM)).expires_at is None


def test_many_are_deleted_with_every_trace(manager, memory, draft):
    stored = manager.add([draft(f"tea {number}") for number in range(5)])
    edge = Association(
        source=key(stored[0]),
        target=key(stored[4]),
        type=AssociationType.SIMILAR,
        strength=0.9,
        auto_generated=False,
        created_at=manager.now(),
    )
    assert manager.associate([edge]) == 1
    manager.delete(stored[:4])
    manager.delete(stored[:1])
    assert [hit.memory.id for hit in manager.search(SearchRequest("tea", WHERE, top_k=10))] == [stored[4].id]
    assert words(manager, "tea") == [stored[4].id]
    assert manager.associations_of(stored[4], within="user/1") == []
    report = memory.verify()
    assert report.ok
    assert (report.memories, report.passages) == (1, 1)


def test_several_operations_together_are_kept_or_undone_together(manager, memory, draft):
    (old,) = manager.add([draft("old tea")])

    def interrupted():
        with manager.transaction():
            manager.add([draft("new tea", id="new")])
            manager.delete([old])
            manager.update(Change(old, content="gone"))

    with pytest.raises(NotFoundError, match=old.id):
        interrupted()
    assert words(manager, "tea") == [old.id]
    with manager.transaction():
        manager.add([draft("new tea", id="new")])
        manager.delete([old])
    assert words(manager, "tea") == ["new"]
    assert [hit.memory.id for hit in manager.search(SearchRequest("tea", WHERE, top_k=10))] == ["new"]
    assert memory.verify().ok


def test_what_is_held_back_is_an_error_and_nothing_is_stored(clock, draft):
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, before_store=lambda record: None if "secret" in record.fact else record
    ) as memory:
        with pytest.raises(ValidationError, match="rejected this"):
            memory.manager.add([draft("tea"), draft("secret")])
        assert memory.manager.count(WHERE) == 0


def test_a_taken_id_is_refused_unless_it_is_to_be_replaced(manager, draft):
    manager.add([draft("tea", id="m")])
    with pytest.raises(ValidationError, match="already taken"):
        manager.add([draft("x"), draft("coffee", id="m")])
    assert manager.count(WHERE) == 1
    manager.add([draft("coffee", id="m")], replace=True)
    assert words(manager, "tea coffee x") == ["m"]


def test_vectors_come_in_the_order_asked_and_are_nought_for_what_is_not_searched(manager, memory, draft):
    one, two = manager.add([draft("one"), draft("two")])
    vectors = manager.vectors_of([two, one, two])
    assert vectors.shape == (3, 256)
    assert (vectors[0] == vectors[2]).all()
    assert vectors[0] @ inside(memory).store.embedder.current().embed_query("note: two") == pytest.approx(1)
    manager.delete([one])
    assert not manager.vectors_of([one, two])[0].any()
    assert len(manager.vectors_of([])) == 0
