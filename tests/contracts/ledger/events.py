"""A ledger keeps what happened to memories: bounded, with the memory it happened to, and without a word of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contracts.samples import NOW, SCOPE, add, fact
from memory_retrievers.backends.sql import events as log
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sql.memories import row_of
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.management import MOST_ACTOR, Channel, MemoryEvent, MemoryEventType, acting_as

_KEY = MemoryKey(scope=SCOPE, id="f1")


def _told(ledger: SQLLedger, scope: str = SCOPE, id: str | None = None) -> list[tuple[str | None, str]]:
    return [(each.id, str(each.type)) for each in ledger.events.events(scope, id=id, now=NOW, limit=5_000)]


class EventContract:
    """What happened to memories; supply the fixture ``ledger``."""

    def test_it_tells_what_when_by_which_way_and_by_whom(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        ledger.events.note([_KEY], MemoryEventType.CREATED, at=NOW)
        with acting_as(Channel.MCP), acting_as(Channel.TOOL, "memory_update" + "e" * MOST_ACTOR):
            ledger.events.note([_KEY], MemoryEventType.UPDATED, at=NOW + timedelta(seconds=1), fields=("fact", "tags"))
        newest, first = ledger.events.events(SCOPE, id="f1", now=NOW, limit=10)
        assert first == MemoryEvent(scope=SCOPE, id="f1", type=MemoryEventType.CREATED, at=NOW, channel=Channel.API)
        assert newest == MemoryEvent(
            scope=SCOPE,
            id="f1",
            type=MemoryEventType.UPDATED,
            at=NOW + timedelta(seconds=1),
            channel=Channel.MCP,
            actor=("memory_update" + "e" * MOST_ACTOR)[:MOST_ACTOR],
            fields=("fact", "tags"),
        )
        assert ledger.events.events(SCOPE, id=None, now=NOW, limit=1) == [newest]

    def test_of_a_memory_that_is_not_there_nothing_is_noted(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        for key in (MemoryKey(scope=SCOPE, id="f2"), MemoryKey(scope="user/2", id="f1")):
            ledger.events.note([key], MemoryEventType.CREATED, at=NOW)
        ledger.events.note([MemoryKey(scope="user/2", id="f1")], MemoryEventType.FORGOTTEN, at=NOW)
        assert _told(ledger) == _told(ledger, "user/2") == []

    def test_it_moves_with_its_memory_and_goes_with_it(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1"), fact("f2"), fact("f1", scope="user/2/x")])
        for key in (_KEY, MemoryKey(scope=SCOPE, id="f2"), MemoryKey(scope="user/2/x", id="f1")):
            ledger.events.note([key], MemoryEventType.CREATED, at=NOW)
        ledger.management.move([_KEY], target_scope="user/2")
        assert _told(ledger) == [("f2", "created")]
        assert _told(ledger, "user/2") == _told(ledger, "user/2", "f1") == [("f1", "created")]
        ledger.remove([MemoryKey(scope="user/2", id="f1")])
        assert _told(ledger, "user/2") == []
        assert _told(ledger, "user/2/x") == [("f1", "created")]
        ledger.remove_scope("user/2", include_child_scopes=True)
        assert _told(ledger, "user/2/x") == []
        with ledger.database.read() as connection:  # also in the table, not in what is told alone
            assert connection.execute("SELECT count(*) FROM events").fetchone()[0] == 1

    def test_what_has_expired_is_not_told_of(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1", expires_at=NOW + timedelta(seconds=1))])
        ledger.events.note([_KEY], MemoryEventType.CREATED, at=NOW)
        assert _told(ledger) == [("f1", "created")]
        assert ledger.events.events(SCOPE, id=None, now=NOW + timedelta(seconds=1), limit=10) == []

    @pytest.mark.parametrize("is_known", [False, True])
    def test_many_of_a_type_take_nothing_from_the_others(self, ledger: SQLLedger, *, is_known: bool) -> None:
        add(ledger, [fact("f1"), fact("f2")])
        with ledger.database.read() as connection:
            places = [row_of(connection, fact("f1"))] if is_known else []
        for key in (_KEY, MemoryKey(scope=SCOPE, id="f2")):
            ledger.events.note([key], MemoryEventType.CREATED, at=NOW)
        for number in range(log.KEPT_OF_A_TYPE + 5):
            ledger.events.note([_KEY], MemoryEventType.REVIEWED, at=NOW + timedelta(seconds=number), places=places)
        told = ledger.events.events(SCOPE, id="f1", now=NOW, limit=100)
        assert [each.type for each in told] == [MemoryEventType.REVIEWED] * log.KEPT_OF_A_TYPE + [
            MemoryEventType.CREATED
        ]
        assert told[0].at == NOW + timedelta(seconds=log.KEPT_OF_A_TYPE + 4)
        assert _told(ledger, id="f2") == [("f2", "created")]

    def test_of_forgotten_ones_the_last_are_kept(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        ledger.events.note([_KEY], MemoryEventType.CREATED, at=NOW)
        ledger.events.note([_KEY] * (log.KEPT_FORGOTTEN + 5), MemoryEventType.FORGOTTEN, at=NOW)
        assert _told(ledger) == [(None, "forgotten")] * log.KEPT_FORGOTTEN + [("f1", "created")]

    def test_in_all_the_oldest_go(self, ledger: SQLLedger, monkeypatch: pytest.MonkeyPatch) -> None:
        add(ledger, [fact(f"f{number}") for number in range(30)])
        monkeypatch.setattr(log, "KEPT", 10)
        monkeypatch.setattr(log, "_BETWEEN_LOOKS", 5)
        for number in range(30):
            ledger.events.note([MemoryKey(scope=SCOPE, id=f"f{number}")], MemoryEventType.CREATED, at=NOW)
        told = _told(ledger)
        assert 10 <= len(told) < 15
        assert told[0] == ("f29", "created")
        ledger.purge()
        assert len(_told(ledger)) == 10

    def test_what_is_undone_was_never_noted(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])

        def fails() -> None:
            with ledger.database.write(SCOPE):
                ledger.events.note([_KEY], MemoryEventType.CREATED, at=NOW)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fails()
        assert _told(ledger) == []

    def test_what_this_version_does_not_know_is_a_problem(self, ledger: SQLLedger) -> None:
        add(ledger, [fact("f1")])
        ledger.events.note([_KEY], MemoryEventType.CREATED, at=NOW)
        with ledger.database.write() as connection:
            connection.execute("UPDATE events SET type = 'dreamt'")
        assert "1 entries of the log tell of something" in " ".join(ledger.verify().problems)
