from dataclasses import replace
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.evaluation.conversations import FilledStores, Session, Turn, Use
from memory_retrievers.evaluation.measure import evidence, measure, ranked_turns, turns_within
from memory_retrievers.models.results import Explanation, Match, RetrievedMemory
from memory_retrievers.retrieval.results import RetrievalResult

EXPLANATION = Explanation(dense_rank=1, bm25_rank=1, fused_score=0.03, retrievability=1.0, score=0.9)


@pytest.fixture
def episodes(conversation, embedder):
    with AgentMemory.in_memory(embedder=embedder) as memory:
        return memory.remember_many(conversation.drafts())


@pytest.fixture
def result_of(conversation, episodes):
    """A result with these (episode, message, score) as matches."""

    def result_of(*matches):
        hits = tuple(
            RetrievedMemory(
                memory=episode,
                rank=place + 1,
                score=0.9,
                relevance=0.9,
                explanation=EXPLANATION,
                matches=tuple(
                    Match(part="turn", messages=(message,), score=score)
                    for of, message, score in sorted(matches, key=lambda match: -match[2])
                    if of == place
                ),
            )
            for place, episode in enumerate(episodes)
        )
        return RetrievalResult(query="bees", scope=conversation.scope, now=conversation.asked_at, episodic=hits)

    return result_of


def test_turns_of_all_episodes_stand_in_one_ranking(conversation, result_of):
    result = result_of((0, 0, 0.7), (0, 1, 0.2), (1, 0, 0.9), (1, 1, 0.3))
    assert ranked_turns(conversation, result) == ["T3", "T1", "T4", "T2"]


def test_a_turn_that_matched_twice_keeps_its_better_place(conversation, result_of):
    result = result_of((0, 0, 0.7), (1, 0, 0.9), (0, 0, 0.95))
    assert ranked_turns(conversation, result) == ["T1", "T3"]


def test_without_matches_no_turns_are_ranked(conversation, result_of):
    assert ranked_turns(conversation, result_of()) is None


def test_evidence_counts_from_the_budget_on_that_holds_its_whole_text(conversation, words):
    told = "one two three\n- Ruth: I bought two hives of bees for the garden.\n- Sami: My boat is called Albatross. end"
    found = turns_within(conversation, {"T1", "T3"}, told, budgets=(13, 14, 20, 21), tokens=words)
    assert found == {13: frozenset(), 14: {"T1"}, 20: {"T1"}, 21: {"T1", "T3"}}


def test_a_text_is_found_as_a_json_literal_too(conversation, words):
    assert turns_within(
        conversation, {"T3"}, '- sami: "My boat is called Albatross."', budgets=(99,), tokens=words
    ) == {99: {"T3"}}


def test_half_a_text_is_no_evidence(conversation, words):
    assert turns_within(conversation, {"T3"}, "My boat is called Alba", budgets=(99,), tokens=words) == {
        99: frozenset()
    }


def test_summaries_alone_are_read_with_all_messages_and_cut(conversation, result_of, words):
    (question, *_) = conversation.questions
    found = evidence(conversation, question, result_of(), tokens=words)
    assert found[500] == {"T1"}


@pytest.fixture
def scores_of(embedder, words, ignored):
    """The scores of the default, or of other settings, on conversations."""

    def scores_of(*conversations, settings=None, progress=ignored, uses=(), live=False):
        with FilledStores(conversations, embedder=embedder, uses=uses, live=live) as stores:
            return measure(stores, settings or RetrievalSettings(), tokens=words, progress=progress)

    return scores_of


@pytest.mark.parametrize("profile", [RetrievalSettings(), RetrievalSettings.reference()], ids=["default", "reference"])
def test_every_question_is_scored(conversation, scores_of, profile):
    told = []
    scores = scores_of(conversation, settings=profile, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert [score.category for score in scores] == ["single", "single", "multi"]
    for score in scores:
        assert score.values["any@5"] == score.values["all@5"] == 1
        assert score.values["T500"] == 1
        assert score.seconds > 0
    assert [score.values["any@1"] for score in scores[1:]] == [1, 1]


def test_every_question_is_scored_before_any_flush(conversation, scores_of):
    scores = scores_of(conversation, live=True)
    assert [score.values["all@5"] for score in scores] == [1, 1, 1]
    assert [score.values["R@10"] for score in scores] == [1, 1, 1]
    assert [score.values["any@1"] for score in scores[1:]] == [1, 1]


def test_settings_that_do_not_search_the_queue_find_nothing_before_a_flush(conversation, scores_of):
    scores = scores_of(conversation, live=True, settings=RetrievalSettings.reference())
    assert [score.values["any@5"] for score in scores] == [0, 0, 0]


def test_a_conversation_sees_nothing_of_another(conversation, scores_of):
    other = replace(conversation, scope="talk/two", sessions=conversation.sessions[1:], questions=())
    assert [score.values for score in scores_of(other, conversation)] == [
        score.values for score in scores_of(conversation)
    ]


def test_what_proved_useful_is_remembered_better(conversation, scores_of):
    settings = RetrievalSettings.reference()
    last = Session(
        id="session-3",
        at=conversation.sessions[1].at + timedelta(days=300),
        turns=(Turn(id="T5", speaker="Ruth", text="I sold the two hives."),),
    )
    asked = replace(conversation, sessions=(*conversation.sessions, last), questions=conversation.questions[:1])
    use = Use(scope=asked.scope, session="session-1", at=asked.asked_at - timedelta(days=2))
    (plain,) = scores_of(asked, settings=settings)
    (used,) = scores_of(asked, settings=settings, uses=[use])
    assert plain.values["any@1"] == 0
    assert used.values["any@1"] == 1
