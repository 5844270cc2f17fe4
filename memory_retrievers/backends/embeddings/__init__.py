"""Adapts embedders of LangChain, LlamaIndex and Chroma, and plain functions, to one checked interface.

The bundled model is in ``minilm``.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.errors import (
    ConfigurationError,
    EmbeddingError,
    MemoryRetrieversError,
    ValidationError,
    ZeroVectorError,
)
from memory_retrievers.models.selection import Vector, Vectors
from memory_retrievers.protocols import Embedder


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Check that texts are strings, and return them as a list.

    Raises:
        ValidationError: It is a single string, which would be embedded letter by letter, or holds other things.

    >>> checked_texts(("tea", "coffee"))
    ['tea', 'coffee']
    """
    if isinstance(texts, str):
        raise ValidationError("expected a list of texts to embed, not a single string: put it in a list")
    checked = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise ValidationError(f"text {index} to embed must be a string, not {type(text).__name__}")
    return checked


RawVector: TypeAlias = "Sequence[float] | NDArray[np.floating]"
EmbedTexts: TypeAlias = "Callable[[list[str]], Iterable[RawVector]]"


@runtime_checkable
class LangChainEmbeddings(Protocol):
    """Structural type of LangChain's ``Embeddings``."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one vector per text."""

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""


