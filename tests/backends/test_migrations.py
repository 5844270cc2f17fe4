"""A store that an older version wrote is brought up to date, whole or not at all."""

import hashlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, SemanticMemory
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database, schema
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder, inside

FACTS = [f"User number {number} lives in Lyon and likes tea" for number in range(40)]

TRIGGERS_OF_THEN = (
    """CREATE TRIGGER memory_added AFTER INSERT ON memories BEGIN
        UPDATE scopes SET version = version + 1 WHERE id = NEW.scope_id; END""",
    """CREATE TRIGGER memory_changed AFTER UPDATE OF invalid_at, expires_at, category ON memories BEGIN
        UPDATE scopes SET version = version + 1 WHERE id = NEW.scope_id; END""",
    """CREATE TRIGGER memory_removed AFTER DELETE ON memories BEGIN
        UPDATE scopes SET version = version + 1 WHERE id = OLD.scope_id; END""",
    """CREATE TRIGGER passage_added AFTER INSERT ON passages BEGIN
        UPDATE scopes SET version = version + 1
        WHERE id = (SELECT scope_id FROM memories WHERE row = NEW.memory); END""",
    """CREATE TRIGGER passage_removed AFTER DELETE ON passages BEGIN
        UPDATE scopes SET version = version + 1
        WHERE id = (SELECT scope_id FROM memories WHERE row = OLD.memory); END""",
)

DIE_WHILE_MIGRATING = """
import os, pathlib, signal, sys
from memory_retrievers.backends.sqlite import database, schema
class Dies(tuple):
    def __iter__(self):
        yield from tuple.__iter__(self)
        os.kill(os.getpid(), signal.SIGKILL)
schema.MIGRATIONS = (schema.MIGRATIONS[0], Dies(schema.MIGRATIONS[1]))
database.Database(pathlib.Path(sys.argv[1]))
"""


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture(scope="module")
def first_file(tmp_path_factory):
    """A store as the first version left it: its schema, made by nothing but its statements, and rows in it."""
    file = tmp_path_factory.mktemp("first") / STORE_FILE
    old = sqlite3.connect(file, isolation_level=None)
    for statement in (*MIGRATIONS[0], *TRIGGERS_OF_THEN):
        old.execute(statement)
    old.execute("PRAGMA user_version = 1")
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_many(
            [SemanticMemory.new(scope=f"user/{n % 2}", id=f"f{n}", fact=text) for n, text in enumerate(FACTS)]
        )
        memory.remember_episode(scope="user/0", id="e1", summary="The user moved to Lyon.", title="Moving")
        memory.invalidate("f2", scope="user/0")
        memory.retrieve("Who lives in Lyon?", scope="user/0")
        assert len(memory.pending_reviews("user/0")) == 1
        with inside(memory).ledger.database.read() as source:
            for table in _old_tables(old):
                columns = ", ".join(row[1] for row in old.execute(f"PRAGMA table_info({table})"))
                rows = source.execute(f"SELECT {columns} FROM {table}").fetchall()
                old.execute(f"DELETE FROM {table}")  # triggers have counted scopes up meanwhile
                for row in rows:
                    old.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    old.close()
    return file


@pytest.fixture
def old_file(first_file, store):
    """A copy of it for every test to open."""
    store.mkdir()
    return shutil.copyfile(first_file, store / STORE_FILE)


def _old_tables(connection):
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    # scopes last: the triggers of the others change them
    return sorted((name for (name,) in names), key=lambda name: (name == "scopes", name != "memories", name))


def _dump(file, columns=None):
    """All rows, in the given columns of each table; those of the file itself if none are given."""
    connection = sqlite3.connect(file)
    try:
        columns = columns or _columns(file)
        return {
            table: sorted(map(repr, connection.execute(f"SELECT {', '.join(names)} FROM {table}")))
            for table, names in columns.items()
        }
    finally:
        connection.close()


def _columns(file):
    connection = sqlite3.connect(file)
    try:
        return {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in _old_tables(connection)
        }
    finally:
        connection.close()


def _schema(file):
    connection = sqlite3.connect(file)
    try:
        objects = set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))
        return connection.execute("PRAGMA user_version").fetchone()[0], objects
    finally:
        connection.close()


def opened(store, **given):
    return AgentMemory.open(store, embedder=HashEmbedder(), **given)


