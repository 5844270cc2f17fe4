from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory_retrievers.evaluation import samples
from memory_retrievers.models import KEY_MOMENT_SURPRISE, Category, EpisodicDraft, SemanticDraft

NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def history():
    return samples.load_history(scope="user/ines", now=NOW)


@pytest.fixture(scope="module")
def episodes(history):
    return [draft for draft in history if isinstance(draft, EpisodicDraft)]


@pytest.fixture(scope="module")
def facts(history):
    return [draft for draft in history if isinstance(draft, SemanticDraft)]


def test_it_is_large_enough_to_search_and_small_enough_to_load_at_once(episodes, facts):
    assert 30 <= len(episodes) <= 40
    assert 25 <= len(facts) <= 35


def test_episodes_come_first_and_oldest_first(history, episodes):
    assert history[: len(episodes)] == episodes
    assert episodes == sorted(episodes, key=lambda episode: episode.end_at)


def test_it_spans_about_five_weeks_and_ends_today(episodes):
    assert timedelta(days=33) < NOW - episodes[0].start_at < timedelta(days=37)
    assert timedelta(0) < NOW - episodes[-1].end_at < timedelta(days=1)


def test_it_always_ends_at_the_moment_given(history):
    later = samples.load_history(scope="user/ines", now=NOW + timedelta(days=100))

    assert [draft.created_at - timedelta(days=100) for draft in later] == [draft.created_at for draft in history]


def test_a_moment_in_another_time_zone_is_the_same_moment(history):
    elsewhere = NOW.astimezone(timezone(timedelta(hours=9)))

    assert samples.load_history(scope="user/ines", now=elsewhere) == history


def test_ids_are_unique_and_the_same_every_time(history):
    ids = [draft.id for draft in history]

    assert len(set(ids)) == len(ids)
    assert ids == [draft.id for draft in samples.load_history(scope="another", now=datetime.now(UTC))]
    assert all(name.startswith("sample-") for name in ids)


def test_every_memory_belongs_to_the_scope_given():
    assert {draft.scope for draft in samples.load_history(scope="team/7", now=NOW)} == {"team/7"}


def test_summaries_have_at_most_fifty_words_and_titles_one_line(episodes):
    assert max(len(episode.summary.split()) for episode in episodes) <= 50
    assert all(episode.title and episode.title.isprintable() for episode in episodes)


def test_episodes_have_two_to_six_messages_in_order_within_the_episode(episodes):
    for episode in episodes:
        times = [message.timestamp for message in episode.messages]
        assert 2 <= len(times) <= 6
        assert times == sorted(times)
        assert (times[0], times[-1]) == (episode.start_at, episode.end_at)
        assert {message.role for message in episode.messages} == {"user", "assistant"}


def test_a_few_episodes_are_key_moments(episodes):
    assert 3 <= sum(episode.surprise >= KEY_MOMENT_SURPRISE for episode in episodes) <= 8


def test_some_episodes_were_reviewed_and_fade_slower_since(episodes):
    reviewed = [episode for episode in episodes if episode.last_reviewed_at is not None]

    assert len(reviewed) >= 5
    for episode in reviewed:
        assert episode.created_at + timedelta(days=1) <= episode.last_reviewed_at < NOW
        assert episode.stability > 10
        assert episode.difficulty is not None


def test_facts_cover_every_category_and_have_keywords(facts):
    assert {fact.category for fact in facts} == set(Category)
    assert all(fact.keywords for fact in facts)


def test_facts_are_learned_from_episodes_of_the_history_and_not_before_them(episodes, facts):
    ended = {episode.id: episode.end_at for episode in episodes}

    for fact in facts:
        assert fact.source_episodic_ids
        assert set(fact.source_episodic_ids) <= ended.keys()
        assert fact.valid_at == ended[fact.source_episodic_ids[0]]


def test_replaced_facts_end_when_another_fact_of_the_history_begins(facts):
    replaced = [fact for fact in facts if fact.invalid_at is not None]

    assert {fact.id for fact in replaced} == {"sample-lives-in-lyon", "sample-friday-releases"}
    for fact in replaced:
        assert fact.valid_at < fact.invalid_at < NOW
        assert fact.invalid_at in {other.valid_at for other in facts if other is not fact}


def test_it_is_not_only_ascii(episodes, facts):
    assert any("Émile" in fact.fact for fact in facts)
    assert all(not episode.summary.isascii() for episode in episodes[:1])


def test_there_are_three_different_questions():
    assert len(samples.QUESTIONS) == 3
    assert all(question.endswith("?") and shown for question, shown in samples.QUESTIONS.items())
