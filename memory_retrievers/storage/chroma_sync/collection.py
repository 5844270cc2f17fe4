"""Reads a Chroma collection in pages, through the methods of Chroma's client; LlamaIndex's rows are told apart."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

import numpy as np

from memory_retrievers.errors import BackendError, ConfigurationError, MemoryRetrieversError, ValidationError
from memory_retrievers.models.selection import Vector

if TYPE_CHECKING:
    from memory_retrievers.backends.chroma.clients import ChromaCollection
    from memory_retrievers.backends.embeddings import AnyEmbedder, LangChainEmbeddings

PAGE: Final = 1_000  # rows that are asked for at once; a page is one transaction of the store

_MAX_PROBLEM: Final = 200
_MAX_WHERE: Final = 10_000
_MAX_CONDITIONS: Final = 100  # Chroma evaluates them for every row; nobody writes so many by hand

Metadata: TypeAlias = Mapping[str, object]
Where: TypeAlias = dict[str, Any]  # which rows, as Chroma's ``get`` takes it
Collection: TypeAlias = "ChromaCollection"  # embedded or remote; only write-through uses upsert and delete


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A row of the collection."""

    id: str
    document: str | None
    metadata: Metadata
    vector: Vector

    @property
    def digest(self) -> bytes:
        """Hash that changes with anything in the row."""
        person = b"node" if is_node(self.metadata) else b""
        text = json.dumps([self.document, self.metadata], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode() + self.vector.tobytes(), digest_size=16, person=person).digest()


def check_collection(collection: Collection, *, writable: bool) -> None:
    """Check that an object has the methods of a collection."""
    needed = ("get", "count", "upsert", "delete") if writable else ("get", "count")
    methods = [getattr(collection, name, None) for name in needed]
    if not all(map(callable, methods)) or not hasattr(collection, "id") or not hasattr(collection, "name"):
        raise ConfigurationError(
            f"{type(collection).__qualname__} is not a Chroma collection: give what client.get_collection(...) gives, "
            "a LangChain Chroma, or a LlamaIndex ChromaVectorStore"
        )
    if any(map(inspect.iscoroutinefunction, methods)):
        raise ConfigurationError("the collection is of an asynchronous client: get it from chromadb.HttpClient(...)")


def check_where(collection: Collection, where: object) -> None:
    """Check that Chroma accepts a filter, by asking for one row."""
    if where is None:
        return
    if not _is_bounded(where):
        raise ValidationError(
            "where= is a filter as Chroma's get takes it, for example {'team': 'a'}, of at most "
            f"{_MAX_WHERE} characters of JSON and {_MAX_CONDITIONS} conditions"
        )
    try:
        collection.get(where=cast("Where", where), limit=1, include=[])
    except Exception as error:
        with reached(collection):
            collection.get(limit=1, include=[])  # what fails too is no matter of the filter
        raise ValidationError(f"Chroma does not take this where=: {str(error)[:_MAX_PROBLEM]}") from error


def _is_bounded(where: object) -> bool:
    """Return True if it is a JSON object that is not too large; Chroma recurses into it without limit."""
    if not isinstance(where, dict) or not where:
        return False
    try:
        text = json.dumps(where, allow_nan=False)
        return len(text) <= _MAX_WHERE and text.count("{") <= _MAX_CONDITIONS and json.loads(text) == where
    except (TypeError, ValueError, RecursionError):
        return False


def both(one: Where | None, other: Where | None) -> Where | None:
    """Combine two filters: rows must match both."""
    if one is None or other is None or one == other:
        return one or other
    return {"$and": [one, other]}


