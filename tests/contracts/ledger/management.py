"""A ledger lists memories by filter, keeps their use, moves them, and associates pairs of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.samples import (
    BELOW,
    BESIDE,
    NOW,
    SCOPE,
    add,
    at_once,
    episode,
    exploring,
    fact,
    facts_in,
    fresh_scope,
    review,
)
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, Category, ContentType, EpisodicMemory, Kind, MemoryKey, Origin, Tier
from memory_retrievers.models.filters import Filters
from memory_retrievers.models.management import Association, AssociationType, AuditEntry, AuditType, MemoryFilter
from memory_retrievers.models.selection import Selection

_SECOND = timedelta(seconds=1)
_TAGS = ("a", "b", '"', "ä")
_ALL = MemoryFilter(scope=SCOPE, include_child_scopes=True, kinds="all")

_DETAILS = st.fixed_dictionaries(
    {
        "tier": st.sampled_from(Tier),
        "tags": st.lists(st.sampled_from(_TAGS), unique=True).map(tuple),
        "content_type": st.sampled_from(ContentType),
        "origin": st.sampled_from([Origin.TOOL, Origin.API]),
        "category": st.sampled_from([Category.NOTE, Category.GOAL]),
        "created_at": st.integers(0, 4).map(lambda seconds: NOW + seconds * _SECOND),
        "expires_at": st.sampled_from([None, NOW, NOW + _SECOND]),
        "invalid_at": st.sampled_from([None, None, NOW]),
    }
)
_FILTERS = st.fixed_dictionaries(
    {
        "include_child_scopes": st.booleans(),
        "kinds": st.sampled_from(["tool", "all"]),
        "tier": st.none() | st.sampled_from(Tier),
        "filters": st.lists(st.sampled_from(_TAGS), max_size=2).map(lambda tags: Filters(tags=tuple(tags))),
        "content_type": st.none() | st.sampled_from(ContentType),
        "created_after": st.none() | st.just(NOW + _SECOND),
        "created_before": st.none() | st.just(NOW + 3 * _SECOND),
        "ids": st.none() | st.just(("m0", "m2", "m4")),
        "include_invalidated": st.booleans(),
    }
)


def _key(memory: AnyMemory) -> MemoryKey:
    return MemoryKey(scope=memory.scope, id=memory.id)


def _lets_through(asked: MemoryFilter, memory: AnyMemory) -> bool:
    """The filter, told again in Python."""
    in_scope = memory.scope == asked.scope or (
        asked.include_child_scopes and memory.scope.startswith(f"{asked.scope}/")
    )
    return (
        in_scope
        and (memory.expires_at is None or memory.expires_at > NOW)
        and (asked.include_invalidated or getattr(memory, "invalid_at", None) is None)
        and (asked.kinds == "all" or memory.origin is Origin.TOOL)
        and asked.tier in {None, memory.tier}
        and set(asked.filters.tags) <= set(memory.tags)
        and asked.content_type in {None, memory.content_type}
        and (asked.created_after is None or memory.created_at >= asked.created_after)
        and (asked.created_before is None or memory.created_at <= asked.created_before)
        and (asked.ids is None or memory.id in asked.ids)
    )


def _associated(source: str, target: str, strength: float = 0.5, **places: str) -> Association:
    return Association(
        source=MemoryKey(scope=places.get("source_scope", SCOPE), id=source),
        target=MemoryKey(scope=places.get("target_scope", SCOPE), id=target),
        type=AssociationType.SEMANTIC,
        strength=strength,
        auto_generated=True,
        created_at=NOW,
    )


class ManagementContract:
    """Filters, use, removal, moves, associations, audit."""

    @exploring
    @given(details=st.lists(_DETAILS, max_size=6), asked=_FILTERS)
    def test_a_filter_means_the_same_in_lists_counts_and_searches(
        self, ledger: SQLLedger, details: list[dict[str, object]], asked: dict[str, object]
    ) -> None:
        scope = fresh_scope()
        memories: list[AnyMemory] = []
        for number, detail in enumerate(details):
            where = (scope, f"{scope}/below", f"{scope}0")[number % 3]
            plain = fact(f"m{number}", scope=where) if number % 2 else episode(f"m{number}", scope=where)
            known = {name: value for name, value in detail.items() if name in type(plain).model_fields}
            memories.append(plain.model_copy(update=known))
        passages = add(ledger, memories)
        its_filter = MemoryFilter(scope=scope, **asked)  # type: ignore[arg-type]
        expected = [memory for memory in memories if _lets_through(its_filter, memory)]
        expected.sort(key=lambda memory: memory.id)
        expected.sort(key=lambda memory: memory.created_at, reverse=True)
        management = ledger.management
        assert management.select(its_filter, now=NOW) == expected
        assert management.count(its_filter, now=NOW) == len(expected)
        assert management.select(its_filter, now=NOW, limit=2, offset=1) == expected[1:3]
        for kind in Kind:
            seen = {
                passage.id
                for passage, memory in zip(passages, memories, strict=True)
                if memory in expected and memory.kind is kind and getattr(memory, "invalid_at", None) is None
            }
            selection = its_filter.selection(kind, now=NOW)
            assert set(ledger.eligible(selection)) == seen
            assert set(ledger.eligible(selection, among=[passage.id for passage in passages])) == seen
            assert ledger.size(selection, at_most=10) == len(seen)

    def test_one_narrow_selection_is_not_taken_for_another(self, ledger: SQLLedger) -> None:
        first, second = (fact(tier, "tea").model_copy(update={"tier": tier}) for tier in (Tier.WORKING, Tier.LONG_TERM))
        ids = [passage.id for passage in add(ledger, [first, second])]
        selections = [Selection(scope=SCOPE, kind=Kind.SEMANTIC, now=NOW, tier=tier) for tier in Tier]
        assert ledger.eligible(facts_in()) == ids
        assert [ledger.eligible(selection) for selection in selections] == [[], [ids[1]], [ids[0]]]
        assert ledger.eligible(facts_in()) == ids

    def test_scopes_are_counted_within_the_root_alone(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1", scope=scope) for scope in (SCOPE, *BELOW, *BESIDE)])
        add(ledger, [fact("f2", expires_at=NOW), fact("f3", invalid_at=NOW), episode("e1")])
        assert ledger.management.scopes(SCOPE, now=NOW) == {SCOPE: 2, **dict.fromkeys(sorted(BELOW), 1)}
        assert ledger.management.scopes("nobody", now=NOW) == {}

    def test_passages_are_those_of_the_memories_asked_for(self, ledger: SQLLedger) -> None:
        memories: list[AnyMemory] = [fact("1"), fact("1", scope="other"), episode("2")]
        stored = add(ledger, memories)
        asked = [_key(memories[2]), _key(memories[0]), MemoryKey(scope=SCOPE, id="nobody")]
        found = ledger.management.passages(asked)
        assert found == {_key(memories[2]): stored[2].id, _key(memories[0]): stored[0].id}

    def test_use_is_written_and_nothing_else(self, ledger: SQLLedger) -> None:
        before = fact("f1")
        (passage,) = add(ledger, [before, fact("f1", scope="other")])[:1]
        use = {"importance": 0.0, "importance_pinned": True, "access_count": 7, "last_accessed_at": NOW + _SECOND}
        ledger.management.write_use([before.model_copy(update=use | {"fact": "another", "tags": ("x",)})])
        assert ledger.get(scope=SCOPE, id="f1") == before.model_copy(update=use)
        assert ledger.get(scope="other", id="f1") == fact("f1", scope="other")
        assert ledger.eligible(facts_in()) == [passage.id]

    def test_many_are_removed_with_every_trace(self, ledger: SQLLedger) -> None:
        kept = fact("kept").model_copy(update={"consolidated_from": ("f1", "f2", "x"), "source_episodic_ids": ("e1",)})
        add(ledger, [fact("f1"), fact("f2"), episode("e1"), kept, fact("f1", scope="other")])
        ledger.add_pending_reviews([review(ids=("e1",))])
        keys = [MemoryKey(scope=SCOPE, id=id) for id in ("f1", "e1", "f2", "nobody")]
        assert ledger.remove(keys) == 3
        now = ledger.get(scope=SCOPE, id="kept")
        assert now == kept.model_copy(update={"consolidated_from": ("x",), "source_episodic_ids": ()})
        assert ledger.get(scope="other", id="f1") is not None
        assert ledger.pending_reviews(SCOPE) == []

    def test_a_moved_memory_is_the_same_in_another_scope(self, ledger: SQLLedger) -> None:
        told = EpisodicMemory(**episode("e1").model_dump() | {"messages": [{"role": "user", "content": "hi"}]})
        add(ledger, [told, fact("f1"), fact("f2", scope="other")])
        ledger.add_pending_reviews([review(ids=("e1",))])
        ledger.management.associate([_associated("e1", "f1")])
        ledger.management.note([AuditEntry(memory=_key(told), type=AuditType.GET, at=NOW, old=0.5, new=0.6)])
        assert ledger.eligible(facts_in()) != []  # remembered, from before
        keys = [MemoryKey(scope=SCOPE, id="e1"), MemoryKey(scope=SCOPE, id="f1")]
        ledger.management.move(keys, target_scope="other")
        moved = ledger.get(scope="other", id="e1")
        assert moved == EpisodicMemory(**told.model_dump() | {"scope": "other"})
        assert ledger.get(scope=SCOPE, id="e1") is None
        assert ledger.eligible(facts_in()) == []
        assert len(ledger.eligible(facts_in("other"))) == 2
        assert ledger.pending_reviews(SCOPE) == []
        (edge,) = ledger.management.associations(_key(moved), within="other", now=NOW)
        assert (edge.source.scope, edge.target.scope) == ("other", "other")
        assert [entry.new for entry in ledger.management.audit(_key(moved))] == [0.6]
        assert ledger.scopes() == ["other"]

    def test_nothing_is_moved_when_an_id_is_taken_or_missing(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1"), fact("f2"), fact("f2", scope="other")])
        for bad, error in (("f2", ValidationError), ("nobody", NotFoundError)):
            keys = [MemoryKey(scope=SCOPE, id="f1"), MemoryKey(scope=SCOPE, id=bad)]
            with pytest.raises(error, match=bad):
                ledger.management.move(keys, target_scope="other")
            assert ledger.get(scope=SCOPE, id="f1") == fact("f1")
            assert ledger.get(scope="other", id="f1") is None

    def test_a_move_to_its_own_scope_changes_nothing(self, ledger: SQLLedger) -> None:
        add(ledger, [episode("e1")])
        ledger.add_pending_reviews([review()])
        ledger.management.move([MemoryKey(scope=SCOPE, id="e1")], target_scope=SCOPE)
        assert ledger.get(scope=SCOPE, id="e1") == episode("e1")
        assert ledger.pending_reviews(SCOPE) == [review()]

    def test_of_a_pair_the_strongest_association_stays(self, ledger: SQLLedger) -> None:
        one, other = fact("1"), fact("2")
        add(ledger, [one, other])
        management = ledger.management
        stronger = _associated("2", "1", 0.8)
        assert management.associate([_associated("1", "2", 0.5)]) == 1
        assert management.associate([stronger, _associated("1", "2", 0.7)]) == 0
        assert management.associations(_key(one), within=SCOPE, now=NOW) == [stronger]
        assert management.associations(_key(other), within=SCOPE, now=NOW) == [stronger]

    def test_nothing_is_associated_with_itself_or_with_what_is_not_there(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("1")])
        assert ledger.management.associate([_associated("1", "1"), _associated("1", "2"), _associated("2", "1")]) == 0
        assert ledger.management.associations(_key(fact("1")), within=SCOPE, now=NOW) == []

    def test_the_strongest_associations_come_first_and_only_those_within(self, ledger: SQLLedger) -> None:
        others = [fact("near"), fact("far"), fact("gone", expires_at=NOW), fact("past", invalid_at=NOW)]
        outside = [fact("near", scope=scope) for scope in BESIDE]
        below = [fact("below", scope=f"{SCOPE}/work")]
        add(ledger, [fact("it"), *others, *outside, *below])
        strengths = {"near": 0.9, "far": 0.3, "gone": 1.0, "past": 1.0}
        edges = [_associated("it", id, strength) for id, strength in strengths.items()]
        edges += [_associated("near", "it", 1.0, source_scope=scope) for scope in BESIDE]
        edges += [_associated("it", "below", 0.6, target_scope=f"{SCOPE}/work")]
        ledger.management.associate(edges)
        found = ledger.management.associations(_key(fact("it")), within=SCOPE, now=NOW)
        assert [edge.target.id for edge in found] == ["near", "below", "far"]
        assert ledger.management.associations(_key(fact("it")), within=SCOPE, now=NOW, limit=1) == found[:1]

    def test_associations_go_with_either_memory(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("1"), fact("2"), fact("3")])
        ledger.management.associate([_associated("1", "2"), _associated("3", "1")])
        ledger.remove([MemoryKey(scope=SCOPE, id="1")])
        add(ledger, [fact("1")])
        for id in ("1", "2", "3"):
            assert ledger.management.associations(_key(fact(id)), within=SCOPE, now=NOW) == []

    def test_one_pair_associated_from_many_threads_is_new_once(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("1"), fact("2")])
        new = at_once(lambda number: ledger.management.associate([_associated("1", "2", number / 10)]))
        assert sum(new) == 1
        (edge,) = ledger.management.associations(_key(fact("1")), within=SCOPE, now=NOW)
        assert edge.strength == 0.7

    def test_the_audit_is_spaced_by_memory_and_type(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("1"), fact("2")])
        spacing = timedelta(seconds=60)
        wanted = [("1", "get", 0), ("1", "get", 59), ("1", "search", 59), ("2", "get", 59), ("1", "get", 60)]
        for id, type, seconds in (*wanted, ("nobody", "get", 0)):
            key = MemoryKey(scope=SCOPE, id=id)
            entry = AuditEntry(
                memory=key, type=AuditType(type), at=NOW + timedelta(seconds=seconds), old=0.0, new=float(seconds)
            )
            ledger.management.note([entry], spacing=spacing)
        noted = ledger.management.audit(_key(fact("1")))
        assert [(str(entry.type), entry.new) for entry in noted] == [("get", 0.0), ("search", 59.0), ("get", 60.0)]
        assert [entry.new for entry in ledger.management.audit(_key(fact("2")))] == [59.0]

    def test_old_audit_entries_are_dropped_and_all_go_with_their_memory(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("1"), fact("2")])
        for id in ("1", "2"):
            key = MemoryKey(scope=SCOPE, id=id)
            entries = [
                AuditEntry(memory=key, type=AuditType.SCORE, at=NOW + n * _SECOND, old=0, new=1, reason="Ü")
                for n in range(3)
            ]
            ledger.management.note(entries)
        ledger.management.forget_audit(before=NOW + _SECOND)
        assert [entry.at for entry in ledger.management.audit(_key(fact("1")))] == [NOW + _SECOND, NOW + 2 * _SECOND]
        ledger.remove([MemoryKey(scope=SCOPE, id="1")])
        add(ledger, [fact("1")])
        assert ledger.management.audit(_key(fact("1"))) == []
        assert len(ledger.management.audit(_key(fact("2")))) == 2
