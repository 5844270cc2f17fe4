import json
import re
import subprocess
import sys

import pytest

HASHED = "memory_retrievers.testing:HashEmbedder"


def data_of(file):
    text = file.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_inspect_writes_a_page_of_the_whole_store(demo, run, tmp_path):
    store, _ = demo
    out = tmp_path / "page.html"

    assert run("inspect", "--store", store, "--out", out) == f"{out}\n"
    data = data_of(out)
    assert data["title"] == "store"
    assert data["explained"] is None
    assert data["counts"]["episodes"] == len(
        [1 for each in data["scopes"][0]["memories"] if each["kind"] == "episodic"]
    )
    assert list(tmp_path.iterdir()) == [out]


def test_inspect_explains_an_answer(demo, run, tmp_path):
    store, _ = demo
    out = tmp_path / "page.html"
    arguments = ("--store", store, "--scope", "user/ines")
    asked = ("--episodic-limit", 2, "--semantic-limit", 1)
    run("inspect", *arguments, "--query", "What caused E-4071?", *asked, "--out", out)
    explained = json.loads(run("retrieve", "What caused E-4071?", *arguments, *asked, "--explain", "--json"))

    shown = data_of(out)["explained"]
    assert shown["query"] == "What caused E-4071?"
    for kind, count in (("episodic", 2), ("semantic", 1)):
        assert [place["id"] for place in shown[kind]] == [place["id"] for place in explained[kind]]
        assert len(shown[kind]) == count


def test_inspect_keeps_to_a_scope_and_those_below_it(foreign_store, run, tmp_path):
    out = tmp_path / "page.html"
    run("inspect", "--store", foreign_store, "--scope", "user/ruth/garden", "--out", out)

    assert [scope["scope"] for scope in data_of(out)["scopes"]] == ["user/ruth/garden"]
    assert "Lyon" not in out.read_text(encoding="utf-8")


def test_inspect_needs_the_embedder_only_for_a_question(foreign_store, run, refused, tmp_path):
    asked = ("--store", foreign_store, "--scope", "user/ruth", "--query", "Lyon")

    assert "a model of old" in refused("inspect", *asked, "--out", tmp_path / "refused.html")
    run("inspect", *asked, "--embedder", HASHED, "--embedder-id", "a model of old", "--out", tmp_path / "page.html")
    assert data_of(tmp_path / "page.html")["explained"]["query"] == "Lyon"
    assert not (tmp_path / "refused.html").exists()


def test_inspect_shows_the_newest_memories_only_if_told_so(demo, run, tmp_path):
    store, _ = demo
    run("inspect", "--store", store, "--limit", 3, "--out", tmp_path / "page.html")

    (scope,) = data_of(tmp_path / "page.html")["scopes"]
    assert (len(scope["memories"]), scope["more"]) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--query", "Lyon"], "--query needs --scope"),
        (["--limit", "0"], "limit must be an integer from 1 to 1000"),
        (["--scope", "user/"], "malformed"),
        (["--profile", "none"], "unknown profile"),
        (["--scope", "user/ines", "--query", " "], "Query cannot be empty"),
    ],
)
def test_inspect_refuses_what_makes_no_page_and_leaves_none(demo, refused, tmp_path, arguments, problem):
    store, _ = demo

    assert problem in refused("inspect", "--store", store, "--out", tmp_path / "page.html", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_inspect_overwrites_nothing_and_makes_no_store(demo, refused, tmp_path):
    store, _ = demo
    out = tmp_path / "notes.txt"
    out.write_text("mine")

    assert "exists already" in refused("inspect", "--store", store, "--out", out)
    assert out.read_text() == "mine"
    out.unlink()
    assert "there is no memory store at" in refused("inspect", "--store", tmp_path / "missing", "--out", out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["page.html", "processes/page.html"])
def test_inspect_writes_nothing_into_the_store(foreign_store, refused, name):
    assert "inside the store itself" in refused("inspect", "--store", foreign_store, "--out", foreign_store / name)
    assert not (foreign_store / name).exists()


def test_inspect_looks_into_a_store_that_another_process_writes(tmp_path, run):
    writer = f"""
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
with AgentMemory.open({str(tmp_path / "store")!r}, embedder=HashEmbedder()) as memory:
    memory.remember_fact(scope="c1", fact="Ruth lives in Lyon")
    print("written", flush=True)
    input()
    memory.remember_fact(scope="c1", fact="Ruth keeps bees")
"""
    out = tmp_path / "page.html"
    with subprocess.Popen(
        [sys.executable, "-c", writer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "written\n"
        asked = ("--scope", "c1", "--query", "Lyon", "--embedder", HASHED)
        run("inspect", "--store", tmp_path / "store", *asked, "--out", out)
        process.communicate("\n")

    assert process.returncode == 0
    (place,) = data_of(out)["explained"]["semantic"]
    assert place["text"] == "Ruth lives in Lyon"
    assert len(run("list", "--scope", "c1", "--store", tmp_path / "store").splitlines()) == 3
