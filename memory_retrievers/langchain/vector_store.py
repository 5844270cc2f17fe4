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
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.request import asked_by, parse_limit

Hit = RetrievedMemory[SemanticMemory]


class MemoryVectorRetriever(VectorStoreRetriever):
    """The retriever of a store: what it calls is told the configuration, which LangChain's own keeps to itself."""

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401
        """As LangChain's, in the context of the configuration.

        Args:
            input: The question.
            config: Names the scope, where the store has none.
            kwargs: As LangChain's.
        """
        with set_config_context(ensure_config(config)) as context:
            return context.run(super().invoke, input, config, **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: ANN401
        """As :meth:`invoke`, asynchronously."""
        with set_config_context(ensure_config(config)) as context:
            return await asyncio.create_task(super().ainvoke(input, config, **kwargs), context=context)


class MemoryVectorStore(VectorStore):
    """A LangChain ``VectorStore`` over a scope: each document is a fact, and each fact of the scope a document.

    ::

        store = MemoryVectorStore(memory, scope="handbook")
        store.add_texts(["Doors close at nine."], metadatas=[{"page": 3}])
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})

    It ranks as ``retrieve`` does, by words and by meaning. A score is the relevance of a memory, 0 to 1, which can be
    compared across questions; the order is that of the ranking. ``filter`` holds the metadata that a document must
    have, or compares them: ``{"page": {"$gte": 2}}``, ``{"$or": [{"page": 1}, {"team": {"$in": ["a", "b"]}}]}``. A
    text that is stored again without an id keeps the id it has, and is another document with other metadata.

    Args:
        memory: The memory, which has the embedder.
        scope: Whose documents. None takes the scope from the configuration of each call of its retriever, or of the run
            that a call happens in.

    Raises:
        ConfigurationError: The memory is no ``AgentMemory``.
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
        """A store that holds these texts.

        Args:
            texts: The texts.
            embedding: The embedder of the memory that is made where none is given.
            metadatas: The metadata of each text.
            ids: The id of each text.
            memory: The memory; None makes one that is gone with the process.
            scope: Whose documents.
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
        """Store texts, all or none; those whose id is taken are replaced.

        Args:
            texts: The texts, which must not be blank.
            metadatas: The metadata of each text.
            ids: The id of each text; None makes one.
            batch_size: Of no effect: all are stored together.
            **kwargs: None are known.

        Returns:
            The ids, in the order of the texts.

        Raises:
            ValidationError: A text, id or value breaks a rule, or there are not as many of each.
            EmbeddingError: The embedder failed.
        """
        if kwargs:
            raise TypeError(f"unknown arguments: {', '.join(sorted(kwargs))}")
        given, scope = _listed("texts", texts), self._scope_of_call()
        known, described = _listed("ids", ids or [None] * len(given)), list(metadatas or [{}] * len(given))
        if not len(given) == len(known) == len(described):
            raise ValidationError(
                f"{len(given)} texts, {len(known)} ids and {len(described)} metadata do not go together"
            )
        with in_our_words():
            drafts = [
                SemanticMemory.new(scope=scope, id=each, fact=text, metadata=dict(metadata or {}))
                for text, each, metadata in zip(given, known, described, strict=True)
            ]
        drafts = [draft if draft.id else draft.model_copy(update={"id": _id_of(draft)}) for draft in drafts]
        named = {draft.id or place: draft for place, draft in enumerate(drafts)}  # each is stored once
        added = self._memory.manager.add_with_vectors([*named.values()], replace=True, allow_duplicates=False)
        stored = dict(zip(named, (fact.id for fact, _ in added), strict=True))
        return [stored[draft.id or place] for place, draft in enumerate(drafts)]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:  # noqa: ANN401 - as the base class has it
        """Forget the documents of these ids; those that are not there make no difference.

        Raises:
            ValidationError: No ids are given. ``forget_scope`` of the memory deletes everything.
        """
        if ids is None or kwargs:
            raise ValidationError(
                "name the ids of the documents to delete; memory.forget_scope(scope) deletes them all"
            )
        for fact in self._facts(ids):
            self._memory.forget(fact.id, scope=fact.scope)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents of these ids that are there, in their order."""
        return [_document(fact) for fact in self._facts(ids)]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: JsonObject | None = None,
        **kwargs: Any,  # noqa: ANN401 - as the base class has it
    ) -> list[Document]:
        """The documents that answer a query best.

        Args:
            query: The query.
            k: At most so many, up to 1,000.
            filter: The metadata that they must have.
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
            k: At most so many, up to 1,000.
            filter: The metadata that they must have.
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
        """The documents whose vectors are nearest to one, by meaning alone: there are no words to rank by.

        Args:
            embedding: A vector of the memory's embedder, shape (d,).
            k: At most so many, up to 1,000.
            filter: The metadata that they must have.
            **kwargs: Other filters of ``retrieve``, such as ``tags``.

        Raises:
            ValidationError: It has another number of dimensions, is zero, or a filter breaks a rule.
        """
        if unknown := kwargs.keys() - {each.name for each in fields(Filters)}:
            raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
        narrowed = Filters.parse(_with_where(filter, kwargs))
        asked = MemoryFilter(scope=self._scope_of_call(), kinds="all", filters=narrowed)
        return [_document(fact) for fact in self._memory.manager.nearest_facts(embedding, asked, top_k=k)]

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:  # noqa: ANN401 - as the base class has it
        """A retriever, as LangChain's own; where the store has no scope, the configuration of a call names it."""
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
        """Documents that are relevant and unlike each other.

        Args:
            query: The query.
            k: At most so many.
            fetch_k: Of how many they are chosen, at least ``k``.
            lambda_mult: The weight of relevance, 0 to 1; the rest is that of being unlike those before.
            **kwargs: ``filter``, and other options of ``retrieve``.

        Raises:
            ValidationError: An argument breaks a rule.
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
    """Values as a list; a single text is none: each of its characters would be one."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValidationError(f"{name} must be a list of texts, not {type(given).__name__}: write {name}=['…']")
    return list(given)


def _id_of(draft: SemanticDraft) -> str | None:
    """The id of a text with metadata, so that it is one document however often it is stored; None without."""
    said = json.dumps([draft.fact, draft.metadata], sort_keys=True)
    return f"{uuid5(NAMESPACE_OID, said)}" if draft.metadata else None


def _with_where(filter: JsonObject | None, options: dict[str, Any]) -> Any:  # noqa: ANN401 - checked where it goes
    """Options with the filter of a vector store beside the ``where`` that they may have."""
    if filter is not None and not isinstance(filter, Mapping):
        raise ValidationError(
            f"filter must be an object such as {{'page': {{'$gte': 2}}}}, not a {type(filter).__name__}"
        )
    asked = [each for each in (_over_metadata(filter), options.get("where")) if each not in (None, {})]
    return options | {"where": {"and": asked} if asked[1:] else next(iter(asked), None)}


_WORDS: Final = {"$and": "and", "$or": "or", "$not": "not"}


def _over_metadata(filter: object, levels: int = 2 * MAX_DEPTH) -> Any:  # noqa: ANN401 - what may be no filter
    """A filter with each field named as one of metadata; what is no filter, or too deep, is left to be refused."""
    if isinstance(filter, list) and levels:
        return [_over_metadata(each, levels - 1) for each in filter]
    if not isinstance(filter, Mapping) or not levels:
        return filter
    return {
        _WORDS.get(name, f"metadata.{name}"): _over_metadata(value, levels - 1) if name in _WORDS else value
        for name, value in filter.items()
    }


def _document(fact: SemanticMemory) -> Document:
    return Document(id=fact.id, page_content=fact.fact, metadata=dict(fact.metadata))
