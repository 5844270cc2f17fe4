import json
import re

import pytest

from memory_retrievers import AgentMemory, RetrievalSettings

SCOPE = "user/ines"


def test_retrieve_prints_facts_then_episodes(retrieve):
    output = retrieve("What must I not cook for Lou?")

    assert output.startswith("## Semantic Memory\n- [")
    assert "\n\n## Episodic Memories\n\n### " in output
    assert not output.endswith("\n\n")


def test_retrieve_says_so_when_there_is_nothing(demo, ended):
    store, _ = demo
    at = ("--store", store, "--scope", "nobody")
    remark = "The scope nobody is empty: memory-retrievers scopes lists those with memories.\n"

    assert ended("retrieve", "anything", *at) == (0, "No relevant memories found.\n", remark)
    code, raw, said = ended("retrieve", "anything", *at, "--json")
    assert (code, json.loads(raw), said) == (0, {"semantic": [], "episodic": []}, remark)
    assert ended("context", "anything", *at) == (0, "\n", remark)


def test_a_scope_that_holds_something_is_not_said_to_be_empty(retrieve, tmp_path, run):
    assert retrieve("turbot", "--tag", "nothing has it") == "No relevant memories found.\n"
    at = ("--store", tmp_path, "--scope", "user/ruth")
    run("add-messages", *at, stdin=json.dumps([{"role": "user", "content": "Ruth keeps bees"}]))
    assert run("retrieve", "bees", *at, "--category", "goal", "--episodic-limit", 0) == "No relevant memories found.\n"


def test_what_is_less_relevant_is_left_out_on_demand(retrieve):
    assert retrieve("hello there", "--min-relevance", "auto", "--detail", "none").count("\n### ") == 0
    least = json.loads(retrieve("prices of turbot", "--json"))["episodic"][0]["relevance"] - 1e-6
    kept = json.loads(retrieve("prices of turbot", "--json", "--min-relevance", least))
    assert kept["episodic"]
    for each in (*kept["semantic"], *kept["episodic"]):
        assert each["relevance"] >= least or each["category"] == "guideline"


def test_a_least_relevance_that_is_none_is_refused(demo, ended):
    code, _, error = ended("retrieve", "prices", "--store", demo[0], "--scope", "user/ines", "--min-relevance", "2")
    assert code == 2
    assert "a number from 0 to 1, or auto" in error


def test_limits_bound_each_kind(retrieve):
    raw = json.loads(retrieve("prices", "--json", "--episodic-limit", 2, "--semantic-limit", 3))

    assert (len(raw["episodic"]), len(raw["semantic"])) == (2, 3)


def test_a_limit_of_zero_leaves_a_kind_out(retrieve):
    assert "## Episodic" not in retrieve("prices", "--episodic-limit", 0)
    assert "## Semantic" not in retrieve("prices", "--semantic-limit", 0)


def test_category_keeps_only_its_facts(retrieve):
    raw = json.loads(retrieve("Yusuf", "--category", "guideline", "--json"))

    assert {fact["category"] for fact in raw["semantic"]} == {"guideline"}


@pytest.mark.parametrize(("detail", "told"), [("auto", True), ("low", True), ("HIGH", True), ("none", False)])
def test_detail_decides_whether_messages_are_told(retrieve, detail, told):
    output = retrieve("turbot sold at a tenth of its price", "--detail", detail)

    assert ("**Details:**" in output) == told


def test_what_does_not_fit_is_not_said_to_be_missing(tmp_path, run):
    at = ("--store", tmp_path, "--scope", "user/ruth")
    run("remember", *at, "--fact", "Ruth keeps bees " * 20)
    assert run("retrieve", "bees", *at, "--max-tokens", 50) == "None of the memories found (1) fits into 50 tokens.\n"


def test_child_scopes_are_searched_on_demand_only(tmp_path, run, ended):
    run("remember", "--store", tmp_path, "--scope", "user/ruth/garden", "--fact", "Ruth keeps bees")
    question = ("retrieve", "bees", "--store", tmp_path, "--scope", "user/ruth")

    assert ended(*question)[:2] == (0, "No relevant memories found.\n")
    assert "Ruth keeps bees" in run(*question, "--include-child-scopes")
    assert run(*question, "--include-child-scopes", "--tag", "wasps") == "No relevant memories found.\n"


def test_tags_metadata_and_times_narrow_a_search_and_a_list(tmp_path, run):
    memory = {"summary": "Ruth keeps bees", "tags": ["garden"], "metadata": {"hives": 3, "breed": "buckfast"}}
    run("remember", "--store", tmp_path, "--scope", "user/ruth", stdin=json.dumps(memory))
    place = ("--store", tmp_path, "--scope", "user/ruth")

    for asked in (
        ("--tag", "garden"),
        ("--metadata", "hives=3", "--metadata", "breed=buckfast"),
        ("--since", "2020-01-01"),
    ):
        assert "Ruth keeps bees" in run("retrieve", "bees", *place, *asked)
        assert "Ruth keeps bees" in run("list", *place, *asked)
    for asked in (("--tag", "house"), ("--metadata", 'hives="3"'), ("--until", "2020-01-01")):
        assert "Ruth keeps bees" not in run("retrieve", "bees", *place, *asked)
        assert "Ruth keeps bees" not in run("list", *place, *asked)


