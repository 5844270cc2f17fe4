"""``MemoryVectorStore``: the facts of a scope as a LangChain vector store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Self
from uuid import NAMESPACE_OID, uuid5

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.runnables.config import set_config_context
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.langchain.scope import resolve_scope
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject, SemanticDraft, SemanticMemory, scopes
from memory_retrievers.models.filters import MAX_DEPTH, Filters
from memory_retrievers.models.management import MemoryFilter
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.request import asked_by, parse_limit

Hit = RetrievedMemory[SemanticMemory]


class MemoryVectorRetriever(VectorStoreRetriever):
    """The retriever of a store: it passes the configuration on, which LangChain's own does not."""

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401
        """Invoke LangChain's retriever in the context of the configuration.

        Args:
            input: The query.
            config: Names the scope if the store has none.
            kwargs: As for LangChain's retriever.
        """
        with set_config_context(ensure_config(config)) as context:
            return context.run(super().invoke, input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401
        """:meth:`invoke`, asynchronously."""
        with set_config_context(ensure_config(config)) as context:
            return await asyncio.create_task(super().ainvoke(input, config, **kwargs), context=context)


class MemoryVectorStore(VectorStore):
    """A LangChain ``VectorStore`` over a scope: each document is a fact, and each fact of the scope a document.

    ::

        store = MemoryVectorStore(memory, scope="handbook")
        store.add_texts(["Doors close at nine."], metadatas=[{"page": 3}])
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})

    It ranks like ``retrieve``, by words and by meaning. A score is the relevance of a memory, 0 to 1, which is
    comparable across queries; the order is that of the ranking. ``filter`` contains metadata values or comparisons:
    ``{"page": {"$gte": 2}}``, ``{"$or": [{"page": 1}, {"team": {"$in": ["a", "b"]}}]}``. A text that is stored again
    without an id keeps its id; with other metadata it is another document.

    Args:
        memory: The memory, which has the embedder.
        scope: Scope of the documents. None takes it from the configuration of each call of its retriever, or of the
            current run.

    Raises:
        ConfigurationError: The memory is not an ``AgentMemory``.
        ValidationError: The scope is malformed.
    """

    def __init__(self, memory: AgentMemory, *, scope: str | None = None) -> None:
        if not isinstance(memory, AgentMemory):
            raise ConfigurationError(f"a vector store needs an AgentMemory, not a {type(memory).__name__}")
        self._memory = memory
        self._scope = None if scope is None else scopes.parse(scope)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[JsonObject] | None = None,
        *,
        ids: list[str] | None = None,
        memory: AgentMemory | None = None,
        scope: str = "documents",
        **kwargs: Any,  # noqa: ANN401 - as the base class has it
    ) -> Self:
        """Create a store with texts.

        Args:
            texts: The texts.
            embedding: Embedder of the new memory if none is given.
            metadatas: The metadata of each text.
            ids: The id of each text.
            memory: The memory; None creates one in this process's memory.
            scope: Scope of the documents.
            **kwargs: None are known.
        """
        store = cls(memory or AgentMemory.in_memory(embedder=embedding), scope=scope)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[JsonObject] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,  # noqa: ARG002 - LangChain's index() gives one
        **kwargs: Any,  # noqa: ANN401 - as the base class has it
    ) -> list[str]:
        """Store texts, all or none; documents with the same ids are replaced.

        Args:
            texts: The texts, which must not be blank.
            metadatas: The metadata of each text.
            ids: The id of each text; None makes one.
            batch_size: No effect: all are stored together.
            **kwargs: None are known.

        Returns:
            The ids, in the order of the texts.

        Raises:
            ValidationError: A text, id or value is invalid, or their numbers differ.
            EmbeddingError: The embedder failed.
        """
        if kwargs:
            raise TypeError(f"unknown arguments: {', '.join(sorted(kwargs))}")
        given, scope = _listed("texts", texts), self._scope_of_call()
        known, described = _listed("ids", ids or [None] * len(given)), list(metadatas or [{}] * len(given))
        if not len(given) == len(known) == len(described):
            raise ValidationError(f"{len(given)} texts, {len(known)} ids and {len(described)} metadata do not match")
        drafts = [
            SemanticMemory.new(scope=scope, id=each, fact=text, metadata=dict(metadata or {}))
            for text, each, metadata in zip(given, known, described, strict=True)
        ]
        drafts = [draft if draft.id else draft.model_copy(update={"id": _id_of(draft)}) for draft in drafts]
        named = {draft.id or place: draft for place, draft in enumerate(drafts)}  # each is stored once
        added = self._memory.manager.add([*named.values()], replace=True, allow_duplicates=False)
        stored = dict(zip(named, (fact.id for fact in added), strict=True))
        return [stored[draft.id or place] for place, draft in enumerate(drafts)]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:  # noqa: ANN401 - as the base class has it
        """Delete documents by id; unknown ids are ignored.

        Raises:
            ValidationError: No ids are given. To delete everything, use ``forget_scope`` of the memory.
        """
        if ids is None or kwargs:
            raise ValidationError("name the ids of the documents to delete; memory.forget_scope(scope) deletes all")
        for fact in self._facts(ids):
            self._memory.forget(fact.id, scope=fact.scope)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids in their order, without unknown ones."""
        return [_document(fact) for fact in self._facts(ids)]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: JsonObject | None = None,
        **kwargs: Any,  # noqa: ANN401 - as the base class has it
    ) -> list[Document]:
        """Return the documents that answer a query best.

        Args:
            query: The query.
            k: Maximum number, up to 1,000.
            filter: Filter by metadata.
            **kwargs: Other options of ``retrieve``.
        """
        return [_document(hit.memory) for hit in self._found(query, k=k, filter=filter, **kwargs)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: JsonObject | None = None,
        **kwargs: Any,  # noqa: ANN401
    ) -> list[tuple[Document, float]]:
        """:meth:`similarity_search`, each document with its relevance, 0 to 1.

        Args:
            query: The query.
            k: Maximum number, up to 1,000.
            filter: Filter by metadata.
            **kwargs: Other options of ``retrieve``.
        """
        return [(_document(hit.memory), hit.relevance) for hit in self._found(query, k=k, filter=filter, **kwargs)]

    def similarity_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: JsonObject | None = None,
        **kwargs: Any,  # noqa: ANN401 - as the base class has it
    ) -> list[Document]:
        """Return the documents with the nearest vectors, by meaning alone: there are no words to rank by.

        Args:
            embedding: A vector of the memory's embedder, shape (d,).
            k: Maximum number, up to 1,000.
            filter: Filter by metadata.
            **kwargs: Other filters of ``retrieve``, such as ``tags``.

        Raises:
            ValidationError: The vector has another dimension or is zero, or a filter is invalid.
        """
        if unknown := kwargs.keys() - {each.name for each in fields(Filters)}:
            raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
        narrowed = Filters.parse(_with_where(filter, kwargs))
        asked = MemoryFilter(scope=self._scope_of_call(), kinds="all", filters=narrowed)
        return [_document(fact) for fact in self._memory.manager.nearest_facts(embedding, asked, top_k=k)]

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:  # noqa: ANN401 - as the base class has it
        """Return a LangChain retriever; if the store has no scope, the configuration of a call names it."""
        return MemoryVectorRetriever(**dict(super().as_retriever(**kwargs)))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float  # a score is a relevance

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        **kwargs: Any,  # noqa: ANN401
    ) -> list[Document]:
        """Return documents that are relevant and diverse.

        Args:
            query: The query.
            k: Maximum number.
            fetch_k: Number of candidates, at least ``k``.
            lambda_mult: Weight of relevance, 0 to 1; the rest is the weight of diversity.
            **kwargs: ``filter``, and other options of ``retrieve``.

        Raises:
            ValidationError: An argument is invalid.
        """
        if not isinstance(lambda_mult, int | float) or not 0 <= lambda_mult <= 1:
            raise ValidationError(f"lambda_mult must be a number from 0 to 1, not {lambda_mult!r}")
        wanted = parse_limit("k", k)
        left = self._found(query, k=max(parse_limit("fetch_k", fetch_k), wanted), **kwargs)
        vectors = self._memory.manager.vectors_of([hit.memory for hit in left])
        nearest, chosen = [0.0] * len(left), list[int]()  # how near each is to the nearest of those before
        others = {place: lambda_mult * hit.relevance for place, hit in enumerate(left)}
        while others and len(chosen) < wanted:
            best = max(others, key=lambda place: others[place] - (1 - lambda_mult) * nearest[place])
            likeness = (vectors @ vectors[best]).tolist()
            nearest = list(map(max, nearest, likeness)) if chosen else likeness
            chosen.append(best)
            del others[best]
        return [_document(left[place].memory) for place in chosen]

    def _found(self, query: str, *, k: int, filter: JsonObject | None = None, **options: Any) -> Sequence[Hit]:  # noqa: ANN401
        if "scope" in options:
            raise ConfigurationError("a search cannot name the scope of a MemoryVectorStore: make one for each scope")
        if isinstance(query, str) and not query.strip():
            return ()
        return self._memory.retrieve(
            asked_by(self._memory, query) if isinstance(query, str) else query,
            scope=self._scope_of_call(),
            episodic_limit=0,
            semantic_limit=k,
            record=False,
            **_with_where(filter, options),
        ).semantic

    def _facts(self, ids: Sequence[str]) -> list[SemanticMemory]:
        scope, found = self._scope_of_call(), list[SemanticMemory]()
        for each in _listed("ids", ids):
            try:
                memory = self._memory.get(each, scope=scope)
            except NotFoundError:
                continue
            if isinstance(memory, SemanticMemory) and memory.invalid_at is None:
                found.append(memory)
        return found

    def _scope_of_call(self) -> str:
        return self._scope or resolve_scope(None)


def _listed(name: str, given: Iterable[Any]) -> list[Any]:
    """Return values as a list; a single text is refused: each of its characters would be a value."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValidationError(f"{name} must be a list of texts, not {type(given).__name__}: write {name}=['…']")
    return list(given)


