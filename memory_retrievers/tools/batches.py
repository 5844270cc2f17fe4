"""Tools that store or change many memories at once: each element is checked alone, and ``on_error`` says what follows.

See specification §3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Generic, NamedTuple, TypeAlias, TypeVar

from pydantic import Field, WithJsonSchema

from memory_retrievers.errors import (
    BatchOperationError,
    ConfigurationError,
    MemoryRetrieversError,
    NotFoundError,
    ValidationError,
)
from memory_retrievers.models import AnyMemory, JsonObject, MemoryKey, SemanticDraft
from memory_retrievers.models.management import Change
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.storage.tracing import advance
from memory_retrievers.tools.arguments import LONGEST_ID, ArgumentsT, ManagementArguments, one_of, without
from memory_retrievers.tools.responses import complete
from memory_retrievers.tools.store import Stored, StoreItem, auto_associate, check_known, draft_of, store_one
from memory_retrievers.tools.tool import Answer, ToolContext
from memory_retrievers.tools.update import UpdateItem, change_of


class WhatNext(StrEnum):
    """What a bad element does."""

    ROLLBACK = "rollback"
    STOP = "stop"
    CONTINUE = "continue"


OnError = Annotated[
    WhatNext,
    *one_of(WhatNext),
    Field(
        description=(
            "If an element fails: rollback (nothing of the batch is kept), stop (what comes before it is kept), "
            "or continue (it is skipped)."
        )
    ),
]

ElementT = TypeVar("ElementT")
DoneT = TypeVar("DoneT")


@dataclass(slots=True, kw_only=True)
class Batch(Generic[DoneT]):
    """Progress of a batch."""

    on_error: WhatNext
    done: list[DoneT] = field(default_factory=list)  # what has been done, in the order of the elements
    errors: list[JsonObject] = field(default_factory=list)  # one object for each bad element

    @property
    def is_over(self) -> bool:
        """True if nothing more is to be done."""
        return bool(self.errors) and self.on_error is not WhatNext.CONTINUE

    @property
    def is_undone(self) -> bool:
        """True if nothing of the batch is to be kept."""
        return self.is_over and self.on_error is WhatNext.ROLLBACK

    def is_over_before(self, index: int) -> bool:
        """True if an element comes after the bad one that ended the batch."""
        return self.is_over and (self.is_undone or index > int(self.errors[0]["index"]))

    def fail(self, index: int, error: MemoryRetrieversError, *, id: object = None) -> None:
        """Note that an element is bad, and go on, stop, or give up what was done.

        Args:
            index: Its place in the batch, from 0.
            error: The reason.
            id: The id that the element names; anything but a text is left out of the note.
        """
        named = {"id": id[:LONGEST_ID]} if isinstance(id, str) else {}
        noted = {"index": index, **named, "error_type": type(error).__name__, "message": str(error)}
        self.errors = sorted([*self.errors, noted], key=lambda each: int(each["index"]))
        if self.on_error is not WhatNext.CONTINUE:
            self.errors = self.errors[:1]

    def each(self, elements: Sequence[object], read: Callable[[object], ElementT]) -> list[tuple[int, ElementT]]:
        """The elements that are good, with their places, as far as the batch goes."""
        good: list[tuple[int, ElementT]] = []
        for index, element in enumerate(elements):
            advance()
            try:
                good.append((index, read(element)))
            except (ValidationError, NotFoundError) as error:
                self.fail(index, error, id=element.get("id") if isinstance(element, Mapping) else None)
                if self.is_over:
                    break
        return [] if self.is_undone else good

    @contextmanager
    def kept(self, transaction: AbstractContextManager[object]) -> Iterator[None]:
        """Run the block inside a transaction, which is undone if a bad element means that nothing is to be kept.

        Raises:
            BatchOperationError: The store or the embedder failed; what was written is undone.
        """
        try:
            with transaction:
                yield
                advance()
                if self.is_undone:
                    raise _UndoneError  # noqa: TRY301 - nothing else ends a transaction
        except _UndoneError:
            self.done = []
        except (ConfigurationError, NotFoundError, ValidationError):
            raise
        except MemoryRetrieversError as error:
            raise BatchOperationError(f"The batch failed and nothing of it was kept: {error}") from error


class _UndoneError(Exception):
    """Ends a transaction that is to be undone."""


def _checked(element: object, model: type[ArgumentsT]) -> ArgumentsT:
    if not isinstance(element, Mapping):
        raise ValidationError(f"every element must be an object, not {type(element).__name__}")
    with in_our_words():
        return model.model_validate(dict(element))


def _check_size(elements: Sequence[object], *, name: str, most: int) -> None:
    """Refuse a batch of nothing, or of too much; the count stands in the details of the error."""
    details = {f"{name}_count": len(elements)}
    if not elements:
        raise ValidationError(f"The batch is empty: give at least one element in {name}", details=details)
    if len(elements) > most:
        raise ValidationError(f"The batch of {len(elements)} exceeds the maximum of {most}", details=details)


_ITEMS_WITHOUT_SCOPE = without(StoreItem, {"scope"})


class MemoryBatchStoreArguments(ManagementArguments):
    """Arguments of ``memory_batch_store``."""

    items: Annotated[
        tuple[object, ...],
        WithJsonSchema({"type": "array", "items": _ITEMS_WITHOUT_SCOPE.model_json_schema()}),
        Field(description="What to store; each element takes what memory_store takes."),
    ]
    on_error: OnError = WhatNext.ROLLBACK


class _Wanted(NamedTuple):
    """An item that fits, with its place in the batch."""

    place: int
    item: StoreItem
    draft: SemanticDraft


_Done: TypeAlias = tuple[int, Stored]  # the place of an item in the batch, and its outcome


def memory_batch_store(context: ToolContext, arguments: MemoryBatchStoreArguments) -> Answer:
    """Store many memories (specification §3.6) in one transaction, embedded in batches unless duplicates matter.

    Raises:
        BatchOperationError: The store or the embedder failed; nothing was stored.
    """
    manager = context.manager
    _check_size(arguments.items, name="items", most=manager.settings.batch_max_size)
    batch: Batch[_Done] = Batch(on_error=arguments.on_error)
    # check every item before anything is embedded
    model = StoreItem if context.allow_scopes else _ITEMS_WITHOUT_SCOPE

    def read(element: object) -> tuple[StoreItem, SemanticDraft]:
        item = _checked(element, model)
        return item, draft_of(context, item)

    wanted = [_Wanted(place, item, draft) for place, (item, draft) in batch.each(arguments.items, read)]
    with batch.kept(nullcontext()):
        manager.prepare([each.draft for each in wanted])
    with batch.kept(manager.transaction(*{each.draft.scope for each in wanted})):
        _put(context, wanted, batch)
    return _stored(context, batch)


def _put(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done]) -> None:
    """Items go together; one that is compared with what is similar, or replaces something, sees all before it."""

    def keeps_duplicates(each: _Wanted) -> bool | None:
        goes_alone = each.item.looks_for_similar or each.item.replaces is not None
        return None if goes_alone else each.item.keeps_duplicates(context)

    for keeps, alike in groupby(wanted, key=keeps_duplicates):
        if keeps is None:
            _put_singly(context, list(alike), batch)
        else:
            _put_alike(context, list(alike), batch, allow_duplicates=keeps)


def _put_alike(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done], *, allow_duplicates: bool) -> None:
    if batch.is_over_before(wanted[0].place):
        return
    drafts = [each.draft for each in wanted]
    try:
        with context.manager.transaction(*{draft.scope for draft in drafts}):
            added = context.manager.add(drafts, allow_duplicates=allow_duplicates)
            check_known(context, added)
    except ValidationError:  # the host holds one of them back, or a known one has no room
        _put_singly(context, wanted, batch)
        return
    for each, memory in zip(wanted, added, strict=True):
        made = auto_associate(context, memory) if each.item.auto_associate and memory.duplicate_of is None else []
        batch.done.append((each.place, Stored(memory=memory, associations=made)))


def _put_singly(context: ToolContext, wanted: Sequence[_Wanted], batch: Batch[_Done]) -> None:
    for each in wanted:
        if batch.is_over_before(each.place):
            return
        try:
            with context.manager.transaction(each.draft.scope):
                batch.done.append((each.place, store_one(context, each.item, each.draft)))
        except (NotFoundError, ValidationError) as error:
            batch.fail(each.place, error)


def _stored(context: ToolContext, batch: Batch[_Done]) -> Answer:
    new = [stored for _, stored in batch.done if stored.memory.duplicate_of is None]
    known = [{"index": at, "duplicate_of": each.memory.id} for at, each in batch.done if each.memory.duplicate_of]
    answer: JsonObject = {
        "success": not batch.errors,
        "stored_count": len(new),
        "stored_ids": [stored.memory.id for stored in new],
        "errors": batch.errors,
    }
    if known:
        answer["duplicates"] = known
    return Answer(
        answer,
        full=lambda: {"memory_objects": [complete(context, each.memory, linked=each.associations) for each in new]},
        plain=answer,
    )


class MemoryBatchUpdateArguments(ManagementArguments):
    """Arguments of ``memory_batch_update``."""

    updates: Annotated[
        tuple[object, ...],
        WithJsonSchema({"type": "array", "items": UpdateItem.model_json_schema()}),
        Field(description="What to change; each element takes what memory_update takes."),
    ]
    on_error: OnError = WhatNext.ROLLBACK


def memory_batch_update(context: ToolContext, arguments: MemoryBatchUpdateArguments) -> Answer:
    """Change many memories (specification §3.6) in one transaction; their new texts are embedded in batches.

    Raises:
        BatchOperationError: The store or the embedder failed; nothing was changed.
    """
    manager = context.manager
    _check_size(arguments.updates, name="updates", most=manager.settings.batch_max_size)
    batch: Batch[AnyMemory] = Batch(on_error=arguments.on_error)
    with batch.kept(manager.transaction_for(lambda: _named(context, arguments.updates), scope=context.scope)):
        _update(context, arguments.updates, batch)
    return _updated(context, batch)


def _named(context: ToolContext, updates: Sequence[object]) -> list[AnyMemory]:
    """The memories of those updates that name one."""
    named = []
    for element in updates:
        with suppress(ValidationError, NotFoundError):
            named.append(context.find_seen(_checked(element, UpdateItem).id))
    return named


def _update(context: ToolContext, updates: Sequence[object], batch: Batch[AnyMemory]) -> None:
    """All changes go together; one of a memory that is changed twice waits for the first."""
    waiting: dict[MemoryKey, Change] = {}

    def write_waiting() -> None:
        batch.done += context.manager.update_many(list(waiting.values()))
        waiting.clear()

    def take(element: object) -> None:
        item = _checked(element, UpdateItem)
        memory = context.find_seen(item.id)
        if memory.key in waiting:
            write_waiting()
            memory = context.find_seen(item.id)
        change = change_of(context, item, memory)
        if not item.changes_nothing:
            waiting[memory.key] = change

    batch.each(updates, take)
    if not batch.is_undone:
        write_waiting()


def _updated(context: ToolContext, batch: Batch[AnyMemory]) -> Answer:
    answer = {
        "success": not batch.errors,
        "updated_count": len(batch.done),
        "updated_ids": [memory.id for memory in batch.done],
        "errors": batch.errors,
    }
    return Answer(
        answer, full=lambda: {"memory_objects": [complete(context, memory) for memory in batch.done]}, plain=answer
    )
