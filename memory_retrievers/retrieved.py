"""What searching gives: a memory with its place and the reason for it, and the note that it was looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic

from memory_retrievers.models import MemoryKey, MemoryT


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a memory stands where it stands.

    Attributes:
        dense_rank: Its place among the nearest vectors, from 1; None if it was not among the candidates.
        bm25_rank: Its place by BM25, from 1; None likewise.
        fused_score: The sum of what each list gave it (specification §2.3), with every boost.
        retrievability: How well it is remembered, 0 to 1 (FSRS); 1 for facts.
        score: The final score, 0 to 1.
        stages: What each list and each boost gave its best passage, by name; together they are the score before
            forgetting. Empty where ranks are fused.
    """

    dense_rank: int | None
    bm25_rank: int | None
    fused_score: float
    retrievability: float
    score: float
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A passage of a memory that answers the question, and the messages it is made of.

    Attributes:
        part: Which passage: ``turn`` for a message of an episode.
        messages: The places of its messages in ``EpisodicMemory.messages``, from 0.
        score: How well it answers, 0 to 1, on one scale for all memories of a result.
    """

    part: str
    messages: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedMemory(Generic[MemoryT]):
    """One hit.

    Attributes:
        memory: The memory.
        rank: Its place among its kind, from 1.
        score: In (0, 1].
        explanation: Why it stands there.
        matches: Its passages by how well they answer, best first; none where only summaries are searched.
    """

    memory: MemoryT
    rank: int
    score: float
    explanation: Explanation
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReview:
    """A retrieval whose use has not been judged yet.

    Attributes:
        scope: The scope that was searched.
        query: What was asked.
        memories: The episodes that were returned, in rank order.
        created_at: When.
    """

    scope: str
    query: str
    memories: tuple[MemoryKey, ...]
    created_at: datetime
