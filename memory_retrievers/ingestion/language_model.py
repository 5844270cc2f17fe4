"""A segmenter that asks a language model where to cut (specification §2.12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory_retrievers.messages import Message
from memory_retrievers.prompts.segmentation import (
    SYSTEM_PROMPT,
    SegmentAnswer,
    SegmentationAnswer,
    SurpriseLevel,
    user_prompt,
)
from memory_retrievers.protocols import Background, LanguageModel, Segment

SURPRISE: dict[SurpriseLevel, float] = {"low": 0.2, "high": 0.6, "extremely_high": 0.9}
"""The level a language model names → surprise (specification §2.12); only the last makes a key moment."""

UNNAMED = Segment(messages=1, title="Conversation Segment", summary="", surprise=SURPRISE["low"])
"""What stands for a conversation in which the language model saw no segment at all; it takes all messages."""


class LanguageModelSegmenter:
    """A ``protocols.Segmenter`` that leaves the borders, titles, summaries and surprise to a language model.

    Args:
        language_model: The model; ``language_models.adapt`` makes one of what the frameworks have.
    """

    def __init__(self, language_model: LanguageModel) -> None:
        self._language_model = language_model

    def segment(self, messages: Sequence[Message], background: Background) -> list[Segment]:
        """The segments, in order; together they take exactly all messages. Titles and summaries may be empty.

        Raises:
            LanguageModelError: The model failed, or its answer cannot be used.
        """
        if not messages:
            return []
        question = user_prompt(messages, previous_summary=background.previous_summary)
        answer = self._language_model.generate(SYSTEM_PROMPT, question, SegmentationAnswer)
        return sliced(answer.segments, total=len(messages))


def sliced(answers: Sequence[SegmentAnswer], *, total: int) -> list[Segment]:
    """The answers brought into line with ``total`` messages, at least one: exactly all are taken, none twice.

    Only ``num_messages`` counts, never the indexes. What claims no message is left out, what claims too many is cut,
    and messages that nobody claims go to the last segment.
    """
    segments: list[Segment] = []
    left = total
    for answer in answers:
        if not left:
            break
        if answer.num_messages > 0:
            segments.append(_segment(answer, messages=min(answer.num_messages, left)))
            left -= segments[-1].messages
    last = segments.pop() if segments else replace(UNNAMED, messages=0)
    return [*segments, replace(last, messages=last.messages + left)]


def _segment(answer: SegmentAnswer, *, messages: int) -> Segment:
    return Segment(
        messages=messages, title=answer.title, summary=answer.summary, surprise=SURPRISE[answer.surprise_level]
    )
