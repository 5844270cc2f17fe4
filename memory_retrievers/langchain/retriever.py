"""The LangChain retriever: memories as documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from memory_retrievers.langchain.scope import ScopedByConfig, asked_in_run, zone_of
from memory_retrievers.models import Category, DetailLevel, JsonObject
from memory_retrievers.models.filters import Filters, MinRelevance, parse_moment
from memory_retrievers.retrieval.budget import parse_budget
from memory_retrievers.retrieval.documents import find_documents
from memory_retrievers.retrieval.memory import GivenMemory
from memory_retrievers.retrieval.request import parse_category, parse_relevance
from memory_retrievers.retrieval.results import parse_detail
from memory_retrievers.text.analysis import estimate_tokens


def _checked(where: JsonObject | None) -> JsonObject | None:
    Filters.parse({"where": where})  # refused when the retriever is made, and not at the first question
    return where


class MemoryRetriever(ScopedByConfig, BaseRetriever):
    """Retrieves the memories that answer a question, facts and episodes together, best first.

    A document's ``page_content`` is the fact, or an episode's title and summary with its messages as set by ``detail``;
    its ``id`` is the memory's id; its metadata contain kind, scope, times and ``source``. A memory is the same document
    for every query (except with ``low``, ``excerpts``, ``max_tokens`` or ``with_scores``, and for open episodes), so
    retrievers with several queries can recognise it.

    The scope is the retriever's ``scope`` or, if it has none, that of the configuration, such as
    ``{"configurable": {"user_id": "user/alice"}}``: see ``resolve_scope``. The ``time_zone`` of the configuration, such
    as ``America/Lima``, is that of "today".

    Attributes:
        memory: An AgentMemory, or an object with its methods.
        k: Maximum number of documents.
        detail: Which episodes include their messages: at ``auto`` key moments, and matching messages of those whose
            summary was made by rules.
        max_tokens: Maximum number of tokens of all texts together. Less relevant memories are left out, and the last
            messages of an episode first; None sets no limit.
        token_counter: Counts the tokens of a text; by default a token is four characters.
        with_scores: Include in the metadata why a memory was found: ``relevance_score``, 0 to 1, which falls with rank,
            ``fused_score``, ``retrievability``, ``dense_rank`` and ``bm25_rank``.
        min_relevance: No documents of less relevance, 0 to 1, or ``auto``, which is fitted for the embedder.
        category: Return only facts of this category; episodes are not affected.
        include_child_scopes: Also search the scopes below.
        memory_tags: Only memories that have all of these tags; ``tags`` is LangChain's own.
        memory_metadata: Only memories that have each of these values under its key, likewise.
        since: Return only facts created, and episodes begun, at this time or later.
        until: Return only facts created, and episodes begun, at this time or earlier.
        where: A filter with operators over metadata, tags and times: see ``FilterOptions``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: GivenMemory = Field(exclude=True, repr=False)
    k: Annotated[int, Field(ge=1)] = 4
    detail: Annotated[DetailLevel | str, BeforeValidator(parse_detail)] = DetailLevel.AUTO
    max_tokens: Annotated[int | None, BeforeValidator(parse_budget)] = None
    token_counter: Callable[[str], int] = Field(default=estimate_tokens, exclude=True, repr=False)
    with_scores: bool = False
    min_relevance: Annotated[MinRelevance, BeforeValidator(parse_relevance)] = 0.0
    category: Annotated[Category | str | None, BeforeValidator(parse_category)] = None
    include_child_scopes: bool = False
    memory_tags: tuple[str, ...] = ()
    memory_metadata: JsonObject | None = None
    since: Annotated[datetime | str | None, BeforeValidator(partial(parse_moment, "since"))] = None
    until: Annotated[datetime | str | None, BeforeValidator(partial(parse_moment, "until"))] = None
    where: Annotated[JsonObject | None, AfterValidator(_checked)] = None

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: object) -> list[Document]:
        """The documents that answer ``input``; takes ``k`` besides what every LangChain runnable takes.

        Args:
            input: The question, in plain words; nothing is found for an empty one.
            config: The configuration of the run, which names the scope where the retriever has none; None takes that of
                the run it happens in.
            **kwargs: ``k``, at most so many documents for this call, and LangChain's own arguments.

        Raises:
            ConfigurationError: Neither the retriever nor the configuration names a scope.
            ValidationError: ``k`` is below 1, or the scope is malformed.
        """
        # The base class keeps the configuration from _get_relevant_documents, so the scope is settled here.
        return super().invoke(input, config, scope=self.scope_of(config), zone=zone_of(config), **kwargs)

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: object) -> list[Document]:
        """As :meth:`invoke`, without blocking the event loop.

        Args:
            input: As there.
            config: As there.
            **kwargs: As there.
        """
        return await super().ainvoke(input, config, scope=self.scope_of(config), zone=zone_of(config), **kwargs)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        scope: str | None = None,
        zone: str | None = None,
    ) -> list[Document]:
        if scope is None:  # some wrappers call this method, and not invoke
            scope, zone = self.scope_of({"metadata": run_manager.metadata}), zone_of()
        found = find_documents(
            self.memory,
            query,
            scope=scope,
            k=self.k if k is None else k,
            detail=parse_detail(self.detail),
            with_scores=self.with_scores,
            max_tokens=self.max_tokens,
            token_counter=self.token_counter,
            min_relevance=self.min_relevance,
            category=self.category,
            include_child_scopes=self.include_child_scopes,
            tags=self.memory_tags,
            metadata=self.memory_metadata,
            since=self.since,
            until=self.until,
            where=self.where,
            time_zone=zone,
            in_prompt=asked_in_run(),
        )
        return [Document(id=document.id, page_content=document.text, metadata=document.metadata) for document in found]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **given: Any,  # noqa: ANN401 - as the method of above takes it
    ) -> list[Document]:
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **given)

    def _get_ls_params(self, **kwargs: object) -> LangSmithRetrieverParams:
        return {**super()._get_ls_params(**kwargs), "ls_vector_store_provider": "memory_retrievers"}
