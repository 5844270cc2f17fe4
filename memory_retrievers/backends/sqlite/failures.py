"""What goes wrong in SQLite, as errors of this package."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from memory_retrievers.errors import BackendError, ValidationError

SQLITE_ERRORS: Final = (sqlite3.Error, OverflowError, UnicodeEncodeError)
"""Numbers beyond 64 bits and lone surrogates are refused before SQLite sees them."""


@contextmanager
def wrapped(path: Path | None) -> Iterator[None]:
    """Let them come out as such."""
    try:
        yield
    except SQLITE_ERRORS as error:
        raise translated(error, path) from error


def translated(error: Exception, path: Path | None) -> ValidationError | BackendError:
    """The error of this package that tells of one of SQLite's; ``path`` is where, None in memory."""
    if isinstance(error, sqlite3.IntegrityError):
        return ValidationError(f"the store refused the change: {error}; nothing was written")
    if not isinstance(error, sqlite3.Error):
        return ValidationError(f"SQLite cannot hold a value: {error}; nothing was written")
    return BackendError(f"SQLite failed on {path or 'the in-memory store'}: {error}")
