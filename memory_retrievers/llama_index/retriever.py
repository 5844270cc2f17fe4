"""The LlamaIndex retriever: memories as nodes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Unpack

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from memory_retrievers.errors import only_known
from memory_retrievers.llama_index.memory import asked_last
from memory_retrievers.llama_index.turns import Scope, Zone, checked_scope, checked_zone, scope_of, zone_of
from memory_retrievers.models import Category, DetailLevel
from memory_retrievers.models.filters import FilterOptions, Filters, MinRelevance, SearchOptions
from memory_retrievers.retrieval.budget import parse_budget
from memory_retrievers.retrieval.documents import SCORE_KEYS, MemoryDocument, find_documents, parse_k
from memory_retrievers.retrieval.memory import Memory, checked_memory
from memory_retrievers.retrieval.request import parse_category, parse_relevance
from memory_retrievers.retrieval.results import parse_detail
from memory_retrievers.text.analysis import estimate_tokens

HIDDEN_KEYS = ("scope", "title", *SCORE_KEYS)  # of no use in prompts: the title is in the text, others are for programs
_ASKS = re.compile(r"(?i)[?？؟]\s*$|^\W*(?:wh\w+|how|did|tell|show|list|we[rnm]|wann|wo|wie|welch\w+|qu\w+|dónde)\b")


class MemoryRetriever(BaseRetriever):
    """Retrieves the memories that answer a question, facts and episodes together, best first.

    A node's text is the fact, or an episode's title and summary with its messages as set by ``detail``; its ``node_id``
    is the memory's id. A memory is the same node, with the same hash, for every query (except with ``low``,
    ``excerpts``, ``max_tokens`` or ``with_scores``, and for open episodes), so that ``QueryFusionRetriever`` can
    combine the results of several queries. A node's score is the relevance, which is comparable across queries: a
    ``SimilarityPostprocessor`` may cut by it. With rank fusion, as under ``RetrievalSettings.reference()``, it is the
    specified score. The scope is in the metadata, but not in prompts. An embedding in the query is ignored, as it may
    be of another model.

    Args:
        memory: An AgentMemory, or an object with its methods.
        scope: Scope to search: a path such as ``user/alice``, or a function that is called for it at each use.
        k: Maximum number of nodes.
        detail: Which episodes include their messages (specification §2.6).
        max_tokens: Maximum number of tokens of all texts together. Less relevant memories are left out, and the last
            messages of an episode first; None sets no limit.
        token_counter: Counts the tokens of a text; by default a token is four characters.
        min_relevance: Return nothing below this relevance, 0 to 1; ``auto`` is fitted to the embedder.
        category: Return only facts of this category; episodes are not affected.
        include_child_scopes: Also search the scopes below.
        with_scores: Include in the metadata why a memory was found: ``relevance_score``, ``fused_score``,
            ``retrievability``, ``dense_rank`` and ``bm25_rank``.
        time_zone: Time zone of "today": a name such as ``America/Lima``, or a function that is called for it at each
            use. None uses that of the memory's settings.
        callback_manager: LlamaIndex's own.
        verbose: LlamaIndex's own.
        **filters: ``tags``, ``metadata``, ``since``, ``until`` and ``where``: see ``FilterOptions``.

    Raises:
        ValidationError: An argument breaks a rule.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        scope: Scope,
        k: int = 4,
        detail: DetailLevel | str = DetailLevel.AUTO,
        max_tokens: int | None = None,
        token_counter: Callable[[str], int] = estimate_tokens,
        min_relevance: MinRelevance = 0.0,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        with_scores: bool = False,
        time_zone: Zone = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **filters: Unpack[FilterOptions],
    ) -> None:
        only_known(filters, FilterOptions.__optional_keys__, of=MemoryRetriever.__init__)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self._memory = checked_memory(memory)
        self._scope, self._time_zone = checked_scope(scope), checked_zone(time_zone)
        filters["tags"] = Filters.parse(filters).tags  # an iterator is read once
        self._find = partial(
            find_documents,
            self._memory,
            k=parse_k(k),
            detail=parse_detail(detail),
            with_scores=with_scores,
            max_tokens=parse_budget(max_tokens),
            token_counter=token_counter,
            min_relevance=parse_relevance(min_relevance),
            category=parse_category(category),
            include_child_scopes=include_child_scopes,
            **filters,
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        scope = scope_of(self._scope)
        # where a tool of that chat asks, it is the question, no memory; what was told is one
        asked = [each for each in asked_last(self._memory, scope) if _ASKS.search(each.content)]
        options = SearchOptions(time_zone=zone_of(self._time_zone), in_prompt=asked)
        return [*map(_node, self._find(query_bundle.query_str, scope=scope, **options))]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(document: MemoryDocument) -> NodeWithScore:
    # a source that is but the memory's address tells a model nothing
    addressed = ["source"] if str(document.metadata.get("source", "")).startswith("memory://") else []
    node = TextNode(
        id_=document.id,
        text=document.text,
        metadata=document.metadata,
        excluded_embed_metadata_keys=list(document.metadata),
        excluded_llm_metadata_keys=[*HIDDEN_KEYS, *addressed],
    )
    return NodeWithScore(node=node, score=document.relevance)
