import json

import pytest


def test_retrieve_prints_facts_then_episodes(retrieve):
    output = retrieve("What must I not cook for Lou?")

    assert output.startswith("## Semantic Memory\n- [")
    assert "\n\n## Episodic Memories\n\n### " in output
    assert not output.endswith("\n\n")


def test_retrieve_says_so_when_there_is_nothing(demo, run):
    store, _ = demo

    assert run("retrieve", "anything", "--store", store, "--scope", "nobody") == "No relevant memories found.\n"
    raw = run("retrieve", "anything", "--store", store, "--scope", "nobody", "--json")
    assert json.loads(raw) == {"semantic": [], "episodic": []}


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


def test_child_scopes_are_searched_on_demand_only(tmp_path, run):
    run("remember", "--store", tmp_path, "--scope", "user/ruth/garden", "--fact", "Ruth keeps bees")
    question = ("retrieve", "bees", "--store", tmp_path, "--scope", "user/ruth")

    assert run(*question) == "No relevant memories found.\n"
    assert "Ruth keeps bees" in run(*question, "--include-child-scopes")


def test_the_seed_profile_lets_old_memories_fade(retrieve, table):
    default = table(retrieve("the first meeting with Inès", "--explain"))
    seed = table(retrieve("the first meeting with Inès", "--explain", "--profile", "seed"))

    for line in default:
        share = 1 - 0.2 * (1 - float(line["retrievability"])) if line["kind"] == "episodic" else 1
        assert float(line["score"]) == pytest.approx(float(line["fused"]) / (2 / 61) * share, abs=2e-4)
    for line in seed:
        assert float(line["score"]) == pytest.approx(
            float(line["fused"]) / (2 / 61) * float(line["retrievability"]), abs=2e-4
        )


def test_explain_lists_every_hit_with_its_ranks(retrieve, table):
    lines = table(retrieve("E-4071", "--explain", "--episodic-limit", 4, "--semantic-limit", 2))

    assert [line["kind"] for line in lines] == ["semantic"] * 2 + ["episodic"] * 4
    assert [line["rank"] for line in lines] == ["1", "2", "1", "2", "3", "4"]
    assert lines[0]["bm25"] == "1"
    assert {line["bm25"] for line in lines} > {"-"}
    assert "E-4071" in lines[0]["memory"]


def test_explain_keeps_each_memory_on_its_line(tmp_path, run):
    run("remember", "--store", tmp_path, "--scope", "c1", "--fact", "bees\tand\nhoney")
    output = run("retrieve", "bees", "--store", tmp_path, "--scope", "c1", "--explain")

    assert output.splitlines()[1].split("\t")[-1] == "bees and honey"


def test_nothing_on_the_command_line_counts_as_a_use(demo, retrieve, run, table):
    store, _ = demo
    retrieve("prices")

    (counts,) = table(run("stats", "--store", store))
    assert counts["pending_reviews"] == "0"
