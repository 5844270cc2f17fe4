from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from memory_retrievers import RetrievalSettings
from memory_retrievers.models import Kind
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import WHOLE, ForgettingState, Layout, TermStatistics
from memory_retrievers.retrieval.candidates import Candidates, RankedLists
from memory_retrievers.retrieval.explanations import StageScore
from memory_retrievers.retrieval.features import at_rank
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.rank_fusion import RankingByRank
from memory_retrievers.retrieval.ranking import (
    RankingByScore,
    Scored,
    _apply_decay,
    _joint_cut,
    _retrievabilities,
)

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
REFERENCE = RetrievalSettings.reference()


def ranked(lists, retrievability=None, *, settings=REFERENCE, limit=100):
    ranking = RankingByRank(lists, settings)
    known = retrievability or {}
    return _apply_decay(ranking.scores, retrievability=known, decay_weight=settings.decay_weight, limit=limit)


def state(stability, *, days):
    return ForgettingState(stability, microseconds(NOW - timedelta(days=days)))


def test_the_specified_example_of_rank_one_and_three_after_two_days_scores_0_92():
    (retrievability,) = _retrievabilities({7: state(3.5, days=2)}, now=NOW, settings=REFERENCE).values()
    assert retrievability == pytest.approx(0.933709, abs=1e-6)
    hit = next(hit for hit in ranked(RankedLists([7, 1, 2], [3, 4, 7]), {7: retrievability}) if hit.row == 7)
    assert f"{hit.score:.2f}" == "0.92"


@pytest.mark.parametrize("rank", [1, 2, 50, 100])
def test_a_memory_in_one_list_only_scores_half_of_r_times_61_over_60_plus_rank(rank):
    hit = ranked(RankedLists(list(range(1, rank + 1)), []), {rank: 0.8})[-1]
    assert hit.row == rank
    assert hit.score == pytest.approx(0.8 * 0.5 * 61 / (60 + rank))


def test_the_explanation_tells_both_ranks_the_sum_and_the_retrievability():
    lists = RankedLists([1, 2], [2])
    ranking = RankingByRank(lists, REFERENCE)
    hits = {hit.row: ranking.explanation(hit) for hit in ranked(lists, {2: 0.9})}
    assert (hits[2].dense_rank, hits[2].bm25_rank) == (2, 1)
    assert hits[2].fused_score == pytest.approx(1 / 62 + 1 / 61)
    assert hits[2].retrievability == 0.9
    assert hits[2].score == pytest.approx((1 / 62 + 1 / 61) / (2 / 61) * 0.9)
    assert (hits[1].dense_rank, hits[1].bm25_rank, hits[1].retrievability) == (1, None, 1.0)


def test_the_stages_of_ranks_are_what_each_list_gives():
    settings = RetrievalSettings(fusion="rrf", dense_weight=0.75)
    ranking = RankingByRank(RankedLists([5, 9], [9]), settings)
    assert ranking.stages(5) == (
        StageScore(name="dense", rank=1, score=1.5 / 61),
        StageScore(name="bm25", rank=None, score=0.0),
    )
    assert sum(stage.score for stage in ranking.stages(9)) == pytest.approx(1.5 / 62 + 0.5 / 61)
    assert ranking.scores == pytest.approx({5: 0.75, 9: (1.5 / 62 + 0.5 / 61) / (2 / 61)})


def test_what_only_a_list_without_weight_names_is_left_out():
    assert RankingByRank(RankedLists([1, 2], [2]), RetrievalSettings(fusion="rrf", dense_weight=0)).rows == [2]
    assert RankingByRank(RankedLists([1], [1, 2]), RetrievalSettings(fusion="rrf", dense_weight=1)).rows == [1]


def test_equal_sums_go_to_the_nearer_vector():
    assert [hit.row for hit in ranked(RankedLists([5, 9], [9, 5]))] == [5, 9]
    assert [hit.row for hit in ranked(RankedLists([9, 5], [5, 9]))] == [9, 5]


def test_a_place_in_the_vector_list_wins_over_the_same_place_by_words():
    assert [hit.row for hit in ranked(RankedLists([5], [9]))] == [5, 9]


def test_equal_scores_after_decay_go_to_the_higher_sum():
    assert [hit.row for hit in ranked(RankedLists([1], [2]), {1: 1.0, 2: 1.0})] == [1, 2]
    assert [hit.row for hit in ranked(RankedLists([1, 2], [2]), {1: 0.0, 2: 0.0})] == [2, 1]


