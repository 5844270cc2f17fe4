"""Writing: what goes before a write of the manager, and what has to follow it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from memory_retrievers.errors import READ_ONLY, ConfigurationError
from memory_retrievers.settings import ToolSettings
from memory_retrievers.store import MemoryStore


class Writing:
    """Lets operations write to a store, one alone or several together.

    Args:
        store: What is written to.
        settings: How often to clear out, and how long the audit is kept.
        read_only: Refuse every write.
        after_write: Called after every write that is not part of another.
    """

    def __init__(
        self, store: MemoryStore, *, settings: ToolSettings, read_only: bool, after_write: Callable[[], None]
    ) -> None:
        self.read_only = read_only
        self._store = store
        self._after_write = after_write
        self._interval = timedelta(seconds=settings.cleanup_interval_seconds)
        self._kept = timedelta(days=settings.audit_days)
        self._cleared_at: datetime | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextmanager
    def __call__(self) -> Iterator[MemoryStore]:
        """The store, for one operation; one inside another is part of that.

        Raises:
            ConfigurationError: The store was opened read-only.
        """
        if self.read_only:
            raise ConfigurationError(READ_ONLY)
        if getattr(self._thread, "is_writing", False):
            yield self._store
            return
        self._clear_out()
        self._thread.is_writing = True
        try:
            yield self._store
        finally:
            self._thread.is_writing = False
        self._after_write()

    def _clear_out(self) -> None:
        """Remove what has expired and what was noted long ago, unless that was done a short while ago."""
        now = self._store.now()
        with self._lock:
            last = self._cleared_at
            if last is not None and last <= now < last + self._interval:
                return
            self._cleared_at = now
        self._store.remove_expired()
        self._store.ledger.management.forget_audit(before=now - self._kept)
