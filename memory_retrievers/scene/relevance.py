"""How the events of a story bear on a question: by meaning, by words, and by when they happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_retrievers.models import EpisodicMemory, Kind, MemoryKey
from memory_retrievers.passages import Hits, Selection
from memory_retrievers.scene.scoring import scores
from memory_retrievers.store import MemoryStore
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


def relevance(
    store: MemoryStore, episodes: Sequence[EpisodicMemory], *, scope: str, query: str, chat_length: int
) -> dict[str, float]:
    """The score of each scene among the episodes of a scope, by its id; the question is embedded once.

    Raises:
        EmbeddingError: The embedder failed.
        EmbeddingMismatchError: The embedder is not the store's.
    """
    # 1. only these events are searched, all of them, exactly
    keys = [MemoryKey(scope=scope, id=episode.id) for episode in episodes]
    events = {passage: key.id for key, passage in store.ledger.management.passages(keys).items()}
    selection = Selection(scope=scope, kind=Kind.EPISODIC, now=store.now(), ids=tuple(key.id for key in keys))
    limit = len(store.ledger.eligible(selection))
    if not limit:
        return scores(episodes, chat_length=chat_length, cosines={}, bm25={})

    # 2. by meaning and by words
    def search(vector: Vector) -> tuple[Hits, Hits]:
        by_meaning = store.dense.search(vector, selection, limit=limit)
        return by_meaning, store.keyword.search(analyze(query), selection, limit=limit)

    dense, bm25 = store.search(query, search)
    # 3. with the stars and the time that has passed
    return scores(episodes, chat_length=chat_length, cosines=_by_event(dense, events), bm25=_by_event(bm25, events))


def _by_event(hits: Hits, events: dict[int, str]) -> dict[str, float]:
    return {
        events[passage]: score for passage, score in zip(hits.passages, hits.scores, strict=True) if passage in events
    }
