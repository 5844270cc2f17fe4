"""Completes drafts to memories by filling in what the caller left out."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import uuid_utils

from memory_retrievers import fsrs
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, EpisodicMemory, SemanticMemory, scopes
from memory_retrievers.models.messages import Message
from memory_retrievers.models.scenes import SEQUENCE_STEP, SceneDetails

_LAST_PLACE: Final = 2**53 - 1


def complete(draft: Draft, *, now: datetime) -> AnyMemory:
    """Return the draft with all missing ids, times and forgetting states filled in.

    Raises:
        ValidationError: Its scope is malformed.
    """
    scopes.parse(draft.scope)
    created_at = draft.created_at or now
    shared: dict[str, object] = {
        "id": draft.id or str(uuid_utils.uuid7()),
        "created_at": created_at,
        "updated_at": draft.updated_at or created_at,
    }
    fields = {name: getattr(draft, name) for name in type(draft).model_fields} | shared
    if isinstance(draft, EpisodicDraft):
        return EpisodicMemory(**fields | _episode_defaults(draft, created_at))
    return SemanticMemory(**fields | {"valid_at": draft.valid_at or created_at})


def completed_scene(scene: SceneDetails, *, place: int = 0) -> SceneDetails:
    """Return the scene with missing witnesses and sequence filled in (specification §5.1).

    Args:
        scene: Who is involved has seen it, if it names no witnesses.
        place: Its place among those that are told together, from 0.
    """
    fields = {name: getattr(scene, name) for name in SceneDetails.model_fields}
    first_message = min(scene.message_ids, default=0)
    return SceneDetails(
        **fields
        | {
            "witnesses": scene.witnesses or scene.characters_involved,
            "sequence": min(_LAST_PLACE, first_message * SEQUENCE_STEP + place)
            if scene.sequence is None
            else scene.sequence,
        }
    )


def _episode_defaults(draft: EpisodicDraft, created_at: datetime) -> dict[str, object]:
    messages = tuple(
        Message(role=message.role, content=message.content, timestamp=message.timestamp or draft.end_at or created_at)
        for message in draft.messages
    )
    state = fsrs.initial_state(surprise=draft.surprise)
    return {
        "messages": messages,
        "start_at": draft.start_at or (messages[0].timestamp if messages else created_at),
        "end_at": draft.end_at or (messages[-1].timestamp if messages else created_at),
        "stability": draft.stability or state.stability,
        "difficulty": draft.difficulty or state.difficulty,
        "last_reviewed_at": draft.last_reviewed_at or created_at,
        "scene": None if draft.scene is None else completed_scene(draft.scene),
        # what happens in a story is no fact about anybody
        "consolidated_at": draft.consolidated_at or (None if draft.scene is None else created_at),
    }
