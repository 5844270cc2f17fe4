import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.settings import ToolSettings
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

from .conftest import PLAIN_KEYS, by_table, contents, store

BAD = {"success": False, "error": True, "error_type": "ValidationError"}


def test_the_plain_answer_is_that_of_the_specification(plain_tool):
    (id,) = store(plain_tool, "Nightly backups run at 02:00", tags=["ops"])
    answer = plain_tool("memory_search", query="backups")
    assert list(answer) == ["results", "total"]
    (hit,) = answer["results"]
    assert list(hit) == PLAIN_KEYS
    assert (hit["id"], hit["content"], hit["tags"]) == (id, "Nightly backups run at 02:00", ["ops"])
    assert (hit["memory_tier"], hit["created_at"], answer["total"]) == ("long_term", "2026-03-01T09:00:00Z", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "Query cannot be empty"),
        ({"query": "  "}, "Query cannot be empty"),
        ({"query": "x", "top_k": 0}, "top_k must be between 1 and 1000"),
        ({"query": "x", "top_k": 1_001}, "top_k must be between 1 and 1000"),
        ({"query": "x", "limit": 0}, "top_k must be between 1 and 1000"),
        ({"query": "x", "min_similarity": 1.1}, "min_similarity must be between 0.0 and 1.0"),
        ({"query": "x", "min_similarity": float("nan")}, "min_similarity must be between 0.0 and 1.0"),
        ({"query": "x", "similarity_threshold": -0.1}, "min_similarity must be between 0.0 and 1.0"),
        ({"query": "x", "keyword_weight": 2}, "keyword_weight must be between 0.0 and 1.0"),
        ({"query": "x", "importance_weight": -1}, "importance_weight must be between 0.0 and 1.0"),
        ({"query": "x", "importance_weight": float("inf")}, "importance_weight must be between 0.0 and 1.0"),
        (
            {"query": "x", "search_mode": "psychic"},
            "Invalid search_mode: psychic. Must be one of: semantic, keyword, hybrid",
        ),
        (
            {"query": "x", "sort_by": "colour"},
            "Invalid sort_by: colour. Must be one of: relevance, importance, created_at",
        ),
        (
            {"query": "x", "memory_tier": "a"},
            "Invalid memory_tier: a. Must be one of: short_term, long_term, working",
        ),
        (
            {"query": "x", "content_type": "a"},
            "Invalid content_type: a. Must be one of: text, image, code, json, yaml",
        ),
        ({"query": "x", "top_k": 5, "limit": 6}, "limit is another name of top_k: give one of them"),
        ({"query": "x", "colour": {"a": 1}}, "colour: Extra inputs are not permitted"),
        ({"query": "x", "scope": "user/bob"}, "scope: Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(tool, arguments, message):
    assert tool("memory_search", **arguments) == BAD | {"message": message}


def test_by_default_ten_are_found_whatever_their_similarity(table):
    """Case C20."""
    store(table, *(f"apart {number}" for number in range(12)))
    answer = table("memory_search", query="question")
    assert answer["total"] == 10
    assert {hit["similarity"] for hit in answer["results"]} == {0.0}


def test_similarity_is_the_cosine_or_nothing(table):
    store(table, "one", "three", "apart")
    answer = table("memory_search", query="question")
    assert [hit["similarity"] for hit in answer["results"]] == pytest.approx([0.9, 0.6, 0.0], abs=1e-6)
    assert contents(table("memory_search", query="question", min_similarity=0.5)) == ["one", "three"]
    assert contents(table("memory_search", query="question", similarity_threshold=0.7)) == ["one"]


def test_the_other_way_to_count_similarity_is_the_hosts_choice(clock):
    settings = ToolSettings(similarity="shifted")
    with AgentMemory.in_memory(embedder=by_table, embedder_id="table", clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1", response_format="plain"))
        toolbox.call("memory_store", {"content": "three"})
        (hit,) = toolbox.call("memory_search", {"query": "question"}).artifact["results"]
    assert hit["similarity"] == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("name", ["top_k", "limit"])
def test_no_more_are_given_than_are_asked_for(table, name):
    store(table, "three", "one", "two")
    assert contents(table("memory_search", query="question", **{name: 2})) == ["one", "two"]


def test_how_many_are_given_untold_is_the_hosts(clock):
    settings = ToolSettings(search_default_top_k=1)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        for content in ("a red boat", "a blue boat"):
            toolbox.call("memory_store", {"content": content})
        assert toolbox.call("memory_search", {"query": "boat"}).artifact["total"] == 1
        assert toolbox.call("memory_search", {"query": "boat", "top_k": 10}).artifact["total"] == 2


def test_filters_come_before_the_ranking_and_all_of_them_hold(table):
    """Case D30: tier filter."""
    store(table, "one a", tags=["x"], memory_tier="working")
    store(table, "one b", tags=["x", "y"], content_type="code")
    store(table, "five", tags=["y", "x", "z"])

    def found(**filters):
        return contents(table("memory_search", query="question", top_k=1, **filters))

    assert found(memory_tier="working") == ["one a"]
    assert found(tags=["x", "z"]) == ["five"]
    assert found(tags=["y"], content_type="code") == ["one b"]
    assert found(tags=["y"], memory_tier="working") == []


def test_results_are_sorted_by_importance_when_asked(table):
    """Case D29: importance .9, .7, .5."""
    middle, high, low = store(table, "one", "two", "three")
    for id, score in ((middle, 0.7), (high, 0.9), (low, 0.5)):
        table("memory_set_score", id=id, score=score)
    assert contents(table("memory_search", query="question", sort_by="importance")) == ["two", "one", "three"]
    assert contents(table("memory_search", query="question", sort_by="relevance")) == ["one", "two", "three"]
    assert contents(table("memory_search", query="question", sort_by="similarity")) == ["one", "two", "three"]


def test_importance_can_be_blended_into_relevance(table):
    one, five = store(table, "one", "five")
    table("memory_set_score", id=one, score=0.1)
    table("memory_set_score", id=five, score=1.0)
    # (1 − v)·ρ + v·importance: .9 against .4, then .58 against .64 at v = .4
    assert contents(table("memory_search", query="question", importance_weight=0.0)) == ["one", "five"]
    assert contents(table("memory_search", query="question", importance_weight=0.4)) == ["five", "one"]


def test_the_newest_come_first_when_asked(table, clock):
    store(table, "one")
    clock.advance(days=1)
    store(table, "five")
    assert contents(table("memory_search", query="question", sort_by="created_at")) == ["five", "one"]


def test_every_hit_counts_as_handed_out_once(plain_tool):
    found, other = store(plain_tool, "apple pie", "banana bread")
    plain_tool("memory_search", query="apple", search_mode="keyword")
    counts = {id: plain_tool("memory_get_score", id=id)["access_count"] for id in (found, other)}
    assert counts == {found: 1, other: 0}


def test_at_each_level_the_answer_has_the_keys_of_the_table(tool):
    """Case C20."""
    content = "Nightly backups run at 02:00 and are kept for thirty-five days"
    id = tool("memory_store", content=content, tags=["ops"])["id"]
    assert tool("memory_search", query="backup", response_level="minimal") == {"success": True, "total_count": 1}
    standard = tool("memory_search", query="backup")
    assert list(standard) == ["success", "total_count", "total", "results"]
    (hit,) = standard["results"]
    preview = "Nightly backups run at 02:00 and are kept for thir..."
    assert set(hit) == {*PLAIN_KEYS, "content_preview", "scope"}
    assert (hit["id"], hit["content"], hit["content_preview"], hit["scope"]) == (id, preview, preview, ".")
    full = tool("memory_search", query="backup", response_level="full")
    assert list(full) == ["success", "total_count", "total", "results", "search_metadata"]
    (hit,) = full["results"]
    assert {"content", "tags", "category", "created_at", "metadata", "associations", "similarity_score"} <= set(hit)
    assert (hit["content"], hit["category"], hit["associations"]) == (content, "note", [])
    assert hit["similarity"] == hit["similarity_score"] > 0
    assert hit["access_count"] == 3
    assert full["search_metadata"] == {
        "scope_coverage": "exact",
        "similarity_threshold": 0.0,
        "include_child_scopes": False,
        "include_associations": True,
    }


def test_a_search_without_hits_keeps_its_list(tool):
    assert tool("memory_search", query="backup") == {"success": True, "total_count": 0, "total": 0, "results": []}


def test_at_most_three_associations_of_a_hit_are_shown_and_none_if_unwanted(tool):
    for number in range(6):
        tool("memory_store", content=f"Nightly backups run at hour {number}")
    hits = tool("memory_search", query="backups", response_level="full")["results"]
    assert {len(hit["associations"]) for hit in hits} == {3}
    strengths = [association["strength"] for association in hits[0]["associations"]]
    assert strengths == sorted(strengths, reverse=True)
    hits = tool("memory_search", query="backups", response_level="full", include_associations=False)["results"]
    assert {len(hit["associations"]) for hit in hits} == {0}


def test_child_scopes_are_searched_only_when_asked(small):
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", allow_scopes=True))
    for scope in (".", "work", "workshop"):
        toolbox.call("memory_store", {"content": "a red boat", "scope": scope})

    def scopes(**arguments):
        answer = toolbox.call("memory_search", {"query": "boat", "response_level": "full", **arguments}).artifact
        return sorted(hit["scope"] for hit in answer["results"]), answer["search_metadata"]["scope_coverage"]

    assert scopes() == (["."], "exact")
    assert scopes(scope="work", include_child_scopes=True) == (["work"], "hierarchical")
    assert scopes(include_child_scopes=True) == ([".", "work", "workshop"], "hierarchical")


def test_every_memory_is_searched_whoever_stored_it_unless_the_host_narrows_the_tools(small, tool):
    small.remember_fact(scope="user/alice", fact="a red boat")
    small.remember_episode(scope="user/alice", summary="They bought a boat")
    assert tool("memory_search", query="boat")["total"] == 2
    for narrow in ({"kinds": "tool"}, {"response_format": "plain"}):
        toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", **narrow))
        assert toolbox.call("memory_search", {"query": "boat"}).artifact["total"] == 0


def test_another_owners_memories_are_never_found(small, tool):
    other = LocalToolbox(ToolContext(memory=small, root="user/alice2"))
    other.call("memory_store", {"content": "a red boat"})
    for mode in ("semantic", "keyword", "hybrid"):
        assert tool("memory_search", query="red boat", search_mode=mode, include_child_scopes=True)["total"] == 0


def test_a_diversified_search_leaves_out_what_nearly_repeats(plain_tool):
    store(
        plain_tool,
        "a red boat in the bay",
        "a red boat in the bay!",
        "a red boat, in the bay",
        "the boat race is on May 3",
    )
    plain = contents(plain_tool("memory_search", query="red boat", top_k=2))
    assert all("bay" in content for content in plain)
    diverse = contents(plain_tool("memory_search", query="red boat", top_k=2, diversify=True))
    assert len(diverse) == 2
    assert "the boat race is on May 3" in diverse


def test_a_diversified_search_keeps_to_the_floor_it_is_given(table):
    store(table, "one", "five")
    assert contents(table("memory_search", query="question", diversify=True, top_k=2, min_similarity=0.7)) == ["one"]


def test_a_search_of_nothing_but_strange_characters_finds_without_failing(plain_tool):
    store(plain_tool, "a red boat")
    for query in ("?!", "\x00", "'; DROP TABLE memories; --", '"', "\ud800"):
        for mode in ("semantic", "keyword", "hybrid"):
            assert "error" not in plain_tool("memory_search", query=query, search_mode=mode)
