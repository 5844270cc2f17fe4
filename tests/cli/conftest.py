import functools
import json
import shutil

import pytest
import typer.testing
from typer.testing import CliRunner

from memory_retrievers.cli import app

SCOPE = "user/ines"
HASHED = "memory_retrievers.testing:HashEmbedder"
ENVIRONMENT = ("MEMORY_RETRIEVERS_STORE", "MEMORY_RETRIEVERS_EMBEDDER", "MEMORY_RETRIEVERS_EMBEDDER_ID")


@pytest.fixture(scope="session", autouse=True)
def bare_environment():
    """What the person at the keyboard has set does not reach the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ENVIRONMENT:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def prepared_once():
    """What takes most of a short command's time is made once, and not for every call: its parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.testing._get_command))
        yield


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The store of a first demo run, and what the run printed. Commands that only read may share it."""
    store = tmp_path_factory.mktemp("demo") / "store"
    result = CliRunner().invoke(app, ["demo", "--store", str(store)])
    assert result.exit_code == 0, result.output
    return store, result.stdout


@pytest.fixture(scope="session")
def run():
    """Run a command that succeeds quietly, and give what it printed."""

    def run(*arguments, stdin=""):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    return run


@pytest.fixture
def refused():
    """Run a command that is refused, and give the one line it complains in."""

    def refused(*arguments, stdin=""):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        return line

    return refused


@pytest.fixture
def ended():
    """Run a command however it ends, and give its exit code, what it printed and what it said on standard error."""

    def ended(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return result.exit_code, result.stdout, result.stderr

    return ended


@pytest.fixture
def foreign_store(tmp_path, foreign_store_of_all):
    """A store whose embedder, known to it by another name than its own, is not at hand unless it is named."""
    return shutil.copytree(foreign_store_of_all, tmp_path / "store")


@pytest.fixture(scope="session")
def foreign_store_of_all(tmp_path_factory, run):
    """What each test has a copy of."""
    store = tmp_path_factory.mktemp("foreign") / "store"
    named = ("--embedder", HASHED, "--embedder-id", "a model of old")
    for scope, id, text in (("user/ruth", "e1", "They met in Lyon."), ("user/ruth/garden", "e2", "Ruth bought bees.")):
        episode = json.dumps({"id": id, "summary": text, "created_at": "2026-03-01T09:00:00Z"})
        run("remember", "--store", store, "--scope", scope, *named, stdin=episode)
    run("remember", "--store", store, "--scope", "user/ruth", "--fact", "Ruth lives in Lyon", *named)
    return store


@pytest.fixture
def retrieve(demo, run):
    """Retrieve from the demo store."""
    store, _ = demo
    return lambda *arguments: run("retrieve", *arguments, "--store", store, "--scope", SCOPE)


@pytest.fixture
def table():
    """Take a table for another program apart: one dictionary per line."""

    def table(output):
        headings, *lines = [line.split("\t") for line in output.splitlines()]
        return [dict(zip(headings, line, strict=True)) for line in lines]

    return table
