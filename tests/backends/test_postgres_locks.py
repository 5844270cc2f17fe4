"""Transactions on a PostgreSQL server take their turn by scope: side by side where they may, and never for ever."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from memory_retrievers import ConfigurationError, Message
from memory_retrievers.backends.postgres import PostgresLedger
from memory_retrievers.protocols import QueuedMessage

NOW = datetime(2026, 3, 1, tzinfo=UTC)

SOON = 0.4
"""Seconds in which somebody who need not wait is through; who is not by then, waits."""


pytestmark = pytest.mark.usefixtures("own_pools")


@pytest.fixture
def ledgers(postgres_url):
    """Two of one database, as two processes have them."""
    both = [PostgresLedger(postgres_url, pool_size=8) for _ in range(2)]
    yield both
    for ledger in both:
        ledger.close()


@contextmanager
def held(ledger, *scopes):
    """Another thread is inside a transaction of these scopes until the end of the block."""
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with ledger.transaction(*scopes):
            inside.set()
            leave.wait(20)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        assert inside.wait(10)
        try:
            yield
        finally:
            leave.set()
            holding.result(20)


@pytest.fixture
def waits():
    """Tells whether a transaction has to wait. Whoever had to has its turn in the end."""
    threads = []

    def waits(ledger, *scopes):
        through = threading.Event()

        def enter():
            with ledger.transaction(*scopes):
                through.set()

        threads.append(threading.Thread(target=enter))
        threads[-1].start()
        return not through.wait(SOON)

    yield waits
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (["a"], ["b"], False),
        (["a", "b"], ["c", "d"], False),
        (["a"], ["a/child"], False),
        (["a"], ["a"], True),
        (["a", "b"], ["b", "c"], True),
        (["a"], [], True),
        ([], ["a"], True),
        ([], [], True),
        (["a"], [f"s{number}" for number in range(40)], True),  # so many that they take the whole store
    ],
)
@pytest.mark.parametrize("process", ["same", "other"])
def test_transactions_wait_for_each_other_only_where_their_scopes_meet(
    ledgers, waits, first, second, expected, process
):
    with held(ledgers[0], *first):
        assert waits(ledgers[0 if process == "same" else 1], *second) is expected


def test_what_a_transaction_reads_of_its_scope_nobody_changes_until_it_has_written(ledgers):
    """Counts up in many threads of two processes; an update that was lost would be missing at the end."""

    def count_up(ledger):
        for _ in range(10):
            with ledger.transaction("a"):
                number = ledger.conversations.state("a").messages
                message = Message(role="user", content=str(number), timestamp=NOW)
                ledger.conversations.append("a", [QueuedMessage(id=str(number), message=message)])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count_up, ledgers * 3))
    assert [each.id for each in ledgers[0].conversations.head("a", limit=100)] == [str(n) for n in range(60)]


def test_transactions_of_any_scopes_in_any_order_never_wait_for_each_other_in_a_circle(ledgers):
    names = [f"s{number}" for number in range(6)]

    def work(seed):
        choice = random.Random(seed)
        for _ in range(25):
            some = choice.sample(names, choice.randint(0, 4))
            with choice.choice(ledgers).transaction(*some):
                time.sleep(choice.random() / 500)
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_a_scope_that_a_transaction_did_not_name_is_not_changed_in_it(ledgers):
    ledger = ledgers[0]
    message = QueuedMessage(id="q1", message=Message(role="user", content="hi", timestamp=NOW))
    with ledger.transaction("a"):
        with pytest.raises(ConfigurationError, match="may only change the scopes that it was begun for"):
            ledger.conversations.append("b", [message])
        ledger.conversations.append("a", [message])
    with ledger.transaction():
        ledger.conversations.append("c", [message])
    assert ledger.conversations.scopes() == ["a", "c"]
