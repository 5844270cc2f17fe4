"""``memory_batch_store``: many memories in one embedding batch and one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, WithJsonSchema

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import JsonObject, SemanticDraft
from memory_retrievers.rendering.levels import levels
from memory_retrievers.tools.arguments import ManagementArguments, without
from memory_retrievers.tools.batches import Batch, OnError, check_size, read_element
from memory_retrievers.tools.objects import complete
from memory_retrievers.tools.spec import ToolContext, ToolOutput
from memory_retrievers.tools.storing import Stored, StoreItem, associated, draft_of, store_one

_ITEMS_WITHOUT_SCOPE = without(StoreItem, {"scope"})


class MemoryBatchStoreArguments(ManagementArguments):
    """Arguments of ``memory_batch_store``."""

    items: Annotated[
        tuple[object, ...],
        WithJsonSchema({"type": "array", "items": _ITEMS_WITHOUT_SCOPE.model_json_schema()}),
        Field(description="What to store; each element takes what memory_store takes."),
    ]
    on_error: OnError = "rollback"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """An item that fits, with its place in the batch."""

    index: int
    item: StoreItem
    draft: SemanticDraft


class _Done(NamedTuple):
    """What became of the item at a place in the batch."""

    place: int
    stored: Stored


def memory_batch_store(context: ToolContext, arguments: MemoryBatchStoreArguments) -> ToolOutput:
    """Store many memories (specification §3.6): one embedding batch and one transaction, unless duplicates matter.

    Raises:
        ValidationError: There are no items, or too many.
        BatchOperationError: The store or the embedder failed; nothing was stored.
    """
    manager = context.manager
    check_size(arguments.items, name="items", most=manager.settings.batch_max_size)
    batch: Batch[_Done] = Batch(on_error=arguments.on_error)
    # 1. check every item before anything is embedded
    wanted = [
        _Wanted(index=index, item=item, draft=draft)
        for index, (item, draft) in batch.each(arguments.items, lambda element: _read(context, element))
    ]
    # 2. store
    with batch.kept(manager.transaction(*{each.draft.scope for each in wanted})):
        _store(context, wanted, batch)
    # 3. tell
    return ToolOutput.of(_told(context, arguments, batch))


def _read(context: ToolContext, element: object) -> tuple[StoreItem, SemanticDraft]:
    item = read_element(element, StoreItem if context.allow_scopes else _ITEMS_WITHOUT_SCOPE)
    return item, draft_of(context, item)


def _store(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done]) -> None:
    """Items of which nothing is compared go together; one that looks for duplicates sees all that stand before it."""
    waiting: list[_Wanted] = []
    for each in wanted:
        if each.item.looks_for_duplicates:
            _store_together(context, waiting, batch)
            _store_singly(context, [each], batch)
            waiting = []
        else:
            waiting.append(each)
    _store_together(context, waiting, batch)


def _store_together(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done]) -> None:
    if not wanted or batch.is_over_before(wanted[0].index):
        return
    try:
        memories = context.manager.add([each.draft for each in wanted])
    except ValidationError:  # the host holds one of them back
        _store_singly(context, wanted, batch)
        return
    batch.done += [
        _Done(each.index, Stored(memory=memory, associations=associated(context, each.item, memory)))
        for each, memory in zip(wanted, memories, strict=True)
    ]


def _store_singly(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done]) -> None:
    for each in wanted:
        if batch.is_over_before(each.index):
            return
        try:
            batch.done.append(_Done(each.index, store_one(context, each.item, each.draft)))
        except ValidationError as error:
            batch.fail(each.index, error)


def _told(context: ToolContext, arguments: MemoryBatchStoreArguments, batch: Batch[_Done]) -> JsonObject:
    new = [stored for _, stored in batch.done if stored.is_new]
    known = [{"index": place, "duplicate_of": stored.memory.id} for place, stored in batch.done if not stored.is_new]
    told: JsonObject = {
        "success": not batch.errors,
        "stored_count": len(new),
        "stored_ids": [stored.memory.id for stored in new],
        "errors": batch.errors,
    }
    if known:
        told["duplicates"] = known
    if context.response_format == "seed004":
        return told
    return levels(
        told,
        {},
        {"memory_objects": [complete(context, stored.memory, linked=stored.associations) for stored in new]},
        level=arguments.response_level,
    )
