"""Files and directories created for their owner alone, never through a link, whole or not at all.

The process's umask is not changed, since all threads share it; modes are set on new, still empty files. Where there are
no such modes or handles, as on Windows, files are created with the system's defaults.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from memory_retrievers.errors import ConfigurationError, DiskFullError

_POSIX: Final = os.name == "posix"
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # a pipe in the place of a file must not hold us up
_BINARY: Final = getattr(os, "O_BINARY", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW

_SHOWN: Final = 10
_ADDRESS: Final = re.compile(r"[^\w./~]*(?:\w[\w+.:-]*://|postgres(?:ql)?:/)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Access:
    """File and directory modes of what is created."""

    file: int
    directory: int


PRIVATE: Final = Access(0o600, 0o700)  # for the owner alone
SHARED_GROUP: Final = Access(0o660, 0o2770)  # for the group of the directory too, which what is made in it inherits


def written(path: str | Path) -> Path:
    """Read a path as a user writes it: ``~`` is the home directory, even where no shell has expanded it.

    Raises:
        ConfigurationError: It is blank, which would be the directory that the process happens to be in, has a NUL
            character or one that no name can have, is an address, or is no path.
    """
    try:
        os.fsencode(Path(path))  # which takes no bytes
    except (TypeError, UnicodeEncodeError) as error:
        raise ConfigurationError(f"{path!r} is not a path: name a directory or file, like './agent-memory'") from error
    if not str(path).strip() or "\0" in str(path):
        what = "has a NUL character" if "\0" in str(path) else "is empty"
        raise ConfigurationError(f"the path {what}: name a directory or a file, such as './agent-memory'")
    if isinstance(path, str) and _ADDRESS.match(path):  # which is not shown, since a password may stand in it
        raise ConfigurationError(
            "this is an address, not a path. Write that of a PostgreSQL database as postgresql://user@host/database, "
            "without a driver, and without a space or quote before it; open the http://... of a server with "
            "memory_retrievers.remote.RemoteMemory; there are no other addresses"
        )
    if str(path) == ":memory:":  # as SQLite has it: a directory of that name would stay
        raise ConfigurationError("':memory:' is not a path: use AgentMemory.in_memory(), which leaves nothing on disk")
    return Path(os.path.expanduser(path))  # noqa: PTH111 - the other one raises where there is no such user


def outside(home: Path | None, path: str | Path) -> Path:
    """A path as :func:`written` reads it, which is not in the directory of a store.

    Raises:
        ConfigurationError: It is there, where a file would pass for one of the store, or is blank.
    """
    target = written(path)
    if home is not None and home.resolve() in target.resolve().parents:
        raise ConfigurationError(f"{target} is inside the store itself, {home}: name a place outside it")
    return target


class Folder(contextlib.AbstractContextManager["Folder"]):
    """An open directory. All operations stay inside of it, also if it is renamed, and follow no link but in its path.

    Where a file is opened and something else stands in its place, a link say, that is a ConfigurationError.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path, *, handle: int | None = None) -> None:
        self.path = path
        self._handle = handle
        if handle is None and _POSIX:
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def create(self, name: str, access: Access = PRIVATE) -> IO[bytes]:
        """Create a new file and open it for writing.

        Raises:
            FileExistsError: There is something of that name, be it a link to nothing.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
        return os.fdopen(_with_mode(self._open(name, flags, access.file), access.file), "wb")

    def overwrite(self, name: str, content: bytes, access: Access = PRIVATE) -> None:
        """Write a file, creating it if it is missing; an existing file keeps its mode.

        Args:
            name: Name of the file in this directory.
            content: The new content.
            access: Mode of a file that is created.
        """
        try:
            with self.create(name, access) as file:
                file.write(content)
        except FileExistsError:
            with os.fdopen(self._plain_descriptor(name, os.O_WRONLY), "wb") as file:
                if os.fstat(file.fileno()).st_nlink == 1:
                    file.truncate(0)
                    file.write(content)
                    return
            self.remove(name)  # a hard link: its other name is somebody else's
            self.overwrite(name, content, access)

    def read(self, name: str, at_most: int) -> bytes:
        """The first bytes of a file."""
        with os.fdopen(self._plain_descriptor(name, os.O_RDONLY), "rb") as file:
            return file.read(at_most)

    def handle(self, name: str, access: Access | None = None) -> int:
        """Descriptor, for the caller to close, of a file to lock; made if it is missing and ``access`` is given."""
        if access is not None:
            with contextlib.suppress(FileExistsError):
                self.create(name, access).close()
        return self._plain_descriptor(name, os.O_RDONLY)

    def names(self) -> list[str]:
        """The names of all entries, sorted."""
        return sorted(os.listdir(self.path if self._handle is None else self._handle))  # noqa: PTH208 - of the handle

    def modified_at(self, name: str) -> float:
        """When an entry was last written, in seconds since 1970."""
        return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False).st_mtime

    def has(self, name: str) -> bool:
        """Return True if an entry of that name exists, including a broken link."""
        try:
            os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def below(self, name: str, access: Access | None = None) -> Folder:
        """Open a directory within this one, creating it if it is missing and ``access`` is given."""
        if access is not None:
            with contextlib.suppress(FileExistsError):
                self.make_directory(name, access)
        if self._handle is None:
            return Folder(self.path / name)
        return Folder(self.path / name, handle=self._open(name, os.O_RDONLY | _DIRECTORY))

    def make_directory(self, name: str, access: Access = PRIVATE) -> None:
        """Create a directory."""
        os.mkdir(self._at(name), access.directory & 0o700, dir_fd=self._handle)
        if self._handle is not None:
            os.close(_with_mode(self._open(name, os.O_RDONLY | _DIRECTORY), access.directory))

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file or directory to an unused name."""
        os.rename(self._at(name), self._at(new_name), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def replace(self, name: str, new_name: str) -> None:
        """Rename a file, replacing a file or link of the new name."""
        os.replace(self._at(name), self._at(new_name), src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._handle)

    def sync(self) -> None:
        """Sync the directory so that a rename survives a power cut, where that is possible."""
        if self._handle is not None:
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the handle."""
        if self._handle is not None:
            os.close(self._handle)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)

    def _open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(self._at(name), flags, mode, dir_fd=self._handle)

    def _plain_descriptor(self, name: str, flags: int) -> int:
        try:
            descriptor = self._open(name, flags | _NOFOLLOW | _NONBLOCK | _BINARY)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR}:
                raise _not_plain(self.path / name) from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _not_plain(self.path / name)
        return descriptor


def make_directories(directory: Path, access: Access = PRIVATE) -> None:
    """Create a directory and missing parents; existing ones are left as they are.

    Raises:
        OSError: It cannot be made, or is no directory.
    """
    if directory.is_dir():
        return
    if directory.parent != directory:
        make_directories(directory.parent, access)
    try:
        with Folder(directory.parent) as parent:
            parent.make_directory(directory.name, access)
    except FileExistsError:
        if not directory.is_dir():
            raise


def is_full(error: OSError) -> bool:
    """True if there was no space left for what was to be written."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def refusal(
    place: Path, error: OSError, what: str = "be used as a store directory"
) -> DiskFullError | ConfigurationError:
    """What is raised where a file or directory cannot be made; nothing is left of it.

    Args:
        place: The file or directory.
        error: Why not.
        what: What the place cannot do or become, for messages.
    """
    if is_full(error):
        return DiskFullError(
            f"no space is left for {place}: {error.strerror}; nothing was written. Make room where it is, and try again"
        )
    return ConfigurationError(f"{place} cannot {what}: {error.strerror or error}")


