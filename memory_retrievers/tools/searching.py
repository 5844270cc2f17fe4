"""``memory_search``: find memories by meaning, by words, or by both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from memory_retrievers.errors import ValidationError
from memory_retrievers.managed import MemoryFilter
from memory_retrievers.management.model import FoundMemory, SearchMode, SortBy
from memory_retrievers.models import AnyMemory, JsonObject, MemoryKey, ResponseLevel
from memory_retrievers.rendering.levels import levels, preview
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools import diversity
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.objects import complete, key_of, rounded, text_of
from memory_retrievers.tools.parameters import (
    LARGEST_PAGE,
    ContentTypeFilter,
    TagsFilter,
    TierFilter,
    fraction,
    one_of,
    under_one_name,
    whole_number,
)
from memory_retrievers.tools.records import filter_tags
from memory_retrievers.tools.spec import ToolContext, ToolOutput
from memory_retrievers.tools.widening import wider_scopes

CONTENT_PREVIEW = 50
"""Characters of the content that ``standard`` answers show."""

ASSOCIATIONS = 3
"""So many associations of a hit are shown, the strongest."""

_read_mode, _mode_schema = one_of(SearchMode, name="search_mode")
_read_order, _order_schema = one_of(SortBy, name="sort_by", aliases={"similarity": SortBy.RELEVANCE})


def _not_blank(query: str) -> str:
    if not query.strip():
        raise ValidationError("Query cannot be empty")
    return query


class MemorySearchArguments(ManagementArguments):
    """Arguments of ``memory_search``: ``limit`` also names ``top_k``, ``similarity_threshold`` ``min_similarity``."""

    query: Annotated[
        str, AfterValidator(_not_blank), Field(description="What to look for, as a question or a few words.")
    ]
    top_k: Annotated[
        int,
        *whole_number("top_k", 1, LARGEST_PAGE, "How many memories to return at most."),
    ] = 10
    memory_tier: TierFilter = None
    tags: TagsFilter = ()
    content_type: ContentTypeFilter = None
    min_similarity: Annotated[
        float,
        *fraction("min_similarity", "Only memories at least this similar to the query; not used by keyword search."),
    ] = 0.0
    search_mode: Annotated[
        SearchMode,
        _read_mode,
        _mode_schema,
        Field(description="semantic compares meaning, keyword compares words, hybrid does both."),
    ] = SearchMode.SEMANTIC
    keyword_weight: Annotated[float, *fraction("keyword_weight", "How much words count in a hybrid search.")] = 0.3
    sort_by: Annotated[
        SortBy,
        _read_order,
        _order_schema,
        Field(description="What comes first: the most relevant, the most important, or the newest."),
    ] = SortBy.RELEVANCE
    importance_weight: Annotated[
        float, *fraction("importance_weight", "How much importance counts beside relevance.")
    ] = 0.0
    scope: Annotated[str | None, Field(description="Where to look; leave it out for the usual place.")] = None
    include_child_scopes: Annotated[bool, Field(description="Whether to look below that place too.")] = False
    include_associations: Annotated[
        bool, Field(description="Whether full answers show what each memory is associated with.")
    ] = True
    diversify: Annotated[bool, Field(description="Whether to leave out what nearly repeats a better result.")] = False

    @model_validator(mode="before")
    @classmethod
    def _under_one_name(cls, given: object) -> object:
        return under_one_name(given, {"limit": "top_k", "similarity_threshold": "min_similarity"})


def memory_search(context: ToolContext, arguments: MemorySearchArguments) -> ToolOutput:
    """The memories that answer a query, best first (specification §3.4, §4.4); each counts as handed out.

    Raises:
        ValidationError: The scope is malformed.
        EmbeddingError: The embedder failed.
    """
    # 1. find
    found = _find(context, arguments)
    # 2. count them as handed out
    accessed = context.manager.access([hit.memory for hit in found], how="search")
    # 3. tell
    if context.response_format == "seed004":
        results = [_result(hit, arguments.search_mode) for hit in found]
        return ToolOutput.of({"results": results, "total": len(results)})
    return ToolOutput.of(_told(context, arguments, found, {key_of(memory): memory for memory in accessed}))


def _find(context: ToolContext, arguments: MemorySearchArguments) -> list[FoundMemory]:
    manager = context.manager
    top_k = arguments.top_k if "top_k" in arguments.model_fields_set else manager.settings.search_default_top_k
    seen = MemoryFilter(
        scope=context.scope_named(arguments.scope),
        include_child_scopes=arguments.include_child_scopes,
        kinds=context.kinds,
        tier=arguments.memory_tier,
        tags=filter_tags(context, arguments.tags),
        content_type=arguments.content_type,
    )

    def find(depth: int, floor: float) -> list[FoundMemory]:
        return manager.search(
            arguments.query,
            seen,
            top_k=depth,
            mode=arguments.search_mode,
            min_similarity=max(floor, arguments.min_similarity),
            keyword_weight=arguments.keyword_weight,
            sort_by=arguments.sort_by,
            importance_weight=arguments.importance_weight,
        )

    if not arguments.diversify:
        return find(top_k, arguments.min_similarity)
    candidates = diversity.search(find, limit=top_k, min_score=arguments.min_similarity or diversity.MIN_SCORE)
    vectors = manager.vectors_of([hit.memory for hit in candidates])
    return diversity.choose(candidates, vectors, limit=top_k)


def _told(
    context: ToolContext,
    arguments: MemorySearchArguments,
    found: list[FoundMemory],
    accessed: Mapping[MemoryKey, AnyMemory],
) -> JsonObject:
    total = {"success": True, "total_count": len(found)}
    if arguments.response_level is ResponseLevel.FULL:  # what each is associated with costs a look into the store
        results = [_whole(context, arguments, hit, accessed.get(key_of(hit.memory), hit.memory)) for hit in found]
    else:
        results = [
            _result(hit, arguments.search_mode)
            | {
                "content": preview(text_of(hit.memory), CONTENT_PREVIEW),
                "content_preview": preview(text_of(hit.memory), CONTENT_PREVIEW),
                "scope": context.shown(hit.memory.scope),
            }
            for hit in found
        ]
    return levels(
        total,
        {"total": len(found), "results": results, "wider_scopes": None if found else _elsewhere(context, arguments)},
        {
            "search_metadata": {
                "scope_coverage": "hierarchical" if arguments.include_child_scopes else "exact",
                "similarity_threshold": arguments.min_similarity,
                "include_child_scopes": arguments.include_child_scopes,
                "include_associations": arguments.include_associations,
            }
        },
        level=arguments.response_level,
        optional={"wider_scopes"},
    )


def _elsewhere(context: ToolContext, arguments: MemorySearchArguments) -> list[JsonObject]:
    """In which wider scopes the same search would find something."""
    if arguments.response_level is ResponseLevel.MINIMAL:
        return []

    def count(scope: str, floor: float) -> int:
        there = {"scope": context.shown(scope), "min_similarity": floor}
        return len(_find(context, arguments.model_copy(update=there)))

    scope = context.scope_named(arguments.scope)
    return wider_scopes(context, scope, min_similarity=arguments.min_similarity, count=count)


def _result(hit: FoundMemory, mode: SearchMode) -> JsonObject:
    """A hit as specification §3.3 shows it."""
    memory = hit.memory
    scores = {"keyword_score": hit.keyword_score, "combined_score": hit.combined_score}
    return {
        "id": memory.id,
        "content": text_of(memory),
        "similarity": 0.0 if mode is SearchMode.KEYWORD else rounded(hit.similarity),
        "memory_tier": str(memory.tier),
        "tags": list(memory.tags),
        "created_at": iso(memory.created_at),
    } | {name: rounded(score) for name, score in scores.items() if score is not None}


def _whole(context: ToolContext, arguments: MemorySearchArguments, hit: FoundMemory, memory: AnyMemory) -> JsonObject:
    """A hit with all that is known of the memory, as it is now that it was handed out."""
    linked = (
        context.manager.associations_of(memory, within=context.root, limit=ASSOCIATIONS)
        if arguments.include_associations
        else []
    )
    result = _result(hit, arguments.search_mode)
    return result | complete(context, memory, similarity=float(result["similarity"]), linked=linked)