def test_an_older_store_has_no_log_of_what_was_and_one_of_what_comes(first_file, store):
    store.mkdir()
    shutil.copy(first_file, store / STORE_FILE)
    with opened(store) as memory:
        assert memory.events("user/0") == memory.events("user/0", id="f0") == ()
        memory.update("f0", scope="user/0", tags=["old"])
        (event,) = memory.events("user/0")
        assert (event.id, event.type, event.fields) == ("f0", "updated", ("tags",))
        assert memory.verify().ok


def test_a_database_in_memory_gets_what_the_migrations_make():
    with closing(_empty()) as migrated, closing(_empty()) as filled:
        schema.migrate(migrated)
        schema.fill(filled)
        assert list(filled.iterdump()) == list(migrated.iterdump())
        for pragma in ("user_version", "page_size", "max_page_count", "auto_vacuum", "encoding", "journal_mode"):
            assert _pragma(filled, pragma) == _pragma(migrated, pragma)


def test_a_new_file_gets_what_the_migrations_make_in_the_same_order(tmp_path):
    Database(tmp_path / "new.db").close()
    with closing(_empty()) as migrated, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        schema.migrate(migrated)
        assert list(new.iterdump()) == list(migrated.iterdump())
        # where several indexes would do, the planner takes one by their order
        in_order = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid"
        assert new.execute(in_order).fetchall() == migrated.execute(in_order).fetchall()
        for pragma in ("user_version", "application_id", "page_size", "auto_vacuum", "encoding", "integrity_check"):
            assert _pragma(new, pragma) == _pragma(migrated, pragma)
        assert _pragma(new, "journal_mode") == ("wal",)


def test_a_file_with_tables_of_another_program_is_never_taken_for_a_new_one(tmp_path):
    with closing(sqlite3.connect(tmp_path / "diary.db")) as diary:
        diary.executescript("CREATE TABLE diary (day TEXT); INSERT INTO diary VALUES ('Monday')")
        Database(tmp_path / "diary.db").close()
        assert diary.execute("SELECT day FROM diary").fetchall() == [("Monday",)]
        assert _pragma(diary, "user_version") == (len(MIGRATIONS),)


AT_EXIT = """
import atexit, sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

def at_exit():
    for opened in (AgentMemory.open(sys.argv[1], embedder=HashEmbedder()), AgentMemory.in_memory(embedder=HashEmbedder())):
        with opened as memory:
            memory.remember_fact(scope="c", fact="The last word")
            print(len(memory.list("c")))

atexit.register(at_exit)
AgentMemory.in_memory(embedder=HashEmbedder()).close()
"""


def test_a_program_opens_a_new_store_as_it_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, tmp_path / "store"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("1\n1\n", "", 0)


def test_a_new_file_that_another_program_has_locked_is_refused_and_not_tried_for_ever(tmp_path):
    file = tmp_path / "new.db"
    with closing(sqlite3.connect(file, timeout=0.01)) as new, closing(sqlite3.connect(file)) as other:
        new.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            schema.fill(new)
        other.rollback()
        schema.fill(new)
        assert schema.version_of(new) == len(MIGRATIONS)


def _empty():
    return sqlite3.connect(":memory:", isolation_level=None)


def _pragma(connection, name):
    return connection.execute(f"PRAGMA {name}").fetchone()


def test_the_old_file_is_one_of_the_first_schema(old_file):
    version, objects = _schema(old_file)
    names = {name for _, name, _, _ in objects}
    assert version == 1
    assert "memories" in names
    assert not names & {"projection", "outbox", "new_vectors"}
    assert len(_dump(old_file)["memories"]) == len(FACTS) + 1


def test_a_store_of_the_first_schema_is_opened_with_everything_in_it(old_file, store):
    before, columns = _dump(old_file), _columns(old_file)
    with opened(store) as memory:
        assert memory.stats().model_dump() == {
            "episodes": 1,
            "facts": 39,
            "invalidated_facts": 1,
            "pending_reviews": 1,
            "queued_messages": 0,
        }
        assert memory.verify().problems == ()
        found = memory.retrieve("Where did number 8 move to?", scope="user/0")
        assert found.semantic[0].memory.id == "f8"
        assert [hit.memory.id for hit in found.episodic] == ["e1"]
        assert "f2" not in {hit.memory.id for hit in memory.retrieve(FACTS[2], scope="user/0", limit=100).semantic}
        assert memory.get("f2", scope="user/0").invalid_at is not None
    after = _dump(old_file, columns)
    del before["pending_reviews"], after["pending_reviews"]  # the question above waits there too
    assert after == before


