"""A memory of two users, on disk, so that a blocking call would be noticed."""

from datetime import UTC, datetime

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing.fakes import FixedClock, HashEmbedder


@pytest.fixture
def memory(tmp_path):
    clock = FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_fact(
            scope="user/alice", fact="Alice lives in Lyon", category="identity", metadata={"source": "crm", "page": 3}
        )
        memory.remember_fact(scope="user/alice", fact="Answer in metric units", category="guideline")
        memory.remember_episode(
            scope="user/alice",
            title="Broken import",
            summary="The nightly import in Lyon failed again.",
            messages=[Message(role="user", content="It died again.")],
            surprise=0.9,
        )
        memory.remember_fact(scope="user/bob", fact="Bob lives in Bergen", category="identity")
        memory.retrieve("Bergen", scope="user/bob", record=False)  # the guard would leave a new connection half-open
        yield memory
