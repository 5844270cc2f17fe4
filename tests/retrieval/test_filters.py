"""Tags, metadata, since and until: what they let through, in every way of searching, and what they refuse."""

from datetime import UTC, datetime, timedelta

import pytest
from contracts.filtering import FILTERED, HOUR, memories_to_filter
from contracts.samples import NOW, exploring
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import EpisodicDraft, Kind, SemanticDraft
from memory_retrievers.models.filters import MAX_FILTER_BYTES, MAX_FILTERS, Filters
from memory_retrievers.testing import FixedClock, HashEmbedder

SCOPES = ("user/1", "user/1/work", "user/10", "user/2")
SETTINGS = {
    "all scored": RetrievalSettings(),
    "the nearest and the best by words": RetrievalSettings(exact_limit=1, candidate_depth=50),
    "as specified": RetrievalSettings.reference(),
}


def draft_of(memory):
    fields = memory.model_dump(exclude_unset=True, exclude={"kind"})
    return (EpisodicDraft if memory.kind is Kind.EPISODIC else SemanticDraft)(**fields)


@pytest.fixture(params=SETTINGS)
def memory(request):
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=FixedClock(NOW), retrieval=SETTINGS[request.param]
    ) as memory:
        memory.remember_many(
            [draft_of(each) for scope in SCOPES for kind in Kind for each in memories_to_filter(kind, scope=scope)]
        )
        yield memory


def options_of(filters):
    return {
        "tags": filters.tags,
        "metadata": dict(filters.metadata),
        "since": filters.since,
        "until": filters.until,
        "where": None if filters.where is None else filters.where.to_dict(),
    }


@pytest.mark.parametrize("below", [False, True])
def test_a_search_returns_what_passes_the_filters_and_nothing_of_another_scope(memory, below):
    searched = SCOPES[:2] if below else SCOPES[:1]
    stored = [each for scope in searched for kind in Kind for each in memories_to_filter(kind, scope=scope)]
    for filters in FILTERED:
        found = memory.retrieve(
            "tea", scope="user/1", episodic_limit=100, include_child_scopes=below, record=False, **options_of(filters)
        )
        keys = {hit.memory.key for hit in (*found.semantic, *found.episodic)}
        expected = {each.key for each in stored if filters.obstacle(each) is None}
        assert keys == expected, filters
        one = memory.retrieve("tea", scope="user/1", episodic_limit=1, semantic_limit=1, **options_of(filters))
        assert {hit.memory.key for hit in (*one.semantic, *one.episodic)} <= expected


words = st.sampled_from(["a", "b", "A", "a ", "ä", "1", "%", "_", "'", '"', "\\", "a/b"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5]) | words
moments = st.integers(-3, 3).map(lambda hours: NOW + hours * HOUR)
stored = st.lists(
    st.fixed_dictionaries(
        {
            "scope": st.sampled_from(SCOPES),
            "tags": st.lists(words, max_size=3).map(tuple),
            "metadata": st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=3),
            "at": moments,
            "is_fact": st.booleans(),
        }
    ),
    max_size=12,
)
asked = st.fixed_dictionaries(
    {
        "tags": st.lists(words, max_size=2),
        "metadata": st.dictionaries(words, scalars, max_size=2),
        "since": st.none() | moments,
        "until": st.none() | moments,
    }
).filter(lambda asked: None in (asked["since"], asked["until"]) or asked["since"] <= asked["until"])


@exploring
@given(stored=stored, asked=asked, below=st.booleans())
def test_no_filter_lets_in_a_foreign_memory_or_leaves_out_one_that_passes(stored, asked, below):
    with AgentMemory.in_memory(embedder=HashEmbedder(16), clock=FixedClock(NOW)) as memory:
        memory.remember_many([_draft(number, **each) for number, each in enumerate(stored)])
        found = memory.retrieve(
            "tea", scope="user/1", episodic_limit=100, include_child_scopes=below, record=False, **asked
        )
        keys = {hit.memory.id for hit in (*found.semantic, *found.episodic)}
        mine = {number for number, each in enumerate(stored) if each["scope"] in SCOPES[: 1 + below]}
        assert keys == {f"m{number}" for number in mine if _passes(stored[number], asked)}
        listed = {each.id for each in memory.list("user/1", **asked).memories}
        own = {number for number, each in enumerate(stored) if each["scope"] == "user/1"}
        assert listed == {f"m{number}" for number in own if _passes(stored[number], asked)}


