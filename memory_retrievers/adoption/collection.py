"""A collection as Chroma's client gives it, read in pages."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

import numpy as np

from memory_retrievers.errors import BackendError, ConfigurationError, MemoryRetrieversError

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector

PAGE: Final = 1_000
"""Rows that are asked for at once; a page is one transaction of the store."""

_MAX_PROBLEM: Final = 200

Metadata: TypeAlias = Mapping[str, object]
Include: TypeAlias = "list[Literal['documents', 'embeddings', 'metadatas', 'distances', 'uris', 'data']]"

_EVERYTHING: Final[Include] = ["documents", "metadatas", "embeddings"]


class Collection(Protocol):
    """The shape of ``chromadb.Collection``, embedded or behind a server; the last two are for writing through."""

    @property
    def id(self) -> object:
        """What tells it from every other."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def count(self) -> int:
        """How many rows it has."""
        ...

    def get(
        self,
        ids: list[str] | None = None,
        *,
        limit: int | None = None,
        offset: int | None = None,
        include: Include = ...,
    ) -> Mapping[str, Any]:
        """Rows, in the order they were inserted."""
        ...

    def upsert(
        self,
        ids: list[str],
        embeddings: list[Sequence[float] | Sequence[int]],
        metadatas: list[Mapping[str, Any]],
        documents: list[str] | None,
    ) -> None:
        """Write rows over those of the same ids; metadata is merged, and None takes a key out."""
        ...

    def delete(self, ids: list[str]) -> object:
        """Take rows out, whether they are there or not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A row as it stands in the collection."""

    id: str
    document: str | None
    metadata: Metadata
    vector: Vector

    @property
    def digest(self) -> bytes:
        """Changes with anything in the row."""
        text = json.dumps([self.document, self.metadata], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode() + self.vector.tobytes(), digest_size=16).digest()


def check_collection(collection: Collection, *, writable: bool) -> None:
    """See that it has the methods of a collection.

    Raises:
        ConfigurationError: It is something else.
    """
    needed = ("get", "count", "upsert", "delete") if writable else ("get", "count")
    methods = [getattr(collection, name, None) for name in needed]
    if not all(map(callable, methods)) or not hasattr(collection, "id") or not hasattr(collection, "name"):
        raise ConfigurationError(
            f"{type(collection).__qualname__} is no Chroma collection: give what client.get_collection(...) returns"
        )
    if any(map(inspect.iscoroutinefunction, methods)):
        raise ConfigurationError("the collection is of an asynchronous client: get it from chromadb.HttpClient(...)")


def pages(collection: Collection) -> Iterator[list[SourceRow]]:
    """All rows; one that moves while they are read may be missed, and is found by the next reading."""
    offset = 0
    while page := read(collection, limit=PAGE, offset=offset):
        yield page
        offset += len(page)


def read(
    collection: Collection, *, ids: Sequence[str] | None = None, limit: int | None = None, offset: int | None = None
) -> list[SourceRow]:
    """Those of the given ids that exist, or a page."""
    with reached(collection):
        found = collection.get(
            ids=None if ids is None else list(ids), limit=limit, offset=offset, include=list(_EVERYTHING)
        )
        return [
            SourceRow(id=row, document=document, metadata=metadata or {}, vector=np.asarray(vector, dtype="<f4"))
            for row, document, metadata, vector in zip(
                found["ids"], found["documents"], found["metadatas"], found["embeddings"], strict=True
            )
        ]


def metadata_of(collection: Collection, ids: Sequence[str]) -> dict[str, Metadata]:
    """The metadata of those of the given ids that exist."""
    with reached(collection):
        found = collection.get(ids=list(ids), include=["metadatas"])
        return {row: metadata or {} for row, metadata in zip(found["ids"], found["metadatas"], strict=True)}


def missing(collection: Collection, ids: Sequence[str]) -> list[str]:
    """Those of the given ids that do not exist."""
    with reached(collection):
        present = set(cast("list[str]", collection.get(ids=list(ids), include=[])["ids"]))
    return [row for row in ids if row not in present]


@contextmanager
def reached(collection: Collection) -> Iterator[None]:
    """Whatever the client raises becomes ours."""
    try:
        yield
    except MemoryRetrieversError:
        raise
    except Exception as error:
        # cut short: Chroma repeats what it was given, however long that is
        problem = f"{type(error).__name__}: {error}"[:_MAX_PROBLEM]
        raise BackendError(f"the Chroma collection {collection.name!r} failed: {problem}") from error
