"""Exports a store to a file of JSON lines, and creates a store from such a file, without loss.

Memories are ordered by scope, ``created_at`` and id, so equal stores give equal files; ``export_format`` defines the
lines.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pydantic

from memory_retrievers.backends.files import PRIVATE, Access, new_directory, new_file
from memory_retrievers.errors import BackendError, ConfigurationError, EmbeddingMismatchError, ValidationError
from memory_retrievers.models.contents import (
    HALF_MOVED,
    MOVING,
    FactVersion,
    Progress,
    Record,
    StoredCharacter,
    StoredMemory,
    StoredQueue,
)
from memory_retrievers.models.management import Association, AuditEntry, Channel, MemoryEvent, acting_as
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.storage import ReviewJob
from memory_retrievers.storage import export_format
from memory_retrievers.storage.export_format import Header
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger


PAGE: Final = 256  # lines that are stored in one transaction

PAGE_BYTES: Final = 16 * 2**20
"""Bytes of such lines from which on no more are read first: 256 long episodes could be gigabytes."""

LARGEST_LINE: Final = 256 * 2**20
"""Bytes: a long episode with the vectors of its messages is one line, and so was all that waits in a scope."""

Page: TypeAlias = list[tuple[int, bytes]]  # lines, with their numbers

_MAX_END: Final = 1_000_000  # bytes; a first or last line that is longer belongs to another kind of file


def export(
    ledger: SQLLedger,
    target: Path,
    *,
    scope: str | None = None,
    incomplete: bool = False,
    progress: Progress | None = None,
    access: Access = PRIVATE,
) -> int:
    """Write what a scope and those below it hold, or everything, as of one moment, into a new file.

    Args:
        ledger: What holds it.
        target: The file.
        scope: This scope and those below it; None is everything.
        incomplete: Also from a store into which a move has not ended.
        progress: Called from time to time with how many memories are written, and of how many.
        access: The mode of the file.

    Raises:
        BackendError: A memory is damaged, or has a vector that no import takes; there is no target then.
    """
    with new_file(target, access) as file, ledger.contents(scope) as contents, closing(contents.records()) as records:
        if not incomplete:
            require_moved(contents.notes)
        header, total = export_format.header_of(contents), contents.counts["memories"]
        digest = hashlib.sha256(line := export_format.encode(header.model_dump(mode="json")))
        file.write(line)
        for number, record in enumerate(records, start=1):
            if isinstance(record, StoredMemory):
                export_format.require_whole(record, header)
            digest.update(line := export_format.encode(export_format.line_of(record)))
            file.write(line)
            if progress is not None and (number == total or (number % PAGE == 0 and number < total)):
                progress(number, total)
        file.write(export_format.CHECKSUM % digest.hexdigest().encode())
    return total


def require_moved(notes: Mapping[str, str]) -> None:
    """Reject a store that has notes of a move into it which has not ended: a copy would pass for a whole one."""
    if notes.get(MOVING):
        raise ConfigurationError(HALF_MOVED)


def require_importable(record: Record, header: Header) -> None:
    """Reject a record that an import would reject."""
    try:
        export_format.parse_record(export_format.line_of(record), header.dimension)
        export_format.check_tokens(record, header)
    except (pydantic.ValidationError, ValidationError) as error:
        problem = error if isinstance(error, ValidationError) else ValidationError.from_pydantic(error)
        raise BackendError(
            f"{name_of(record)} is damaged ({problem}): run verify on the store that holds it, which names damage, "
            "and repair it there. reindex rebuilds what episodes are found by, and reembed all vectors; anything else "
            "that is damaged must be forgotten, or restored from a backup"
        ) from error


def name_of(record: Record) -> str:
    """Return the name of a record in messages."""
    one = _TYPES[type(record)].one
    match record:
        case StoredMemory(memory=key) | Association(source=key) | AuditEntry(memory=key) | (FactVersion() as key):
            return f"{one}memory {key.id!r} in scope {key.scope!r}"
        case _:
            return f"{one} in scope {record.scope!r}"


def import_(
    source: Path,
    *,
    into: Path,
    build: Callable[[Path], MemoryStore],
    progress: Progress | None = None,
    access: Access = PRIVATE,
) -> None:
    """Create a store from a file; its directory appears once everything is imported.

    Args:
        source: What :func:`export` wrote.
        into: The store's directory: missing, or empty.
        build: Makes an empty store in a directory.
        progress: Called for every page.
        access: The modes of the directories that are made.

    Raises:
        ValidationError: The file is not one that :func:`export` wrote, was changed since, or is not whole.
        DiskFullError: There is no space left for the store.
    """
    with _opened(source) as file:
        checksum = _checksum(source, file)
        first = _read(source, file.readline, _MAX_END)
        with _line(source, 1):
            header = export_format.parse_header(first)
        with new_directory(into, becoming="a store", access=access) as place, closing(build(place)) as store:
            with _line(source, 1):
                if notes := header.notes():
                    store.ledger.write_notes(notes)
                    store.embedder.current()  # raises if it is another one
            _take_in(store, source, _pages(source, file, checksum), header, progress)


def _checksum(source: Path, file: IO[bytes]) -> bytes:
    """Return the last line if it tells the checksum of all others; empty if there is none, as in formats up to 7.

    Carriage returns do not count, which texts in JSON never have: other systems change the ends of lines.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(max(0, size - _MAX_END))
    _, mark, rest = _read(source, file.read, _MAX_END).rpartition(b"\n" + export_format.CHECKSUM.split(b"%")[0])
    file.seek(0)
    if not mark:
        return b""
    digest, last = hashlib.sha256(), mark[1:] + rest
    for start in range(0, end := size - len(last), _MAX_END):
        digest.update(_read(source, file.read, min(_MAX_END, end - start)).translate(None, b"\r"))
    if last.rstrip(b" \r\n") != (export_format.CHECKSUM % digest.hexdigest().encode()).rstrip():
        raise ValidationError(
            f"{source} is damaged, or was edited: the checksum in its last line is that of another text. Nothing was "
            "imported. Take another copy, or export again; if you have edited it on purpose, delete its last line"
        )
    file.seek(0)
    return last


