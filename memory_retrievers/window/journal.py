"""The journal of a window: who has changed what and when, without a word of it, and what can be undone."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from memory_retrievers.backends.files import PRIVATE, SHARED_GROUP
from memory_retrievers.errors import BackendError
from memory_retrievers.models import AnyMemory, EpisodicMemory, MemoryKey
from memory_retrievers.models.fields import iso

MOST_UNDONE: Final = 500
"""Changes that can be undone: the last."""

MOST_CHARACTERS: Final = 8_000_000
"""Characters that are held in memory to undo changes, of all of them together."""

READ_BYTES: Final = 262_144
"""So much is read of the end of a journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A change. It quotes nothing of the memory, so that nothing stays here of one that is forgotten."""

    change: str
    at: str  # when, as ISO 8601
    who: str  # the user whose process did it
    action: str  # what was done
    scope: str  # scope of the memory
    id: str


class Journal:
    """A file of JSON lines to which changes are appended, by any number of processes.

    It is made for those who may use its directory; without a path the last changes are kept in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: deque[str] = deque(maxlen=1_000)

    def append(self, *, who: str, action: str, key: MemoryKey, at: datetime) -> Entry:
        """Note a change that was made.

        Args:
            who: The user.
            action: What was done.
            key: To which memory.
            at: When.

        Raises:
            BackendError: It cannot be noted.
        """
        entry = Entry(change=secrets.token_hex(8), at=iso(at), who=who, action=action, scope=key.scope, id=key.id)
        values = {name: getattr(entry, name) for name in entry.__slots__}
        line = json.dumps(values, ensure_ascii=True)
        if self._path is None:
            self._last.append(line)
            return entry
        try:
            with closing(os.fdopen(self._opened(self._path), "ab", buffering=0)) as file:
                file.write(f"{line}\n".encode())  # in one piece: others append as well
        except OSError as error:
            raise BackendError(f"the change is made, but could not be noted in {self._path.name}: {error}") from error
        return entry

    def require_writable(self) -> None:
        """See that changes can be noted, before one is made.

        Raises:
            BackendError: They cannot.
        """
        if self._path is None:
            return
        try:
            os.close(self._opened(self._path))
        except OSError as error:
            raise BackendError(
                f"changes could not be noted in {self._path.name}, so none is made: {error.strerror}"
            ) from error

    @staticmethod
    def _opened(path: Path) -> int:
        """A handle that appends; a new file is for its owner alone, or for the group that shares the directory."""
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE.file)
        except FileExistsError:
            return os.open(path, flags)
        if os.name == "posix" and path.parent.stat().st_mode & 0o070:
            os.fchmod(handle, SHARED_GROUP.file)
        return handle

    def newest(self) -> Iterator[Entry]:
        """Yield the last changes, newest first."""
        for line in reversed(self._lines()):
            try:
                yield Entry(**json.loads(line))
            except (ValueError, TypeError):  # cut off at its beginning, or by somebody's hand
                continue

    def _lines(self) -> Sequence[str]:
        if self._path is None:
            return list(self._last)
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - READ_BYTES))
                return file.read(READ_BYTES).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BackendError(f"{self._path.name} cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Undo:
    """A memory before and after a change."""

    before: AnyMemory
    after: AnyMemory

    @property
    def size(self) -> int:
        """Characters of its texts, roughly."""
        return sum(len(each.embedding_text) + 1_000 for each in (self.before, self.after))


class UndoBook:
    """Changes that can be undone while the window is open: their texts are in this process's memory alone."""

    def __init__(self) -> None:
        self._undos: OrderedDict[str, Undo] = OrderedDict()
        self._lock = threading.Lock()
        self.changes = 0

    def put(self, change: str, before: AnyMemory, after: AnyMemory) -> None:
        """Remember how to undo a change.

        Args:
            change: Its id.
            before: The memory before it.
            after: The memory after it.
        """
        with self._lock:
            self._undos[change] = Undo(_light(before), _light(after))
            size = sum(each.size for each in self._undos.values())
            while self._undos and (size > MOST_CHARACTERS or len(self._undos) > MOST_UNDONE):
                size -= self._undos.popitem(last=False)[1].size

    def note_change(self) -> None:
        """Count a change of this window, which the page sees at once."""
        with self._lock:
            self.changes += 1

    def get(self, change: str) -> Undo | None:
        """How to undo a change; None if that cannot be."""
        with self._lock:
            return self._undos.get(change)

    def drop(self, change: str) -> None:
        """Forget how to undo one change."""
        with self._lock:
            self._undos.pop(change, None)

    def forget(self, key: MemoryKey) -> None:
        """Forget all that was a memory's."""
        with self._lock:
            for change in [each for each, undo in self._undos.items() if undo.after.key == key]:
                del self._undos[change]

    def keep_present(self, scope: str, present: Callable[[Sequence[MemoryKey]], set[MemoryKey]]) -> None:
        """Forget what was a memory's that is gone, whoever has forgotten it."""
        with self._lock:
            keys = {undo.after.key for undo in self._undos.values() if undo.after.scope == scope}
        for key in keys - present(list(keys)) if keys else ():
            self.forget(key)


def _light(memory: AnyMemory) -> AnyMemory:
    """A memory without the messages, which no change here touches."""
    return memory.model_copy(update={"messages": ()}) if isinstance(memory, EpisodicMemory) else memory
