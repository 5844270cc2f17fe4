"""What the batch tools share: elements checked one by one, and what a bad one does (specification §3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import pydantic
from pydantic import BeforeValidator, Field, WithJsonSchema

from memory_retrievers.errors import (
    BatchOperationError,
    ConfigurationError,
    MemoryRetrieversError,
    NotFoundError,
    ValidationError,
)
from memory_retrievers.models import JsonObject
from memory_retrievers.tools.arguments import ArgumentsT

WhatNext: TypeAlias = Literal["rollback", "stop", "continue"]

_CHOICES: tuple[WhatNext, ...] = ("rollback", "stop", "continue")
_ECHOED = 80


def _read_choice(value: object) -> WhatNext:
    for choice in _CHOICES:
        if choice == value:
            return choice
    raise ValidationError(f"Invalid on_error: {str(value)[:_ECHOED]}. Must be one of: {', '.join(_CHOICES)}")


OnError = Annotated[
    WhatNext,
    BeforeValidator(_read_choice),
    WithJsonSchema({"type": "string", "enum": list(_CHOICES)}),
    Field(
        description=(
            "What a bad element does: rollback (nothing of the batch is kept), stop (what comes before it is kept), "
            "or continue (it is skipped)."
        )
    ),
]

ElementT = TypeVar("ElementT")
DoneT = TypeVar("DoneT")


@dataclass(slots=True, kw_only=True)
class Batch(Generic[DoneT]):
    """How a batch went so far.

    Attributes:
        on_error: What a bad element does.
        done: What has been done, in the order of the elements.
        errors: One object for each bad element.
        is_over: Whether nothing more is to be done.
    """

    on_error: WhatNext
    done: list[DoneT] = field(default_factory=list)
    errors: list[JsonObject] = field(default_factory=list)
    is_over: bool = False

    @property
    def is_undone(self) -> bool:
        """Whether nothing of it is to be kept."""
        return self.is_over and self.on_error == "rollback"

    def is_over_before(self, index: int) -> bool:
        """Whether an element comes after the bad one that ended the batch."""
        return self.is_over and (self.is_undone or index > int(self.errors[0]["index"]))

    def fail(self, index: int, error: MemoryRetrieversError, *, id: object = None) -> None:
        """Note that an element is bad, and go on, stop, or give up what was done."""
        named = {"id": id} if isinstance(id, str) else {}
        told = {"index": index, **named, "error_type": type(error).__name__, "message": str(error)}
        self.errors = sorted([*self.errors, told], key=lambda each: int(each["index"]))
        if self.on_error != "continue":
            self.errors = self.errors[:1]
            self.is_over = True

    def each(self, elements: Sequence[object], read: Callable[[object], ElementT]) -> list[tuple[int, ElementT]]:
        """The elements that are good, with their places, as far as the batch goes."""
        good: list[tuple[int, ElementT]] = []
        for index, element in enumerate(elements):
            try:
                good.append((index, read(element)))
            except (ValidationError, NotFoundError) as error:
                self.fail(index, error, id=element.get("id") if isinstance(element, Mapping) else None)
                if self.is_over:
                    break
        return [] if self.is_undone else good

    @contextmanager
    def kept(self, transaction: AbstractContextManager[object]) -> Iterator[None]:
        """What is written inside a transaction, undone if a bad element means that nothing is to be kept.

        Raises:
            BatchOperationError: The store or the embedder failed; what was written is undone.
        """
        try:
            with transaction:
                yield
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


def read_element(element: object, model: type[ArgumentsT]) -> ArgumentsT:
    """One element of a batch, checked.

    Raises:
        ValidationError: It is no object, or does not fit.
    """
    if not isinstance(element, Mapping):
        raise ValidationError(f"every element must be an object, not {type(element).__name__}")
    try:
        return model.model_validate(dict(element))
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error


def check_size(elements: Sequence[object], *, name: str, most: int) -> None:
    """Refuse a batch of nothing, or of too much.

    Raises:
        ValidationError: It is empty, or larger than ``most``; the count stands in the details.
    """
    details = {f"{name}_count": len(elements)}
    if not elements:
        raise ValidationError(f"The batch is empty: give at least one element in {name}", details=details)
    if len(elements) > most:
        raise ValidationError(f"The batch of {len(elements)} exceeds the maximum of {most}", details=details)
