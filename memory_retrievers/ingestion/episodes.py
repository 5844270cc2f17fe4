"""From segments to episodes (specification §2.13)."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence
from typing import Final

from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title
from memory_retrievers.models import EpisodicDraft, EpisodicMemory, Origin
from memory_retrievers.protocols import QueuedMessage, Segment
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.text import one_line

_NAMESPACE: Final = uuid.UUID("5f0d5b5e-7d61-5c0a-9a53-2f6f1f0f7c11")


def drafts_of(
    scope: str, queued: Sequence[QueuedMessage], segments: Sequence[Segment], *, settings: IngestionSettings
) -> list[EpisodicDraft]:
    """One episode per segment, from the messages it takes, in order.

    What a model left blank is taken from the messages themselves, and so no segment is skipped.
    """
    return [
        _draft(scope, messages, segment, settings)
        for messages, segment in zip(_taken(queued, segments), segments, strict=True)
    ]


def _taken(queued: Sequence[QueuedMessage], segments: Sequence[Segment]) -> Iterator[list[QueuedMessage]]:
    waiting = iter(queued)
    for segment in segments:
        yield list(itertools.islice(waiting, segment.messages))


def _draft(scope: str, queued: Sequence[QueuedMessage], segment: Segment, settings: IngestionSettings) -> EpisodicDraft:
    messages = tuple(each.message for each in queued)
    times = [message.timestamp for message in messages if message.timestamp is not None]
    surprise = min(max(segment.surprise, 0.0), 1.0)
    return EpisodicMemory.new(
        scope=scope,
        id=episode_id(scope, queued),
        title=one_line(segment.title) or fallback_title(messages),
        summary=one_line(segment.summary) or fallback_summary(messages),
        messages=messages,
        surprise=surprise,
        start_at=min(times, default=None),
        end_at=max(times, default=None),
        origin=Origin.CONVERSATION,
        is_flashbulb=settings.keep_flashbulbs and surprise >= settings.flashbulb_surprise,
    )


def episode_id(scope: str, queued: Sequence[QueuedMessage]) -> str:
    """The same for the same messages, so that doing it twice makes nothing twice; equal texts stay apart."""
    return str(uuid.uuid5(_NAMESPACE, f"{scope}\n{queued[0].id}\n{queued[-1].id}"))
