"""How many tokens a story costs in the ``<scene_memory>`` block, against the older layout it takes the place of.

Both tell the same twenty events. The older layout shows summaries of 12 to 32 words, says of each what it follows and
what it made everybody feel; ours shows summaries of 8 to 18 words and tells emotions once, of the present. What does
not differ (parts, pauses, stars) is the same in both. Fails if ours costs more than 0.6 of the older one.

    python benchmarks/scene_tokens.py --show
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from scene_story import CHAT_LENGTH, POINT_OF_VIEW, PRESENT, STORY

from memory_retrievers.models import EpisodicMemory
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.scene.events import drafts_of, updated
from memory_retrievers.scene.render import Part, PlacedEvent, placed, scene_block, separator
from memory_retrievers.settings import SceneSettings
from memory_retrievers.storage.store import complete
from memory_retrievers.text.analysis import estimate_scene_tokens

MOST: Final = 0.6
IMMEDIATELY_AFTER: Final = 5
SHORTLY_AFTER: Final = 15
"""So many messages after the event before, or fewer."""

SETTINGS: Final = SceneSettings()


def after() -> str:
    """The story in our layout."""
    episodes, characters = _stored(verbose=False)
    return scene_block(
        episodes,
        chat_length=CHAT_LENGTH,
        present=PRESENT,
        characters=characters,
        pov=[POINT_OF_VIEW],
        settings=SETTINGS,
    )


def before(*, verbose: bool = True) -> str:
    """The story in the older layout (specification §5.7)."""
    episodes, characters = _stored(verbose=verbose)
    by_id = {episode.id: episode for episode in episodes}
    events = placed(episodes, chat_length=CHAT_LENGTH, settings=SETTINGS)
    lines = ["<scene_memory>", f"(Current chat has #{CHAT_LENGTH} messages)", ""]
    for part in Part:
        lines.append(part)
        if part is Part.CURRENT_SCENE:
            lines += [*_people(characters), ""]
        previous = None
        for event in (each for each in events if each.part is part):
            lines += _older_lines(by_id[event.id], event, previous)
            previous = event
        lines.append("")
    return "\n".join((*lines, "</scene_memory>"))


def _stored(*, verbose: bool) -> tuple[list[EpisodicMemory], list[CharacterState]]:
    """The story as a memory would hand it out."""
    events = [
        told.event.model_copy(update={"id": f"e{number}"} | ({"summary": told.verbose} if verbose else {}))
        for number, told in enumerate(STORY)
    ]
    now = datetime(2026, 3, 1, tzinfo=UTC)
    episodes = [complete(draft, now=now) for draft in drafts_of("marrow", events)]
    scenes = [episode for episode in episodes if isinstance(episode, EpisodicMemory)]
    return scenes, updated([], scenes)


def _people(characters: list[CharacterState]) -> Iterator[str]:
    own = next(state for state in characters if state.name == POINT_OF_VIEW)
    span = own.emotion_from_messages
    assert span is not None
    yield f"Emotional state: {own.current_emotion} (as of msgs #{span.min}-{span.max})"
    yield f"Present: {', '.join(name for name in PRESENT if name != POINT_OF_VIEW)}"


def _older_lines(episode: EpisodicMemory, event: PlacedEvent, previous: PlacedEvent | None) -> Iterator[str]:
    details = episode.scene
    assert details is not None
    pause = separator(previous, event, settings=SETTINGS)
    if pause is not None:
        yield pause
    yield f"[{'★' * event.stars}] {'[Secret] ' if details.is_secret else ''}{event.summary}"
    gap = event.position - previous.position if previous else SHORTLY_AFTER
    if gap < IMMEDIATELY_AFTER:
        yield "    ⤷ IMMEDIATELY AFTER"
    elif gap < SHORTLY_AFTER:
        yield "    ⤷ Shortly after"
    if details.emotional_impact:
        feelings = ", ".join(f"{name} feels {emotion}" for name, emotion in details.emotional_impact.items())
        yield f"    💔 Emotional: {feelings}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--show", action="store_true", help="print both blocks too")
    older, ours = before(), after()
    if arguments.parse_args().show:
        print(f"{older}\n\n{ours}\n")
    print(f"{len(STORY)} events; a token is 3.5 characters")
    named = {"older layout": older, "older layout, terse summaries": before(verbose=False), "<scene_memory>": ours}
    for name, block in named.items():
        print(f"{name:<30}{estimate_scene_tokens(block):>6} tokens{len(block):>7} characters")
    ratio = estimate_scene_tokens(ours) / estimate_scene_tokens(older)
    print(f"{'after / before':<30}{ratio:>6.2f} (at most {MOST})")
    sys.exit(ratio > MOST)


if __name__ == "__main__":
    main()
