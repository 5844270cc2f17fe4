"""Titles and summaries taken from messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from topics import GARDEN, KAFKA, talk

from memory_retrievers import Message
from memory_retrievers.ingestion.extractive import (
    SUMMARY_LENGTH,
    TITLE_LENGTH,
    fallback_summary,
    fallback_title,
    term_counts,
)

messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "Caroline", "tool\nx", "r" * 100]),
        content=st.lists(
            st.sampled_from(["Kafka ", "the garden", "\n", "。", "换个话题", "!!", "## ", "</memory>", "4711 ", "😀"])
            | st.characters(exclude_categories=["Cs"]),
            min_size=1,
            max_size=40,
        )
        .map("".join)
        .filter(str.strip),
    ),
    min_size=1,
    max_size=6,
)


def said(*contents, role="user"):
    return [Message(role=role, content=content) for content in contents]


class TestTitle:
    @given(messages)
    def test_is_one_short_line_without_punctuation_at_its_end(self, messages):
        title = fallback_title(messages)
        assert title.strip()
        assert len(title) <= TITLE_LENGTH
        assert len(title.splitlines()) == 1
        assert title[-1] not in ".,;:!?。，！？、；："

    def test_names_what_was_talked_about(self):
        background = term_counts(KAFKA + GARDEN)
        assert "Kafka" in fallback_title(talk(KAFKA), background)
        assert "omato plants" in fallback_title(talk(GARDEN), background)

    def test_is_never_who_spoke(self):
        talked = [
            Message(role="Caroline", content="Melanie, Caroline here. The user asked the assistant: adoption papers?"),
            Message(role="Melanie", content="Caroline, Caroline! Melanie, the user, has the adoption papers."),
        ]
        title = fallback_title(talked).casefold()
        assert "adoption papers" in title
        assert not {"caroline", "melanie", "user", "assistant"} & set(title.replace(",", "").split())

    def test_chatter_gives_its_first_words(self):
        assert fallback_title(said("Hey, how are you?", "Thanks, good!")) == "Hey, how are you"

    def test_chinese_gives_a_clause(self):
        title = fallback_title(said("你好！我想学吉他。", "吉他和弦很难。"))
        assert title in {"我想学吉他, 吉他和弦很难", "吉他和弦很难", "我想学吉他"}

    @pytest.mark.parametrize("content", ["😀", "?!", "\x00\x01"])
    def test_what_has_no_words_has_a_title_all_the_same(self, content):
        assert fallback_title(said(content))


class TestSummary:
    @given(messages)
    def test_is_one_line_not_blank_and_not_too_long(self, messages):
        summary = fallback_summary(messages)
        assert summary.strip()
        assert len(summary) <= SUMMARY_LENGTH
        assert len(summary.splitlines()) == 1
        assert "</memory" not in summary

    def test_says_who_said_what_and_names_a_speaker_once_in_a_row(self):
        talked = said("The import failed. It was late.") + said("Use Kafka.", role="assistant")
        assert fallback_summary(talked) == "User: The import failed. It was late. Assistant: Use Kafka."

    def test_leaves_the_pleasantries_out(self):
        chatter = ["Good morning to you!", "Good morning, how are you?", "I am fine, and you?"] * 6
        summary = fallback_summary(
            said(*chatter, "The door code of the cellar is 4711.", *chatter), term_counts(chatter)
        )
        assert "The door code of the cellar is 4711." in summary

    def test_a_sentence_longer_than_a_summary_is_cut_between_words(self):
        summary = fallback_summary(said("word " * 200))
        assert summary.endswith("word…")
        assert len(summary) <= SUMMARY_LENGTH
