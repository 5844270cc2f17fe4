"""Searches of the memory tools: three modes, floors, sorting, and the weight of importance (specification §3.4)."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, ToolSettings, ValidationError
from memory_retrievers.models import Category, ContentType, Origin, Tier
from memory_retrievers.models.filters import Filters
from memory_retrievers.models.management import Change, MemoryFilter, SearchMode, SearchRequest, SortBy
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.manager.search import FoundLists, relevance_of

WHERE = MemoryFilter(scope="user/1")


ANGLES = {"q": 0, "same": 0, "near": 30, "far": 80, "across": 90, "behind": 180}


class Axes:
    """Puts the texts it knows at given angles from the query ``q``."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        angle = math.radians(ANGLES.get(text.removeprefix("note: ").split()[0], 45))
        return [math.cos(angle), math.sin(angle)]


@pytest.fixture
def axes(clock):
    with AgentMemory.in_memory(embedder=Axes(), embedder_id="axes", clock=clock) as memory:
        yield memory.manager


def fused(nearest, words, weight):
    request = SearchRequest("q", WHERE, top_k=10, mode=SearchMode.HYBRID, keyword_weight=weight)
    return relevance_of(FoundLists(nearest, dict.fromkeys(words, 1.0), {}), request, {}, ToolSettings())


@pytest.mark.parametrize(
    ("nearest", "words", "expected"),
    [([1], [1], 1.0), ([1], [], 0.7), ([], [1], 0.3), ([2, 1], [1], 0.9887)],
)
def test_weighted_fusion_gives_the_golden_values(nearest, words, expected):
    assert round(fused(nearest, words, 0.3)[1], 4) == expected


@given(
    nearest=st.lists(st.integers(0, 20), unique=True),
    words=st.lists(st.integers(0, 20), unique=True),
    weight=st.floats(0, 1),
)
def test_weighted_fusion_stays_between_0_and_1(nearest, words, weight):
    scores = fused(nearest, words, weight)
    assert set(scores) == {*nearest, *words}
    assert all(0 <= score <= 1 + 1e-9 for score in scores.values())


def test_similarity_is_the_cosine_and_never_below_nought(axes, draft):
    axes.add([draft(text) for text in ANGLES if text != "q"])
    found = {hit.memory.fact: hit for hit in axes.search(SearchRequest("q", WHERE, top_k=10))}
    similarities = {text: round(hit.similarity, 4) for text, hit in found.items()}
    assert similarities == {"same": 1.0, "near": 0.866, "far": 0.1736, "across": 0.0, "behind": 0.0}
    assert {(hit.keyword_score, hit.combined_score) for hit in found.values()} == {(None, None)}
    assert [hit.score for hit in found.values()] == [hit.similarity for hit in found.values()]


def test_what_is_near_to_a_stored_memory_is_found_by_its_text(axes, draft):
    near, far, behind = axes.add([draft("near"), draft("far"), draft("behind")])
    found = axes.like(near.embedding_text, WHERE, top_k=2)
    assert [hit.memory for hit in found] == [near, far]
    assert round(found[0].similarity, 4) == 1.0
    of_behind = axes.like(behind.embedding_text, WHERE, top_k=10, min_similarity=0.5)
    assert [hit.memory.id for hit in of_behind] == [behind.id]


def test_the_older_similarity_is_an_option(clock, draft):
    with AgentMemory.in_memory(
        embedder=Axes(), embedder_id="axes", clock=clock, tools=ToolSettings(similarity="shifted")
    ) as memory:
        memory.manager.add([draft("across"), draft("behind")])
        found = memory.manager.search(SearchRequest("q", WHERE, top_k=10))
        assert [round(hit.similarity, 4) for hit in found] == [0.5, 0.0]


def test_a_floor_leaves_out_what_is_less_similar_but_not_in_a_search_by_words(axes, draft):
    axes.add([draft("near q"), draft("far q"), draft("behind q")])
    for mode, expected in ((SearchMode.SEMANTIC, 1), (SearchMode.HYBRID, 1), (SearchMode.KEYWORD, 3)):
        assert len(axes.search(SearchRequest("q", WHERE, top_k=10, mode=mode, min_similarity=0.5))) == expected


def test_a_hit_by_words_alone_has_its_true_similarity(axes, draft):
    axes.add([draft(f"same {number}") for number in range(4)])
    axes.add([draft("near q")])
    found = axes.search(
        SearchRequest("q", WHERE, top_k=2, mode=SearchMode.HYBRID, keyword_weight=0.9, min_similarity=0.8)
    )
    assert found[0].memory.fact == "near q"
    assert round(found[0].similarity, 4) == 0.866
    assert found[0].keyword_score > 0
    assert round(found[0].combined_score, 4) == 0.9
    assert found[1].keyword_score == 0.0


def test_a_search_by_words_finds_only_what_shares_one(manager, draft):
    manager.add([draft("apple pie"), draft("an apple a day"), draft("banana bread")])
    found = manager.search(SearchRequest("apple", WHERE, top_k=10, mode=SearchMode.KEYWORD))
    assert {hit.memory.fact for hit in found} == {"apple pie", "an apple a day"}
    assert found[0].score == 1.0
    assert all(hit.similarity == 0.0 and hit.keyword_score > 0 and hit.combined_score is None for hit in found)


def test_words_are_joined_by_or(manager, draft):
    manager.add([draft("apple pie"), draft("banana bread"), draft("cherry cake")])
    found = manager.search(SearchRequest("apple banana", WHERE, top_k=10, mode=SearchMode.KEYWORD))
    assert {hit.memory.fact for hit in found} == {"apple pie", "banana bread"}


