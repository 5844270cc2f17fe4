import pytest

from memory_retrievers.errors import ValidationError
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolContext


def call(name, context, **arguments):
    return REGISTRY[name].call(context, arguments)


def ids(records):
    return [record["id"] for record in records]


def test_retrieve_memory_answers_with_markdown_and_the_raw_object(context, filled):
    output = call("retrieve_memory", context, query="What happened in Lyon?")
    expected = filled.retrieve("What happened in Lyon?", scope="user/alice", record=False)
    assert output.content == expected.to_markdown()
    assert output.artifact == expected.to_dict()
    assert "## Semantic Memory\n- [identity] User lives in Lyon" in output.content
    assert "### Broken import" in output.content


def test_retrieve_memory_says_so_when_it_finds_nothing(memory):
    output = call("retrieve_memory", ToolContext(memory=memory, root="user/alice"), query="anything")
    assert output.content == "No relevant memories found."
    assert output.artifact == {"semantic": [], "episodic": []}


def test_retrieve_memory_says_that_what_it_finds_does_not_fit(memory):
    memory.remember_fact(scope="user/alice", fact="Alice keeps bees " * 20)
    context = ToolContext(memory=memory, root="user/alice")
    told = call("retrieve_memory", context, query="bees", max_tokens=50).content
    assert told == "None of the memories found (1) fits into 50 tokens."


def test_retrieve_memory_leaves_out_what_is_less_relevant_and_says_so(context, filled):
    least = filled.retrieve("What happened in Lyon?", scope="user/alice", record=False).episodic[0].relevance
    found = call("retrieve_memory", context, query="What happened in Lyon?", min_relevance=least)
    assert [each["relevance"] >= round(least, 6) for each in found.artifact["episodic"]] == [True]
    output = call("retrieve_memory", context, query="What happened in Lyon?", min_relevance=1, semantic_limit=0)
    assert output.content == "No relevant memories found."
    output = call("retrieve_memory", context, query="hello", min_relevance="auto")
    assert output.artifact == filled.retrieve("hello", scope="user/alice", min_relevance="auto", record=False).to_dict()
    with pytest.raises(ValidationError, match="min_relevance must be a number from 0 to 1, or 'auto', not 'much'"):
        call("retrieve_memory", context, query="Lyon", min_relevance="much")


def test_retrieve_memory_notes_what_it_found_for_review_and_the_other_tools_do_not(context, filled):
    call("context_pre_retrieve", context, query="Lyon")
    call("recent_memory", context)
    assert filled.stats("user/alice").pending_reviews == 0
    call("retrieve_memory", context, query="Lyon")
    assert filled.stats("user/alice").pending_reviews == 1


def test_a_tool_works_in_the_default_scope_of_its_context(filled):
    filled.remember_fact(scope="user/alice/work", fact="The office is in Lyon")
    context = ToolContext(memory=filled, root="user/alice", default_scope="user/alice/work")
    output = call("retrieve_memory", context, query="Lyon")
    assert [fact["fact"] for fact in output.artifact["semantic"]] == ["The office is in Lyon"]


@pytest.mark.parametrize("name", ["limit", "episodic_limit"])
def test_limit_is_another_name_of_the_episodic_limit(context, name):
    assert len(call("retrieve_memory", context, query="Lyon", **{name: 1}).artifact["episodic"]) == 1
    assert call("retrieve_memory", context, query="Lyon", **{name: 0}).artifact["episodic"] == []


def test_limit_and_episodic_limit_may_agree_but_not_differ(context):
    assert len(call("retrieve_memory", context, query="Lyon", limit=1, episodic_limit=1).artifact["episodic"]) == 1
    with pytest.raises(ValidationError, match=r"^limit is another name of episodic_limit: give one of them$"):
        call("retrieve_memory", context, query="Lyon", limit=1, episodic_limit=2)


@pytest.mark.parametrize("arguments", [{"limit": 1, "episodic_limit": None}, {"limit": None, "episodic_limit": 1}])
def test_a_null_beside_the_other_name_of_the_limit_does_not_count(context, arguments):
    assert len(call("retrieve_memory", context, query="Lyon", **arguments).artifact["episodic"]) == 1


def test_limits_above_the_most_are_brought_down_to_it(context):
    output = call("retrieve_memory", context, query="Lyon", episodic_limit=10_000, semantic_limit=10_000)
    assert (len(output.artifact["semantic"]), len(output.artifact["episodic"])) == (2, 2)


@pytest.mark.parametrize("limit", [-1, 2.5, "two", [1]])
@pytest.mark.parametrize("name", ["limit", "episodic_limit", "semantic_limit"])
def test_limits_that_are_no_counts_are_refused(context, name, limit):
    with pytest.raises(ValidationError, match=rf"^\w*{name}: "):
        call("retrieve_memory", context, query="Lyon", **{name: limit})


