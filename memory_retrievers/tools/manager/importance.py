"""Importance of memories: by use, or as it was set by hand; and accesses, which are counted and noted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import AuditEntry, AuditType, MemoryEventType
from memory_retrievers.settings import ToolSettings
from memory_retrievers.storage.store import MemoryStore

DAY: Final = timedelta(days=1)
RECENCY_WEIGHT: Final = 0.6
FREQUENCY_WEIGHT: Final = 0.4
RECENCY_DAYS: Final = 30  # after so many days without an access, recency has fallen to 1/e


def importance_of(access_count: int, days: float, *, max_accesses: int = 100) -> float:
    """The importance that use gives a memory, 0 to 1, to four digits.

    >>> importance_of(12, 30)
    0.2687

    Args:
        access_count: How often it was handed out.
        days: Days, with their fraction, since it last was; since it was made if it never was.
        max_accesses: From so many accesses on, more of them add nothing.
    """
    recency = math.exp(-max(0.0, days) / RECENCY_DAYS)
    frequency = min(access_count / max_accesses, 1)
    return round(RECENCY_WEIGHT * recency + FREQUENCY_WEIGHT * frequency, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """Counts accesses and keeps importance in step with them."""

    store: MemoryStore
    settings: ToolSettings
    transaction: Callable[..., AbstractContextManager[None]]  # of the scopes in which something is written
    is_read_only: bool  # count nothing, and write nothing

    def access(self, memories: Sequence[AnyMemory], *, how: AuditType) -> list[AnyMemory]:
        """Count one access of each memory, and give them as they are now.

        Importance follows, unless it was set by hand. The audit takes one access per memory and way in so many seconds.
        One that is gone meanwhile is given back as it is; a read-only store counts nothing.
        """
        if self.is_read_only or not memories:
            return list(memories)
        now = self.store.now()
        with self.transaction(*{memory.scope for memory in memories}):
            # as they are now: somebody else may have counted meanwhile
            there = self.store.ledger.read({memory.key for memory in memories})
            present = [there[memory.key] for memory in memories if memory.key in there]
            accessed = [self._accessed(each, now) for each in present]
            self.store.ledger.management.write_use(accessed)
            entries = [
                _entry(AuditType(how), old=before.importance, memory=after, at=now)
                for before, after in zip(present, accessed, strict=True)
            ]
            spacing = timedelta(seconds=self.settings.access_log_rate_limit_seconds)
            self.store.ledger.management.note(entries, spacing=spacing)
        counted = {memory.key: memory for memory in accessed}
        return [counted.get(memory.key, memory) for memory in memories]

    def _accessed(self, memory: AnyMemory, now: datetime) -> AnyMemory:
        counted = memory.model_copy(update={"access_count": memory.access_count + 1, "last_accessed_at": now})
        return self._followed(counted, now)

    def _followed(self, memory: AnyMemory, now: datetime) -> AnyMemory:
        """The memory with the importance that its use gives; as it is if that was set by hand, or it was never used."""
        if memory.importance_pinned or memory.last_accessed_at is None:
            return memory
        importance = importance_of(
            memory.access_count,
            (now - memory.last_accessed_at) / DAY,
            max_accesses=self.settings.importance_max_accesses,
        )
        return memory if importance == memory.importance else memory.model_copy(update={"importance": importance})

    def current(self, memory: AnyMemory) -> AnyMemory:
        """The memory with its importance as of now, which is no access.

        It stays as it was stored until the first access, and as it was set by hand.
        """
        now = self.store.now()
        if self.is_read_only:
            return self._followed(memory, now)
        before = self.store.get(memory.id, scope=memory.scope)
        after = self._followed(before, now)
        if after is before:
            return before
        with self.transaction(memory.scope):
            after = self._followed(self.store.get(memory.id, scope=memory.scope), now)
            self.store.ledger.management.write_use([after])
        return after

    def set(self, memory: AnyMemory, *, score: float, reason: str) -> AnyMemory:
        """Set a memory's importance by hand, which accesses no longer change, and note it in the audit.

        Args:
            memory: The memory, of either kind.
            score: The importance, 0 to 1.
            reason: The reason that the audit notes.

        Raises:
            ValidationError: The score is not within 0 to 1.
        """
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise ValidationError(f"score must be between 0.0 and 1.0, not {score!r}")
        update = {"importance": float(score), "importance_pinned": True}
        with self.transaction(memory.scope):
            before = self.store.get(memory.id, scope=memory.scope)
            after = before.model_copy(update=update)
            self.store.ledger.management.write_use([after])
            entry = _entry(
                AuditType.SCORE, old=before.importance, memory=after, at=self.store.now(), reason=storable(reason)
            )
            self.store.ledger.management.note([entry])
            self.store.ledger.events.note([after.key], MemoryEventType.PINNED, at=entry.at)
        return after

    def clear(self, memory: AnyMemory) -> AnyMemory:
        """Return a memory to the importance that follows from its use."""
        with self.transaction(memory.scope):
            before = self.store.get(memory.id, scope=memory.scope)
            after = self._followed(before.model_copy(update={"importance_pinned": False}), self.store.now())
            self.store.ledger.management.write_use([after])
            if before.importance_pinned:
                self.store.ledger.events.note([after.key], MemoryEventType.UNPINNED, at=self.store.now())
        return after


def _entry(type: AuditType, *, old: float, memory: AnyMemory, at: datetime, reason: str | None = None) -> AuditEntry:
    return AuditEntry(memory=memory.key, type=type, at=at, old=old, new=memory.importance, reason=reason)
