"""The sockets for the two indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from memory_retrievers.contents import VerificationReport
from memory_retrievers.passages import Hits, Passage, ProjectedPassage, Selection, TermCounts, TermStatistics

if TYPE_CHECKING:  # importing the package loads no numpy
    import numpy as np
    from numpy.typing import NDArray

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

    def statistics(self, terms: Sequence[str], selection: Selection) -> TermStatistics:
        """What a search for these terms is weighed by, over all passages of the selection's scope and fields."""
        ...

    def counts(self, terms: Sequence[str], selection: Selection, passages: NDArray[np.int64]) -> TermCounts:
        """How often distinct terms stand in passages that the selection lets through."""
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

    def is_approximate(self, selection: Selection) -> bool:
        """Whether a search of this selection may pass over a near passage, in return for looking at few."""
        ...

    def similarities(self, vector: Vector, selection: Selection, passages: NDArray[np.int64]) -> NDArray[np.float32]:
        """The cosines of passages that the selection lets through, in the order given; -1 for one that is gone."""
        ...

    def forget(self, passages: Sequence[int] | None) -> None:
        """Keep nothing in memory of passages that are gone, or of any if None; called after the transaction."""
        ...

    def verify(self) -> VerificationReport:
        """Compare what the index stores with the ledger's passages; one that stores nothing has no problems."""
        ...

    def rebuild(self) -> None:
        """Make everything the index stores or remembers anew from the ledger's vectors."""
        ...

    def purge(self) -> None:
        """Leave no byte of what was removed in anything the index stores."""
        ...

    def close(self) -> None:
        """Release everything; further calls do nothing."""
        ...


class VectorProjection(Protocol):
    """A vector store outside the ledger that repeats its passages, and can be made anew from them at any time.

    It is used by one thread that changes it and several that search it. Whatever goes wrong underneath ends in one of
    two errors.

    Raises:
        IndexOutOfStepError: What is stored is damaged or of no use; only making it anew helps.
        BackendError: It cannot be reached now.
    """

    def open(self, generation: str) -> bool:
        """Find what was stored under this name, look whether it answers, and get ready; False if there is none."""
        ...

    def create(self, generation: str) -> None:
        """Get ready to be filled under this name, after :meth:`destroy`."""
        ...

    def put(self, passages: Sequence[ProjectedPassage]) -> None:
        """Store passages, over those of the same id."""
        ...

    def remove(self, passages: Sequence[int]) -> None:
        """Take passages out, whether they are there or not."""
        ...

    def count(self) -> int:
        """How many passages are stored."""
        ...

    def search(self, vector: Vector, selection: Selection | None, *, limit: int) -> list[int]:
        """About the nearest passages that the selection lets through, or of all, nearest first."""
        ...

    def differences(self, passages: Sequence[ProjectedPassage]) -> list[str]:
        """One sentence for each of the given passages that is not stored, or not stored like that."""
        ...

    def ids(self) -> list[int]:
        """The ids of all passages that are stored."""
        ...

    def destroy(self, generation: str | None, *, every_byte: bool = False) -> None:
        """Leave nothing of what is stored under this name, and no byte in files that are the projection's alone.

        Args:
            generation: The name.
            every_byte: Fail rather than leave bytes behind, where the files are in somebody else's use as well.
        """
        ...

    def close(self) -> None:
        """Release everything; it can be opened again."""
        ...