def test_the_whole_numbers_of_providers_that_know_only_floats_are_understood(context):
    assert len(call("retrieve_memory", context, query="Lyon", episodic_limit=1.0).artifact["episodic"]) == 1


def test_null_means_not_given(context):
    arguments = dict.fromkeys(["episodic_limit", "semantic_limit", "detail", "category", "limit"])
    assert call("retrieve_memory", context, query="Lyon", **arguments) == call("retrieve_memory", context, query="Lyon")


@pytest.mark.parametrize("query", ["", "  \n"])
@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve"])
def test_an_empty_query_is_refused(context, name, query):
    with pytest.raises(ValidationError, match="Query cannot be empty"):
        call(name, context, query=query)


def test_detail_decides_which_episodes_bring_their_messages(context):
    shown = {
        detail: call("retrieve_memory", context, query="Lyon", detail=detail).content.count("**Details:**")
        for detail in ("none", "high", "HIGH", "auto")
    }
    assert shown == {"none": 0, "high": 2, "HIGH": 2, "auto": 1}


@pytest.mark.parametrize("detail", ["full", "", 3])
def test_an_unknown_detail_is_refused_before_anything_is_noted(context, filled, detail):
    with pytest.raises(ValidationError, match=r"unknown detail .*; one of: auto, none, low, high"):
        call("retrieve_memory", context, query="Lyon", detail=detail)
    assert filled.stats("user/alice").pending_reviews == 0


@pytest.mark.parametrize("category", ["guideline", " Guideline "])
@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve"])
def test_a_category_filters_the_facts_alone(context, name, category):
    artifact = call(name, context, query="Lyon", category=category).artifact
    assert [fact["category"] for fact in artifact["semantic"]] == ["guideline"]
    assert len(artifact["episodic"]) == (2 if name == "retrieve_memory" else 0)


def test_an_empty_category_is_no_filter(context):
    assert len(call("retrieve_memory", context, query="Lyon", category="").artifact["semantic"]) == 2


def test_an_unknown_category_is_answered_with_the_nine(context):
    with pytest.raises(ValidationError, match=r"unknown category 'hobby'; one of: identity, .*, note"):
        call("retrieve_memory", context, query="Lyon", category="hobby")


def test_context_pre_retrieve_gives_the_facts_and_nothing_else(context):
    output = call("context_pre_retrieve", context, query="Where does the user live?", semantic_limit=1)
    assert output.content == "## Semantic Memory\n- [identity] User lives in Lyon"
    assert output.artifact["episodic"] == []


def test_context_pre_retrieve_injects_nothing_when_no_fact_is_known(memory):
    output = call("context_pre_retrieve", ToolContext(memory=memory, root="user/alice"), query="anything")
    assert output.content == ""


def test_context_pre_retrieve_ignores_what_only_retrieve_memory_takes(context):
    plain = call("context_pre_retrieve", context, query="Lyon")
    assert call("context_pre_retrieve", context, query="Lyon", episodic_limit=-3, limit="x", detail="loud") == plain


def test_recent_memory_tells_the_newest_episodes_first(context):
    output = call("recent_memory", context)
    facts, episodes = output.content.split("\n\n## Recent Memories\n\n")
    assert episodes.startswith("### Broken import (key moment)\n**When:** 2 days ago\n")
    assert episodes.index("Broken import") < episodes.index("Garden plan")
    assert facts.startswith("## Recent Facts\n- [")
    assert facts.count("(noted ") == len(output.artifact["semantic"]) == 2


def test_in_the_plain_format_recent_memory_tells_episodes_alone(filled):
    output = call("recent_memory", ToolContext(memory=filled, root="user/alice", response_format="plain"))
    assert output.content == filled.recent("user/alice").to_markdown()
    assert list(output.artifact) == ["episodic"]


def test_recent_memory_tells_what_a_model_has_stored_itself(memory):
    context = ToolContext(memory=memory, root="user/alice")
    call("memory_store", context, content="The door code is 4711")
    assert "- [note] The door code is 4711 (noted just now)" in call("recent_memory", context).content


def test_recent_memory_says_so_when_there_is_nothing(memory):
    output = call("recent_memory", ToolContext(memory=memory, root="user/alice"))
    assert output.content == "No recent memories found."


@pytest.mark.parametrize(("limit", "told"), [(-5, 1), (0, 1), (1, 1), (2, 2), (100_000, 2), (None, 2)])
def test_the_limit_of_recent_memory_is_brought_into_its_bounds(context, limit, told):
    assert call("recent_memory", context, limit=limit).content.count("### ") == told


def test_recent_memory_can_be_bounded_in_days(context):
    assert "Garden plan" not in call("recent_memory", context, days_limit=3).content
    assert "Garden plan" in call("recent_memory", context, days_limit=9.5).content


