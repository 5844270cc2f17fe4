import pytest
from cases import tried_in_one

from memory_retrievers import Category, ValidationError
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.results import parse_detail


def request(query="q", *, scope="c1", episodic_limit=5, semantic_limit=20, **rest):
    return RetrievalRequest.parse(
        query, scope=scope, episodic_limit=episodic_limit, semantic_limit=semantic_limit, **rest
    )


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_a_blank_query_is_refused(query):
    with pytest.raises(ValidationError, match="Query cannot be empty"):
        request(query)


def test_a_query_that_is_no_text_is_refused():
    with pytest.raises(ValidationError, match="query must be a string"):
        request(7)


def test_the_query_is_stripped():
    assert request("  where?\n").query == "where?"


@pytest.mark.parametrize(("given", "kept"), [(0, 0), (1, 1), (100, 100), (101, 100), (5_000, 100)])
def test_the_episodic_limit_is_clamped_to_100(given, kept):
    assert request(episodic_limit=given).episodic_limit == kept


@pytest.mark.parametrize(("given", "kept"), [(0, 0), (1_000, 1_000), (1_001, 1_000)])
def test_the_semantic_limit_is_clamped_to_1000(given, kept):
    assert request(semantic_limit=given).semantic_limit == kept


@tried_in_one(
    "given, limits",
    [
        ({}, (5, 20)),
        ({"limit": 3}, (3, 3)),
        ({"limit": 50}, (50, 50)),
        ({"limit": 5_000}, (100, 1_000)),
        ({"limit": 50, "episodic_limit": 5}, (5, 50)),
        ({"limit": 50, "semantic_limit": 0}, (50, 0)),
    ],
)
def test_a_joint_limit_is_that_of_each_kind_unless_it_has_one(given, limits):
    asked = RetrievalRequest.parse("q", scope="c1", query_characters=None, **given)
    assert (asked.episodic_limit, asked.semantic_limit) == limits


@pytest.mark.parametrize("name", ["episodic_limit", "semantic_limit", "limit"])
@pytest.mark.parametrize("value", [-1, 2.5, "3", True])
def test_a_negative_or_non_integer_limit_is_refused_by_name(name, value):
    with pytest.raises(ValidationError, match=name):
        request(**{name: value})


@pytest.mark.parametrize("category", [None, "", "  "])
def test_no_category_means_all(category):
    assert request(category=category).category is None


@pytest.mark.parametrize("category", ["guideline", " GuideLine ", Category.GUIDELINE])
def test_a_category_is_trimmed_and_lower_cased(category):
    assert request(category=category).category is Category.GUIDELINE


def test_an_unknown_category_is_refused_with_the_nine_that_are_known():
    with pytest.raises(ValidationError) as caught:
        request(category="my hobby")
    assert all(category in str(caught.value) for category in Category)
    assert len(Category) == 9


@pytest.mark.parametrize("detail", ["auto", "AUTO", " High ", "none", "low"])
def test_a_detail_level_is_read_in_any_case(detail):
    assert parse_detail(detail) == detail.strip().lower()


def test_an_unknown_detail_level_is_refused_with_the_four_that_are_known():
    with pytest.raises(ValidationError, match="auto, none, low, high"):
        parse_detail("full")


def test_a_lone_surrogate_in_a_query_is_replaced():
    assert request("bad \ud800 one").query == "bad \ufffd one"
