"""Building blocks of records: base class, categories, types that normalise or reject values, bounds of unread JSON."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Self

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

MAX_CONTENT_LENGTH = 1_000_000  # characters in one message, summary, fact or title (specification §3.1)
_SCANNED: Final = 2**20  # bytes of JSON that are looked at in one piece
MAX_ID_LENGTH: Final = 1_000  # characters in an id, a name or a role
MAX_ID_BYTES: Final = 2_000  # bytes of the same in UTF-8: no index of PostgreSQL takes many more

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def microseconds(value: datetime) -> int:
    """Convert a time to microseconds since 1970, exactly.

    >>> microseconds(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    return (value - EPOCH) // MICROSECOND


def moment(value: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC.

    >>> moment(86400000000).isoformat()
    '1970-01-02T00:00:00+00:00'
    """
    return EPOCH + timedelta(microseconds=value)


def iso(time: datetime) -> str:
    """The time in UTC as ISO-8601; without a zone it is taken as UTC (specification §1.2).

    >>> iso(datetime(2026, 3, 1, 9))
    '2026-03-01T09:00:00Z'
    >>> iso(datetime(2026, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC))
    '2026-03-01T09:00:00.250000Z'
    """
    in_utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return f"{in_utc.replace(tzinfo=None).isoformat()}Z"


NAIVE: Final = "has no time zone: give datetime(..., tzinfo=UTC), or ISO 8601 text, which is in UTC without one"


def _aware(value: object) -> object:
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise ValueError(NAIVE)
    return value


def _as_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from error


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def short(value: str) -> str:
    """Refuse an id, a name or a role that no index takes, since it has too many bytes."""
    if len(value.encode()) > MAX_ID_BYTES:
        raise ValueError(
            f"must have at most {MAX_ID_BYTES} bytes in UTF-8, not {len(value.encode())}: use a shorter one"
        )
    return value


def without_nul(value: str) -> str:
    """Refuse an id with a NUL, at which SQLite ends a text of a JSON list: nothing would be found by it."""
    if "\0" in value:
        raise ValueError("must not have a NUL character")
    return value


def storable(value: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot store, by U+FFFD (specification §1.4)."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_ESCAPED: Final = re.compile(rb"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)


def storable_json(text: bytes) -> bytes:
    r"""Do to what a JSON text escapes what :func:`storable` does to a text; its length stays.

    >>> storable_json(rb'"\ud83d\ude00 \ud83d \\ud83d"')
    b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    if rb"\ud" not in text and rb"\uD" not in text:
        return text
    return _ESCAPED.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def _storable_if_text(value: object) -> object:
    # a copy is not made of what is refused for its length
    return storable(value) if isinstance(value, str) and len(value) <= MAX_CONTENT_LENGTH else value


def _clamp_to_unit(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
        return float(min(1, max(0, value)))
    return value


def _json_only(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        literal = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise ValueError("must be JSON: NaN and infinity are not") from error
    mended = storable(literal)
    return value if mended == literal else json.loads(mended)


class JsonExtent(NamedTuple):
    """How many values a JSON text has at most, one for each comma and opening bracket or brace, and how deep."""

    values: int
    depth: int


def json_extent(text: bytes) -> JsonExtent:
    r"""Measure how large a JSON text would be when parsed, without the memory that parsing takes.

    Of what is no JSON it counts at least what a parser would have read when it stops.

    >>> json_extent(rb'{"a": [1, "[[,]]", "\"["]}')
    JsonExtent(values=5, depth=2)
    """
    import numpy as np  # here, so that importing the package loads no numpy

    if b"\\" in text:  # what is escaped ends no string; pairs first, from the left, as a parser takes them
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    values, depth, deepest, inside = 1, 0, 0, False
    for start in range(0, len(text), _SCANNED):
        piece = np.frombuffer(text, np.uint8, count=min(_SCANNED, len(text) - start), offset=start)
        in_string = np.logical_xor.accumulate(piece == ord('"')) ^ inside
        inside = bool(in_string[-1])
        signs = piece[~in_string]
        opens, closes = (signs | 0x20) == ord("{"), (signs | 0x20) == ord("}")  # a bracket differs in this bit alone
        values += int(np.count_nonzero(opens)) + int(np.count_nonzero(signs == ord(",")))
        nested = depth + np.cumsum(opens.astype(np.int8) - closes.astype(np.int8), dtype=np.int32)
        if len(nested):
            deepest, depth = max(deepest, int(nested.max())), int(nested[-1])
    return JsonExtent(values, deepest)


UTCDateTime = Annotated[datetime, BeforeValidator(_aware), AfterValidator(_as_utc)]
"""A moment in UTC. A ``datetime`` must have a zone; ISO-8601 text without one, and a date alone, are in UTC."""

Text = Annotated[str, Field(max_length=MAX_CONTENT_LENGTH), BeforeValidator(_storable_if_text)]
NonBlankText = Annotated[Text, AfterValidator(_not_blank)]
ShortText = Annotated[
    str,
    Field(min_length=1, max_length=MAX_ID_LENGTH),
    BeforeValidator(_storable_if_text),
    AfterValidator(_not_blank),
    AfterValidator(short),
]
NewId = Annotated[ShortText, AfterValidator(without_nul)]  # earlier versions stored others, which stay readable
DistinctTexts = Annotated[
    tuple[Text, ...], AfterValidator(lambda texts: tuple(dict.fromkeys(filter(None, map(str.strip, texts)))))
]
UnitInterval = Annotated[float, BeforeValidator(_clamp_to_unit), Field(ge=0, le=1, allow_inf_nan=False)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_json_only)]


class ValidatedModel(BaseModel):
    """Base of models whose constructor raises the package's ``ValidationError``, with all fields if one is unknown."""

    if not TYPE_CHECKING:  # which would know the fields no more

        def __init__(self, /, *unnamed: object, **given: object) -> None:
            if unnamed:
                raise TypeError(f"{type(self).__name__} takes arguments by name: {', '.join(type(self).model_fields)}")
            try:
                super().__init__(**given)
            except pydantic.ValidationError as error:
                from memory_retrievers.errors import ValidationError  # here, so that this module imports no other

                known = type(self).model_fields
                others = "" if given.keys() <= known.keys() else f"; {type(self).__name__} takes {', '.join(known)}"
                raise ValidationError(f"{ValidationError.from_pydantic(error)}{others}") from error

        # as in pydantic: a file of settings, or a model with this as a field, names the path of what is wrong
        __init__.__pydantic_base_init__ = True
        __init__.__signature__ = inspect.signature(BaseModel.__init__)  # none is taken without a name


class Value(BaseModel):
    """Base class of all records: immutable, without fields other than its own, and checked when it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """Build a record of all its fields, checked before, as ``model_construct`` does in ten times the time."""
        record = cls.__new__(cls)
        for name, value in (
            ("__dict__", values),
            ("__pydantic_fields_set__", set(values)),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(record, name, value)
        return record

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the record, with new values by field; these are checked, and only these.

        Raises:
            pydantic.ValidationError: A new value breaks a rule, or there is no such field.
        """
        copied = super().model_copy(deep=deep)
        for name, value in (update or {}).items():
            self.__pydantic_validator__.validate_assignment(copied, name, value)
        return copied


OWN_CATEGORY: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")  # names that a category of one's own may have


class Category(StrEnum):
    """Topic of a fact: one of nine, or of those that ``IngestionSettings.categories`` adds.

    >>> Category("allergy") in set(Category)
    False
    """

    IDENTITY = "identity"
    PREFERENCE = "preference"
    INTEREST = "interest"
    PERSONALITY = "personality"
    RELATIONSHIP = "relationship"
    EXPERIENCE = "experience"
    GOAL = "goal"
    GUIDELINE = "guideline"
    NOTE = "note"

    @classmethod
    def _missing_(cls, value: object) -> Category | None:
        """A category of a memory's own; whether a memory has it is for the memory to say."""
        if not (isinstance(value, str) and OWN_CATEGORY.fullmatch(value)):
            return None
        own = str.__new__(cls, value)
        own._name_, own._value_ = value.upper(), value
        return own