def test_the_reference_profile_lets_old_memories_fade(retrieve):
    asked = ("the first meeting with Inès", "--explain", "--json")
    default, reference = json.loads(retrieve(*asked)), json.loads(retrieve(*asked, "--profile", "reference"))

    weight = RetrievalSettings().decay_weight
    for memory in [*default["semantic"], *default["episodic"]]:
        share = 1 - weight * (1 - memory["retrievability"]) if memory["kind"] == "episodic" else 1
        assert memory["score"] == pytest.approx(memory["fused_score"] * share, abs=2e-4)
    for memory in [*reference["semantic"], *reference["episodic"]]:
        assert memory["score"] == pytest.approx(memory["fused_score"] / (2 / 61) * memory["retrievability"], abs=2e-4)


def test_explain_prints_every_hit_with_rank_and_score_at_every_stage(demo, retrieve):
    output = retrieve("E-4071", "--explain", "--episodic-limit", 4, "--semantic-limit", 2)
    raw = json.loads(retrieve("E-4071", "--explain", "--json", "--episodic-limit", 4, "--semantic-limit", 2))

    with AgentMemory.open(demo[0]) as memory:
        explained = memory.explain("E-4071", scope=SCOPE, episodic_limit=4, semantic_limit=2)
    assert output == f"{explained.to_text()}\n"
    assert [line.strip() for line in output.splitlines() if "final score" in line] == [
        f"final score: {each['score']:.4f}, rank {each['rank']}" for each in (*raw["semantic"], *raw["episodic"])
    ]
    assert raw["semantic"][0]["words"] == ["e-4071", "e", "4071"]


class TestExplainMissing:
    @pytest.fixture
    def missing(self, demo, run):
        store, _ = demo
        return lambda *arguments: run("explain-missing", *arguments, "--store", store, "--scope", SCOPE)

    @pytest.fixture
    def last(self, retrieve):
        """The id of the episode that answers a question least."""
        raw = json.loads(retrieve("prices", "--json", "--episodic-limit", 100))
        return raw["episodic"][-1]["id"]

    def test_tells_the_stage_that_dropped_a_memory_with_its_scores(self, missing, last):
        output = missing(last, "prices", "--episodic-limit", 1)

        assert output.startswith("It has rank ")
        assert "the best 1 were asked for" in output
        assert "\n  before forgetting: 0." in output
        assert re.search(r"\n  BM25: (rank \d+, )?words in common: \w", output)

    def test_tells_that_a_memory_is_returned(self, missing, last):
        raw = json.loads(missing(last, "prices", "--episodic-limit", 100, "--json", "--profile", "reference"))

        assert (raw["id"], raw["outcome"]) == (last, "returned")
        assert [stage["name"] for stage in raw["memory"]["stages"]] == ["dense", "bm25"]

    def test_a_least_relevance_drops_a_memory_as_it_does_in_a_search(self, missing, last):
        assert "relevance" not in missing(last, "prices", "--episodic-limit", 100)
        assert "relevance" in missing(last, "prices", "--episodic-limit", 100, "--min-relevance", "1")

    def test_refuses_an_id_that_is_not_in_the_scope(self, demo, last, refused):
        store, _ = demo

        line = refused("explain-missing", last, "prices", "--store", store, "--scope", "user/nobody")
        assert line == f"error: Memory not found: {last}"
        line = refused("explain-missing", last, "prices", "--store", store, "--scope", SCOPE, "--profile", "best")
        assert line == "error: unknown profile 'best'; one of: default, light, reference"


def test_a_list_keeps_each_memory_on_its_line(tmp_path, run):
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", "bees\tand\nhoney")
    output = run("list", "--store", tmp_path, "--scope", "c1")

    assert output.splitlines()[1].split("\t")[-1] == "bees and honey"


def test_nothing_on_the_command_line_counts_as_a_use(demo, retrieve, run, table):
    store, _ = demo
    retrieve("prices")

    (counts,) = table(run("stats", "--store", store))
    assert counts["pending_reviews"] == "0"


def test_a_budget_bounds_what_is_printed(retrieve):
    question = "turbot sold at a tenth of its price"
    for detail in ("high", "excerpts"):
        output = retrieve(question, "--detail", detail, "--max-tokens", 100).removesuffix("\n")
        assert 100 < len(output) <= 400 < len(retrieve(question, "--detail", detail))
