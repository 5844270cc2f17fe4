"""Candidates that no index holds: open episodes, and what facts said at a moment in the past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.snapshot import rounded, similarities
from memory_retrievers.backends.terms import EMPTY
from memory_retrievers.models import AnyMemory, Kind
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.selection import WHOLE, Layout, TermStatistics, Vector
from memory_retrievers.retrieval.candidates import Candidates, RankedLists, candidates_of, read_candidates
from memory_retrievers.retrieval.features import bm25
from memory_retrievers.retrieval.late_interaction import by_tokens
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.open_episodes import OpenEpisode
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.facts import PastPassages
    from memory_retrievers.retrieval.question import Question
    from memory_retrievers.retrieval.request import RetrievalPlan, RetrievalRequest
    from memory_retrievers.storage.open_episodes import OpenTurn
    from memory_retrievers.storage.store import MemoryStore


def open_episodes(store: MemoryStore, request: RetrievalRequest) -> dict[int, OpenEpisode]:
    """Read the open episodes that a request may see, by row."""
    turns = store.open_episodes.turns(request.scope, include_child_scopes=request.include_child_scopes)
    in_prompt = {hash((message.role, message.content)) for message in request.in_prompt}
    if request.query.endswith(("?", "？")):
        in_prompt.add(hash(("user", request.query)))  # a question is no answer to itself
    found: dict[int, OpenEpisode] = {}
    for (_, conversation), queued in groupby(turns, key=lambda turn: (turn.scope, turn.conversation)):
        first, *others = queued
        if conversation is not None and conversation == request.exclude_conversation:
            continue
        turns_then = (e for e in (first, *others) if request.as_of is None or e.timestamp <= request.as_of)
        seen = tuple(turn for turn in turns_then if turn.said not in in_prompt)
        if any(turn.terms is not None for turn in seen):
            episode = OpenEpisode(first.id, seen)
            found[episode.row] = episode
    return found


def prepare(store: MemoryStore, plan: RetrievalPlan, *, settings: RetrievalSettings) -> RetrievalPlan:
    """Embed the open episodes that a search may find, outside any transaction; return a plan that counts their words.

    Args:
        store: Store to search.
        plan: The search plan.
        settings: Whether open episodes are searched, and which words are common.
    """
    if not plan.may_find_open:
        store.open_episodes.drop(plan.request.scope, include_child_scopes=plan.request.include_child_scopes)
    if not (plan.may_find_open and settings.searches_open and Kind.EPISODIC in plan.selections):
        return plan
    with store.ledger.database.reading(plan.states):
        episodes = open_episodes(store, plan.request).values()
    turns = [turn for each in episodes for turn in each.turns if turn.terms is not None]
    if store.open_episodes.prepare([turn.row for turn in turns if turn.embedded is None]):
        plan.states.clear()  # they have vectors now
    known = [turn.terms or {} for turn in turns]
    joined = joined_statistics(plan.statistics[Kind.EPISODIC], plan.question.terms, known)
    return plan.with_open(joined, settings=settings)


def read_all(
    store: MemoryStore, plan: RetrievalPlan, *, vector: Vector, settings: RetrievalSettings
) -> dict[Kind, Candidates | RankedLists]:
    """Read the candidates of each kind that is searched, open episodes included if the settings say so.

    Args:
        store: Store to search.
        plan: The search plan.
        vector: Embedding of the query, shape (d,).
        settings: As for ``read_candidates``.
    """
    read = read_candidates if plan.request.as_of is None else _read_candidates_then
    candidates = read(store, plan, vector=vector, settings=settings)
    closed = candidates.get(Kind.EPISODIC)
    if plan.may_find_open and settings.searches_open and isinstance(closed, Candidates):
        episodes = open_episodes(store, plan.request)
        candidates[Kind.EPISODIC] = with_open(closed, episodes, plan.question, vector=vector)
    asked = store.embedder.question(plan.embedded) if settings.measures_tokens and store.embedder.gives_tokens else None
    return candidates if asked is None or not asked.tokens else by_tokens(store, candidates, asked)


def load(
    store: MemoryStore,
    candidates: Mapping[Kind, Candidates | RankedLists],
    rows: Sequence[int],
    *,
    as_of: datetime | None,
) -> dict[int, AnyMemory]:
    """Read memories of the candidates; those that are gone meanwhile are left out.

    Args:
        store: Store to read from.
        candidates: The candidates of each kind.
        rows: The memories, as rows of the candidates.
        as_of: Moment of which facts tell; None is now.
    """
    known = candidates.get(Kind.EPISODIC)
    episodes = known.open if isinstance(known, Candidates) else {}
    wanted = [row for row in rows if row in episodes]
    memories = store.load([row for row in rows if row not in episodes], as_of=as_of)
    if not wanted:
        return memories
    made = store.open_episodes.memories([episodes[row] for row in wanted])
    return memories | {row: memory for row, memory in zip(wanted, made, strict=True) if memory is not None}


def with_open(
    closed: Candidates, episodes: Mapping[int, OpenEpisode], question: Question, *, vector: Vector
) -> Candidates:
    """Let open episodes compete with those that are stored.

    Args:
        closed: The candidates among the stored episodes.
        episodes: The open ones, by row.
        question: The parsed query.
        vector: Embedding of the query, shape (d,).
    """
    if not episodes:
        return closed
    every = [(row, place, turn) for row, each in episodes.items() for place, turn in enumerate(each.turns)]
    passages = [each for each in every if each[2].terms is not None]
    turns = [turn for *_, turn in passages]
    terms = list(dict.fromkeys(question.terms))
    known = [turn.terms or {} for turn in turns]
    lengths = np.array([sum(each.values()) for each in known], np.float64)
    counts = np.array([[each.get(term, 0) for each in known] for term in terms], np.float64)
    return Candidates(
        layout=_layout(closed.layout, passages, began={row: each.turns[0] for row, each in episodes.items()}),
        similarities=_cosines(closed.similarities, turns, vector),
        repeats=closed.repeats,
        counts=np.concatenate((closed.counts, counts.reshape(len(terms), len(turns))), axis=1),
        lengths=np.concatenate((closed.lengths, lengths)),
        statistics=joined_statistics(closed.statistics, terms, known),
        is_whole=closed.is_whole,
        open=episodes,
        snapshot=closed.snapshot,
    )


def _layout(closed: Layout, passages: Sequence[tuple[int, int, OpenTurn]], *, began: Mapping[int, OpenTurn]) -> Layout:
    """Lay out the passages behind those that are stored; each is named by its row, below 0."""
    names = {name: code for code, name in enumerate(closed.names)}
    speakers = [names.setdefault(turn.role, len(names)) for *_, turn in passages]

    def behind(array: NDArray[np.int64], values: Sequence[int]) -> NDArray[np.int64]:
        return np.concatenate((array, np.array(values, np.int64)))

    return replace(
        closed,
        passages=behind(closed.passages, [-turn.row for *_, turn in passages]),
        memories=behind(closed.memories, [row for row, *_ in passages]),
        places=behind(closed.places, [place for _, place, _ in passages]),
        speakers=behind(closed.speakers, speakers),
        tells_time=np.concatenate((closed.tells_time, np.array([turn.tells_time for *_, turn in passages], np.bool_))),
        began=behind(closed.began, [microseconds(began[row].timestamp) for row, *_ in passages]),
        names=tuple(names),
    )


def _cosines(closed: NDArray[np.float64], turns: Sequence[OpenTurn], vector: Vector) -> NDArray[np.float64]:
    """Cosines of all passages, shape (n,); what has no vector yet is as far as half of those that have one."""
    vectors = [turn.embedded.vector for turn in turns if turn.embedded is not None]
    near = rounded(similarities(np.stack(vectors), vector)).astype(np.float64) if vectors else np.empty(0)
    measured = np.concatenate((closed, near))
    cosines = np.full(len(turns), np.median(measured) if len(measured) else 0.0)
    cosines[[turn.embedded is not None for turn in turns]] = near
    return np.concatenate((closed, cosines))


def joined_statistics(
    closed: TermStatistics, terms: Sequence[str], known: Sequence[Mapping[str, int]]
) -> TermStatistics:
    """Join the statistics of stored passages with n open ones.

    Args:
        closed: Of the stored passages.
        terms: The terms that are counted.
        known: How often each of its terms stands in each of the open passages.
    """
    passages = closed.passages + len(known)
    length = closed.passages * closed.average_length + sum(sum(each.values()) for each in known)
    return TermStatistics(
        passages,
        max(length, 1.0) / max(passages, 1),
        {term: closed.frequencies.get(term, 0) + sum(term in each for each in known) for term in terms},
        closed.words,
    )


def _read_candidates_then(
    store: MemoryStore, plan: RetrievalPlan, *, vector: Vector, settings: RetrievalSettings
) -> dict[Kind, Candidates | RankedLists]:
    """Read the candidates of each kind with what facts said at a moment and say no more, by a vector of shape (d,)."""
    found = read_candidates(store, plan, vector=vector, settings=settings)
    selection = plan.selections.get(Kind.SEMANTIC)
    if selection is None:
        return found
    pages = store.ledger.facts.searched_then(selection)
    former = [_of_page(page, plan.question, vector=vector) for page in pages]
    if not former:
        return found
    facts = found[Kind.SEMANTIC]
    if isinstance(facts, RankedLists):
        facts = candidates_of(store, selection, plan.question, vector=vector, memories=None)
        return {**found, Kind.SEMANTIC: _ranked(_joined([facts, *former]), settings)}
    return {**found, Kind.SEMANTIC: _joined([facts, *former])}


def candidates_then(
    store: MemoryStore, plan: RetrievalPlan, kind: Kind, *, vector: Vector, memories: list[int]
) -> Candidates:
    """Read the arrays of some memories as :func:`read_all` does.

    Args:
        store: Store to read from.
        plan: The search plan.
        kind: Kind of these memories.
        vector: Embedding of the query, shape (d,).
        memories: The memories, as rows of the ledger.
    """
    selection = plan.selections[kind]
    now = candidates_of(store, selection, plan.question, vector=vector, memories=memories)
    pages = store.ledger.facts.searched_then(selection)
    return _joined([now, *(_of_page(page, plan.question, vector=vector) for page in pages)])


def _of_page(page: PastPassages, question: Question, *, vector: Vector) -> Candidates:
    """Arrays of n former versions, whose words are in no statistics: they are weighed by those of what is indexed."""
    rows = np.array(page.memories, np.int64)
    count, terms = len(rows), list(dict.fromkeys(question.terms))
    counted = EMPTY.appended(
        dict(zip(page.memories, page.memories, strict=True)), [Counter(analyze(text)) for text in page.texts]
    ).counts(terms, rows)
    nothing = np.zeros(count, np.int64)
    layout = Layout(
        passages=-rows,  # a number that no passage has
        memories=rows,
        places=nothing + WHOLE,
        speakers=nothing - 1,
        tells_time=nothing.astype(np.bool_),
        began=nothing,
        names=(),
    )
    return Candidates(
        layout=layout,
        similarities=rounded(similarities(page.matrix, vector)).astype(np.float64),
        repeats=np.array([question.terms.count(term) for term in terms], np.float64),
        counts=counted.counts,
        lengths=counted.lengths,
        statistics=EMPTY.statistics(terms),
        is_whole=True,
    )


def _joined(parts: list[Candidates]) -> Candidates:
    """Candidates of facts in the order of their memories; none of them is in two parts."""
    first, layouts = parts[0], [each.layout for each in parts]
    order = np.argsort(np.concatenate([each.memories for each in layouts]), kind="stable")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in layouts])[order]
        for name in ("passages", "memories", "places", "speakers", "tells_time", "began")
    }
    return replace(
        first,
        layout=replace(first.layout, **columns),
        similarities=np.concatenate([each.similarities for each in parts])[order],
        counts=np.concatenate([each.counts for each in parts], axis=1)[:, order],
        lengths=np.concatenate([each.lengths for each in parts])[order],
    )


def _ranked(candidates: Candidates, settings: RetrievalSettings) -> RankedLists:
    """Rank facts by vectors and by words, each list with its best, ties in the order of their rows."""
    words = bm25(candidates, settings)
    rows, depth = candidates.layout.memories, settings.candidate_depth
    by_words = np.argsort(-words, kind="stable")
    return RankedLists(
        dense=rows[np.argsort(-candidates.similarities, kind="stable")][:depth].tolist(),
        bm25=rows[by_words[words[by_words] > 0]][:depth].tolist(),
    )