@pytest.mark.parametrize("days_limit", [0, -1, float("inf"), "soon"])
def test_days_that_are_no_span_are_refused(context, days_limit):
    with pytest.raises(ValidationError, match=r"^days_limit: "):
        call("recent_memory", context, days_limit=days_limit)


@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve", "recent_memory"])
def test_no_argument_reaches_another_scope(context, filled, name):
    filled.remember_fact(scope="user/bob", fact="Bob lives in Lyon too")
    arguments = {"query": "Lyon"} if name != "recent_memory" else {}
    with pytest.raises(ValidationError, match=r"^scope: Extra inputs are not permitted$"):
        call(name, context, **arguments, scope="user/bob")
    assert "Bob" not in call(name, context, **arguments).content


def test_at_the_minimal_level_retrieve_memory_counts_what_it_found(context, filled):
    output = call("retrieve_memory", context, query="Lyon", response_level="minimal")
    assert output.content == '{"success":true,"semantic_count":2,"episodic_count":2}'
    assert output.artifact == filled.retrieve("Lyon", scope="user/alice", record=False).to_dict()


def test_at_the_full_level_retrieve_memory_tells_every_episodes_messages_unless_detail_is_given(context):
    def shown(**arguments):
        return call("retrieve_memory", context, query="Lyon", **arguments).content.count("**Details:**")

    assert shown(response_level="standard") == shown() == 1
    assert shown(response_level="full") == shown(response_level="FULL", detail=None) == 2
    assert shown(response_level="full", detail="none") == 0
    assert shown(response_level="full", detail="auto") == 1


def test_at_the_minimal_level_the_other_two_count_as_well(context, filled):
    told = call("context_pre_retrieve", context, query="Lyon", response_level="minimal")
    assert told.content == '{"success":true,"semantic_count":2}'
    assert told.artifact == filled.context("Lyon", scope="user/alice").to_dict()
    told = call("recent_memory", context, response_level="MINIMAL")
    assert told.content == '{"success":true,"semantic_count":2,"episodic_count":2}'
    assert told.artifact == filled.recent("user/alice", facts=True).to_dict()


@pytest.mark.parametrize(("name", "arguments"), [("context_pre_retrieve", {"query": "Lyon"}), ("recent_memory", {})])
def test_the_standard_level_of_the_other_two_is_the_form_they_have_without_a_level(context, name, arguments):
    plain = call(name, context, **arguments)
    assert call(name, context, **arguments, response_level="standard") == plain
    assert call(name, context, **arguments, response_level=None) == plain
    assert plain.content.startswith("## ")


@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve", "recent_memory"])
def test_an_unknown_level_is_refused_by_the_tools_that_read(context, name):
    arguments = {} if name == "recent_memory" else {"query": "Lyon"}
    with pytest.raises(
        ValidationError, match=r"^Invalid response_level: loud\. Must be one of: minimal, standard, full$"
    ):
        call(name, context, **arguments, response_level="loud")


def test_at_the_full_level_recent_memory_tells_every_episodes_messages(context):
    told = call("recent_memory", context, response_level="full").content
    assert told.partition("\n\n")[2].rpartition("\n\n## Ids\n")[0] == (
        "## Recent Memories\n\n### Broken import (key moment)\n**When:** 2 days ago\n"
        "**Summary:** The nightly import in Lyon failed again.\n\n**Details:**\n"
        '- user: "It died again.\\nThird time \\"this week\\"."\n- assistant: "Shall we stream it instead?"\n\n'
        "### Garden plan\n**When:** last week\n"
        "**Summary:** The user sketched an irrigation layout for the garden in Lyon.\n\n**Details:**\n"
        '- user: "Where do the pipes go?"'
    )


@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve", "recent_memory"])
def test_at_the_full_level_alone_the_ids_are_told_that_other_tools_take(context, name):
    arguments = {} if name == "recent_memory" else {"query": "Lyon"}
    told = call(name, context, **arguments, response_level="full")
    memories = [memory for kind in told.artifact.values() for memory in kind]
    assert memories
    for memory in memories:
        assert f"\n- {memory['id']}: " in told.content
        assert memory["id"] not in call(name, context, **arguments).content


@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve"])
def test_at_the_full_level_facts_are_told_whole(context, filled, name):
    filled.remember_fact(scope="user/alice", fact="Lyon, " * 100 + "and then Paris")
    assert "and then Paris" not in call(name, context, query="Lyon").content
    full = call(name, context, query="Lyon", response_level="full")
    assert "and then Paris (sources: 0 conversations)" in full.content
    assert full.artifact == call(name, context, query="Lyon").artifact


def test_at_the_full_level_too_nothing_is_injected_when_no_fact_is_known(memory):
    context = ToolContext(memory=memory, root="user/alice")
    assert call("context_pre_retrieve", context, query="anything", response_level="full").content == ""
    assert call("recent_memory", context, response_level="full").content == "No recent memories found."
