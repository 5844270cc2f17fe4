"""Killed while it copies, exports, imports or migrates, a process leaves nothing half-written under its final name."""

import signal
import sqlite3
from contextlib import closing

import pytest
from crash.journal import Journal, record_of
from crash.process import run
from crash.report import contents
from crash.writer import DIMENSION, opened

from memory_retrievers import AgentMemory
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder

pytestmark = pytest.mark.parametrize("dense", ["exact"])

KILLED = -signal.SIGKILL
FILLED = ("--steps", 120)


def records(memory):
    return {(each.scope, each.id): record_of(each) for each in contents(memory)}


@pytest.mark.parametrize("point", ["within:backup:1", "within:backup:9", "before:rename:1", "after:rename:1"])
def test_killed_while_backing_up_there_is_a_whole_copy_or_none(write, journal, tmp_path, point):
    target = tmp_path / "copy"
    backup = ("--act", "backup", "--target", target)
    assert write(*FILLED, *backup, "--fault", point, "--live", "act").exitcode == KILLED
    assert target.exists() == point.startswith("after:rename")
    if not target.exists():
        assert write(*backup).exitcode == 0
    with opened(target) as copy:
        assert records(copy) == journal.acknowledged
        assert copy.verify().ok


@pytest.mark.parametrize("point", ["within:line:1", "before:rename:1", "after:rename:1"])
def test_killed_while_exporting_there_is_a_whole_file_or_none(write, journal, tmp_path, point):
    target = tmp_path / "export.jsonl"
    export = ("--act", "export", "--target", target)
    assert write(*FILLED, *export, "--fault", point, "--live", "act").exitcode == KILLED
    assert target.exists() == point.startswith("after:rename")
    if not target.exists():
        assert write(*export).exitcode == 0
    with AgentMemory.import_(target, into=tmp_path / "imported", embedder=HashEmbedder(DIMENSION)) as imported:
        assert records(imported) == journal.acknowledged


@pytest.mark.parametrize("point", ["within:line:1", "before:any:200", "before:rename:1", "after:rename:1"])
def test_killed_while_importing_there_is_a_whole_store_or_none(write, journal, tmp_path, point):
    source, target = tmp_path / "export.jsonl", tmp_path / "export.store"
    assert write(*FILLED, "--act", "export", "--target", source).exitcode == 0
    expected = dict(journal.acknowledged)
    import_ = ("--act", "import", "--target", source)
    assert write(*import_, "--fault", point, "--live", "act").exitcode == KILLED
    assert target.exists() == point.startswith("after:rename")
    if not target.exists():
        assert write(*import_).exitcode == 0
    with opened(target) as imported:
        assert records(imported) == expected
        assert imported.verify().ok


def older(store, *, version):
    """Take the store's file back to an older schema, with all that it holds."""
    file = store / STORE_FILE
    newer = file.rename(store / "newer.db")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in (each for migration in MIGRATIONS[:version] for each in migration):
            connection.execute(statement)
        connection.execute("ATTACH ? AS newer", (str(newer),))
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = ", ".join(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
            connection.execute(f"DELETE FROM main.{table}")
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
        connection.execute("DETACH newer")
        connection.execute(f"PRAGMA user_version = {version}")
    newer.unlink()
    (store / f"{STORE_FILE}-sum").unlink()  # changed on purpose


@pytest.mark.parametrize("point", ["after:CREATE:1", "after:CREATE:3", "before:COMMIT:1", "after:COMMIT:1"])
def test_killed_while_migrating_the_store_is_the_old_or_the_new_one(write, store, journal, point):
    assert write(*FILLED).exitcode == 0
    older(store, version=1)
    died = run(store, "--fault", point, "--live", "opening", journal=Journal())
    assert (died.exitcode, "found" in died.said) == (KILLED, False)
    with closing(sqlite3.connect(store / STORE_FILE)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    assert version == (len(MIGRATIONS) if point == "after:COMMIT:1" else 1)
    assert write("--steps", 20).exitcode == 0