def test_a_migrated_store_can_be_written_forgotten_and_moved_to_another_embedder(old_file, store):
    with opened(store) as memory:
        memory.remember_fact(scope="user/0", fact="User plays chess", id="new")
        memory.forget("f0", scope="user/0")
        memory.update("f4", scope="user/0", fact="User drinks coffee")
        memory.reembed(HashEmbedder(64), embedder_id="small")
        assert memory.retrieve("chess", scope="user/0").semantic[0].memory.id == "new"
        assert memory.retrieve("coffee", scope="user/0").semantic[0].memory.id == "f4"
        assert memory.verify().problems == ()


def test_the_schema_of_a_migrated_file_is_that_of_a_new_one(old_file, tmp_path):
    SQLLedger(Database(old_file)).close()
    SQLLedger(Database(tmp_path / "new.db")).close()
    assert _schema(old_file) == _schema(tmp_path / "new.db")
    assert _schema(old_file)[0] == len(MIGRATIONS)


def test_a_process_killed_in_the_middle_of_a_migration_leaves_the_old_store(old_file, store):
    schema, rows = _schema(old_file), _dump(old_file)
    died = subprocess.run([sys.executable, "-c", DIE_WHILE_MIGRATING, str(old_file)], timeout=PATIENCE)
    assert died.returncode == -signal.SIGKILL
    assert (_schema(old_file), _dump(old_file)) == (schema, rows)
    with opened(store) as memory:
        assert memory.verify().problems == ()


@pytest.mark.parametrize("statements_before", range(len(MIGRATIONS[1]) + 1))
def test_a_statement_that_fails_leaves_the_old_store(old_file, store, monkeypatch, statements_before):
    before = _schema(old_file), _dump(old_file)
    broken = (*MIGRATIONS[1][:statements_before], "CREATE TABLE notes (id INTEGER)")
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", (MIGRATIONS[0], broken))
        with pytest.raises(BackendError, match="notes already exists"):
            opened(store)
    assert (_schema(old_file), _dump(old_file)) == before
    with opened(store) as memory:
        assert len(memory.scopes()) == 2


def test_looking_into_an_older_store_says_what_to_do_and_changes_nothing(old_file, store):
    before = hashlib.sha256(old_file.read_bytes()).digest()
    with pytest.raises(
        ConfigurationError, match=r"older version.*schema 1.*open it once without read_only=True, or a copy"
    ):
        opened(store, read_only=True)
    assert hashlib.sha256(old_file.read_bytes()).digest() == before
    opened(store).close()
    with opened(store, read_only=True) as memory:
        assert memory.retrieve("number 8", scope="user/0").semantic[0].memory.id == "f8"


def test_a_store_that_only_lacks_what_changes_no_table_is_looked_into_as_it_is(old_file, store):
    opened(store).close()
    before = next(version for version in range(len(MIGRATIONS)) if not any(MIGRATIONS[version:]))
    with closing(sqlite3.connect(old_file)) as file:
        file.execute(f"PRAGMA user_version = {before}")
    (store / f"{STORE_FILE}-sum").unlink()
    with opened(store, read_only=True) as memory:
        assert memory.retrieve("number 8", scope="user/0").semantic[0].memory.id == "f8"
    assert _schema(old_file)[0] == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(old_file, store, read_only):
    opened(store).close()
    newer = sqlite3.connect(old_file)
    newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    before = hashlib.sha256(old_file.read_bytes()).digest()
    with pytest.raises(ConfigurationError, match=r"newer version.*upgrade the package"):
        opened(store, read_only=read_only)
    assert hashlib.sha256(old_file.read_bytes()).digest() == before


def test_openers_at_once_migrate_once(old_file):
    rows, columns, failures, barrier = _dump(old_file), _columns(old_file), [], threading.Barrier(4)

    def migrate():
        barrier.wait()
        try:
            SQLLedger(Database(old_file)).close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test fails
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert _dump(old_file, columns) == rows


def test_another_process_that_opens_at_the_same_time_waits_for_the_migration(old_file):
    rows, columns = _dump(old_file), _columns(old_file)
    opening = "import pathlib, sys; from memory_retrievers.backends.sqlite import Database; Database(pathlib.Path(sys.argv[1])).close()"
    processes = [subprocess.Popen([sys.executable, "-c", opening, str(old_file)]) for _ in range(3)]
    assert [process.wait(timeout=PATIENCE) for process in processes] == [0, 0, 0]
    assert _schema(old_file)[0] == len(MIGRATIONS)
    assert _dump(old_file, columns) == rows