@pytest.mark.parametrize("text", ["a\x1ab", "\x1a0", r"\u0000", r"\\u0000", r"\u001a", "\\"])
def test_what_reads_as_an_escape_is_compared_as_it_was_stored(text):
    with AgentMemory.in_memory(embedder=HashEmbedder(16), clock=FixedClock(NOW)) as memory:
        fact = memory.remember_fact(scope="user/1", fact="tea", tags=[text], metadata={text: 1, "k": text})
        memory.remember_fact(scope="user/1", fact="green tea", tags=["\0"], metadata={"k": text + "\0"})
        for asked in ({"tags": [text]}, {"metadata": {"k": text}}, {"metadata": {text: 1}}):
            assert [hit.memory.id for hit in memory.retrieve("tea", scope="user/1", **asked).semantic] == [fact.id]


def _draft(number, *, scope, tags, metadata, at, is_fact):
    common = {"scope": scope, "id": f"m{number}", "tags": tags, "metadata": metadata}
    if is_fact:
        return SemanticDraft(fact="The user likes tea", created_at=at, **common)
    return EpisodicDraft(summary="They talked about tea", start_at=at, end_at=at, **common)


def _passes(stored, asked):
    has_tags = {tag.strip() for tag in asked["tags"]} <= {tag.strip() for tag in stored["tags"]}
    has_metadata = all(
        key in stored["metadata"]
        and stored["metadata"][key] == value
        and isinstance(stored["metadata"][key], bool) == isinstance(value, bool)
        for key, value in asked["metadata"].items()
    )
    is_late = asked["since"] is None or stored["at"] >= asked["since"]
    return has_tags and has_metadata and is_late and (asked["until"] is None or stored["at"] <= asked["until"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"since": NOW, "until": NOW - timedelta(microseconds=1)}, "until is before since"),
        ({"since": datetime(2026, 3, 1, 9)}, "since has no time zone: give datetime"),  # noqa: DTZ001 - the case
        ({"as_of": datetime(2026, 3, 1, 9)}, "as_of has no time zone"),  # noqa: DTZ001 - the case
        ({"until": "yesterday"}, "until must be ISO 8601"),
        ({"until": 5}, "until must be a datetime"),
        ({"tags": "work"}, r"tags must be a list of texts, not str: write tags=\['work'\]"),
        ({"tags": [1]}, "a tag must be a text, not int"),
        ({"tags": ["x"] * (MAX_FILTERS + 1)}, "at most 16"),
        ({"tags": ["ä" * MAX_FILTER_BYTES]}, "at most 1000 bytes"),
        ({"tags": ["a\0b"]}, "without a NUL"),
        ({"metadata": ["team"]}, "metadata must be an object"),
        ({"metadata": {"team": ["a"]}}, "compared with texts"),
        ({"metadata": {"n": 2**63}}, "compared with texts"),
        ({"metadata": {"n": float("nan")}}, "compared with texts"),
        ({"metadata": {"n": -(10**400)}}, "compared with texts"),
        ({"metadata": {1: "a"}}, "a key of metadata must be a text"),
        ({"metadata": {str(n): n for n in range(MAX_FILTERS + 1)}}, "at most 16"),
        ({"metadata": {"k": "x" * (MAX_FILTER_BYTES + 1)}}, "at most 1000 bytes"),
    ],
)
def test_what_cannot_be_a_filter_is_refused_with_what_to_do(options, complaint):
    with AgentMemory.in_memory(embedder=HashEmbedder(16)) as memory, pytest.raises(ValidationError, match=complaint):
        memory.retrieve("tea", scope="user/1", **options)


def test_text_without_a_zone_is_in_utc_and_a_zone_is_heeded():
    filters = Filters.parse({"since": "2026-03-01T09:00", "until": "2026-03-01T12:00+02:00"})
    assert filters.since == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert filters.until == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_explaining_an_absence_names_the_filter():
    with AgentMemory.in_memory(embedder=HashEmbedder(16), clock=FixedClock(NOW)) as memory:
        fact = memory.remember_fact(scope="user/1", fact="The user likes tea", tags=["home"])
        absence = memory.explain_missing(fact.id, query="tea", scope="user/1", tags=["work"])
        assert (absence.outcome, absence.reason) == ("filtered", "It does not pass the filter by tags.")
        assert memory.explain("tea", scope="user/1", tags=["work"]).semantic == ()
        assert len(memory.explain("tea", scope="user/1", tags=["home"]).semantic) == 1
