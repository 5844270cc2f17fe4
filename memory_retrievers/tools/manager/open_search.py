"""Open episodes among the memories that the memory tools list and search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from memory_retrievers.backends.snapshot import similarities
from memory_retrievers.models import EpisodicMemory, Kind
from memory_retrievers.retrieval.features import idf, score_bm25
from memory_retrievers.retrieval.open_candidates import joined_statistics
from memory_retrievers.storage.open_episodes import open_id
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.models import AnyMemory
    from memory_retrievers.models.management import MemoryFilter
    from memory_retrievers.models.selection import Vector
    from memory_retrievers.settings import RetrievalSettings
    from memory_retrievers.storage.open_episodes import OpenTurn
    from memory_retrievers.storage.store import MemoryStore

_Queued: TypeAlias = "tuple[int, EpisodicMemory, list[OpenTurn]]"


@dataclass(frozen=True, slots=True)
class OpenHits:
    """The open episodes that a search may find, by a row below 0.

    Attributes:
        memories: The episodes.
        cosines: The cosine of the best turn of each; those that nobody has embedded yet are left out.
        words: The BM25 score of the best turn of each that has a word of the query.
    """

    memories: Mapping[int, EpisodicMemory]
    cosines: Mapping[int, float]
    words: Mapping[int, float]


def open_memories(store: MemoryStore, filter: MemoryFilter) -> list[EpisodicMemory]:
    """List the open episodes that a filter lets through."""
    if filter.kinds == "tool" or filter.category is not None:
        return []
    found = store.open_episodes.episodes(filter.scope, include_child_scopes=filter.include_child_scopes)
    return [memory for memory in found if _fits(memory, filter)]


def with_open_memories(
    stored: Sequence[AnyMemory], found: Sequence[EpisodicMemory], *, newest_first: bool
) -> list[AnyMemory]:
    """Join memories in the order of ``created_at``, then of id and scope."""
    together = sorted([*stored, *found], key=lambda memory: (memory.id, memory.scope))
    return sorted(together, key=lambda memory: memory.created_at, reverse=newest_first)


def search_open(
    store: MemoryStore, filter: MemoryFilter, query: str, *, vector: Vector | None, settings: RetrievalSettings
) -> OpenHits:
    """Search the open episodes that a filter lets through.

    Args:
        store: The store to search.
        filter: Which memories.
        query: The query, for its words.
        vector: Embedding of the query, shape (d,); None compares no vectors.
        settings: The parameters of BM25.
    """
    fitting = {memory.id: memory for memory in open_memories(store, filter)}
    if not fitting:
        return OpenHits({}, {}, {})
    turns = store.open_episodes.turns(filter.scope, include_child_scopes=filter.include_child_scopes)
    episodes = [
        (-queued[0].row, memory, queued)
        for _, group in groupby(turns, key=lambda turn: (turn.scope, turn.conversation))
        if (memory := fitting.get(open_id((queued := list(group))[0].scope, queued[0].id))) is not None
    ]
    return OpenHits(
        memories={row: memory for row, memory, _ in episodes},
        cosines={} if vector is None else _cosines(episodes, vector),
        words=_words(store, episodes, filter, analyze(query), settings),
    )


def _cosines(episodes: Sequence[_Queued], vector: Vector) -> dict[int, float]:
    vectors = {row: [turn.embedded.vector for turn in turns if turn.embedded is not None] for row, _, turns in episodes}
    return {row: float(similarities(np.stack(each), vector).max()) for row, each in vectors.items() if each}


def _words(
    store: MemoryStore,
    episodes: Sequence[_Queued],
    filter: MemoryFilter,
    terms: Sequence[str],
    settings: RetrievalSettings,
) -> dict[int, float]:
    """BM25 with the statistics of stored and queued passages together, of the best turn of each episode."""
    repeats = Counter(terms)
    said = [(row, turn.terms) for row, _, turns in episodes for turn in turns if turn.terms is not None]
    if not repeats or not said:
        return {}
    stored = store.keyword.statistics(list(repeats), filter.selection(Kind.EPISODIC, now=store.now()))
    lengths = np.array([sum(each.values()) for _, each in said], np.float64)
    statistics = joined_statistics(stored, list(repeats), [each for _, each in said], lengths)
    frequencies = np.array([statistics.frequencies[term] for term in repeats], np.float64)
    scores = score_bm25(
        np.array([[each.get(term, 0) for _, each in said] for term in repeats], np.float64),
        lengths,
        np.array(list(repeats.values()), np.float64) * idf(frequencies, statistics.passages),
        average_length=statistics.average_length,
        k1=settings.bm25_k1,
        b=settings.bm25_b,
    )
    best: dict[int, float] = {}
    for (row, _), score in zip(said, scores.tolist(), strict=True):
        best[row] = max(score, best.get(row, 0.0))
    return {row: score for row, score in best.items() if score > 0}


def _fits(memory: EpisodicMemory, filter: MemoryFilter) -> bool:
    made = memory.created_at
    return (
        (filter.tier is None or memory.tier is filter.tier)
        and not filter.tags  # nobody has labelled what was just said
        and (filter.content_type is None or memory.content_type is filter.content_type)
        and (filter.created_after is None or made >= filter.created_after)
        and (filter.created_before is None or made <= filter.created_before)
        and (filter.older_than is None or made < filter.older_than)
        and (filter.ids is None or memory.id in filter.ids)
    )
