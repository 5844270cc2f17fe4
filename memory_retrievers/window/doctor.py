"""Diagnoses of a store for a window: made now and then, beside the handles of this process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import Diagnosis

FRESH_SECONDS: Final = 30.0
"""So long a diagnosis is shown before another is made."""

WAITED_SECONDS: Final = 0.4
"""So long an answer waits for a diagnosis, which looks through the whole file."""


class Doctor:
    """Diagnoses a store now and then, where it does not disturb the handles of this process.

    Args:
        address: Directory or database.
    """

    def __init__(self, address: Path | str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._last: Future[Diagnosis] | None = None
        self._running: Future[Diagnosis] | None = None
        self._begun_at = 0.0

    def diagnosis(self) -> Diagnosis | None:
        """The last diagnosis; None while the first is being made.

        Raises:
            MemoryRetrieversError: It cannot be made.
        """
        with self._lock:
            if self._running is None and (self._last is None or time.monotonic() - self._begun_at > FRESH_SECONDS):
                self._begun_at = time.monotonic()
                self._running = self._begin()
            running, last = self._running, self._last
        if running is not None:
            try:
                running.exception(timeout=WAITED_SECONDS if last is None else 0)
            except TimeoutError:
                return None if last is None else last.result()
            with self._lock:
                self._last, self._running = running, None
            last = running
        return None if last is None else last.result()

    def _begin(self) -> Future[Diagnosis]:
        from memory_retrievers.storage.diagnosis import diagnose_database, diagnose_directory

        if isinstance(self._address, str):
            threads = ThreadPoolExecutor(max_workers=1)
            future = threads.submit(diagnose_database, self._address)
            threads.shutdown(wait=False)
            return future
        # in a process of its own: to close a plain handle on the file takes back the locks of this one's connections
        processes = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))
        future = processes.submit(diagnose_directory, self._address)
        processes.shutdown(wait=False)
        return future