def _take_in(
    store: MemoryStore, source: Path, pages: Iterator[Page], header: Header, progress: Progress | None
) -> None:
    taken: Counter[str] = Counter()
    for page in pages:
        before = taken["memories"]
        with store.transaction():
            for number, text in page:
                with _line(source, number):
                    record = export_format.parse_record(export_format.parse_json(text), header.dimension)
                    export_format.check_tokens(record, header)
                    taken[restore(store, record)] += 1
        if progress is not None and taken["memories"] > before:
            progress(taken["memories"], header.memories)
    with acting_as(Channel.IMPORT):
        store.ledger.events.note_imported(at=store.now())
    promised = header.counts()
    if any(taken[name] != count for name, count in promised.items()):
        found = ", ".join(f"{taken[name]} {name.replace('_', ' ')}" for name in promised)
        raise ValidationError(
            f"{source}, line {taken.total() + 1}: the file ends here with {found}, and its header says "
            f"{', '.join(map(str, promised.values()))}: it is not complete"
        )


def _pages(source: Path, file: IO[bytes], checksum: bytes) -> Iterator[Page]:
    """Yield the lines between header and checksum, as many and as large as are stored together."""
    held, page = 0, Page()
    for number in itertools.count(2):
        line = _read(source, file.readline, LARGEST_LINE + 1)
        if len(line) > LARGEST_LINE:
            raise ValidationError(
                f"{source}, line {number}: the line is larger than {LARGEST_LINE >> 20} MB, which is more "
                "than a record can have: this is another file, or a damaged one"
            )
        if line in (b"", checksum):
            break
        page.append((number, line))
        held += len(line)
        if len(page) == PAGE or held >= PAGE_BYTES:
            yield page
            held, page = 0, []
    if page:
        yield page


def _read(source: Path, read: Callable[[int], bytes], at_most: int) -> bytes:
    try:
        return read(at_most)
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error


def restore(store: MemoryStore, record: Record) -> str:
    """Store a record unchanged, inside a transaction, and return the header's name for its type.

    Raises:
        ValidationError: It is there already, or refers to a memory that is not.
    """
    ledger, kept = store.ledger, 1
    match record:
        case StoredMemory():
            store.add([record.memory], [record.passages], event=None)
        case FactVersion():
            kept = ledger.facts.restore(record)
        case StoredQueue():
            kept = ledger.conversations.restore(record)
        case PendingReview():
            ledger.add_pending_reviews([record], merge=False)
        case ReviewJob():
            ledger.conversations.restore_review_job(record)
        case Association():
            kept = ledger.management.associate([record])
        case AuditEntry():
            kept = ledger.management.note([record])
        case MemoryEvent():
            # one without a memory goes with its scope, which may hold nothing else: earlier versions exported it
            kept = ledger.events.restore([record]) or record.id is None
        case character:
            kept = ledger.characters.restore(character)
    if not kept:
        raise ValidationError(f"this {_TYPES[type(record)].refusal}")
    return _TYPES[type(record)].all


class _Words(NamedTuple):
    """What a type of record is called."""

    all: str  # in the header
    one: str = ""  # in messages, before its memory or scope
    refusal: str = ""  # why one is not restored


_TYPES: Final[Mapping[type[Record], _Words]] = {
    StoredMemory: _Words("memories"),
    FactVersion: _Words("versions", "a former version of ", "is a version of a fact that is in no line before"),
    StoredQueue: _Words("queues", "the queue", "queue has no message, or one that waits in its scope already"),
    PendingReview: _Words("pending_reviews", "a pending review"),
    ReviewJob: _Words("review_jobs", "a review under way"),
    Association: _Words("associations", "an association of ", "associates a pair again, or a memory in no line before"),
    AuditEntry: _Words("audit", "an audit entry of ", "is of a memory that is in no line before"),
    MemoryEvent: _Words("events", "an entry of the log", "happened to a memory that is in no line before"),
    StoredCharacter: _Words("characters", "a character", "character is in a line before"),
}


@contextmanager
def _line(source: Path, number: int) -> Iterator[None]:
    """Add the line number to errors."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError(f"{source}, line {number}: {ValidationError.from_pydantic(error)}") from error
    except (ValidationError, ConfigurationError, EmbeddingMismatchError) as error:
        raise type(error)(f"{source}, line {number}: {error}") from error


def _opened(source: Path) -> IO[bytes]:
    try:
        if source.exists() and not source.is_file():  # a pipe may never give anything
            raise ConfigurationError(f"{source} cannot be read: it is not a plain file, as export writes it")
        return source.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error