def _id_of(draft: SemanticDraft) -> str | None:
    """Return an id made from text and metadata, so that both give the same document again; None without metadata."""
    said = json.dumps([draft.fact, draft.metadata], sort_keys=True)
    return f"{uuid5(NAMESPACE_OID, said)}" if draft.metadata else None


def _with_where(filter: JsonObject | None, options: dict[str, Any]) -> Any:  # noqa: ANN401 - checked where it goes
    """Add the filter of a vector store to the ``where`` of options."""
    if filter is not None and not isinstance(filter, Mapping):
        raise ValidationError(
            f"filter must be an object such as {{'page': {{'$gte': 2}}}}, not a {type(filter).__name__}"
        )
    asked = [each for each in (_over_metadata(filter), options.get("where")) if each not in (None, {})]
    return options | {"where": {"and": asked} if asked[1:] else next(iter(asked), None)}


_WORDS: Final = frozenset({"$and", "$or", "$not"})


def _over_metadata(filter: object, levels: int = 2 * MAX_DEPTH) -> Any:  # noqa: ANN401 - what may be no filter
    """A filter with each field named as one of metadata; what is no filter, or too deep, is left to be refused."""
    if isinstance(filter, list) and levels:
        return [_over_metadata(each, levels - 1) for each in filter]
    if not isinstance(filter, Mapping) or not levels:
        return filter
    return {
        name if name in _WORDS else f"metadata.{name}": _over_metadata(value, levels - 1) if name in _WORDS else value
        for name, value in filter.items()
    }


def _document(fact: SemanticMemory) -> Document:
    return Document(id=fact.id, page_content=fact.fact, metadata=dict(fact.metadata))
