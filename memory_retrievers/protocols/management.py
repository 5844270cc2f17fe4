"""The socket for what the memory tools keep and ask beside the records: lists, use, associations, and the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from memory_retrievers.managed import Association, AuditEntry, MemoryFilter
from memory_retrievers.models import AnyMemory, MemoryKey


class Management(Protocol):
    """What a ledger offers to the memory tools; every method that writes may be called inside a transaction."""

    def select(
        self,
        filter: MemoryFilter,
        *,
        now: datetime,
        limit: int | None = None,
        offset: int = 0,
        newest_first: bool = True,
    ) -> list[AnyMemory]:
        """The memories that the filter lets through and that have not expired by ``now``.

        They are ordered by ``created_at``, then by id and by scope.
        """
        ...

    def count(self, filter: MemoryFilter, *, now: datetime) -> int:
        """How many memories :meth:`select` would give without a limit."""
        ...

    def scopes(self, root: str, *, now: datetime) -> dict[str, int]:
        """How many memories each scope holds that is ``root`` or below it, sorted; what holds none is left out.

        Neither what has expired by ``now`` nor what no longer holds is counted.
        """
        ...

    def passages(self, keys: Sequence[MemoryKey]) -> Mapping[MemoryKey, int]:
        """The passages that hold the own texts of those of the memories that are there and are searched."""
        ...

    def write_use(self, memories: Sequence[AnyMemory]) -> None:
        """Write importance, its pin, and the accesses of memories over those of the stored ones, and nothing else."""
        ...

    def remove(self, keys: Sequence[MemoryKey]) -> int:
        """Remove memories with every trace of them, as ``Ledger.remove`` does; gives how many there were."""
        ...

    def move(self, keys: Sequence[MemoryKey], *, target_scope: str) -> None:
        """Give memories another scope; their rows, passages and associations stay.

        They leave the pending reviews of the scope they had. Lists of ids in other memories stay as they are.

        Raises:
            NotFoundError: One of them is not there.
            ValidationError: An id is taken in the target; nothing was moved.
        """
        ...

    def associate(self, associations: Sequence[Association]) -> int:
        """Associate pairs of memories; of two associations of one pair the stronger stays.

        One that names a memory that is not there, or one memory twice, is left out.

        Returns:
            How many pairs were not associated before.
        """
        ...

    def associations(
        self, key: MemoryKey, *, within: str, now: datetime, limit: int | None = None
    ) -> list[Association]:
        """A memory's associations, the strongest first, then the newest.

        Args:
            key: The memory.
            within: Only with memories of this scope and those below it.
            now: Not with memories that have expired by then; nor with what no longer holds.
            limit: At most this many.
        """
        ...

    def note(self, entries: Sequence[AuditEntry], *, spacing: timedelta | None = None) -> None:
        """Add to the audit; what names a memory that is not there is left out.

        Args:
            entries: What to add.
            spacing: Leave out what comes sooner than this after an entry of the same memory and type.
        """
        ...

    def audit(self, key: MemoryKey) -> list[AuditEntry]:
        """What was noted about a memory, oldest first."""
        ...

    def forget_audit(self, *, before: datetime) -> None:
        """Drop what was noted earlier than that."""
        ...
