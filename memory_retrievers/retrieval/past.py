"""Searches of a moment in the past: what facts said then is ranked among what has not changed since."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_retrievers.backends.snapshot import rounded, similarities
from memory_retrievers.backends.terms import EMPTY
from memory_retrievers.models import Kind
from memory_retrievers.models.selection import WHOLE, Layout
from memory_retrievers.retrieval.candidates import Candidates, RankedLists, candidates_of, read_candidates
from memory_retrievers.retrieval.features import bm25
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.facts import PastPassages
    from memory_retrievers.models.selection import Vector
    from memory_retrievers.retrieval.question import Question
    from memory_retrievers.retrieval.request import RetrievalPlan
    from memory_retrievers.settings import RetrievalSettings
    from memory_retrievers.storage.store import MemoryStore


def read_candidates_then(
    store: MemoryStore, plan: RetrievalPlan, *, vector: Vector, settings: RetrievalSettings
) -> dict[Kind, Candidates | RankedLists]:
    """Read the candidates of each kind; where a moment is asked for, with what facts said then and say no more.

    Args:
        store: Store to search.
        plan: The search plan: query, and a selection per kind.
        vector: Embedding of the query, shape (d,).
        settings: ``fusion`` decides between arrays and ranked lists.
    """
    found = read_candidates(store, plan, vector=vector, settings=settings)
    selection = plan.selections.get(Kind.SEMANTIC)
    if selection is None or selection.as_of is None:
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
    """Read the arrays of some memories as :func:`read_candidates_then` does.

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
