"""Relevance of a story's events at the current message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from memory_retrievers.models import EpisodicMemory, Kind, MemoryKey
from memory_retrievers.models.scenes import MOST_STARS, SceneDetails
from memory_retrievers.models.selection import Hits, Selection
from memory_retrievers.scene.render import position_of
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector
    from memory_retrievers.storage.store import MemoryStore


FADING: Final = 0.05
"""Rate per message at which an event of one star fades; one of n stars does so n² times as slowly."""

UNFADING: Final = 5.0
"""An event of five stars never counts for less."""

LIKE_FROM: Final = 0.5
"""From this cosine on an event is like what is asked for."""

LIKENESS_WEIGHT: Final = 15.0
"""Score added at a cosine of 1; it grows linearly from the threshold on."""

KEYWORD_WEIGHT: Final = 3.0
"""Score added for each point of BM25."""


def score(details: SceneDetails, *, chat_length: int, cosine: float | None = None, bm25: float = 0.0) -> float:
    """Score an event: its stars, faded by the messages since, and its match with a query.

    ``stars × exp(−0.05 / stars² × distance)``, for five stars at least 5; above a cosine of 0.5 plus
    ``15 × (cosine − 0.5) / 0.5``; plus ``3 × bm25``.

    >>> round(score(SceneDetails(importance=3, message_ids=[900]), chat_length=1_000), 3)
    1.721
    >>> score(SceneDetails(importance=5, message_ids=[1]), chat_length=9_000, cosine=0.75)
    12.5

    Args:
        details: The event.
        chat_length: How many messages the chat has; what happens in a later one is not faded.
        cosine: Between the event and the question; None without a question.
        bm25: The score of the event for the words of the question.
    """
    stars = details.importance
    distance = max(0, chat_length - position_of(details))
    matters = stars * math.exp(-FADING / stars**2 * distance)
    if stars == MOST_STARS:
        matters = max(matters, UNFADING)
    likeness = 0.0 if cosine is None else max(0.0, cosine - LIKE_FROM) / (1 - LIKE_FROM)
    return matters + LIKENESS_WEIGHT * likeness + KEYWORD_WEIGHT * bm25


def scores(
    episodes: Sequence[EpisodicMemory], *, chat_length: int, cosines: Mapping[str, float], bm25: Mapping[str, float]
) -> dict[str, float]:
    """Score each scene among the episodes, by its id, for ``scene.render.scene_block``.

    Args:
        episodes: Episodes of one scope; those without a ``scene`` have no score.
        chat_length: How many messages the chat has.
        cosines: By id, between event and question; what is missing has none.
        bm25: By id; what is missing has 0.
    """
    return {
        episode.id: score(
            episode.scene, chat_length=chat_length, cosine=cosines.get(episode.id), bm25=bm25.get(episode.id, 0.0)
        )
        for episode in episodes
        if episode.scene is not None
    }


def relevance(
    store: MemoryStore, episodes: Sequence[EpisodicMemory], *, scope: str, query: str, chat_length: int
) -> dict[str, float]:
    """Score each scene among the episodes of a scope, by its id; the query is embedded once.

    Args:
        store: Store to search.
        episodes: Episodes of the scope; those without a ``scene`` have no score.
        scope: Scope of the episodes.
        query: Text that events are compared with.
        chat_length: Number of messages of the chat.

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
