"""From draft to memory: what the caller left out is filled in."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import uuid_utils

from memory_retrievers import fsrs, scopes
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, Draft, EpisodicDraft, EpisodicMemory, SemanticMemory
from memory_retrievers.scene_records import SEQUENCE_STEP, SceneDetails

_LAST_PLACE: Final = 2**53 - 1


def completed(draft: Draft, *, now: datetime) -> AnyMemory:
    """The draft with every id, time and forgetting state it did not bring.

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
    """The scene with the witnesses and the sequence that it did not bring (specification §5.1).

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
