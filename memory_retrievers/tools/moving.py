"""The tool that moves memories to another scope; their ids, times and associations stay."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from memory_retrievers.errors import MemoryRetrieversError, NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, JsonObject
from memory_retrievers.rendering.levels import levels
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput


class MoveArguments(ManagementArguments):
    """Arguments of ``memory_move``."""

    memory_ids: Annotated[tuple[str, ...], Field(description="The ids of the memories to move.")]
    target_scope: Annotated[str, Field(description="Where to, for example work/projects; . is the topmost scope.")]


def memory_move(context: ToolContext, arguments: MoveArguments) -> ToolOutput:
    """Move what can be moved; it fails only if nothing can (specification §4.3)."""
    target = context.scope_named(arguments.target_scope)
    found, failed = _found(context, arguments.memory_ids)
    moved = _moved(context, found, failed, target=target)
    if failed and not moved:
        raise _nothing_moved(failed)
    sources = sorted({context.shown(memory.scope) for memory in moved})
    return ToolOutput.of(
        levels(
            {"success": True},
            {
                "moved_count": len(moved),
                "target_scope": context.shown(target),
                "failed_items": _told(failed),
            },
            {
                "moved_items": [memory.id for memory in moved],
                "source_scope": sources[0] if len(sources) == 1 else sources,
            },
            level=arguments.response_level,
            optional={"failed_items"},
        )
    )


def _found(context: ToolContext, ids: tuple[str, ...]) -> tuple[list[AnyMemory], dict[str, MemoryRetrieversError]]:
    """The memories there are, and what is wrong with the other ids."""
    found: list[AnyMemory] = []
    failed: dict[str, MemoryRetrieversError] = {}
    for given in dict.fromkeys(ids):
        try:
            found.append(context.manager.find(given, root=context.root, scope=context.scope))
        except (NotFoundError, ValidationError) as error:
            failed[given] = error
    return found, failed


def _moved(
    context: ToolContext, found: list[AnyMemory], failed: dict[str, MemoryRetrieversError], *, target: str
) -> list[AnyMemory]:
    """What has been moved, as it was before; an id that is taken in the target joins the failed."""
    if not found:
        return []
    try:
        context.manager.move(found, target_scope=target)
    except (NotFoundError, ValidationError):
        pass  # one of them spoils it for all, so one by one
    else:
        return found
    moved: list[AnyMemory] = []
    for memory in found:
        try:
            context.manager.move([memory], target_scope=target)
        except (NotFoundError, ValidationError) as error:
            failed[memory.id] = error
        else:
            moved.append(memory)
    return moved


def _nothing_moved(failed: dict[str, MemoryRetrieversError]) -> MemoryRetrieversError:
    details: JsonObject = {"failed_items": _told(failed)}
    message = "; ".join(map(str, failed.values()))
    unknown = all(isinstance(error, NotFoundError) for error in failed.values())
    return NotFoundError(message, details=details) if unknown else ValidationError(message, details=details)


def _told(failed: dict[str, MemoryRetrieversError]) -> list[JsonObject]:
    return [{"memory_id": given, "message": str(error)} for given, error in failed.items()]
