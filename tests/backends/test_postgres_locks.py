"""Transactions on a PostgreSQL server take their turn by scope: side by side where they may, and never for ever."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from datetime import UTC, datetime

import psycopg
import pytest
from patience import PATIENCE, until

from memory_retrievers import AgentMemory, ConfigurationError, EmbeddingMismatchError, Message
from memory_retrievers.backends.postgres import Database
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sql.requests import RequestUnderWay, under_way
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.storage import QueuedMessage
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

NOW = datetime(2026, 3, 1, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("own_pools")


@pytest.fixture
def ledgers(postgres_url):
    """Two of one database, as two processes have them."""
    both = [SQLLedger(Database(postgres_url, pool_size=8)) for _ in range(2)]
    yield both
    for ledger in both:
        ledger.close()


@contextmanager
def held(ledger, *scopes):
    """Another thread is inside a transaction of these scopes until the end of the block."""
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with ledger.database.write(*scopes):
            entered.set()
            assert leave.wait(2 * PATIENCE)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(hold)
        assert entered.wait(PATIENCE)
        try:
            yield
        finally:
            leave.set()
            holding.result(PATIENCE)


@pytest.fixture
def somebody_waits(postgres_url):
    """Tells whether a connection of the database waits for a lock, as the server knows it."""
    waiting = (
        "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
        "WHERE datname = current_database() AND NOT granted)"
    )
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield lambda: connection.execute(waiting).fetchone()[0]


@pytest.fixture
def waits(somebody_waits):
    """Tells whether a transaction has to wait. Whoever had to has its turn in the end."""
    threads = []

    def waits(ledger, *scopes):
        through = threading.Event()

        def enter():
            with ledger.database.write(*scopes):
                through.set()

        threads.append(threading.Thread(target=enter))
        threads[-1].start()
        until(lambda: through.is_set() or somebody_waits(), "the transaction, or its wait")
        return not through.is_set()

    yield waits
    for thread in threads:
        thread.join(PATIENCE)
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


def test_what_an_answer_quotes_is_noted_while_others_write_elsewhere(ledgers):
    request = RequestUnderWay("f" * 64, "asked", quoted={MemoryKey(scope="b", id="m")})

    def note():
        under_way.set(request)
        ledgers[0].requests.note_quoted(request)

    with held(ledgers[1], "a"):
        Context().run(note)
    assert ledgers[0].requests.find(request.key) is not None


def test_what_a_transaction_reads_of_its_scope_nobody_changes_until_it_has_written(ledgers):
    """Counts up in many threads of two processes; an update that was lost would be missing at the end."""

    def count_up(ledger):
        for _ in range(10):
            with ledger.database.write("a"):
                number = ledger.conversations.state("a").messages
                message = Message(role="user", content=str(number), timestamp=NOW)
                ledger.conversations.append("a", [QueuedMessage(id=str(number), message=message)], at=NOW)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count_up, ledgers * 3))
    assert [each.id for each in ledgers[0].conversations.head("a", limit=100)] == [str(n) for n in range(60)]


def test_transactions_of_any_scopes_in_any_order_never_wait_for_each_other_in_a_circle(ledgers):
    names = [f"s{number}" for number in range(6)]

    def work(seed):
        choice = random.Random(seed)
        for _ in range(25):
            some = choice.sample(names, choice.randint(0, 4))
            with choice.choice(ledgers).database.write(*some):
                time.sleep(choice.random() / 500)
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_a_scope_that_a_transaction_did_not_name_is_not_changed_in_it(ledgers):
    ledger = ledgers[0]
    message = QueuedMessage(id="q1", message=Message(role="user", content="hi", timestamp=NOW))
    with ledger.database.write("a"):
        with pytest.raises(ConfigurationError, match="may only change the scopes that it was begun for"):
            ledger.conversations.append("b", [message], at=NOW)
        ledger.conversations.append("a", [message], at=NOW)
    with ledger.database.write():
        ledger.conversations.append("c", [message], at=NOW)
    assert ledger.conversations.scopes() == ["a", "c"]


@pytest.fixture
def ann(postgres_url):
    """Ann's tools, over a memory of three facts, one of them of a project."""
    with AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="user/ann", allow_scopes=True, kinds="all"))
        for id, scope in (("f1", "user/ann"), ("f2", "user/ann"), ("f3", "user/ann/project")):
            memory.remember_fact(scope=scope, fact=f"Ann likes {id}", id=id)
        yield toolbox


