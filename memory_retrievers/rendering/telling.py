"""Tellings: which of the retrieved memories a block tells, and how deep each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from memory_retrievers.models import DetailLevel, EpisodicMemory, SemanticMemory
from memory_retrievers.retrieved import RetrievedMemory

_DETAILED_RANKS: Final = {DetailLevel.NONE: 0, DetailLevel.LOW: 1, DetailLevel.AUTO: 2}
"""Up to which rank a key moment is told with its messages; ``HIGH`` tells those of every episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What of a result is told. Memories and messages are named by their places in it, from 0.

    Attributes:
        facts: The facts that are told.
        episodes: Of each episode that is told, the messages that are; with none of them it is told by its summary.
    """

    facts: frozenset[int] = frozenset()
    episodes: Mapping[int, frozenset[int]] = field(default_factory=dict)


def telling_of_level(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    detail: DetailLevel,
) -> Telling:
    """Every memory, and the messages of those episodes that a specified level tells in detail."""
    return Telling(
        facts=frozenset(range(len(facts))),
        episodes={place: detailed_messages(episode, detail=detail) for place, episode in enumerate(episodes)},
    )


def detailed_messages(episode: RetrievedMemory[EpisodicMemory], *, detail: DetailLevel) -> frozenset[int]:
    """The messages that a specified level tells of an episode: all or none."""
    detailed = tells_details(detail, rank=episode.rank, key_moment=episode.memory.is_key_moment)
    return frozenset(range(len(episode.memory.messages))) if detailed else frozenset()


def tells_details(detail: DetailLevel, *, rank: int, key_moment: bool) -> bool:
    """Whether an episode is told with all its messages (the table of specification §2.6); never with excerpts."""
    return detail == DetailLevel.HIGH or (key_moment and rank <= _DETAILED_RANKS.get(detail, 0))
