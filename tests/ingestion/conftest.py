"""Conversations to work on, and segmenters and judges that do as they are told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import AgentMemory, Message, Rating
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.protocols import Segment
from memory_retrievers.testing import HashEmbedder, inside

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


class EverySo:
    """Cuts after every so many messages; remembers what it was given."""

    def __init__(self, length):
        self.length = length
        self.seen = []
        self.fails_with = None

    def segment(self, messages, background):
        self.seen.append((list(messages), background))
        if self.fails_with is not None:
            raise self.fails_with
        lengths = [min(self.length, len(messages) - start) for start in range(0, len(messages), self.length)]
        return [Segment(messages=length, title="", summary="", surprise=0.2) for length in lengths]


class Rates:
    """Rates everything alike, and remembers what it was given."""

    def __init__(self, rating=Rating.GOOD):
        self.rating = rating
        self.seen = []

    def rate(self, conversation, memories, *, embed):
        self.seen.append((list(conversation), list(memories)))
        return {memory.id: self.rating for memory in memories}


@pytest.fixture
def said(clock):
    """So many messages, a minute apart, the last of them now unless told otherwise."""

    def make(number, *, start=None, first=0):
        start = start or clock.now() - timedelta(minutes=number)
        return [
            Message(
                role=("user", "assistant")[each % 2],
                content=f"message number {first + each}",
                timestamp=start + timedelta(minutes=each),
            )
            for each in range(number)
        ]

    return make


@pytest.fixture
def segmenter():
    return EverySo(10)


@pytest.fixture
def judge():
    return Rates()


@pytest.fixture
def plain(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        yield memory


@pytest.fixture
def pipeline(plain, segmenter, judge):
    """A pipeline over the store of ``plain``."""
    parts = replace(plain._engine._parts, segmenter=segmenter, judge=judge)
    return IngestionPipeline(inside(plain).store, plain._engine.retriever, parts)
