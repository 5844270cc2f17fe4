"""A ledger hands out all memories of a scope, newest first, from any position on."""

from __future__ import annotations

from datetime import timedelta

from contracts.filtering import FILTERED, memories_to_filter
from contracts.samples import ALIKE, NOW, SCOPE, add, episode, fact
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, Kind, MemoryKey
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.results import Position
from memory_retrievers.models.selection import Listing

_BOTH = tuple(Kind)


def _ids(ledger: SQLLedger, *, scope: str = SCOPE, kinds: tuple[Kind, ...] = _BOTH, limit: int = 100) -> list[str]:
    return [memory.id for memory in ledger.page(Listing(scope=scope, kinds=kinds, now=NOW), after=None, limit=limit)]


def _position(memory: AnyMemory) -> Position:
    return Position(microseconds(memory.created_at), memory.id)


class PageContract:
    """Pages of memories."""

    def test_memories_come_newest_first_and_then_by_id(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("b"), episode("old", created_at=NOW - timedelta(days=1)), episode("c"), fact("a")])
        assert _ids(ledger) == ["a", "b", "c", "old"]
        assert _ids(ledger, kinds=(Kind.EPISODIC,)) == ["c", "old"]
        assert _ids(ledger, kinds=(Kind.SEMANTIC,)) == ["a", "b"]
        assert _ids(ledger, limit=2) == ["a", "b"]

    def test_a_page_begins_behind_its_position(self, ledger: SQLLedger) -> None:
        ages = [3, 1, 1, 0, 2, 1]
        memories = [episode(f"e{n}", created_at=NOW - timedelta(days=age)) for n, age in enumerate(ages)]
        add(ledger, [*memories, fact("f1"), fact("f2")])
        whole = ledger.page(Listing(scope=SCOPE, now=NOW), after=None, limit=100)
        assert [memory.id for memory in whole] == ["e3", "f1", "f2", "e1", "e2", "e5", "e4", "e0"]
        for n, memory in enumerate(whole):
            rest = ledger.page(Listing(scope=SCOPE, now=NOW), after=_position(memory), limit=100)
            assert rest == whole[n + 1 :]

    def test_a_page_takes_filters(self, ledger: SQLLedger) -> None:
        memories = [each for kind in _BOTH for each in memories_to_filter(kind)]
        add(ledger, memories)
        for filters in FILTERED:
            page = ledger.page(Listing(scope=SCOPE, now=NOW, filters=filters), after=None, limit=100)
            assert {each.id for each in page} == {each.id for each in memories if filters.obstacle(each) is None}, (
                filters
            )
            first = ledger.page(Listing(scope=SCOPE, now=NOW, filters=filters), after=None, limit=1)
            assert first == page[:1]

    def test_invalidated_facts_are_shown_and_expired_memories_are_not(self, ledger: SQLLedger) -> None:
        soon = NOW + timedelta(microseconds=1)
        add(ledger, [fact("invalidated", invalid_at=NOW), fact("gone", expires_at=NOW), fact("soon", expires_at=soon)])
        assert _ids(ledger) == ["invalidated", "soon"]
        assert ledger.expired(NOW) == [MemoryKey(scope=SCOPE, id="gone")]
        assert len(ledger.expired(soon)) == 2

    def test_a_page_holds_one_scope_only(self, ledger: SQLLedger) -> None:
        add(ledger, [fact(f"f{number}", scope=scope) for number, scope in enumerate(ALIKE)])
        assert {scope: _ids(ledger, scope=scope) for scope in (*ALIKE, "nobody")} == {
            scope: [f"f{number}"] for number, scope in enumerate(ALIKE)
        } | {"nobody": []}
