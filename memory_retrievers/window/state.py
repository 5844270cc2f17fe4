"""What all requests of a window share: the memory, how far the window reaches, what was changed, its diagnosis."""

from __future__ import annotations

import getpass
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError, NotFoundError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, scopes
from memory_retrievers.server.settings import TrafficSettings
from memory_retrievers.window.journal import Journal, UndoBook

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import Diagnosis

FRESH_SECONDS: Final = 30.0
"""So long a diagnosis is shown before another is made."""

WAITED_SECONDS: Final = 0.4
"""So long an answer waits for a diagnosis, which looks through the whole file."""


class Doctor:
    """Diagnoses a store now and then, where it does not disturb the handles of this process."""

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


MAX_BODY_BYTES: Final = 65_536

_SHARE: Final = 20
"""What reads a whole scope is done again after so many times as long as it took: a twentieth of a processor."""

_SCOPES_WATCHED: Final = 256


class WindowSettings(BaseModel):
    """Settings of a window.

    Attributes:
        title: Name of the store.
        address: Directory or database, where the store has one.
        root: Only this scope and those below it; None is everything.
        read_only: Only look.
        port: Port on this machine's own address; 0 is any that is free.
        embedder: Name of the embedder that filled the store; empty if nobody has yet.
        journal: File to which each change is appended; None keeps the list in memory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    address: Path | str | None = None
    root: Annotated[str | None, AfterValidator(lambda scope: None if scope is None else scopes.parse(scope))] = None
    read_only: bool = False
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    embedder: str = ""
    journal: Path | None = None

    @property
    def traffic(self) -> TrafficSettings:
        """Limits of requests: those of one person's browser."""
        return TrafficSettings(
            max_connections=64, max_body_bytes=MAX_BODY_BYTES, max_json_depth=16, max_json_elements=4_000
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a number without a name
        return "somebody"


@dataclass(frozen=True, slots=True)
class Pulse:
    """Signs of life of a scope."""

    state: tuple[int, ...]  # what its indexes tell
    ratings: tuple[int, ...]  # what its memories tell of labels and ratings, as last read
    read_at: float  # when that was, on a clock that only rises
    took: float  # how long that took, in seconds


@dataclass(slots=True)
class Window:
    """A window into a memory."""

    memory: AgentMemory
    settings: WindowSettings  # what is shown of it, and whether it may be changed
    journal: Journal  # who has changed what, and when
    undo: UndoBook = field(default_factory=UndoBook)  # what can be undone
    who: str = field(default_factory=_user)  # name of the user that this process belongs to
    doctor: Doctor | None = None  # diagnoses the store; None for one that has no address
    _pulses: dict[str, Pulse] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _read: dict[str, Future[None]] = field(default_factory=dict)
    _schema: int = field(init=False)

    def __post_init__(self) -> None:
        self._schema = self.memory.overview.schema()

    def require_its_schema(self) -> None:
        """Raise a ``ConfigurationError`` if a newer version of the package has changed the tables since."""
        if self.memory.overview.schema() != self._schema:
            raise ConfigurationError(
                "a newer version of memory-retrievers has changed the tables of this store since the window was opened:"
                " nothing was changed here; end the window, upgrade the package, and open it again"
            )

    def read_ahead(self, scope: str) -> None:
        """Have a thread read what searches of a scope need, once: whoever opens a scope may soon search it."""
        with self._lock:
            if scope in self._read:
                return
            for other in [each for each, future in self._read.items() if future.cancel()]:
                del self._read[other]  # nobody has waited for it
            if len(self._read) >= _SCOPES_WATCHED:
                del self._read[next(iter(self._read))]
            self._read[scope] = self._readers.submit(self._read_whole, scope)

    def _read_whole(self, scope: str) -> None:
        """Search a scope for anything, and keep nothing that is found: it may be forgotten at any time."""
        self.memory.retrieve("anything", scope=scope, record=False)

    def wait_for_reading(self, scope: str) -> None:
        """Wait while a scope is being read, so that a search does not read it a second time beside that."""
        with self._lock:
            future = self._read.get(scope)
            if future is None or future.cancel():
                self._read.pop(scope, None)
                return
        future.exception()  # the search will meet the same

    def close(self) -> None:
        """Read nothing any more, and close the memory."""
        self._readers.shutdown(cancel_futures=True)
        self.memory.close()

    def reach(self, scope: object) -> str:
        """Check a scope that a request names.

        Raises:
            ValidationError: It is malformed.
            NotFoundError: It lies outside the root, whether or not there is one.
        """
        named, root = scopes.parse(scope), self.settings.root
        if root is not None and not scopes.is_within(root, named):
            raise NotFoundError("there is no such scope in this window")
        return named

    def find(self, id: str, *, scope: str) -> AnyMemory:
        """The memory of this id in this scope, open episodes included.

        Raises:
            NotFoundError: There is none there, or the scope is out of reach.
            ValidationError: The scope is malformed.
        """
        return self.memory.get(id, scope=self.reach(scope))

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self.memory.now()

    def pulse(self, scope: str) -> str:
        """A text that changes when what a scope holds changes, in whatever process.

        What is stored, learned, invalidated or forgotten is seen at once. Labels and ratings raise no version of the
        scope: they are read now and then, and in a large scope less often.
        """
        overview, now = self.memory.overview, time.monotonic()
        state = overview.state(scope)
        with self._lock:
            known = self._pulses.get(scope)
        if known is None or known.state != state or now - known.read_at >= max(0.5, _SHARE * known.took):
            ratings = overview.ratings(scope)
            known = Pulse(state, ratings, now, time.monotonic() - now)
            with self._lock:
                self._pulses.pop(scope, None)
                self._pulses[scope] = known
                if len(self._pulses) > _SCOPES_WATCHED:
                    del self._pulses[next(iter(self._pulses))]
        self.undo.keep_present(scope, self.memory.manager.present)
        return ".".join(map(str, (*known.state, *known.ratings, self.undo.changes)))
