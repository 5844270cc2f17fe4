"""Memories as rows: how they are encoded and decoded, and read by their numbers.

Rows were checked when they were written, so reading skips validation.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from memory_retrievers.backends.sql.connection import Connection, Dialect, Part
from memory_retrievers.backends.sql.requests import OTHER_NOTES
from memory_retrievers.errors import BackendError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    ContentType,
    EpisodicMemory,
    Kind,
    Origin,
    SemanticMemory,
    SummaryBy,
    Tier,
    scopes,
)
from memory_retrievers.models.fields import EPOCH, MICROSECOND, Value, microseconds, moment
from memory_retrievers.models.messages import Message
from memory_retrievers.models.scenes import EventType, SceneDetails
from memory_retrievers.models.selection import ForgettingState
from memory_retrievers.text.duplicates import text_hash

ValueT = TypeVar("ValueT", bound=Value)
_SLOTS: Final = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_set_values, _set_names, _set_extra, _set_private = (vars(BaseModel)[slot].__set__ for slot in _SLOTS)

UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading a damaged row ends in."""


def encode_time(value: datetime | None) -> int | None:
    """Microseconds since 1970."""
    return None if value is None else microseconds(value)


_MESSAGE, _EPISODE, _FACT = (set(each.model_fields) for each in (Message, EpisodicMemory, SemanticMemory))
_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_json(value: object) -> str:
    """Encode as compact JSON; pydantic has admitted only JSON values."""
    return "[]" if value == () else _COMPACT.encode(value)  # most memories have four empty lists


def decode_texts(text: str) -> tuple[str, ...]:
    """Decode a JSON list of texts."""
    return () if text == "[]" else tuple(json.loads(text))


def decode_names(text: str) -> tuple[str, ...]:
    """Decode names between spaces."""
    return tuple(text.split())


def _decode_object(text: str) -> dict[str, Any]:
    return {} if text == "{}" else json.loads(text)


def _record(kind: type[ValueT], values: dict[str, Any], names: set[str]) -> ValueT:
    """What ``Value.trusted`` makes of all fields, whose names are known beforehand; records share the set of these."""
    record = kind.__new__(kind)
    _set_values(record, values)
    _set_names(record, names)
    _set_extra(record, None)
    _set_private(record, None)
    return record


def encode_messages(messages: Iterable[Message]) -> str:
    """Encode messages as a JSON list of [role, content, microseconds]."""
    return encode_json([[message.role, message.content, encode_time(message.timestamp)] for message in messages])


def decode_messages(text: str | None) -> tuple[Message, ...]:
    """Decode messages from such a list; None gives none."""
    if text is None:
        return ()
    messages = []
    for role, content, timestamp in json.loads(text):
        at = None if timestamp is None else EPOCH + timedelta(0, 0, timestamp)
        messages.append(_record(Message, {"role": role, "content": content, "timestamp": at}, _MESSAGE))
    return tuple(messages)


def _decode_scene(text: str) -> SceneDetails:
    fields = json.loads(text)
    for name in ("message_ids", "witnesses", "characters_involved"):
        fields[name] = tuple(fields[name])
    return SceneDetails.trusted({**fields, "event_type": EventType(fields["event_type"])})


