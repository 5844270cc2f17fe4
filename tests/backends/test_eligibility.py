"""What a selection lets through is remembered, and never longer than it is true."""

from contextlib import suppress
from datetime import timedelta

import pytest
from contracts.samples import NOW, add, fact, facts_in

from memory_retrievers.backends.sql import cache
from memory_retrievers.backends.sql.cache import ENTRY_BYTES
from memory_retrievers.backends.sqlite import SQLiteLedger


@pytest.fixture
def ledger(tmp_path):
    ledger = SQLiteLedger(tmp_path / "memory.db")
    yield ledger
    ledger.close()


@pytest.fixture
def looked_up(monkeypatch):
    """How often SQLite was asked."""
    calls = []
    look_up = cache._look_up
    monkeypatch.setattr(cache, "_look_up", lambda *given: (calls.append(given), look_up(*given))[1])
    return calls


def test_an_answer_is_looked_up_once_until_its_scope_changes(ledger, looked_up):
    add(ledger, [fact("f1"), fact("elsewhere", scope="user/2")])
    for _ in range(3):
        assert len(ledger.eligible(facts_in())) == 1
    assert len(looked_up) == 1
    add(ledger, [fact("other", scope="user/2")])
    ledger.eligible(facts_in())
    assert len(looked_up) == 1
    add(ledger, [fact("f2")])
    assert len(ledger.eligible(facts_in())) == 2
    assert len(looked_up) == 2
    ledger.invalidate(scope=facts_in().scope, id="f2", at=NOW)
    assert len(ledger.eligible(facts_in())) == 1
    assert len(ledger.indexed(facts_in())) == 2


def test_an_answer_ends_when_the_first_of_its_memories_expires(ledger, looked_up):
    add(ledger, [fact("f1", expires_at=NOW + timedelta(hours=1)), fact("f2")])
    assert len(ledger.eligible(facts_in())) == 2
    assert len(ledger.eligible(facts_in(now=NOW + timedelta(minutes=59)))) == 2
    assert len(looked_up) == 1
    assert len(ledger.eligible(facts_in(now=NOW + timedelta(hours=1)))) == 1
    assert len(ledger.eligible(facts_in(now=NOW))) == 2  # a clock that was set back


def test_another_connection_that_writes_is_noticed(ledger, tmp_path, looked_up):
    add(ledger, [fact("f1")])
    assert len(ledger.eligible(facts_in())) == 1
    other = SQLiteLedger(tmp_path / "memory.db")
    add(other, [fact("f2")])
    other.close()
    assert len(ledger.eligible(facts_in())) == 2


def test_what_a_transaction_sees_before_it_is_undone_is_not_remembered(ledger):
    add(ledger, [fact("f1")])
    with suppress(ZeroDivisionError), ledger.transaction():
        add(ledger, [fact("f2")])
        assert len(ledger.eligible(facts_in())) == 2
        raise ZeroDivisionError
    (kept,) = ledger.eligible(facts_in())
    add(ledger, [fact("f3")])
    assert len(ledger.eligible(facts_in())) == 2
    assert kept in ledger.eligible(facts_in())


def test_what_is_remembered_is_bounded(ledger, monkeypatch):
    for answers in (ledger._eligibility._ids, ledger._eligibility._layouts):
        monkeypatch.setattr(answers, "_most", ENTRY_BYTES + 5 * 41)
    for scope in ("user/1", "user/2", "user/3"):
        add(ledger, [fact(f"f{n}", scope=scope) for n in range(4)])
        assert len(ledger.eligible(facts_in(scope))) == 4
        assert len(ledger.layout(facts_in(scope)).passages) == 4
    for answers in (ledger._eligibility._ids, ledger._eligibility._layouts):
        assert answers._bytes <= answers._most
        assert sum(answer.passages for answer in answers._answers.values()) <= 5
    assert len(ledger.eligible(facts_in("user/1"))) == 4


def test_a_layout_is_looked_up_once_until_its_scope_changes_and_serves_its_parts(ledger, monkeypatch):
    calls = []
    lay_out = cache._lay_out
    monkeypatch.setattr(cache, "_lay_out", lambda *given, **more: (calls.append(more), lay_out(*given, **more))[1])
    (first, _) = add(ledger, [fact("f1"), fact("f2")])
    assert ledger.layout(facts_in(), memories=[first.memory]).passages.tolist() == [first.id]  # without the others
    assert calls.pop() == {"memories": [first.memory]}
    for _ in range(3):
        assert len(ledger.layout(facts_in()).passages) == 2
        assert ledger.layout(facts_in(), memories=[first.memory]).passages.tolist() == [first.id]
    assert len(calls) == 1
    add(ledger, [fact("f3")])
    assert len(ledger.layout(facts_in()).passages) == 3
    assert len(calls) == 2
