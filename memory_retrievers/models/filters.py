"""Options of a search or a list as a caller may give them: limits, and filters by tags, metadata and time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import NAIVE, Category, storable
from memory_retrievers.models.memories import AnyMemory, EpisodicMemory, JsonObject
from memory_retrievers.models.messages import MessageLike

MinRelevance: TypeAlias = float | Literal["auto"]
"""Least relevance of a hit, 0 to 1; ``auto`` is what is fitted for the embedder."""

JsonScalar: TypeAlias = str | int | float | bool | None
"""What metadata are compared with: nested values are not."""

MAX_FILTERS: Final = 16  # tags, and keys of metadata, in one filter: each is a condition on every memory of the scope
MAX_FILTER_BYTES: Final = 1_000  # bytes of a tag, key or value of a filter
_LARGEST: Final = 2**63


class FilterOptions(TypedDict, total=False):
    """Options that narrow a search or a list, by name.

    Attributes:
        tags: Only memories that have all of these tags; at most 16, of 1,000 bytes each. Default: any.
        metadata: Only memories that have all of these values under these keys: texts, numbers, true, false or None,
            at most 16. A missing key is not None. Default: any.
        since: Only facts created (``created_at``) and episodes begun (``start_at``) at that moment or later: a datetime
            with a time zone, or ISO 8601 text, which is in UTC if it names no zone. Default: any.
        until: The same, at that moment or earlier; not before ``since``. Default: any.
        where: A filter with operators over ``metadata.KEY``, ``tags``, ``time`` (as for ``since``) and ``created_at``:
            ``{"metadata.team": {"in": ["a", "b"]}, "or": [{"tags": "me"}, {"not": {"time": {"lt": "2026-01-01"}}}]}``.
            Operators are eq, ne, gt, gte, lt, lte, in and nin; ``ne`` and ``nin`` also match if the key is missing.
            At most 32 conditions, 8 levels deep. Default: any.
    """

    tags: Iterable[str] | None
    metadata: JsonObject | None
    since: datetime | str | None
    until: datetime | str | None
    where: JsonObject | None


class SearchOptions(FilterOptions, total=False):
    """Options of a search, by name: everything that retrieves, or explains a retrieval, takes them.

    It also takes the filters: see :class:`FilterOptions`.

    Attributes:
        episodic_limit: The most episodes, 0 to 100. Default: 5, or ``limit`` if that is given.
        semantic_limit: The most facts, 0 to 1,000. Default: 20, or ``limit`` if that is given.
        category: Only facts of this category; episodes are not affected. Default: all.
        include_child_scopes: Also search every scope below the given one. Default: no.
        limit: The most memories of both kinds together, the best ones. Default: as the two limits say.
        as_of: Answer as of that moment: with facts that were valid then, also those replaced since, and episodes that
            had begun. A datetime with a time zone, or ISO 8601 text. Default: now.
        min_relevance: Leave out hits of less relevance, 0 to 1; ``auto`` is the threshold fitted for the embedder, so
            that greetings and questions about something else find nothing. It does not apply to guidelines and pinned
            memories, to searches by ``category``, or to rank fusion. Default: 0.
        exclude_conversation: No episodes of this conversation, for example the current one. Default: all.
        in_prompt: Messages that the model already has in its prompt, as ``Message`` or ``{"role": …, "content": …}``.
            They are left out of queued messages, by role and content, and so are finished episodes that have no other
            messages. Default: none.
        time_zone: Name (IANA) of the time zone of the user, which decides what "today" and "next Friday" mean, and the
            dates in the block. Default: that of the memory's settings.
    """

    episodic_limit: int
    semantic_limit: int
    category: Category | str | None
    include_child_scopes: bool
    limit: int | None
    as_of: datetime | str | None
    min_relevance: MinRelevance
    exclude_conversation: str | None
    in_prompt: Iterable[MessageLike]
    time_zone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Checked filters; those that are not given let everything through."""

    tags: tuple[str, ...] = ()  # only memories that have all of these
    metadata: tuple[tuple[str, JsonScalar], ...] = ()  # only memories that have each of these values under its key
    since: datetime | None = None  # only facts made, and episodes begun, at that moment or later
    until: datetime | None = None  # only facts made, and episodes begun, at that moment or earlier
    where: Expression | None = None  # only memories for which this holds

    @classmethod
    def parse(cls, options: FilterOptions) -> Filters:
        """Check what a caller has given.

        Raises:
            ValidationError: A filter is of another type, malformed, too large, or ``until`` is before ``since``.
        """
        since, until = parse_moment("since", options.get("since")), parse_moment("until", options.get("until"))
        where = options.get("where")
        if since is not None and until is not None and until < since:
            raise ValidationError(f"until is before since: {until.isoformat()} < {since.isoformat()}; exchange them")
        return cls(
            tags=_parse_tags(options.get("tags", ())),
            metadata=_parse_metadata(options.get("metadata")),
            since=since,
            until=until,
            where=None if where is None else _WhereParser().parse(where),
        )

    def obstacle(self, memory: AnyMemory) -> str | None:
        """The first filter that a memory does not pass, as the name of its option; None if it passes all."""
        moment = memory.start_at if isinstance(memory, EpisodicMemory) else memory.created_at
        if not set(self.tags) <= set(memory.tags):
            return "tags"
        if not all(key in memory.metadata and equal(memory.metadata[key], value) for key, value in self.metadata):
            return "metadata"
        if self.since is not None and moment < self.since:
            return "since"
        if self.until is not None and moment > self.until:
            return "until"
        return "where" if self.where is not None and not self.where.holds(memory) else None


