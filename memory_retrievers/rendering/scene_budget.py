"""Which events of a story fit into a block of so many tokens (specification §5.5)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from memory_retrievers.rendering.scene_timeline import Part, PlacedEvent, separator
from memory_retrievers.settings import SceneSettings

_LINE_BREAK: Final = 1
"""What the end of a line costs, rounded up."""

_UPSTREAM_EXTRA: Final = 5
"""What the block this one is modelled on adds to the estimate of each summary."""

_PRIORITY: Final = {Part.CURRENT_SCENE: 0, Part.LEADING_UP: 1, Part.STORY_SO_FAR: 2}


def estimate_scene_tokens(text: str) -> int:
    """About how many tokens a text costs: its characters by 3.5, rounded up.

    >>> estimate_scene_tokens("Hello world"), estimate_scene_tokens("")
    (4, 0)
    """
    return -(-2 * len(text) // 7)


def by_priority(events: Iterable[PlacedEvent], *, scores: Mapping[str, float] | None = None) -> list[PlacedEvent]:
    """The events in the order in which they may claim room.

    That is the current scene, then what led up to it, each from the newest; then the most important of the story so
    far, the newer first. With scores it is the highest score, the newer first; without one an event comes last.
    """
    if scores is not None:
        return sorted(events, key=lambda event: (-scores.get(event.id, float("-inf")), -event.order))
    return sorted(events, key=_priority)


def affordable(
    events: Iterable[PlacedEvent],
    *,
    room: int,
    shown: Iterable[Part],
    settings: SceneSettings,
    token_counter: Callable[[str], int],
) -> list[PlacedEvent]:
    """The events that fit, in the order given: each in turn is taken if there is room left for it.

    An event that is too long is passed over and does not keep the others out. It is charged with its line, with the
    heading it is the first under, and with the separators it brings.

    Args:
        events: In the order in which they may claim room.
        room: How many tokens the frame leaves.
        shown: The parts that the frame shows anyway.
        settings: When there are separators.
        token_counter: What a text costs.
    """
    selection = _Selection(room, shown=shown, settings=settings, token_counter=token_counter)
    return [event for event in events if selection.take(event)]


def affordable_upstream(
    events: Iterable[PlacedEvent], *, room: int, token_counter: Callable[[str], int]
) -> list[PlacedEvent]:
    """The events from the oldest part on, up to the first that does not fit: how the model of this block chooses.

    Args:
        events: From the oldest.
        room: How many tokens the frame and all headings leave.
        token_counter: What a text costs.
    """
    chosen = []
    for event in sorted(events, key=lambda event: -_PRIORITY[event.part]):
        room -= token_counter(event.summary) + _UPSTREAM_EXTRA
        if room < 0:
            break
        chosen.append(event)
    return chosen


def _priority(event: PlacedEvent) -> tuple[int, int, int]:
    stars = event.stars if event.part is Part.STORY_SO_FAR else 0
    return _PRIORITY[event.part], -stars, -event.order


class _Selection:
    """Events that have been given room, and what is left of it."""

    def __init__(
        self, room: int, *, shown: Iterable[Part], settings: SceneSettings, token_counter: Callable[[str], int]
    ) -> None:
        self._room = room
        self._shown = set(shown)
        self._settings = settings
        self._count = token_counter
        self._parts: dict[Part, list[PlacedEvent]] = {part: [] for part in Part}

    def take(self, event: PlacedEvent) -> bool:
        """Whether there was room for the event; if so it is charged."""
        chosen = self._parts[event.part]
        place = bisect(chosen, event.order, key=lambda other: other.order)
        cost = self._cost(event.line) + self._opening(event) + self._pauses(event, chosen, place)
        if cost > self._room:
            return False
        self._room -= cost
        chosen.insert(place, event)
        return True

    def _opening(self, event: PlacedEvent) -> int:
        """The heading and the blank line below the part, or the blank line between people and events."""
        if self._parts[event.part]:
            return 0
        return self._cost("") if event.part in self._shown else self._cost(f"{event.part}\n")

    def _pauses(self, event: PlacedEvent, chosen: Sequence[PlacedEvent], place: int) -> int:
        """The separators beside the event, less the one that it takes the place of."""
        before = chosen[place - 1] if place else None
        cost = self._pause(before, event)
        if place < len(chosen):
            cost += self._pause(event, chosen[place]) - self._pause(before, chosen[place])
        return cost

    def _pause(self, before: PlacedEvent | None, event: PlacedEvent) -> int:
        text = separator(before, event, settings=self._settings)
        return 0 if text is None else self._cost(text)

    def _cost(self, text: str) -> int:
        return self._count(text) + _LINE_BREAK
