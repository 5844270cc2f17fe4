"""Where exports of the tools go and come from: one directory that nothing leads out of, and text that may be packed.

Sizes are checked before anything is held in memory, that of what is unpacked too: a small file can unpack to terabytes.
"""

from __future__ import annotations

import base64
import gzip
import io
import os
import secrets
import zlib
from pathlib import Path
from typing import Final

from memory_retrievers.errors import ValidationError

MAX_BYTES: Final = 100 * 1024 * 1024
"""The largest export, packed or not (specification §4.3)."""

COMMENT: Final = "# Compressed memory export: base64 of gzip"
_COMMENT_START: Final = "# Compressed"
_TOO_LARGE: Final = "is larger than 100 MB"


def confined(directory: Path | None, named: str) -> Path:
    """The file that a model has named, within the directory of the host; symbolic links are followed first.

    Raises:
        ValidationError: There is no such directory, or the path leads out of it or to something that is no file.
    """
    if directory is None:
        raise ValidationError("file_path cannot be used here: leave it out, and exchange the data in the answer")
    home = directory.resolve()
    try:
        path = (home / named).resolve()
        if path == home or not path.is_relative_to(home):
            raise ValidationError("file_path leads out of the directory for exports: give a relative path within it")
        if path.exists() and not path.is_file():
            raise ValidationError("file_path is not a file")
    except (ValueError, OSError, RuntimeError) as error:
        if isinstance(error, ValidationError):
            raise
        raise ValidationError("file_path is not a path that can be used") from error
    return path


def write(path: Path, text: str) -> int:
    """Write a file whole or not at all, and give its size in bytes.

    Raises:
        ValidationError: It cannot be written.
    """
    content = text.encode()
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # or a power cut could leave an empty file under the name
            os.replace(beside, path)  # noqa: PTH105 - pathlib's way names the same call
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ValidationError(f"the file cannot be written: {error.strerror}") from error
    return len(content)


def read(path: Path) -> str:
    """The text of a file.

    Raises:
        ValidationError: There is none, it is too large, or no UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValidationError(f"the file cannot be read: {error.strerror}") from error
    return _text(content, of="the file")


def pack(text: str) -> str:
    """The text as base64 of gzip; the same text always packs to the same."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def unpack(text: str) -> str:
    """The document in a text, packed or not, with or without the comment before it.

    Raises:
        ValidationError: It is too large, or packed in another way.
    """
    if len(text) > MAX_BYTES:
        raise ValidationError(f"the data {_TOO_LARGE}")
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith(_COMMENT_START):
        text = text.partition("\n")[2].lstrip()
    if text.startswith(("{", "[")):
        return text
    try:
        packed = base64.b64decode("".join(text.split()), validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
            content = unpacked.read(MAX_BYTES + 1)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValidationError("the data is neither JSON nor base64 of gzip") from error
    return _text(content, of="the unpacked data")


def _text(content: bytes, *, of: str) -> str:
    if len(content) > MAX_BYTES:
        raise ValidationError(f"{of} {_TOO_LARGE}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"{of} is not UTF-8") from error
