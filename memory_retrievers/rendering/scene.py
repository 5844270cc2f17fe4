"""Scene memory: the ``<scene_memory>`` block that tells a model its story so far (specification §5.3 and §5.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from memory_retrievers.models import EpisodicMemory
from memory_retrievers.rendering.scene_budget import (
    affordable,
    affordable_upstream,
    by_priority,
    estimate_scene_tokens,
)
from memory_retrievers.rendering.scene_timeline import Part, PlacedEvent, placed, separator
from memory_retrievers.scene_records import NEUTRAL, CharacterState
from memory_retrievers.settings import SceneSettings
from memory_retrievers.text import caseless, one_line

DEFAULT_BUDGET: Final = 10_000
"""Tokens; what the block this one is modelled on allows itself."""

_DEFAULT_SETTINGS: Final = SceneSettings()


def scene_block(
    episodes: Sequence[EpisodicMemory],
    *,
    chat_length: int,
    present: Sequence[str] = (),
    characters: Sequence[CharacterState] = (),
    pov: Collection[str] = (),
    budget: int = DEFAULT_BUDGET,
    settings: SceneSettings = _DEFAULT_SETTINGS,
    scores: Mapping[str, float] | None = None,
    token_counter: Callable[[str], int] = estimate_scene_tokens,
) -> str:
    """The block, events in the order of the story; without any it is a frame that says how long the chat is.

    Args:
        episodes: Those with a ``scene`` are told; the others are left out. Which of them a character may know is for
            the caller to choose.
        chat_length: How many messages the chat has.
        present: Who is there, in the order in which they are named.
        characters: How the characters feel; of the first whose emotion is not neutral it is told.
        pov: From whose point of view it is told; they are not named as present.
        budget: So many tokens at most, by ``token_counter``; the frame (header and characters) is told in any case.
            Under ``budget_policy="upstream"`` it is a rough measure.
        settings: What is shown, and what gives way.
        scores: By id of the episode; the events with the highest are told if not all fit. None leaves it to
            ``settings.budget_policy``.
        token_counter: What a text costs.
    """
    events = placed(episodes, chat_length=chat_length, settings=settings)
    people = list(_people(present, characters, pov=pov, settings=settings))
    if scores is None and settings.budget_policy == "upstream":
        room = budget - _upstream_overhead(events, people, chat_length=chat_length, token_counter=token_counter)
        chosen = affordable_upstream(events, room=room, token_counter=token_counter)
        return _block(chosen, people=people, chat_length=chat_length, settings=settings)

    frame = _block([], people=people, chat_length=chat_length, settings=settings)
    claims = affordable(
        by_priority(events, scores=scores),
        room=budget - token_counter(frame),
        shown=[Part.CURRENT_SCENE] if people else [],
        settings=settings,
        token_counter=token_counter,
    )
    block = _block(claims, people=people, chat_length=chat_length, settings=settings)
    while claims and token_counter(block) > budget:  # for a counter that finds more in the whole than in its lines
        claims.pop()
        block = _block(claims, people=people, chat_length=chat_length, settings=settings)
    return block


def _block(events: Sequence[PlacedEvent], *, people: Sequence[str], chat_length: int, settings: SceneSettings) -> str:
    """The whole block, the events in the order of the story, whatever order they are given in."""
    ordered = sorted(events, key=lambda event: event.order)
    told = {part: list(_told([each for each in ordered if each.part is part], settings=settings)) for part in Part}
    lines = ["<scene_memory>", f"(#{chat_length} messages)", ""]
    for part in Part:
        below = [*people] if part is Part.CURRENT_SCENE else []
        if below and told[part]:
            below.append("")
        below += told[part]
        if below:
            lines += [part, *below, ""]
    return "\n".join((*lines, "</scene_memory>"))


def _told(events: Iterable[PlacedEvent], *, settings: SceneSettings) -> Iterator[str]:
    """The lines of the events of one part, with the separators between them."""
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
    """The lines about characters, which stand at the head of the current scene."""
    own = {caseless(name) for name in pov}
    if settings.emotional_state:
        yield from _emotional_state(characters, own=own)
    names = dict.fromkeys(one_line(name) for name in present if caseless(name) not in own)
    if others := ", ".join(filter(None, names)):
        yield f"Present: {others}"
    if settings.trajectories:
        yield from _trajectories(characters, settings=settings)
        return
    feeling = [state for state in characters if _is_told(state.current_emotion)][: settings.most_emotions]
    if feeling:
        emotions = (f"{one_line(state.name)} {one_line(state.current_emotion)}" for state in feeling)
        yield f"Emotions: {', '.join(emotions)}"


def _emotional_state(characters: Iterable[CharacterState], *, own: Collection[str]) -> Iterator[str]:
    """What the first of the characters feels from whose point of view it is told, and as of when."""
    state = next((each for each in characters if caseless(each.name) in own and _is_told(each.current_emotion)), None)
    if state is None:
        return
    span, since = state.emotion_from_messages, ""
    if span is not None:
        since = f" (as of msg #{span.min})" if span.min == span.max else f" (as of msgs #{span.min}-{span.max})"
    yield f"Emotional state: {one_line(state.current_emotion)}{since}"


def _trajectories(characters: Iterable[CharacterState], *, settings: SceneSettings) -> Iterator[str]:
    """What each character felt one after the other."""
    felt = [(one_line(state.name), _emotions(state)[-settings.shifts_per_character :]) for state in characters]
    told = [f"- {name}: {' → '.join(emotions)}" for name, emotions in felt if emotions][: settings.most_emotions]
    if told:
        yield from ("", "Recent emotions:", *told)


def _emotions(state: CharacterState) -> list[str]:
    """The emotions of a character's shifts, oldest first, none twice in a row."""
    told = (one_line(shift.emotion) for shift in state.shifts if _is_told(shift.emotion))
    return [emotion for emotion, _ in groupby(told)]


def _is_told(emotion: str) -> bool:
    return caseless(emotion) not in {"", NEUTRAL}


def _upstream_overhead(
    events: Iterable[PlacedEvent], people: Sequence[str], *, chat_length: int, token_counter: Callable[[str], int]
) -> int:
    """What header, closing tag, headings and people cost, each counted by itself."""
    parts = {event.part for event in events} | ({Part.CURRENT_SCENE} if people else set())
    frame = f"<scene_memory>\n(#{chat_length} messages)\n\n</scene_memory>"
    return sum(map(token_counter, (frame, *parts, *people)))
