"""Association of memories: its strength in five ways, and the tool that discovers associations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import takewhile
from typing import Annotated, Final

from memory_retrievers.models import AnyMemory, JsonObject, SemanticMemory
from memory_retrievers.models.filters import equal
from memory_retrievers.models.management import AssociationType, FoundMemory, MemoryFilter
from memory_retrievers.text.duplicates import COSINE_TOLERANCE
from memory_retrievers.tools.arguments import ManagementArguments, MemoryId, within
from memory_retrievers.tools.responses import association_level, complete, preview, rounded, text_of
from memory_retrievers.tools.store import MIN_SEMANTIC_COSINE
from memory_retrievers.tools.tool import Answer, ToolContext

MIN_STRENGTH: Final = 0.1  # what holds two memories together must be stronger than this

MIN_SIMILAR: Final = 0.5
MIN_CAUSAL_COSINE: Final = 0.6
MIN_CAUSAL_TEMPORAL: Final = 0.2

TAG_WEIGHT: Final = 0.5
METADATA_WEIGHT: Final = 0.3
SCOPE_WEIGHT: Final = 0.2

_DAY: Final = timedelta(hours=24)


def scope_strength(first: str, second: str) -> float:
    """Common leading segments of two scopes ÷ the depth of the deeper one; ``.``, the root itself, has no depth.

    >>> round(scope_strength("work/projects/a", "work/projects/b"), 4)
    0.6667
    """
    if first == second:
        return 1.0
    ways = [[] if scope == "." else scope.split("/") for scope in (first, second)]
    common = list(takewhile(lambda both: both[0] == both[1], zip(*ways, strict=False)))
    return len(common) / max(map(len, ways))


def may_associate(first: str, second: str) -> bool:
    """True if memories of two scopes may belong together: a session keeps to itself, and has nothing global.

    >>> may_associate("session/a", "session/a"), may_associate("session/a", "session/b")
    (True, False)
    >>> may_associate("session/a", "global"), may_associate("session/a", "work")
    (False, True)
    """
    in_session = [scope.startswith("session/") for scope in (first, second)]
    if all(in_session):
        return first == second
    return not (any(in_session) and "global" in {first, second})


def temporal_strength(first: AnyMemory, second: AnyMemory) -> float:
    """1 for the same moment, 0 from 24 hours on, evenly between."""
    return max(0.0, 1.0 - abs(first.created_at - second.created_at) / _DAY)


def contextual_strength(first: AnyMemory, second: AnyMemory, *, root: str) -> float:
    """Tags, metadata and scopes in common, weighed 0.5, 0.3 and 0.2.

    Args:
        first: A memory.
        second: Another; their order does not matter.
        root: The scope from which theirs are seen.
    """
    tags = len(set(first.tags) & set(second.tags)) / (max(len(first.tags), len(second.tags)) or 1)
    shared = first.metadata.keys() & second.metadata.keys()
    same = sum(equal(first.metadata[key], second.metadata[key]) for key in shared) / (len(shared) or 1)
    scopes = scope_strength(_seen(first.scope, root), _seen(second.scope, root))
    return min(1.0, TAG_WEIGHT * tags + METADATA_WEIGHT * same + SCOPE_WEIGHT * scopes)


def strengths(source: AnyMemory, target: AnyMemory, *, cosine: float, root: str) -> dict[AssociationType, float]:
    """Every way in which ``source`` belongs to ``target``, with its strength; those of 0.1 or less are left out.

    Args:
        source: Only this one can be the cause.
        target: The other one.
        cosine: Of their vectors.
        root: The scope from which theirs are seen.
    """
    if not may_associate(_seen(source.scope, root), _seen(target.scope, root)):
        return {}
    cosine = min(1.0, cosine)  # that of equal vectors in 32 bits may be a little more
    temporal = temporal_strength(source, target)
    similar = 1.0 - math.sqrt(2.0 - 2.0 * cosine) / math.sqrt(2.0)
    caused = source.created_at < target.created_at and cosine >= MIN_CAUSAL_COSINE and temporal > MIN_CAUSAL_TEMPORAL
    found = {
        AssociationType.SEMANTIC: cosine if cosine >= MIN_SEMANTIC_COSINE else 0.0,
        AssociationType.TEMPORAL: temporal,
        AssociationType.CAUSAL: cosine * temporal if caused else 0.0,
        AssociationType.SIMILAR: similar if similar >= MIN_SIMILAR else 0.0,
        AssociationType.CONTEXTUAL: contextual_strength(source, target, root=root),
    }
    return {way: strength for way, strength in found.items() if strength > MIN_STRENGTH}


def _seen(scope: str, root: str) -> str:
    return "." if scope == root else scope.removeprefix(f"{root}/")


DISCOVERY_FLOOR: Final = 0.1
PREVIEW: Final = 50


class DiscoverAssociationsArguments(ManagementArguments):
    """Arguments of ``memory_discover_associations``."""

    memory_id: MemoryId
    limit: Annotated[int, *within(1, 100, "How many associations to return at most, 1 to 100.")] = 10
    similarity_threshold: Annotated[float, *within(0.0, 1.0, "Minimum similarity, 0 to 1.")] = 0.1


def memory_discover_associations(context: ToolContext, arguments: DiscoverAssociationsArguments) -> Answer:
    """List the memories that one is near to, anywhere within the root (specification §4.3); nothing is written."""
    source = context.find(arguments.memory_id)
    found, strategy = _neighbours(context, source, limit=arguments.limit, threshold=arguments.similarity_threshold)
    return Answer(
        {"success": True, "association_count": len(found)},
        {"associations": [_discovered(hit) for hit in found]},
        lambda: {
            "associations": [_discovered_whole(context, source, hit) for hit in found],
            "discovery_metadata": {
                "similarity_threshold": arguments.similarity_threshold,
                "limit": arguments.limit,
                "search_strategy": strategy,
            },
        },
    )


def _neighbours(
    context: ToolContext, source: AnyMemory, *, limit: int, threshold: float
) -> tuple[list[FoundMemory], str]:
    """The nearest by content, and where they are too few by tags and category too."""
    seen = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.seen)
    words = source.embedding_text
    search = context.manager.like
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
            hit.memory.key != source.key
            and _plain(hit.memory) != _plain(source)
            and hit.similarity >= threshold - COSINE_TOLERANCE
            and may_associate(context.shown(source.scope), context.shown(hit.memory.scope))
        ):
            best.setdefault(hit.memory.key, hit)
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
    ways = strengths(source, hit.memory, cosine=context.manager.cosine(hit), root=context.root)
    return {
        "source_id": source.id,
        **_discovered(hit),
        "scope": context.shown(hit.memory.scope),
        "association_type": str(AssociationType.SEMANTIC),
        "level": association_level(hit.similarity),
        "strengths": {str(way): rounded(strength) for way, strength in ways.items()},
        "auto_generated": True,
        "memory": complete(context, hit.memory),
    }
