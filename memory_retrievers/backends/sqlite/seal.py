"""Checksum of a closed database, by which damage is noticed before any of it is read.

SQLite notices damage to the structure of its pages, but not to their content: a flipped bit in a text, a vector or an
index would be a wrong answer. The checksum is in a file beside the database. It is removed, durably, before the first
change, so it never describes another state than it was computed from, even if a process is killed. It detects
accidents, not attacks: a process that can write the database can write the checksum too.
"""

from __future__ import annotations

import contextlib
import secrets
import zlib
from pathlib import Path
from typing import Final

from memory_retrievers.backends.files import Access, Folder
from memory_retrievers.errors import BackendError

_SUFFIX: Final = "-sum"
_LONGEST: Final = 64  # bytes
_AT_ONCE: Final = 1 << 20  # bytes; 1 GB takes about 0.7 s to go through


def check(path: Path) -> None:
    """Check that a database is unchanged since it was closed. The process must have no connection to it.

    Raises:
        BackendError: It is not.
    """
    with Folder(path.parent) as folder:
        seal = _read(folder, path)
        if seal is None or has_log(path):
            return
        before = path.stat()
        if seal == _checksum(path):
            return
        after = path.stat()
        # another process may have begun to write meanwhile
        busy = has_log(path) or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
        if not busy and _read(folder, path) == seal:
            raise BackendError(
                f"{path} is damaged: it is not as it was when it was closed. Restore a backup. If it was changed or "
                f"replaced on purpose, or to save what can be read, remove {name_of(path)} beside it, and run verify"
            )


def write(path: Path, access: Access) -> None:
    """Write the checksum of a closed database, if possible. No process may have it open."""
    with contextlib.suppress(OSError), Folder(path.parent) as folder:
        if has_log(path):  # somebody else still reads, so not all is in the file
            return
        beside = f".{name_of(path)}.{secrets.token_hex(4)}.part"
        try:
            with folder.create(beside, access) as file:
                file.write(_checksum(path))
            folder.replace(beside, name_of(path))
        finally:
            folder.remove(beside)


def remove(path: Path) -> None:
    """Delete the checksum before the database is changed, durably even in a power cut.

    Raises:
        BackendError: It cannot be removed.
    """
    try:
        with Folder(path.parent) as folder:
            if folder.has(name_of(path)):
                folder.remove(name_of(path))
                folder.sync()
    except OSError as error:
        raise BackendError(f"{name_of(path)} beside {path} cannot be removed: {error.strerror}") from error


def name_of(path: Path) -> str:
    """Name of the file with the checksum."""
    return f"{path.name}{_SUFFIX}"


def is_there(path: Path) -> bool:
    """Return True if the checksum file exists."""
    return path.with_name(name_of(path)).exists()


def has_log(path: Path) -> bool:
    """Return True if a log beside the database holds its latest changes."""
    with contextlib.suppress(FileNotFoundError):
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    return False


def _read(folder: Folder, path: Path) -> bytes | None:
    """Read the checksum if there is one; a torn file counts as none."""
    try:
        content = folder.read(name_of(path), _LONGEST)
    except OSError:
        return None
    return content if content.endswith(b"\n") else None


def _checksum(path: Path) -> bytes:
    checksum = length = 0
    with path.open("rb") as file:
        while part := file.read(_AT_ONCE):
            checksum, length = zlib.crc32(part, checksum), length + len(part)
    return f"crc32 {checksum:08x} of {length} bytes\n".encode()
