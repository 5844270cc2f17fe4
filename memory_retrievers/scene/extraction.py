"""From the messages of a story to its events, by a language model (specification §5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_retrievers.drafts import completed_scene
from memory_retrievers.errors import LanguageModelError, ValidationError
from memory_retrievers.messages import Message
from memory_retrievers.prompts.scene import SYSTEM_PROMPT, SceneAnswer, SceneEventAnswer, user_prompt
from memory_retrievers.protocols import LanguageModel
from memory_retrievers.scene_records import SEQUENCE_STEP, SceneDetails, SceneEvent

_LARGEST_NUMBER: Final = 2**53 - 1


def extract_events(
    language_model: LanguageModel,
    messages: Sequence[Message],
    *,
    first_message_id: int,
    characters: Sequence[str] = (),
) -> list[SceneEvent]:
    """What happened in the messages, for ``AgentMemory.add_scene_events``.

    Every event is told in all of the messages: their numbers are its ``message_ids``, and its ``sequence`` is the
    lowest of them times 1,000 and its place among the events. An answer that cannot be used is no event.

    Args:
        language_model: The model; ``language_models.adapt`` makes one of what the frameworks have.
        messages: A stretch of the chat, in order, all of which is asked for in one question.
        first_message_id: The number of the first of them in the chat; the others follow it.
        characters: Names that are known, so that a character keeps its name.

    Raises:
        ValidationError: ``first_message_id`` is negative or too large.
        LanguageModelError: The model failed.
    """
    if not 0 <= first_message_id <= _LARGEST_NUMBER - len(messages):
        raise ValidationError(f"first_message_id must be 0 to {_LARGEST_NUMBER - len(messages)}")
    if not messages:
        return []
    question = user_prompt(messages, characters=characters)
    try:
        answer = language_model.generate(SYSTEM_PROMPT, question, SceneAnswer)
    except LanguageModelError as error:
        if error.raw is None:  # it said nothing
            raise
        return []
    numbers = tuple(range(first_message_id, first_message_id + len(messages)))
    return [_event(event, numbers, place) for place, event in enumerate(answer.events[:SEQUENCE_STEP])]


def _event(answer: SceneEventAnswer, message_ids: tuple[int, ...], place: int) -> SceneEvent:
    details = SceneDetails(
        importance=answer.importance,
        message_ids=message_ids,
        is_secret=answer.is_secret,
        witnesses=answer.witnesses,
        characters_involved=answer.characters_involved,
        emotional_impact={
            each.character: each.emotion for each in answer.emotional_impact if each.character and each.emotion
        },
        relationship_impact={
            f"{each.from_character}->{each.to_character}": each.change
            for each in answer.relationship_impact
            if each.from_character and each.to_character and each.change
        },
        location=answer.location,
        event_type=answer.event_type,
    )
    return SceneEvent(summary=answer.summary, **dict(completed_scene(details, place=place)))
