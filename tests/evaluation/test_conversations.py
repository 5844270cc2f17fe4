from datetime import timedelta

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder


def test_a_session_becomes_an_episode_with_its_own_times(conversation):
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        first, second = memory.remember_many(conversation.drafts())
    for session, episode in zip(conversation.sessions, (first, second), strict=True):
        assert (episode.scope, episode.id) == ("talk/one", session.id)
        assert [message.content for message in episode.messages] == [turn.text for turn in session.turns]
        assert [message.role for message in episode.messages] == [turn.speaker for turn in session.turns]
        assert episode.start_at == session.at
        assert episode.end_at == episode.created_at == episode.last_reviewed_at == session.at + timedelta(seconds=1)


def test_titles_and_summaries_are_made_of_what_was_said(conversation):
    first, second = conversation.drafts()
    assert "bees" in first.summary
    assert "Albatross" in second.summary
    assert first.title
    assert second.title


def test_questions_are_asked_a_day_after_the_last_session(conversation):
    assert conversation.asked_at == conversation.sessions[1].at + timedelta(days=1)


def test_every_turn_is_known_with_its_session(conversation):
    assert conversation.session_of == {"T1": "session-1", "T2": "session-1", "T3": "session-2", "T4": "session-2"}
    assert conversation.turns["T3"].text == "My boat is called Albatross."