def make_file(path: Path, access: Access = PRIVATE) -> None:
    """Create an empty file if nothing exists; an existing entry is not even opened.

    Raises:
        ConfigurationError: A link to nothing is there.
        OSError: It cannot be made.
    """
    with Folder(path.parent) as folder:
        try:
            folder.create(path.name, access).close()
        except FileExistsError:
            if path.is_symlink() and not path.exists():
                raise _not_plain(path) from None


def set_modes(directory: Path, access: Access, *, leave: frozenset[Path]) -> frozenset[Path]:
    """Set the modes of what other code has created in a directory, and return the paths.

    Args:
        directory: Directory to search; its own mode keeps other users out.
        access: The modes to set.
        leave: Paths whose modes are not changed.
    """
    made = frozenset(path for path in directory.rglob("*") if path not in leave and not path.is_symlink())
    for path in made if _POSIX else ():
        with contextlib.suppress(FileNotFoundError):  # a log of SQLite's goes when it is done with
            path.chmod(access.directory if path.is_dir() else access.file)
    return made


def wider(directory: Path, access: Access) -> Iterator[str]:
    """Describe in one sentence what in a directory is open to more users than if it were created now, if any."""
    found = [
        f"{path.relative_to(directory)} ({mode & 0o777:04o})"
        for path in (directory, *sorted(directory.rglob("*")))
        if _POSIX and (mode := _mode_of(path)) & 0o777 & ~(access.directory if stat.S_ISDIR(mode) else access.file)
    ]
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield (
            f"more users than need be may come at {', '.join(found[:_SHOWN])}{more} in {directory}: "
            f"chmod -R {'o' if access == SHARED_GROUP else 'go'}= takes that away"
        )


