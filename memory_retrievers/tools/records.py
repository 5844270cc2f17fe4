"""Tools about single memories and lists of them: get, list, delete, manage, and all memories page by page."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.errors import MemoryRetrieversError, NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, JsonObject, ResponseLevel, SemanticMemory
from memory_retrievers.models.fields import UTCDateTime, iso
from memory_retrievers.models.management import Association, AuditType, Change, MemoryFilter
from memory_retrievers.text.dates import just_before
from memory_retrievers.text.passages import said_by
from memory_retrievers.tools.arguments import (
    LARGEST_PAGE,
    CategoryName,
    Content,
    Id,
    Ids,
    ManagementArguments,
    MemoryId,
    Metadata,
    NarrowingArguments,
    Tags,
    TierFilter,
    check_limits,
    narrowed,
    one_of,
    within,
)
from memory_retrievers.tools.responses import (
    MOST_ASSOCIATIONS,
    association_object,
    complete,
    glance,
    still_known,
    text_of,
)
from memory_retrievers.tools.tool import Answer, ToolContext


class MemoryGetArguments(ManagementArguments):
    """Arguments of ``memory_get`` and ``memory_get_score``."""

    id: MemoryId


class MemoryListArguments(NarrowingArguments):
    """Arguments of ``memory_list``."""

    created_after: Annotated[
        UTCDateTime | None, Field(description="Only memories created at this time or later, as ISO 8601.")
    ] = None
    created_before: Annotated[
        UTCDateTime | None, Field(description="Only memories created at this time or earlier, as ISO 8601.")
    ] = None
    limit: Annotated[int, *within(1, LARGEST_PAGE, "How many to return at most.")] = 50
    offset: Annotated[int, *within(0, None, "How many of the newest to leave out.")] = 0


class MemoryDeleteArguments(ManagementArguments):
    """Arguments of ``memory_delete``."""

    id: Annotated[Id | None, Field(description="The id of the one memory to delete; the rest is then ignored.")] = None
    ids: Annotated[Ids | None, Field(description="The ids of the memories to delete.")] = None
    message: Annotated[
        Content | None,
        Field(description="Instead: the words of one message of a conversation, as shown, to delete only that."),
    ] = None
    memory_tier: Annotated[TierFilter, Field(description="Delete only memories of this tier.")] = None
    older_than: Annotated[
        UTCDateTime | None, Field(description="Delete only memories created before this time, as ISO 8601.")
    ] = None


def memory_get(context: ToolContext, arguments: MemoryGetArguments) -> Answer:
    """One memory, whole (specification §3.3); it counts as handed out."""
    memory, linked = _handed_out(context, context.find(arguments.id))
    answer = _listed(memory) | {
        "metadata": memory.metadata,
        "updated_at": iso(memory.updated_at),
        "expires_at": None if memory.expires_at is None else iso(memory.expires_at),
    }
    return Answer(
        {"success": True, "id": memory.id},
        answer | {"invalid_at": ended(memory)},
        lambda: complete(context, memory, linked=linked()),
        plain=answer,
    )


def ended(memory: AnyMemory) -> str | None:
    """Since when a fact does not hold any more; None of any other memory."""
    return iso(memory.invalid_at) if isinstance(memory, SemanticMemory) and memory.invalid_at is not None else None


def _handed_out(context: ToolContext, memory: AnyMemory) -> tuple[AnyMemory, Callable[[], list[Association]]]:
    """A memory that counts as handed out, and its associations, read when they are asked for."""
    manager = context.manager
    (counted,) = manager.importance.access([memory], how=AuditType.GET)
    return counted, lambda: manager.associations_of(memory, within=context.root, limit=MOST_ASSOCIATIONS)


def memory_list(context: ToolContext, arguments: MemoryListArguments) -> Answer:
    """The memories of the scope that fit, newest first, a page at a time (specification §3.3)."""
    seen = MemoryFilter(
        scope=context.scope,
        kinds=context.seen,
        tier=arguments.memory_tier,
        filters=narrowed(context.manager.settings, arguments),
        content_type=arguments.content_type,
        created_after=arguments.created_after,
        created_before=arguments.created_before,
    )
    total, memories = _page(context, seen, limit=arguments.limit, offset=arguments.offset)
    answer = {
        "memories": [_listed(memory) for memory in memories],
        "total": total,
        "limit": arguments.limit,
        "offset": arguments.offset,
    }
    return Answer(
        {"success": True, "total": total},
        answer,
        lambda: {"memories": [complete(context, memory) for memory in memories]},
        plain=answer,
    )


def _page(context: ToolContext, seen: MemoryFilter, *, limit: int, offset: int) -> tuple[int, list[AnyMemory]]:
    """The number of memories that fit, and a page of them, newest first; past the end it is empty."""
    total = context.manager.count(seen)
    return total, context.manager.select(seen, limit=limit, offset=offset) if offset < total else []


def memory_delete(context: ToolContext, arguments: MemoryDeleteArguments) -> Answer:
    """Delete one memory, or all that fit (specification §3.3), with every trace of them; unknown ids do not count.

    Raises:
        ValidationError: No criterion is given, a message beside others, or too many ids are.
        NotFoundError: Nobody has said that message.
    """
    if arguments.message is not None:
        return _forget_message(context, arguments, arguments.message)
    manager = context.manager
    # together, so that what no longer fits meanwhile is not deleted
    with manager.transaction_for(lambda: _chosen(context, arguments), scope=context.scope, removes=True) as memories:
        manager.delete(memories)
    answer = {"deleted_count": len(memories), "deleted_ids": [memory.id for memory in memories]}
    facts = [memory.fact for memory in memories if isinstance(memory, SemanticMemory) and arguments.id is not None]
    missed: JsonObject = {} if memories or arguments.id is None else {"hint": NO_SUCH_ID}
    return Answer(
        {"success": True, **answer},
        still_known(context, facts[0], level=arguments.response_level, is_fact=True) if facts else missed,
        lambda: {"affected_items": [complete(context, memory) for memory in memories]},
        plain=answer,
    )


def _forget_message(context: ToolContext, arguments: MemoryDeleteArguments, shown: str) -> Answer:
    if any(each is not None for each in (arguments.id, arguments.ids, arguments.memory_tier, arguments.older_than)):
        raise ValidationError("Give message alone to forget what was said, or id alone to delete a whole memory")
    for words, by in said_by(shown):
        forgotten = context.manager.forget_messages(context.scope, [words], by=by)
        if forgotten.messages:
            break
    else:
        raise NotFoundError("Nobody has said this: give all words of one message, as retrieve_memory shows them")
    answer = {"deleted_messages": forgotten.messages}
    return Answer(
        {"success": True, **answer},
        still_known(context, words, level=arguments.response_level, is_fact=False),
        lambda: {"affected_items": [complete(context, context.find(each)) for each in forgotten.episodes]},
        plain=answer,
    )


def _chosen(context: ToolContext, arguments: MemoryDeleteArguments) -> list[AnyMemory]:
    if arguments.id is not None:
        return _known(context, (arguments.id,))
    where = MemoryFilter(
        scope=context.scope,
        kinds=context.deleted,
        tier=arguments.memory_tier,
        created_before=just_before(arguments.older_than),
        include_invalidated=True,
    )
    if arguments.ids is not None:
        if len(arguments.ids) > LARGEST_PAGE:
            raise ValidationError(f"Too many ids: {len(arguments.ids)}, at most {LARGEST_PAGE} are allowed")
        return list(filter(where.fits, _known(context, arguments.ids)))
    if arguments.memory_tier is None and arguments.older_than is None:
        raise ValidationError("Say what to delete: give id, ids, message, memory_tier or older_than")
    return context.manager.select(where)


def _known(context: ToolContext, ids: tuple[str, ...]) -> list[AnyMemory]:
    """The memories of those of the ids that exist; it raises where an id does not tell which memory is meant."""
    found, failed = findable(context, ids)
    for error in failed.values():
        if not isinstance(error, NotFoundError):
            raise error
    return found


def findable(context: ToolContext, ids: tuple[str, ...]) -> tuple[list[AnyMemory], dict[str, MemoryRetrieversError]]:
    """The memories of those of the ids that exist, each once, and the error of each other id."""
    found: list[AnyMemory] = []
    failed: dict[str, MemoryRetrieversError] = {}
    for given in dict.fromkeys(ids):
        try:
            found.append(context.find(given))
        except (NotFoundError, ValidationError) as error:
            failed[given] = error
    return found, failed


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


MANAGED_PREVIEW: Final = 100
NO_SUCH_ID: Final = "No memory has this id, so nothing was deleted: retrieve_memory with response_level full tells ids."


class Operation(StrEnum):
    """Operation on the memory."""

    GET = "get"
    UPDATE = "update"
    DELETE = "delete"


class ManageArguments(ManagementArguments):
    """Arguments of ``memory_manage``; those from ``content`` on say what an update changes."""

    operation: Annotated[Operation, *one_of(Operation), Field(description="get, update or delete.")]
    memory_id: MemoryId
    content: Annotated[Content | None, Field(description="For update: the new text.")] = None
    scope: Annotated[
        str | None, Field(description="For update: the scope to move it to. Otherwise the scope to look in first.")
    ] = None
    tags: Annotated[Tags | None, Field(description="For update: tags that replace the old ones.")] = None
    category: Annotated[CategoryName | None, Field(description="For update: the new category.")] = None
    metadata: Annotated[Metadata | None, Field(description="For update: keys to add or overwrite.")] = None


def memory_manage(context: ToolContext, arguments: ManageArguments) -> Answer:
    """Get, update or delete one memory, of either kind, within the root (specification §4.2)."""
    first = context.scope if arguments.operation is Operation.UPDATE else context.scope_named(arguments.scope)
    try:
        memory = context.manager.find(arguments.memory_id, root=context.root, scope=first)
    except NotFoundError:
        if arguments.operation is Operation.GET and arguments.response_level is ResponseLevel.MINIMAL:
            return Answer({"success": True, "exists": False})
        raise
    match arguments.operation:
        case Operation.GET:
            return _get(context, memory)
        case Operation.UPDATE:
            return _update(context, memory, arguments)
        case Operation.DELETE:
            return _delete(context, memory)


def _get(context: ToolContext, memory: AnyMemory) -> Answer:
    memory, linked = _handed_out(context, memory)
    return Answer(
        {"success": True, "exists": True},
        {"memory": glance(context, memory, length=MANAGED_PREVIEW)},
        lambda: {
            "memory": complete(context, memory),
            "associations": [association_object(context, each, of=memory) for each in linked()],
            "metadata": memory.metadata,
        },
    )


def _update(context: ToolContext, memory: AnyMemory, arguments: ManageArguments) -> Answer:
    manager = context.manager
    target = memory.scope if arguments.scope is None else context.scope_named(arguments.scope)
    merged = None if arguments.metadata is None else {**memory.metadata, **arguments.metadata}
    check_limits(manager.settings, content=arguments.content, tags=arguments.tags, metadata=merged)
    within = () if target != memory.scope else (target,)
    with manager.transaction(*within):
        after = manager.update(Change(memory, **arguments.model_dump(include=_CHANGEABLE - {"scope"})))
        if target != memory.scope:
            after = manager.move([after], target_scope=target)[0]
    changed = [name for name, value in arguments.model_dump(include=_CHANGEABLE).items() if value is not None]
    summary = f"Updated {', '.join(changed)}" if changed else "Nothing was given to change"
    return Answer(
        {"success": True},
        {"affected_count": 1 if changed else 0, "summary": summary},
        lambda: {
            "affected_items": [complete(context, after)] if changed else [],
            "change_details": {
                "operation": "update",
                "changed_fields": changed,
                "scope_before": context.shown(memory.scope),
                "updated_at": iso(after.updated_at),
            },
        },
    )


_CHANGEABLE: Final = {"content", "scope", "tags", "category", "metadata"}


def _delete(context: ToolContext, memory: AnyMemory) -> Answer:
    linked = context.manager.associations_of(memory, within=context.root)
    context.manager.delete([memory])
    return Answer(
        {"success": True},
        {"affected_count": 1, "summary": f"Deleted {memory.id}"},
        lambda: {
            "affected_items": [glance(context, memory, length=MANAGED_PREVIEW)],
            "change_details": {"operation": "delete", "associations_removed": len(linked)},
        },
    )


LISTED_PREVIEW: Final = 30
ASSOCIATIONS: Final = 3


class ListAllArguments(ManagementArguments):
    """Arguments of ``memory_list_all``."""

    page: Annotated[int, Field(ge=1, description="Which page, from 1.")] = 1
    per_page: Annotated[int, *within(1, 100, "How many memories a page has, 1 to 100.")] = 10


def memory_list_all(context: ToolContext, arguments: ListAllArguments) -> Answer:
    """One page of all memories, newest first; a page past the end is empty (specification §4.3)."""
    everything = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.seen)
    before = (arguments.page - 1) * arguments.per_page
    total, memories = _page(context, everything, limit=arguments.per_page, offset=before)
    pages = -(-total // arguments.per_page)
    return Answer(
        {"success": True, "total_count": total},
        {"memories": [glance(context, memory, length=LISTED_PREVIEW, key="preview") for memory in memories]},
        lambda: {
            "memories": [
                complete(
                    context,
                    memory,
                    linked=context.manager.associations_of(memory, within=context.root, limit=ASSOCIATIONS),
                )
                for memory in memories
            ],
            "pagination_info": {
                "page": arguments.page,
                "per_page": arguments.per_page,
                "total_items": total,
                "total_pages": pages,
                "has_next": arguments.page < pages,
                "has_previous": arguments.page > 1,
            },
        },
    )
