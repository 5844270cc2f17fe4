"""Forks of a process that has databases open: their connections are closed before, and made anew after.

A child that inherited a connection could open no other one on the same file safely, since SQLite would take the locks
of its parent for its own; and even to close the inherited one may harm the parent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from memory_retrievers.backends.sqlite.attachment import forget_parent

PAUSE: Final = 5.0
"""Seconds that a fork waits for what is being read and written."""


class Parting(Protocol):
    """A database in a file."""

    @property
    def place(self) -> Path:
        """The file, without links."""
        ...

    def part_before_fork(self) -> Callable[[], None] | None:
        """Close all connections, and keep others from making new ones until the function that is given is called.

        Returns:
            None if they are in use for longer than :data:`PAUSE`, or by this very thread.
        """
        ...


_open: weakref.WeakSet[Parting] = weakref.WeakSet()
_parted: list[Callable[[], None]] = []
_still_used: list[Path] = []


def register(database: Parting) -> None:
    """Let a database be asked before every fork of this process."""
    _open.add(database)


def _before() -> None:
    for database in list(_open):
        if (go_on := database.part_before_fork()) is not None:
            _parted.append(go_on)
        else:
            _still_used.append(database.place)


def _after_in_parent() -> None:
    while _parted:
        _parted.pop()()
    _still_used.clear()


def _after_in_child() -> None:
    _parted.clear()  # none of these databases is of use here
    forget_parent(_still_used)
    _open.clear()


if hasattr(os, "register_at_fork"):  # after that of opening files, which it goes before
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
