import re
import sys

from memory_retrievers.evaluation import samples

SCOPE = "user/ines"


def test_the_demo_asks_its_three_questions_in_order(demo):
    _, output = demo

    assert re.findall(r"^# (.*)$", output, re.MULTILINE) == [*samples.QUESTIONS]
    assert output.count("## Semantic Memory\n") == output.count("## Episodic Memories\n") == 3


def test_the_demo_ends_with_one_line_that_says_where_the_memories_are_and_what_to_try(demo):
    store, output = demo

    last = output.splitlines()[-1]
    assert last.startswith(f"The memories are in {store}. Try: memory-retrievers retrieve ")
    assert last.endswith(f"--store {store} --scope {SCOPE}")


def test_the_command_to_try_is_the_one_that_a_shell_finds(demo, run, monkeypatch):
    """``make demo`` runs the one in .venv, which is on nobody's path yet."""
    store, _ = demo
    monkeypatch.setattr(sys, "argv", [".venv/bin/memory-retrievers", "demo"])
    monkeypatch.setenv("PATH", "")

    assert ". Try: .venv/bin/memory-retrievers retrieve " in run("demo", "--store", store).splitlines()[-1]


def test_the_demo_finds_what_shares_the_number_before_anything_else(demo):
    answer = _answer(demo, 0)

    assert re.findall(r"^### (.*) \[", answer, re.MULTILINE) == [
        "E-4071 was a decimal comma",
        "The import stops with E-4071",
    ]
    assert answer.splitlines()[1].startswith("- [experience] Error E-4071 of the price import came from")


def test_the_demo_tells_a_key_moment_with_what_was_said(demo):
    answer = _answer(demo, 1)

    assert re.search(
        r"^### Turbot at a tenth of its price \[rank: 1, relevance: 0\..., key moment\]$", answer, re.MULTILINE
    )
    assert "**When:** last month" in answer
    assert '- user: "Everything is on fire. Turbot is in the shop at 3.20 € instead of 32 €, since 03:00."' in answer


def test_the_demo_gives_the_new_rule_as_a_fact_and_no_longer_the_old(demo):
    facts, _, episodes = _answer(demo, 2).partition("## Episodic Memories")

    assert facts.splitlines()[1].startswith("- [guideline] Object to any release on a Friday")
    assert "Halle Neuf releases on Friday mornings" not in facts
    assert "### No more releases on Fridays [rank: 1, " in episodes


def test_a_second_demo_loads_nothing_and_answers_the_same(demo, run):
    store, output = demo
    before = run("stats", "--store", store)

    assert run("demo", "--store", store) == output
    assert run("stats", "--store", store) == before


def test_the_demo_can_live_in_another_scope(tmp_path, run):
    run("demo", "--store", tmp_path, "--scope", "someone/else")

    assert run("scopes", "--store", tmp_path) == "someone/else\n"


def test_the_demo_stays_out_of_the_store_named_in_the_environment(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORY_RETRIEVERS_STORE", str(tmp_path / "mine"))
    run("demo")

    assert [path.name for path in tmp_path.iterdir()] == [".demo-memory"]


def _answer(demo, number):
    _, output = demo
    return re.split(r"^# .*\n\n.*\n\n", output, flags=re.MULTILINE)[number + 1]