CHANGES = {
    "store": ("memory_store", {"content": "Ann likes tea"}),
    "batch store": ("memory_batch_store", {"items": [{"content": "tea"}, {"content": "coffee", "scope": "project"}]}),
    "update": ("memory_update", {"id": "f1", "content": "Ann likes tea"}),
    "batch update": ("memory_batch_update", {"updates": [{"id": "f1", "content": "x"}, {"id": "f3", "content": "y"}]}),
    "manage update": ("memory_manage", {"operation": "update", "memory_id": "f3", "content": "Ann likes tea"}),
    "manage delete": ("memory_manage", {"operation": "delete", "memory_id": "f1"}),
    "delete": ("memory_delete", {"ids": ["f1", "f3", "unknown"]}),
    "delete nothing": ("memory_delete", {"id": "unknown"}),
    "delete by age": ("memory_delete", {"older_than": "2099-01-01T00:00:00Z"}),
    "consolidate": ("memory_consolidate", {"memory_ids": ["f1", "f3"], "preserve_originals": False}),
    "session": ("session_manage", {"action": "create"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tools_of_one_agent_do_not_wait_for_what_is_done_for_another(ann, ledgers, change):
    name, arguments = CHANGES[change]
    with held(ledgers[0], "user/ben"), ThreadPoolExecutor(1) as threads:
        output = threads.submit(ann.call, name, arguments).result(PATIENCE)
    assert not output.is_error, output.artifact


def test_tools_of_one_scope_wait_for_each_other(ann, ledgers, somebody_waits):
    with ThreadPoolExecutor(1) as threads:
        with held(ledgers[0], "user/ann"):
            calling = threads.submit(ann.call, "memory_delete", {"ids": ["f3"]})
            until(somebody_waits, "the wait")
            assert not calling.done()
        assert calling.result(PATIENCE).artifact["deleted_ids"] == ["f3"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_delete", {"ids": ["f1"]}),
        ("memory_batch_update", {"updates": [{"id": "f1", "content": "Ann likes tea"}]}),
        ("memory_consolidate", {"memory_ids": ["f1", "f2"], "preserve_originals": False}),
    ],
)
def test_a_memory_that_is_moved_while_a_tool_waits_for_its_turn_is_found_where_it_is_then(
    ann, postgres_url, somebody_waits, name, arguments
):
    with (
        AgentMemory.connect(postgres_url, embedder=HashEmbedder()) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        with inside(other).ledger.database.write():
            calling = threads.submit(ann.call, name, arguments)
            until(somebody_waits, "the wait")
            assert not calling.done()
            other.manager.move([other.get("f1", scope="user/ann")], target_scope="user/ann/elsewhere")
        output = calling.result(PATIENCE)
        assert not output.is_error, output.artifact
        assert other.verify().ok
        left = {each.id: each.fact for each in other.list("user/ann/elsewhere").memories}
        assert left.get("f1") == ("Ann likes tea" if name == "memory_batch_update" else None)


def test_two_embedders_that_store_at_once_in_scopes_of_their_own_do_not_both_fill_an_empty_store(postgres_url):
    begin = threading.Barrier(2, timeout=PATIENCE)

    def fill(dimension):
        embedder = HashEmbedder(dimension)
        with AgentMemory.connect(postgres_url, embedder=embedder, embedder_id=f"hash-{dimension}") as memory:
            toolbox = LocalToolbox(ToolContext(memory=memory, root=f"agent/{dimension}"))
            begin.wait()
            try:
                output = toolbox.call("memory_batch_store", {"items": [{"content": f"tea {n}"} for n in range(20)]})
            except EmbeddingMismatchError:
                return dimension, False
            return dimension, not output.is_error

    with ThreadPoolExecutor(2) as threads:
        outcomes = dict(threads.map(fill, (32, 64)))
    (stored,) = [dimension for dimension, is_stored in outcomes.items() if is_stored]
    with AgentMemory.connect(postgres_url, embedder=HashEmbedder(stored), embedder_id=f"hash-{stored}") as memory:
        assert len(memory.list(f"agent/{stored}").memories) == 20
        assert memory.stats().facts == 20
        assert memory.verify().ok
