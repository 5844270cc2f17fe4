"""Associations and duplicates: what a new memory belongs to, whether it is there already, and what any memory is near.

``auto_associate`` and ``duplicate_analysis`` are what ``memory_store`` does before and after it stores;
``memory_discover_associations`` looks without writing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from memory_retrievers import associations, same_memory
from memory_retrievers.managed import Association, AssociationType, MemoryFilter
from memory_retrievers.management.model import FoundMemory
from memory_retrievers.management.reading import key_of
from memory_retrievers.models import AnyMemory, Category, JsonObject, SemanticDraft, SemanticMemory
from memory_retrievers.rendering.levels import levels, preview
from memory_retrievers.rendering.raw import iso
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.tools.objects import complete, rounded, text_of
from memory_retrievers.tools.parameters import MemoryId, fraction, whole_number
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput

AUTO_ASSOCIATIONS: Final = 10
DUPLICATE_CANDIDATES: Final = 5
DUPLICATE_FLOOR: Final = 0.1
DISCOVERY_FLOOR: Final = 0.1
PREVIEW: Final = 50
DUPLICATE_PREVIEW: Final = 100


def auto_associate(context: ToolContext, memory: AnyMemory) -> list[Association]:
    """Associate a memory with the nearest of its scope: at most ten, of cosine 0.7 or more, itself excluded.

    Returns:
        What was written, strongest first; nothing if nothing is near enough.
    """
    manager = context.manager
    near = manager.near(
        memory,
        MemoryFilter(scope=memory.scope, kinds=context.kinds),
        top_k=AUTO_ASSOCIATIONS + 1,  # it finds itself
        min_similarity=associations.MIN_SEMANTIC_COSINE,
    )
    found = [
        Association(
            source=key_of(memory),
            target=key_of(hit.memory),
            type=AssociationType.SEMANTIC,
            strength=_cosine(context, hit),
            auto_generated=True,
            created_at=manager.now(),
        )
        for hit in near
        if key_of(hit.memory) != key_of(memory) and _cosine(context, hit) >= associations.MIN_SEMANTIC_COSINE
    ][:AUTO_ASSOCIATIONS]
    if found:
        manager.associate(found)
    return found


def _cosine(context: ToolContext, hit: FoundMemory) -> float:
    """What associations and sameness are defined by, even where the host has similarity told in another measure."""
    return hit.similarity if context.manager.settings.similarity == "cosine" else 2 * hit.similarity - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateAnalysis:
    """Whether something is in memory already.

    Attributes:
        performed: Whether anything was looked at: only if the caller wants no duplicates.
        threshold: From which similarity on something counts.
        candidate: The nearest memory that was looked at, if any.
        similarity: How near it is.
        refusal: Why nothing must be stored; None if it may.
        existing: The memory to give back instead of storing another; None if there is none.
    """

    performed: bool = False
    threshold: float | None = None
    candidate: AnyMemory | None = None
    similarity: float | None = None
    refusal: str | None = None
    existing: SemanticMemory | None = None

    def to_object(self, context: ToolContext) -> JsonObject:
        """The analysis as the answer of ``memory_store`` shows it (specification §4.2)."""
        shown: JsonObject = {
            "duplicate_check_performed": self.performed,
            "threshold_used": self.threshold,
            "duplicate_found": self.refusal is not None or self.existing is not None,
        }
        if self.candidate is not None and self.similarity is not None:
            shown["duplicate_candidate"] = {
                "memory_id": self.candidate.id,
                "similarity_score": rounded(self.similarity),
                "content_preview": preview(text_of(self.candidate), DUPLICATE_PREVIEW),
                "scope": context.shown(self.candidate.scope),
                "created_at": iso(self.candidate.created_at),
            }
        return {key: value for key, value in shown.items() if value is not None}


def duplicate_analysis(
    context: ToolContext,
    *,
    content: str,
    category: Category,
    scope: str,
    allow_duplicates: bool,
    duplicate_threshold: float | None,
) -> DuplicateAnalysis:
    """Look for what is to be stored among what is there; nothing is looked at unless the caller asks for it.

    Args:
        context: What the tool works on.
        content: The text that is to be stored.
        category: Its category.
        scope: Where, as the store knows it.
        allow_duplicates: False gives the same memory (numbers, negations and names compared too) of the same scope
            back, if there is one.
        duplicate_threshold: Refuse if any memory within the root is as similar as this; numbers and names do not
            count here.
    """
    query = SemanticDraft(scope=scope, fact=content, category=category).embedding_text
    analysis = DuplicateAnalysis()
    if duplicate_threshold is not None:
        analysis = _above_threshold(context, query, threshold=duplicate_threshold)
    if analysis.refusal is None and not allow_duplicates:
        return _same_in_scope(context, query, content=content, scope=scope)
    return analysis


def _above_threshold(context: ToolContext, query: str, *, threshold: float) -> DuplicateAnalysis:
    everywhere = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.kinds)
    found = context.manager.search(
        query, everywhere, top_k=DUPLICATE_CANDIDATES, min_similarity=min(DUPLICATE_FLOOR, threshold)
    )
    if not found:
        return DuplicateAnalysis(performed=True, threshold=threshold)
    best = max(found, key=lambda hit: hit.similarity)
    is_duplicate = best.similarity >= threshold - same_memory.COSINE_TOLERANCE
    return DuplicateAnalysis(
        performed=True,
        threshold=threshold,
        candidate=best.memory,
        similarity=best.similarity,
        refusal=f"Duplicate content detected (similarity: {best.similarity:.3f} >= {threshold})"
        if is_duplicate
        else None,
    )


def _same_in_scope(context: ToolContext, query: str, *, content: str, scope: str) -> DuplicateAnalysis:
    settings = IngestionSettings()
    found = context.manager.search(query, MemoryFilter(scope=scope, kinds=context.kinds), top_k=DUPLICATE_CANDIDATES)
    same = [
        (hit, hit.memory)
        for hit in found
        if isinstance(hit.memory, SemanticMemory)
        and same_memory.same(content, hit.memory.fact, cosine=_cosine(context, hit), settings=settings)
    ]
    best = same[0][0] if same else next(iter(found), None)
    return DuplicateAnalysis(
        performed=True,
        threshold=settings.same_cosine,
        candidate=None if best is None else best.memory,
        similarity=None if best is None else best.similarity,
        existing=same[0][1] if same else None,
    )


class DiscoverAssociationsArguments(ManagementArguments):
    """Arguments of ``memory_discover_associations``."""

    memory_id: MemoryId
    limit: Annotated[int, *whole_number("limit", 1, 100, "How many associations to return at most, 1 to 100.")] = 10
    similarity_threshold: Annotated[
        float, *fraction("similarity_threshold", "How similar a memory must at least be, 0 to 1.")
    ] = 0.1


def memory_discover_associations(context: ToolContext, arguments: DiscoverAssociationsArguments) -> ToolOutput:
    """What a memory is near to, anywhere within the root (specification §4.3); nothing is written."""
    source = context.manager.find(arguments.memory_id, root=context.root, scope=context.scope)
    found, strategy = _neighbours(context, source, limit=arguments.limit, threshold=arguments.similarity_threshold)
    return ToolOutput.of(
        levels(
            {"success": True, "association_count": len(found)},
            {"associations": [_discovered(hit) for hit in found]},
            {
                "associations": [_discovered_whole(context, source, hit) for hit in found],
                "discovery_metadata": {
                    "similarity_threshold": arguments.similarity_threshold,
                    "limit": arguments.limit,
                    "search_strategy": strategy,
                },
            },
            level=arguments.response_level,
        )
    )


def _neighbours(
    context: ToolContext, source: AnyMemory, *, limit: int, threshold: float
) -> tuple[list[FoundMemory], str]:
    """The nearest by content, and where they are too few by tags and category too."""
    seen = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.kinds)
    words = source.embedding_text
    search = context.manager.search
    found = _kept(
        context,
        source,
        search(words, seen, top_k=3 * limit, min_similarity=max(DISCOVERY_FLOOR, threshold - 0.2)),
        threshold=threshold,
    )
    if len(found) >= limit:
        return found[:limit], "content"
    category = [str(source.category)] if isinstance(source, SemanticMemory) else []
    wider = search(
        " ".join([words, *source.tags, *category]),
        seen,
        top_k=2 * limit,
        min_similarity=max(DISCOVERY_FLOOR, threshold - 0.3),
    )
    return _kept(context, source, [*found, *wider], threshold=threshold)[:limit], "content+tags+category"


def _kept(
    context: ToolContext, source: AnyMemory, hits: Sequence[FoundMemory], *, threshold: float
) -> list[FoundMemory]:
    """Each memory once, at its best, strongest first; without the source and what says the very same."""
    best: dict[object, FoundMemory] = {}
    for hit in sorted(hits, key=lambda each: -each.similarity):
        if (
            key_of(hit.memory) != key_of(source)
            and _plain(hit.memory) != _plain(source)
            and hit.similarity >= threshold - same_memory.COSINE_TOLERANCE
            and associations.may_associate(context.shown(source.scope), context.shown(hit.memory.scope))
        ):
            best.setdefault(key_of(hit.memory), hit)
    return list(best.values())


def _plain(memory: AnyMemory) -> str:
    return text_of(memory).strip().lower()


def _discovered(hit: FoundMemory) -> JsonObject:
    return {
        "target_id": hit.memory.id,
        "strength": rounded(hit.similarity),
        "preview": preview(text_of(hit.memory), PREVIEW),
    }


def _discovered_whole(context: ToolContext, source: AnyMemory, hit: FoundMemory) -> JsonObject:
    """The association, in which other ways the two belong together, and the whole memory it leads to."""
    ways = associations.strengths(source, hit.memory, cosine=_cosine(context, hit), root=context.root)
    return {
        "source_id": source.id,
        **_discovered(hit),
        "scope": context.shown(hit.memory.scope),
        "association_type": str(AssociationType.SEMANTIC),
        "level": str(associations.level(hit.similarity)),
        "strengths": {str(way): rounded(strength) for way, strength in ways.items()},
        "auto_generated": True,
        "memory": complete(context, hit.memory),
    }
