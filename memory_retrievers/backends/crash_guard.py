"""Remembers on disk that native code was entered, and notices that the process did not come back from it.

A damaged index can crash the interpreter, and would do so again every time it is used. Two deaths in a row in the same
operation are taken for that; one may have been a kill that came at that moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_DEATHS: Final = 2


class CrashGuard:
    """Counts deaths in a row, by operation, in files beside what is guarded.

    Args:
        directory: Where the files are; None guards nothing, as where no native code opens files.
        name: What the files' names begin with.
    """

    def __init__(self, directory: Path | None, *, name: str) -> None:
        self._directory = directory
        self._name = name
        self._deaths: dict[str, int] = {}

    @property
    def tripped(self) -> bool:
        """Whether processes have died too often in the same operation."""
        if self._directory is None:
            return False
        return any(_count(file) >= MOST_DEATHS for file in self._directory.glob(f"{self._name}.*.entered"))

    @contextlib.contextmanager
    def entering(self, operation: str) -> Iterator[None]:
        """While native code is at work; leaving by an exception is no death."""
        if self._directory is None:
            yield
            return
        file = self._directory / f"{self._name}.{operation}.entered"
        if operation not in self._deaths:
            self._deaths[operation] = _count(file)
        file.write_bytes(b"x" * (self._deaths[operation] + 1))
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            self._deaths[operation] = 0

    def reset(self) -> None:
        """Forget all deaths, since what they happened in is gone."""
        self._deaths.clear()
        if self._directory is not None:
            for file in self._directory.glob(f"{self._name}.*.entered"):
                file.unlink(missing_ok=True)


def _count(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0