EVERYTHING: Final = Filters()  # no filter at all


def parse_moment(name: str, given: object) -> datetime | None:
    """Bring the moment of an argument, a datetime or ISO 8601 text (in UTC without a zone), to UTC; None stays None.

    Raises:
        ValidationError: It is neither, a datetime without a time zone, or lies outside the years 1 to 9999.
    """
    if given is None:
        return None
    moment = given
    if isinstance(given, str):
        try:
            parsed = datetime.fromisoformat(given.strip())
        except ValueError:
            raise ValidationError(
                f"{name} must be ISO 8601, such as 2026-03-01T09:00:00Z, not {given[:80]!r}"
            ) from None
        moment = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    if not isinstance(moment, datetime):
        raise ValidationError(f"{name} must be a datetime or ISO 8601 text, not {moment!r}")
    if moment.utcoffset() is None:
        raise ValidationError(f"{name} {NAIVE}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValidationError(f"{name} is too far from now: {moment!r}") from None


def _parse_tags(tags: object) -> tuple[str, ...]:
    if tags is None:
        return ()
    if isinstance(tags, str | bytes | Mapping) or not isinstance(tags, Iterable):
        raise ValidationError(f"tags must be a list of texts, not {type(tags).__name__}: write tags=['work']")
    given = list(tags)
    _check_number("tags", len(given))
    return tuple(dict.fromkeys(_text("a tag", tag).strip() for tag in given))


def _parse_metadata(metadata: object) -> tuple[tuple[str, JsonScalar], ...]:
    if metadata is None:
        return ()
    if not isinstance(metadata, Mapping):
        raise ValidationError(f"metadata must be an object of values by key, not {type(metadata).__name__}")
    _check_number("metadata", len(metadata))
    return tuple((_text("a key of metadata", key), _scalar(value)) for key, value in metadata.items())


def _check_number(name: str, number: int) -> None:
    if number > MAX_FILTERS:
        raise ValidationError(f"{name} has {number} conditions: give at most {MAX_FILTERS}")


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValidationError(f"{what} must be a text, not {type(value).__name__}")
    text = storable(value)
    if "\0" in text or len(text.encode()) > MAX_FILTER_BYTES:
        raise ValidationError(f"{what} must be at most {MAX_FILTER_BYTES} bytes without a NUL: {value[:40]!r}")
    return text


def _scalar(value: object) -> JsonScalar:
    if isinstance(value, str):
        return _text("a value of metadata", value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < _LARGEST:  # NaN is not
        return value
    raise ValidationError(
        f"metadata is compared with texts, finite numbers, true, false and None, not {type(value).__name__}"
    )


def equal(stored: object, sought: object) -> bool:
    """Equality of JSON values: true is not 1."""
    return isinstance(stored, bool) == isinstance(sought, bool) and stored == sought


MAX_CONDITIONS: Final = 32  # conditions in one filter, each value of an ``in`` being one
MAX_DEPTH: Final = 8

Comparison: TypeAlias = Literal["eq", "gt", "gte", "lt", "lte"]
Field: TypeAlias = Literal["metadata", "tags", "time", "created_at"]

COMPARISONS: Final[Mapping[Comparison, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_OPERATORS: Final = (*COMPARISONS, "ne", "in", "nin")
_FIELDS: Final = "metadata.KEY, tags, time and created_at"


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with a value; ``ne``, ``in`` and ``nin`` are made of several."""

    field: Field  # what is compared: one of the tags, or as ``time`` when a fact was made or an episode begun
    key: str  # the key of metadata; empty for others
    comparison: Comparison  # how: numbers are ordered among numbers, texts by code point among texts, nothing else
    value: str | float | bool | datetime | None  # a text, number, true, false or None; of a time a moment in UTC

    def holds(self, memory: AnyMemory) -> bool:
        """True if a memory meets it."""
        match self.field:
            case "metadata":
                return self.key in memory.metadata and self._compares(memory.metadata[self.key])
            case "tags":
                return self.value in memory.tags
            case "time":
                return self._compares(getattr(memory, "start_at", memory.created_at))  # of an episode
        return self._compares(memory.created_at)

    def _compares(self, stored: object) -> bool:
        kinds = {_kind(stored), _kind(self.value)}
        if len(kinds) > 1 or None in kinds:
            return False
        if self.comparison != "eq" and not kinds <= {"number", "text", "moment"}:
            return False
        return COMPARISONS[self.comparison](stored, self.value)

    def to_dict(self) -> JsonObject:
        """The filter that it is, as JSON."""
        name = f"metadata.{self.key}" if self.field == "metadata" else self.field
        value = self.value.isoformat() if isinstance(self.value, datetime) else self.value
        return {name: {self.comparison: value}}


@dataclass(frozen=True, slots=True)
class Combination:
    """Parts of which all hold, any holds, or, of a single one, not; by the word that joins them."""

    word: Literal["and", "or", "not"]
    parts: tuple[Expression, ...]

    def holds(self, memory: AnyMemory) -> bool:
        """True if a memory meets it."""
        held = (part.holds(memory) for part in self.parts)
        return any(held) if self.word == "or" else all(held) if self.word == "and" else not any(held)

    def to_dict(self) -> JsonObject:
        """The filter that it is, as JSON."""
        parts = [part.to_dict() for part in self.parts]
        return {self.word: parts[0] if self.word == "not" else parts}


Expression: TypeAlias = Condition | Combination


def _kind(value: object) -> str | None:
    """The kind within which JSON values are compared: true is not 1. None for lists and objects."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "truth"
    named: dict[str, Any] = {"text": str, "number": (int, float), "moment": datetime}
    return next((name for name, kinds in named.items() if isinstance(value, kinds)), None)


class _WhereParser:
    def __init__(self) -> None:
        self._left = MAX_CONDITIONS

    def parse(self, given: object, place: str = "where", *, depth: int = 1) -> Expression:
        """Parse an object, whose conditions and combinations must all hold.

        Args:
            given: The object.
            place: Where it stands in the filter, for errors.
            depth: How deep that is.

        Raises:
            ValidationError: It is malformed, too deep or has too many conditions; the message names the place.
        """
        if not isinstance(given, Mapping) or not given:
            raise ValidationError(f'{place} must be an object such as {{"metadata.team": {{"eq": "a"}}}}')
        if depth > MAX_DEPTH:
            raise ValidationError(f"{place} is nested too deep: at most {MAX_DEPTH} levels")
        return _all([self._part(name, value, place, depth) for name, value in given.items()])

    def _part(self, name: object, value: object, place: str, depth: int) -> Expression:
        if not isinstance(name, str):
            raise ValidationError(f"the names in {place} must be texts")
        here, word = f"{place}.{name[:80]}", name.lower().removeprefix("$")
        if word == "not":
            return Combination("not", (self.parse(value, here, depth=depth + 1),))
        if word in {"and", "or"}:
            if not isinstance(value, list | tuple) or not value:
                raise ValidationError(f"{here} must be a list of one or more filters")
            parts = [self.parse(each, f"{here}[{at}]", depth=depth + 1) for at, each in enumerate(self._some(value))]
            return Combination(cast('Literal["and", "or"]', word), tuple(parts))
        field, _, key = name.partition(".")
        if (field == "metadata") != bool(key) or field not in {"metadata", "tags", "time", "created_at"}:
            raise ValidationError(f"{here} is not a field: there are {_FIELDS}, and, or, not")
        compared = value if isinstance(value, Mapping) else {"eq": value}
        if not compared:
            raise ValidationError(f"{here} needs an operator: one of {', '.join(_OPERATORS)}")
        said = self._scalar_at(key, here) if key else ""
        return _all(
            [each for pair in compared.items() for each in self._compared(cast("Field", field), said, pair, here)]
        )

    def _compared(self, field: Field, key: object, pair: tuple[object, object], here: str) -> Iterator[Expression]:
        name, value = str(pair[0]).lower().lstrip("$"), pair[1]
        there = f"{here}.{name[:80]}"
        if name in {"in", "nin"}:
            if not isinstance(value, list | tuple) or not value:
                raise ValidationError(f"{there} must be a list of one or more values")
            any_of = [self._condition(field, key, "eq", each, there) for each in self._some(value)]
            found = any_of[0] if len(any_of) == 1 else Combination("or", tuple(any_of))
            yield found if name == "in" else Combination("not", (found,))
        elif name == "ne":
            yield Combination("not", (self._condition(field, key, "eq", value, there),))
        elif name in COMPARISONS:
            yield self._condition(field, key, cast("Comparison", name), value, there)
        else:
            raise ValidationError(f"{there} is not an operator: one of {', '.join(_OPERATORS)}")

    def _condition(self, field: Field, key: object, comparison: Comparison, value: object, there: str) -> Condition:
        self._left -= 1
        if self._left < 0:
            raise ValidationError(f"{there}: there are too many conditions: give at most {MAX_CONDITIONS}")
        checked: Any = parse_moment(there, value) if field in {"time", "created_at"} else self._scalar_at(value, there)
        if checked is None and field != "metadata":
            raise ValidationError(f"{there} cannot be compared with null")
        if field == "tags" and (comparison != "eq" or not isinstance(checked, str)):
            raise ValidationError(f"{there}: tags are texts, which are compared by eq, ne, in and nin")
        if comparison != "eq" and _kind(checked) not in {"number", "text", "moment"}:
            raise ValidationError(f"{there} orders numbers, texts and moments, not {value!r}")
        return Condition(field, str(key), comparison, checked.strip() if field == "tags" else checked)

    def _scalar_at(self, value: object, there: str) -> object:
        try:
            return _scalar(value)
        except ValidationError as error:
            raise ValidationError(f"{there}: {error}") from error

    def _some(self, values: Iterable[object]) -> Iterator[object]:
        """So many of them that one too many is seen: a longer list is not worked through."""
        for number, value in enumerate(values):
            if number > MAX_CONDITIONS:
                raise ValidationError(f"there are too many conditions: give at most {MAX_CONDITIONS}")
            yield value


def _all(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))
