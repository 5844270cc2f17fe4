"""The tool that reads, changes or removes one memory by its id."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, JsonObject, ResponseLevel
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.limits import check_limits
from memory_retrievers.tools.objects import MOST_ASSOCIATIONS, association_object, complete, glance
from memory_retrievers.tools.parameters import CategoryName, Content, MemoryId, Metadata, Tags, one_of
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput

PREVIEW: Final = 100


class Operation(StrEnum):
    """What is to be done with the memory."""

    GET = "get"
    UPDATE = "update"
    DELETE = "delete"


class ManageArguments(ManagementArguments):
    """Arguments of ``memory_manage``; those from ``content`` on say what an update changes."""

    operation: Annotated[Operation, *one_of(Operation, name="operation"), Field(description="get, update or delete.")]
    memory_id: MemoryId
    content: Annotated[Content | None, Field(description="For update: the new text.")] = None
    scope: Annotated[
        str | None, Field(description="For update: the scope to move it to. Otherwise the scope to look in first.")
    ] = None
    tags: Annotated[Tags | None, Field(description="For update: tags that take the place of the old ones.")] = None
    category: Annotated[CategoryName | None, Field(description="For update: what the memory is now about.")] = None
    metadata: Annotated[Metadata | None, Field(description="For update: keys to add or to write over.")] = None


def memory_manage(context: ToolContext, arguments: ManageArguments) -> ToolOutput:
    """Get, update or delete one memory, of either kind, within the root (specification §4.2)."""
    updates = arguments.operation is Operation.UPDATE
    first = context.scope if updates else context.scope_named(arguments.scope)
    try:
        memory = context.manager.find(arguments.memory_id, root=context.root, scope=first)
    except NotFoundError:
        if arguments.operation is Operation.GET and arguments.response_level is ResponseLevel.MINIMAL:
            return ToolOutput.of({"success": True, "exists": False})
        raise
    match arguments.operation:
        case Operation.GET:
            shown = _get(context, memory, level=arguments.response_level)
        case Operation.UPDATE:
            shown = _update(context, memory, arguments)
        case Operation.DELETE:
            shown = _delete(context, memory, level=arguments.response_level)
    return ToolOutput.of(shown)


def _get(context: ToolContext, memory: AnyMemory, *, level: ResponseLevel) -> JsonObject:
    memory = next(iter(context.manager.access([memory], how="get")), memory)
    linked = context.manager.associations_of(memory, within=context.root, limit=MOST_ASSOCIATIONS)
    return levels(
        {"success": True, "exists": True},
        {"memory": glance(context, memory, length=PREVIEW)},
        {
            "memory": complete(context, memory),
            "associations": [association_object(context, each, of=memory) for each in linked],
            "metadata": memory.metadata,
        },
        level=level,
    )


def _update(context: ToolContext, memory: AnyMemory, arguments: ManageArguments) -> JsonObject:
    manager = context.manager
    target = memory.scope if arguments.scope is None else context.scope_named(arguments.scope)
    merged = None if arguments.metadata is None else {**memory.metadata, **arguments.metadata}
    check_limits(manager.settings, content=arguments.content, tags=arguments.tags, metadata=merged)
    within = () if target != memory.scope else (target,)
    with manager.transaction(*within):
        after = manager.update(
            memory,
            content=arguments.content,
            tags=arguments.tags,
            metadata=arguments.metadata,
            category=arguments.category,
        )
        if target != memory.scope:
            after = manager.move([after], target_scope=target)[0]
    changed = [name for name in _CHANGEABLE if getattr(arguments, name) is not None]
    summary = f"Updated {', '.join(changed)}" if changed else "Nothing was given to change"
    return levels(
        {"success": True},
        {"affected_count": 1 if changed else 0, "summary": summary},
        {
            "affected_items": [complete(context, after)] if changed else [],
            "change_details": {
                "operation": "update",
                "changed_fields": changed,
                "scope_before": context.shown(memory.scope),
                "updated_at": iso(after.updated_at),
            },
        },
        level=arguments.response_level,
    )


_CHANGEABLE: Final = ("content", "scope", "tags", "category", "metadata")


def _delete(context: ToolContext, memory: AnyMemory, *, level: ResponseLevel) -> JsonObject:
    linked = context.manager.associations_of(memory, within=context.root)
    context.manager.delete([memory])
    return levels(
        {"success": True},
        {"affected_count": 1, "summary": f"Deleted {memory.id}"},
        {
            "affected_items": [glance(context, memory, length=PREVIEW)],
            "change_details": {"operation": "delete", "associations_removed": len(linked)},
        },
        level=level,
    )
