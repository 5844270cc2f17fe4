"""Changing a memory: the record it becomes when only some of its fields are given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Final

import pydantic

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory, Tier


class NotGiven(Enum):
    """The type of a field that is left as it is; None is a value."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


def changed(memory: AnyMemory, fields: Mapping[str, object], *, now: datetime) -> AnyMemory:
    """The memory with the fields that are given, checked; ``memory`` itself if nothing is different.

    Raises:
        ValidationError: A field is not one of this kind of memory, or breaks a rule.
    """
    given = {name: value for name, value in fields.items() if value is not NOT_GIVEN}
    if foreign := sorted(given.keys() - type(memory).model_fields.keys()):
        kind = "an episode" if isinstance(memory, EpisodicMemory) else "a fact"
        raise ValidationError(f"{memory.id} is {kind}, which has no {' and no '.join(foreign)}")
    if not given:
        return memory
    if given.get("tier") == Tier.LONG_TERM and memory.tier is not Tier.LONG_TERM:
        given.setdefault("expires_at", None)  # what is promoted stays
    kept = {name: getattr(memory, name) for name in type(memory).model_fields}
    try:
        candidate = type(memory)(**kept | given)
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error
    return memory if candidate == memory else candidate.model_copy(update={"updated_at": now})
