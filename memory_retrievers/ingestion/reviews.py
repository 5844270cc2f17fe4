"""Review jobs: retrieved memories are rated, and their forgetting state is updated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from memory_retrievers import fsrs
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import EpisodicMemory, MemoryKey, Rating, scopes
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import PendingReview
from memory_retrievers.protocols import Judge, ReviewedMemory
from memory_retrievers.settings import ReviewSettings
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vectors


BATCH: Final = 50
"""Number of memories judged at once; the 200 reviews that a scope keeps may name a thousand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedMemory:
    """A rating that has not been applied yet.

    Attributes:
        key: Whose.
        rating: How the memory served.
        reviewed_at: The moment the review counts from.
        min_days: Whole days since the review before, below which it does not count.
    """

    key: MemoryKey
    rating: Rating
    reviewed_at: datetime
    min_days: int


def due_reviews(
    store: MemoryStore,
    *,
    reviews: Sequence[PendingReview],
    conversation: Sequence[Message],
    reviewed_at: datetime,
    judge: Judge,
    settings: ReviewSettings,
    embed: Callable[[Sequence[str]], Vectors],
) -> tuple[RatedMemory, ...]:
    """Ask the judge about the memories that are due for a review; nothing is written.

    Memories that are deleted, expired, reviewed since or less than a day before, and those that never fade, are left
    out. If none remains, the judge is not asked.

    Args:
        store: Store to read the memories from.
        reviews: The retrievals to judge.
        conversation: The messages around them.
        reviewed_at: The moment the review counts from.
        judge: Rates the memories.
        settings: ``min_days``, the least number of days between reviews that count.
        embed: Gives unit vectors of texts, shape (texts, d), to the judge.

    Raises:
        LanguageModelError: The judge's language model failed.
        EmbeddingError: The embedder failed.
        ValidationError: The judge gave an unknown rating.
    """
    due: list[tuple[MemoryKey, ReviewedMemory]] = []
    for key, queries in by_memory(reviews).items():
        memory = _reviewable(store, key, reviewed_at=reviewed_at, min_days=settings.min_days)
        if memory is not None:
            due.append((key, ReviewedMemory(id=f"M{len(due) + 1}", memory=memory, queries=queries)))
    rated: list[RatedMemory] = []
    for start in range(0, len(due), BATCH):
        batch = due[start : start + BATCH]
        ratings = judge.rate(conversation, [reviewed for _, reviewed in batch], embed=embed)
        rated += [
            RatedMemory(
                key=key, rating=parse_rating(ratings[reviewed.id]), reviewed_at=reviewed_at, min_days=settings.min_days
            )
            for key, reviewed in batch
            if reviewed.id in ratings
        ]
    return tuple(rated)


def by_memory(reviews: Sequence[PendingReview]) -> Mapping[MemoryKey, tuple[str, ...]]:
    """For each memory what it was found by, in order, repeats included."""
    queries: dict[MemoryKey, tuple[str, ...]] = {}
    for review in reviews:
        for key in review.memories:
            queries[key] = (*queries.get(key, ()), review.query)
    return queries


def apply(store: MemoryStore, ratings: Sequence[RatedMemory]) -> tuple[tuple[MemoryKey, Rating], ...]:
    """Write down what the ratings do to their memories, inside the caller's transaction.

    A memory that has gone or was reviewed since is left alone.

    Returns:
        The memories that were changed, with the rating of each.
    """
    applied = []
    with store.ledger.transaction(*{rated.key.scope for rated in ratings}):
        for rated in ratings:
            memory = _reviewable(store, rated.key, reviewed_at=rated.reviewed_at, min_days=rated.min_days)
            if memory is not None:
                store.ledger.replace(reviewed(memory, rating=rated.rating, at=rated.reviewed_at))
                store.ledger.events.note([memory.key], MemoryEventType.REVIEWED, at=rated.reviewed_at)
                applied.append((rated.key, rated.rating))
    return tuple(applied)


def review_one(store: MemoryStore, id: str, *, scope: str, rating: Rating | str, now: datetime) -> EpisodicMemory:
    """Review an episode by hand, on the day of the review before too. One that never fades stays as it is.

    Args:
        store: Store that holds the episode.
        id: Id of the episode.
        scope: Scope of the episode.
        rating: Rating of how the episode served.
        now: The moment the review counts from.

    Raises:
        NotFoundError: There is no such memory in this scope.
        ValidationError: It is a fact, the rating is unknown, or the scope malformed.
    """
    parsed = parse_rating(rating)
    with store.ledger.transaction(scopes.parse(scope)):
        memory = store.get(id, scope=scope)
        if not isinstance(memory, EpisodicMemory):
            raise ValidationError(f"{id} is a fact; facts do not fade, so only episodes can be reviewed")
        if memory.is_flashbulb:
            return memory
        after = reviewed(memory, rating=parsed, at=now)
        store.ledger.replace(after)
        store.ledger.events.note([after.key], MemoryEventType.REVIEWED, at=now)
    return after


def parse_rating(rating: Rating | str) -> Rating:
    """The rating a caller, perhaps a language model, has named in any case of letters.

    Raises:
        ValidationError: There is no such rating.
    """
    try:
        return Rating(str(rating).strip().lower())
    except ValueError:
        raise ValidationError(f"unknown rating {rating!r}; one of: {', '.join(Rating)}") from None


def reviewed(memory: EpisodicMemory, *, rating: Rating, at: datetime) -> EpisodicMemory:
    """Apply a review to an episode; only its forgetting state changes.

    Args:
        memory: The episode before.
        rating: Rating of how it served.
        at: The moment the review counts from; one before the last review leaves ``last_reviewed_at`` as it is.
    """
    state = fsrs.apply_rating(
        fsrs.FsrsState(stability=memory.stability, difficulty=memory.difficulty),
        rating,
        elapsed_days=_whole_days(memory, at),
    )
    return memory.model_copy(
        update={
            "stability": state.stability,
            "difficulty": state.difficulty,
            "last_reviewed_at": max(at, memory.last_reviewed_at),
        }
    )


def _reviewable(store: MemoryStore, key: MemoryKey, *, reviewed_at: datetime, min_days: int) -> EpisodicMemory | None:
    """The episode, if a review at this moment counts."""
    memory = store.ledger.get(scope=key.scope, id=key.id)
    if not isinstance(memory, EpisodicMemory) or memory.is_flashbulb:
        return None
    if memory.has_expired(store.now()):
        return None
    if reviewed_at <= memory.last_reviewed_at or _whole_days(memory, reviewed_at) < min_days:
        return None
    return memory


def _whole_days(memory: EpisodicMemory, at: datetime) -> float:
    return fsrs.elapsed_days(microseconds(at) - microseconds(memory.last_reviewed_at), whole_days=True)
