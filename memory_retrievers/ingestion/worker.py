"""What is queued of a conversation, and when that becomes memories: at once, or in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from weakref import WeakValueDictionary

from memory_retrievers.errors import ConfigurationError, MemoryRetrieversError
from memory_retrievers.ingestion.pipeline import IngestionPipeline, noting
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.models.results import MAX_PAGE
from memory_retrievers.protocols import Clock
from memory_retrievers.retrieval.memory import Memory

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.conversations import SQLConversations


LONGEST_SLEEP: Final = 60.0  # seconds between two looks at the clock, at most: a clock may be set, a laptop may sleep
FIRST_PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 600.0
"""Seconds for which what failed is left alone; the pause doubles with every failure in a row."""

Process: TypeAlias = Literal["background", "due", "never"]
"""Time when queued messages become memories: in the memory's worker thread, which is started for it; if they are due
when a message comes, which holds up the chat; or when other code asks for it."""

_What: TypeAlias = tuple[str, str | None] | str | int
"""What may fail: a conversation, what follows from the episodes of a scope, or one of the things that concern all."""

_Rest: TypeAlias = tuple[int, float]
"""Failures in a row, and until when it is left alone."""

_logger = logging.getLogger("memory_retrievers")

_recording: Final[WeakValueDictionary[tuple[str, str | None], threading.RLock]] = WeakValueDictionary()
_making: Final = threading.Lock()


def recording(scope: str, conversation: str | None) -> AbstractContextManager[object]:
    """Lock out the other threads that record in a conversation, from :func:`without_repeats` until it is queued."""
    with _making:
        return _recording.setdefault((scope, conversation), threading.RLock())


def without_repeats(
    memory: Memory, scope: str, messages: Sequence[Message], *, conversation: str | None, answers: bool = False
) -> list[Message]:
    """New messages without what the user says again though nobody has answered, as after a model that failed.

    Args:
        memory: The memory.
        scope: The scope of the conversation.
        messages: Its new messages, oldest first.
        conversation: Which of the scope's conversations it is.
        answers: Also without an answer that begins them, and what follows it, if the conversation ends with just that.
    """
    begun = [*takewhile(lambda each: is_of_user(each.role), messages)] or (messages if answers else [])
    asked = [(each.role, each.content) for each in begun][:MAX_PAGE]
    before = memory.transcript(scope, conversation, limit=len(asked)) if asked else []
    known = [(each.role, each.content) for each in before]
    again = max(count for count in range(len(known) + 1) if known[len(known) - count :] == asked[:count])
    new: list[Message] = []
    for each in messages[again:]:
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
    failed = "the memory" if isinstance(error, MemoryRetrieversError) else "the memory or a function of yours"
    _logger.warning("%s, since %s failed (%s)", outcome, failed, type(error).__name__)


@contextmanager
def going_on(outcome: str, failures: list[Exception] | None = None) -> Iterator[None]:
    """Log an error in the block, unless ``failures`` has one, without any text; raise errors of configuration."""
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - a hook or a counter of the host may raise anything
        if not failures:
            log_failure(outcome, error)
        if failures is not None:
            failures.append(error)


class Worker:
    """Processes all scopes in the background."""

    def __init__(self, pipeline: IngestionPipeline, *, conversations: SQLConversations, clock: Clock) -> None:
        self._pipeline = pipeline
        self._conversations = conversations
        self._clock = clock
        self._wake = threading.Event()
        self._failed: dict[_What, _Rest] = {}
        self.thread = threading.Thread(target=self._run, name="memory-retrievers-worker", daemon=True)

    def start(self) -> None:
        """Begin with what is due already."""
        self.thread.start()

    def wake(self) -> None:
        """Something has arrived."""
        self._wake.set()

    def stop(self) -> None:
        """End after the messages that are being worked on; what is left stays due."""
        self._pipeline.stopping.set()
        self._wake.set()
        self.thread.join()

    def _run(self) -> None:
        pause = 0.0
        while True:
            # 1. sleep until something arrives or is due
            self._wake.wait(pause)
            self._wake.clear()
            if self._pipeline.stopping.is_set():
                return
            # 2. do it; what fails is tried again after a while
            failures: list[Exception] = []
            pause, least = LONGEST_SLEEP, self._work(failures)
            with noting(failures):
                pause = max(self._pause(), least)
            if failures:
                kinds = ", ".join(sorted({type(failure).__name__ for failure in failures}))
                _logger.warning("messages could not be processed and stay queued: %s", kinds)

    def _work(self, failures: list[Exception]) -> float:
        """Do what is due in every scope, then what concerns all; give the least pause until the next look, in seconds.

        What failed is left alone and holds up nobody: other conversations of its scope may be those of other people.
        """
        pipeline, before, least = self._pipeline, self._failed, FIRST_PAUSE
        with noting(failures):
            due = pipeline.due()
            least, self._failed = 0.0, {}
            for scope, conversations in due.items():
                for each in conversations:
                    work = partial(pipeline.process_conversation, scope, each)
                    self._try((scope, each), work, before=before, failures=failures)
                self._try(scope, partial(pipeline.finish, scope), before=before, failures=failures)
        for number, general in enumerate((pipeline.embed_open, pipeline.erase_old_messages)):
            self._try(number, general, before=before, failures=failures)
        return least

    def _try(
        self, what: _What, work: Callable[[], object], *, before: Mapping[_What, _Rest], failures: list[Exception]
    ) -> None:
        """Do one thing, unless it rests by ``before``, and let it rest if it fails."""
        times, until = before.get(what, (0, 0.0))
        if until > time.monotonic():
            self._failed[what] = times, until
        elif not self._pipeline.stopping.is_set():
            failed: list[Exception] = []
            with noting(failed):
                work()
            if failed:
                pause = min(FIRST_PAUSE * 2.0 ** min(times, 10), LONGEST_PAUSE)
                self._failed[what] = times + 1, time.monotonic() + pause
                failures.extend(failed)
            else:
                self._failed.pop(what, None)

    def _pause(self) -> float:
        """Seconds until the next queue is due by its age or silence, or what failed is tried again."""
        now, rests = self._clock.now(), time.monotonic()
        waits = [until - rests for _, until in self._failed.values()]
        queue = self._pipeline.queue
        for each, state in self._conversations.states().items():
            # what another process has claimed is due all along, and for hours if it was killed at it
            if each not in self._failed and not queue.is_leased(state) and (due_at := queue.due_at(state)):
                waits.append((due_at - now).total_seconds())
        return min(max(min(waits, default=LONGEST_SLEEP), 0.1), LONGEST_SLEEP)
