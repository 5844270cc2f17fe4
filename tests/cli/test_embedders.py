"""The embedder named on the command line, and the commands that need none."""

import sqlite3
import sys
from contextlib import closing

import pytest

from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.storage.open import noted_embedder

HASHED = "memory_retrievers.testing:HashEmbedder"

MODULE = """
from memory_retrievers.testing import HashEmbedder

class Holder:
    embedder = HashEmbedder(dimension=8)

embedder = HashEmbedder(dimension=8)

def make():
    return embedder

def embed(texts):
    return embedder.embed_documents(texts)

def fail():
    raise OSError("no key\\nat hand")

class Fails:
    def __init__(self):
        raise KeyError("key")

number = 3.14
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a module of somebody's own in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "their_models.py").write_text(MODULE)
    (tmp_path / "broken_models.py").write_text("1 / 0")
    yield tmp_path
    for module in ("their_models", "broken_models"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", ["embedder", "Holder.embedder", "make", "embed"])
def test_an_embedder_is_an_object_or_what_makes_one_in_the_working_directory(here, run, name):
    named = ("--embedder", f"their_models:{name}", "--embedder-id", "theirs")
    run("remember", "--scope", "c1", "--fact", "Ruth keeps bees", *named)

    assert "Ruth keeps bees" in run("retrieve", "bees", "--scope", "c1", *named)
    assert "Ruth keeps bees" in run("retrieve", "bees", "--scope", "c1", "--embedder", "their_models:make", *named[2:])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("their_models", "--embedder is MODULE:NAME, for example my_models:embedder, not 'their_models'"),
        (":embedder", "--embedder is MODULE:NAME"),
        ("their_models:", "--embedder is MODULE:NAME"),
        ("no_such_models:embedder", "ModuleNotFoundError: No module named 'no_such_models'"),
        (".models:embedder", "the module '.models' cannot be imported"),
        ("broken_models:embedder", "cannot be imported: ZeroDivisionError: division by zero"),
        ("their_models:absent", "the module 'their_models' has no name 'absent'"),
        ("their_models:Holder.absent", "the module 'their_models' has no name 'Holder.absent'"),
        ("their_models:fail", "it failed when it was called: OSError: no key at hand"),
        ("their_models:Fails", "it failed when it was called: KeyError: 'key'"),
        ("their_models:number", "float does not embed texts"),
        ("their_models:Holder", "Holder does not embed texts"),
    ],
)
def test_a_path_that_leads_to_no_embedder_is_refused_in_one_line(here, refused, path, problem):
    arguments = ("remember", "--scope", "c1", "--fact", "x", "--store", here / "store", "--embedder", path)

    assert problem in refused(*arguments)
    assert not (here / "store").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["rebuild"],
        ["rebuild", "dense"],
        ["backup", "copy"],
        ["export", "file.jsonl"],
        ["purge"],
        ["forget", "e1", "--scope", "user/ruth"],
        ["forget-scope", "user/ruth", "--yes"],
        ["recent", "--scope", "user/ruth"],
        ["list", "--scope", "user/ruth"],
        ["get", "e1", "--scope", "user/ruth"],
        ["scopes"],
        ["stats"],
    ],
)
def test_what_embeds_nothing_needs_no_embedder(foreign_store, run, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    run(*command, "--store", foreign_store)

    if command[0] != "forget-scope":  # else the scope is said to be empty
        question = ("retrieve", "bees", "--scope", "user/ruth/garden", "--store", foreign_store)
        assert "Ruth bought bees" in run(*question, "--embedder", HASHED, "--embedder-id", "a model of old")


def test_what_embeds_names_the_embedder_it_misses(foreign_store, refused):
    question = ("retrieve", "bees", "--scope", "user/ruth", "--store", foreign_store)

    assert "filled with the embedder 'a model of old'" in refused(*question)
    assert "filled with the embedder 'a model of old'" in refused(*question, "--embedder", HASHED)
    assert "gives vectors of 384 numbers" in refused(*question, "--embedder-id", "a model of old")


def test_the_embedder_may_be_named_in_the_environment(foreign_store, run, monkeypatch):
    monkeypatch.setenv("MEMORY_RETRIEVERS_EMBEDDER", HASHED)
    monkeypatch.setenv("MEMORY_RETRIEVERS_EMBEDDER_ID", "a model of old")

    assert "Ruth lives in Lyon" in run("retrieve", "Lyon", "--scope", "user/ruth", "--store", foreign_store)
    assert run("stats", "--store", foreign_store)


def test_a_store_that_an_older_version_made_is_brought_up_to_date(tmp_path, run):
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        notes = [("embedder_id", "a model of old"), ("dimension", "2"), ("probe", "[0.6, 0.8]")]
        connection.executemany("INSERT INTO notes VALUES (?, ?)", notes)
        connection.execute("PRAGMA user_version = 1")

    assert noted_embedder(tmp_path) == "a model of old"
    assert run("scopes", "--store", tmp_path) == ""
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_store_that_a_newer_version_made_is_refused(foreign_store, refused):
    with closing(sqlite3.connect(foreign_store / "memory.db")) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")

    assert "written by a newer version" in refused("stats", "--store", foreign_store)
    assert "written by a newer version" in refused("retrieve", "x", "--scope", "c1", "--store", foreign_store)


def test_a_file_in_which_nothing_has_been_written_yet_is_an_empty_store(tmp_path, run):
    (tmp_path / "memory.db").touch()

    assert noted_embedder(tmp_path) is None
    assert run("scopes", "--store", tmp_path) == ""
