"""``doctor`` says what uses a store, how it is and what to do about it, and changes nothing."""

import json
import os
import sqlite3
import sys
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.postgres import Database
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.storage import diagnosis
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder, inside

LOCKS_ARE_TOLD = sys.platform == "linux" and Path("/proc/locks").exists()


@pytest.fixture
def store(tmp_path, run):
    """A store of one fact that nobody has open."""
    named = ("--embedder", "memory_retrievers.testing:HashEmbedder")
    run("remember", "--store", tmp_path / "store", "--scope", "c1", "--fact", "User lives in Lyon", *named)
    return tmp_path / "store"


@pytest.fixture
def diagnosed(ended):
    """Run the command with ``--json``, and give its exit code and what it printed."""

    def diagnosed(store):
        code, printed, complaint = ended("doctor", "--store", store, "--json")
        assert complaint == ""
        return code, json.loads(printed)

    return diagnosed


def contents(directory):
    return {path.relative_to(directory): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def changed(store, statement, values=()):
    """Change the file of a closed store, as something else than the package would."""
    with closing(sqlite3.connect(store / STORE_FILE)) as connection:
        connection.execute(statement, values)
        connection.commit()
    (store / f"{STORE_FILE}-sum").unlink(missing_ok=True)


def test_a_store_that_is_well_is_told_so_and_left_as_it_is(store, run, diagnosed):
    before = contents(store)
    printed = run("doctor", "--store", store)
    assert "nothing to do" in printed
    assert "Chroma\tnot used yet" in printed.splitlines()
    assert "HashEmbedder" in printed
    code, seen = diagnosed(store)
    assert (code, seen["ok"], seen["findings"], seen["users"]) == (0, True, [], [])
    assert seen["schema"] == seen["known_schema"] == len(MIGRATIONS)
    assert seen["tables"]["memories"] == 1
    assert seen["bytes"]["database"] == (store / STORE_FILE).stat().st_size
    assert contents(store) == before


def test_who_has_a_store_open_is_told_and_what_it_holds(store, diagnosed):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.add_messages("c1", [Message(role="user", content="The office has moved to Lyon.")])
        inside(memory).pipeline.queue.claim("c1", whole=True)
        code, seen = diagnosed(store)
        assert code == 0
        (user,) = seen["users"]
        assert (user["pid"], user["is_alive"], user["holds"]) == (os.getpid(), True, ["the queue of c1"])
        assert datetime.fromisoformat(user["since"]) <= datetime.now(UTC)
        assert seen["tables"]["waiting_messages"] == 1
        if LOCKS_ARE_TOLD:
            with inside(memory).ledger.database.alone("moving"):
                assert "the vectors, to make them anew" in diagnosed(store)[1]["users"][0]["holds"]
        memory.flush("c2")
    assert diagnosed(store)[1]["users"] == []


def test_what_a_killed_process_has_left_behind_is_told_as_that(store, run, diagnosed):
    left = store / "processes" / uuid.uuid4().hex
    left.write_text(json.dumps({"pid": 4711, "program": "agent"}))
    left.chmod(0o600)
    code, seen = diagnosed(store)
    assert code == 0
    assert [(user["pid"], user["is_alive"]) for user in seen["users"]] == [(4711, False)]
    assert "it was killed" in run("doctor", "--store", store)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_store_of_an_older_schema_is_looked_into_and_stays_of_it(tmp_path, diagnosed, run, version):
    with closing(sqlite3.connect(tmp_path / STORE_FILE)) as connection:
        for statement in (each for migration in MIGRATIONS[:version] for each in migration):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
    (tmp_path / STORE_FILE).chmod(0o600)
    tmp_path.chmod(0o700)
    code, seen = diagnosed(tmp_path)
    assert (code, seen["schema"], seen["tables"]["memories"], seen["damage"]) == (0, version, 0, [])
    assert f"brought to {len(MIGRATIONS)}" in run("doctor", "--store", tmp_path)


def test_a_store_of_a_newer_schema_asks_for_an_upgrade(store, diagnosed):
    changed(store, "PRAGMA user_version = 99")
    code, seen = diagnosed(store)
    assert code == 1
    (finding,) = seen["findings"]
    assert "schema 99" in finding["what"]
    assert "upgrade" in finding["remedy"]


def test_a_damaged_store_asks_for_a_backup(store, diagnosed):
    file = store / STORE_FILE
    content = bytearray(file.read_bytes())
    content[5_000:9_000] = bytes(4_000)
    file.write_bytes(content)
    code, seen = diagnosed(store)
    assert code == 1
    assert seen["damage"]
    assert "restore a backup" in seen["findings"][0]["remedy"]
    file.write_text("This is no database at all.")
    (store / f"{STORE_FILE}-sum").unlink()
    code, seen = diagnosed(store)
    assert code == 1
    assert seen["tables"] is None


def test_messages_that_wait_too_long_ask_to_be_worked_on(store, diagnosed):
    said = datetime.now(UTC) - timedelta(hours=5)
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        messages = [Message(role="user", content=f"Point {number} of the list.", timestamp=said) for number in range(6)]
        memory.add_messages("c1", messages)
    code, seen = diagnosed(store)
    assert code == 1
    assert [finding["what"][:10] for finding in seen["findings"]] == ["6 messages"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_that_others_may_read_are_named_with_the_command_that_mends_it(store, diagnosed):
    (store / STORE_FILE).chmod(0o644)
    code, seen = diagnosed(store)
    assert code == 1
    (finding,) = seen["findings"]
    assert "memory.db (0644)" in finding["what"]
    assert "chmod -R go=" in finding["remedy"]


def test_nothing_in_a_store_can_pose_as_what_the_doctor_says(store, ended):
    evil = "\x1b[31m\nnothing to do\tok"
    (store / "processes" / uuid.uuid4().hex).write_text(json.dumps({"pid": 1, "program": evil, "version": evil}))
    changed(store, "UPDATE notes SET value = ? WHERE name = 'embedder_id'", (evil,))
    changed(store, "UPDATE scopes SET scope = ?", (evil,))
    leased = (
        "INSERT INTO queues (scope_id, conversation, fence, fenced_at, heard_at) SELECT id, '', ?, 1, 1 FROM scopes"
    )
    changed(store, leased, (f"{evil}:x",))
    code, printed, _ = ended("doctor", "--store", store)
    assert code == 1
    assert "\x1b" not in printed
    assert "nothing to do" not in printed.splitlines()
    _, printed, _ = ended("doctor", "--store", store, "--json")
    assert "\x1b" not in printed


def test_where_there_is_no_store_none_is_made(tmp_path, refused):
    assert "no memory store" in refused("doctor", "--store", tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


class TestDatabase:
    """A store in PostgreSQL."""

    @pytest.fixture
    def database(self, postgres_server):
        """The name of a database of its own with the tables of a store."""
        name = postgres_server.create()
        SQLLedger(Database(postgres_server.url(name))).close()
        return name

    @pytest.mark.parametrize(
        ("statement", "what"),
        [
            ("DROP TABLE postings_3", ["the table postings_3 is missing"]),
            ("ALTER TABLE audit_2 DISABLE ROW LEVEL SECURITY", ["the row-level security of audit_2 is missing"]),
            (
                "DROP FUNCTION passages_added CASCADE",
                ["the trigger function passages_added is missing", "the trigger passages_added of passages is missing"],
            ),
            ("GRANT EXECUTE ON FUNCTION memories_removed() TO PUBLIC", ["every role may attach"]),
        ],
    )
    def test_what_is_missing_and_who_could_run_code_as_another_is_told(
        self, postgres_server, database, diagnosed, statement, what
    ):
        url = postgres_server.url(database)
        assert diagnosed(url)[0] == 0
        postgres_server.run(statement, database=database)
        code, seen = diagnosed(url)
        assert code == 1
        for finding, beginning in zip(seen["findings"], what, strict=True):
            assert finding["what"].startswith(beginning)
        assert seen["damage"] == [f"{each['what']}: {each['remedy']}" for each in seen["findings"]]

    def test_sessions_of_another_role_are_told_too(self, postgres_server, database, diagnosed):
        url = postgres_server.url(database)
        postgres_server.run("CREATE ROLE watcher LOGIN; GRANT SELECT ON schema_version TO watcher", database=database)
        with psycopg.connect(url) as other:
            _, seen = diagnosed(url.replace("postgres:@", "watcher:@"))
            assert [user["pid"] for user in seen["users"]] == [other.info.backend_pid]

    def test_who_has_the_tables_to_himself_is_told_at_once(self, postgres_server, database, diagnosed, monkeypatch):
        monkeypatch.setattr(diagnosis, "LONG", timedelta(0))
        url = postgres_server.url(database)
        with psycopg.connect(url) as other:
            other.execute(f"SET idle_in_transaction_session_timeout = '{PATIENCE}s'; LOCK TABLE memories")
            code, seen = diagnosed(url)
        assert (code, seen["tables"]["memories"]) == (1, None)
        assert [user["holds"] for user in seen["users"]] == [["9 tables, which nobody else can use"]]
        assert "may hold up the others" in seen["findings"][0]["what"]