def _word(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    """Return the enum member of a value by table, faster than calling the enumeration."""
    return {word.value: word for word in words}.__getitem__


Decode = Callable[[Any], Any]
_BASE: Final[dict[str, Decode | None]] = {
    "id": None,
    "created_at": moment,
    "updated_at": moment,
    "expires_at": moment,
    "tier": _word(Tier),
    "content_type": _word(ContentType),
    "agent_id": None,
    "origin": _word(Origin),
    "importance": None,
    "importance_pinned": bool,
    "access_count": None,
    "last_accessed_at": moment,
    "tags": decode_texts,
    "consolidated_from": decode_texts,
    "metadata": _decode_object,
}
_CATEGORIES: Final = {each.value: each for each in Category}


def decode_category(name: str) -> Category:
    """Decode a category, which may be one of a memory's own."""
    return _CATEGORIES.get(name) or Category(name)


_EPISODIC: Final[dict[str, Decode | None]] = {
    **_BASE,
    "stability": None,
    "difficulty": None,
    "last_reviewed_at": moment,
    "start_at": moment,
    "end_at": moment,
    "consolidated_at": moment,
    "surprise": None,
    "title": None,
    "is_flashbulb": bool,
    "scene": _decode_scene,
    "conversation_id": None,
    "summary_by": _word(SummaryBy),
}
_SEMANTIC: Final[dict[str, Decode | None]] = {
    **_BASE,
    "category": decode_category,
    "valid_at": moment,
    "invalid_at": moment,
    "keywords": decode_texts,
    "source_episodic_ids": decode_texts,
    "replaced_by": None,
    "last_confirmed_at": moment,
}
_ENCODERS: Final[dict[Decode | None, Callable[[Any], Any]]] = {
    decode_texts: encode_json,
    decode_names: " ".join,
    _decode_object: encode_json,
    _decode_scene: lambda scene: None if scene is None else encode_json(scene.model_dump(mode="json")),
}

COLUMNS: Final = tuple(dict.fromkeys((*_EPISODIC, *_SEMANTIC)))
"""The columns that carry fields, in the order :func:`decode` expects them, before content, scope and messages."""

_INLINE: Final = (moment, decode_texts)


class Plan:
    """How columns become the fields of a record, and these columns.

    Args:
        fields: What decodes the column of each field; None where its value is stored as it is.
        columns: All columns of a row, in their order; none are those of the fields alone.
    """

    def __init__(self, fields: Mapping[str, Decode | None], columns: Sequence[str] = ()) -> None:
        self._names = tuple(fields)
        self._columns = itemgetter(*map((columns or self._names).index, fields))
        self._fields = attrgetter(*fields)
        self._moments = tuple(name for name, decode in fields.items() if decode is moment)
        self._texts = tuple(name for name, decode in fields.items() if decode is decode_texts)
        self._decoders = tuple((name, each) for name, each in fields.items() if each and each not in _INLINE)
        self._encoders = tuple((name, _ENCODERS[each]) for name, each in fields.items() if each in _ENCODERS)

    def decoded(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the values of the fields in a row."""
        values = dict(zip(self._names, self._columns(row), strict=True))
        made: dict[int | None, datetime | None] = {None: None}  # of a dozen moments of a memory most are the same
        for name in self._moments:
            if (value := values[name]) not in made:
                made[value] = EPOCH + timedelta(0, 0, value)
            values[name] = made[value]
        for name in self._texts:
            if (value := values[name]) is not None:
                values[name] = () if value == "[]" else tuple(json.loads(value))
        for name, decode_field in self._decoders:
            if (value := values[name]) is not None:
                values[name] = decode_field(value)
        return values

    def encoded(self, record: object) -> dict[str, Any]:
        """Return the columns of a record, by name."""
        values = dict(zip(self._names, self._fields(record), strict=True))
        for name in self._moments:
            if (value := values[name]) is not None:
                values[name] = (value - EPOCH) // MICROSECOND
        for name, encode_field in self._encoders:
            values[name] = encode_field(values[name])
        return values


_EPISODIC_PLAN: Final = Plan(_EPISODIC, COLUMNS)
_SEMANTIC_PLAN: Final = Plan(_SEMANTIC, COLUMNS)


def encode(memory: AnyMemory) -> dict[str, object]:
    """Encode a memory as column values, without scope and messages."""
    if isinstance(memory, EpisodicMemory):
        return {"kind": "episodic", "content": memory.summary, **_EPISODIC_PLAN.encoded(memory)}
    hashed = text_hash(memory.fact, memory.content_type)
    return {"kind": "semantic", "content": memory.fact, **_SEMANTIC_PLAN.encoded(memory), "text_hash": hashed}


def decode(row: tuple[Any, ...]) -> AnyMemory:
    """Decode a memory from a row of COLUMNS, then kind, content, scope and messages."""
    kind, content, scope, messages = row[-4:]
    if kind == Kind.EPISODIC:
        values = _EPISODIC_PLAN.decoded(row)
        values.update(scope=scope, summary=content, messages=decode_messages(messages), is_open=False)
        return _record(EpisodicMemory, values, _EPISODE)
    values = _SEMANTIC_PLAN.decoded(row)
    values.update(scope=scope, fact=content, duplicate_of=None, near=())
    return _record(SemanticMemory, values, _FACT)


def memory_of(row: tuple[Any, ...]) -> AnyMemory:
    """Decode a memory as :func:`decode` does, with errors of this package."""
    try:
        return decode(row)
    except UNREADABLE as error:
        raise _damaged(error, f"memory {row[0]!r} in scope {row[-2]!r}") from error


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Raise errors of decoding a stored record as errors of this package."""
    try:
        yield
    except UNREADABLE as error:
        raise _damaged(error, what) from error


def _damaged(error: Exception, what: str) -> BackendError:
    return BackendError(
        f"{what} is damaged and cannot be read ({type(error).__name__}): run verify, which names damage, and restore "
        "a backup"
    )


BELOW: Final = "(scope = :scope OR (scope >= :first AND scope < :behind))"
"""A condition on a row of ``scopes``: it is a scope, or below it; its values come from :func:`below`."""


def below(scope: str, *, include_child_scopes: bool = True) -> dict[str, object]:
    """Parameters of ``BELOW``; nothing lies below where child scopes are left out."""
    first, behind = scopes.child_range(scope) if include_child_scopes else ("", "")
    return {"scope": scope, "first": first, "behind": behind}


_FIELDS: Final = f"{', '.join(f'm.{column}' for column in COLUMNS)}, m.kind, m.content"


def memory_query(dialect: Dialect, *, first: str = "") -> str:
    """SELECT of the columns that ``decode`` takes of memories ``m``; conditions are appended to it."""
    return f"""SELECT {first}{_FIELDS}, (SELECT s.scope FROM scopes s WHERE s.id = m.scope_id),
        (SELECT e.messages FROM excerpts e WHERE e.memory = m.row {dialect.beside("e", "m")}) FROM memories m"""


@functools.cache
def _loading(dialect: Dialect) -> str:
    return f"{memory_query(dialect, first='m.row, ')} WHERE {dialect.among('m.row', ':ids')}"


@functools.cache
def _reading_states(dialect: Dialect) -> str:
    return f"""SELECT row, stability, last_reviewed_at FROM memories
        WHERE {dialect.among("row", ":ids")} AND kind = 'episodic' AND NOT is_flashbulb"""


def load(connection: Connection, rows: Sequence[int]) -> dict[int, AnyMemory]:
    """Read the memories of the given rows that exist."""
    found = connection.execute(_loading(connection.dialect), {"ids": connection.dialect.listed(rows)})
    return {row[0]: memory_of(row[1:]) for row in found.fetchall()}


class StoredRows(Part):
    """The part of the ledger that reads memories by their rows, how far they are forgotten, and the notes."""

    def load(self, rows: Sequence[int]) -> dict[int, AnyMemory]:
        """Read the memories of the given rows that exist."""
        with self.database.read() as connection:
            return load(connection, rows)

    def forgetting_states(self, rows: Sequence[int]) -> dict[int, ForgettingState]:
        """Read the forgetting states of the given rows that are episodes and fade."""
        with self.database.read() as connection:
            found = connection.execute(_reading_states(self.dialect), {"ids": self.dialect.listed(rows)}).fetchall()
        return {row: ForgettingState(stability, reviewed) for row, stability, reviewed in found}

    def notes(self) -> dict[str, str]:
        """Read the store's metadata, such as the name of its embedder."""
        with self.database.read() as connection:
            return dict(connection.execute(f"SELECT name, value FROM notes WHERE {OTHER_NOTES}").fetchall())
