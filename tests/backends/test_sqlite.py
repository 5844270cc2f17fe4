"""The SQLite ledger: the contract on disk and in memory, and what only a file can do."""

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from contracts import LedgerContract
from contracts.samples import NOW, SCOPE, THREADS, add, at_once, episode, fact, facts_in
from patience import PATIENCE

from memory_retrievers.backends import processes
from memory_retrievers.backends.processes import DIRECTORY, Attachment, attached
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database, attachment, connection, schema
from memory_retrievers.backends.sqlite.connection import check_seal, is_sealed
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import BackendError, ConfigurationError, StoreLockedError, ValidationError
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import NewPassage
from memory_retrievers.models.storage import QueuedMessage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def on_disk(path):
    ledger = SQLLedger(Database(path))
    yield ledger
    ledger.close()


class TestSQLiteLedgerOnDisk(LedgerContract):
    @pytest.fixture
    def ledger(self, on_disk):
        return on_disk


class TestSQLiteLedgerInMemory(LedgerContract):
    @pytest.fixture
    def ledger(self):
        ledger = SQLLedger(Database(None))
        yield ledger
        ledger.close()


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is opened during the test."""
    opened = []

    class Recorded(connection.Connection):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            opened.append(self)

    class RecordedWriter(Recorded, connection.Writer):
        pass

    monkeypatch.setattr(connection, "Connection", Recorded)
    monkeypatch.setattr(connection, "Writer", RecordedWriter)
    return opened


def _is_closed(connection):
    try:
        connection.execute("SELECT 1")
    except sqlite3.Error as error:
        return "closed" in str(error)
    return False


def _tables(path):
    connection = sqlite3.connect(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return tables


def test_a_commit_reaches_the_disk_before_it_is_acknowledged(on_disk):
    with on_disk.database.write() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_what_is_deleted_is_overwritten(on_disk):
    with on_disk.database.write() as connection:
        assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
        assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_the_file_knows_its_schema_version(on_disk):
    with on_disk.database.read() as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.touch()], ids=["missing", "empty"])
def test_a_missing_or_empty_file_becomes_a_store(path, make):
    make(path)
    ledger = SQLLedger(Database(path))
    add(ledger, [fact("f1")])
    ledger.close()
    assert {"memories", "passages", "passage_contents", "postings", "pending_reviews"} <= _tables(path)


def test_a_closed_store_is_one_file_and_its_checksum_and_opens_with_everything_in_it(path):
    ledger = SQLLedger(Database(path))
    vectors = np.eye(2, dtype=np.float32)
    stored = add(ledger, [fact("f1"), episode("e1")], vectors)
    ledger.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}-sum", DIRECTORY]
    assert attached(path.parent) == []
    reopened = SQLLedger(Database(path))
    assert reopened.get(scope=SCOPE, id="f1") == fact("f1")
    assert reopened.vectors([passage.id for passage in stored])[1].tolist() == vectors.tolist()
    (later,) = add(reopened, [fact("f2")])
    assert later.id > stored[-1].id
    reopened.close()


def test_a_second_opener_sees_what_the_first_committed_and_no_more(path, on_disk):
    add(on_disk, [fact("f1")])
    second = SQLLedger(Database(path))
    with on_disk.database.write():
        add(on_disk, [fact("f2")])
        assert second.get(scope=SCOPE, id="f1") == fact("f1")
        assert second.get(scope=SCOPE, id="f2") is None
    assert second.get(scope=SCOPE, id="f2") == fact("f2")
    add(second, [fact("f3")])
    assert on_disk.get(scope=SCOPE, id="f3") == fact("f3")
    second.close()


def test_two_openers_never_give_the_same_passage_id(path, on_disk):
    second = SQLLedger(Database(path))
    ids = [add(ledger, [fact(f"f{n}")])[0].id for n, ledger in enumerate([on_disk, second, second, on_disk])]
    assert ids == sorted(set(ids))
    second.close()


def test_a_lease_is_its_holder_s_while_that_is_there_and_anybody_s_afterwards(path, on_disk):
    on_disk.conversations.append(
        SCOPE, [QueuedMessage(id="m1", message=Message(role="user", content="Hi", timestamp=NOW))], at=NOW
    )
    holder, third = SQLLedger(Database(path)), SQLLedger(Database(path))
    times = {"messages": 1, "at": NOW, "expired": NOW - timedelta(hours=2)}
    lease = holder.conversations.new_lease()
    assert holder.conversations.claim(SCOPE, lease=lease, **times)
    third.close()  # who comes and goes takes nothing from anybody
    SQLLedger(Database(path)).close()
    assert on_disk.conversations.state(SCOPE).leased_at == NOW
    assert not on_disk.conversations.claim(SCOPE, lease=on_disk.conversations.new_lease(), **times)
    holder.close()
    assert on_disk.conversations.state(SCOPE).leased_at is None
    assert on_disk.conversations.claim(SCOPE, lease=on_disk.conversations.new_lease(), **times)
    assert not on_disk.conversations.drain(SCOPE, lease=lease, messages=["m1"], previous_summary=None)


def test_the_last_to_leave_writes_the_checksum_and_nobody_before(path, on_disk):
    second = SQLLedger(Database(path))
    add(second, [fact("f1")])
    second.close()
    assert not is_sealed(path)
    on_disk.close()
    assert is_sealed(path)
    first, second = SQLLedger(Database(path)), SQLLedger(Database(path))
    add(second, [fact("f2")])
    second.close()
    first.close()
    check_seal(path)
    assert is_sealed(path)


def test_tables_are_not_changed_under_a_process_of_an_older_version(path, monkeypatch):
    SQLLedger(Database(path)).close()
    older = Attachment(path.parent, schema=len(MIGRATIONS) - 1)
    with older.gate():
        older.enter()
    monkeypatch.setattr(attachment, "OLDER_LEAVE_WITHIN", 0.0)
    with pytest.raises(StoreLockedError, match=rf"process {os.getpid()} of an older version.*end it"):
        SQLLedger(Database(path))
    assert [process.id for process in attached(path.parent)] == [older.id]
    monkeypatch.setattr(attachment, "OLDER_LEAVE_WITHIN", PATIENCE)
    opening = threading.Thread(target=lambda: SQLLedger(Database(path)).close())
    opening.start()
    with older.gate():
        older.leave()
    opening.join(PATIENCE)
    assert not opening.is_alive()
    older.close()


def test_who_waits_too_long_for_its_turn_is_told_who_writes(path, on_disk, monkeypatch):
    second = SQLLedger(Database(path))
    monkeypatch.setattr(processes, "PATIENCE", 0.01)
    with on_disk.database.write():
        add(on_disk, [fact("f1")])
        with ThreadPoolExecutor(1) as thread, pytest.raises(StoreLockedError, match=rf"process {os.getpid()} for more"):
            thread.submit(add, second, [fact("f2")]).result(PATIENCE)
    monkeypatch.undo()
    add(second, [fact("f2")])
    assert on_disk.get(scope=SCOPE, id="f2") == fact("f2")
    second.close()


def test_eight_openers_at_once_make_one_schema(path):
    at_once(lambda _: SQLLedger(Database(path)).close())
    ledger = SQLLedger(Database(path))
    assert ledger.scopes() == []
    ledger.close()


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(path, connections):
    SQLLedger(Database(path)).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="upgrade the package"):
        SQLLedger(Database(path))
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, f"{path.name}-sum", DIRECTORY]
    assert attached(path.parent) == []
    assert all(map(_is_closed, connections))


def test_a_file_that_is_not_sqlite_is_refused_and_left_as_it_is(path, connections):
    path.write_bytes(b"a shopping list: tea, milk" * 100)
    before = path.read_bytes()
    with pytest.raises(BackendError, match=r"memory\.db"):
        SQLLedger(Database(path))
    assert path.read_bytes() == before
    assert all(map(_is_closed, connections))


def test_a_path_that_cannot_be_opened_is_a_backend_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "memory.db"):
        with pytest.raises(BackendError, match="unable to open"):
            SQLLedger(Database(path))


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, monkeypatch):
    SQLLedger(Database(path)).close()
    tables = _tables(path)
    broken = (*MIGRATIONS, ("CREATE TABLE half_done (id INTEGER)", "CREATE TABLE notes (id INTEGER)"))
    monkeypatch.setattr("memory_retrievers.backends.sqlite.schema.MIGRATIONS", broken)
    with pytest.raises(BackendError, match="notes already exists"):
        SQLLedger(Database(path))
    assert _tables(path) == tables


def test_an_older_store_is_brought_up_to_date(path, monkeypatch):
    ledger = SQLLedger(Database(path))
    add(ledger, [fact("f1")])
    ledger.close()
    longer = (*MIGRATIONS, ("CREATE TABLE from_the_future (id INTEGER)",))
    monkeypatch.setattr("memory_retrievers.backends.sqlite.schema.MIGRATIONS", longer)
    ledger = SQLLedger(Database(path))
    assert ledger.get(scope=SCOPE, id="f1") == fact("f1")
    ledger.close()
    assert "from_the_future" in _tables(path)


def test_readers_share_a_pool_that_grows_no_further_than_needed(path, connections):
    ledger = SQLLedger(Database(path))
    for _ in range(50):
        ledger.scopes()
    assert len(connections) == 2  # the writer and one reader
    at_once(lambda _: [ledger.scopes() for _ in range(20)])
    assert len(connections) <= 2 + THREADS
    ledger.close()
    assert all(map(_is_closed, connections))


def test_a_failed_read_gives_its_connection_back(path, connections):
    ledger = SQLLedger(Database(path))
    for _ in range(5):
        with pytest.raises(BackendError, match="no such table"), ledger.database.read(snapshot=True) as connection:
            connection.execute("SELECT * FROM missing")
    assert len(connections) == 2
    ledger.close()
    assert all(map(_is_closed, connections))


def test_a_reader_still_at_work_when_the_store_is_closed_closes_its_own_connection(path, connections):
    ledger = SQLLedger(Database(path))
    with ledger.database.read() as connection:
        ledger.close()
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)
    assert all(map(_is_closed, connections))


def test_a_reader_sees_one_state_however_many_statements_it_runs(on_disk):
    with on_disk.database.read(snapshot=True) as connection:
        before = connection.execute("SELECT count(*) FROM memories").fetchone()
        writer = threading.Thread(target=add, args=(on_disk, [fact("f1")]))
        writer.start()
        writer.join()
        assert connection.execute("SELECT count(*) FROM memories").fetchone() == before
    assert len(on_disk.eligible(facts_in())) == 1


def test_a_store_that_another_process_holds_is_a_backend_error(path, on_disk):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    on_disk.database._writer.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(BackendError, match="locked"):
        add(on_disk, [fact("f1")])
    other.execute("ROLLBACK")
    other.close()
    add(on_disk, [fact("f1")])
    assert on_disk.get(scope=SCOPE, id="f1") == fact("f1")


def test_a_part_given_twice_is_refused_and_nothing_is_stored(on_disk):
    part = NewPassage(part="summary", text="tea", vector=np.zeros(2, np.float32))
    with pytest.raises(ValidationError, match="nothing was written"):
        on_disk.add([episode("e1")], [[part, part]])
    assert on_disk.scopes() == []


def test_a_number_beyond_64_bits_is_refused_and_nothing_is_stored(on_disk):
    with pytest.raises(ValidationError, match="nothing was written"):
        add(on_disk, [fact("f1").model_copy(update={"access_count": 2**63})])
    assert on_disk.scopes() == []


def test_an_id_that_utf8_cannot_write_is_refused(on_disk):
    with pytest.raises(ValidationError, match="surrogates"):
        on_disk.get(scope=SCOPE, id="\ud800")


def test_an_error_after_the_transaction_is_lost_is_passed_on(on_disk):
    def lose_the_transaction():
        with on_disk.database.write() as connection:
            connection.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose_the_transaction()
    add(on_disk, [fact("f1")])
    assert len(on_disk.eligible(facts_in())) == 1


def test_a_migration_that_fails_tells_its_own_cause(path, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", (("CREATE TABLE half (id)", "ROLLBACK", "CREATE TABLE half (id"),))
    with pytest.raises(BackendError, match="incomplete input"):
        SQLLedger(Database(path))
    monkeypatch.undo()
    SQLLedger(Database(path)).close()


@pytest.mark.parametrize("during", ["BEGIN IMMEDIATE", "RELEASE joined1"])
def test_an_interrupt_of_a_transaction_is_raised_as_it_is_and_leaves_none_behind(on_disk, monkeypatch, during):
    def interrupted(self, sql, *values):
        ran = execute(self, sql, *values)
        if sql == during:
            raise KeyboardInterrupt  # Python raises it where the call returns during which Ctrl-C was pressed
        return ran

    execute = connection.Connection.execute
    with monkeypatch.context() as pressed:
        pressed.setattr(connection.Connection, "execute", interrupted)
        with pytest.raises(KeyboardInterrupt), on_disk.database.write(), on_disk.database.write():
            add(on_disk, [fact("f1")])
    add(on_disk, [fact("f2")])
    assert len(on_disk.eligible(facts_in())) == 1


def test_an_interrupt_at_the_end_of_a_transaction_that_is_caught_in_the_one_around_it_undoes_it_alone(
    on_disk, monkeypatch
):
    def interrupted(self, sql, *values):
        if sql.startswith("RELEASE"):
            monkeypatch.undo()
            raise KeyboardInterrupt  # Python raises it where the call begins before which Ctrl-C was pressed
        return execute(self, sql, *values)

    def add_then_press():
        add(on_disk, [fact("f2")])
        monkeypatch.setattr(connection.Connection, "execute", interrupted)

    execute = connection.Connection.execute
    with on_disk.database.write(), on_disk.database.write():
        add(on_disk, [fact("f1")])
        with pytest.raises(KeyboardInterrupt), on_disk.database.write():
            add_then_press()
    assert len(on_disk.eligible(facts_in())) == 1
