"""Filters with operators: conditions on metadata, tags and times, joined by and, or and not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from memory_retrievers.errors import ValidationError

if TYPE_CHECKING:
    from memory_retrievers.models.memories import AnyMemory, JsonObject

MAX_CONDITIONS: Final = 32
"""Conditions in one filter, each value of an ``in`` being one: each is looked at for every memory of the scope."""

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
    """A comparison of a field with a value; ``ne``, ``in`` and ``nin`` are made of several.

    Attributes:
        field: What is compared. Of tags, ``eq`` is that one of them is the value; ``time`` is when a fact was made or
            an episode begun.
        key: The key of metadata; empty for others.
        comparison: How. Numbers are ordered among numbers and texts, by code point, among texts; nothing else is.
        value: A text, number, true, false or None; of a time a moment in UTC.
    """

    field: Field
    key: str
    comparison: Comparison
    value: str | float | bool | datetime | None

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
    """Parts of which all hold, any holds, or, of a single one, not.

    Attributes:
        word: How they are joined.
        parts: One or more; one for ``not``.
    """

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


class WhereParser:
    """Reads a filter that a caller, perhaps a language model, has given.

    Args:
        scalar: Checks a value that metadata and tags are compared with.
        moment: Checks a moment, given the place in the filter.
    """

    def __init__(self, *, scalar: Callable[[object], object], moment: Callable[[str, object], datetime | None]) -> None:
        self._scalar = scalar
        self._moment = moment
        self._left = MAX_CONDITIONS

    def parse(self, given: object, place: str = "where", *, depth: int = 1) -> Expression:
        """The expression of an object: its conditions and combinations, which all hold.

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
            raise ValidationError(f"{place} must have texts for names")
        here, word = f"{place}.{name[:80]}", name.lower()
        if word == "not":
            return Combination("not", (self.parse(value, here, depth=depth + 1),))
        if word in {"and", "or"}:
            if not isinstance(value, list | tuple) or not value:
                raise ValidationError(f"{here} must be a list of one or more filters")
            parts = [self.parse(each, f"{here}[{at}]", depth=depth + 1) for at, each in enumerate(self._some(value))]
            return Combination(cast('Literal["and", "or"]', word), tuple(parts))
        field, _, key = name.partition(".")
        if (field == "metadata") != bool(key) or field not in {"metadata", "tags", "time", "created_at"}:
            raise ValidationError(f"{here} is no field: there are {_FIELDS}, and, or, not")
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
            raise ValidationError(f"{there} is no operator: one of {', '.join(_OPERATORS)}")

    def _condition(self, field: Field, key: object, comparison: Comparison, value: object, there: str) -> Condition:
        self._left -= 1
        if self._left < 0:
            raise ValidationError(f"{there}: there are too many conditions: give at most {MAX_CONDITIONS}")
        checked: Any = self._moment(there, value) if field in {"time", "created_at"} else self._scalar_at(value, there)
        if checked is None and field != "metadata":
            raise ValidationError(f"{there} cannot be compared with null")
        if field == "tags" and (comparison != "eq" or not isinstance(checked, str)):
            raise ValidationError(f"{there}: tags are texts, which are compared by eq, ne, in and nin")
        if comparison != "eq" and _kind(checked) not in {"number", "text", "moment"}:
            raise ValidationError(f"{there} orders numbers, texts and moments, not {value!r}")
        return Condition(field, str(key), comparison, checked.strip() if field == "tags" else checked)

    def _scalar_at(self, value: object, there: str) -> object:
        try:
            return self._scalar(value)
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
