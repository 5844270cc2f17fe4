"""The thread that removes expired items of a LangGraph store."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta

from memory_retrievers.errors import ConfigurationError, ValidationError

_logger = logging.getLogger("memory_retrievers")


def ended() -> Future[None]:
    """A future of what has ended already."""
    future = Future[None]()
    future.set_result(None)
    return future


class TTLSweeper:
    """Calls a method again and again in a thread, until its object or its memory ends; it keeps neither."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = weakref.WeakMethod(sweep)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._running = ended()

    def start(self, interval: timedelta) -> Future[None]:
        """Start the thread, unless it runs; what is given is done when it has ended, and stops it if cancelled.

        Raises:
            ValidationError: The interval is not above 0.
        """
        if interval <= timedelta():
            raise ValidationError(f"the time between two sweeps must be above 0, not {interval}")
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and not self._stop.is_set():
                return self._running
            stop, running = threading.Event(), Future[None]()
            self._stop, self._running = stop, running
            running.add_done_callback(lambda _: stop.set())
            self._thread = threading.Thread(
                target=_work, args=(self._sweep, stop, running, interval), name="ttl-sweeper", daemon=True
            )
            self._thread.start()
            return running

    def stop(self, timeout: float | None) -> bool:
        """Stop the thread; False if it still runs after so many seconds."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()


def _work(
    method: weakref.WeakMethod[Callable[[], int]], stop: threading.Event, running: Future[None], interval: timedelta
) -> None:
    while not stop.wait(interval.total_seconds()) and (sweep := method()) is not None:
        try:
            sweep()
        except ConfigurationError:  # the memory is closed, or may only be read
            break
        except Exception as error:  # noqa: BLE001 - the next turn may do it
            _logger.warning("expired items were not swept (%s)", type(error).__name__)
        del sweep
    if running.set_running_or_notify_cancel():
        running.set_result(None)
