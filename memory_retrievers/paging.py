"""Pages of memories: newest first, each with the cursor of the next."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from memory_retrievers.errors import ValidationError
from memory_retrievers.fields import microseconds
from memory_retrievers.models import AnyMemory, Kind

MAX_PAGE: Final = 1_000

_LARGEST: Final = 2**63


class Position(NamedTuple):
    """Where a page ended: the last memory's ``created_at`` in microseconds since 1970, and its id."""

    created_at: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of a scope's memories.

    Attributes:
        memories: Newest first by ``created_at``, then by id.
        cursor: Give it back to get the page that follows; None when there is none.
    """

    memories: tuple[AnyMemory, ...]
    cursor: str | None


def page_of(memories: Sequence[AnyMemory], *, limit: int) -> Page:
    """The first ``limit`` of the memories, of which one more shows that there is another page."""
    shown = tuple(memories[:limit])
    if len(memories) <= limit:
        return Page(memories=shown, cursor=None)
    position = (microseconds(shown[-1].created_at), shown[-1].id)
    literal = json.dumps(position, separators=(",", ":"))
    return Page(memories=shown, cursor=base64.urlsafe_b64encode(literal.encode()).decode())


def parse_cursor(cursor: object) -> Position | None:
    """The position a cursor stands for; None is the beginning.

    Raises:
        ValidationError: It is not one that a page gave out.
    """
    if cursor is None:
        return None
    try:
        match json.loads(base64.b64decode(str(cursor), altchars="-_", validate=True)):
            case [int(created_at), str(id)] if not isinstance(created_at, bool) and abs(created_at) < _LARGEST:
                id.encode()
                return Position(created_at, id)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise ValidationError("cursor must be one that an earlier page gave, unchanged, or None for the first page")


def parse_page_size(limit: object) -> int:
    """A page's size as given, if it is an integer from 1 to 1000.

    Raises:
        ValidationError: It is not.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE:
        raise ValidationError(f"limit must be an integer from 1 to {MAX_PAGE}, not {limit!r}")
    return limit


def parse_kinds(kind: object) -> tuple[Kind, ...]:
    """The kinds asked for; None asks for both.

    Raises:
        ValidationError: It is not a kind of memory.
    """
    if kind is None:
        return tuple(Kind)
    try:
        return (Kind(str(kind)),)
    except ValueError:
        raise ValidationError(f"unknown kind {kind!r}; one of: {', '.join(Kind)}") from None
