"""Candidate passages as parallel arrays of length n (cosines, term counts, token lengths), and ranked hit lists."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.backends.snapshot import NOTHING, cached_property, rounded, similarities
from memory_retrievers.models import Kind
from memory_retrievers.models.selection import Layout, Selection, TermStatistics, Vector
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.tracing import BM25, DENSE, observer_of_stages
from memory_retrievers.text.passages import said_terms

if TYPE_CHECKING:
    from memory_retrievers.backends.snapshot import ScopeSnapshot
    from memory_retrievers.retrieval.question import Question
    from memory_retrievers.retrieval.request import RetrievalPlan
    from memory_retrievers.storage.open_episodes import OpenEpisode
    from memory_retrievers.storage.store import MemoryStore

    Floats = NDArray[np.float64]

_MEASURED_WHOLE: Final = 20_000
"""Up to so many passages all are measured where a few are asked for: the same product rounds the same way."""

_READ_WHOLE: Final = 20_000  # up to so many passages all are scored without a snapshot, from the database
_READINGS: Final = 2  # attempts to read passages without a snapshot, if one is replaced between two statements
_LATIN_CHARACTER, _WIDE_CHARACTER = 3, 18
"""Bytes of a character with the hashes of its terms; a Chinese one is in two of them."""

MadeT = TypeVar("MadeT")

ReadTexts: TypeAlias = Callable[[Sequence[int]], Mapping[int, str]]  # reads the texts of passages by their ids
ReadTimes: TypeAlias = Callable[[Sequence[int]], Mapping[int, int]]
"""Reads since when facts hold, in microseconds since 1970, by their rows."""
ReadTokens: TypeAlias = "Callable[[Mapping[Kind, set[int]]], Mapping[Kind, Mapping[int, PassageTokens]]]"
"""Reads passages of each kind by their ids; those without token vectors are left out."""


class PassageTokens:
    """A passage by its tokens: ``vectors``, int8, one after another, and ``size``, about the most bytes it takes."""

    __slots__ = ("_said", "_text", "size", "vectors")

    def __init__(self, vectors: bytes, text: str = "", *, said: array[int] | None = None) -> None:
        self.vectors, self._text, self._said = vectors, text, said
        a_character = _LATIN_CHARACTER if text.isascii() or max(text) < "\u0100" else _WIDE_CHARACTER
        self.size = 400 + len(vectors) + a_character * len(text)

    @property
    def said(self) -> array[int]:
        """Hashes of the search terms of what a message says, in order, without who says it and when."""
        text = self._text  # before the terms, which another thread sets before it
        if self._said is None:
            self._said, self._text = said_terms(text), ""
        return self._said


@dataclass(frozen=True, slots=True)
class QuestionTokens:
    """A question by its tokens."""

    vectors: bytes  # their vectors, int8, one after another
    terms: Sequence[Sequence[str]]  # the search terms of the word of each; a stop word stands for itself
    read: ReadTokens  # reads the tokens of passages


@dataclass(eq=False)  # a frozen one sets its fields one by one
class Candidates:
    """Candidate passages as parallel arrays; messages of one episode are adjacent, in the order they were said."""

    layout: Layout  # the passages and the memories they belong to
    similarities: Floats  # the cosine of each passage and the question
    repeats: Floats  # how often each distinct term stands in the question
    counts: Floats  # how often each of these terms (rows) stands in each passage (columns)
    lengths: Floats  # how many terms each passage has
    statistics: TermStatistics  # what the terms are weighed by
    is_whole: bool  # whether these are all passages that may be found
    open: Mapping[int, OpenEpisode] = field(default_factory=dict)  # those still open, by row
    tokens: QuestionTokens | None = None  # the question, if passages are measured by its tokens
    snapshot: ScopeSnapshot | None = None  # snapshot of the stored ones; None if the database was read

    def __len__(self) -> int:
        return len(self.layout.passages)

    @cached_property
    def windows(self) -> tuple[Floats, Floats, Floats]:
        """Each passage and the messages around it as one text: mean cosine (n,), counts (t, n), lengths (n,)."""
        layout, lengths = self.layout, self.kept("windows", lambda: self._around(self.lengths))
        counts, own = self.counts.copy(), self.counts.reshape(-1)
        around, places = counts.reshape(-1), (own > 0).nonzero()[0]  # few passages have a term at all
        owners = places % len(self)
        for step, is_there in ((1, layout.is_before_next), (-1, layout.is_next)):
            counted = places[is_there[owners]]
            around[counted + step] += own[counted]
        return self._around(self.similarities) / layout.widths, counts, lengths

    def _around(self, values: Floats) -> Floats:
        """Values of each passage and of the messages around it, added up: shape (n,) in and out."""
        around, is_next = values.copy(), self.layout.is_next[1:]
        around[1:] += values[:-1] * is_next
        around[:-1] += values[1:] * is_next
        return around

    def kept(self, name: Hashable, make: Callable[[], MadeT]) -> MadeT:
        """What follows from layout and lengths alone, of any shape, made once: it goes with the layout."""
        known = self.layout.made.get(name)
        if known is None or known[0] is not self.lengths:
            known = self.layout.made[name] = self.lengths, make()
        return known[1]

    def span(self, memory: int) -> tuple[int, int]:
        """The first passage of a memory, and the one behind its last."""
        return int(self.layout.starts[memory]), int(self.layout.ends[memory])

    @cached_property
    def frequencies(self) -> Floats:
        """Number of indexed passages that have each term, shape (t,)."""
        return np.array(list(self.statistics.frequencies.values()), np.float64)

    @cached_property
    def idf(self) -> Floats:
        """Inverse document frequency of each term as in Lucene, as if half a passage had what none has; shape (t,)."""
        with_it = np.maximum(self.frequencies, 0.5) + 0.5
        return np.log1p((self.statistics.passages + 1 - with_it) / with_it)


def read_candidates(
    store: MemoryStore, plan: RetrievalPlan, *, vector: Vector, settings: RetrievalSettings
) -> dict[Kind, Candidates | RankedLists]:
    """Read the candidates of each kind that is searched: the one place where a search reads a scope's arrays.

    Args:
        store: Store to search.
        plan: The search plan.
        vector: Embedding of the query, shape (d,).
        settings: ``fusion`` decides between arrays and ranked lists; in scopes larger than ``exact_limit`` each index
            contributes ``candidate_depth`` passages.
    """
    if settings.fusion == "rrf":
        depth = settings.candidate_depth
        return {
            kind: _ranked_lists(store, selection, vector=vector, terms=plan.question.terms, depth=depth)
            for kind, selection in plan.selections.items()
        }
    found = {kind: _arrays(store, plan, kind, vector=vector, settings=settings) for kind in plan.selections}
    return {kind: each for kind, each in found.items() if each is not None}


def _arrays(
    store: MemoryStore, plan: RetrievalPlan, kind: Kind, *, vector: Vector, settings: RetrievalSettings
) -> Candidates | None:
    """Arrays of one kind; None if the scope has nothing of it, not even what is open or was said in former versions."""
    selection, question, depth = plan.selections[kind], plan.question, settings.candidate_depth
    seen = store.ledger.snapshots.seen(selection)
    if seen is not None and seen[0] is NOTHING and selection.as_of is None and not plan.may_find_open:
        return None
    memories: list[int] | None = None
    if not _are_all_scored(store, selection, seen, limit=settings.exact_limit):
        lists = _ranked_lists(store, selection, vector=vector, terms=question.terms, depth=depth)
        memories = list(dict.fromkeys([*lists.dense, *lists.bm25]))
    statistics = plan.statistics.get(kind)
    if seen is not None and memories is None:
        return _candidates(*seen, question, vector=vector, statistics=statistics, is_whole=True)
    return candidates_of(store, selection, question, vector=vector, memories=memories, statistics=statistics)


def _are_all_scored(
    store: MemoryStore, selection: Selection, seen: tuple[ScopeSnapshot, NDArray[np.bool_]] | None, *, limit: int
) -> bool:
    """True if no more passages are visible than are all scored, and no index is approximate among them."""
    if seen is not None:
        visible, exact = len(seen[0]), store.dense.exact_limit
        if visible > (limit if exact is None else min(limit, exact)):
            visible = int(np.count_nonzero(seen[1]))
        is_exact = exact is None or visible <= exact or not store.dense.is_approximate(selection)
        return visible <= limit and is_exact
    most = min(limit, _READ_WHOLE)
    return not store.dense.is_approximate(selection) and store.ledger.size(selection, at_most=most) <= most


def candidates_of(
    store: MemoryStore,
    selection: Selection,
    question: Question,
    *,
    vector: Vector,
    memories: Sequence[int] | None,
    statistics: TermStatistics | None = None,
) -> Candidates:
    """Read the arrays of the passages that a selection lets through.

    Args:
        store: Store to read from.
        selection: Scope, kind and filters.
        question: The parsed query.
        vector: Embedding of the query, shape (d,).
        memories: Restrict to the passages of these memories, as rows of the ledger; None reads all.
        statistics: Statistics of the query's terms; None looks them up.
    """
    seen = store.ledger.snapshots.seen(selection)
    if seen is not None:
        snapshot, mask = seen
        if memories is not None:
            mask = mask & np.isin(snapshot.memories, np.array(memories, np.int64))
        return _candidates(snapshot, mask, question, vector=vector, statistics=statistics, is_whole=memories is None)
    terms = list(dict.fromkeys(question.terms))
    known = statistics or store.keyword.statistics(terms, selection)
    for _ in range(_READINGS):
        layout = store.ledger.layout(selection, memories=memories)
        with observer_of_stages.get()(BM25):
            counted = store.keyword.counts(terms, selection, layout.passages)
        with observer_of_stages.get()(DENSE):
            similarities = store.dense.similarities(vector, selection, layout.passages)
        if not (similarities == -1).any():  # what is there at the last was there all the time: ids are not used again
            break
        if (states := store.ledger.database.states_read()) is not None:
            states.clear()
    return Candidates(
        layout=layout,
        similarities=similarities.astype(np.float64),
        repeats=np.array([question.terms.count(term) for term in terms], np.float64),
        counts=counted.counts,
        lengths=counted.lengths,
        statistics=known,
        is_whole=memories is None,
    )


def _candidates(
    snapshot: ScopeSnapshot,
    mask: NDArray[np.bool_],
    question: Question,
    *,
    vector: Vector,
    statistics: TermStatistics | None,
    is_whole: bool,
) -> Candidates:
    """Candidates from the arrays of a snapshot: the passages of a mask of shape (n,)."""
    terms = list(dict.fromkeys(question.terms))
    layout, positions = snapshot.layout(mask)
    with observer_of_stages.get()(DENSE):
        if len(snapshot) <= _MEASURED_WHOLE or is_whole:
            cosines = similarities(snapshot.matrix, vector)[positions]
        else:
            cosines = similarities(snapshot.matrix[positions], vector)
    with observer_of_stages.get()(BM25):
        counted = snapshot.terms.counts_at(terms, positions)
    return Candidates(
        layout=layout,
        similarities=rounded(cosines).astype(np.float64),
        repeats=np.array([question.terms.count(term) for term in terms], np.float64),
        counts=counted.counts,
        lengths=counted.lengths,
        statistics=statistics or snapshot.terms.statistics(terms),
        is_whole=is_whole,
        snapshot=snapshot,
    )


@dataclass(frozen=True, slots=True)
class RankedLists:
    """Ranked lists of memories from both indexes, as rows of the ledger; each list names a memory once."""

    dense: list[int]
    bm25: list[int]


def _ranked_lists(
    store: MemoryStore, selection: Selection, *, vector: Vector, terms: Sequence[str], depth: int
) -> RankedLists:
    """Search both indexes, by a vector of shape (d,) and by terms, for passages that a selection lets through."""
    with observer_of_stages.get()(DENSE):
        dense = store.dense.search(vector, selection, limit=depth)
    with observer_of_stages.get()(BM25):
        bm25 = store.keyword.search(terms, selection, limit=depth)
    return RankedLists(list(dict.fromkeys(dense.memories)), list(dict.fromkeys(bm25.memories)))
