"""What to offer when a search finds nothing in its scope: the scopes above it that would, and then ``global``.

Everything stays within the root (specification §4.3). Nothing is searched instead: the model is told where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.tools.spec import ToolContext

GLOBAL: Final = "global"
MOST_CANDIDATES: Final = 5
LOWERED_BY: Final = 0.05
LOWEST_FLOOR: Final = 0.05


def wider_scopes(
    context: ToolContext, scope: str, *, min_similarity: float, count: Callable[[str, float], int]
) -> list[JsonObject]:
    """Where a search that found nothing would find something, nearest first; nothing if models may not name scopes.

    Args:
        context: Says what the root is.
        scope: Where nothing was found, as the store knows it.
        min_similarity: How similar memories had to be.
        count: How many memories the same search finds in another scope, from a similarity on.
    """
    if not context.allow_scopes:
        return []
    return [
        {"scope": context.shown(each), "total_count": found}
        for each, floor in islice(_candidates(context, scope, min_similarity), MOST_CANDIDATES)
        if (found := count(each, floor))
    ]


def _candidates(context: ToolContext, scope: str, floor: float) -> Iterator[tuple[str, float]]:
    """The scopes above one, level by level up to the root, and then ``global`` with a lower floor."""
    above = scope
    while above != context.root:
        above = above.rpartition("/")[0]
        yield above, floor
    try:
        everywhere = scopes.join(context.root, GLOBAL)
    except ValidationError:  # the root is as deep as a scope can be
        return
    if everywhere not in {scope, context.root}:
        yield everywhere, max(LOWEST_FLOOR, floor - LOWERED_BY)
