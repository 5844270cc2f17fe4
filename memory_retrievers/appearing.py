"""Files and directories that appear under their name once they are whole, and leave nothing behind if they fail."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from memory_retrievers.errors import ConfigurationError


@contextmanager
def new_file(target: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name once it is whole, and not at all if that fails.

    Raises:
        ConfigurationError: There is something of that name, or it cannot be written.
    """
    _refuse_existing(target)
    beside = _beside(target)
    try:
        with beside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _refuse_existing(target)  # it may have come meanwhile
        beside.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise ConfigurationError(f"{target} exists already: name a new file, or remove that one first")


@contextmanager
def new_directory(directory: Path, *, becoming: str) -> Iterator[Path]:
    """A directory beside, that takes its name once it is filled, and goes if that fails.

    Args:
        directory: Missing, or empty.
        becoming: What it is to be, for messages.

    Raises:
        ConfigurationError: It is in use, or cannot be made.
    """
    directory = directory.resolve()
    beside = _beside(directory)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ConfigurationError(f"{directory} is in use already: name a directory that is new or empty")
        beside.mkdir(parents=True)
        yield beside
        _sync(beside)
        if directory.exists():
            directory.rmdir()
        beside.rename(directory)
        _sync(directory.parent)
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot become {becoming}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")


def _sync(directory: Path) -> None:
    """Make a rename outlast a power cut, where a directory can be synced."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
