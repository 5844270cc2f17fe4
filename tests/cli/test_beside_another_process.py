"""The command line beside a process that has the store open."""

import subprocess
import sys

import pytest
from patience import PATIENCE

HOLD = """
import sys
from memory_retrievers import AgentMemory
with AgentMemory.open(sys.argv[1], dense="exact") as memory:
    print("ready", flush=True)
    for line in sys.stdin:
        print(memory.stats().facts, [fact.fact for fact in memory.list("c1", kind="semantic").memories], flush=True)
"""


@pytest.fixture
def held(tmp_path, run):
    """A store that another process has open."""
    store = tmp_path / "store"
    run("remember", "--store", store, "--scope", "c1", "--fact", "User lives in Lyon")
    arguments = [sys.executable, "-c", HOLD, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "ready\n"
        yield store
        holder.communicate(timeout=PATIENCE)


def test_any_command_runs_beside_a_process_that_writes(tmp_path, run):
    store = tmp_path / "store"
    first = run("remember", "--store", store, "--scope", "c1", "--fact", "User lives in Lyon").strip()
    arguments = [sys.executable, "-c", HOLD, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "ready\n"
        for command in (
            ["remember", "--scope", "c1", "--fact", "The cello stands in Rome"],
            ["rebuild"],
            ["reindex"],
            ["forget", first, "--scope", "c1"],
            ["purge"],
            ["reembed", "--yes"],
        ):
            run(*command, "--store", store)
        assert "Rome" in run("retrieve", "Rome", "--scope", "c1", "--store", store)
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "1 ['The cello stands in Rome']\n"
        holder.communicate(timeout=PATIENCE)


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
