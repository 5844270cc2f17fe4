"""Where the events of a story stand in its chat, and the three parts of a block they fall into (specification §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from memory_retrievers.models import EpisodicMemory
from memory_retrievers.scene_records import SEQUENCE_STEP, SceneDetails
from memory_retrievers.settings import SceneSettings
from memory_retrievers.text import one_line

KNOWN_FROM: Final = 3
"""So many witnesses make an event known to all, unless it is a secret."""


class Part(StrEnum):
    """A part of the block, by its heading, in the order in which they stand."""

    STORY_SO_FAR = "## The Story So Far"
    LEADING_UP = "## Leading Up To This Moment"
    CURRENT_SCENE = "## Current Scene"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEvent:
    """An event with its place in the block.

    Attributes:
        id: That of its episode.
        summary: What happened, on one line.
        line: The line of the block that tells it.
        stars: 1 to 5.
        position: The message of the chat it is told in.
        part: The part it falls into.
        order: Its place among all events of the story, from the oldest.
    """

    id: str
    summary: str
    line: str
    stars: int
    position: int
    part: Part
    order: int


def placed(episodes: Sequence[EpisodicMemory], *, chat_length: int, settings: SceneSettings) -> list[PlacedEvent]:
    """The scenes among the episodes, from the oldest; what is no scene is left out.

    Args:
        episodes: In any order; of two with the same sequence the first stays first.
        chat_length: How many messages the chat has.
        settings: The borders of the parts.
    """
    scenes = [(episode, episode.scene) for episode in episodes if episode.scene is not None]
    scenes.sort(key=lambda scene: scene[1].sequence or 0)
    return [
        _placed(episode, details, order=order, chat_length=chat_length, settings=settings)
        for order, (episode, details) in enumerate(scenes)
    ]


def position_of(details: SceneDetails) -> int:
    """The message an event is told in: the mean of its messages, half rounded up as JavaScript does.

    Without messages it is taken from the sequence, and is 0 without that.

    >>> position_of(SceneDetails(message_ids=(2, 3))), position_of(SceneDetails(sequence=5_000))
    (3, 5)
    """
    if details.message_ids:
        count = len(details.message_ids)
        return (2 * sum(details.message_ids) + count) // (2 * count)  # in whole numbers, which stay exact
    return (details.sequence or 0) // SEQUENCE_STEP


def separator(before: PlacedEvent | None, event: PlacedEvent, *, settings: SceneSettings) -> str | None:
    """What stands on the lines between two events that are told one after the other; None for nothing.

    Only the story so far has pauses. The text brings the blank lines around it.
    """
    if before is None or event.part is not Part.STORY_SO_FAR:
        return None
    gap = event.position - before.position
    if gap >= settings.much_later_messages:
        return "\n...Much later...\n"
    if gap >= settings.later_messages:
        return "\n...Later...\n"
    return "\n...\n" if gap >= settings.pause_messages else None


def _placed(
    episode: EpisodicMemory, details: SceneDetails, *, order: int, chat_length: int, settings: SceneSettings
) -> PlacedEvent:
    position = position_of(details)
    summary = one_line(episode.summary)
    known = "[Known] " if not details.is_secret and len(details.witnesses) >= KNOWN_FROM else ""
    return PlacedEvent(
        id=episode.id,
        summary=summary,
        line=f"[{'★' * details.importance}] {known}{summary}",
        stars=details.importance,
        position=position,
        part=_part(position, chat_length=chat_length, settings=settings),
        order=order,
    )


def _part(position: int, *, chat_length: int, settings: SceneSettings) -> Part:
    if position >= max(0, chat_length - settings.current_scene_messages):
        return Part.CURRENT_SCENE
    if position >= max(0, chat_length - settings.leading_up_messages):
        return Part.LEADING_UP
    return Part.STORY_SO_FAR
