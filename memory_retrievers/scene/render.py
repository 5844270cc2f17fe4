"""Rendering of a story as the ``<scene_memory>`` block of a prompt, within a budget (specification §5.2 to §5.5)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from memory_retrievers.models import EpisodicMemory
from memory_retrievers.models.scenes import NEUTRAL, SEQUENCE_STEP, CharacterState, SceneDetails
from memory_retrievers.settings import SCENE_BUDGET, SceneSettings
from memory_retrievers.text.analysis import caseless, estimate_scene_tokens, one_line

KNOWN_FROM: Final = 3  # number of witnesses from which on an event is known to all, unless it is a secret


class Part(StrEnum):
    """A part of the block by its heading, in the order of the block."""

    STORY_SO_FAR = "## The Story So Far"
    LEADING_UP = "## Leading Up To This Moment"
    CURRENT_SCENE = "## Current Scene"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEvent:
    """An event with its place in the block."""

    id: str  # that of its episode
    summary: str  # what happened, on one line
    line: str  # its line in the block
    stars: int  # 1 to 5
    position: int  # the message of the chat in which it happens
    part: Part  # the part it falls into
    order: int  # its place among all events of the story, from the oldest


def placed(episodes: Sequence[EpisodicMemory], *, chat_length: int, settings: SceneSettings) -> list[PlacedEvent]:
    """The scenes among the episodes, from the oldest; what is no scene is left out.

    Args:
        episodes: In any order; of two with the same sequence the first stays first.
        chat_length: How many messages the chat has.
        settings: The borders of the parts.
    """
    scenes = [(episode, episode.scene) for episode in episodes if episode.scene is not None]
    events = []
    for order, (episode, details) in enumerate(sorted(scenes, key=lambda scene: scene[1].sequence or 0)):
        position, summary = position_of(details), one_line(episode.summary)
        known = "[Known] " if not details.is_secret and len(details.witnesses) >= KNOWN_FROM else ""
        event = PlacedEvent(
            id=episode.id,
            summary=summary,
            line=f"[{'★' * details.importance}] {known}{summary}",
            stars=details.importance,
            position=position,
            part=_part_of(position, chat_length=chat_length, settings=settings),
            order=order,
        )
        events.append(event)
    return events


def position_of(details: SceneDetails) -> int:
    """Message number of an event: the mean of its messages, half rounded up as JavaScript does.

    Without messages it is taken from the sequence, and is 0 without that.

    >>> position_of(SceneDetails(message_ids=(2, 3))), position_of(SceneDetails(sequence=5_000))
    (3, 5)
    """
    if details.message_ids:
        count = len(details.message_ids)
        return (2 * sum(details.message_ids) + count) // (2 * count)  # in whole numbers, which stay exact
    return (details.sequence or 0) // SEQUENCE_STEP


def separator(before: PlacedEvent | None, event: PlacedEvent, *, settings: SceneSettings) -> str | None:
    """Choose the text between two events that are rendered one after the other; None for nothing.

    Args:
        before: The event rendered before; None if there is none.
        event: The event after the separator.
        settings: Numbers of messages from which on a pause is marked.
    """
    if before is None or event.part is not Part.STORY_SO_FAR:
        return None
    gap = event.position - before.position
    if gap >= settings.much_later_messages:
        return "\n...Much later...\n"
    if gap >= settings.later_messages:
        return "\n...Later...\n"
    return "\n...\n" if gap >= settings.pause_messages else None


def _part_of(position: int, *, chat_length: int, settings: SceneSettings) -> Part:
    if position >= max(0, chat_length - settings.current_scene_messages):
        return Part.CURRENT_SCENE
    if position >= max(0, chat_length - settings.leading_up_messages):
        return Part.LEADING_UP
    return Part.STORY_SO_FAR


_UPSTREAM_EXTRA: Final = 5
"""Tokens that the reference implementation of this block adds to the estimate of each summary."""

_PRIORITY: Final = {Part.CURRENT_SCENE: 0, Part.LEADING_UP: 1, Part.STORY_SO_FAR: 2}


def by_priority(events: Iterable[PlacedEvent], *, scores: Mapping[str, float] | None = None) -> list[PlacedEvent]:
    """The events in the order in which they may claim room.

    That is the current scene, then what led up to it, each from the newest; then the most important of the story so
    far, the newer first. With scores it is the highest score, the newer first; without one an event comes last.
    """
    if scores is not None:
        return sorted(events, key=lambda event: (-scores.get(event.id, float("-inf")), -event.order))
    return sorted(
        events,
        key=lambda each: (_PRIORITY[each.part], -each.stars if each.part is Part.STORY_SO_FAR else 0, -each.order),
    )


def _affordable_upstream(events: Iterable[PlacedEvent], *, room: int) -> list[PlacedEvent]:
    """The events from the oldest part on, up to the first that does not fit: how the model of this block chooses."""
    chosen = []
    for event in sorted(events, key=lambda event: -_PRIORITY[event.part]):
        room -= estimate_scene_tokens(event.summary) + _UPSTREAM_EXTRA
        if room < 0:
            break
        chosen.append(event)
    return chosen


class _Selection:
    """Events that have been given room, and what is left of it.

    Each is charged with its line, with the heading it is the first under, and with the separators it brings; one that
    is too long does not keep the others out. ``shown`` are the parts that the frame shows anyway.
    """

    def __init__(self, room: int, *, shown: Iterable[Part], settings: SceneSettings) -> None:
        self._room = room
        self._shown = set(shown)
        self._settings = settings
        self._parts: dict[Part, list[PlacedEvent]] = {part: [] for part in Part}

    def take(self, event: PlacedEvent) -> bool:
        """Charge the event if there is room for it, and return True if there was."""
        chosen = self._parts[event.part]
        place = bisect(chosen, event.order, key=lambda other: other.order)
        cost = _cost(event.line) + self._opening(event) + self._pauses(event, chosen, place)
        if cost > self._room:
            return False
        self._room -= cost
        chosen.insert(place, event)
        return True

    def _opening(self, event: PlacedEvent) -> int:
        """The heading and the blank line below the part, or the blank line between people and events."""
        if self._parts[event.part]:
            return 0
        return _cost("") if event.part in self._shown else _cost(f"{event.part}\n")

    def _pauses(self, event: PlacedEvent, chosen: Sequence[PlacedEvent], place: int) -> int:
        """The separators beside the event, less the one that it takes the place of."""
        before = chosen[place - 1] if place else None
        cost = self._pause(before, event)
        if place < len(chosen):
            cost += self._pause(event, chosen[place]) - self._pause(before, chosen[place])
        return cost

    def _pause(self, before: PlacedEvent | None, event: PlacedEvent) -> int:
        text = separator(before, event, settings=self._settings)
        return 0 if text is None else _cost(text)


def _cost(text: str) -> int:
    return estimate_scene_tokens(text) + 1  # for the line break, rounded up


_DEFAULT_SETTINGS: Final = SceneSettings()


def scene_block(
    episodes: Sequence[EpisodicMemory],
    *,
    chat_length: int,
    present: Sequence[str] = (),
    characters: Sequence[CharacterState] = (),
    pov: Collection[str] = (),
    budget: int = SCENE_BUDGET,
    settings: SceneSettings = _DEFAULT_SETTINGS,
    scores: Mapping[str, float] | None = None,
) -> str:
    """The block, events in the order of the story; without any it is a frame that says how long the chat is.

    Args:
        episodes: Those with a ``scene`` are rendered; the others are left out. Which of them a character may know is
            for the caller to choose.
        chat_length: How many messages the chat has.
        present: Who is there, in the order in which they are named.
        characters: How the characters feel; the emotions of the first that are not neutral are shown.
        pov: From whose point of view it is rendered; they are not named as present.
        budget: So many tokens at most; the frame (header and characters) is rendered in any case.
            Under ``budget_policy="upstream"`` it is a rough measure.
        settings: What is shown, and what gives way.
        scores: By id of the episode; the events with the highest are rendered if not all fit. None leaves it to
            ``settings.budget_policy``.
    """
    events = placed(episodes, chat_length=chat_length, settings=settings)
    people = list(_people(present, characters, pov=pov, settings=settings))
    if scores is None and settings.budget_policy == "upstream":
        room = budget - _upstream_overhead(events, people, chat_length=chat_length)
        chosen = _affordable_upstream(events, room=room)
        return _block(chosen, people=people, chat_length=chat_length, settings=settings)

    frame = _block([], people=people, chat_length=chat_length, settings=settings)
    shown = [Part.CURRENT_SCENE] if people else []
    selection = _Selection(budget - estimate_scene_tokens(frame), shown=shown, settings=settings)
    claims = [event for event in by_priority(events, scores=scores) if selection.take(event)]
    return _block(claims, people=people, chat_length=chat_length, settings=settings)


def _block(events: Sequence[PlacedEvent], *, people: Sequence[str], chat_length: int, settings: SceneSettings) -> str:
    ordered = sorted(events, key=lambda event: event.order)
    rendered = {
        part: list(_event_lines([each for each in ordered if each.part is part], settings=settings)) for part in Part
    }
    lines = ["<scene_memory>", f"(#{chat_length} messages)", ""]
    for part in Part:
        below = [*people] if part is Part.CURRENT_SCENE else []
        if below and rendered[part]:
            below.append("")
        below += rendered[part]
        if below:
            lines += [part, *below, ""]
    return "\n".join((*lines, "</scene_memory>"))


def _event_lines(events: Iterable[PlacedEvent], *, settings: SceneSettings) -> Iterator[str]:
    before = None
    for event in events:
        pause = separator(before, event, settings=settings)
        if pause is not None:
            yield pause
        yield event.line
        before = event


def _people(
    present: Iterable[str], characters: Sequence[CharacterState], *, pov: Collection[str], settings: SceneSettings
) -> Iterator[str]:
    own = {caseless(name) for name in pov}
    if settings.emotional_state:
        yield from _emotional_state(characters, own=own)
    names = dict.fromkeys(one_line(name) for name in present if caseless(name) not in own)
    if others := ", ".join(filter(None, names)):
        yield f"Present: {others}"
    if settings.trajectories:
        yield from _trajectories(characters, settings=settings)
        return
    if feeling := [state for state in characters if _is_shown(state.current_emotion)][: settings.most_emotions]:
        emotions = (f"{one_line(state.name)} {one_line(state.current_emotion)}" for state in feeling)
        yield f"Emotions: {', '.join(emotions)}"


def _emotional_state(characters: Iterable[CharacterState], *, own: Collection[str]) -> Iterator[str]:
    """Line with the current emotion of the first character whose point of view is taken, and its messages."""
    state = next((each for each in characters if caseless(each.name) in own and _is_shown(each.current_emotion)), None)
    if state is None:
        return
    span, since = state.emotion_from_messages, ""
    if span is not None:
        since = f" (as of msg #{span.min})" if span.min == span.max else f" (as of msgs #{span.min}-{span.max})"
    yield f"Emotional state: {one_line(state.current_emotion)}{since}"


def _trajectories(characters: Iterable[CharacterState], *, settings: SceneSettings) -> Iterator[str]:
    felt = [(one_line(state.name), _emotions(state)[-settings.shifts_per_character :]) for state in characters]
    lines = [f"- {name}: {' → '.join(emotions)}" for name, emotions in felt if emotions][: settings.most_emotions]
    if lines:
        yield from ("", "Recent emotions:", *lines)


def _emotions(state: CharacterState) -> list[str]:
    """The emotions of a character's shifts, oldest first, none twice in a row."""
    shown = (one_line(shift.emotion) for shift in state.shifts if _is_shown(shift.emotion))
    return [emotion for emotion, _ in groupby(shown)]


def _is_shown(emotion: str) -> bool:
    return caseless(emotion) not in {"", NEUTRAL}


def _upstream_overhead(events: Iterable[PlacedEvent], people: Sequence[str], *, chat_length: int) -> int:
    """Tokens of header, closing tag, headings and people, each counted by itself."""
    parts = {event.part for event in events} | ({Part.CURRENT_SCENE} if people else set())
    frame = f"<scene_memory>\n(#{chat_length} messages)\n\n</scene_memory>"
    return sum(map(estimate_scene_tokens, (frame, *parts, *people)))
