"""The command line beside a process that has the store open."""

import filelock
import pytest

from memory_retrievers.storage.opening import LOCK_FILE, OWNER_FILE


@pytest.fixture
def held(tmp_path, run):
    """A store that somebody else holds, as far as the lock tells."""
    store = tmp_path / "store"
    run("remember", "--store", store, "--scope", "c1", "--fact", "User lives in Lyon")
    (store / OWNER_FILE).write_text("4711")
    with filelock.FileLock(store / LOCK_FILE):
        yield store


@pytest.mark.parametrize(
    "command",
    [
        ["retrieve", "Lyon", "--scope", "c1"],
        ["recent", "--scope", "c1"],
        ["list", "--scope", "c1"],
        ["scopes"],
        ["stats"],
        ["verify"],
    ],
)
def test_reading_commands_look_into_a_store_that_is_held(held, run, command):
    assert run(*command, "--store", held)


def test_copies_can_be_made_of_a_store_that_is_held(held, run, tmp_path):
    assert run("export", tmp_path / "file.jsonl", "--store", held) == "1\n"
    assert run("backup", tmp_path / "copy", "--store", held) == ""


@pytest.mark.parametrize(
    "command",
    [
        ["remember", "--scope", "c1", "--fact", "x"],
        ["forget", "e1", "--scope", "c1"],
        ["rebuild"],
        ["purge"],
        ["reembed", "--yes"],
        ["reindex"],
    ],
)
def test_writing_commands_name_the_process_that_holds_it(held, refused, command):
    assert "process 4711" in refused(*command, "--store", held)
