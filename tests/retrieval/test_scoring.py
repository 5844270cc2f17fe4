"""Relative scores: golden numbers by hand, and what holds for all candidates and every setting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from memory_retrievers import RetrievalSettings
from memory_retrievers.models import Kind
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import WHOLE
from memory_retrievers.retrieval.features import BOOSTS
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.rank_fusion import Ranked
from memory_retrievers.retrieval.ranking import RankingByScore, normalise_across_kinds, score
from memory_retrievers.retrieval.trace import ANSWER_SHARE, QUESTION_DISCOUNT, ScoreTrace, with_answers

LISTS = {"dense": 0.25, "window_dense": 0.25, "bm25": 0.25, "window_bm25": 0.25}
SETTINGS = RetrievalSettings()
BASIL = Question.parse("basil")
QUESTION = Question.parse("When did Ann plant basil in May 2023?")


def trace_of(scored):
    """The trace of a ranking whose scores are the sums themselves."""
    return ScoreTrace(RankingByScore(scored, kind_weight=float(scored.scores.max())))


def test_facts_are_nearness_and_words_scaled_and_added(make_candidates):
    candidates = make_candidates([[(WHOLE, "basil", 0.2)], [(WHOLE, "boat", 0.8)], [(WHOLE, "sea", 0.5)]], ("basil",))
    scored = score(candidates, QUESTION, RetrievalSettings(), boosts={})
    # the lowest cosine is moved down by a third of 0.6, to 0; half of each list, and nothing on top
    assert scored.stages["dense"].tolist() == pytest.approx([0.125, 0.5, 0.3125])
    assert scored.stages["bm25"].tolist() == [0.5, 0, 0]
    assert scored.scores.tolist() == pytest.approx([0.625, 0.5, 0.3125])
    assert list(scored.stages) == ["dense", "bm25"]  # without messages there are no windows
    assert scored.rows.tolist() == [10, 11, 12]


def test_a_passage_gets_the_sum_of_its_stages(story):
    scored = score(story, QUESTION, RetrievalSettings(), boosts=BOOSTS)
    assert list(scored.stages) == [*LISTS, *BOOSTS]
    assert scored.passages.tolist() == pytest.approx(sum(scored.stages.values()).tolist())


def test_the_best_memory_has_the_share_of_its_kind_and_stages_add_up_to_scores(story):
    ranking = RankingByScore(score(story, QUESTION, RetrievalSettings(), boosts=BOOSTS), kind_weight=0.4)
    assert max(ranking.scores.values()) == 0.4
    for row in ranking.rows:
        explanation = ScoreTrace(ranking).explanation(Ranked(row, 0.1))
        assert sum(explanation.stages.values()) == pytest.approx(ranking.scores[row])


def test_kinds_are_weighed_by_their_nearest_passage_and_the_words_of_their_best(make_candidates):
    def scored(text, cosine):
        return RankingByScore(score(make_candidates([[(WHOLE, text, cosine)]], ("basil",)), BASIL, SETTINGS, boosts={}))

    rankings = {Kind.SEMANTIC: scored("sea", 0.2), Kind.EPISODIC: scored("basil", 0.8)}
    weighed = normalise_across_kinds(rankings, dense_weight=0.5)
    assert (weighed[Kind.SEMANTIC].kind_weight, weighed[Kind.EPISODIC].kind_weight) == (0.125, 1.0)
    without_words = normalise_across_kinds({Kind.SEMANTIC: scored("sea", 0.2)}, dense_weight=0.5)
    assert without_words[Kind.SEMANTIC].kind_weight == 0.5


def test_a_memory_stands_by_its_best_passage_and_tells_that_one(story):
    scored = score(story, QUESTION, RetrievalSettings(), boosts=BOOSTS)
    best = [int(np.argmax(scored.passages[:4])), 4 + int(np.argmax(scored.passages[4:7])), 7]
    assert scored.scores.tolist() == scored.passages[best].tolist()
    for row, passage in zip(scored.rows.tolist(), best, strict=True):
        stages = trace_of(scored).explanation(Ranked(row, 0.1)).stages
        assert stages == {name: values[passage] for name, values in scored.stages.items()}


def test_matches_are_the_messages_best_first(story):
    scored = score(story, QUESTION, RetrievalSettings(), boosts=BOOSTS)
    trace, rows = trace_of(scored), scored.rows.tolist()
    matches = trace.matches(rows[0], ())
    assert {match.messages for match in matches} == {(0,), (1,), (2,)}
    assert [match.score for match in matches] == sorted(scored.passages[1:4], reverse=True)
    assert matches[0].messages == (2,)
    assert trace.matches(rows[2], ()) == ()


def test_of_a_list_each_message_counts_without_the_words_of_its_episode(make_candidates):
    candidates = make_candidates(
        [
            [(0, "basil thyme", 0.8), (2, "basil thyme", 0.7), (4, "basil", 0.6), (6, "basil tea", 0.3)],
            [(0, "basil sea", 0.7), (2, "boat", 0.3)],
            [(0, "boat", 0.0)],
        ],
        ("basil",),
    )
    best_first, rankings = {}, []
    for text in ("Which herbs has Ann planted?", "Which herb has Ann planted?"):
        rankings.append(RankingByScore(score(candidates, Question.parse(text), RetrievalSettings(), boosts=BOOSTS)))
        of_messages = rankings[-1].message_scores
        assert (of_messages.max(), of_messages.min() >= 0) == (1.0, True)
        best_first[text] = np.argsort(-of_messages, kind="stable").tolist()
    # the fourth message of the best episode, and the one of another that fits a little better
    assert list(best_first.values()) == [[0, 1, 2, 4, 3, 5, 6], [0, 1, 2, 3, 4, 5, 6]]
    assert rankings[0].scores == rankings[1].scores  # which episodes come first is another matter


def test_equal_messages_match_in_the_order_they_were_said(make_candidates):
    candidates = make_candidates(
        [[(0, "sea", 0.3)], [(0, "basil", 0.1), (2, "basil", 0.1), (4, "basil", 0.1)]], ("basil",)
    )
    scored = score(candidates, QUESTION, RetrievalSettings(), boosts=BOOSTS)
    assert [match.messages for match in trace_of(scored).matches(int(scored.rows[1]), ())] == [(0,), (2,), (4,)]


def said(*lines):
    """Messages of "Ann: Hello" and the like."""
    return [Message(role=line.partition(": ")[0], content=line.partition(": ")[2]) for line in lines]


@pytest.mark.parametrize(
    "question", ["Do you like sailing?", "帆は好き？", "Sailing? You know", "Well. Sailing? [photo: sea]"]
)
def test_an_answer_is_raised_towards_the_question_before_it_which_loses(question):
    raised = with_answers({0: 1.0, 1: 0.5, 2: 0.1}, said(f"Ann: {question}", "Bo: Yes, a lot.", "Ann: Me too."))
    assert raised == pytest.approx({0: 1 - QUESTION_DISCOUNT, 1: 0.5 + 0.5 * ANSWER_SHARE, 2: 0.1})


@pytest.mark.parametrize(
    "lines",
    [
        ("Ann: I like sailing.", "Bo: Yes, a lot."),
        ("Ann: Sailing? Not for me.", "Bo: Yes, a lot."),
        ("Ann: Sailing?", "Ann: Hello?"),
        ("Ann: Sailing?",),
        (),
    ],
    ids=["no question", "answers itself", "the same speaker", "nobody answers", "erased"],
)
def test_what_is_no_question_that_somebody_answers_stands_by_its_own_score(lines):
    assert with_answers({0: 1.0, 1: 0.5}, said(*lines)) == {0: 1.0, 1: 0.5}


def test_a_better_answer_keeps_its_score_and_one_that_asks_back_hands_on():
    lines = said("Ann: Sailing?", "Bo: Yes. And you?", "Ann: Seldom.", "Bo: Why?", "Ann: No boat.")
    given = with_answers({0: 0.2, 1: 1.0, 2: 0.5, 3: 0.1, 4: 0.9}, lines)
    raised = 0.5 + 0.5 * ANSWER_SHARE
    discounted = {0: 0.2 * (1 - QUESTION_DISCOUNT), 1: 1 - QUESTION_DISCOUNT, 3: 0.1 * (1 - QUESTION_DISCOUNT)}
    assert given == pytest.approx({**discounted, 2: raised, 4: 0.9})


@pytest.mark.parametrize("boost", BOOSTS)
def test_a_stage_without_weight_is_not_told_and_counts_for_nothing(story, boost):
    settings = RetrievalSettings(**{f"{boost}_weight": 0})
    scored = score(story, QUESTION, settings, boosts=BOOSTS)
    others = {name: add for name, add in BOOSTS.items() if name != boost}
    assert boost not in scored.stages
    assert scored.passages.tolist() == score(story, QUESTION, RetrievalSettings(), boosts=others).passages.tolist()


@pytest.mark.parametrize(
    ("dense", "window", "names"),
    [
        (1, 0, ["dense"]), (1, 1, ["window_dense"]), (0, 0, ["bm25"]), (0, 1, ["window_bm25"]),
        (0.5, 0, ["dense", "bm25"]), (1, 0.5, ["dense", "window_dense"]),
    ],
)  # fmt: skip
def test_lists_without_weight_are_left_out(story, dense, window, names):
    settings = RetrievalSettings(dense_weight=dense, window_weight=window)
    scored = score(story, QUESTION, settings, boosts={})
    assert list(scored.stages) == names
    assert max(scored.passages) <= 1


def test_episodes_of_the_same_words_and_vectors_have_the_same_score(make_candidates):
    twin = [(WHOLE, "garden", 0.1), (0, "basil", 0.3), (1, "sea", 0.7), (2, "basil sea", 0.4)]
    candidates = make_candidates([twin] * 5, ("basil", "sea"))
    scores = score(candidates, QUESTION, RetrievalSettings(), boosts=BOOSTS).scores
    assert scores.tolist() == pytest.approx([scores[0]] * 5, abs=1e-12)


class TestTheRankingByScore:
    def ranking(self, candidates, **settings):
        return RankingByScore(score(candidates, QUESTION, RetrievalSettings(**settings), boosts={}))

    def test_names_the_best_first_and_equal_ones_by_their_rows(self, make_candidates):
        candidates = make_candidates([[(WHOLE, "sea", cosine)] for cosine in (0.5, 0.9, 0.5, 0.9)])
        assert self.ranking(candidates).rows == [11, 13, 10, 12]

    def test_leaves_out_what_nothing_speaks_for(self, make_candidates):
        candidates = make_candidates([[(WHOLE, "sea", 0.9)], [(WHOLE, "basil", 0.1)]], ("basil",))
        assert self.ranking(candidates, dense_weight=0).rows == [11]
        assert self.ranking(candidates).rows == [11, 10]

    def test_tells_ranks_by_nearness_and_by_words(self, make_candidates):
        candidates = make_candidates(
            [[(WHOLE, "basil", 0.9)], [(WHOLE, "basil basil", 0.1)], [(WHOLE, "sea", 0.5)]], ("basil",)
        )
        told = {row: ScoreTrace(self.ranking(candidates)).explanation(Ranked(row, 0.5)) for row in (10, 11, 12)}
        assert [told[row].dense_rank for row in (10, 11, 12)] == [1, 3, 2]
        assert [told[row].bm25_rank for row in (10, 11, 12)] == [2, 1, None]
        assert told[10].fused_score == self.ranking(candidates).scores[10]

    def test_tells_the_place_of_a_memory_by_every_stage(self, make_candidates):
        candidates = make_candidates(
            [[(WHOLE, "basil", 0.9)], [(WHOLE, "basil basil", 0.1)], [(WHOLE, "sea", 0.5)]], ("basil",)
        )
        stages = {stage.name: stage for stage in ScoreTrace(self.ranking(candidates)).stages(12)}
        assert (stages["dense"].rank, stages["bm25"].rank, stages["bm25"].score) == (2, None, 0)


cosines = st.integers(-1_000_000, 1_000_000).map(lambda millionths: millionths / 1_000_000)
texts = st.sampled_from(["basil", "boat basil", "sea", "boat boat sea", "basil sea sand shell"])
memories = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(texts, cosines, st.sampled_from(["Ann", "Bob"])), min_size=1, max_size=5)),
    min_size=1, max_size=6,
)  # fmt: skip
shares = st.sampled_from([0.0, 0.3, 0.5, 1.0])
weights = st.fixed_dictionaries(
    {"dense_weight": shares, "window_weight": shares} | {f"{name}_weight": st.floats(0, 10) for name in BOOSTS}
)


@settings_of_hypothesis(max_examples=150, deadline=None)
@given(memories=memories, weights=weights, question=st.sampled_from([QUESTION, Question.parse("boat?")]))
def test_scores_are_at_most_one_and_every_stage_at_most_its_weight(make_candidates, memories, weights, question):
    candidates = make_candidates(
        [[(place - whole, *passage) for place, passage in enumerate(each)] for whole, each in memories],
        ("basil", "boat"),
        began=[f"2023-0{1 + number}-15T12:00" for number in range(len(memories))],
        tells_time=[number % 2 == 0 for number in range(sum(len(each) for _, each in memories))],
    )
    settings = RetrievalSettings(**weights)
    scored = score(candidates, question, settings, boosts=BOOSTS)
    assert (scored.passages >= 0).all()
    for name in BOOSTS:
        given = scored.stages.get(name, np.zeros(1))
        assert ((given >= 0) & (given <= getattr(settings, f"{name}_weight") * (1 + 1e-12))).all(), name
    assert ((sum(scored.stages[name] for name in LISTS if name in scored.stages)) <= 1 + 1e-12).all()
    ranking = RankingByScore(scored)
    assert all(0 < ranking.scores[row] <= 1 for row in ranking.rows)
    if settings.dense_weight and settings.window_weight < 1:
        assert len(ranking.rows) == len(memories)  # nearness alone gives everything something
    assert ranking.rows == RankingByScore(score(candidates, question, settings, boosts=BOOSTS)).rows


@settings_of_hypothesis(max_examples=60, deadline=None)
@given(memories=memories)
def test_the_order_of_equal_scores_is_that_of_their_rows(make_candidates, memories):
    candidates = make_candidates(
        [[(place - whole, *passage) for place, passage in enumerate(each)] for whole, each in memories], ("basil",)
    )
    scored = score(candidates, QUESTION, RetrievalSettings(), boosts=BOOSTS)
    level = replace(scored, passages=np.round(scored.passages, 1))
    rows = RankingByScore(level).rows
    expected = sorted(
        (row for row, value in zip(level.rows.tolist(), level.scores, strict=True) if value > 0),
        key=lambda row: (-level.scores[row - 10], row),
    )
    assert rows == expected
