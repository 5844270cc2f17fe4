"""Who is there, and what they may know: presence and the point of view (specification §5.6)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from memory_retrievers.messages import Message
from memory_retrievers.models import EpisodicMemory
from memory_retrievers.scene_records import CharacterState, SceneDetails
from memory_retrievers.text import caseless, one_line


def known_to(
    pov: Collection[str], episodes: Sequence[EpisodicMemory], *, characters: Iterable[CharacterState] = ()
) -> list[EpisodicMemory]:
    """What at least one of the characters knows, in the order given.

    A character knows what it witnessed, what is no secret and it took part in, and the events its state lists. Names
    are compared without regard to case. Without a point of view everything is known; and so it is if nothing would be
    left, since a story without a past helps nobody.

    Args:
        pov: The characters from whose point of view is told.
        episodes: Episodes with a ``scene``; one without is known to nobody.
        characters: The states of the characters of the story.
    """
    names = {caseless(name) for name in pov}
    if not names:
        return list(episodes)
    listed = {known for state in characters if caseless(state.name) in names for known in state.known_events}
    told = [
        episode
        for episode in episodes
        if episode.scene is not None and (episode.id in listed or _has_seen(names, episode.scene))
    ]
    return told or list(episodes)


def present_in(messages: Sequence[Message], names: Iterable[str]) -> list[str]:
    """Those of the names that speak or are named in the messages, in the order given.

    Names are found as whole words, without regard to case.

    >>> present_in([Message(role="Mira", content="Is that Bob?")], ["Bob", "Bo", "Mira"])
    ['Bob', 'Mira']
    """
    text = "\n".join(f"{one_line(message.role)}\n{one_line(message.content)}" for message in messages).casefold()
    return [name for name in names if _is_named(caseless(name), text)]


def _has_seen(names: Collection[str], details: SceneDetails) -> bool:
    if any(caseless(name) in names for name in details.witnesses):
        return True
    return not details.is_secret and any(caseless(name) in names for name in details.characters_involved)


def _is_named(name: str, text: str) -> bool:
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
