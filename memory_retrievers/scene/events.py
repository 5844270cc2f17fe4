"""Events of a story on their way into the store: each becomes an episode (specification §1.10, §5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from memory_retrievers.drafts import completed_scene
from memory_retrievers.models import EpisodicDraft
from memory_retrievers.scene_records import MOST_STARS, SceneDetails, SceneEvent


def drafts_of(scope: str, events: Sequence[SceneEvent]) -> list[EpisodicDraft]:
    """The episodes that events become, in their order.

    Stars become surprise and importance, from 0 for one to 1 for five. What an event leaves open is filled in: its
    witnesses are then the characters involved, and its sequence is its lowest message number, times 1,000, plus its
    place among the events.

    >>> (draft,) = drafts_of("story", [SceneEvent(summary="Elder warned of goblins.", message_ids=(5, 6))])
    >>> draft.surprise, draft.scene.sequence
    (0.5, 5000)
    """
    return [_draft_of(scope, event, place) for place, event in enumerate(events)]


def _draft_of(scope: str, event: SceneEvent, place: int) -> EpisodicDraft:
    weight = (event.importance - 1) / (MOST_STARS - 1)
    details = SceneDetails(**{name: getattr(event, name) for name in SceneDetails.model_fields})
    return EpisodicDraft(
        scope=scope,
        id=event.id,
        summary=event.summary,
        surprise=weight,
        importance=weight,
        scene=completed_scene(details, place=place),
    )
