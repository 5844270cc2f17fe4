import pytest

from .conftest import PLAIN_KEYS, contents, store


def test_ranks_two_and_one_give_0_9887(table):
    store(table, "one", "two weasel")
    answer = table("memory_search", query="weasel", search_mode="hybrid")
    assert {hit["content"]: hit["combined_score"] for hit in answer["results"]} == pytest.approx(
        {"two weasel": 0.7 * 61 / 62 + 0.3, "one": 0.7}, abs=1e-6
    )
    assert answer["results"][0]["combined_score"] == pytest.approx(0.9887, abs=5e-5)


def test_first_in_both_lists_is_one(table):
    store(table, "one weasel", "two")
    first = table("memory_search", query="weasel", search_mode="hybrid")["results"][0]
    assert (first["content"], first["combined_score"]) == ("one weasel", pytest.approx(1.0))


def test_first_by_words_alone_is_the_keyword_weight_and_has_its_true_similarity(table, clock):
    store(table, "one", "two", "three", "four")
    clock.advance(days=1)
    store(table, "five weasel")  # fifth by meaning, where each list gives four
    arguments = {"query": "weasel", "search_mode": "hybrid", "top_k": 2, "sort_by": "created_at"}
    first = table("memory_search", **arguments)["results"][0]
    assert first["content"] == "five weasel"
    assert first["combined_score"] == pytest.approx(0.3)
    assert first["similarity"] == pytest.approx(0.4, abs=1e-6)
    assert first["keyword_score"] > 0
    floored = table("memory_search", **arguments, min_similarity=0.3)
    assert contents(floored)[0] == "five weasel"
    assert "five weasel" not in contents(table("memory_search", **arguments, min_similarity=0.45))


@pytest.mark.parametrize(("weight", "first"), [(0.0, "one"), (1.0, "two weasel")])
def test_the_keyword_weight_decides_between_meaning_and_words(table, weight, first):
    store(table, "one", "two weasel")
    answer = table("memory_search", query="weasel", search_mode="hybrid", keyword_weight=weight)
    assert contents(answer)[0] == first


def test_a_keyword_search_finds_words_and_knows_no_similarity(plain_tool):
    """Case D29: "apple" finds 2 of 3."""
    store(plain_tool, "apple pie", "an apple a day", "banana bread")
    answer = plain_tool("memory_search", query="apple", search_mode="keyword", min_similarity=0.9)
    assert sorted(contents(answer)) == ["an apple a day", "apple pie"]
    assert [list(hit) for hit in answer["results"]] == [[*PLAIN_KEYS, "keyword_score"]] * 2
    assert {hit["similarity"] for hit in answer["results"]} == {0.0}
    assert all(hit["keyword_score"] > 0 for hit in answer["results"])


def test_any_word_of_the_question_is_enough_for_a_keyword_search(plain_tool):
    store(plain_tool, "apple pie", "banana bread", "cherry cake")
    answer = plain_tool("memory_search", query="banana or apple", search_mode="keyword")
    assert sorted(contents(answer)) == ["apple pie", "banana bread"]


def test_a_keyword_search_obeys_the_tier(plain_tool):
    """Case D29: tier filter."""
    store(plain_tool, "apple pie", memory_tier="working")
    store(plain_tool, "apple tart")
    answer = plain_tool("memory_search", query="apple", search_mode="keyword", memory_tier="working")
    assert contents(answer) == ["apple pie"]


def test_updates_and_deletes_are_in_the_index_at_once(plain_tool):
    """Case D29."""
    kept, gone = store(plain_tool, "apple pie", "apple tart")
    plain_tool("memory_update", id=kept, content="banana bread")
    plain_tool("memory_delete", id=gone)
    assert plain_tool("memory_search", query="apple", search_mode="keyword")["total"] == 0
    assert contents(plain_tool("memory_search", query="banana", search_mode="keyword")) == ["banana bread"]


def test_a_hybrid_search_finds_what_is_about_programming(plain_tool):
    """Case D29: at least 3 of 4 for "programming"."""
    about = [
        "Python is a programming language",
        "Functional programming avoids state",
        "Programming needs patience",
        "Java is compiled",
    ]
    store(plain_tool, *about)
    assert sum("rogramming" in text for text in contents(plain_tool("memory_search", query="programming"))) >= 3
    found = contents(plain_tool("memory_search", query="programming", search_mode="hybrid"))
    assert len(set(found) & set(about)) >= 3
