"""Locks on files, which one open handle holds at a time and the system takes back when its process ends."""

from __future__ import annotations

import _thread
import errno
import os
import sys
import threading
import time
import weakref
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Final

from memory_retrievers.backends.files import PRIVATE, Access, Folder

if sys.platform == "win32":  # pragma: no cover - one of both is there
    import msvcrt
else:
    import fcntl

_BEYOND: Final = 2**30  # the byte that stands for the file where locks are on bytes, behind all that is ever written
_STAYS: Final = 2.0  # seconds that the thread which waits for a lock stays after the last time
_STAY: Final = 0.15  # seconds that a process which writes without a pause keeps its place while others wait for one
_PAUSE: Final = 0.02  # seconds without a write after which it has lost its place
_QUEUE: Final = 0.5  # seconds to wait for a place: its holder may be stopped, and the turn can be had without one
_PLACES: Final = 2  # how many processes compete for the turn: one makes its next write ready while the other commits

_HELD: Final = {errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN, errno.EDEADLK}


class FileLock(AbstractContextManager["FileLock"]):
    """A lock on a file; whoever waits for it gets it in the order in which they came. One thread at a time may ask.

    A child made by a fork has none of its parent's locks, and its end takes none from the parent.

    Args:
        folder: Where the file is.
        name: Its name.
        access: Its mode if it is made; None does not make it.
    """

    def __init__(self, folder: Folder, name: str, access: Access | None = PRIVATE) -> None:
        self.path = folder.path / name
        self._descriptors = [folder.handle(name, access)]
        self._changed = threading.Condition()
        self._has_waiter = self._is_waiting = self._is_wanted = self._is_got = self._is_closed = False
        self._failure: OSError | None = None
        _open_locks.add(self)

    def acquire(self, timeout: float) -> bool:
        """Take the lock, waiting for its turn up to so many seconds; with 0 it is taken if nobody holds it.

        Raises:
            OSError: The file system has no locks.
        """
        with self._changed:
            if not self._is_waiting:
                if self._try():
                    return True
                if not timeout:
                    return False
                # A handle waits in the system's queue, which has no time limit: so a thread of its own does. It stays
                # for a while: processes that wait for each other at every write would start one at every write.
                self._is_waiting = True
                if not self._has_waiter:
                    _thread.start_new_thread(self._wait, ())
                    self._has_waiter = True
                else:
                    self._changed.notify_all()
            self._is_wanted = True
            try:
                self._changed.wait_for(lambda: self._is_got or self._failure is not None, timeout)
            except BaseException:
                if self._is_got:
                    _let_go(self._descriptors[-1])
                self._is_got = False
                raise
            finally:
                self._is_wanted = False
            is_mine, failure = self._is_got, self._failure
            self._is_got, self._failure = False, None
        if failure is not None:
            raise failure
        return is_mine

    def release(self) -> None:
        """Release the lock."""
        _let_go(self._descriptors[-1])

    def close(self) -> None:
        """Release the lock, if it is held, and close the file; does nothing if called again."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
            if not self._is_waiting:  # else it does that when its turn comes
                self._close_files()

    def _wait(self) -> None:
        """Wait for whoever asks, until nobody has asked for a while."""
        with self._changed:
            while self._is_waiting:
                self._changed.release()
                failure = None
                try:
                    self._queue()
                except OSError as error:
                    failure = error
                finally:
                    self._changed.acquire()
                self._is_waiting = False
                if self._is_closed:
                    self._close_files()
                    break
                if self._is_wanted:
                    self._is_got, self._failure = failure is None, failure
                    self._changed.notify_all()
                elif failure is None:
                    _let_go(self._descriptors[-1])
                self._changed.wait_for(lambda: self._is_waiting or self._is_closed, _STAYS)
            self._has_waiter = False

    def _try(self) -> bool:
        """Take the lock if nobody holds it or, at a turnstile, waits for it."""
        taken = [*takewhile(_taken, self._descriptors)]
        is_mine = len(taken) == len(self._descriptors)
        for descriptor in taken[:-1] if is_mine else taken:
            _let_go(descriptor)
        return is_mine

    def _queue(self) -> None:
        """Wait in the system's queues until it is one's own: each file is let go of once the next one is had."""
        before: int | None = None
        for descriptor in self._descriptors:
            try:
                _wait_for(descriptor)
            finally:
                if before is not None:
                    _let_go(before)
            before = descriptor

    def _close_files(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)

    def abandon(self) -> None:
        """Close a parent's handle in its child, which leaves the parent's lock as it is."""
        self._is_closed = True
        self._close_files()

    def __exit__(self, *_: object) -> None:
        self.close()


class Turnstile(FileLock):
    """A lock that nobody gets twice while another waits: the next in line holds a second one, where the rest queue."""

    def __init__(self, folder: Folder, name: str, access: Access = PRIVATE) -> None:
        super().__init__(folder, name, access)
        try:
            self._descriptors.insert(0, folder.handle(f"{name}-next", access))
        except BaseException:
            self.close()
            raise

    def is_wanted(self) -> bool:
        """Return True if somebody waits for what the caller holds."""
        if not _taken(self._descriptors[0]):
            return True
        _let_go(self._descriptors[0])
        return False


class WriteTurn:
    """The turn to write, which one process has at a time, and for which few compete; the others wait for a place.

    A process that writes without a pause keeps its place for a moment, then queues again. So most writes wait for one
    other process at most, and none starves. Where nobody waits for a place, none is kept.

    Args:
        folder: Where the files of its locks are.
        name: Name of the first; the others have endings.
        number: Chosen at random: decides which of the places is waited for.
        access: Modes of the files that are made.
    """

    def __init__(self, folder: Folder, name: str, number: int, access: Access = PRIVATE) -> None:
        self._turn = Turnstile(folder, name, access)
        try:
            self._place = Turnstile(folder, f"{name}-place-{number % _PLACES}", access)
        except BaseException:
            self._turn.close()
            raise
        self._changing = threading.Lock()
        self._has_place = self._is_writing = self._goes_on = self._is_watched = False
        self._since = self._released = 0.0

    def acquire(self, timeout: float) -> bool:
        """Take the turn, waiting up to so many seconds. One thread at a time may ask."""
        begun = time.monotonic()
        with self._changing:
            self._is_writing, self._goes_on = True, begun - self._released < _PAUSE
            has_place = self._has_place
        is_mine = False
        try:
            if not has_place:
                self._has_place = self._place.acquire(min(timeout, _QUEUE))
                self._since = time.monotonic()
            is_mine = self._turn.acquire(max(0.0, begun + timeout - time.monotonic()))
        finally:
            if not is_mine:
                self._leave()
        return is_mine

    def release(self) -> None:
        """Release the turn, and the place unless more is to come."""
        self._turn.release()
        self._leave(stays=self._goes_on and time.monotonic() - self._since < _STAY)

    def close(self) -> None:
        """Release everything; does nothing if called again."""
        with self._changing:
            self._has_place = False
            self._place.close()
        self._turn.close()

    def _leave(self, *, stays: bool = False) -> None:
        with self._changing:
            self._is_writing, self._released = False, time.monotonic()
            if stays and self._has_place and self._place.is_wanted():
                if not self._is_watched:
                    self._is_watched = True
                    _thread.start_new_thread(self._watch, ())
            else:
                self._give_up()

    def _watch(self) -> None:
        """Give the place up if no write follows."""
        while self._is_watched:
            time.sleep(_PAUSE)
            with self._changing:
                if not self._is_writing and time.monotonic() - self._released >= _PAUSE:
                    self._give_up()
                self._is_watched = self._has_place

    def _give_up(self) -> None:
        if self._has_place:
            self._has_place = False
            self._place.release()


def is_held(folder: Folder, name: str) -> bool:
    """Return True if somebody holds the lock on a file, which is only looked at; also if that is unknown."""
    descriptor = folder.handle(name)
    try:
        return not _taken(descriptor, shared=True)
    finally:
        os.close(descriptor)


_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _abandon_all() -> None:
    for lock in list(_open_locks):
        if not lock._is_closed:  # noqa: SLF001 - of this module
            lock.abandon()
    _open_locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def _taken(descriptor: int, *, shared: bool = False) -> bool:
    try:
        _try(descriptor, shared=shared)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


if sys.platform == "win32":  # pragma: no cover - one of both is there

    def _try(descriptor: int, *, shared: bool) -> None:  # noqa: ARG001 - there is one kind
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _wait_for(descriptor: int) -> None:
        while not _taken(descriptor):
            time.sleep(0.005)

    def _let_go(descriptor: int) -> None:
        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:

    def _try(descriptor: int, *, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _wait_for(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _let_go(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
