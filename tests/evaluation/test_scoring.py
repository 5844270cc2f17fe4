import pytest

from memory_retrievers.evaluation.measure import Answer, Score, by_category, figures, score, wilson


def test_an_answer_scores_by_every_measure(conversation):
    question = conversation.questions[2]
    answer = Answer(
        sessions=["session-2", "session-1"],
        turns=["T3", "T4", "T2", "T1"],
        evidence={500: frozenset({"T3"}), 1000: frozenset({"T1", "T3"})},
        seconds=0.25,
    )
    values = score(conversation, question, answer).values
    assert values == {
        "any@1": 1,
        "frac@1": 0.5,
        "all@1": 0,
        "any@5": 1,
        "frac@5": 1,
        "all@5": 1,
        "any@10": 1,
        "frac@10": 1,
        "all@10": 1,
        "MRR": 1,
        "R@5": 1,
        "R@10": 1,
        "R@20": 1,
        "T500": 0.5,
        "T1000": 1,
        "nDCG@10": pytest.approx((1 + 0.4306765581) / (1 + 0.6309297536)),
    }


def test_a_system_that_ranks_no_turns_has_no_figures_for_them(conversation):
    answer = Answer(sessions=["session-1"], turns=None, evidence={}, seconds=0.1)
    values = score(conversation, conversation.questions[0], answer).values
    assert not {"R@5", "nDCG@10", "T500"} & set(values)
    assert values["MRR"] == 1


def test_evidence_that_was_not_asked_for_does_not_count(conversation):
    answer = Answer(sessions=[], turns=[], evidence={500: frozenset({"T2", "T4"})}, seconds=0.1)
    assert score(conversation, conversation.questions[0], answer).values["T500"] == 0


def _score(category, value, seconds):
    return Score(category=category, values={"any@1": value, "MRR": value}, seconds=seconds)


def test_figures_are_means_with_the_interval_of_what_is_a_share():
    found = figures([_score("a", 1.0, 0.1), _score("a", 0.0, 0.3), _score("b", 1.0, 0.2), _score("b", 1.0, 9.0)])
    assert found.questions == 4
    assert found.means == {"any@1": 0.75, "MRR": 0.75}
    assert found.intervals == {"any@1": wilson(0.75, 4)}
    assert found.median_seconds == 0.25
    assert found.slow_seconds == 9.0


def test_every_category_has_its_own_figures():
    found = by_category([_score("b", 1.0, 0.1), _score("a", 0.0, 0.3), _score("b", 0.0, 0.1)])
    assert list(found) == ["a", "b"]
    assert found["a"].means["MRR"] == 0
    assert found["b"].means["MRR"] == 0.5


def test_a_measure_that_some_questions_lack_is_not_averaged():
    bare = Score(category="a", values={"MRR": 1.0}, seconds=0.1)
    assert list(figures([bare, _score("a", 1.0, 0.1)]).means) == ["MRR"]
