"""Pending reviews: which episodes were returned for which question, gathered and written in batches."""

from __future__ import annotations

import logging
import threading
from typing import Final

from memory_retrievers.errors import BackendError, MemoryRetrieversError
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.store import MemoryStore

FLUSH_SECONDS: Final = 1.0
"""How long a recorded retrieval may wait for its batch: a commit costs more than the whole retrieval."""

MOST_WAITING: Final = 1_000
"""So many are kept while the store cannot be reached, the newest."""

_logger = logging.getLogger("memory_retrievers")


class PendingReviewBuffer:
    """Files pending reviews in the ledger, within a second, in one transaction for all that came meanwhile."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: list[PendingReview] = []
        self._timer: threading.Timer | None = None

    def add(self, review: PendingReview) -> None:
        """Take a review in; it is in the ledger a second later, or after :meth:`flush`."""
        with self._lock:
            self._waiting.append(review)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self._flush_in_background)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write everything that is waiting; when it returns, all that was added before is in the ledger."""
        with self._writing:  # also waits for a batch that the timer is writing
            with self._lock:
                waiting, self._waiting = self._waiting, []
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            if not waiting:
                return
            try:
                self._store.add_pending_reviews(waiting)
            except BackendError:
                with self._lock:  # written with the next ones, once the store can be reached again
                    self._waiting = [*waiting, *self._waiting][-MOST_WAITING:]
                raise

    def _flush_in_background(self) -> None:
        try:
            self.flush()
        except MemoryRetrieversError:
            _logger.exception("pending reviews could not be written")
