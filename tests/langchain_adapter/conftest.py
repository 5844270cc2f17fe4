"""A memory of two users."""

from datetime import UTC, datetime

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing.fakes import FixedClock, HashEmbedder


@pytest.fixture
def memory():
    clock = FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_fact(scope="user/alice", fact="Alice lives in Lyon", category="identity")
        memory.remember_fact(scope="user/alice", fact="Answer in metric units", category="guideline")
        memory.remember_episode(
            scope="user/alice",
            title="Broken import",
            summary="The nightly import in Lyon failed again.",
            messages=[Message(role="user", content="It died again.")],
            surprise=0.9,
        )
        memory.remember_fact(scope="user/bob", fact="Bob lives in Bergen", category="identity")
        yield memory
