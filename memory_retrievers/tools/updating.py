"""``memory_update`` and ``memory_batch_update``: change what is remembered, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from pydantic import Field, WithJsonSchema

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.management.model import Change
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, MemoryKey
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.arguments import ManagementArguments, ToolArguments
from memory_retrievers.tools.batches import Batch, OnError, check_size, read_element
from memory_retrievers.tools.limits import check_limits
from memory_retrievers.tools.objects import complete, key_of
from memory_retrievers.tools.parameters import Content, MemoryId, MemoryTier, Metadata, Tags
from memory_retrievers.tools.records import find_seen
from memory_retrievers.tools.spec import ToolContext, ToolOutput


class UpdateItem(ToolArguments):
    """What can be changed of a memory; what is left out stays as it is."""

    id: MemoryId
    content: Annotated[Content | None, Field(description="A new text in place of the old one.")] = None
    tags: Annotated[Tags | None, Field(description="New labels in place of the old ones.")] = None
    metadata: Annotated[
        Metadata | None, Field(description="Keys to add to the metadata, or to write over; the others stay.")
    ] = None
    memory_tier: Annotated[MemoryTier | None, Field(description="A new tier; in long_term it stays.")] = None

    @property
    def changes_nothing(self) -> bool:
        """Whether no field is given."""
        return not self.model_fields_set & {"content", "tags", "metadata", "memory_tier"}


class MemoryUpdateArguments(UpdateItem, ManagementArguments):
    """Arguments of ``memory_update``."""


class MemoryBatchUpdateArguments(ManagementArguments):
    """Arguments of ``memory_batch_update``."""

    updates: Annotated[
        tuple[object, ...],
        WithJsonSchema({"type": "array", "items": UpdateItem.model_json_schema()}),
        Field(description="What to change; each element takes what memory_update takes."),
    ]
    on_error: OnError = "rollback"


def memory_update(context: ToolContext, arguments: MemoryUpdateArguments) -> ToolOutput:
    """Change a memory (specification §3.3); metadata is merged, and what becomes long_term no longer expires.

    Raises:
        NotFoundError: There is no such memory.
        ValidationError: A field breaks a limit, or an episode's content is to be changed; nothing was changed.
    """
    before = context.manager.find(arguments.id, root=context.root, scope=context.scope)
    change = _change(context, arguments, before)
    after = context.manager.update(
        before, content=change.content, tags=change.tags, metadata=change.metadata, tier=change.tier
    )
    told = {"id": after.id, "updated": not arguments.changes_nothing, "updated_at": iso(after.updated_at)}
    if context.response_format == "seed004":
        return ToolOutput.of(told)
    return ToolOutput.of(
        levels(
            {"success": True, "id": after.id},
            told,
            {"memory_object": complete(context, after)},
            level=arguments.response_level,
        )
    )


def memory_batch_update(context: ToolContext, arguments: MemoryBatchUpdateArguments) -> ToolOutput:
    """Change many memories (specification §3.6): one embedding batch and one transaction.

    Raises:
        ValidationError: There are no updates, or too many.
        BatchOperationError: The store or the embedder failed; nothing was changed.
    """
    manager = context.manager
    check_size(arguments.updates, name="updates", most=manager.settings.batch_max_size)
    batch: Batch[AnyMemory] = Batch(on_error=arguments.on_error)
    with batch.kept(manager.transaction_around(lambda: _named(context, arguments.updates), scope=context.scope)):
        _update(context, arguments.updates, batch)
    return ToolOutput.of(_told(context, arguments, batch))


def _named(context: ToolContext, updates: Sequence[object]) -> list[AnyMemory]:
    """The memories of those updates that name one."""
    named = []
    for element in updates:
        with suppress(ValidationError, NotFoundError):
            named.append(find_seen(context, read_element(element, UpdateItem).id))
    return named


def _update(context: ToolContext, updates: Sequence[object], batch: Batch[AnyMemory]) -> None:
    """All changes go together; one of a memory that is changed twice waits for the first."""
    waiting: dict[MemoryKey, Change] = {}

    def write_waiting() -> None:
        batch.done += context.manager.update_many(list(waiting.values()))
        waiting.clear()

    def take(element: object) -> None:
        item = read_element(element, UpdateItem)
        memory = find_seen(context, item.id)
        if key_of(memory) in waiting:
            write_waiting()
            memory = find_seen(context, item.id)
        change = _change(context, item, memory)
        if not item.changes_nothing:
            waiting[key_of(memory)] = change

    batch.each(updates, take)
    if not batch.is_undone:
        write_waiting()


def _change(context: ToolContext, item: UpdateItem, memory: AnyMemory) -> Change:
    """What a memory is to become.

    Raises:
        ValidationError: A field breaks a limit, or an episode's content is to be changed.
    """
    if item.content is not None and isinstance(memory, EpisodicMemory):
        raise ValidationError(f"{memory.id} is an episode; only the content of facts can be updated")
    merged = None if item.metadata is None else {**memory.metadata, **item.metadata}
    check_limits(context.manager.settings, content=item.content, tags=item.tags, metadata=merged)
    return Change(memory=memory, content=item.content, tags=item.tags, metadata=item.metadata, tier=item.memory_tier)


def _told(context: ToolContext, arguments: MemoryBatchUpdateArguments, batch: Batch[AnyMemory]) -> JsonObject:
    told = {
        "success": not batch.errors,
        "updated_count": len(batch.done),
        "updated_ids": [memory.id for memory in batch.done],
        "errors": batch.errors,
    }
    if context.response_format == "seed004":
        return told
    return levels(
        told,
        {},
        {"memory_objects": [complete(context, memory) for memory in batch.done]},
        level=arguments.response_level,
    )
