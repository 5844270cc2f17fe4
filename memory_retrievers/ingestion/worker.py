"""A thread that does what is due, when messages arrive and when they have waited long enough."""

from __future__ import annotations

import logging
import threading
from typing import Final

from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.protocols import Clock, Conversations

LONGEST_SLEEP: Final = 60.0
"""Seconds between two looks at the clock, at most; a clock may be set, and a laptop may sleep."""

FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
"""Seconds after a failure before the next attempt; the pause doubles with every failure in a row."""

_logger = logging.getLogger("memory_retrievers")


class Worker:
    """Processes all scopes in the background.

    Args:
        pipeline: Does the work.
        conversations: Tells where something waits.
        clock: Tells what time it is.
    """

    def __init__(self, pipeline: IngestionPipeline, *, conversations: Conversations, clock: Clock) -> None:
        self._pipeline = pipeline
        self._conversations = conversations
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="memory-retrievers-worker", daemon=True)

    def start(self) -> None:
        """Begin with what is due already."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Something has arrived."""
        self._wake.set()

    def stop(self) -> None:
        """End after the scope that is being worked on; what is left stays due."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait(self._pause())
            self._wake.clear()
            if self._stopping.is_set():
                return
            self._work()
            if self._failures:
                self._stopping.wait(self._backoff())
                self._wake.set()

    def _work(self) -> None:
        try:
            for scope in self._pipeline.scopes():
                if self._stopping.is_set():
                    return
                self._pipeline.process(scope)
            self._pipeline.erase_old_messages()
        except MemoryRetrieversError as error:
            self._failures += 1
            _logger.warning("messages could not be processed and stay queued: %s", type(error).__name__)
        else:
            self._failures = 0

    def _backoff(self) -> float:
        return float(min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE))

    def _pause(self) -> float:
        """Seconds until the next queue is due by its age."""
        now = self._clock.now()
        states = map(self._conversations.state, self._conversations.scopes())
        waits = [(due_at - now).total_seconds() for state in states if (due_at := self._pipeline.queue.due_at(state))]
        return min(max(min(waits, default=LONGEST_SLEEP), 0.1), LONGEST_SLEEP)
