"""How a process opens and closes the file of a store that others have open too, and what it does before a fork.

Processes open and close one at a time, through a gate. The first to open checks the file's checksum, and the last to
close writes it. In between, the file is read through SQLite alone: closing a plain handle on it would release the locks
of all connections of the same process.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Final

from memory_retrievers.backends import processes
from memory_retrievers.backends.files import Access, is_full, make_file, refusal
from memory_retrievers.backends.processes import Attachment, named
from memory_retrievers.backends.sql.connection import one
from memory_retrievers.backends.sqlite import connection as connections
from memory_retrievers.backends.sqlite import schema
from memory_retrievers.backends.sqlite.connection import check_seal, is_sealed, remove_seal, write_seal
from memory_retrievers.backends.sqlite.schema import MIGRATIONS
from memory_retrievers.errors import BackendError, ConfigurationError, StoreLockedError

OLDER_LEAVE_WITHIN: Final = 10.0
"""Seconds that processes of an older version of the package get to end before a newer one changes the tables."""

_LOOK_AGAIN: Final = 0.05  # seconds

# How many of this process's databases are connected to a file.
_connections: Counter[Path] = Counter()

# Files that a parent was using at the fork, whose locks SQLite would take for those of this process.
_used_by_parent: set[Path] = set()

# SQLite fails rather than waits when two threads switch a new file to WAL at once.
# Reentrant: a store that is garbage collected while another is being opened is closed right then.
opening = threading.RLock()

FORK_PAUSE: Final = 5.0  # seconds that a fork waits for what is being read and written


if hasattr(os, "register_at_fork"):  # a child must not inherit it from a thread that it does not have
    os.register_at_fork(before=opening.acquire, after_in_parent=opening.release, after_in_child=opening.release)


class AttachedFile:
    """The file of a database, which other processes may have open too; errors as of an :class:`Attachment`."""

    def __init__(self, path: Path, *, access: Access, read_only: bool) -> None:
        self._path = path
        self.place = path.resolve()
        self._access = access
        self._is_sealed = False
        self.attachment = None if read_only else Attachment(path.parent, schema=len(MIGRATIONS), access=access)

    def ask_before_forks(self, part: Callable[[], Callable[[], None] | None]) -> None:
        """Have a method of the database called before every fork of this process."""
        self.part = weakref.WeakMethod(part)
        _open.add(self)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Make or check the file, and let the caller connect to it.

        Raises:
            StoreLockedError: Processes of an older version of the package do not end.
            BackendError: The file is damaged, or cannot be made.
        """
        if self.place in _used_by_parent:
            raise ConfigurationError(
                f"{self._path} was being read or written when this process was forked, and cannot be opened in it: "
                "fork when it is not in use, or start the process afresh (multiprocessing: the method spawn)"
            )
        attachment = self.attachment
        if attachment is None:
            with opening:
                self._check(is_first=True)
                yield
                self._inode = self._path.stat().st_ino
                _connections[self.place] += 1
            return
        deadline = time.monotonic() + OLDER_LEAVE_WITHIN
        try:
            while True:
                with attachment.gate(), opening:
                    if not self._must_wait(attachment, deadline):
                        attachment.sweep()
                        make(self._path, self._access)
                        self._check(is_first=not attachment.others())
                        attachment.enter()
                        yield
                        self._inode = self._path.stat().st_ino
                        _connections[self.place] += 1
                        return
                time.sleep(_LOOK_AGAIN)
        except BaseException:
            attachment.leave()
            attachment.close()
            raise

    def _must_wait(self, attachment: Attachment, deadline: float) -> bool:
        """True while a process of an older version has the file open, which its tables must not change under."""
        older = [other for other in attachment.others() if other.schema < len(MIGRATIONS)]
        if older and time.monotonic() > deadline:
            raise StoreLockedError(
                f"{self._path.parent} is open in {named(older)} of an older version of memory-retrievers "
                f"({older[0].version}): end it, so that this version can bring the tables up to date"
            )
        return bool(older)

    def _check(self, *, is_first: bool) -> None:
        """Check the file as a whole before it is connected to; reading it later would lose SQLite's locks."""
        if is_first and self.place not in _connections and self._path.is_file():
            _check_seal(self._path)
        self._is_sealed = is_sealed(self._path)

    @contextmanager
    def going(self) -> Iterator[None]:
        """Let the caller close its connections; the last process to close writes a checksum."""
        attachment = self.attachment
        if attachment is None:
            with opening:
                yield
                self._disconnected()
            return
        try:
            with attachment.gate(), opening:
                yield
                is_last = self._disconnected() and not attachment.others()
                if is_last and self._is_in_place() and not is_sealed(self._path):
                    write_seal(self._path, self._access)
                attachment.leave()
        finally:
            attachment.close()

    def _disconnected(self) -> bool:
        """Count one database less; True if this process has no other on the file."""
        _connections[self.place] -= 1
        if _connections[self.place] > 0:
            return False
        del _connections[self.place]
        return True

    def break_seal(self) -> None:
        """Remove the checksum, before anything is changed."""
        if self._is_sealed:
            remove_seal(self._path)
            self._is_sealed = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the exclusive right to write the file, which has no checksum from then on.

        Raises:
            StoreLockedError: Another process does not finish.
            BackendError: What is written would be lost with the file, which is no longer in its place.
        """
        attachment = self._required()
        if not attachment.turn.acquire(processes.PATIENCE):
            raise StoreLockedError(
                f"{self._path.parent} is being written by {named(attachment.others())} for more than "
                f"{processes.PATIENCE:.0f} s: wait until it is done, or look at it with `memory-retrievers doctor`; "
                "nothing was written"
            )
        try:
            self.require_place()
            self.break_seal()
            yield
        finally:
            attachment.turn.release()

    def alone(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        """Hold a further lock that the processes of the store share, see :meth:`Attachment.alone`."""
        self.require_place()
        return self._required().alone(name, timeout)

    def require_place(self) -> None:
        """Require that the file is where it was opened."""
        if not self._is_in_place():
            raise BackendError(f"{self._path} was moved, deleted or replaced while it was open here: open it again")

    def _is_in_place(self) -> bool:
        return self._path.exists() and self._path.stat().st_ino == self._inode

    def _required(self) -> Attachment:
        assert self.attachment is not None  # noqa: S101 - who only looks writes nothing
        return self.attachment


def read_note(path: Path, name: str) -> str | None:
    """Read a metadata value of a store of any version, also while another process writes it; None if there is none."""
    with connections.wrapped(path), opening, closing(connections.look_into(path)[0]) as connection:
        schema.refuse_newer(connection, path)
        is_made = schema.version_of(connection) > 0  # else nothing has been written yet
        note: str | None = one(connection, "SELECT value FROM notes WHERE name = ?", (name,)) if is_made else None
        return note


def make(path: Path, access: Access) -> None:
    """Create the empty file with its mode, which SQLite copies to its log and the other files beside it."""
    try:
        make_file(path, access)
    except OSError as error:
        if is_full(error):
            raise refusal(path, error) from error
        raise BackendError(f"unable to open {path}: {error.strerror}") from error


def _check_seal(path: Path) -> None:
    try:
        check_seal(path)
    except BackendError:
        # a newer version of the package may note it in another way; looked at so, nothing is made beside it
        with closing(connections.connect(connections.address_of(path, mode="ro&immutable=1"))) as connection:
            schema.refuse_newer(connection, path)
        raise


# A child that inherited a connection could open no other one on the same file safely, since SQLite would take the locks
# of its parent for its own; and even to close the inherited one may harm the parent. So they are closed before a fork.
_open: weakref.WeakSet[AttachedFile] = weakref.WeakSet()
_parted: list[Callable[[], None]] = []
_still_used: list[Path] = []


def _before() -> None:
    for file in list(_open):
        if (part := file.part()) is None:
            continue  # the database has just gone
        if (go_on := part()) is not None:
            _parted.append(go_on)
        else:
            _still_used.append(file.place)


def _after_in_parent() -> None:
    while _parted:
        _parted.pop()()
    _still_used.clear()


def _after_in_child() -> None:
    _parted.clear()  # none of these databases is of use here
    _connections.clear()
    _used_by_parent.update(_still_used)
    _open.clear()


if hasattr(os, "register_at_fork"):  # after that of opening files, which it goes before
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
