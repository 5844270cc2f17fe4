"""A segmenter that needs no language model: time, phrases and embeddings say where something else begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memory_retrievers.ingestion.borders import BorderSettings, find_borders
from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title, readable, term_counts
from memory_retrievers.ingestion.surprise import SurpriseSettings, surprises
from memory_retrievers.messages import Message
from memory_retrievers.protocols import Background, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineSegmenter:
    """Cuts conversations at pauses, greetings, announced changes of topic, and where cohesion falls.

    A :class:`~memory_retrievers.protocols.Segmenter`. Titles and summaries are taken from the messages. The same
    messages and vectors give the same segments. One call embeds once: the messages and the summaries known.

    Attributes:
        borders: What makes a border.
        surprise: What makes a segment surprising.
    """

    borders: BorderSettings = field(default_factory=BorderSettings)
    surprise: SurpriseSettings = field(default_factory=SurpriseSettings)

    def segment(self, messages: Sequence[Message], background: Background) -> list[Segment]:
        """The segments, in order; together they take exactly all messages. No messages give none.

        Raises:
            EmbeddingError: The embedder failed.
        """
        if not messages:
            return []
        messages = readable(messages)
        # 1. One batch: what is said, and what is known.
        earlier = [episode.summary for episode in background.recent] + [background.previous_summary or ""]
        summaries = [summary for summary in dict.fromkeys(earlier) if summary.strip()]
        vectors = background.embed([*(message.content for message in messages), *summaries])
        said, known = vectors[: len(messages)], vectors[len(messages) :]
        # 2. The borders, and with them the stretches.
        ends = [0, *find_borders(messages, said, self.borders), len(messages)]
        stretches = [messages[start:end] for start, end in pairwise(ends)]
        # 3. What each is about, against the words of all of them and of the episodes before.
        told = [message.content for episode in background.recent for message in readable(episode.messages)]
        words = term_counts([*(message.content for message in messages), *told, *summaries])
        return [
            Segment(
                messages=len(stretch),
                title=fallback_title(stretch, words),
                summary=fallback_summary(stretch, words),
                surprise=surprise,
            )
            for stretch, surprise in zip(stretches, surprises(stretches, said, known, self.surprise), strict=True)
        ]
