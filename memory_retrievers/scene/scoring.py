"""How much each event of a story matters now (specification §5.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from memory_retrievers.models import EpisodicMemory
from memory_retrievers.rendering.scene_timeline import position_of
from memory_retrievers.scene_records import MOST_STARS, SceneDetails

FADING: Final = 0.05
"""How fast an event of one star fades with each message; one of n stars does so n² times as slowly."""

UNFADING: Final = 5.0
"""An event of five stars never counts for less."""

LIKE_FROM: Final = 0.5
"""From this cosine on an event is like what is asked for."""

LIKENESS_WEIGHT: Final = 15.0
"""What the same text adds; in between it grows in a straight line."""

KEYWORD_WEIGHT: Final = 3.0
"""What each point of BM25 adds."""


def score(details: SceneDetails, *, chat_length: int, cosine: float | None = None, bm25: float = 0.0) -> float:
    """How much an event matters: its stars, faded by the messages since, and how well it fits a question.

    ``stars × exp(−0.05 / stars² × distance)``, for five stars at least 5; above a cosine of 0.5 plus
    ``15 × (cosine − 0.5) / 0.5``; plus ``3 × bm25``.

    >>> round(score(SceneDetails(importance=3, message_ids=[900]), chat_length=1_000), 3)
    1.721
    >>> score(SceneDetails(importance=5, message_ids=[1]), chat_length=9_000, cosine=0.75)
    12.5

    Args:
        details: The event.
        chat_length: How many messages the chat has; what is told in a later one is not faded.
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
    episodes: Sequence[EpisodicMemory],
    *,
    chat_length: int,
    cosines: Mapping[str, float],
    bm25: Mapping[str, float],
) -> dict[str, float]:
    """The score of each scene among the episodes, by its id: what ``rendering.scene.scene_block`` takes.

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
