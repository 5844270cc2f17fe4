"""The association engine: how strongly two memories belong together, in five ways, and which pairs of many do.

Everything here is arithmetic on records and cosines (specification §4.3); nothing is read or written. Scopes are seen
from a root, as everywhere in the tools: what lies above the root says nothing about how near two memories are.

- *semantic*: the cosine, from 0.7 on
- *temporal*: 1 minus the time between them in days
- *causal*: cosine times temporal strength, from the earlier to the later, if both are high enough
- *similar*: 1 − ‖a − b‖ / √2 of the unit vectors, from 0.5 on
- *contextual*: common tags, equal metadata and neighbouring scopes together
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from memory_retrievers.managed import AssociationType
from memory_retrievers.models import AnyMemory, MemoryKey

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

MIN_STRENGTH: Final = 0.1
"""An edge must be stronger than this."""

MIN_SEMANTIC_COSINE: Final = 0.7
MIN_SIMILAR: Final = 0.5
MIN_CAUSAL_COSINE: Final = 0.6
MIN_CAUSAL_TEMPORAL: Final = 0.2

TAG_WEIGHT: Final = 0.5
METADATA_WEIGHT: Final = 0.3
SCOPE_WEIGHT: Final = 0.2

_DAY: Final = timedelta(hours=24)


class Level(StrEnum):
    """How strong an association is, in a word."""

    WEAK = "weak"
    MODERATE = "moderate"
    STRONG = "strong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What holds two memories together, at its strongest.

    Attributes:
        source: The earlier one; of two as old as each other, the one that was given first.
        target: The other one.
        type: In which way.
        strength: How much, above 0.1 and at most 1.
    """

    source: MemoryKey
    target: MemoryKey
    type: AssociationType
    strength: float


def level(strength: float) -> Level:
    """The word for a strength: weak below 0.3, moderate below 0.7, then strong.

    >>> [str(level(strength)) for strength in (0.29, 0.3, 0.7)]
    ['weak', 'moderate', 'strong']
    """
    if strength < 0.3:  # noqa: PLR2004 - the bounds are the definition
        return Level.WEAK
    return Level.MODERATE if strength < 0.7 else Level.STRONG  # noqa: PLR2004 - as above


def scope_strength(first: str, second: str) -> float:
    """Common leading segments of two scopes ÷ the depth of the deeper one; ``.``, the root itself, has no depth.

    >>> round(scope_strength("work/projects/a", "work/projects/b"), 4)
    0.6667
    """
    if first == second:
        return 1.0
    ways = [[] if scope == "." else scope.split("/") for scope in (first, second)]
    common = 0
    for one, other in zip(*ways, strict=False):
        if one != other:
            break
        common += 1
    return common / max(map(len, ways))


def may_associate(first: str, second: str) -> bool:
    """Whether memories of two scopes may belong together: a session keeps to itself, and has nothing global.

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


def contextual_strength(first: AnyMemory, second: AnyMemory, *, root: str | None = None) -> float:
    """Tags, metadata and scopes in common, weighed 0.5, 0.3 and 0.2.

    Args:
        first: A memory.
        second: Another; their order does not matter.
        root: The scope from which theirs are seen; None sees them whole.
    """
    tags = len(set(first.tags) & set(second.tags)) / (max(len(first.tags), len(second.tags)) or 1)
    shared = first.metadata.keys() & second.metadata.keys()
    equal = sum(_equal(first.metadata[key], second.metadata[key]) for key in shared) / (len(shared) or 1)
    scopes = scope_strength(_seen(first.scope, root), _seen(second.scope, root))
    return min(1.0, TAG_WEIGHT * tags + METADATA_WEIGHT * equal + SCOPE_WEIGHT * scopes)


def strengths(
    source: AnyMemory, target: AnyMemory, *, cosine: float, root: str | None = None
) -> dict[AssociationType, float]:
    """Every way in which ``source`` belongs to ``target``, with its strength; those of 0.1 or less are left out.

    Args:
        source: Only this one can be the cause.
        target: The other one.
        cosine: Of their vectors.
        root: The scope from which theirs are seen; None sees them whole.
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


def edge(first: AnyMemory, second: AnyMemory, *, cosine: float, root: str | None = None) -> Edge | None:
    """The strongest edge between two memories; None if nothing holds them together, or they are one.

    Of equally strong ways the first counts. A causal edge is never the strongest: it is at most as strong as the
    temporal one.
    """
    source, target = (second, first) if second.created_at < first.created_at else (first, second)
    found = strengths(source, target, cosine=cosine, root=root)
    if not found or _key(source) == _key(target):
        return None
    strongest = max(found, key=lambda way: found[way])  # the first of equals
    return Edge(source=_key(source), target=_key(target), type=strongest, strength=found[strongest])


def edges(memories: Sequence[AnyMemory], vectors: Vectors, *, root: str | None = None) -> list[Edge]:
    """The strongest edge of every pair that anything holds together, strongest first.

    Args:
        memories: Each at most once.
        vectors: Their unit vectors, a row each, in the same order.
        root: The scope from which theirs are seen; None sees them whole.
    """
    cosines = vectors @ vectors.T
    found = [
        between
        for place, first in enumerate(memories)
        for other in range(place + 1, len(memories))
        if (between := edge(first, memories[other], cosine=float(cosines[place, other]), root=root)) is not None
    ]
    return sorted(found, key=lambda each: -each.strength)


def _seen(scope: str, root: str | None) -> str:
    if root is None:
        return scope
    return "." if scope == root else scope.removeprefix(f"{root}/")


def _key(memory: AnyMemory) -> MemoryKey:
    return MemoryKey(scope=memory.scope, id=memory.id)


def _equal(first: object, second: object) -> bool:
    """Equality as JSON has it: ``true`` is not ``1``."""
    return first == second and isinstance(first, bool) == isinstance(second, bool)
