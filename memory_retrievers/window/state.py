"""State shared by all requests of a window: its memory and root, changes and their undo, and the diagnosis."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, Field

from memory_retrievers.backends.files import PRIVATE, SHARED_GROUP
from memory_retrievers.errors import BackendError, ConfigurationError, NotFoundError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, EpisodicMemory, MemoryKey, scopes
from memory_retrievers.models.fields import iso
from memory_retrievers.server.settings import TrafficSettings
from memory_retrievers.settings import Checked

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import Diagnosis

MOST_UNDONE: Final = 500  # changes that can be undone: the last
MOST_CHARACTERS: Final = 8_000_000  # characters that are held in memory to undo changes, of all of them together
READ_BYTES: Final = 262_144  # so much is read of the end of a journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A change, without any text of the memory, which may be forgotten later."""

    change: str
    at: str  # when, as ISO 8601
    who: str  # the user whose process did it
    action: str  # what was done
    scope: str  # scope of the memory
    id: str


class Journal:
    """A file of JSON lines to which processes append changes; readable by those who may use its directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, *, who: str, action: str, key: MemoryKey, at: datetime) -> Entry:
        """Append a change that was made.

        Args:
            who: The user.
            action: The name of the action.
            key: The memory.
            at: The time of the change.

        Raises:
            BackendError: The file cannot be written.
        """
        entry = Entry(change=secrets.token_hex(8), at=iso(at), who=who, action=action, scope=key.scope, id=key.id)
        try:
            with closing(os.fdopen(self._opened(), "ab", buffering=0)) as file:
                file.write(f"{json.dumps(asdict(entry))}\n".encode())  # in one piece: others append as well
        except OSError as error:
            raise BackendError(f"the change was made, but not recorded in {self._path.name}: {error}") from error
        return entry

    def require_writable(self) -> None:
        """Raise a ``BackendError`` if no change could be appended."""
        try:
            os.close(self._opened())
        except OSError as error:
            raise BackendError(f"no change was made: {self._path.name} cannot be written: {error.strerror}") from error

    def _opened(self) -> int:
        """Open the file to append; a new one is for its owner, or for the group that shares the directory."""
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, PRIVATE.file)
        except FileExistsError:
            return os.open(self._path, flags)
        if os.name == "posix" and self._path.parent.stat().st_mode & 0o070:
            os.fchmod(handle, SHARED_GROUP.file)
        return handle

    def newest(self) -> Iterator[Entry]:
        """Yield the last changes, newest first."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - READ_BYTES))
                lines = file.read(READ_BYTES).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise BackendError(f"{self._path.name} cannot be read: {error.strerror}") from error
        for line in reversed(lines):
            with suppress(ValueError, TypeError):  # cut off at its beginning, or by somebody's hand
                yield Entry(**json.loads(line))


@dataclass(frozen=True, slots=True)
class Undo:
    """A memory before and after a change."""

    before: AnyMemory
    after: AnyMemory

    @property
    def size(self) -> int:
        """Approximate number of characters."""
        return sum(len(each.embedding_text) + 1_000 for each in (self.before, self.after))


class UndoBook:
    """Changes that can be undone while the window is open; only this process holds their texts."""

    def __init__(self) -> None:
        self._undos: OrderedDict[str, Undo] = OrderedDict()
        self._lock = threading.Lock()
        self.changes = 0

    def put(self, change: str, before: AnyMemory, after: AnyMemory) -> None:
        """Remember how to undo a change.

        Args:
            change: The id of the change.
            before: The memory before it.
            after: The memory after it.
        """
        with self._lock:
            self._undos[change] = Undo(_light(before), _light(after))
            size = sum(each.size for each in self._undos.values())
            while self._undos and (size > MOST_CHARACTERS or len(self._undos) > MOST_UNDONE):
                size -= self._undos.popitem(last=False)[1].size

    def note_change(self) -> None:
        """Count a change of this window, so that the page reloads at once."""
        with self._lock:
            self.changes += 1

    def get(self, change: str) -> Undo | None:
        """Return the memory before and after a change; None if it cannot be undone."""
        with self._lock:
            return self._undos.get(change)

    def drop(self, change: str) -> None:
        """Drop the undo of a change."""
        with self._lock:
            self._undos.pop(change, None)

    def forget(self, key: MemoryKey) -> None:
        """Drop the undos of a memory."""
        with self._lock:
            for change in [each for each, undo in self._undos.items() if undo.after.key == key]:
                del self._undos[change]

    def keep_present(self, scope: str, present: Callable[[Sequence[MemoryKey]], set[MemoryKey]]) -> None:
        """Drop the undos of memories of a scope that have been forgotten, also by other processes."""
        with self._lock:
            keys = {undo.after.key for undo in self._undos.values() if undo.after.scope == scope}
        for key in keys - present(list(keys)) if keys else ():
            self.forget(key)


def _light(memory: AnyMemory) -> AnyMemory:
    """Return a memory without its messages, which no undo changes."""
    return memory.model_copy(update={"messages": ()}) if isinstance(memory, EpisodicMemory) else memory


