"""What is queued of a conversation, and when that becomes memories: at once, or in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from memory_retrievers.ingestion.pipeline import IngestionPipeline, noting
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.protocols import Clock, Memory

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.conversations import SQLConversations


LONGEST_SLEEP: Final = 60.0
"""Seconds between two looks at the clock, at most; a clock may be set, and a laptop may sleep."""

FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
"""Seconds for which a scope that failed is left alone; the pause doubles with every failure in a row."""

Process: TypeAlias = Literal["background", "due", "never"]
"""Time when queued messages become memories: in the memory's worker thread, which is started for it; if they are due
when a message comes, which holds up the chat; or when other code asks for it."""

_logger = logging.getLogger("memory_retrievers")


def without_repeats(
    memory: Memory, scope: str, messages: Sequence[Message], *, conversation: str | None
) -> list[Message]:
    """New messages without what the user says again though nobody has answered, as after a model that failed.

    Args:
        memory: The memory.
        scope: The scope of the conversation.
        messages: Its new messages, oldest first.
        conversation: Which of the scope's conversations it is.
    """
    asks = bool(messages) and is_of_user(messages[0].role)
    before = memory.transcript(scope, conversation, limit=1) if asks else []
    new: list[Message] = []
    for each in messages:
        last = [(message.role, message.content) for message in (new or before)[-1:]]
        if not is_of_user(each.role) or last != [(each.role, each.content)]:
            new.append(each)
    return new


def process_queue(memory: Memory, scope: str, *, process: Process) -> None:
    """See to it that what is due in a scope becomes memories; where that fails, the next message brings another try.

    Args:
        memory: The memory.
        scope: The scope of the conversation.
        process: When: see :data:`Process`.
    """
    try:
        if process == "background":
            memory.start_worker()
        elif process == "due":  # also what another conversation has left behind
            memory.process_due(scope)
    except Exception as error:  # noqa: BLE001 - raised, it would have the chat hand them over once more
        log_failure("messages stay queued", error)


def log_failure(outcome: str, error: Exception) -> None:
    """Say, without any text of it, what a chat goes on without."""
    _logger.warning("%s, since the memory failed (%s)", outcome, type(error).__name__)


class Worker:
    """Processes all scopes in the background."""

    def __init__(self, pipeline: IngestionPipeline, *, conversations: SQLConversations, clock: Clock) -> None:
        self._pipeline = pipeline
        self._conversations = conversations
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._failed: dict[str | None, tuple[int, float]] = {}  # failures in a row, and until when it is left alone
        self._thread = threading.Thread(target=self._run, name="memory-retrievers-worker", daemon=True)

    def start(self) -> None:
        """Begin with what is due already."""
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
        pause = 0.0
        while True:
            # 1. sleep until something arrives or is due
            self._wake.wait(pause)
            self._wake.clear()
            if self._stopping.is_set():
                return
            # 2. do it; what fails is tried again after a while
            failures: list[Exception] = []
            self._work(failures)
            pause = LONGEST_SLEEP
            with noting(failures):
                pause = self._pause()
            if failures:
                kinds = ", ".join(sorted({type(failure).__name__ for failure in failures}))
                _logger.warning("messages could not be processed and stay queued: %s", kinds)

    def _work(self, failures: list[Exception]) -> None:
        """Do what is due: in every scope, then what concerns all; what failed is left alone, and holds up nobody."""
        due: list[str | None] = []
        with noting(failures):
            due.extend(self._pipeline.scopes())
            self._failed = {each: self._failed[each] for each in (*due, None) if each in self._failed}
        for scope in (*due, None):
            if self._stopping.is_set():
                return
            times, until = self._failed.get(scope, (0, 0.0))
            if until > time.monotonic():
                continue
            failed: list[Exception] = []
            if scope is not None:
                with noting(failed):
                    self._pipeline.process(scope)
            else:
                for work in (self._pipeline.embed_open, self._pipeline.erase_old_messages):
                    with noting(failed):
                        work()
            self._failed.pop(scope, None)
            if failed:
                pause = min(FIRST_PAUSE * 2.0 ** min(times, 10), LONGEST_PAUSE)
                self._failed[scope] = times + 1, time.monotonic() + pause
                failures.extend(failed)

    def _pause(self) -> float:
        """Seconds until the next queue is due by its age or silence, or what failed is tried again."""
        now, rests = self._clock.now(), time.monotonic()
        waits = [until - rests for _, until in self._failed.values()]
        queue = self._pipeline.queue
        for (scope, _), state in self._conversations.states().items():
            # what another process has claimed is due all along, and for hours if it was killed at it
            if scope not in self._failed and not queue.is_leased(state) and (due_at := queue.due_at(state)):
                waits.append((due_at - now).total_seconds())
        return min(max(min(waits, default=LONGEST_SLEEP), 0.1), LONGEST_SLEEP)
