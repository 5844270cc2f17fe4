"""Processes that have a store open: each holds the lock on a file of its own, which says what it is.

A file that nobody holds the lock on was left behind by a process that was killed. Its number says nothing: another
process may have got it since, and in a container every process may have the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from memory_retrievers.backends.files import PRIVATE, Access, Folder, is_full, refusal
from memory_retrievers.backends.locks import FileLock, WriteTurn, is_held
from memory_retrievers.errors import BackendError, ConfigurationError, StoreLockedError

DIRECTORY: Final = "processes"  # within that of a store: the files of its processes, and the locks that they share
GATE: Final = "gate"  # lock of who is just coming or going
TURN: Final = "turn"  # lock of who is writing
PATIENCE: Final = 60.0  # seconds to wait for a lock held for moments only, or for one who has the store for itself

OwnT = TypeVar("OwnT")

_LONGEST: Final = 4_096  # bytes of a file
_NAMED: Final = 100  # characters of a program's name
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedProcess:
    """A process that has a store open for writing, or that was killed and has left its file behind."""

    id: str  # what its leases are known by; made anew whenever a process opens a store
    pid: int  # its number where it runs, which may be in a container; 0 if that cannot be read
    program: str  # what it was started as, without arguments
    version: str  # version of the package
    schema: int  # version of the tables that it works on
    since: datetime  # when it opened the store
    is_alive: bool  # whether it still has it open


def attached(directory: Path) -> list[AttachedProcess]:
    """List the processes that have the store in a directory open for writing, in the order in which they came.

    They are the living and those that were killed. Nothing is changed there; what no process has written has none.
    """
    try:
        with Folder(directory) as store, store.below(DIRECTORY) as folder:
            found = _all_seen(folder)
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda process: (process.since, process.id))


class Attachment:
    """What one handle on a store holds in the directory of its processes.

    Args:
        directory: The store's directory.
        schema: Version of the tables that this version of the package works on.
        access: Modes of the files that are made.

    Raises:
        StoreLockedError: Nothing can be written there.
        ConfigurationError: Something else stands in the place of a file or directory.
        BackendError: There is no such directory.
    """

    def __init__(self, directory: Path, *, schema: int, access: Access = PRIVATE) -> None:
        self.id: Final = uuid.uuid4().hex
        self._schema = schema
        self._access = access
        self._own: FileLock | None = None
        with _opening(directory):
            with Folder(directory) as store:
                self._folder = store.below(DIRECTORY, access)
            with contextlib.ExitStack() as made:
                made.callback(self._folder.close)
                self._gate = FileLock(self._folder, GATE, access)
                made.callback(self._gate.close)
                self.turn = WriteTurn(self._folder, TURN, int(self.id, 16), access)
                made.pop_all()

    @contextmanager
    def gate(self) -> Iterator[None]:
        """Keep others from opening or closing the store meanwhile.

        Raises:
            StoreLockedError: Another process does not finish.
        """
        if not self._gate.acquire(PATIENCE):
            raise StoreLockedError(
                f"{self._folder.path.parent} is being opened or closed by {named(self.others())} for more than "
                f"{PATIENCE:.0f} s: look at it with `memory-retrievers doctor`, and end it if it hangs"
            )
        try:
            yield
        finally:
            self._gate.release()

    def enter(self) -> None:
        """Register as a process that has the store open; inside the gate.

        Raises:
            StoreLockedError: Nothing can be written there.
        """
        beside = f".{self.id}.part"
        with _opening(self._folder.path.parent):
            try:
                own = FileLock(self._folder, beside, self._access)
                try:
                    own.acquire(0)  # nobody knows of it yet
                    self._folder.overwrite(beside, self._note(), self._access)
                    self._folder.replace(beside, self.id)
                except BaseException:
                    own.close()
                    raise
            finally:
                self._folder.remove(beside)
        self._own = own

    def others(self) -> list[AttachedProcess]:
        """The living processes and handles beside this one."""
        return [each for each in _all_seen(self._folder) if each.is_alive and each.id != self.id]

    def is_gone(self, holder: str) -> bool:
        """Return True if the handle of this id no longer has the store open."""
        if not _ID.fullmatch(holder):
            return False
        try:
            return holder != self.id and not is_held(self._folder, holder)
        except FileNotFoundError:
            return True
        except OSError:
            return False

    @contextmanager
    def alone(self, name: str, timeout: float) -> Iterator[bool]:
        """Hold a further lock that the processes of the store share; False if another has it for so many seconds."""
        with contextlib.ExitStack() as held:
            with _opening(self._folder.path.parent):
                is_alone = held.enter_context(FileLock(self._folder, name, self._access)).acquire(timeout)
            yield is_alone

    def sweep(self) -> None:
        """Remove what killed processes have left behind; inside the gate; errors as of :meth:`enter`."""
        with _opening(self._folder.path.parent):
            for name in self._folder.names():
                if (_ID.fullmatch(name) and self.is_gone(name)) or name.endswith(".part"):
                    self._folder.remove(name)

    def leave(self) -> None:
        """Unregister; inside the gate."""
        if self._own is not None:
            self._folder.remove(self.id)
            self._own.close()
            self._own = None

    def close(self) -> None:
        """Release all locks and close all files."""
        for held in (self._own, self._gate, self.turn, self._folder):
            if held is not None:
                held.close()

    def _note(self) -> bytes:
        program = Path(sys.argv[0] if sys.argv else sys.executable)  # arguments and folders may tell what is private
        note = {
            "pid": os.getpid(),
            "program": program.name[:_NAMED],
            "version": sys.modules["memory_retrievers"].__version__,  # which a lower layer does not import
            "schema": self._schema,
        }
        return json.dumps(note).encode()


def per_process(make: Callable[[], OwnT]) -> Callable[[], OwnT]:
    """Return a function for what is made at once, and anew after a fork: a connection both use mixes up its answers."""
    made = {os.getpid(): make()}
    return lambda: made.get(os.getpid()) or made.setdefault(os.getpid(), make())


def named(processes: list[AttachedProcess]) -> str:
    """Name processes in a sentence; "another process" if there are none."""
    numbers = sorted({process.pid for process in processes if process.pid})
    if not numbers:
        return "another process"
    return f"process {numbers[0]}" if len(numbers) == 1 else f"one of the processes {', '.join(map(str, numbers))}"


def _all_seen(folder: Folder) -> list[AttachedProcess]:
    """What the files of processes say, but for those that go meanwhile or were put there by somebody else."""
    found = []
    for name in filter(_ID.fullmatch, folder.names()):
        with contextlib.suppress(OSError, ConfigurationError):
            is_alive, since, note = is_held(folder, name), folder.modified_at(name), _read(folder, name)
            found.append(
                AttachedProcess(
                    id=name,
                    pid=_number(note.get("pid")),
                    program=str(note.get("program", ""))[:_NAMED],
                    version=str(note.get("version", ""))[:_NAMED],
                    schema=_number(note.get("schema")),
                    since=datetime.fromtimestamp(since, UTC),
                    is_alive=is_alive,
                )
            )
    return found


def _read(folder: Folder, name: str) -> dict[str, Any]:
    try:
        note = json.loads(folder.read(name, _LONGEST))
    except (ValueError, RecursionError):  # somebody else's, or torn
        return {}
    return note if isinstance(note, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


@contextmanager
def _opening(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
            raise StoreLockedError(
                f"{directory} cannot be written: {error.strerror}; to read it only, use "
                "AgentMemory.open(path, read_only=True)"
            ) from error
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise ConfigurationError(
                f"{directory / DIRECTORY} is a link, or not a directory: find out who put it there, and remove it"
            ) from error
        if is_full(error):
            raise refusal(directory, error) from error
        raise BackendError(f"unable to open {directory}: {error.strerror}") from error