def test_a_hybrid_search_finds_what_either_list_finds(manager, draft):
    texts = ["Python programming", "programming in Go", "Rust programming", "cooking pasta"]
    manager.add([draft(text) for text in texts])
    found = manager.search(SearchRequest("programming", WHERE, top_k=10, mode=SearchMode.HYBRID))
    assert {hit.memory.fact for hit in found} >= set(texts[:3])
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_changes_and_deletions_are_seen_at_once_in_every_mode(manager, draft):
    apple, banana = manager.add([draft("apple pie"), draft("banana bread")])
    manager.update(Change(apple, content="cherry cake"))
    manager.delete([banana])
    for mode in SearchMode:
        found = manager.search(SearchRequest("apple banana cherry", WHERE, top_k=10, mode=mode))
        assert [hit.memory.fact for hit in found] == ["cherry cake"]


def test_results_are_sorted_as_asked_before_they_are_cut(axes, draft, clock):
    day = timedelta(days=1)
    axes.add(
        [
            draft("same", importance=0.5, created_at=clock.now() - day),
            draft("near", importance=0.9, created_at=clock.now() - 2 * day),
            draft("far", importance=0.7, created_at=clock.now()),
        ]
    )

    def names(**asked):
        return [hit.memory.fact for hit in axes.search(SearchRequest("q", WHERE, **asked))]

    assert names(top_k=3) == ["same", "near", "far"]
    assert names(top_k=3, sort_by=SortBy.IMPORTANCE) == ["near", "far", "same"]
    assert names(top_k=3, sort_by=SortBy.CREATED_AT) == ["far", "same", "near"]
    assert names(top_k=2, sort_by=SortBy.IMPORTANCE) == ["near", "far"]


def test_importance_is_blended_into_the_score(axes, draft):
    axes.add([draft("same", importance=0.0), draft("near", importance=1.0)])
    found = axes.search(SearchRequest("q", WHERE, top_k=2, importance_weight=0.3))
    assert [(hit.memory.fact, round(hit.score, 4)) for hit in found] == [("near", 0.9062), ("same", 0.7)]
    assert [hit.score for hit in axes.search(SearchRequest("q", WHERE, top_k=2, importance_weight=1.0))] == [1.0, 0.0]


def test_a_hit_is_no_access(manager, draft):
    manager.add([draft("tea")])
    (hit,) = manager.search(SearchRequest("tea", WHERE, top_k=1))
    assert hit.memory.access_count == 0


def test_only_what_the_tools_stored_is_searched_unless_all_is_asked(memory, manager, draft):
    memory.remember_fact(scope="user/1", fact="tea is hot")
    memory.remember_episode(scope="user/1", summary="tea was made")
    manager.add([draft("tea is green")])
    for mode in SearchMode:
        assert [hit.memory.fact for hit in manager.search(SearchRequest("tea", WHERE, top_k=5, mode=mode))] == [
            "tea is green"
        ]
        assert len(manager.search(SearchRequest("tea", replace(WHERE, kinds="all"), top_k=5, mode=mode))) == 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"top_k": 0}, "top_k must be between 1 and 1000"),
        ({"top_k": 1001}, "top_k must be between 1 and 1000"),
        ({"min_similarity": 1.1}, r"min_similarity must be between 0\.0 and 1\.0"),
        ({"keyword_weight": -0.1}, r"keyword_weight must be between 0\.0 and 1\.0"),
        ({"importance_weight": math.nan}, r"importance_weight must be between 0\.0 and 1\.0"),
        ({"query": " \n"}, "Query cannot be empty"),
        ({"filter": MemoryFilter(scope="a//b")}, "malformed"),
    ],
)
def test_what_breaks_a_rule_is_refused(manager, asked, message):
    with pytest.raises(ValidationError, match=message):
        manager.search(SearchRequest(**{"query": "tea", "filter": WHERE, "top_k": 5} | asked))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    stored=st.lists(
        st.fixed_dictionaries(
            {
                "tier": st.sampled_from(Tier),
                "content_type": st.sampled_from(ContentType),
                "tags": st.sets(st.sampled_from(["a", "b", "ab"])).map(tuple),
                "category": st.sampled_from([Category.NOTE, Category.GOAL]),
                "origin": st.sampled_from([Origin.TOOL, Origin.API]),
                "scope": st.sampled_from(["s/1", "s/1/x", "s/10"]),
            }
        ),
        max_size=12,
    ),
    asked=st.fixed_dictionaries(
        {
            "include_child_scopes": st.booleans(),
            "kinds": st.sampled_from(["tool", "all"]),
            "tier": st.none() | st.sampled_from(Tier),
            "content_type": st.none() | st.sampled_from(ContentType),
            "filters": st.sets(st.sampled_from(["a", "b"])).map(lambda tags: Filters(tags=tuple(tags))),
        }
    ),
    mode=st.sampled_from(SearchMode),
)
def test_a_search_sees_exactly_what_its_filter_lets_through(draft, stored, asked, mode):
    with AgentMemory.in_memory(embedder=HashEmbedder(), dense="chroma", tools=ToolSettings()) as memory:
        memory.manager.add([draft("the same words", id=str(n), **fields) for n, fields in enumerate(stored)])
        where = MemoryFilter(scope="s/1", **asked)
        found = memory.manager.search(SearchRequest("words", where, top_k=50, mode=mode))
        expected = {
            str(number)
            for number, fields in enumerate(stored)
            if fields["scope"] in ({"s/1", "s/1/x"} if asked["include_child_scopes"] else {"s/1"})
            and (asked["kinds"] == "all" or fields["origin"] is Origin.TOOL)
            and all(asked[name] in {None, fields[name]} for name in ("tier", "content_type"))
            and set(asked["filters"].tags) <= set(fields["tags"])
        }
        assert {hit.memory.id for hit in found} == expected
        assert len(found) == memory.manager.count(where)
