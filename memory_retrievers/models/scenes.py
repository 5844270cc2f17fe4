"""The records of scene memory: events of a story, and the emotions of its characters (specification §5.1)."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from memory_retrievers.models.fields import DistinctTexts, Metadata, NonBlankText, ShortText, ValidatedModel, Value

NEUTRAL: Final = "neutral"  # the emotion of a character of whom nothing else is known; it is never rendered
MOST_STARS: Final = 5
MOST_SHIFTS: Final = 10  # changes of a character's emotion that are kept
_LAST_PLACE: Final = 2**53 - 1
SEQUENCE_STEP: Final = 1_000  # between the sequences of events of one message of a story and of the next


class EventType(StrEnum):
    """Type of an event."""

    ACTION = "action"
    REVELATION = "revelation"
    EMOTION_SHIFT = "emotion_shift"
    RELATIONSHIP_CHANGE = "relationship_change"


def _clamp_to_stars(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:  # NaN is not
        return int(min(MOST_STARS, max(1, value)))
    return value


Stars = Annotated[int, BeforeValidator(_clamp_to_stars), Field(ge=1, le=MOST_STARS)]
MessageNumber = Annotated[int, Field(ge=0, lt=2**53)]


class SceneDetails(ValidatedModel, Value):
    """Details of an episode that is a scene of a story.

    Attributes:
        importance: 1 to 5 stars (clamped).
        message_ids: The numbers of the chat's messages that mention it, counted from 0 or 1 as the chat does.
        sequence: Its place in the story; None makes it of the lowest message number (times 1,000) and the place in
            the batch.
        is_secret: Whether only its witnesses know of it.
        witnesses: Who saw it; none takes the characters involved.
        characters_involved: Who took part.
        emotional_impact: What it made each character feel.
        relationship_impact: What it changed between characters.
        location: Where it happened.
        event_type: What kind of thing happened.
    """

    importance: Stars = 3
    message_ids: tuple[MessageNumber, ...] = ()
    sequence: MessageNumber | None = None
    is_secret: bool = False
    witnesses: DistinctTexts = ()
    characters_involved: DistinctTexts = ()
    emotional_impact: dict[ShortText, ShortText] = Field(default_factory=dict)
    relationship_impact: Metadata = Field(default_factory=dict)
    location: ShortText | None = None
    event_type: EventType = EventType.ACTION

    def completed(self, *, place: int = 0) -> SceneDetails:
        """Return the scene with missing witnesses and sequence filled in (specification §5.1).

        Who is involved has seen it, if it names no witnesses; ``place`` is its place among those that are rendered
        together, from 0.
        """
        fields = {name: getattr(self, name) for name in SceneDetails.model_fields}
        fields["witnesses"] = self.witnesses or self.characters_involved
        if self.sequence is None:
            fields["sequence"] = min(_LAST_PLACE, min(self.message_ids, default=0) * SEQUENCE_STEP + place)
        return SceneDetails(**fields)


class SceneEvent(SceneDetails):
    """Something that happened in a story, on its way into the memory.

    Attributes:
        summary: What happened: one sentence of 8 to 18 words in the past tense.
        id: Unique within the scope; None lets the store make one.
    """

    summary: NonBlankText
    id: ShortText | None = None


class MessageSpan(Value):
    """A range of messages of the chat, both ends included."""

    min: MessageNumber
    max: MessageNumber


class EmotionShift(Value):
    """A change of a character's emotion, and the message in which it happened."""

    emotion: ShortText
    message_id: MessageNumber | None = None


class CharacterState(ValidatedModel, Value):
    """A character of a story, as of its last event.

    Attributes:
        name: As the events name it.
        current_emotion: What it feels; ``neutral`` if nothing is known.
        emotion_intensity: 1 to 10.
        known_events: The ids of the events it has witnessed, in the order in which they were narrated.
        emotion_from_messages: The messages of the event that the emotion is from.
        shifts: What it felt, oldest first; the last ten changes.
    """

    name: ShortText
    current_emotion: ShortText = NEUTRAL
    emotion_intensity: Annotated[int, Field(ge=1, le=10)] = 5
    known_events: tuple[ShortText, ...] = ()
    emotion_from_messages: MessageSpan | None = None
    shifts: Annotated[tuple[EmotionShift, ...], Field(max_length=MOST_SHIFTS)] = ()
