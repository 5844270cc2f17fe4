"""Records on disk that native code was entered, to detect that the process crashed in it.

A damaged index can crash the interpreter, and would do so at every use. Two crashes in a row in the same operation are
taken as damage; a single one may have been a kill at that moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memory_retrievers.backends.files import PRIVATE, Access, Folder

MOST_DEATHS: Final = 2


class CrashGuard:
    """Counts consecutive crashes by operation, in files beside the guarded directory.

    Args:
        directory: Where the files are; None guards nothing, as where no native code opens files.
        name: What the files' names begin with.
        access: The modes of these files.
    """

    def __init__(self, directory: Path | None, *, name: str, access: Access = PRIVATE) -> None:
        self._directory = directory
        self._name = name
        self._access = access
        self._deaths: dict[str, int] = {}

    @property
    def tripped(self) -> bool:
        """True if processes have crashed too often in the same operation."""
        if self._directory is None:
            return False
        return any(_count(file) >= MOST_DEATHS for file in self._directory.glob(f"{self._name}.*.entered"))

    @contextlib.contextmanager
    def entering(self, operation: str) -> Iterator[None]:
        """Mark native code as running; leaving by an exception counts as no crash."""
        if self._directory is None:
            yield
            return
        file = self._directory / f"{self._name}.{operation}.entered"
        if operation not in self._deaths:
            self._deaths[operation] = _count(file)
        with Folder(self._directory) as folder:
            folder.overwrite(file.name, b"x" * (self._deaths[operation] + 1), self._access)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
            self._deaths[operation] = 0

    def reset(self) -> None:
        """Forget all crashes, once the data they happened in is deleted."""
        self._deaths.clear()
        if self._directory is not None:
            for file in self._directory.glob(f"{self._name}.*.entered"):
                file.unlink(missing_ok=True)


def _count(file: Path) -> int:
    with contextlib.suppress(OSError):
        return file.stat().st_size
    return 0
