"""Whether an embedder is the one the vectors of a collection are from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from memory_retrievers.adoption.collection import PAGE, Collection, SourceRow, read
from memory_retrievers.adoption.rows import Skip, text_of, unit
from memory_retrievers.adoption.settings import Adoption
from memory_retrievers.errors import EmbeddingMismatchError
from memory_retrievers.models import Category

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector, Vectors

_SAMPLES: Final = 5
_MIN_COSINE: Final = 0.90
"""Quantised or newer builds of a model stay above it; another model is nowhere near."""


def check_embedder(collection: Collection, adoption: Adoption, embed: Callable[[Sequence[str]], Vectors]) -> None:
    """Embed up to five texts of the first page again, and compare.

    Raises:
        EmbeddingMismatchError: The vectors have another length, or point elsewhere.
        EmbeddingError: The embedder failed.
        BackendError: The collection could not be read.
    """
    cosines = []
    for row, text, stored in _samples(read(collection, limit=PAGE, offset=0), adoption):
        alike = _cosine(collection, stored, embed([text]))
        if alike < _MIN_COSINE:
            alike = max(alike, _cosine(collection, stored, embed(_other_forms(row, text))))
        cosines.append(alike)
    if cosines and (middle := median(cosines)) < _MIN_COSINE:
        raise _mismatch(collection, f"gives other vectors than the ones in it (median cosine {middle:.2f})")


def _cosine(collection: Collection, stored: Vector, embedded: Vectors) -> float:
    if embedded.shape[1] != stored.size:
        raise _mismatch(collection, f"gives vectors of {embedded.shape[1]} numbers, and it holds {stored.size}")
    return float((embedded @ stored).max())


def _mismatch(collection: Collection, problem: str) -> EmbeddingMismatchError:
    return EmbeddingMismatchError(
        f"this embedder is not the one the collection {collection.name!r} was filled with: it {problem}. Give that one "
        "with embedder=; nothing was changed"
    )


def _samples(page: list[SourceRow], adoption: Adoption) -> list[tuple[SourceRow, str, Vector]]:
    usable = []
    for row in page:
        text, vector = text_of(row, adoption), unit(row.vector)
        if not isinstance(text, Skip) and not isinstance(vector, Skip):
            usable.append((row, text, vector))
    return usable[:: max(1, len(usable) // _SAMPLES)][:_SAMPLES]


def _other_forms(row: SourceRow, text: str) -> list[str]:
    """What else may have been embedded for a text: the form of our own facts, and that of LlamaIndex's nodes."""
    facts = [f"{category}: {text}" for category in Category]
    node = _llama_index_node(row)
    metadata = node.get("metadata")
    if not isinstance(metadata, dict):
        return facts
    before = str(node.get("metadata_separator", "\n")).join(
        str(node.get("metadata_template", "{key}: {value}")).replace("{key}", key).replace("{value}", str(value))
        for key, value in metadata.items()
        if key not in node.get("excluded_embed_metadata_keys", ())
    )
    template = str(node.get("text_template", "{metadata_str}\n\n{content}"))
    return [*facts, template.replace("{metadata_str}", before).replace("{content}", text).strip()]


def _llama_index_node(row: SourceRow) -> dict[str, Any]:
    """What LlamaIndex's ``ChromaVectorStore`` keeps beside a text; empty where something else filled the collection."""
    try:
        node = json.loads(str(row.metadata.get("_node_content")))
    except ValueError:
        return {}
    return node if isinstance(node, dict) else {}
