"""Markdown: the blocks a model reads (specification §2.6, §2.9 and §2.17).

The texts in them were written by users and models, so none may become structure: one-line fields are collapsed,
messages are JSON literals, and a role cannot begin a heading, a list, a fence or a link definition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from memory_retrievers.messages import Message
from memory_retrievers.models import EpisodicMemory, SemanticMemory
from memory_retrievers.rendering.relative_time import relative_time
from memory_retrievers.rendering.telling import Telling
from memory_retrievers.retrieved import RetrievedMemory
from memory_retrievers.text import one_line, quote

NO_MEMORIES = "No relevant memories found."
"""What a tool answers in place of an empty block."""

NO_RECENT_MEMORIES = "No recent memories found."
"""What stands in place of a block of recent memories without any."""

_BLOCK_START = re.compile(r"^(?:(?=[#>+*`~<\[-])|([0-9]{1,9})(?=[.)] ))")
"""Where a backslash keeps a role from beginning a block: before the mark, or behind the number of a list item."""


def told_block(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    telling: Telling,
    *,
    now: datetime,
    fact_display_length: int | None = None,
) -> str:
    """A telling in the form of specification §2.6: facts first, then each episode by its summary and its messages.

    A section without memories is left out, and with none at all nothing is left.

    Args:
        facts: In rank order.
        episodes: In rank order.
        telling: Which of them to tell, and how deep.
        now: The moment from which "2 days ago" is counted.
        fact_display_length: Longer facts are cut to this many characters, the last being ``…``; None keeps them whole.
    """
    stories = [
        _story(episode, now=now, messages=telling.episodes[place])
        for place, episode in enumerate(episodes)
        if place in telling.episodes
    ]
    return two_sections(fact_lines(facts, telling, display_length=fact_display_length), stories)


def two_sections(facts: Sequence[str], stories: Sequence[str]) -> str:
    """The lines of facts and the stories of episodes, each under its heading; a section of nothing is left out."""
    sections = []
    if facts:
        sections.append("\n".join(("## Semantic Memory", *facts)))
    if stories:
        sections.append("\n\n".join(("## Episodic Memories", *stories)))
    return "\n\n".join(sections)


def recent_block(episodes: Sequence[EpisodicMemory], *, now: datetime) -> str:
    """The newest episodes, in the order given, or :data:`NO_RECENT_MEMORIES`."""
    if not episodes:
        return NO_RECENT_MEMORIES
    return "\n\n".join(("## Recent Memories", *(_recent_story(episode, now=now) for episode in episodes)))


def fact_lines(
    facts: Sequence[RetrievedMemory[SemanticMemory]], telling: Telling, *, display_length: int | None
) -> list[str]:
    """A line for each fact that is told, in rank order."""
    return [_fact_line(fact.memory, display_length) for place, fact in enumerate(facts) if place in telling.facts]


def _fact_line(memory: SemanticMemory, display_length: int | None) -> str:
    sources = len(set(memory.source_episodic_ids))
    plural = "" if sources == 1 else "s"
    text = _shortened(one_line(memory.fact), display_length)
    return f"- [{memory.category}] {text} (sources: {sources} conversation{plural})"


def _shortened(text: str, length: int | None) -> str:
    return text if length is None or len(text) <= length else f"{text[: length - 1]}…"


def _story(episode: RetrievedMemory[EpisodicMemory], *, now: datetime, messages: frozenset[int]) -> str:
    memory, rank = episode.memory, episode.rank
    title = one_line(memory.title) or f"Memory {rank}"
    key_moment = ", key moment" if memory.is_key_moment else ""
    lines = [f"### {title} [rank: {rank}, score: {episode.score:.2f}{key_moment}]", *_gist(memory, now=now)]
    if messages:
        told = (message for place, message in enumerate(memory.messages) if place in messages)
        lines += ["", "**Details:**", *map(message_line, told)]
    return "\n".join(lines)


def _recent_story(memory: EpisodicMemory, *, now: datetime) -> str:
    title = one_line(memory.title) or "Memory"
    key_moment = " (key moment)" if memory.is_key_moment else ""
    return "\n".join((f"### {title}{key_moment}", *_gist(memory, now=now)))


def _gist(memory: EpisodicMemory, *, now: datetime) -> tuple[str, str]:
    return f"**When:** {relative_time(memory.end_at, now=now)}", f"**Summary:** {one_line(memory.summary)}"


def message_line(message: Message) -> str:
    """A message as a bullet: who, and what as a JSON literal."""
    return f"- {speaker(message.role.lower())}: {quote(message.content)}"


def speaker(role: str) -> str:
    """A role on one line, unable to begin a block."""
    return _BLOCK_START.sub(r"\1\\", one_line(role) or "unknown")
