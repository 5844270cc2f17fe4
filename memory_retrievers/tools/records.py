"""``memory_get``, ``memory_list`` and ``memory_delete``: memories by their ids, or by what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.fields import UTCDateTime
from memory_retrievers.managed import MemoryFilter
from memory_retrievers.models import AnyMemory, JsonObject, Origin
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.limits import check_limits
from memory_retrievers.tools.objects import MOST_ASSOCIATIONS, complete, key_of, text_of
from memory_retrievers.tools.parameters import (
    LARGEST_PAGE,
    Bounds,
    ContentTypeFilter,
    MemoryId,
    TagsFilter,
    TierFilter,
    whole_number,
)
from memory_retrievers.tools.spec import ToolContext, ToolOutput


class MemoryGetArguments(ManagementArguments):
    """Arguments of ``memory_get``."""

    id: MemoryId


class MemoryListArguments(ManagementArguments):
    """Arguments of ``memory_list``."""

    memory_tier: TierFilter = None
    tags: TagsFilter = ()
    content_type: ContentTypeFilter = None
    created_after: Annotated[
        UTCDateTime | None, Field(description="Only memories made at this moment or later, as ISO 8601.")
    ] = None
    created_before: Annotated[
        UTCDateTime | None, Field(description="Only memories made at this moment or earlier, as ISO 8601.")
    ] = None
    limit: Annotated[int, *whole_number("limit", 1, LARGEST_PAGE, "How many to return at most.")] = 50
    offset: Annotated[int, Bounds(name="offset", low=0), Field(description="How many of the newest to leave out.")] = 0


class MemoryDeleteArguments(ManagementArguments):
    """Arguments of ``memory_delete``."""

    id: Annotated[str | None, Field(description="The id of the one memory to delete; the rest is then ignored.")] = None
    ids: Annotated[tuple[str, ...] | None, Field(description="The ids of the memories to delete.")] = None
    memory_tier: Annotated[TierFilter, Field(description="Delete only memories of this tier.")] = None
    older_than: Annotated[
        UTCDateTime | None, Field(description="Delete only memories made before this moment, as ISO 8601.")
    ] = None


def find_seen(context: ToolContext, id: str) -> AnyMemory:
    """A memory that operations on many may touch: what tools have stored, unless the host allows all.

    Raises:
        NotFoundError: There is no such memory.
    """
    memory = context.manager.find(id, root=context.root, scope=context.scope)
    if context.kinds != "all" and memory.origin is not Origin.TOOL:
        raise NotFoundError(f"Memory not found: {id}")
    return memory


def filter_tags(context: ToolContext, given: Sequence[str]) -> tuple[str, ...]:
    """Tags to filter by, as they are stored.

    Raises:
        ValidationError: There are more than a memory can have, or one is too long.
    """
    check_limits(context.manager.settings, tags=given)
    return tuple(tag.strip() for tag in given if tag.strip())


def memory_get(context: ToolContext, arguments: MemoryGetArguments) -> ToolOutput:
    """One memory, whole (specification §3.3); it counts as handed out.

    Raises:
        NotFoundError: There is no such memory.
    """
    manager = context.manager
    found = manager.find(arguments.id, root=context.root, scope=context.scope)
    (memory,) = manager.access([found], how="get")
    told = _listed(memory) | {
        "metadata": memory.metadata,
        "updated_at": iso(memory.updated_at),
        "expires_at": None if memory.expires_at is None else iso(memory.expires_at),
    }
    if context.response_format == "seed004":
        return ToolOutput.of(told)
    linked = manager.associations_of(memory, within=context.root, limit=MOST_ASSOCIATIONS)
    return ToolOutput.of(
        levels(
            {"success": True, "id": memory.id},
            told,
            complete(context, memory, linked=linked),
            level=arguments.response_level,
        )
    )


def memory_list(context: ToolContext, arguments: MemoryListArguments) -> ToolOutput:
    """The memories of the scope that fit, newest first, a page at a time (specification §3.3)."""
    manager = context.manager
    seen = MemoryFilter(
        scope=context.scope,
        kinds=context.kinds,
        tier=arguments.memory_tier,
        tags=filter_tags(context, arguments.tags),
        content_type=arguments.content_type,
        created_after=arguments.created_after,
        created_before=arguments.created_before,
    )
    total = manager.count(seen)
    memories = manager.select(seen, limit=arguments.limit, offset=min(arguments.offset, total))
    told = {
        "memories": [_listed(memory) for memory in memories],
        "total": total,
        "limit": arguments.limit,
        "offset": arguments.offset,
    }
    if context.response_format == "seed004":
        return ToolOutput.of(told)
    return ToolOutput.of(
        levels(
            {"success": True, "total": total},
            told,
            {"memories": [complete(context, memory) for memory in memories]},
            level=arguments.response_level,
        )
    )


def memory_delete(context: ToolContext, arguments: MemoryDeleteArguments) -> ToolOutput:
    """Delete one memory, or all that fit (specification §3.3), with every trace of them; unknown ids do not count.

    Raises:
        ValidationError: No criterion is given, or too many ids are.
    """
    manager = context.manager
    # together, so that what no longer fits meanwhile is not deleted
    with manager.transaction_around(lambda: _chosen(context, arguments), scope=context.scope, removes=True) as memories:
        manager.delete(memories)
    told = {"deleted_count": len(memories), "deleted_ids": [memory.id for memory in memories]}
    if context.response_format == "seed004":
        return ToolOutput.of(told)
    return ToolOutput.of(
        levels(
            {"success": True, **told},
            {},
            {"affected_items": [complete(context, memory) for memory in memories]},
            level=arguments.response_level,
        )
    )


def _chosen(context: ToolContext, arguments: MemoryDeleteArguments) -> list[AnyMemory]:
    if arguments.id is not None:
        return _known(context, (arguments.id,))
    if arguments.ids is not None:
        if len(arguments.ids) > LARGEST_PAGE:
            raise ValidationError(f"Too many ids: {len(arguments.ids)}, at most {LARGEST_PAGE} are allowed")
        return [
            memory
            for memory in _known(context, arguments.ids)
            if (arguments.memory_tier is None or memory.tier is arguments.memory_tier)
            and (arguments.older_than is None or memory.created_at < arguments.older_than)
        ]
    if arguments.memory_tier is None and arguments.older_than is None:
        raise ValidationError("Say what to delete: give id, ids, memory_tier or older_than")
    return context.manager.select(
        MemoryFilter(
            scope=context.scope,
            kinds=context.kinds,
            tier=arguments.memory_tier,
            older_than=arguments.older_than,
            include_invalidated=True,
        )
    )


def _known(context: ToolContext, ids: tuple[str, ...]) -> list[AnyMemory]:
    """The memories of those of the ids that exist, each once."""
    known: dict[object, AnyMemory] = {}
    for each in dict.fromkeys(ids):
        try:
            memory = context.manager.find(each, root=context.root, scope=context.scope)
        except NotFoundError:
            continue
        known[key_of(memory)] = memory
    return list(known.values())


def _listed(memory: AnyMemory) -> JsonObject:
    """A memory as a list shows it (specification §3.3)."""
    return {
        "id": memory.id,
        "content": text_of(memory),
        "content_type": str(memory.content_type),
        "memory_tier": str(memory.tier),
        "tags": list(memory.tags),
        "created_at": iso(memory.created_at),
    }
