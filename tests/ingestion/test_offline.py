"""The offline segmenter, with the bundled model where meaning counts."""

import os
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import segmentation
from hypothesis import given, settings
from hypothesis import strategies as st
from topics import GARDEN, GUITAR, KAFKA, START, TOPICS, TRIP, borders_of, talk

from memory_retrievers import EpisodicMemory, Message
from memory_retrievers.ingestion.segmenters import OfflineSegmenter
from memory_retrievers.protocols import SegmentationContext
from memory_retrievers.testing import HashEmbedder


@pytest.fixture(scope="module")
def embed():
    return segmentation.RememberedVectors()


def hashed(texts):
    return np.array(HashEmbedder().embed_documents(texts), dtype=np.float32)


def background(embed=hashed, *, recent=(), previous_summary=None):
    return SegmentationContext(previous_summary=previous_summary, recent=recent, embed=embed)


def episode(summary):
    return EpisodicMemory(
        scope="c1",
        id=summary,
        messages=[Message(role="user", content=summary, timestamp=START)],
        summary=summary,
        created_at=START,
        updated_at=START,
        start_at=START,
        end_at=START,
        last_reviewed_at=START,
        stability=2.5,
        difficulty=2.1,
    )


class TestBorders:
    @pytest.mark.parametrize("topic", TOPICS)
    def test_a_talk_about_one_thing_is_one_segment(self, topic, embed):
        assert borders_of(OfflineSegmenter().segment(talk(topic), background(embed))) == []

    @pytest.mark.parametrize("topics", list(permutations(TOPICS, 3)))
    def test_topics_that_change_without_a_word_are_parted(self, topics, embed):
        assert borders_of(OfflineSegmenter().segment(talk(*topics, timed=False), background(embed))) == [6, 12]

    def test_a_pause_parts_what_is_about_the_same(self, embed):
        messages = talk(GARDEN[:3], GARDEN[3:], pause=timedelta(days=1))
        assert borders_of(OfflineSegmenter().segment(messages, background(embed))) == [3]

    def test_a_language_without_spaces_is_parted_by_its_own_phrases(self):
        contents = [
            "我想学吉他。",
            "先学三个和弦。",
            "和弦很难。",
            "每天练五分钟。",
            "换个话题，周末去哪儿？",
            "去爬山吧。",
            "好。",
        ]
        assert borders_of(OfflineSegmenter().segment(talk(contents, timed=False), background())) == [4]

    def test_a_single_message_is_a_segment(self):
        assert [segment.messages for segment in OfflineSegmenter().segment(talk(["Hello"]), background())] == [1]

    def test_no_messages_are_no_segments(self):
        assert OfflineSegmenter().segment([], background()) == []


class TestSegments:
    contents = st.lists(
        st.sampled_from(["By the way", "Hello!", "bye", "换个话题", "4711", "I quit!!", " ", "\n", "Kafka", "the"])
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        min_size=1,
        max_size=6,
    )
    times = st.none() | st.datetimes(timezones=st.just(START.tzinfo))
    messages = st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "Ada"]),
        content=contents.map(" ".join).filter(str.strip),
        timestamp=times,
    )

    @settings(deadline=None)
    @given(st.lists(messages, min_size=1, max_size=25), st.none() | st.just("They met."))
    def test_take_all_messages_and_are_complete_and_always_the_same(self, messages, previous_summary):
        given_ = background(previous_summary=previous_summary)
        segments = OfflineSegmenter().segment(messages, given_)
        assert sum(segment.messages for segment in segments) == len(messages)
        for segment in segments:
            assert segment.messages >= 1
            assert segment.summary.strip()
            assert 0 <= segment.surprise <= 1
        assert OfflineSegmenter().segment(messages, given_) == segments

    def test_embed_once_however_many_there_are(self, embed):
        calls = []

        def counted(texts):
            calls.append(len(texts))
            return embed(texts)

        recent = [episode("The user likes tea."), episode("The user moved to Lyon.")]
        told = background(counted, recent=recent, previous_summary="The user likes tea.")
        OfflineSegmenter().segment(talk(*TOPICS), told)
        assert calls == [len(TOPICS) * 6 + 2]

    def test_are_titled_and_summarized_by_what_each_is_about(self, embed):
        kafka, garden, trip, _ = OfflineSegmenter().segment(talk(KAFKA, GARDEN, TRIP, GUITAR), background(embed))
        for segment, topic in ((kafka, KAFKA), (garden, GARDEN), (trip, TRIP)):
            assert segment.title
            assert segment.title.casefold() in " ".join(topic).casefold()
        assert kafka.summary.startswith("Assistant: Yes, within a partition Kafka keeps the order")
        assert "Venice" in trip.summary
        assert "Venice" not in garden.summary


class TestSurprise:
    recent = tuple(map(episode, [KAFKA[0], KAFKA[2], KAFKA[3], KAFKA[5], "The warehouse import runs with Kafka now."]))

    def test_the_first_episode_of_a_scope_is_ordinary(self, embed):
        (first,) = OfflineSegmenter().segment(talk(["I quit my job!!", *KAFKA[:4]]), background(embed))
        assert first.surprise == 0.2

    def test_more_of_the_same_is_ordinary(self, embed):
        (segment,) = OfflineSegmenter().segment(talk(KAFKA), background(embed, recent=self.recent))
        assert segment.surprise < 0.35

    def test_something_else_is_notable(self, embed):
        (segment,) = OfflineSegmenter().segment(talk(GARDEN), background(embed, recent=self.recent))
        assert 0.5 <= segment.surprise < 0.7

    def test_something_else_that_changes_a_life_is_a_key_moment(self, embed):
        contents = [
            "My father died on Sunday.",
            "I am so sorry to hear that your father died.",
            "The funeral is on Friday.",
        ]
        (segment,) = OfflineSegmenter().segment(talk(contents), background(embed, recent=self.recent))
        assert segment.surprise >= 0.7


class TestMeasure:
    def test_a_true_border_counts_once(self):
        assert segmentation.matches([9, 10, 11, 30], [10, 20], 1) == 1
        assert segmentation.matches([9, 21], [10, 20], 1) == 2
        assert segmentation.matches([9, 21], [10, 20], 0) == 0

    def test_on_real_conversations_it_beats_a_border_after_every_twenty(self, embed):
        if "LOCOMO_PATH" not in os.environ:
            pytest.skip("LOCOMO_PATH names no conversations")
        conversations = segmentation.load(Path(os.environ["LOCOMO_PATH"]), timed=False)
        every, offline = (
            segmentation.scores(
                [segmentation.cut_as_queue(each, segmenter, embed) for each in conversations], conversations, 1
            )
            for segmenter in (segmentation.Every(segmentation.WINDOW), OfflineSegmenter())
        )
        assert offline[2] > 0.75
        assert every[2] < 0.25

    def test_on_own_conversations_the_queue_finds_every_border(self, embed):
        topics = [topic for order in permutations(TOPICS, 3) for topic in order]
        messages = talk(*topics, timed=False)
        true = [at for at in range(6, len(messages), 6) if topics[at // 6] is not topics[at // 6 - 1]]
        conversation = segmentation.Conversation(messages, true)
        cut = segmentation.cut_as_queue(conversation, OfflineSegmenter(), embed)
        _, recall, f1 = segmentation.scores([cut], [conversation], 1)
        assert recall >= 0.9
        assert f1 >= 0.9
        assert segmentation.pk([cut], [conversation]) <= 0.1
