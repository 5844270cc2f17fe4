"""What most tests start from: a clock that stands still, a memory that needs no model, a guard of the event loop."""

import gc
from datetime import UTC, datetime

import pytest
from blockbuster import blockbuster_ctx

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.testing import FixedClock, HashEmbedder

NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock():
    return FixedClock(NOW)


@pytest.fixture(params=["sqlite_bm25", "rank_bm25"])
def keyword(request):
    return request.param


@pytest.fixture
def memory(clock, keyword):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword=keyword) as memory:
        yield memory


@pytest.fixture
def seed_memory(clock, keyword):
    settings = RetrievalSettings.seed()
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, keyword=keyword, retrieval=settings) as memory:
        yield memory


@pytest.fixture
def no_blocking():
    """Blocking the event loop from within the package raises."""
    gc.collect()  # memories that other tests have dropped are closed now, and not when nothing may block
    with blockbuster_ctx("memory_retrievers"):
        yield
