"""What a store holds and whether its parts agree, asked through the public methods alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from memory_retrievers import AgentMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.models import AnyMemory, MemoryKey

NEAR = 5
"""Asked for by its own text, a memory is at least so near; others may be as near, as few numbers stand for a text."""


def contents(memory: AgentMemory, *, within: str = "") -> list[AnyMemory]:
    """Every memory of every scope, or of those below one."""
    found: list[AnyMemory] = []
    for scope in (each for each in memory.scopes() if not within or each.startswith(f"{within}/")):
        cursor = None
        while True:
            page = memory.list(scope, cursor=cursor, limit=1000)
            found += page.memories
            if (cursor := page.cursor) is None:
                break
    return found


def unfound(memory: AgentMemory, held: Sequence[AnyMemory], *, searches: int, seed: int) -> list[str]:
    """What is not found by its own text, or found although it is no longer true, one sentence each.

    Args:
        memory: The store.
        held: What it holds.
        searches: For how many of the memories to search.
        seed: Decides for which.
    """
    asked = random.Random(seed).sample(list(held), min(searches, len(held)))
    return [problem for each in asked for problem in _search_problems(memory, each)]


def disagreements(memory: AgentMemory, held: Sequence[AnyMemory]) -> list[str]:
    """Where ledger, postings, projection and reviews say different things, one sentence each."""
    keys = {MemoryKey(scope=each.scope, id=each.id) for each in held}
    named = {key for scope in memory.scopes() for review in memory.pending_reviews(scope) for key in review.memories}
    gone = sorted(f"a pending review names {key}, which is gone" for key in named - keys)
    return [*memory.verify().problems, *gone]


def _search_problems(memory: AgentMemory, sought: AnyMemory) -> Iterator[str]:
    text = sought.summary if isinstance(sought, EpisodicMemory) else sought.fact
    result = memory.retrieve(text, scope=sought.scope, episodic_limit=100, semantic_limit=1000, record=False)
    hits = {each.memory.id: each.explanation for each in result.episodic}
    hits |= {each.memory.id: each.explanation for each in result.semantic}
    hit = hits.get(sought.id)
    if isinstance(sought, SemanticMemory) and sought.invalid_at is not None:
        if hit is not None:
            yield f"{sought.id} is no longer true and is found"
    elif hit is None:
        yield f"{sought.id} is not found"
    elif hit.bm25_rank != 1:
        yield f"{sought.id} is not found by its words: {hit}"
    elif hit.dense_rank is None or hit.dense_rank > NEAR:
        yield f"{sought.id} is not found by its vector: {hit}"
