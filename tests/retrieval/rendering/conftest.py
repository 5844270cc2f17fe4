"""Memories to render: complete records made from the few values a test cares about."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers.models import EpisodicMemory, SemanticMemory
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Explanation, RetrievedMemory


def _hit(memory, *, rank, score, fused_score=0.03):
    why = Explanation(dense_rank=rank, bm25_rank=rank, fused_score=fused_score, retrievability=1.0, score=score)
    return RetrievedMemory(memory=memory, rank=rank, score=score, relevance=score, explanation=why)


@pytest.fixture(scope="session")
def now():
    return datetime(2026, 3, 3, 9, tzinfo=UTC)


@pytest.fixture(scope="session")
def make_fact(now):
    def make(fact="User lives in Lyon", *, rank=1, score=0.9, fused_score=0.03, sources=("e1",), **values):
        times = dict.fromkeys(("created_at", "updated_at", "valid_at"), now - timedelta(days=2))
        defaults = {"scope": "c1", "id": f"f{rank}", "category": "identity", "source_episodic_ids": sources, **times}
        return _hit(
            SemanticMemory(**{**defaults, "fact": fact, **values}), rank=rank, score=score, fused_score=fused_score
        )

    return make


@pytest.fixture(scope="session")
def make_episode(now):
    def make(title="Moving house", *, rank=1, score=0.9, days_ago=2, messages=(), **values):
        end_at = now - timedelta(days=days_ago)
        times = dict.fromkeys(("created_at", "updated_at", "start_at", "end_at", "last_reviewed_at"), end_at)
        defaults = {"scope": "c1", "id": f"e{rank}", "stability": 2.3065, "difficulty": 2.1181, **times}
        defaults |= {
            "summary": "The user moved.",
            "messages": [Message(role=role, content=text) for role, text in messages],
        }
        return _hit(EpisodicMemory(**{**defaults, "title": title, **values}), rank=rank, score=score)

    return make
