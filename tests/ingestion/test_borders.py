"""Evidence for borders: time, phrases, cohesion."""

import calendar
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cases import tried_in_one

from memory_retrievers import Message
from memory_retrievers.ingestion.segmenters import cohesion_falls, find_boundaries

START = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
MONTHS = list(calendar.month_name)[1:]


def spoken(*contents, gaps=None):
    """Messages, so many minutes apart; None has no time."""
    messages, at = [], START
    for content, gap in zip(contents, [0, *(gaps or [1] * (len(contents) - 1))], strict=True):
        at += timedelta(minutes=gap or 0)
        messages.append(Message(role="user", content=content, timestamp=None if gap is None else at))
    return messages


def same(messages):
    """Vectors of messages that all mean the same: cohesion never falls."""
    return np.ones((len(messages), 4), dtype=np.float32)


def borders(messages):
    return find_boundaries(messages, same(messages))


class TestPauses:
    def test_a_long_pause_is_a_border_wherever_it_is(self):
        assert borders(spoken(*MONTHS[:7], gaps=[300, 1, 1, 1, 1, 300])) == [1, 6]

    def test_a_shorter_one_is_none_by_itself(self):
        assert borders(spoken(*MONTHS[:6], gaps=[1, 1, 60, 1, 1])) == []

    def test_a_shorter_one_and_a_phrase_make_one(self):
        contents = [*MONTHS[:3], "By the way, it is late", *MONTHS[3:5]]
        assert borders(spoken(*contents, gaps=[1, 1, 60, 1, 1])) == [3]

    def test_who_writes_once_a_day_makes_no_pauses(self):
        assert borders(spoken(*MONTHS, gaps=[1440] * 11)) == []

    def test_pairs_of_question_and_answer_each_on_a_day_are_parted(self):
        assert borders(spoken(*MONTHS[:6], gaps=[1, 1440, 1, 1440, 1])) == [2, 4]

    @pytest.mark.parametrize("gaps", [[None] * 5, [0] * 5, [-300, 1, -300, 1, 1]])
    def test_missing_equal_and_disordered_times_tell_nothing(self, gaps):
        assert borders(spoken(*MONTHS[:6], gaps=gaps)) == []


class TestPhrases:
    @tried_in_one(
        "phrase",
        [
            "On another note, the bank called",
            "Okay, changing the subject: the bank called",
            "Moving on: the bank",
            "换个话题吧，银行打电话来了",
            "話は変わりますが、銀行から電話がありました",
            "Themenwechsel: die Bank",
        ],
    )
    def test_an_announced_change_is_a_border(self, phrase):
        assert borders(spoken(*MONTHS[:4], phrase, *MONTHS[4:7])) == [4]

    @pytest.mark.parametrize("phrase", ["Hey, how have you been", "Hello, long time no see", "好久不见！最近怎么样"])
    def test_meeting_again_is_a_border(self, phrase):
        assert borders(spoken(*MONTHS[:4], phrase, "Hi, how have you been", *MONTHS[4:7])) == [4]

    def test_a_greeting_after_a_goodbye_is_a_border_and_the_exchange_of_either_is_none(self):
        contents = [*MONTHS[:4], "Bye", "See you", "Hello", "Hello", *MONTHS[4:7]]
        assert borders(spoken(*contents)) == [6]

    @pytest.mark.parametrize(
        "phrase",
        ["By the way, it rains", "Hey, that is great", "ところで雨です", "We talked about changing the subject"],
    )
    def test_what_may_be_said_in_the_middle_is_none_by_itself(self, phrase):
        assert borders(spoken(*MONTHS[:4], phrase, *MONTHS[4:7])) == []

    def test_an_open_question_is_answered_first(self):
        contents = [*MONTHS[:3], "See you at nine?", "Hi, yes", *MONTHS[3:6]]
        assert borders(spoken(*contents)) == []

    def test_two_borders_are_not_nearer_than_an_episode_is_long(self):
        contents = [*MONTHS[:3], "On another note, rain", "On another note, snow", *MONTHS[3:6]]
        assert borders(spoken(*contents)) == [3]


class TestCohesion:
    def test_falls_between_blocks_and_nowhere_else(self):
        vectors = np.repeat(np.eye(2, dtype=np.float32), 6, axis=0)
        falls = cohesion_falls(spoken(*MONTHS), vectors)
        assert falls[5] == max(falls) > 1.0
        assert max(falls[:3] + falls[8:]) == 0.0
        assert find_boundaries(spoken(*MONTHS), vectors) == [6]

    def test_does_not_depend_on_what_all_vectors_share(self):
        random = np.random.default_rng(7).normal(size=(12, 8)).astype(np.float32)
        falls = cohesion_falls(spoken(*MONTHS), random)
        assert cohesion_falls(spoken(*MONTHS), random + 5) == pytest.approx(falls, abs=1e-4)

    def test_words_alone_count_too(self):
        contents = ["red apple pie"] * 6 + ["fast blue car"] * 6
        messages = spoken(*contents)
        assert find_boundaries(messages, same(messages)) == [6]

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_few_messages_have_no_border(self, number):
        messages = spoken(*MONTHS[:number])
        assert find_boundaries(messages, np.eye(number, 4, dtype=np.float32)) == []
