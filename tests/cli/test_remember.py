import json

from typer.testing import CliRunner

from memory_retrievers.cli import app

TRICKY = 'Zoë 日本 🐟 [bold red]not red[/] \x1b[31m"quoted" back\\slash'


def test_a_remembered_fact_is_found_again_with_its_category_and_keywords(tmp_path, run):
    fact_id = run(
        "remember", "--store", tmp_path, "--scope", "c1", "--fact", "Ruth keeps bees", "--category", "interest",
        "--keyword", "bees", "--keyword", "honey",
    ).strip()  # fmt: skip

    raw = json.loads(run("retrieve", "honey", "--store", tmp_path, "--scope", "c1", "--json"))
    (fact,) = raw["semantic"]
    assert (fact["id"], fact["fact"]) == (fact_id, "Ruth keeps bees")
    assert (fact["category"], fact["keywords"]) == ("interest", ["bees", "honey"])


def test_a_fact_without_a_category_is_a_note(tmp_path, run):
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", "The kettle is lost")

    assert run("retrieve", "kettle", "--store", tmp_path, "--scope", "c1") == (
        "## Semantic Memory\n- [note] The kettle is lost\n"
    )


def test_an_episode_is_read_from_standard_input(tmp_path, run):
    episode = {
        "id": "e1",
        "title": "Bees",
        "summary": "Ruth asked how to keep bees over winter.",
        "surprise": 0.9,
        "messages": [{"role": "user", "content": "How do bees survive?", "timestamp": "2026-01-01T10:00:00Z"}],
    }
    assert run("remember", "--store", tmp_path, "--scope", "c1", stdin=json.dumps(episode)) == "e1\n"

    (stored,) = json.loads(run("recent", "--store", tmp_path, "--scope", "c1", "--json"))["episodic"]
    assert {key: stored[key] for key in episode} == episode
    assert stored["end_at"] == "2026-01-01T10:00:00Z"


def test_what_is_remembered_comes_back_as_it_was(tmp_path, run):
    episode = json.dumps({"summary": "Tricky text.", "messages": [{"role": "user", "content": TRICKY}]})
    run("remember", "--store", tmp_path, "--scope", "c1", stdin=episode)
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", TRICKY)

    raw = json.loads(run("retrieve", "tricky", "--store", tmp_path, "--scope", "c1", "--json"))
    assert raw["semantic"][0]["fact"] == TRICKY
    assert raw["episodic"][0]["messages"][0]["content"] == TRICKY
    markdown = run("retrieve", "tricky", "--store", tmp_path, "--scope", "c1", "--detail", "high")
    assert '- [note] Zoë 日本 🐟 [bold red]not red[/] [31m"quoted" back\\slash\n' in markdown
    assert '- user: "Zoë 日本 🐟 [bold red]not red[/] \\u001b[31m\\"quoted\\" back\\\\slash"' in markdown


def test_the_store_may_be_named_in_the_environment(tmp_path, run, monkeypatch):
    monkeypatch.setenv("MEMORY_RETRIEVERS_STORE", str(tmp_path / "store"))
    run("remember", "--scope", "c1", "--fact", "Ruth keeps bees")

    assert run("scopes", "--store", tmp_path / "store") == run("scopes") == "c1\n"


def test_the_default_store_is_in_the_working_directory(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("remember", "--scope", "c1", "--fact", "Ruth keeps bees")

    assert [path.name for path in tmp_path.iterdir()] == ["agent-memory"]


def test_a_fact_that_is_known_is_not_stored_again(tmp_path, run):
    told = ("remember", "--store", tmp_path, "--scope", "c1", "--fact")
    first = run(*told, "Ruth keeps bees")
    assert run(*told, "ruth  keeps bees.") == first
    assert run(*told, "Ruth keeps bees", "--allow-duplicates") != first


def test_what_differs_is_named_and_may_be_replaced(tmp_path, run):
    told = ("remember", "--store", str(tmp_path), "--scope", "c1", "--fact")
    first = run(*told, "Ruth's door code is 4711").strip()
    result = CliRunner().invoke(app, [*told, "Ruth's door code is 4712"])
    assert result.exit_code == 0
    assert result.stderr == f"near, and differs: {first} Ruth's door code is 4711\n"
    second = result.stdout.strip()
    assert run(*told, "Ruth's door code is 4712", "--replaces", first).strip() == second
    lines = run("history", first, "--store", tmp_path, "--scope", "c1").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["id", first, second]


def test_a_changed_fact_keeps_its_past_unless_it_is_corrected(tmp_path, run, refused):
    where = ("--store", tmp_path, "--scope", "c1")
    its_id = run("remember", *where, "--fact", "Ruth keeps bees").strip()
    run("update", its_id, *where, "--fact", "Ruth keeps gaots")
    run("update", its_id, *where, "--fact", "Ruth keeps goats", "--correct")
    versions = [line.split("\t")[3] for line in run("history", its_id, *where).splitlines()]
    assert versions == ["fact", "Ruth keeps bees", "Ruth keeps goats"]
    assert run("diff", "--since", "2020-01-01", *where).splitlines() == ["+ Ruth keeps goats"]
    then = run("history", its_id, *where).splitlines()[1].split("\t")[1]
    assert run("diff", "--since", then, *where).splitlines() == ["- Ruth keeps bees", "+ Ruth keeps goats"]
    shown = json.loads(run("diff", "--since", then, *where, "--json"))
    assert [change["after"]["fact"] for change in shown["changed"]] == ["Ruth keeps goats"]
    assert "since must be" in refused("diff", "--since", "yesterday", *where)
    assert "Memory not found: nobody" in refused("update", "nobody", *where, "--fact", "Ruth keeps ducks")
    assert "Memory not found: nobody" in refused("history", "nobody", *where)
    refusal = refused("remember", *where, "--fact", "Ruth keeps ducks", "--replaces", "nobody")
    assert "Memory not found: nobody" in refusal
    assert "there is no memory store" in refused(
        "update", "x", "--store", tmp_path / "no", "--scope", "c1", "--fact", "y"
    )