FRESH_SECONDS: Final = 30.0  # so long a diagnosis is shown before another is made
WAITED_SECONDS: Final = 0.4  # so long an answer waits for a diagnosis, which looks through the whole file


class Doctor:
    """Diagnoses a store in the background, without disturbing the handles of this process."""

    def __init__(self, address: Path | str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._last: Future[Diagnosis] | None = None
        self._running: Future[Diagnosis] | None = None
        self._begun_at = 0.0

    def diagnosis(self) -> Diagnosis | None:
        """Return the last diagnosis; None while the first is being made."""
        with self._lock:
            if self._running is None and (self._last is None or time.monotonic() - self._begun_at > FRESH_SECONDS):
                self._begun_at = time.monotonic()
                self._running = self._begin()
            running, last = self._running, self._last
        if running is not None:
            with suppress(TimeoutError):
                running.exception(timeout=WAITED_SECONDS if last is None else 0)
                last = running
                with self._lock:
                    self._last, self._running = running, None
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

_SHARE: Final = 20  # a whole scope is read again after so many times as long as it took

_SCOPES_WATCHED: Final = 256


class WindowSettings(Checked):
    """Settings of a window."""

    title: str  # name of the store
    address: Path | str  # its directory or database
    journal: Path  # file to which each change is appended
    # only this scope and those below it; None is everything
    root: Annotated[str | None, AfterValidator(lambda scope: None if scope is None else scopes.parse(scope))] = None
    read_only: bool = False  # only look
    port: Annotated[int, Field(ge=0, le=65_535)] = 0  # port on this machine's own address; 0 is any that is free
    embedder: str = ""  # name of the embedder that filled the store; empty if nobody has yet

    @property
    def traffic(self) -> TrafficSettings:
        """Limits on requests, for the browser of one person."""
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
    """Versions of a scope, by which a change is noticed."""

    state: tuple[int, ...]  # what its indexes tell
    ratings: tuple[int, ...]  # what its memories tell of labels and ratings, as last read
    read_at: float  # when that was, on a clock that only rises
    took: float  # how long that took, in seconds


@dataclass(slots=True)
class Window:
    """A window into a memory."""

    memory: AgentMemory
    settings: WindowSettings  # what is shown of it, and whether it may be changed
    undo: UndoBook = field(default_factory=UndoBook)  # what can be undone
    who: str = field(default_factory=_user)  # name of the user that this process belongs to
    _pulses: dict[str, Pulse] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _read: dict[str, Future[None]] = field(default_factory=dict)
    _schema: int = field(init=False)
    journal: Journal = field(init=False)  # who has changed what, and when
    doctor: Doctor = field(init=False)  # diagnoses the store

    def __post_init__(self) -> None:
        self.journal, self.doctor = Journal(self.settings.journal), Doctor(self.settings.address)
        self._schema = self.memory.overview.schema()

    def require_its_schema(self) -> None:
        """Raise a ``ConfigurationError`` if a newer version of the package has changed the tables since."""
        if self.memory.overview.schema() != self._schema:
            raise ConfigurationError(
                "a newer version of memory-retrievers has changed the tables of this store since the window was opened:"
                " nothing was changed here; end the window, upgrade the package, and open it again"
            )

    def read_ahead(self, scope: str) -> None:
        """Load in the background what searches of a scope need, once."""
        with self._lock:
            if scope in self._read:
                return
            for other in [each for each, future in self._read.items() if future.cancel()]:
                del self._read[other]  # nobody has waited for it
            if len(self._read) >= _SCOPES_WATCHED:
                del self._read[next(iter(self._read))]
            self._read[scope] = self._readers.submit(self._read_whole, scope)

    def _read_whole(self, scope: str) -> None:
        """Search a scope, and keep nothing that is found, since it may be forgotten at any time."""
        self.memory.retrieve("anything", scope=scope, record=False)

    def wait_for_reading(self, scope: str) -> None:
        """Wait while a scope is being loaded, so that a search does not load it twice."""
        with self._lock:
            future = self._read.get(scope)
            if future is None or future.cancel():
                self._read.pop(scope, None)
                return
        future.exception()  # the search will meet the same

    def close(self) -> None:
        """Stop loading, and close the memory."""
        self._readers.shutdown(cancel_futures=True)
        self.memory.close()

    def reach(self, scope: object) -> str:
        """Check the scope of a request, and return it.

        Raises:
            NotFoundError: It is outside the root, whether it exists or not.
        """
        named, root = scopes.parse(scope), self.settings.root
        if root is not None and not scopes.is_within(root, named):
            raise NotFoundError("there is no such scope in this window")
        return named

    def find(self, id: str, *, scope: str) -> AnyMemory:
        """Return the memory with this id in this scope; open episodes are included."""
        return self.memory.get(id, scope=self.reach(scope))

    def pulse(self, scope: str) -> str:
        """Return a text that changes when the content of a scope changes, in any process.

        Changes of tags and ratings raise no version of the scope and are noticed later, in a large scope less often.
        """
        overview, now = self.memory.overview, time.monotonic()
        state = overview.state(scope, include_child_scopes=False)
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
