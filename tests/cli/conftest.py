import pytest
from typer.testing import CliRunner

from memory_retrievers.cli import app

SCOPE = "user/ines"


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The store of a first demo run, and what the run printed. Commands that only read may share it."""
    store = tmp_path_factory.mktemp("demo") / "store"
    result = CliRunner().invoke(app, ["demo", "--store", str(store)])
    assert result.exit_code == 0, result.output
    return store, result.stdout


@pytest.fixture
def run(monkeypatch):
    """Run a command that succeeds quietly, and give what it printed."""
    monkeypatch.delenv("MEMORY_RETRIEVERS_STORE", raising=False)

    def run(*arguments, stdin=""):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    return run


@pytest.fixture
def refused(monkeypatch):
    """Run a command that is refused, and give the one line it complains in."""
    monkeypatch.delenv("MEMORY_RETRIEVERS_STORE", raising=False)

    def refused(*arguments, stdin=""):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        return line

    return refused


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
