"""Events of a story: who was present, and how much each matters at the current message."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import pydantic

from memory_retrievers.backends.sql.characters import updated
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import EpisodicDraft, EpisodicMemory, Kind, MemoryKey
from memory_retrievers.models.scenes import MOST_STARS, CharacterState, SceneDetails, SceneEvent
from memory_retrievers.models.selection import Hits, Selection, Vector
from memory_retrievers.scene.render import position_of
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.text.analysis import analyze, caseless

FADING: Final = 0.05  # rate per message at which an event of one star fades; one of n stars does so n² times as slowly
UNFADING: Final = 5.0  # an event of five stars never counts for less
LIKE_FROM: Final = 0.5  # from this cosine on an event is like what is asked for
LIKENESS_WEIGHT: Final = 15.0  # score added at a cosine of 1; it grows linearly from the threshold on
KEYWORD_WEIGHT: Final = 3.0  # score added for each point of BM25

_EVENTS: Final = pydantic.TypeAdapter(tuple[SceneEvent, ...])


def known_to(
    pov: Collection[str], episodes: Sequence[EpisodicMemory], *, characters: Iterable[CharacterState] = ()
) -> list[EpisodicMemory]:
    """Select the episodes that at least one of the characters knows, in the order given.

    A character knows what it witnessed, what is no secret and it took part in, and the events its state lists. Names
    are compared without regard to case. Without a point of view everything is known.

    Args:
        pov: The characters from whose point of view the story is seen.
        episodes: Episodes with a ``scene``; one without is known to nobody.
        characters: The states of the characters of the story.
    """
    names = {caseless(name) for name in pov}
    if not names:
        return list(episodes)
    listed = {known for state in characters if caseless(state.name) in names for known in state.known_events}
    return [
        episode
        for episode in episodes
        if episode.scene is not None and (episode.id in listed or _has_seen(names, episode.scene))
    ]


def _has_seen(names: Collection[str], details: SceneDetails) -> bool:
    there = () if details.is_secret else details.characters_involved
    return any(caseless(name) in names for name in (*details.witnesses, *there))


def derived_from(episodes: Sequence[EpisodicMemory]) -> list[CharacterState]:
    """Derive the characters from these episodes alone, in the order in which the episodes were stored."""
    # those that were stored at once keep the order of the story
    return updated([], sorted(episodes, key=lambda each: (each.created_at, (each.scene and each.scene.sequence) or 0)))


def drafts_of(scope: str, events: Sequence[SceneEvent]) -> list[EpisodicDraft]:
    """The episodes that events become, in their order.

    Stars become surprise and importance, from 0 for one to 1 for five. What an event leaves open is filled in: its
    witnesses are then the characters involved, and its sequence is its lowest message number, times 1,000, plus its
    place among the events.

    >>> (draft,) = drafts_of("story", [SceneEvent(summary="Elder warned of goblins.", message_ids=(5, 6))])
    >>> draft.surprise, draft.scene.sequence
    (0.5, 5000)

    Raises:
        ValidationError: They are no list, or one is no event nor a mapping that makes one.
    """
    try:
        checked = _EVENTS.validate_python(events)
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error, within="events") from error
    return [_draft_of(scope, event, place) for place, event in enumerate(checked)]


def _draft_of(scope: str, event: SceneEvent, place: int) -> EpisodicDraft:
    weight = (event.importance - 1) / (MOST_STARS - 1)
    return EpisodicDraft(
        scope=scope,
        id=event.id,
        summary=event.summary,
        surprise=weight,
        importance=weight,
        scene=event.completed(place=place),
    )


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
    """
    # 1. only these events are searched, all of them, exactly
    keys = [MemoryKey(scope=scope, id=episode.id) for episode in episodes]
    events = {passage: key.id for key, passage in store.ledger.management.passages(keys).items()}
    selection = Selection(scope=scope, kind=Kind.EPISODIC, now=store.now(), ids=tuple(key.id for key in keys))
    limit = len(store.ledger.eligible(selection))

    # 2. by meaning and by words
    def search(vector: Vector) -> tuple[dict[str, float], dict[str, float]]:
        by_meaning = store.dense.search(vector, selection, limit=limit)
        by_words = store.keyword.search(analyze(query), selection, limit=limit)
        return _by_event(by_meaning, events), _by_event(by_words, events)

    cosines, bm25 = store.search(query, search) if limit else ({}, {})
    # 3. with the stars and the time that has passed
    return {
        episode.id: score(
            episode.scene, chat_length=chat_length, cosine=cosines.get(episode.id), bm25=bm25.get(episode.id, 0.0)
        )
        for episode in episodes
        if episode.scene is not None
    }


def _by_event(hits: Hits, events: dict[int, str]) -> dict[str, float]:
    return {
        events[passage]: score for passage, score in zip(hits.passages, hits.scores, strict=True) if passage in events
    }
