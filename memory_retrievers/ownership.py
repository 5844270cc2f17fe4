"""Who may write a store directory: one process at a time, in which every handle shares one live store."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import filelock

from memory_retrievers.errors import ConfigurationError, StoreLockedError

LOCK_FILE: Final = "LOCK"
OWNER_FILE: Final = "OWNER"
"""Holds the process id of the owner; beside the lock, since a contender empties the lock file."""


class Shareable(Protocol):
    """What is shared."""

    @property
    def settings(self) -> Hashable:
        """What a holder must ask for; it may change while the store is open."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


SharedT = TypeVar("SharedT", bound=Shareable)


@dataclass(eq=False)
class _Live(Generic[SharedT]):
    shared: SharedT
    lock: filelock.BaseFileLock
    process: int = field(default_factory=os.getpid)
    holders: int = 1
    closed: threading.Event = field(default_factory=threading.Event)


_live: dict[Path, _Live[Shareable]] = {}
# Reentrant: a handle that is garbage collected while another is being opened lets go of its share right then.
_registry = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit it from a thread that it does not have
    os.register_at_fork(before=_registry.acquire, after_in_parent=_registry.release, after_in_child=_registry.release)


def share(directory: Path, *, settings: Hashable, build: Callable[[], SharedT]) -> tuple[SharedT, Callable[[], None]]:
    """The live store of a directory, and how to let go of it; the last holder's letting go closes it.

    Args:
        directory: The store's directory, which exists.
        settings: What this holder asks for; the store that is open already must have the same.
        build: Opens the store; called by the first holder, once the directory is locked.

    Raises:
        StoreLockedError: Another process writes this store.
        ConfigurationError: This process has it open with other settings.
    """
    place = directory.resolve()
    while True:
        with _registry:
            live = _live.get(place)
            if live is None or live.process != os.getpid():
                live = _live[place] = _opened(place, build)
                break
            if live.holders:
                if live.shared.settings != settings:
                    raise ConfigurationError(
                        f"{directory} is open in this process with other settings: close it first, or open it the "
                        "same way"
                    )
                live.holders += 1
                break
        live.closed.wait()  # its last holder is letting go of it
    return live.shared, lambda: _let_go(place, live)  # type: ignore[return-value]  # built by `build`


def _opened(place: Path, build: Callable[[], SharedT]) -> _Live[Shareable]:
    lock = _locked(place)
    try:
        (place / OWNER_FILE).write_text(str(os.getpid()), encoding="ascii")
        return _Live(build(), lock)
    except BaseException:
        lock.release()
        raise


def _locked(place: Path) -> filelock.BaseFileLock:
    lock = filelock.FileLock(place / LOCK_FILE, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise StoreLockedError(
            f"{place} is being written by {_owner(place)}: close it there, or look into it with "
            "AgentMemory.open(path, read_only=True)"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be locked for writing: {error.strerror}") from error
    return lock


def _owner(place: Path) -> str:
    with contextlib.suppress(OSError):
        process = (place / OWNER_FILE).read_text(encoding="ascii", errors="replace").strip()
        if process.isdigit():
            return f"process {process}"
    return "another process"


def _let_go(place: Path, live: _Live[Shareable]) -> None:
    if live.process != os.getpid():
        return  # a forked child holds nothing: the store is its parent's
    with _registry:
        live.holders -= 1
        if live.holders:
            return
    # outside the registry: a worker may take long to end, and nobody else has to wait for that
    try:
        live.shared.close()
    finally:
        live.lock.release()
        with _registry:
            del _live[place]
        live.closed.set()
