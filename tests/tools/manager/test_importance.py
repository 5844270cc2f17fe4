"""Importance follows use (specification §3.5), is pinned by hand, and leaves notes in the audit."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, NotFoundError, ValidationError
from memory_retrievers.models.management import Change
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.manager.importance import importance_of


@tried_in_one(
    "count, days, expected",
    [
        (0, 0, 0.6),
        (1, 0, 0.604),
        (12, 0, 0.648),
        (12, 30, 0.2687),
        (1, 60, 0.0852),
        (50, 15, 0.5639),
        (100, 0, 1.0),
        (200, 90, 0.4299),
    ],
)
def test_the_formula_gives_the_golden_values(count, days, expected):
    assert importance_of(count, days) == expected


@given(count=st.integers(0, 10**6), days=st.floats(0, 10**6), limit=st.integers(1, 1000))
def test_importance_lies_between_0_and_1_and_falls_with_time(count, days, limit):
    now = importance_of(count, days, max_accesses=limit)
    assert 0 <= now <= 1
    assert (
        importance_of(count, days + 1, max_accesses=limit) <= now <= importance_of(count + 1, days, max_accesses=limit)
    )


def test_a_new_memory_has_half_until_its_first_access(manager, draft, clock):
    (new,) = manager.add([draft("tea")])
    assert (new.importance, new.access_count, new.last_accessed_at) == (0.5, 0, None)
    clock.advance(days=90)
    assert manager.importance.current(new).importance == 0.5


def test_every_access_counts_once_and_moves_importance(manager, draft, clock):
    (new,) = manager.add([draft("tea")])
    for how in ("get", "search", "get"):
        (new,) = manager.importance.access([new], how=how)
    assert (new.access_count, new.last_accessed_at, new.importance) == (3, clock.now(), importance_of(3, 0))
    assert new == manager.find(new.id, root="user/1", scope="user/1")
    assert new.updated_at < clock.now() or new.updated_at == new.created_at


def test_asking_for_the_score_is_no_access_and_sees_time_pass(manager, draft, clock):
    (accessed,) = manager.importance.access(manager.add([draft("tea")]), how="get")
    clock.advance(days=60)
    scored = manager.importance.current(accessed)
    assert scored.importance == importance_of(1, 60) == 0.0852
    assert (scored.access_count, scored.last_accessed_at) == (1, accessed.last_accessed_at)
    assert manager.find(scored.id, root="user/1", scope="user/1").importance == 0.0852


def test_after_a_hundred_accesses_a_memory_is_important_and_after_sixty_days_no_longer(manager, draft, clock):
    (it,) = manager.add([draft("tea")])
    for _ in range(100):
        (it,) = manager.importance.access([it], how="get")
    assert manager.importance.current(it).importance > 0.8
    clock.advance(days=60)
    (other,) = manager.add([draft("coffee")])
    (other,) = manager.importance.access([other], how="get")
    clock.advance(days=60)
    assert manager.importance.current(other).importance < 0.3


def test_a_score_set_by_hand_stays_until_it_is_cleared(manager, memory, draft, clock):
    (it,) = manager.add([draft("tea")])
    pinned = manager.importance.set(it, score=0.9, reason="it matters")
    assert (pinned.importance, pinned.importance_pinned) == (0.9, True)
    (accessed,) = manager.importance.access([pinned], how="get")
    clock.advance(days=20)
    assert manager.importance.current(accessed).importance == 0.9
    cleared = manager.importance.clear(accessed)
    assert (cleared.importance, cleared.importance_pinned) == (importance_of(1, 20), False)
    assert [(str(entry.type), entry.old, entry.new, entry.reason) for entry in manager.audit(it)] == [
        ("score", 0.5, 0.9, "it matters"),
        ("get", 0.9, 0.9, None),
    ]


def test_nought_reads_back_as_nought(manager, draft):
    (it,) = manager.add([draft("tea")])
    assert manager.importance.set(it, score=0, reason="").importance == 0.0
    assert manager.importance.current(it).importance == 0.0
    assert manager.find(it.id, root="user/1", scope="user/1").importance == 0.0


@pytest.mark.parametrize("score", [1.5, -0.1, float("nan"), True, "0.5", None])
def test_a_score_outside_0_to_1_is_refused(manager, memory, draft, score):
    (it,) = manager.add([draft("tea")])
    with pytest.raises(ValidationError, match=r"between 0\.0 and 1\.0"):
        manager.importance.set(it, score=score, reason="")
    assert manager.audit(it) == []


def test_a_memory_that_is_gone_has_no_score(manager, draft):
    (it,) = manager.add([draft("tea")])
    manager.delete([it])
    with pytest.raises(NotFoundError, match=it.id):
        manager.importance.set(it, score=0.5, reason="")
    with pytest.raises(NotFoundError, match=it.id):
        manager.importance.current(it)
    assert manager.importance.access([it], how="get") == [it]


def test_the_audit_takes_one_access_per_way_and_minute(manager, memory, draft, clock):
    (it,) = manager.add([draft("tea")])
    for _ in range(3):
        (it,) = manager.importance.access([it], how="get")
        (it,) = manager.importance.access([it], how="search")
        clock.advance(seconds=30)
    assert it.access_count == 6
    assert [str(entry.type) for entry in manager.audit(it)] == ["get", "search", "get", "search"]


def test_what_the_audit_noted_a_month_ago_is_dropped(manager, memory, draft, clock):
    (it,) = manager.importance.access(manager.add([draft("tea")]), how="get")
    clock.advance(days=31)
    manager.importance.access([it], how="search")
    assert [str(entry.type) for entry in manager.audit(it)] == ["search"]


def test_accesses_from_many_threads_are_all_counted(tmp_path, draft):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        (it,) = memory.manager.add([draft("tea")])
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(lambda _: memory.manager.importance.access([it], how="get"), range(40)))
        assert memory.get(it.id, scope=it.scope).access_count == 40


def test_a_store_that_is_only_looked_into_counts_no_accesses_and_refuses_writes(tmp_path, draft, clock):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        (it,) = memory.manager.importance.access(memory.manager.add([draft("tea")]), how="get")
    clock.advance(days=60)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock, read_only=True) as memory:
        manager = memory.manager
        assert manager.importance.access([it], how="get") == [it]
        assert manager.importance.current(it).importance == importance_of(1, 60)
        assert manager.find(it.id, root=it.scope, scope=it.scope) == it
        for write in (
            lambda: manager.add([draft("coffee")]),
            lambda: manager.update(Change(it, content="coffee")),
            lambda: manager.delete([it]),
            lambda: manager.move([it], target_scope="user/2"),
            lambda: manager.importance.set(it, score=1, reason=""),
        ):
            with pytest.raises(ValueError, match="read-only"):
                write()


def test_what_was_noted_long_ago_is_dropped_when_the_tools_next_write(manager, memory, draft, clock):
    """Case D27: a log older than 30 days is cleaned."""
    (it,) = manager.add([draft("tea")])
    it = manager.importance.set(it, score=0.9, reason="a whim")
    clock.advance(days=29)
    manager.add([draft("coffee")])
    assert [entry.reason for entry in manager.audit(it)] == ["a whim"]
    clock.advance(days=2)
    manager.add([draft("cocoa")])
    assert manager.audit(it) == []