def read(
    collection: Collection,
    *,
    ids: Sequence[str] | None = None,
    where: Where | None = None,
    limit: int | None = None,
    offset: int | None = None,
) -> list[SourceRow]:
    """Read rows by id, or a page of them, that match a filter.

    Args:
        collection: The collection.
        ids: Ids of the rows to read; None reads all.
        where: Filter by metadata; None filters nothing.
        limit: Maximum number of rows; None sets no limit.
        offset: Number of rows to skip; None skips none.
    """
    with reached(collection):
        found: Any = collection.get(
            ids=None if ids is None else list(ids),
            where=where,
            limit=limit,
            offset=offset,
            include=["documents", "metadatas", "embeddings"],
        )
        return [
            SourceRow(id=row, document=document, metadata=metadata or {}, vector=np.asarray(vector, dtype="<f4"))
            for row, document, metadata, vector in zip(
                found["ids"], found["documents"], found["metadatas"], found["embeddings"], strict=True
            )
        ]


def count(collection: Collection, where: Where | None) -> int:
    """Count the rows that match a filter; Chroma itself counts only all."""
    with reached(collection):
        return collection.count() if where is None else len(collection.get(where=where, include=[])["ids"])


def metadata_of(collection: Collection, ids: Sequence[str]) -> dict[str, Metadata]:
    """Read the metadata of those of the given ids that exist."""
    with reached(collection):
        found: Any = collection.get(ids=list(ids), include=["metadatas"])
        return {row: metadata or {} for row, metadata in zip(found["ids"], found["metadatas"], strict=True)}


def missing(collection: Collection, ids: Sequence[str], where: Where | None = None) -> list[str]:
    """Return the given ids that do not exist or do not match a filter.

    Args:
        collection: The collection.
        ids: Ids to look for.
        where: Filter by metadata; None filters nothing.
    """
    with reached(collection):
        present = set(collection.get(ids=list(ids), where=where, include=[])["ids"])
    return [row for row in ids if row not in present]


@contextmanager
def reached(collection: Collection) -> Iterator[None]:
    """Raise the client's exceptions as errors of this package."""
    try:
        yield
    except MemoryRetrieversError:
        raise
    except Exception as error:
        # cut short: Chroma repeats what it was given, however long that is
        problem = f"{type(error).__name__}: {error}"[:_MAX_PROBLEM]
        raise BackendError(f"the Chroma collection {collection.name!r} failed: {problem}") from error


class LangChainChroma(Protocol):
    """Structural type of LangChain's ``Chroma``, by its public part."""

    @property
    def embeddings(self) -> LangChainEmbeddings | None:
        """The embedder it was created with."""

    def similarity_search(self, query: str, k: int = ...) -> list[Any]:
        """Search documents."""


class LlamaIndexChroma(Protocol):
    """Structural type of LlamaIndex's ``ChromaVectorStore``, by its public part."""

    @property
    def client(self) -> Any:  # noqa: ANN401 - what LlamaIndex says
        """The collection."""


AnyCollection: TypeAlias = "Collection | LangChainChroma | LlamaIndexChroma"
"""A ``chromadb.Collection``, a LangChain ``Chroma``, or a LlamaIndex ``ChromaVectorStore``."""


def collection_in(given: AnyCollection) -> Collection:
    """Return the collection; an object without one is returned as is, for ``check_collection`` to reject.

    Raises:
        ConfigurationError: LangChain's store has none: it was deleted.
    """
    if hasattr(given, "count"):
        return cast("Collection", given)
    try:
        return cast("Collection", getattr(given, "_collection", given))
    except ValueError as error:
        raise ConfigurationError(
            f"this {type(given).__qualname__} no longer has a collection: create it again with the name of one that "
            "exists"
        ) from error


def embedder_in(given: AnyCollection) -> AnyEmbedder | None:
    """Return the embedder of a LangChain store; no other object carries one reliably."""
    return cast("AnyEmbedder | None", getattr(given, "embeddings", None))


# Beside the user's metadata, LlamaIndex's ``ChromaVectorStore`` keeps five fields for itself: the node as JSON, its
# type, and three times the id of the document the node was cut from. The JSON is as foreign as the rest of a row: it is
# read within bounds, and not at all where the row says the same.
_CONTENT: Final = "_node_content"
_OWN: Final = frozenset({_CONTENT, "_node_type", "document_id", "doc_id", "ref_doc_id"})

