"""``memory_get_score`` and ``memory_set_score``: how important a memory is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from memory_retrievers.models import JsonObject
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.objects import complete
from memory_retrievers.tools.parameters import MemoryId, fraction
from memory_retrievers.tools.spec import ToolContext, ToolOutput


class MemoryGetScoreArguments(ManagementArguments):
    """Arguments of ``memory_get_score``."""

    id: MemoryId


class MemorySetScoreArguments(ManagementArguments):
    """Arguments of ``memory_set_score``."""

    id: MemoryId
    score: Annotated[float, *fraction("score", "How important it is from now on: 0 for not at all, 1 for most.")]
    reason: Annotated[str, Field(max_length=1_000, description="Why.")] = "Manual override"


def memory_get_score(context: ToolContext, arguments: MemoryGetScoreArguments) -> ToolOutput:
    """How important a memory is now, and how often it was handed out (specification §3.5); this is no access.

    Raises:
        NotFoundError: There is no such memory.
    """
    found = context.manager.find(arguments.id, root=context.root, scope=context.scope)
    memory = context.manager.importance(found)
    identity: JsonObject = {"success": True, "memory_id": memory.id}
    told = {
        "importance_score": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": None if memory.last_accessed_at is None else iso(memory.last_accessed_at),
    }
    if context.response_format == "seed004":
        return ToolOutput.of(identity | told)
    return ToolOutput.of(
        levels(identity, told, {"memory_object": complete(context, memory)}, level=arguments.response_level)
    )


def memory_set_score(context: ToolContext, arguments: MemorySetScoreArguments) -> ToolOutput:
    """Say how important a memory is; accesses no longer change that (specification §3.5).

    Raises:
        NotFoundError: There is no such memory.
    """
    found = context.manager.find(arguments.id, root=context.root, scope=context.scope)
    memory = context.manager.set_importance(found, score=arguments.score, reason=arguments.reason)
    identity: JsonObject = {"success": True, "memory_id": memory.id}
    told = {"previous_score": found.importance, "new_score": memory.importance}
    if context.response_format == "seed004":
        return ToolOutput.of(identity | told)
    return ToolOutput.of(
        levels(identity, told, {"memory_object": complete(context, memory)}, level=arguments.response_level)
    )
