import json
import shutil
import signal
import sys

import pytest
from typer.testing import CliRunner

from memory_retrievers import AgentMemory
from memory_retrievers.backends.sqlite import schema
from memory_retrievers.cli import app
from memory_retrievers.testing import inside


@pytest.fixture
def store(tmp_path, filled):
    return shutil.copytree(filled, tmp_path / "store")


@pytest.fixture(scope="module")
def filled(tmp_path_factory, run):
    store = tmp_path_factory.mktemp("filled")
    for scope in ("user/ruth", "user/ruth/garden", "user/ruthless"):
        run("remember", "--store", store, "--scope", scope, stdin=json.dumps({"id": "e1", "summary": f"xyzzy {scope}"}))
    return store


def scopes(run, store):
    return run("scopes", "--store", store).splitlines()


def test_a_memory_is_forgotten_in_its_scope_alone(store, run, refused):
    assert run("forget", "e1", "--scope", "user/ruth", "--store", store) == ""
    assert scopes(run, store) == ["user/ruth/garden", "user/ruthless"]
    assert "Memory not found: e1" in refused("forget", "e1", "--scope", "user/ruth", "--store", store)


def test_what_was_said_is_forgotten_and_what_was_made_of_it_named(store, run, refused):
    said = [{"role": "user", "content": text} for text in ("The garden is sold.", "xyzzy is the code.")]
    at = ("--scope", "user/ruth", "--store", store)
    run("remember", *at, stdin=json.dumps({"id": "e2", "summary": "They spoke.", "messages": said}))
    with AgentMemory.open(store) as memory:
        memory.remember_fact(scope="user/ruth", id="f1", fact="There is a code", source_episodic_ids=["e2"])
    assert run("forget-messages", "xyzzy is the code.", "Nobody said that.", *at) == "1\nf1\n"
    assert run("forget-messages", "xyzzy is the code.", *at) == "0\n"
    assert "garden is sold" in run("get", "e2", *at)
    assert "xyzzy" not in run("get", "e2", *at)
    assert "messages.0" in refused("forget-messages", " ", *at)


def test_a_scope_is_forgotten_with_those_below_it_when_yes_is_said(store, run, refused):
    assert "give --yes to do it" in refused("forget-scope", "user/ruth", "--store", store)
    assert len(scopes(run, store)) == 3
    assert run("forget-scope", "user/ruth", "--yes", "--store", store) == "2\n"
    assert scopes(run, store) == ["user/ruthless"]


def test_nothing_of_what_was_forgotten_is_left_after_a_purge(store, run):
    run("forget-scope", "user", "--yes", "--store", store)
    assert run("purge", "--store", store) == ""
    assert not any(b"xyzzy" in file.read_bytes() for file in store.rglob("*") if file.is_file())


def test_a_backup_can_be_looked_into_and_is_never_overwritten(store, run, refused, tmp_path):
    run("backup", tmp_path / "copy", "--store", store)
    assert scopes(run, tmp_path / "copy") == scopes(run, store)
    assert "is in use already" in refused("backup", tmp_path / "copy", "--store", store)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM that can be handled")
def test_sigterm_ends_a_backup_between_two_steps_and_leaves_nothing(store, tmp_path, monkeypatch):
    with AgentMemory.open(store) as memory, inside(memory).ledger.database.write() as connection:
        connection.execute("CREATE TABLE large AS SELECT zeroblob(20000000) AS large")  # more than one step
    left = []

    def interrupted(_status, remaining, _pages):
        left.append(remaining)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(schema, "refuse_to_wait", interrupted)
    (tmp_path / "copies").mkdir()
    result = CliRunner().invoke(app, ["backup", str(tmp_path / "copies" / "new"), "--store", str(store)])
    assert result.exit_code == 128 + signal.SIGTERM, result.output
    assert len(left) == 1
    assert left[0] > 0
    assert not list((tmp_path / "copies").iterdir())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_neither_a_backup_nor_an_export_is_put_into_the_store_itself(store, run, refused, tmp_path):
    (tmp_path / "link").symlink_to(store)
    for target in (
        store / "copy",
        store / "deep" / "copy",
        tmp_path / "link" / "copy",
        store / ".." / "store" / "copy",
    ):
        for command in ("backup", "export"):
            line = refused(command, target, "--store", store)
            assert line == f"error: {target} is inside the store itself, {store}: name a place outside it"
    assert {each.name for each in store.iterdir()} & {"copy", "deep"} == set()
    run("export", tmp_path / "store.jsonl", "--store", store)


@pytest.mark.parametrize(
    "arguments",
    [
        ["forget", "e1", "--scope", "c1"],
        ["forget-messages", "x", "--scope", "c1"],
        ["forget-scope", "c1", "--yes"],
        ["purge"],
        ["backup", "copy"],
    ],
)
def test_a_store_that_is_not_there_is_not_made(tmp_path, refused, arguments):
    assert "there is no memory store at" in refused(*arguments, "--store", tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_scope_is_refused(store, refused):
    assert "is malformed" in refused("forget", "e1", "--scope", "user//ruth", "--store", store)
    assert "is malformed" in refused("forget-scope", "user/", "--store", store)