_MAX_CONTENT: Final = 2_000_000  # characters of a node that are parsed: a text that a memory may have, twice
_MAX_TEMPLATE: Final = 1_000
_MAX_KEYS: Final = 1_000
_PLACES: Final = re.compile(r"\{(key|value|metadata_str|content)\}")


def is_node(metadata: Mapping[str, object]) -> bool:
    """Return True if LlamaIndex wrote the row."""
    return isinstance(metadata.get(_CONTENT), str) and isinstance(metadata.get("_node_type"), str)


def own_fields(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Fields that belong to LlamaIndex; empty if something else wrote the row."""
    return {key: value for key, value in metadata.items() if key in _OWN} if is_node(metadata) else {}


def without_own_fields(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return the user's metadata alone."""
    own = own_fields(metadata)
    return {key: value for key, value in metadata.items() if key not in own}


def node_text(metadata: Mapping[str, object]) -> str | None:
    """The text of a node whose row has no document; None if there is none."""
    node = _node(metadata)
    resource = node.get("text_resource")
    for text in (node.get("text"), resource.get("text") if isinstance(resource, dict) else None):
        if isinstance(text, str) and text:
            return text
    return None


def embedded_text(metadata: Mapping[str, object], text: str) -> str | None:
    """Text that LlamaIndex embeds: the node's metadata, then its text; None if the row does not contain it."""
    node = _node(metadata)
    shown, excluded = node.get("metadata"), node.get("excluded_embed_metadata_keys")
    if not isinstance(shown, dict) or len(shown) > _MAX_KEYS:
        return None
    if not all(value is None or isinstance(value, str | int | float) for value in shown.values()):
        return None  # LlamaIndex accepts nothing else as metadata for Chroma
    hidden = {key for key in excluded if isinstance(key, str)} if isinstance(excluded, list) else set()
    each = _template(node, "metadata_template", "{key}: {value}")
    before = _template(node, "metadata_separator", "\n").join(
        _filled(each, key=key, value=str(value)) for key, value in shown.items() if key not in hidden
    )
    whole = _template(node, "text_template", "{metadata_str}\n\n{content}")
    return _filled(whole, metadata_str=before, content=text).strip()


def with_changes(
    own: Mapping[str, Any], *, before: Mapping[str, object], after: Mapping[str, object]
) -> dict[str, Any]:
    """LlamaIndex's fields of a row whose metadata have changed, so that LlamaIndex reads the changes too.

    Args:
        own: These fields as they are in the row.
        before: The user's metadata as they are in the row.
        after: The user's metadata as they are to be.
    """
    node = _node(own)
    metadata = node.get("metadata")
    if before == after or not isinstance(metadata, dict):
        return dict(own)
    kept = {key: value for key, value in metadata.items() if key in after or key not in before}
    new = {key: value for key, value in after.items() if key not in before or before[key] != value}
    try:
        # escaped, since half of a surrogate pair, which JSON can hold, cannot be written to Chroma
        return {**own, _CONTENT: json.dumps({**node, "metadata": {**kept, **new}})}
    except RecursionError:  # it could just be read
        return dict(own)


def _node(metadata: Mapping[str, object]) -> dict[str, Any]:
    """The node; empty where there is none, or none that can be read."""
    content = metadata.get(_CONTENT)
    if not isinstance(content, str) or len(content) > _MAX_CONTENT:
        return {}
    try:
        node = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return node if isinstance(node, dict) else {}


def _template(node: Mapping[str, Any], name: str, default: str) -> str:
    """A template of the node, unless it is so long that what it repeats could fill the memory."""
    given = node.get(name)
    return given if isinstance(given, str) and len(given) <= _MAX_TEMPLATE else default


def _filled(template: str, **given: str) -> str:
    """Fill a template in one pass, so that inserted text is not searched for placeholders."""
    return _PLACES.sub(lambda place: given.pop(place[1], place[0]), template)
