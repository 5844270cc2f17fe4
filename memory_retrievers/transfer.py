"""Take a store out into one file of JSON lines, and make a store from such a file, without losing a bit.

Memories stand by scope, ``created_at`` and id, so equal stores give equal files; ``export_format`` says how.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Final

import pydantic

from memory_retrievers import export_associations, export_format
from memory_retrievers.appearing import new_directory, new_file
from memory_retrievers.contents import Contents, Progress, StoredCharacter, StoredMemory, StoredQueue
from memory_retrievers.errors import ConfigurationError, EmbeddingMismatchError, ValidationError
from memory_retrievers.export_format import Header, Record
from memory_retrievers.managed import Association, AuditEntry
from memory_retrievers.models import JsonObject
from memory_retrievers.protocols import Ledger
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.store import MemoryStore

PAGE: Final = 256
"""Lines that are stored in one transaction."""

_MAX_HEADER: Final = 1_000_000
"""Bytes; a first line that is longer belongs to another kind of file."""


def export(ledger: Ledger, target: Path, *, scope: str | None = None, progress: Progress | None = None) -> int:
    """Write what a scope and those below it hold, or everything, as of one moment, into a new file.

    Returns:
        How many memories were written.

    Raises:
        ConfigurationError: The target exists, or cannot be written.
        BackendError: A memory is damaged; there is no target then.
    """
    with new_file(target) as file, ledger.contents(scope) as contents, closing(records_of(contents)) as records:
        header = export_format.header_of(contents)
        file.write(export_format.encode(header.model_dump(mode="json")))
        for number, record in enumerate(records, start=1):
            file.write(export_format.encode(line_of(record, header.dimension)))
            if progress is not None and (
                number == header.memories or (number % PAGE == 0 and number < header.memories)
            ):
                progress(number, header.memories)
    return header.memories


def records_of(contents: Contents) -> Generator[Record, None, None]:
    """All that is there, in the order of an export: nothing comes before what it refers to.

    Closed by whoever may leave off within it, so that it reads no further once the contents are let go.
    """
    yield from contents.memories
    yield from contents.reviews
    yield from contents.queues
    yield from contents.associations
    yield from contents.audit
    yield from contents.characters


def line_of(record: Record, dimension: int | None) -> JsonObject:
    """The line that holds a record to the last bit.

    Raises:
        BackendError: It is a memory with a vector that has not ``dimension`` numbers.
    """
    match record:
        case StoredMemory():
            return export_format.memory_line(record, dimension)
        case PendingReview():
            return export_format.review_line(record)
        case StoredQueue():
            return export_format.queue_line(record)
        case Association():
            return export_associations.association_line(record)
        case AuditEntry():
            return export_associations.audit_line(record)
        case StoredCharacter():
            return export_format.character_line(record)


def import_(
    source: Path, *, into: Path, build: Callable[[Path], MemoryStore], progress: Progress | None = None
) -> None:
    """Make a store from a file; its directory is there once everything is in.

    Args:
        source: What :func:`export` wrote.
        into: The store's directory: missing, or empty.
        build: Makes an empty store in a directory.
        progress: Told of every page.

    Raises:
        ValidationError: The file is not one that :func:`export` wrote, or not whole; the message names the line.
        ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is in use.
        EmbeddingMismatchError: The embedder is not the one the vectors are from.
    """
    with _opened(source) as file:
        with _line(source, 1):
            header = export_format.parse_header(file.readline(_MAX_HEADER))
        with new_directory(into, becoming="a store") as directory:
            store = build(directory)
            try:
                with _line(source, 1):
                    _check_embedder(store, header)
                _take_in(store, source, file, header, progress)
            finally:
                store.close()


def _check_embedder(store: MemoryStore, header: Header) -> None:
    """Let the store take the export's embedder for its own; its first embedding tells whether that is true."""
    if notes := header.notes():
        store.ledger.write_notes(notes)
        store.embed_query("Is this the embedder?")


def _take_in(store: MemoryStore, source: Path, file: IO[bytes], header: Header, progress: Progress | None) -> None:
    numbered = enumerate(file, start=2)
    taken: Counter[str] = Counter()
    while page := list(itertools.islice(numbered, PAGE)):
        with store.ledger.transaction():
            for number, text in page:
                with _line(source, number):
                    taken[restore(store, export_format.parse_line(text, header.dimension))] += 1
        if progress is not None:
            progress(taken["memories"], header.memories)
    promised = header.counts()
    if any(taken[name] != count for name, count in promised.items()):
        found = ", ".join(f"{taken[name]} {name.replace('_', ' ')}" for name in promised)
        raise ValidationError(
            f"{source}, line {taken.total() + 1}: here the file ends with {found}, and its header says "
            f"{', '.join(map(str, promised.values()))}: it is not whole"
        )


def restore(store: MemoryStore, record: Record) -> str:
    """Store a record as it is, inside a transaction, and tell what the header counts it as.

    Raises:
        ValidationError: It is there already, or refers to a memory that is not.
    """
    match record:
        case StoredMemory():
            store.keyword.add(store.ledger.add([record.memory], [record.passages]))
            return "memories"
        case StoredQueue():
            store.ledger.conversations.restore(record)
            return "queues"
        case PendingReview():
            store.ledger.add_pending_reviews([record], merge=False)
            return "pending_reviews"
        case Association():
            if not store.ledger.management.associate([record]):
                raise ValidationError("this associates a pair again, or a memory that no line before has told of")
            return "associations"
        case AuditEntry():
            store.ledger.management.note([record])
            return "audit"
        case StoredCharacter():
            store.ledger.characters.put(record.scope, [record.state])
            return "characters"


@contextmanager
def _line(source: Path, number: int) -> Iterator[None]:
    """Say in which line of the file something is wrong."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError(f"{source}, line {number}: {ValidationError.from_pydantic(error)}") from error
    except (ValidationError, ConfigurationError, EmbeddingMismatchError) as error:
        raise type(error)(f"{source}, line {number}: {error}") from error


@contextmanager
def _opened(source: Path) -> Iterator[IO[bytes]]:
    try:
        file = source.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error
    with file:
        yield file
