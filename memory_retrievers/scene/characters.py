"""How the characters of a story stand after its events (specification §5.1)."""

from __future__ import annotations

from collections.abc import Sequence

import pydantic

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import EpisodicMemory
from memory_retrievers.scene_records import MOST_SHIFTS, CharacterState, EmotionShift, MessageSpan, SceneDetails


def updated(states: Sequence[CharacterState], episodes: Sequence[EpisodicMemory]) -> list[CharacterState]:
    """The characters after episodes that are told in this order: those there were, then those that are new.

    Whoever an event makes feel something feels that from then on; whoever has witnessed it knows it. A character that
    nobody has told of yet appears with the first event that does either.

    Args:
        states: The characters before.
        episodes: What has happened; those that are no scenes change nothing.

    Raises:
        ValidationError: A name is too long for a character.
    """
    after = {state.name: state for state in states}
    known = {state.name: dict.fromkeys(state.known_events) for state in states}
    for episode in episodes:
        if episode.scene is None:
            continue
        for told, emotion in episode.scene.emotional_impact.items():
            name = told.strip()
            after[name] = _moved(after.get(name) or _new(name), emotion.strip(), episode.scene)
        for name in episode.scene.witnesses:
            after[name] = after.get(name) or _new(name)
            known.setdefault(name, {})[episode.id] = None
    return [state.model_copy(update={"known_events": tuple(known.get(name, ()))}) for name, state in after.items()]


def _new(name: str) -> CharacterState:
    try:
        return CharacterState(name=name)
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error


def _moved(state: CharacterState, emotion: str, scene: SceneDetails) -> CharacterState:
    """The character with another emotion, or the same again, as of the messages of the scene."""
    span, shifts = None, state.shifts
    if scene.message_ids:
        span = MessageSpan(min=min(scene.message_ids), max=max(scene.message_ids))
    if emotion != state.current_emotion:
        shift = EmotionShift(emotion=emotion, message_id=None if span is None else span.min)
        shifts = (*shifts, shift)[-MOST_SHIFTS:]
    return state.model_copy(update={"current_emotion": emotion, "emotion_from_messages": span, "shifts": shifts})
