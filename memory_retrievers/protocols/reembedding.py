"""The socket for the vectors of another embedder, gathered until there is one for every passage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class UnembeddedPassage:
    """A passage for which there is no new vector yet.

    Attributes:
        id: Its number in the ledger.
        memory: The ledger's number of the memory it belongs to.
        part: Which text of the memory it is.
        text: What is searched.
    """

    id: int
    memory: int
    part: str
    text: str


class NewVectors(Protocol):
    """New vectors beside those that searches use; they outlive the process, and go with their passages."""

    def moving(self) -> AbstractContextManager[bool]:
        """Gather vectors and take them over; False if another process is at it."""
        ...

    def label(self) -> str | None:
        """What the vectors are gathered under; None if nothing is being gathered."""
        ...

    def begin(self, label: str) -> None:
        """Drop what was gathered, and gather under this label from now on."""
        ...

    def missing(self, *, after: int = 0, limit: int) -> list[UnembeddedPassage]:
        """Passages above an id that have no new vector, by ascending id."""
        ...

    def keep(self, passages: Sequence[int], vectors: Vectors) -> None:
        """Keep new vectors, leaving out those of passages that are gone."""
        ...

    def counts(self) -> tuple[int, int]:
        """How many passages have a new vector, and how many passages there are."""
        ...

    def take_over(self) -> None:
        """Put the new vectors in the place of the old ones, keep no other, and gather nothing any more."""
        ...
