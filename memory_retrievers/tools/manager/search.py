"""Search of the memory manager: lists of vectors and words that are fused, open episodes among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np

from memory_retrievers.backends.snapshot import similarities
from memory_retrievers.models import EpisodicMemory, Kind, scopes
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import FoundMemory, MemoryFilter, SearchMode, SearchRequest, SortBy
from memory_retrievers.models.selection import Hits, Vector
from memory_retrievers.retrieval.features import idf, score_bm25
from memory_retrievers.retrieval.rank_fusion import reciprocal_rank_fusion
from memory_retrievers.retrieval.unindexed_candidates import joined_statistics
from memory_retrievers.settings import RetrievalSettings, ToolSettings
from memory_retrievers.storage.open_episodes import OpenTurn, open_id
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.text.analysis import analyze

_Queued: TypeAlias = "tuple[int, EpisodicMemory, list[OpenTurn]]"

DEPTH: Final = 2  # times ``top_k`` that each list contributes: the cut comes after sorting


@dataclass(frozen=True, slots=True)
class FoundLists:
    """Candidates of a search, by the row of the memory in the ledger."""

    nearest: list[int]  # by vector, nearest first, unless they are those of open episodes alone
    words: dict[int, float]  # with their BM25 scores, likewise
    cosines: dict[int, float]  # of each that was found in either list, if vectors were asked
    open: Mapping[int, EpisodicMemory] = field(default_factory=dict)  # those still open, whose rows are below 0


def search(
    store: MemoryStore,
    request: SearchRequest,
    *,
    settings: ToolSettings,
    vector: Vector | None = None,
    retrieval: RetrievalSettings | None = None,
) -> list[FoundMemory]:
    """The memories that answer a request, sorted as it asks.

    Args:
        store: The store to search.
        request: The query, the filter and the weights.
        settings: The parameters of scoring.
        vector: The unit vector to compare with, shape (d,), if one is stored; None embeds the query.
        retrieval: How open episodes are searched; None searches what is stored alone.
    """
    # what each list finds, filtered before ranking
    now, seen = store.now(), request.filter
    if retrieval is not None and request.mode is not SearchMode.KEYWORD:
        places = store.ledger.open_episodes.places(seen.scope, include_child_scopes=seen.include_child_scopes)
        store.open_episodes.prepare([place.row for place in places if not place.is_embedded])
    lists = _lists(store, request, now, vector=vector, shows_open=retrieval)
    is_cosine = settings.similarity == "cosine"
    similar = {row: min(1.0, max(0.0, each if is_cosine else (1 + each) / 2)) for row, each in lists.cosines.items()}
    relevance = relevance_of(lists, request, similar, settings)
    floor = 0.0 if request.mode is SearchMode.KEYWORD else request.min_similarity
    kept = [row for row in relevance if similar.get(row, 0.0) >= floor]
    memories = {**store.ledger.load([row for row in kept if row > 0]), **lists.open}
    found = [
        FoundMemory(
            memory=memory,
            similarity=similar.get(row, 0.0),
            keyword_score=None if request.mode is SearchMode.SEMANTIC else lists.words.get(row, 0.0),
            combined_score=relevance[row] if request.mode is SearchMode.HYBRID else None,
            score=(1 - request.importance_weight) * relevance[row] + request.importance_weight * memory.importance,
        )
        for row in kept
        if (memory := memories.get(row)) is not None
        and not memory.has_expired(now)
        # whatever an index returns, nothing of another scope gets out
        and (memory.scope == seen.scope or (seen.include_child_scopes and scopes.is_within(seen.scope, memory.scope)))
    ]
    return _sorted(found, request.sort_by)[: request.top_k]


def _lists(
    store: MemoryStore,
    request: SearchRequest,
    now: datetime,
    *,
    vector: Vector | None,
    shows_open: RetrievalSettings | None,
) -> FoundLists:
    seen = [request.filter.selection(kind, now=now) for kind in Kind]
    query, depth = storable(request.query), DEPTH * request.top_k
    terms = [] if request.mode is SearchMode.SEMANTIC else analyze(query)

    def find(vector: Vector | None) -> FoundLists:
        near = [] if vector is None else [store.dense.search(vector, each, limit=depth) for each in seen]
        words = _merged([store.keyword.search(terms, each, limit=depth) for each in seen] if terms else [], limit=depth)
        cosines = _best(_merged(near, limit=depth))
        beside = {} if vector is None else _cosines(store, vector, words)
        stored = FoundLists(list(cosines), _best(words), beside | cosines)
        if shows_open is None:
            return stored
        found = _search_open(store, request.filter, terms, vector=vector, settings=shows_open)
        nearest = sorted((cosines | found.cosines).items(), key=lambda each: -each[1])
        ranked = sorted((stored.words | found.words).items(), key=lambda each: -each[1])
        every = stored.cosines | found.cosines
        return FoundLists([row for row, _ in nearest[:depth]], dict(ranked[:depth]), every, found.open)

    if request.mode is SearchMode.KEYWORD:
        with store.ledger.snapshots.analyzing():
            return find(None)
    return store.search(query, find) if vector is None else find(vector)


def _merged(lists: Sequence[Hits], *, limit: int) -> Hits:
    """The lists of both kinds in one, best first, equal ones by passage."""
    hits = sorted(
        (hit for found in lists for hit in zip(found.passages, found.memories, found.scores, strict=True)),
        key=lambda hit: (-hit[2], hit[0]),
    )[:limit]
    return Hits([passage for passage, _, _ in hits], [memory for _, memory, _ in hits], [score for *_, score in hits])


def _best(hits: Hits) -> dict[int, float]:
    """The score of each memory, which is that of its best passage."""
    scores: dict[int, float] = {}
    for memory, score in zip(hits.memories, hits.scores, strict=True):
        scores.setdefault(memory, score)
    return scores


def _cosines(store: MemoryStore, vector: Vector, hits: Hits) -> dict[int, float]:
    """The cosines of the memories that were found by their words, by row."""
    if not hits.passages:
        return {}
    memories = dict(zip(hits.passages, hits.memories, strict=True))
    passages, matrix = store.ledger.vectors(hits.passages)
    cosines: dict[int, float] = {}
    for passage, cosine in zip(passages, (matrix @ vector).tolist(), strict=True):
        cosines[memories[passage]] = max(cosine, cosines.get(memories[passage], -1.0))
    return cosines


def relevance_of(
    lists: FoundLists, request: SearchRequest, similar: Mapping[int, float], settings: ToolSettings
) -> dict[int, float]:
    """The relevance of each memory that was found, 0 to 1.

    Args:
        lists: What was found.
        request: Which lists count, and how much.
        similar: The similarity of each that is near.
        settings: The constant of rank fusion.
    """
    if request.mode is SearchMode.SEMANTIC:
        return {row: similar[row] for row in lists.nearest}
    if request.mode is SearchMode.KEYWORD:
        most = max(lists.words.values(), default=0.0) or 1.0
        return {row: score / most for row, score in lists.words.items()}
    k, weight = settings.rrf_constant, request.keyword_weight
    weights = ((1 - weight) * (k + 1), weight * (k + 1))  # so that what is first in both lists has 1
    return reciprocal_rank_fusion((lists.nearest, list(lists.words)), k=k, weights=weights)


def _sorted(found: list[FoundMemory], sort_by: SortBy) -> list[FoundMemory]:
    """By what is asked; what is equal then by score, newest first, and at last by id."""
    by_age = sorted(found, key=lambda hit: (hit.memory.id, hit.memory.scope))
    by_age.sort(key=lambda hit: hit.memory.created_at, reverse=True)
    if sort_by is SortBy.CREATED_AT:
        return by_age
    by_score = sorted(by_age, key=lambda hit: hit.score, reverse=True)
    if sort_by is SortBy.RELEVANCE:
        return by_score
    return sorted(by_score, key=lambda hit: hit.memory.importance, reverse=True)


def open_memories(store: MemoryStore, filter: MemoryFilter) -> list[EpisodicMemory]:
    """List the open episodes that a filter lets through."""
    if filter.kinds == "tool":
        return []
    found = store.open_episodes.episodes(filter.scope, include_child_scopes=filter.include_child_scopes)
    return [memory for memory in found if filter.fits(memory)]


def _search_open(
    store: MemoryStore,
    filter: MemoryFilter,
    terms: Sequence[str],
    *,
    vector: Vector | None,
    settings: RetrievalSettings,
) -> FoundLists:
    """Search the open episodes of a filter by the terms and the vector of a query, shape (d,), as far as there are any.

    Words and cosines are those of the best turn of each, as far as it has a word of the query, and a vector yet.
    """
    fitting = {memory.id: memory for memory in open_memories(store, filter)}
    if not fitting:
        return FoundLists([], {}, {})
    turns = store.open_episodes.turns(filter.scope, include_child_scopes=filter.include_child_scopes)
    episodes = [
        (-queued[0].row, memory, queued)
        for _, group in groupby(turns, key=lambda turn: (turn.scope, turn.conversation))
        if (memory := fitting.get(open_id((queued := list(group))[0].scope, queued[0].id))) is not None
    ]
    cosines = {} if vector is None else _cosines_of_turns(episodes, vector)
    words = _words_of_turns(store, episodes, filter, terms, settings)
    return FoundLists([*cosines], words, cosines, {row: memory for row, memory, _ in episodes})


def _cosines_of_turns(episodes: Sequence[_Queued], vector: Vector) -> dict[int, float]:
    vectors = {row: [turn.embedded.vector for turn in turns if turn.embedded is not None] for row, _, turns in episodes}
    return {row: float(similarities(np.stack(each), vector).max()) for row, each in vectors.items() if each}


def _words_of_turns(
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
    statistics = joined_statistics(stored, list(repeats), [each for _, each in said])
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
