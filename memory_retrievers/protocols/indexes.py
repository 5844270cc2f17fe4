"""The sockets for the two indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from memory_retrievers.contents import VerificationReport
from memory_retrievers.passages import Hits, Passage, Selection

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vector


class KeywordIndex(Protocol):
    """BM25 over the passages of a selection, with the statistics of the scope that is searched.

    The formula is Lucene's: ``idf = ln(1 + (N − df + 0.5) / (df + 0.5))`` and
    ``score = Σ idf · tf / (tf + k1 · (1 − b + b · length / average length))``, where N, df and the average length
    are those of the searched scope and kind, or of the union of the scopes when child scopes are included.
    """

    def add(self, passages: Sequence[Passage]) -> None:
        """Index new passages; called inside the ledger's transaction."""
        ...

    def remove(self, passages: Sequence[Passage]) -> None:
        """The exact inverse of :meth:`add`; called inside the ledger's transaction, before they leave the ledger."""
        ...

    def forget(self, passages: Sequence[int]) -> None:
        """Keep nothing in memory of passages that are gone; called after the transaction."""
        ...

    def search(self, terms: Sequence[str], selection: Selection, *, limit: int) -> Hits:
        """The best passages that share a term, best first, ties by lower id. No terms, no hits."""
        ...

    def verify(self) -> VerificationReport:
        """Compare what the index stores with the ledger's passages; an engine that stores nothing has no problems."""
        ...

    def rebuild(self) -> None:
        """Make everything the index stores or remembers anew from the ledger's passages, in one transaction."""
        ...


class VectorIndex(Protocol):
    """Nearest neighbours by cosine among the passages of a selection."""

    def search(self, vector: Vector, selection: Selection, *, limit: int) -> Hits:
        """The nearest passages, nearest first, ties by lower id; no floor on similarity."""
        ...

    def forget(self, passages: Sequence[int]) -> None:
        """Keep nothing in memory of passages that are gone; called after the transaction."""
        ...

    def rebuild(self) -> None:
        """Make everything the index stores or remembers anew from the ledger's vectors."""
        ...
