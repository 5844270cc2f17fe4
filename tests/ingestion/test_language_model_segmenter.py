"""What a language model says about a conversation becomes segments that take exactly its messages."""

from datetime import UTC, datetime, timedelta

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import Message
from memory_retrievers.backends.language_models import adapt
from memory_retrievers.errors import LanguageModelError
from memory_retrievers.ingestion.segmenters import (
    SYSTEM_PROMPT,
    LanguageModelSegmenter,
    SegmentAnswer,
    SegmentationAnswer,
    sliced,
    user_prompt,
)
from memory_retrievers.protocols import Segment, SegmentationContext
from memory_retrievers.testing import ScriptedLanguageModel

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SIX = [
    Message(role="user", content=f"Message {number}", timestamp=START + timedelta(minutes=number))
    for number in range(6)
]  # fmt: skip
NO_BACKGROUND = SegmentationContext(previous_summary=None, recent=(), embed=None)
ANYTHING = Segment(messages=6, title="Conversation Segment", summary="", surprise=0.2)


class Saying:
    """A model that always says the same text."""

    def __init__(self, text):
        self.text = text

    def generate(self, system, user, schema):
        return self.text


def answer(count, title="", summary="", level="low", *, start=0, end=0):
    return {
        "start_message_index": start, "end_message_index": end, "num_messages": count,
        "title": title, "summary": summary, "surprise_level": level,
    }  # fmt: skip


def segments_of(*answers, messages=SIX, context=NO_BACKGROUND):
    model = ScriptedLanguageModel([{"segments": list(answers)}])
    return LanguageModelSegmenter(model).segment(messages, context)


def counts(segments):
    return [segment.messages for segment in segments]


def test_a_segment_has_what_the_model_said_of_it():
    assert segments_of(answer(2, "Tea", "The user likes tea.", "high"), answer(4, "Milk", "No milk.")) == [
        Segment(messages=2, title="Tea", summary="The user likes tea.", surprise=0.6),
        Segment(messages=4, title="Milk", summary="No milk.", surprise=0.2),
    ]


@pytest.mark.parametrize(
    ("level", "surprise"), [("low", 0.2), ("high", 0.6), ("extremely_high", 0.9), ("shocking", 0.2), (None, 0.2)]
)
def test_surprise_follows_the_level(level, surprise):
    assert [segment.surprise for segment in segments_of(answer(6, level=level))] == [surprise]


@tried_in_one(
    "claimed, taken",
    [
        ([2, 3, 1], [2, 3, 1]),  # as said
        ([2, 9], [2, 4]),  # too many are cut
        ([6, 1, 2], [6]),  # nothing is left for those behind
        ([9, 9], [6]),
        ([2, 1], [2, 4]),  # what nobody claims goes to the last
        ([1], [6]),
        ([0, 2, 0, 4, 0], [2, 4]),  # who claims nothing is left out
        ([-3, 2, -1], [6]),
        ([2, 4, 0], [2, 4]),
        ([10**30], [6]),
    ],
)
def test_only_the_number_of_messages_counts(claimed, taken):
    assert counts(segments_of(*map(answer, claimed))) == taken


def test_messages_that_nobody_claims_go_to_the_last_that_claims_any():
    assert segments_of(answer(2, "A"), answer(1, "B"), answer(0, "C")) == [
        Segment(messages=2, title="A", summary="", surprise=0.2),
        Segment(messages=4, title="B", summary="", surprise=0.2),
    ]


def test_indexes_are_ignored():
    assert counts(segments_of(answer(4, start=5, end=2), answer(2, start=0, end=99))) == [4, 2]


@pytest.mark.parametrize("answers", [[], [answer(0, "A", "B", "high")], [answer(-1), answer(0)]])
def test_without_any_segment_one_takes_everything(answers):
    assert segments_of(*answers) == [ANYTHING]


@pytest.mark.parametrize("title", ["", "  ", None])
def test_a_blank_title_and_summary_stay_empty(title):
    [segment] = segments_of(answer(6, title=title, summary=title))
    assert (segment.title, segment.summary) == ("", "")


def test_the_model_is_given_the_prompt_with_the_previous_summary():
    model = ScriptedLanguageModel([{"segments": []}])
    context = SegmentationContext(previous_summary="They spoke of tea.", recent=(), embed=None)
    LanguageModelSegmenter(model).segment(SIX, context)
    assert model.prompts == [(SYSTEM_PROMPT, user_prompt(SIX, previous_summary="They spoke of tea."))]
    assert '"They spoke of tea."' in model.prompts[0][1]


def test_no_messages_are_no_segments_and_no_question():
    model = ScriptedLanguageModel([])
    assert LanguageModelSegmenter(model).segment([], NO_BACKGROUND) == []
    assert not model.prompts


@pytest.mark.parametrize("text", ["I cannot do that.", '{"segments": 3}', '{"segments": [{"title": "no number"}]}'])
def test_an_answer_that_twice_does_not_fit_is_an_error_that_keeps_it(text):
    segmenter = LanguageModelSegmenter(adapt(Saying(text)))
    with pytest.raises(LanguageModelError, match="no usable SegmentationAnswer, twice") as raised:
        segmenter.segment(SIX, NO_BACKGROUND)
    assert raised.value.raw == text


def test_text_of_the_model_stays_on_one_line():
    [segment] = segments_of(answer(6, "Plan\n## Known facts", "a\r\n- b </memory>"))
    assert (segment.title, segment.summary) == ("Plan ## Known facts", "a - b &lt;/memory>")


@given(
    st.lists(
        st.builds(
            SegmentAnswer,
            num_messages=st.integers(-3, 12) | st.integers(),
            title=st.text(),
            surprise_level=st.sampled_from(["low", "high", "extremely_high"]),
        ),
        max_size=8,
    ),
    st.integers(1, 30),
)
def test_together_the_segments_take_exactly_all_messages_and_each_takes_one(answers, total):
    segments = sliced(SegmentationAnswer(segments=tuple(answers)).segments, total=total)
    assert sum(counts(segments)) == total
    assert min(counts(segments)) >= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_numbers_that_add_up_are_taken_as_they_are(claimed):
    answers = [SegmentAnswer(num_messages=count, title=str(place)) for place, count in enumerate(claimed)]
    segments = sliced(answers, total=sum(claimed))
    assert counts(segments) == claimed
    assert [segment.title for segment in segments] == [str(place) for place in range(len(claimed))]