@runtime_checkable
class LlamaIndexEmbedding(Protocol):
    """Structural type of LlamaIndex's ``BaseEmbedding``."""

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, one vector per text."""

    def get_query_embedding(self, query: str) -> list[float]:
        """Embed a question."""


AnyEmbedder: TypeAlias = "Embedder | LangChainEmbeddings | LlamaIndexEmbedding | EmbedTexts"
"""An :class:`~memory_retrievers.protocols.Embedder`, a LangChain ``Embeddings``, a LlamaIndex ``BaseEmbedding``, a
Chroma ``EmbeddingFunction``, or any function from a list of texts to as many vectors."""


def adapt(embedder: AnyEmbedder, *, embedder_id: str | None = None) -> Embedder:
    """Return an embedder that gives checked unit vectors in single precision.

    Args:
        embedder: See :data:`AnyEmbedder`. One that has the package's shape already is given back as it is, unless it
            is to go by another id.
        embedder_id: The name a store remembers it by; None derives it from the class, or the function, and the name of
            the model if it tells one.

    Raises:
        ConfigurationError: The object embeds in no known way, or the id is blank.
    """
    if embedder_id is not None and not embedder_id.strip():
        raise ConfigurationError("embedder_id must not be blank: name the model, for example 'bge-small-en-v1.5'")
    if embedder_id is None and _has_our_shape(embedder):
        return embedder
    documents, queries = _functions(embedder)
    return _CheckedEmbedder(documents, queries, id=embedder_id or _default_id(embedder))


def _has_our_shape(embedder: object) -> TypeGuard[Embedder]:
    """Return True for LangChain's methods with an id; what is made of LangChain's class promises no unit vectors."""
    return isinstance(embedder, LangChainEmbeddings) and _id_of(embedder) is not None and not _is_langchains(embedder)


def _id_of(embedder: object) -> str | None:
    own = getattr(embedder, "id", None)
    return own if isinstance(own, str) else None


def _is_langchains(embedder: object) -> bool:
    return any(each.__module__ == "langchain_core.embeddings.embeddings" for each in type(embedder).__mro__)


def _functions(embedder: object) -> tuple[EmbedTexts, EmbedTexts]:
    """Return functions that embed a list of documents and a list of queries."""
    if isinstance(embedder, type):
        raise ConfigurationError(f"{embedder.__qualname__} is a class: give an instance of it")
    if inspect.iscoroutinefunction(embedder):
        raise ConfigurationError(f"{_default_id(embedder)} is a coroutine function: give one that returns its vectors")
    if isinstance(embedder, LlamaIndexEmbedding):  # first: it can be called too, as a node transformation
        return embedder.get_text_embedding_batch, _one_by_one(embedder.get_query_embedding)
    if isinstance(embedder, LangChainEmbeddings):
        return embedder.embed_documents, _one_by_one(embedder.embed_query)
    if callable(embedder):
        documents = cast("EmbedTexts", embedder)
        queries = getattr(embedder, "embed_query", documents)  # Chroma's takes a list, unlike LangChain's
        return documents, queries
    raise ConfigurationError(
        f"{type(embedder).__qualname__} does not embed texts: give a LangChain Embeddings, a LlamaIndex BaseEmbedding, "
        "a Chroma EmbeddingFunction, or a function from a list of texts to a list of vectors"
    )


def _one_by_one(embed: Callable[[str], RawVector]) -> EmbedTexts:
    return lambda texts: [embed(text) for text in texts]


def _default_id(embedder: object) -> str:
    """Name of the class or function without its module, so that moving a class does not orphan a store; or its id."""
    if _is_langchains(embedder) and (own := _id_of(embedder)):
        return own
    name: str = getattr(embedder, "__qualname__", type(embedder).__qualname__)
    for attribute in ("model_name", "model"):
        model = getattr(embedder, attribute, None)
        if isinstance(model, str) and model not in {"", "unknown"}:  # LlamaIndex says "unknown" where none is given
            return f"{name}/{model}"
    return name


class _CheckedEmbedder:
    """An embedder whose results are checked and normalised to unit length in single precision."""

    def __init__(self, documents: EmbedTexts, queries: EmbedTexts, *, id: str) -> None:
        self._documents = documents
        self._queries = queries
        self.id = id
        self._dimension: int | None = None
        self._lock = threading.Lock()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        checked = checked_texts(texts)
        if not checked:  # some models refuse an empty list
            return np.empty((0, self._dimension or 0), dtype=np.float32)
        return np.stack(self._embed(self._documents, checked))

    def embed_query(self, text: str) -> Vector:
        return self._embed(self._queries, checked_texts([text]))[0]

    def _embed(self, embed: EmbedTexts, texts: list[str]) -> list[Vector]:
        try:
            answer = list(embed(texts))
        except MemoryRetrieversError:
            raise
        except Exception as error:
            raise EmbeddingError(f"the embedder {self.id} failed: {type(error).__name__}: {error}") from error
        if len(answer) != len(texts):
            raise EmbeddingError(
                f"the embedder {self.id} gave {len(answer)} vectors for {len(texts)} texts: it must return one vector "
                "per text, in order"
            )
        return [self._unit_vector(raw, index) for index, raw in enumerate(answer)]

    def _unit_vector(self, raw: RawVector, index: int) -> Vector:
        try:
            vector = np.asarray(raw, dtype=np.float64)  # in which no square of a single-precision number overflows
        except Exception as error:
            raise self._unusable(index, "is not made of numbers") from error
        if vector.ndim != 1 or not vector.size:
            raise self._unusable(index, f"has the shape {vector.shape}, which is not a row of numbers")
        self._check_dimension(vector.size, index)
        length = math.sqrt(vector @ vector)
        if not math.isfinite(length):
            raise self._unusable(index, "has NaN or infinity in it")
        if not length:
            raise ZeroVectorError(str(self._unusable(index, "is zero and so has no direction")))
        return (vector / length).astype(np.float32)

    def _check_dimension(self, dimension: int, index: int) -> None:
        with self._lock:
            if self._dimension is None:
                self._dimension = dimension
        if dimension != self._dimension:
            raise EmbeddingError(
                f"the embedder {self.id} gave {dimension} numbers for text {index} and {self._dimension} before: "
                "vectors of different models cannot be compared, so use one model throughout"
            )

    def _unusable(self, index: int, problem: str) -> EmbeddingError:
        return EmbeddingError(
            f"the embedder {self.id} gave a vector for text {index} that {problem}: "
            "leave that text out, or use a model that embeds it"
        )
