"""The field: the passages that compete for a question, how near each is, and which of its words stand in them.

A scope that is small enough is measured as a whole. In a larger one, or in many scopes together, the indexes name the
nearest passages and the best by words, and all passages of the memories these belong to compete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memory_retrievers.passages import WHOLE, Layout, Selection, TermStatistics
from memory_retrievers.retrieval.question import Question
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.stages import BM25, DENSE, stage
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.passages import Vector

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Field:
    """What competes, as parallel arrays; messages of one episode stand together, in the order they were said.

    Attributes:
        layout: The passages and the memories they belong to.
        similarities: The cosine of each passage and the question.
        repeats: How often each distinct term stands in the question.
        counts: How often each of these terms (rows) stands in each passage (columns).
        lengths: How many terms each passage has.
        statistics: What the terms are weighed by.
        is_whole: Whether these are all passages that may be found.
    """

    layout: Layout
    similarities: Floats
    repeats: Floats
    counts: Floats
    lengths: Floats
    statistics: TermStatistics
    is_whole: bool

    def __len__(self) -> int:
        return len(self.layout.passages)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each memory's passages begin."""
        memories = self.layout.memories
        return np.flatnonzero(np.concatenate(([True], memories[1:] != memories[:-1])))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Which memory each passage belongs to, counted from 0 in the order of ``starts``."""
        sizes = np.diff(np.append(self.starts, len(self)))
        return np.repeat(np.arange(len(self.starts)), sizes)

    @cached_property
    def is_message(self) -> NDArray[np.bool_]:
        """Which passages are a single message."""
        is_message: NDArray[np.bool_] = self.layout.places != WHOLE
        return is_message

    @cached_property
    def has_messages(self) -> bool:
        """Whether any passage is a single message."""
        return bool(self.is_message.any())

    @cached_property
    def _is_next(self) -> NDArray[np.bool_]:
        """Whether each passage but the first was said right after the one before it."""
        memories, places = self.layout.memories, self.layout.places
        same_memory, in_row = memories[1:] == memories[:-1], places[1:] == places[:-1] + 1
        is_next: NDArray[np.bool_] = same_memory & in_row & (places[:-1] != WHOLE)
        return is_next

    def before(self, values: Floats) -> Floats:
        """For each passage the value of the message said before it; 0 where there is none."""
        moved = np.zeros_like(values)
        moved[..., 1:] = values[..., :-1] * self._is_next
        return moved

    def after(self, values: Floats) -> Floats:
        """For each passage the value of the message said after it; 0 where there is none."""
        moved = np.zeros_like(values)
        moved[..., :-1] = values[..., 1:] * self._is_next
        return moved


def read_field(
    store: MemoryStore,
    selection: Selection,
    question: Question,
    *,
    vector: Vector,
    settings: RetrievalSettings,
    statistics: TermStatistics | None = None,
) -> Field:
    """Look up what competes for a question.

    Args:
        store: Where to search.
        selection: Scope, kind and filters; they come before everything else.
        question: The question.
        vector: Its vector.
        settings: From which size on a scope is too large to be measured as a whole, and how many candidates each
            index names then.
        statistics: What the question's terms are weighed by, if that is known already.
    """
    depth = settings.candidate_depth
    is_large = store.ledger.size(selection, at_most=settings.exact_limit) > settings.exact_limit
    is_whole = not is_large and not store.dense.is_approximate(selection)
    candidates: list[int] | None = None
    if not is_whole:
        with stage(DENSE):
            near = store.dense.search(vector, selection, limit=depth).memories
        with stage(BM25):
            fitting = store.keyword.search(question.terms, selection, limit=depth).memories
        candidates = list(dict.fromkeys([*near, *fitting]))
    return field_of(store, selection, question, vector=vector, memories=candidates, statistics=statistics)


def field_of(
    store: MemoryStore,
    selection: Selection,
    question: Question,
    *,
    vector: Vector,
    memories: Sequence[int] | None,
    statistics: TermStatistics | None = None,
) -> Field:
    """All that is to be known of the passages a selection lets through.

    Args:
        store: Where they are.
        selection: Which.
        question: The question.
        vector: Its vector.
        memories: Only those of these memories, as rows of the ledger; None is of all.
        statistics: What the question's terms are weighed by, if that is known already.
    """
    terms = list(dict.fromkeys(question.terms))
    layout = store.ledger.layout(selection, memories=memories)
    with stage(DENSE):
        similarities = store.dense.similarities(vector, selection, layout.passages)
    with stage(BM25):
        known = statistics or store.keyword.statistics(terms, selection)
        counted = store.keyword.counts(terms, selection, layout.passages)
    return Field(
        layout=layout,
        similarities=similarities.astype(np.float64),
        repeats=np.array([question.terms.count(term) for term in terms], np.float64),
        counts=counted.counts,
        lengths=counted.lengths,
        statistics=known,
        is_whole=memories is None,
    )
