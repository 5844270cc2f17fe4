"""The socket for what a store remembers about a collection it was filled from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedRow:
    """A memory that stands in the collection too.

    Attributes:
        memory: The ledger's number of the memory.
        digest: Of what stood in the collection when it was last read; empty before that.
    """

    memory: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """Changes that the collection has not been told of yet.

    Attributes:
        last: The number of the last change among them.
        memories: The ledger's numbers of the memories that are new or changed; some may be gone again.
        gone: The ids in the collection of memories that are gone.
    """

    last: int
    memories: tuple[int, ...]
    gone: tuple[str, ...]


class AdoptedRows(Protocol):
    """Which memories stand under which id in the collection; a row goes with its memory."""

    def quiet_transaction(self) -> AbstractContextManager[None]:
        """A transaction of the ledger whose changes the collection is not told of: they come from there."""
        ...

    def note(self, rows: Mapping[str, AdoptedRow]) -> None:
        """Remember rows by their ids in the collection, over what was remembered."""
        ...

    def known(self, ids: Sequence[str]) -> dict[str, AdoptedRow]:
        """The rows of those of the given ids that are remembered."""
        ...

    def ids_of(self, memories: Sequence[int]) -> dict[int, str]:
        """The ids of those of the given memories that stand in the collection."""
        ...

    def page(self, *, after: str, limit: int) -> list[str]:
        """The remembered ids that follow one, in their order; the empty one is before all."""
        ...

    def count(self) -> int:
        """How many rows are remembered."""
        ...

    def unwritten(self, *, limit: int) -> Unwritten | None:
        """The oldest changes that the collection has not been told of; None if there are none."""
        ...

    def settle(self, *, last: int) -> None:
        """The collection has been told of the changes up to this one."""
        ...
