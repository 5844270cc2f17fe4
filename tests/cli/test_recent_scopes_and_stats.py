import json
import re
import sys

from memory_retrievers.cli import app

SCOPE = "user/ines"
TRICKY = 'Zoë 日本 🐟 [bold red]not red[/] \x1b[31m"quoted" back\\slash'


def test_recent_prints_the_newest_episodes_first(demo, run):
    store, _ = demo

    output = run("recent", "--store", store, "--scope", SCOPE, "--limit", 2)
    assert re.findall(r"^### (.*)$", output, re.MULTILINE) == [
        "What to pack for Trieste",
        "Eight kilometres without pain",
    ]


def test_recent_can_stop_after_some_days(demo, run):
    store, _ = demo

    raw = json.loads(run("recent", "--store", store, "--scope", SCOPE, "--days", "1.5", "--json"))
    assert [episode["id"] for episode in raw["episodic"]] == ["sample-packing-for-trieste", "sample-eight-kilometres"]


def test_recent_says_so_when_there_is_nothing(demo, run):
    store, _ = demo

    assert run("recent", "--store", store, "--scope", "nobody") == "No recent memories found.\n"


def test_scopes_are_listed_one_a_line_and_can_be_narrowed_to_a_branch(tmp_path, run):
    for scope in ("user/ruth", "user/ruth/garden", "user/ruthless", "Zoë [x]"):
        run("remember", "--store", tmp_path, "--scope", scope, "--fact", "Something")

    assert run("scopes", "--store", tmp_path).splitlines() == [
        "Zoë [x]",
        "user/ruth",
        "user/ruth/garden",
        "user/ruthless",
    ]
    assert run("scopes", "--store", tmp_path, "--scope", "user/ruth").splitlines() == ["user/ruth", "user/ruth/garden"]


def test_stats_count_a_scope_or_the_whole_store(tmp_path, run, table):
    run("demo", "--store", tmp_path)
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", "Ruth keeps bees")

    assert table(run("stats", "--store", tmp_path)) == [
        {"episodes": "38", "facts": "34", "invalidated_facts": "2", "pending_reviews": "0", "queued_messages": "0"}
    ]
    assert json.loads(run("stats", "--store", tmp_path, "--json"))["facts"] == 34
    assert table(run("stats", "--store", tmp_path, "--scope", "c1")) == [
        {"episodes": "0", "facts": "1", "invalidated_facts": "0", "pending_reviews": "0", "queued_messages": "0"}
    ]


def test_tables_are_drawn_on_a_terminal_and_take_nothing_for_markup(tmp_path, run, capsys, monkeypatch):
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", TRICKY)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    app(["list", "--store", str(tmp_path), "--scope", "c1"], standalone_mode=False)

    output = capsys.readouterr().out
    assert "created_at" in output
    assert '[bold red]not red[/] \\x1b[31m"quoted" back\\slash' in output


def test_recent_prints_facts_where_they_are_asked_for(demo, run):
    store, _ = demo
    assert "## Recent Facts\n" in run("recent", "--store", store, "--scope", SCOPE, "--facts")
    assert "## Recent Facts" not in run("recent", "--store", store, "--scope", SCOPE)


def test_profile_prints_what_should_always_be_known(demo, run):
    store, _ = demo
    told = run("profile", "--store", store, "--scope", SCOPE)
    assert told.startswith("- [")
    assert len(json.loads(run("profile", "--store", store, "--scope", SCOPE, "--json"))["facts"]) >= told.count("\n")
    assert run("profile", "--store", store, "--scope", SCOPE, "--max-tokens", 0).startswith(
        "None of the memories found ("
    )
    assert run("profile", "--store", store, "--scope", "nobody") == "No relevant memories found.\n"
