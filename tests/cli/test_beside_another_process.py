"""The command line beside a process that has the store open."""

import filelock
import pytest

from memory_retrievers.ownership import LOCK_FILE, OWNER_FILE


@pytest.fixture
def held(tmp_path, run):
    """A store that somebody else holds, as far as the lock tells."""
    store = tmp_path / "store"
    run("remember", "--store", store, "--scope", "c1", "--fact", "User lives in Lyon")
    (store / OWNER_FILE).write_text("4711")
    with filelock.FileLock(store / LOCK_FILE):
        yield store


@pytest.mark.parametrize(
    "command", [["retrieve", "Lyon", "--scope", "c1"], ["recent", "--scope", "c1"], ["scopes"], ["stats"]]
)
def test_reading_commands_look_into_a_store_that_is_held(held, run, command):
    assert run(*command, "--store", held)


def test_writing_commands_name_the_process_that_holds_it(held, refused):
    assert "process 4711" in refused("remember", "--store", held, "--scope", "c1", "--fact", "x")
