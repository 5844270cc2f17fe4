"""What records are made of: their base, and types that mend a value at the door or refuse it there."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

MAX_CONTENT_LENGTH = 1_000_000
"""Characters in one message, summary, fact or title (specification §3.1)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(value: datetime) -> int:
    """Microseconds since 1970: a moment as one exact number.

    >>> microseconds(datetime(1970, 1, 2, tzinfo=UTC))
    86400000000
    """
    return (value - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    """The moment, in UTC, of so many microseconds since 1970.

    >>> moment(86400000000).isoformat()
    '1970-01-02T00:00:00+00:00'
    """
    return _EPOCH + timedelta(microseconds=value)


def _as_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from error


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def storable(value: str) -> str:
    """Lone surrogates cannot be stored as UTF-8, so they become U+FFFD at the door (specification §1.4)."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable_if_text(value: object) -> object:
    return storable(value) if isinstance(value, str) else value


def _clamp_to_unit(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
        return float(min(1, max(0, value)))
    return value


def _stripped_and_distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stripped for value in values if (stripped := value.strip())))


def _json_only(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        literal = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise ValueError("must be JSON: NaN and infinity are not") from error
    mended = storable(literal)
    return value if mended == literal else json.loads(mended)


UTCDateTime = Annotated[datetime, AfterValidator(_as_utc)]
"""A moment in UTC. Given without a zone it is taken as UTC; ISO-8601 text and dates alone are accepted too."""

Text = Annotated[str, Field(max_length=MAX_CONTENT_LENGTH), BeforeValidator(_storable_if_text)]
NonBlankText = Annotated[Text, AfterValidator(_not_blank)]
ShortText = Annotated[
    str, Field(min_length=1, max_length=1_000), BeforeValidator(_storable_if_text), AfterValidator(_not_blank)
]
DistinctTexts = Annotated[tuple[Text, ...], AfterValidator(_stripped_and_distinct)]
UnitInterval = Annotated[float, BeforeValidator(_clamp_to_unit), Field(ge=0, le=1, allow_inf_nan=False)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_json_only)]


class Value(BaseModel):
    """The base of every record: it never changes, and has no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")