def test_only_the_best_candidates_by_sum_are_reranked():
    settings = REFERENCE.model_copy(update={"candidate_depth": 2})
    hits = ranked(RankedLists([1, 2, 3], []), {1: 0.1, 2: 0.1, 3: 1.0}, settings=settings)
    assert [hit.row for hit in hits] == [1, 2]


def test_without_decay_forgetting_changes_nothing():
    settings = RetrievalSettings(decay_weight=0)
    assert [hit.score for hit in ranked(RankedLists([1], [1]), {1: 0.01}, settings=settings)] == [1.0]


def test_the_default_weight_takes_at_most_its_share():
    settings = RetrievalSettings()
    (hit,) = ranked(RankedLists([1], [1]), {1: 0.0}, settings=settings)
    assert hit.score == pytest.approx(1 - settings.decay_weight)


def test_the_reference_counts_whole_days_and_the_default_does_not():
    states = {1: state(2.3065, days=0.9)}
    assert _retrievabilities(states, now=NOW, settings=REFERENCE)[1] == 1.0
    assert _retrievabilities(states, now=NOW, settings=RetrievalSettings())[1] < 1.0


def test_a_review_in_the_future_counts_as_now():
    assert _retrievabilities({1: state(2.3065, days=-5)}, now=NOW, settings=REFERENCE)[1] == 1.0


def by_score(values):
    """A ranking of memories 10, 11, … by these values, each of one passage."""
    count = len(values)
    layout = Layout(
        passages=np.arange(count),
        memories=np.arange(10, 10 + count),
        places=np.full(count, WHOLE),
        speakers=np.full(count, -1),
        tells_time=np.zeros(count, bool),
        began=np.zeros(count, np.int64),
        names=(),
    )
    nothing, none = np.zeros(count), TermStatistics(count, 1.0, {})
    candidates = Candidates(layout, nothing, np.zeros(0), np.zeros((0, count)), nothing, none, is_whole=True)
    return RankingByScore(
        Scored(candidates, {"dense": np.array(values)}, np.array(values), nothing, Question.parse("basil")), 0.9
    )


@settings_of_hypothesis(deadline=None)
@example(values=[0.0, 5e-324], retrievability=[0.0] * 41, decay_weight=0.0, limit=1, by_rank=False)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.25000000001, 0.4, 0.9]) | st.floats(0, 1), min_size=1, max_size=30),
    st.lists(st.floats(0, 1), min_size=41, max_size=41),
    st.sampled_from([0.0, 0.05, 0.2, 0.7, 1.0]),
    st.integers(1, 8),
    st.booleans(),
)
def test_leaving_out_what_cannot_get_there_changes_nothing(values, retrievability, decay_weight, limit, by_rank):
    known = dict(enumerate(retrievability))
    lists = RankedLists(list(range(len(values))), [row for row, value in enumerate(values) if value > 0.3])
    ranking = RankingByRank(lists, REFERENCE) if by_rank else by_score(values)
    few = ranking.leading(limit, share=1 - decay_weight)
    assert list(few.items()) == [(row, score) for row, score in ranking.scores.items() if row in few]
    assert _apply_decay(few, retrievability=known, decay_weight=decay_weight, limit=limit) == _apply_decay(
        ranking.scores, retrievability=known, decay_weight=decay_weight, limit=limit
    )
    if not decay_weight:
        assert len(few) == len(ranking.scores) or len(set(few.values())) <= limit


@given(st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(21, 40), unique=True), st.integers(0, 12))
def test_the_joint_cut_keeps_the_best_of_both_in_their_order(semantic, episodic, limit):
    facts, episodes = ranked(RankedLists(semantic, semantic)), ranked(RankedLists(episodic, episodic))
    best = {Kind.SEMANTIC: facts, Kind.EPISODIC: episodes}
    kept_facts, kept_episodes = _joint_cut(best, limit).values()
    assert len(kept_facts) + len(kept_episodes) == min(limit, len(facts) + len(episodes))
    assert (kept_facts, kept_episodes) == (facts[: len(kept_facts)], episodes[: len(kept_episodes)])
    assert len(kept_facts) - len(kept_episodes) in {0, 1} or min(len(facts), len(episodes)) < limit / 2


@given(
    scores=hnp.arrays(np.float64, st.integers(1, 1_400), elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0])),
    spread=st.floats(0, 1),
    data=st.data(),
)
def test_the_score_at_a_rank_is_that_of_all_scores_sorted(scores, spread, data):
    scores = scores + spread * np.linspace(0, 1, len(scores))
    rank = data.draw(st.integers(1, len(scores)))
    assert at_rank(scores, rank) == np.sort(scores)[-rank]