def _mode_of(path: Path) -> int:
    try:
        seen = path.lstat().st_mode
    except FileNotFoundError:  # a log of SQLite's goes when it is done with
        return 0
    return 0 if stat.S_ISLNK(seen) else seen


@contextlib.contextmanager
def new_file(target: Path, access: Access = PRIVATE) -> Iterator[IO[bytes]]:
    """Create a file atomically: it appears under its name once it is complete, or not at all.

    Raises:
        ConfigurationError: There is something of that name, be it a link, or it cannot be written.
        DiskFullError: There is no space left for it.
    """
    name = name_beside(target)
    try:
        with Folder(target.parent) as folder:
            _refuse_existing(folder, target)
            try:
                with folder.create(name, access) as file:
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                _refuse_existing(folder, target)  # it may have come meanwhile
                folder.rename(name, target.name)
                folder.sync()
            finally:
                folder.remove(name)
    except OSError as error:
        raise refusal(target, error, "be written") from error


def _refuse_existing(folder: Folder, target: Path) -> None:
    if not target.name or folder.has(target.name):
        raise ConfigurationError(f"{target} exists already: name a new file, or remove that one first")


@contextlib.contextmanager
def new_directory(directory: Path, *, becoming: str, access: Access = PRIVATE) -> Iterator[Path]:
    """Create a directory atomically: it is filled under another name, then renamed, or removed on failure.

    Args:
        directory: Missing, or empty; an empty one's mode is kept.
        becoming: What it is to be, for messages.
        access: The modes of what is made.

    Raises:
        ConfigurationError: It is in use, a link, or cannot be made.
        DiskFullError: There is no space left for it.
    """
    directory = directory.absolute()
    if os.path.islink(directory):  # noqa: PTH114 - the other one raises where a name is too long
        raise ConfigurationError(f"{directory} is a symbolic link, which is not followed: name the directory itself")
    directory = directory.resolve()
    name = name_beside(directory)
    try:
        mode = _mode_of_empty(directory)
        make_directories(directory.parent, access)
        with Folder(directory.parent) as folder:
            folder.make_directory(name, access if mode is None else Access(access.file, mode))
            beside = folder.path / name
            try:
                yield beside
                with folder.below(name) as filled:
                    filled.sync()
                if mode is not None:
                    directory.rmdir()
                folder.rename(name, directory.name)
                folder.sync()
            finally:
                shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise refusal(directory, error, f"become {becoming}") from error


def _mode_of_empty(directory: Path) -> int | None:
    """Return the mode of an empty directory; None if there is none."""
    if not directory.exists():
        return None
    if not directory.is_dir() or any(directory.iterdir()):
        raise ConfigurationError(f"{directory} is in use already: name a directory that is new or empty")
    return stat.S_IMODE(directory.stat().st_mode)


def _with_mode(descriptor: int, mode: int) -> int:
    """Return the same handle with exactly this mode, independent of the umask."""
    if _POSIX:
        try:
            os.fchmod(descriptor, mode)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def _not_plain(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is a link or no plain file, and is not written through: look who has put it there, and remove it"
    )


def name_beside(path: Path) -> str:
    """A name that nothing else has for what becomes the file of this path once it is whole."""
    name = os.fsencode(path.name)[:100].decode("utf-8", "ignore")  # file systems count bytes
    return f".{name}.{secrets.token_hex(4)}.part"
