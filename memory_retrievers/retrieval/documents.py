"""Retrieved memories as documents for the frameworks."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Unpack

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.models.results import Explanation, RetrievedMemory
from memory_retrievers.protocols import Memory
from memory_retrievers.retrieval.excerpts import best_excerpts, excerpt_line, matched_turns
from memory_retrievers.retrieval.markdown import is_told_by_turns, message_line, plan_of_level
from memory_retrievers.retrieval.request import SearchOptions
from memory_retrievers.text import one_line
from memory_retrievers.text.dates import iso

SCORE_KEYS: Final = ("relevance_score", "fused_score", "retrievability", "dense_rank", "bm25_rank")
"""Metadata keys of the explanation of a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDocument:
    """A retrieved memory as a document.

    Attributes:
        id: The memory's id.
        text: A fact as it is; an episode's title and summary, each on a line, and the messages of the level of detail.
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
    """Merge both kinds into one list by descending score; at equal scores facts come first.

    Args:
        facts: In rank order.
        episodes: In rank order.
        detail: Which episodes bring their messages along (specification §2.6); with ``excerpts``, each those that
            match.
    """
    excerpts = detail is DetailLevel.EXCERPTS
    if excerpts:
        plan = best_excerpts(facts, episodes, turns=matched_turns(episodes))
    else:
        plan = plan_of_level(facts, episodes, detail=detail)
    by_turns = (is_told_by_turns(episode, detail=detail) for episode in episodes)
    lines = (_message_lines(episode, plan.episodes[place], excerpts=excerpts) for place, episode in enumerate(episodes))
    both = [*map(_fact, facts), *map(_episode, episodes, lines, by_turns)]
    return sorted(both, key=lambda document: -document.score)


def _fact(fact: RetrievedMemory[SemanticMemory]) -> MemoryDocument:
    memory = fact.memory
    described = {"category": memory.category.value, "created_at": iso(memory.created_at)}
    return _document(fact, text=memory.fact, described=described)


def _message_lines(episode: RetrievedMemory[EpisodicMemory], places: frozenset[int], *, excerpts: bool) -> list[str]:
    line = excerpt_line if excerpts else message_line
    return [line(message) for place, message in enumerate(episode.memory.messages) if place in places]


def _episode(episode: RetrievedMemory[EpisodicMemory], messages: Sequence[str], by_turns: bool) -> MemoryDocument:
    memory = episode.memory
    lines = [one_line(memory.title), *([] if by_turns and messages else [one_line(memory.summary)]), *messages]
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


def find_documents(
    memory: Memory,
    query: str,
    *,
    scope: str,
    k: int,
    detail: DetailLevel,
    **options: Unpack[SearchOptions],
) -> list[MemoryDocument]:
    """Retrieve the ``k`` best memories of both kinds together, best first.

    Args:
        memory: Memory to search.
        query: Text to search for.
        scope: Scope to search.
        k: Largest number of documents, 1 or more.
        detail: Level of detail of an episode's text.
        **options: Category, filters and the like; those that are empty are left out.

    Raises:
        ValidationError: ``k`` is below 1, the query is empty, or the scope or an option is wrong.
    """
    if k < 1:
        raise ValidationError(f"k must be at least 1, not {k}")
    given = SearchOptions(**{name: value for name, value in options.items() if value not in (None, (), False)})  # type: ignore[typeddict-item]
    result = memory.retrieve(query, scope=scope, episodic_limit=k, semantic_limit=k, limit=k, **given)
    return documents(result.semantic, result.episodic, detail=detail)
