from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import RetrievalSettings
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation.conversations import Conversation, FilledStores, Question, Session, Turn
from memory_retrievers.evaluation.silence import Asked, ask, auc, calibration_error, exchanged, measured, speakers

BEGUN = datetime(2026, 3, 1, 9, tzinfo=UTC)


def conversation(scope, names, said, question):
    """A conversation of one session for each pair of sentences, whose first one the question is about."""
    sessions = tuple(
        Session(
            id=f"{scope}-{place}",
            at=BEGUN + timedelta(days=place),
            turns=tuple(
                Turn(id=f"{scope}-{place}-{turn}", speaker=name, text=text)
                for turn, (name, text) in enumerate(zip(names, pair, strict=True))
            ),
        )
        for place, pair in enumerate(said)
    )
    asked = Question(text=question, category="all", gold=frozenset({f"{scope}-0-0"}))
    return Conversation(scope=scope, sessions=sessions, questions=(asked,))


@pytest.fixture(scope="module")
def stores():
    first = conversation(
        "a",
        ("Ada", "Bo"),
        [("I adopted a grey parrot named Figaro.", "Lovely!"), ("The bakery closes at six.", "I will hurry.")],
        "What is the name of the parrot that Ada adopted?",
    )
    second = conversation(
        "b",
        ("Cy", "Di"),
        [("My marathon in Boston took four hours.", "Well run!"), ("The lawn needs water.", "Tomorrow.")],
        "How long did the marathon of Cy in Boston take?",
    )
    with FilledStores([first, second], embedder=MiniLMEmbedder()) as filled:
        yield filled


def test_every_question_is_asked_of_its_own_conversation_and_of_another(stores):
    told = []
    answers = ask(stores, RetrievalSettings(), progress=lambda done, whole: told.append((done, whole)))
    assert [answer.is_own for answer in answers] == [True, False, True, False]
    assert told == [(2, 4), (4, 4)]
    assert all(answer.is_gold[0] for answer in answers if answer.is_own)
    assert not any(any(answer.is_gold) for answer in answers if not answer.is_own)
    figures = measured(answers)
    assert (figures.questions, figures.foreign, figures.auc, figures.silenced) == (2, 2, 1.0, 1.0)


def test_names_are_exchanged_all_at_once_and_as_whole_words():
    question = Question(text="Did Ada tell Bo of Adam?", category="all", gold=frozenset({"x"}))
    assert exchanged(question, {"Ada": "Bo", "Bo": "Ada"}) == "Did Bo tell Ada of Adam?"
    assert exchanged(question, {}) == question.text


def test_speakers_come_in_the_order_of_their_first_words(stores):
    assert [speakers(each) for each in stores.conversations] == [["Ada", "Bo"], ["Cy", "Di"]]


def test_a_floor_loses_at_most_its_share_of_the_answers():
    own = [Asked(is_own=True, relevances=(place / 100,), is_gold=(True,)) for place in range(1, 101)]
    foreign = [Asked(is_own=False, relevances=(0.005 * place,), is_gold=(False,)) for place in range(10)]
    figures = measured([*own, *foreign])
    assert figures.floor == 0.03
    assert sum(answer.best < figures.floor for answer in own) == 2
    assert figures.silenced == 0.6


def test_equal_ones_count_half():
    assert auc([0.5], [0.5]) == 0.5
    assert auc([0.9, 0.8], [0.1]) == 1.0


def test_the_calibration_error_is_weighed_by_how_many_there_are():
    assert calibration_error([(0.95, True)] * 3 + [(0.05, True)]) == pytest.approx((3 * 0.05 + 0.95) / 4)
    assert calibration_error([]) == 0
