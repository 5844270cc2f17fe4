"""Filters with operators: what they mean, what they refuse and where, and that they say again what they are."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ValidationError
from memory_retrievers.models.filters import MAX_CONDITIONS, MAX_DEPTH, Filters
from memory_retrievers.testing import FixedClock, HashEmbedder

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def deep(levels):
    return {"tags": "a"} if levels == 1 else {"not": deep(levels - 1)}


def where_of(given):
    return Filters.parse({"where": given}).where


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "where must be an object"),
        ({}, "where must be an object"),
        ("team = a", "where must be an object"),
        ({"team": "a"}, r"where\.team is not a field: there are metadata\.KEY, tags, time and created_at"),
        ({"metadata": {"team": "a"}}, r"where\.metadata is not a field"),
        ({"metadata.": "a"}, r"where\.metadata\. is not a field"),
        ({"tags.x": "a"}, r"where\.tags\.x is not a field"),
        (
            {"or": [{"tags": "a"}, {"and": [{"metadata.n": {"near": 1}}]}]},
            r"where\.or\[1\]\.and\[0\]\.metadata\.n\.near",
        ),
        ({"or": {"tags": "a"}}, r"where\.or must be a list"),
        ({"and": []}, r"where\.and must be a list"),
        ({"not": [{"tags": "a"}]}, r"where\.not must be an object"),
        ({"metadata.n": {"in": 1}}, r"where\.metadata\.n\.in must be a list"),
        ({"metadata.n": {"in": []}}, r"where\.metadata\.n\.in must be a list"),
        ({"metadata.n": [1]}, r"where\.metadata\.n\.eq: "),
        ({"metadata.n": float("nan")}, r"where\.metadata\.n\.eq: "),
        ({"metadata.n": {"lt": 10**400}}, r"where\.metadata\.n\.lt: "),
        ({"metadata.n": "x" * 1_001}, r"where\.metadata\.n\.eq: "),
        ({"metadata." + "k" * 1_001: 1}, "at most 1000 bytes"),
        ({"metadata.n": {"gt": True}}, r"where\.metadata\.n\.gt orders numbers, texts and moments"),
        ({"metadata.n": {"gt": None}}, r"where\.metadata\.n\.gt orders"),
        ({"metadata.n": {}}, r"where\.metadata\.n needs an operator"),
        ({"tags": {"gt": "a"}}, r"where\.tags\.gt: tags are texts"),
        ({"tags": 1}, r"where\.tags\.eq: tags are texts"),
        ({"tags": None}, r"where\.tags\.eq cannot be compared with null"),
        ({"time": {"gte": "yesterday"}}, r"where\.time\.gte must be ISO 8601"),
        ({"time": {"gte": datetime(2026, 1, 1)}}, r"where\.time\.gte has no time zone"),  # noqa: DTZ001
        ({"created_at": None}, r"where\.created_at\.eq cannot be compared with null"),
        ({1: 2}, "the names in where must be texts"),
        (deep(MAX_DEPTH + 1), "nested too deep"),
        ({"tags": {"in": ["a"] * (MAX_CONDITIONS + 1)}}, "too many conditions"),
        ({"or": [{"tags": "a"}] * 10_000}, "too many conditions"),
        ({f"metadata.{number}": 1 for number in range(MAX_CONDITIONS + 1)}, "too many conditions"),
    ],
    ids=range(32),
)
def test_what_is_no_filter_is_refused_with_its_place(given, problem):
    with pytest.raises(ValidationError, match=problem):
        where_of(given)


def test_combinations_may_be_written_as_in_chroma_like_operators():
    asked = {"$or": [{"$not": {"tags": "a"}}, {"$AND": [{"metadata.n": {"$gte": 2}}, {"tags": "b"}]}]}
    as_here = {"or": [{"not": {"tags": "a"}}, {"and": [{"metadata.n": {"gte": 2}}, {"tags": "b"}]}]}
    assert where_of(asked) == where_of(as_here)
    with pytest.raises(ValidationError, match=r"where\.\$metadata\.n is not a field"):
        where_of({"$metadata.n": 1})


def test_as_much_as_is_allowed_is_taken():
    assert where_of(deep(MAX_DEPTH)) is not None
    assert where_of({"tags": {"in": ["a"] * MAX_CONDITIONS}}) is not None
    assert where_of(None) is None


words = st.sampled_from(["a", "b", "A", "ä", "1", "%", "'", '"', "\\", "a.b", "𝄞", "\ufffd", ""])
numbers = st.integers(-2, 2) | st.sampled_from([0.0, -0.5, 0.5, 1e18, 2**53 + 1, 2**62])
scalars = st.none() | st.booleans() | numbers | words
moments = st.sampled_from([NOW, NOW.replace(hour=9), "2026-03-01T12:00:00Z", "2026-02-01"])
keys = words.filter(bool).map("metadata.{}".format)
leaves = (
    st.dictionaries(keys, scalars, min_size=1, max_size=2)
    | st.dictionaries(keys, st.dictionaries(st.sampled_from(["eq", "ne"]), scalars, min_size=1), min_size=1, max_size=1)
    | st.builds(lambda key, sign, value: {key: {sign: value}}, keys, st.sampled_from(["gt", "gte", "lt", "lte"]), numbers | words)
    | st.builds(lambda key, sign, values: {key: {sign: values}}, keys, st.sampled_from(["in", "NIN"]), st.lists(scalars, min_size=1, max_size=3))
    | st.builds(lambda sign, value: {"tags": {sign: value}}, st.sampled_from(["eq", "ne"]), words)
    | st.builds(lambda name, sign, at: {name: {sign: at}}, st.sampled_from(["time", "created_at"]),
                st.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte"]), moments)
)  # fmt: skip
filters = st.recursive(
    leaves,
    lambda inner: st.builds(lambda word, parts: {word: parts}, st.sampled_from(["and", "OR"]), st.lists(inner, min_size=1, max_size=3))
    | inner.map(lambda part: {"not": part}),
    max_leaves=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def memory():
    values = [
        None,
        True,
        False,
        0,
        1,
        1.0,
        -0.5,
        0.5,
        2**53,
        2**53 + 1,
        2**62,
        "",
        "a",
        "A",
        "ä",
        "1",
        "𝄞",
        "\ufffd",
        [1],
        {"a": 1},
    ]
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(NOW)) as memory:
        drafts = [
            {
                "scope": "c1",
                "fact": f"Number {place}",
                "tags": ["a", "b", "ä", "A"][: place % 5],
                "metadata": {
                    key: values[(place * 7 + shift) % len(values)] for shift, key in enumerate(["a", "b", "a.b"])
                },
                "created_at": NOW.replace(hour=9 + place % 4),
            }
            for place in range(len(values))
        ]
        episode = {"scope": "c1", "summary": "It rained.", "start_at": NOW.replace(hour=9), "created_at": NOW}
        memory.remember_many([*drafts, episode | {"metadata": {"a": 1}}])
        yield memory


@settings(deadline=None)
@given(where=filters)
def test_the_database_lists_what_the_filter_lets_through_and_a_search_finds_it(memory, where):
    passing = Filters.parse({"where": where})
    everything = memory.list("c1", limit=1_000).memories
    expected = {each.id for each in everything if passing.obstacle(each) is None}
    assert {each.id for each in memory.list("c1", limit=1_000, where=where).memories} == expected
    found = memory.retrieve("number", scope="c1", where=where, record=False, semantic_limit=1_000)
    assert {hit.memory.id for hit in (*found.semantic, *found.episodic)} == expected


@given(where=filters)
def test_a_filter_says_again_what_it_is(where):
    parsed = where_of(where)
    assert where_of(parsed.to_dict()).to_dict() == parsed.to_dict()


def test_what_is_missing_is_not_equal_and_is_in_no_order(memory):
    everything = {each.id for each in memory.list("c1", limit=1_000).memories}
    for where in (
        {"metadata.absent": {"ne": 1}},
        {"metadata.absent": {"nin": [1, None]}},
        {"not": {"metadata.absent": 1}},
    ):
        assert {each.id for each in memory.list("c1", limit=1_000, where=where).memories} == everything
    for where in ({"metadata.absent": None}, {"metadata.absent": {"gte": ""}}, {"not": {"metadata.absent": {"ne": 1}}}):
        assert memory.list("c1", where=where).memories == ()


def test_an_explanation_names_the_filter(memory):
    (one,) = memory.list("c1", limit=1).memories
    told = memory.explain_missing(one.id, query="number", scope="c1", where={"tags": "nobody has it"})
    assert told.outcome == "filtered"
    assert "where" in told.reason
