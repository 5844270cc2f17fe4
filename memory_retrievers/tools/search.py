"""The search tool: its filters, diversity of results, and a look at wider scopes where nothing is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, ClassVar, Final, TypeVar

from pydantic import AfterValidator, Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, JsonObject, MemoryKey, ResponseLevel, scopes
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import AuditType, FoundMemory, MemoryFilter, SearchMode, SearchRequest, SortBy
from memory_retrievers.models.selection import Vectors
from memory_retrievers.tools.arguments import (
    LARGEST_PAGE,
    ManagementArguments,
    NarrowingArguments,
    narrowed,
    one_of,
    within,
)
from memory_retrievers.tools.responses import CONTENT_PREVIEW, complete, preview, rounded, text_of
from memory_retrievers.tools.tool import Answer, ToolContext

MIN_SCORE: Final = 0.1
DIVERSITY_THRESHOLD: Final = 0.8
EXPANSION: Final = 2.5
LARGEST_EXPANSION: Final = 5
MOST_CANDIDATES: Final = 100
MOST_CANDIDATES_AT_LAST: Final = 200
LOWEST_MIN_SCORE: Final = 0.05
MOST_LEFT_OUT: Final = 10  # near-duplicates that one taken item excludes at most
_TOLERANCE: Final = 1e-6  # a cosine in 32 bits may fall short by about this much

FoundT = TypeVar("FoundT")


def search(
    find: Callable[[int, float], Sequence[FoundT]], *, limit: int, min_score: float = MIN_SCORE
) -> Sequence[FoundT]:
    """Enough candidates to choose from: once deeper than asked, and once more, wider, if fewer than asked come back.

    Args:
        find: Given how many and from which score on, what a search finds, best first.
        limit: How many are wanted in the end.
        min_score: From which score on.
    """
    depth = min(max(int(limit * EXPANSION), limit + 10), MOST_CANDIDATES)
    found = find(max(depth, limit), min_score)
    if len(found) >= limit:
        return found
    depth = min(limit * LARGEST_EXPANSION, MOST_CANDIDATES_AT_LAST)
    # a caller who asked for less than the lowest floor already has it
    return find(max(depth, limit), min(min_score, max(0.5 * min_score, LOWEST_MIN_SCORE)))


def choose(candidates: Sequence[FoundT], vectors: Vectors, *, limit: int) -> list[FoundT]:
    """Take the best, leave out the (at most ten) nearest to it from ``DIVERSITY_THRESHOLD`` on, and so on.

    Args:
        candidates: The n candidates, best first.
        vectors: Their unit vectors in the same order, shape (n, d).
        limit: How many to take at most.
    """
    left = list(range(len(candidates)))
    taken: list[FoundT] = []
    while left and len(taken) < limit:
        best, *left = left
        taken.append(candidates[best])
        nearness = vectors @ vectors[best]
        near = [other for other in left if nearness[other] >= DIVERSITY_THRESHOLD - _TOLERANCE]
        out = set(sorted(near, key=lambda other: -nearness[other])[:MOST_LEFT_OUT])
        left = [other for other in left if other not in out]
    return taken


GLOBAL: Final = "global"
MOST_WIDER_SCOPES: Final = 5
LOWERED_BY: Final = 0.05
LOWEST_FLOOR: Final = 0.05


def wider_scopes(context: ToolContext, scope: str, floor: float) -> list[tuple[str, float]]:
    """The scopes above one, level by level up to the root, then ``global`` with a lower floor; five at most.

    Args:
        context: Says what the root is.
        scope: Where nothing was found, as the store knows it.
        floor: How similar memories had to be.
    """
    above = reversed(scopes.lineage(scope)[:-1])
    wider = [(each, floor) for each in above if scopes.is_within(context.root, each)]
    with suppress(ValidationError):  # the root is as deep as a scope can be
        everywhere = scopes.join(context.root, GLOBAL)
        if everywhere not in {scope, context.root}:
            wider.append((everywhere, max(LOWEST_FLOOR, floor - LOWERED_BY)))
    return wider[:MOST_WIDER_SCOPES]


ASSOCIATIONS = 3  # associations of a hit that are shown, strongest first


def _not_blank(query: str) -> str:
    if not query.strip():
        raise ValidationError("Query cannot be empty")
    return query


class _Asked(ManagementArguments):
    """What ``memory_search`` looks for; as the last base its fields come first in the schema."""

    query: Annotated[
        str, AfterValidator(_not_blank), Field(description="What to look for, as a question or a few words.")
    ]
    top_k: Annotated[int, *within(1, LARGEST_PAGE, "How many memories to return at most.")] = 10


class MemorySearchArguments(NarrowingArguments, _Asked):
    """Arguments of ``memory_search``: ``limit`` also names ``top_k``, ``similarity_threshold`` ``min_similarity``."""

    other_names: ClassVar[Mapping[str, str]] = {"limit": "top_k", "similarity_threshold": "min_similarity"}

    min_similarity: Annotated[
        float, *within(0.0, 1.0, "Only memories at least this similar to the query; not used by keyword search.")
    ] = 0.0
    search_mode: Annotated[
        SearchMode,
        *one_of(SearchMode),
        Field(description="semantic compares meaning, keyword compares words, hybrid does both."),
    ] = SearchMode.SEMANTIC
    keyword_weight: Annotated[float, *within(0.0, 1.0, "How much words count in a hybrid search.")] = 0.3
    sort_by: Annotated[
        SortBy,
        *one_of(SortBy, aliases={"similarity": SortBy.RELEVANCE}),
        Field(description="What comes first: the most relevant, the most important, or the newest."),
    ] = SortBy.RELEVANCE
    importance_weight: Annotated[float, *within(0.0, 1.0, "How much importance counts beside relevance.")] = 0.0
    scope: Annotated[str | None, Field(description="Scope to search; leave it out for the default.")] = None
    include_child_scopes: Annotated[bool, Field(description="Whether to search the scopes below, too.")] = False
    include_associations: Annotated[
        bool, Field(description="Whether full answers show what each memory is associated with.")
    ] = True
    diversify: Annotated[bool, Field(description="Whether to leave out near-duplicates of better results.")] = False


def memory_search(context: ToolContext, arguments: MemorySearchArguments) -> Answer:
    """The memories that answer a query, best first (specification §3.4, §4.4); each counts as handed out."""
    found = _find(context, arguments)
    accessed = context.manager.importance.access([hit.memory for hit in found], how=AuditType.SEARCH)
    return _response(context, arguments, found, {memory.key: memory for memory in accessed})


def _find(context: ToolContext, arguments: MemorySearchArguments) -> list[FoundMemory]:
    manager = context.manager
    top_k = arguments.top_k if "top_k" in arguments.model_fields_set else manager.settings.search_default_top_k
    seen = MemoryFilter(
        scope=context.scope_named(arguments.scope),
        include_child_scopes=arguments.include_child_scopes,
        kinds=context.seen,
        tier=arguments.memory_tier,
        filters=narrowed(context.manager.settings, arguments),
        content_type=arguments.content_type,
    )

    def find(depth: int, floor: float) -> list[FoundMemory]:
        request = SearchRequest(
            arguments.query,
            seen,
            top_k=depth,
            mode=arguments.search_mode,
            min_similarity=max(floor, arguments.min_similarity),
            keyword_weight=arguments.keyword_weight,
            sort_by=arguments.sort_by,
            importance_weight=arguments.importance_weight,
        )
        return manager.search(request)

    if not arguments.diversify:
        return find(top_k, arguments.min_similarity)
    candidates = search(find, limit=top_k, min_score=arguments.min_similarity or MIN_SCORE)
    vectors = manager.vectors_of([hit.memory for hit in candidates])
    return choose(candidates, vectors, limit=top_k)


def _response(
    context: ToolContext,
    arguments: MemorySearchArguments,
    found: list[FoundMemory],
    accessed: Mapping[MemoryKey, AnyMemory],
) -> Answer:
    results = [_result(hit, arguments.search_mode) for hit in found]
    brief = [
        result
        | {
            "content": preview(text_of(hit.memory), CONTENT_PREVIEW),
            "content_preview": preview(text_of(hit.memory), CONTENT_PREVIEW),
            "scope": context.shown(hit.memory.scope),
        }
        for result, hit in zip(results, found, strict=True)
    ]
    return Answer(
        {"success": True, "total_count": len(found)},
        {"total": len(found), "results": brief, "wider_scopes": None if found else _elsewhere(context, arguments)},
        lambda: {
            "results": [_whole(context, arguments, hit, accessed.get(hit.memory.key, hit.memory)) for hit in found],
            "search_metadata": {
                "scope_coverage": "hierarchical" if arguments.include_child_scopes else "exact",
                "similarity_threshold": arguments.min_similarity,
                "include_child_scopes": arguments.include_child_scopes,
                "include_associations": arguments.include_associations,
            },
        },
        plain={"results": results, "total": len(results)},
    )


def _elsewhere(context: ToolContext, arguments: MemorySearchArguments) -> list[JsonObject] | None:
    """In which wider scopes the same search would find something, nearest first; None if in none, or nobody is told."""
    is_minimal = arguments.response_level is ResponseLevel.MINIMAL
    if is_minimal or not context.allow_scopes or context.response_format == "plain":
        return None
    elsewhere: list[JsonObject] = []
    for scope, floor in wider_scopes(context, context.scope_named(arguments.scope), arguments.min_similarity):
        there = {"scope": context.shown(scope), "min_similarity": floor}
        if found := len(_find(context, arguments.model_copy(update=there))):
            elsewhere.append({"scope": there["scope"], "total_count": found})
    return elsewhere or None


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
