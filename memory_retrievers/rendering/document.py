"""Documents: memories as text with metadata, for frameworks that know documents or nodes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory_retrievers.models import DetailLevel, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.rendering.excerpts import best_excerpts, excerpt_line, matched_turns
from memory_retrievers.rendering.markdown import message_line
from memory_retrievers.rendering.raw import iso
from memory_retrievers.rendering.telling import telling_of_level
from memory_retrievers.retrieved import Explanation, RetrievedMemory
from memory_retrievers.text import one_line

SCORE_KEYS: Final = ("relevance_score", "fused_score", "retrievability", "dense_rank", "bm25_rank")
"""The metadata that say why a memory stands where it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDocument:
    """A retrieved memory as a document.

    Attributes:
        id: The memory's id.
        text: A fact as it is; an episode's title and summary, each on a line, and the messages that are told.
        metadata: The memory's own metadata under ours: kind, scope, category, title, created_at, start_at, end_at
            and :data:`SCORE_KEYS`, what does not apply left out. A fresh copy.
        score: The final score, in (0, 1].
    """

    id: str
    text: str
    metadata: JsonObject
    score: float


def documents(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    detail: DetailLevel = DetailLevel.AUTO,
) -> list[MemoryDocument]:
    """Both kinds in one list, by falling score; of equal scores the fact comes first.

    Args:
        facts: In rank order.
        episodes: In rank order.
        detail: Which episodes bring their messages along (specification §2.6); with ``excerpts``, each those that
            match.
    """
    excerpts = detail is DetailLevel.EXCERPTS
    if excerpts:
        telling = best_excerpts(facts, episodes, turns=matched_turns(episodes))
    else:
        telling = telling_of_level(facts, episodes, detail=detail)
    told = (_told(episode, telling.episodes[place], excerpts=excerpts) for place, episode in enumerate(episodes))
    both = [*map(_fact, facts), *map(_episode, episodes, told)]
    return sorted(both, key=lambda document: -document.score)


def _fact(fact: RetrievedMemory[SemanticMemory]) -> MemoryDocument:
    memory = fact.memory
    described = {"category": memory.category.value, "created_at": iso(memory.created_at)}
    return _document(fact, text=memory.fact, described=described)


def _told(episode: RetrievedMemory[EpisodicMemory], places: frozenset[int], *, excerpts: bool) -> list[str]:
    line = excerpt_line if excerpts else message_line
    return [line(message) for place, message in enumerate(episode.memory.messages) if place in places]


def _episode(episode: RetrievedMemory[EpisodicMemory], told: Sequence[str]) -> MemoryDocument:
    memory = episode.memory
    lines = [one_line(memory.title), one_line(memory.summary), *told]
    described = {
        "title": memory.title or None,
        "created_at": iso(memory.created_at),
        "start_at": iso(memory.start_at),
        "end_at": iso(memory.end_at),
    }
    return _document(episode, text="\n".join(filter(None, lines)), described=described)


def _document(
    retrieved: RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory],
    *,
    text: str,
    described: Mapping[str, str | None],
) -> MemoryDocument:
    memory = retrieved.memory
    ours = {"kind": memory.kind.value, "scope": memory.scope, **described, **_scores(retrieved.explanation)}
    present = {key: value for key, value in ours.items() if value is not None}
    return MemoryDocument(
        id=memory.id,
        text=text,
        metadata=copy.deepcopy(memory.metadata) | present,
        score=retrieved.score,
    )


def _scores(explanation: Explanation) -> dict[str, float | None]:
    return {
        "relevance_score": explanation.score,
        "fused_score": explanation.fused_score,
        "retrievability": explanation.retrievability,
        "dense_rank": explanation.dense_rank,
        "bm25_rank": explanation.bm25_rank,
    }
