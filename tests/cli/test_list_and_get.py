import json
import shutil

import pytest

HASHED = "memory_retrievers.testing:HashEmbedder"


@pytest.fixture
def store(tmp_path, filled):
    """A copy of what is filled once."""
    return shutil.copytree(filled, tmp_path / "store")


@pytest.fixture(scope="module")
def filled(tmp_path_factory, run):
    """Five episodes and a fact in one scope, and one in another."""
    store = tmp_path_factory.mktemp("filled")
    for day in range(1, 6):
        episode = {"id": f"e{day}", "title": f"Day {day}", "summary": "x", "created_at": f"2026-03-0{day}T09:00:00Z"}
        stdin = json.dumps(episode)
        run("remember", "--store", store, "--scope", "user/ruth", "--embedder", HASHED, stdin=stdin)
    for scope, fact in (("user/ruth", "Ruth keeps\tbees"), ("user/other", "Nobody else's")):
        run("remember", "--store", store, "--scope", scope, "--fact", fact, "--embedder", HASHED)
    return store


def test_list_prints_a_scope_newest_first(store, run, table):
    lines = table(run("list", "--scope", "user/ruth", "--store", store))

    assert [line["memory"] for line in lines] == ["Ruth keeps bees", "Day 5", "Day 4", "Day 3", "Day 2", "Day 1"]
    assert lines[1] == {
        "id": "e5",
        "kind": "episodic",
        "created_at": "2026-03-05T09:00:00Z",
        "invalid_at": "",
        "memory": "Day 5",
    }


def test_list_can_be_paged_through_by_what_it_says_on_standard_error(store, ended, table):
    pages, more = [], ()
    while True:
        code, output, said = ended("list", "--scope", "user/ruth", "--store", store, "--limit", 4, *more)
        assert code == 0
        pages.append([line["id"] for line in table(output)])
        if not said:
            break
        more = said.split()
        assert (len(more), more[0]) == (2, "--cursor")

    assert [len(page) for page in pages] == [4, 2]
    assert (pages[0] + pages[1])[1:] == ["e5", "e4", "e3", "e2", "e1"]


def test_list_tells_what_does_not_hold_any_more(store, run, table):
    listed = ("list", "--scope", "user/ruth", "--kind", "semantic", "--store", store)
    (fact,) = table(run(*listed))
    assert fact["invalid_at"] == ""
    run("invalidate", fact["id"], "--scope", "user/ruth", "--store", store)
    (fact,) = table(run(*listed))
    assert fact["invalid_at"] == table(run("history", fact["id"], *listed[1:3], *listed[-2:]))[0]["invalid_at"] != ""


def test_list_can_keep_to_one_kind(store, run, table):
    kinds = [
        line["kind"] for line in table(run("list", "--scope", "user/ruth", "--kind", "semantic", "--store", store))
    ]

    assert kinds == ["semantic"]


def test_get_prints_every_field_of_one_memory(store, run, table):
    (fact,) = table(run("list", "--scope", "user/ruth", "--kind", "semantic", "--store", store))
    printed = json.loads(run("get", fact["id"], "--scope", "user/ruth", "--store", store))

    assert printed["kind"] == "semantic"
    assert (printed["id"], printed["scope"], printed["fact"]) == (fact["id"], "user/ruth", "Ruth keeps\tbees")
    assert printed["tags"] == []
    episode = json.loads(run("get", "e1", "--scope", "user/ruth", "--store", store))
    assert (episode["kind"], episode["created_at"], episode["title"]) == ("episodic", "2026-03-01T09:00:00Z", "Day 1")


def test_get_sees_its_scope_alone(store, refused):
    assert refused("get", "e1", "--scope", "user/other", "--store", store) == "error: Memory not found: e1"
    assert refused("get", "e1", "--scope", "user", "--store", store) == "error: Memory not found: e1"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--kind", "both"], "unknown kind 'both'; one of: episodic, semantic"),
        (["--limit", "0"], "limit must be an integer from 1 to 1000"),
        (["--cursor", "x"], "cursor must be that of an earlier page"),
    ],
)
def test_list_refuses_what_makes_no_page(store, refused, arguments, problem):
    assert problem in refused("list", "--scope", "user/ruth", "--store", store, *arguments)


def test_a_store_that_is_not_there_is_not_made(tmp_path, refused):
    for command in (["list"], ["get", "e1"]):
        assert "there is no memory store at" in refused(*command, "--scope", "c1", "--store", tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
