"""verify, rebuild, reembed and reindex."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memory_retrievers import AgentMemory

HASHED = "memory_retrievers.testing:HashEmbedder"


def damage(store, statement):
    with closing(sqlite3.connect(store / "memory.db")) as connection, connection:
        connection.execute(statement)
    (store / "memory.db-sum").unlink()  # changed on purpose


def counts(table, output):
    return table("\n".join(output.splitlines()[:2]))[0]


def test_a_store_that_is_whole_is_verified_quietly(foreign_store, run, table):
    counted = counts(table, run("verify", "--store", foreign_store))

    assert (counted["memories"], counted["passages"], counted["problems"]) == ("3", "3", "0")
    assert int(counted["postings"]) > 5


def test_verify_prints_every_problem_and_ends_with_1_and_rebuild_mends_the_index(foreign_store, ended, run, table):
    damage(foreign_store, "UPDATE postings SET length = 9 WHERE passage < 3")
    code, output, complaint = ended("verify", "--store", foreign_store)
    problems = output.splitlines()[2:]

    assert (code, complaint, counts(table, output)["problems"]) == (1, "", str(len(problems)))
    for memory in ("'e1' in scope 'user/ruth'", "'e2' in scope 'user/ruth/garden'"):
        assert any(memory in problem for problem in problems)
    assert run("rebuild", "sparse", "--store", foreign_store) == ""
    assert len(run("verify", "--store", foreign_store).splitlines()) == 2


def test_a_problem_that_names_a_strange_scope_stays_in_its_line(tmp_path, run, ended):
    run("remember", "--store", tmp_path, "--scope", "c1", "--embedder", HASHED, stdin='{"id": "a\\nb", "summary": "x"}')
    damage(tmp_path, "UPDATE postings SET length = 9")
    _, output, _ = ended("verify", "--store", tmp_path)

    assert any("a b" in line or "a\\nb" in line for line in output.splitlines()[2:])


def test_a_store_that_cannot_even_be_opened_is_not_whole(tmp_path, ended):
    (tmp_path / "memory.db").write_bytes(b"this is not a database, and long enough to look at" * 100)
    code, output, complaint = ended("verify", "--store", tmp_path)

    assert (code, complaint) == (1, "")
    assert "file is not a database" in output.splitlines()[2]


@pytest.mark.parametrize("what", ["sparse", "dense", "all"])
def test_rebuild_takes_the_name_of_an_index(foreign_store, run, refused, what):
    assert run("rebuild", what, "--store", foreign_store) == ""
    assert "unknown index 'fast'; one of: sparse, dense, all" in refused("rebuild", "fast", "--store", foreign_store)


def test_reembed_moves_a_store_whose_embedder_is_gone_to_the_bundled_one(foreign_store, run, refused):
    assert run("reembed", "--yes", "--store", foreign_store) == ""

    question = ("retrieve", "insects", "--scope", "user/ruth", "--include-child-scopes", "--store", foreign_store)
    assert "Ruth bought bees" in run(*question)
    assert "filled with the embedder" in refused(*question, "--embedder", HASHED)
    assert len(run("verify", "--store", foreign_store).splitlines()) == 2


def test_reembed_notes_the_name_that_the_new_embedder_is_given(foreign_store, run):
    run("reembed", "--yes", "--store", foreign_store, "--embedder", HASHED, "--embedder-id", "a new name")

    named = ("--embedder", HASHED, "--embedder-id", "a new name", "--store", foreign_store)
    assert "Ruth lives in Lyon" in run("retrieve", "Lyon", "--scope", "user/ruth", *named)


def test_reembed_asks_to_be_told_twice(foreign_store, refused, run):
    told = refused("reembed", "--store", foreign_store)

    assert "'a model of old'" in told
    assert "give --yes to do it" in told
    named = ("--embedder", HASHED, "--embedder-id", "a model of old")
    assert "Lyon" in run("retrieve", "Lyon", "--scope", "user/ruth", "--store", foreign_store, *named)


def test_an_empty_store_has_no_vectors_to_lose(tmp_path, run):
    AgentMemory.open(tmp_path).close()

    assert run("reembed", "--embedder", HASHED, "--store", tmp_path) == ""
    assert run("remember", "--scope", "c1", "--fact", "x", "--embedder", HASHED, "--store", tmp_path)


def test_the_installed_command_ends_with_1_for_a_damaged_store(foreign_store):
    damage(foreign_store, "DELETE FROM passages WHERE id = 1")
    command = [Path(sys.executable).parent / "memory-retrievers", "verify", "--store", foreign_store]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stderr) == (1, "")
    assert any(line.startswith("memory 'e1' in scope 'user/ruth' has no passage") for line in done.stdout.splitlines())


def test_reindex_adds_the_messages_of_episodes_and_takes_them_out_again(tmp_path, run, refused, table):
    said = [{"role": "Ana", "content": f"I saw bird {n}"} for n in range(3)]
    episode = json.dumps({"id": "e1", "summary": "Birds", "messages": said})
    named = ("--store", tmp_path, "--embedder", HASHED)
    run("remember", "--scope", "c1", *named, stdin=episode)

    def passages():
        return int(counts(table, run("verify", "--store", tmp_path))["passages"])

    assert [passages(), run("reindex", *named), passages()] == [4, "0\n", 4]
    assert [run("reindex", "summary", *named), passages()] == ["1\n", 1]
    assert [run("reindex", "turns", *named), passages()] == ["1\n", 4]
    assert "unknown passages 'windows'; one of: summary, turns" in refused("reindex", "windows", *named)
    assert passages() == 4


@pytest.mark.parametrize("command", [["verify"], ["rebuild"], ["reembed", "--yes"], ["reembed"], ["reindex"]])
def test_a_store_that_is_not_there_is_not_made(tmp_path, refused, command):
    assert "there is no memory store at" in refused(*command, "--store", tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
