"""Markdown: the blocks a model reads (specification §2.6, §2.9 and §2.17).

The texts in them were written by users and models, so none may become structure: one-line fields are collapsed,
messages are JSON literals, and a role cannot begin a heading, a list, a fence or a link definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memory_retrievers.messages import Message
from memory_retrievers.models import DetailLevel, EpisodicMemory, SemanticMemory
from memory_retrievers.rendering.relative_time import relative_time
from memory_retrievers.retrieved import RetrievedMemory
from memory_retrievers.text import one_line, quote

NO_MEMORIES = "No relevant memories found."
"""What a tool answers in place of an empty block."""

NO_RECENT_MEMORIES = "No recent memories found."
"""What stands in place of a block of recent memories without any."""

_DETAILED_RANKS = {DetailLevel.NONE: 0, DetailLevel.LOW: 1, DetailLevel.AUTO: 2}
"""Up to which rank a key moment is told with its messages; ``HIGH`` tells those of every episode."""

_BLOCK_START = re.compile(r"^(?:(?=[#>+*`~<\[-])|([0-9]{1,9})(?=[.)] ))")
"""Where a backslash keeps a role from beginning a block: before the mark, or behind the number of a list item."""


def memory_block(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    now: datetime,
    detail: DetailLevel = DetailLevel.AUTO,
    fact_display_length: int | None = None,
) -> str:
    """What was retrieved, facts first; a section without memories is left out, and with none at all nothing is left.

    Args:
        facts: In rank order.
        episodes: In rank order.
        now: The moment from which "2 days ago" is counted.
        detail: Which episodes are told with their messages.
        fact_display_length: Longer facts are cut to this many characters, the last being ``…``; None keeps them whole.
    """
    sections = []
    if facts:
        sections.append("\n".join(_fact_lines(facts, fact_display_length)))
    if episodes:
        stories = (_story(episode, now=now, detail=detail) for episode in episodes)
        sections.append("\n\n".join(("## Episodic Memories", *stories)))
    return "\n\n".join(sections)


def recent_block(episodes: Sequence[EpisodicMemory], *, now: datetime) -> str:
    """The newest episodes, in the order given, or :data:`NO_RECENT_MEMORIES`."""
    if not episodes:
        return NO_RECENT_MEMORIES
    return "\n\n".join(("## Recent Memories", *(_recent_story(episode, now=now) for episode in episodes)))


def _fact_lines(facts: Sequence[RetrievedMemory[SemanticMemory]], display_length: int | None) -> Iterator[str]:
    yield "## Semantic Memory"
    for fact in facts:
        memory = fact.memory
        sources = len(set(memory.source_episodic_ids))
        plural = "" if sources == 1 else "s"
        text = _shortened(one_line(memory.fact), display_length)
        yield f"- [{memory.category}] {text} (sources: {sources} conversation{plural})"


def _shortened(text: str, length: int | None) -> str:
    return text if length is None or len(text) <= length else f"{text[: length - 1]}…"


def _story(episode: RetrievedMemory[EpisodicMemory], *, now: datetime, detail: DetailLevel) -> str:
    memory, rank = episode.memory, episode.rank
    title = one_line(memory.title) or f"Memory {rank}"
    key_moment = ", key moment" if memory.is_key_moment else ""
    lines = [f"### {title} [rank: {rank}, score: {episode.score:.2f}{key_moment}]", *_gist(memory, now=now)]
    if memory.messages and tells_details(detail, rank=rank, key_moment=memory.is_key_moment):
        lines += ["", "**Details:**", *map(message_line, memory.messages)]
    return "\n".join(lines)


def _recent_story(memory: EpisodicMemory, *, now: datetime) -> str:
    title = one_line(memory.title) or "Memory"
    key_moment = " (key moment)" if memory.is_key_moment else ""
    return "\n".join((f"### {title}{key_moment}", *_gist(memory, now=now)))


def _gist(memory: EpisodicMemory, *, now: datetime) -> tuple[str, str]:
    return f"**When:** {relative_time(memory.end_at, now=now)}", f"**Summary:** {one_line(memory.summary)}"


def tells_details(detail: DetailLevel, *, rank: int, key_moment: bool) -> bool:
    """Whether an episode is told with its messages (the table of specification §2.6)."""
    return detail == DetailLevel.HIGH or (key_moment and rank <= _DETAILED_RANKS[detail])


def message_line(message: Message) -> str:
    """A message as a bullet: who, and what as a JSON literal."""
    return f"- {_role(message)}: {quote(message.content)}"


def _role(message: Message) -> str:
    role = one_line(message.role.lower()) or "unknown"
    return _BLOCK_START.sub(r"\1\\", role)
