"""The parameters that several memory tools share: what a model may say, how it is checked, and how it is described.

What is wrong is told in one sentence that names the parameter, as specification §3.3 words it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from memory_retrievers.errors import ValidationError
from memory_retrievers.fields import storable
from memory_retrievers.models import Category, ContentType, Tier

LARGEST_PAGE: Final = 1_000
"""The most memories that one search or page gives."""

_ECHOED: Final = 80
"""So many characters of a wrong value are told back."""

WordT = TypeVar("WordT", bound=StrEnum)
NumberT = TypeVar("NumberT", int, float)


def one_of(
    words: type[WordT], *, name: str, aliases: Mapping[str, WordT] | None = None
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Reads one of the words, in any case of letters, and lists them in the schema itself: not all follow a ``$ref``.

    >>> read, _ = one_of(Tier, name="memory_tier")
    >>> read.func("Working")
    <Tier.WORKING: 'working'>
    """
    known = {word.value: word for word in words} | dict(aliases or {})

    def read(value: object) -> WordT:
        word = known.get(str(value).strip().lower())
        if word is None:
            raise ValidationError(f"Invalid {name}: {str(value)[:_ECHOED]}. Must be one of: {', '.join(words)}")
        return word

    return BeforeValidator(read), WithJsonSchema({"type": "string", "enum": [word.value for word in words]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Refuses a number outside its bounds, and what is no number; the schema names them.

    Attributes:
        name: The parameter.
        low: The least it may be.
        high: The most; None for no end.
    """

    name: str
    low: float
    high: float | None = None

    def check(self, value: NumberT) -> NumberT:
        """The value, if it is within the bounds.

        >>> Bounds(name="top_k", low=1, high=1000).check(10)
        10

        Raises:
            ValidationError: It is not.
        """
        if self.high is None and not value >= self.low:
            raise ValidationError(f"{self.name} must be >= {self.low}")
        if self.high is not None and not self.low <= value <= self.high:
            raise ValidationError(f"{self.name} must be between {self.low} and {self.high}")
        return value

    def __get_pydantic_core_schema__(self, source: type[object], handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        bounds = {"minimum": self.low, "maximum": self.high}
        return handler(schema) | {name: bound for name, bound in bounds.items() if bound is not None}


def fraction(name: str, description: str) -> tuple[Bounds, FieldInfo]:
    """What stands in the annotation of a number from 0 to 1."""
    return Bounds(name=name, low=0.0, high=1.0), _described(description)


def whole_number(name: str, low: int, high: int, description: str) -> tuple[Bounds, FieldInfo]:
    """What stands in the annotation of a whole number within bounds."""
    return Bounds(name=name, low=low, high=high), _described(description)


def _described(description: str) -> FieldInfo:
    described = Field(description=description)
    assert isinstance(described, FieldInfo)  # noqa: S101 - pydantic declares Any
    return described


def under_one_name(given: object, aliases: Mapping[str, str]) -> object:
    """Arguments with the other names of some replaced by their own; both may be there if they agree.

    Args:
        given: The arguments.
        aliases: Other name → name.
    """
    if not isinstance(given, Mapping):
        return given
    merged = {name: value for name, value in given.items() if name not in aliases}
    for alias, name in aliases.items():
        if (value := given.get(alias)) is None:
            continue
        if merged.get(name) not in (None, value):
            raise ValidationError(f"{alias} is another name of {name}: give one of them")
        merged[name] = value
    return merged


def _not_blank(content: str) -> str:
    if not content.strip():
        raise ValidationError("Content cannot be empty")
    return storable(content)


_read_tier, _tier_schema = one_of(Tier, name="memory_tier")
_read_content_type, _content_type_schema = one_of(ContentType, name="content_type")
_read_category, _category_schema = one_of(Category, name="category")

Content = Annotated[str, AfterValidator(_not_blank)]
Tags: TypeAlias = tuple[str, ...]
Metadata: TypeAlias = dict[str, JsonValue]
MemoryId = Annotated[str, Field(description="The id of a memory, as another tool gave it.")]
MemoryTier = Annotated[
    Tier,
    _read_tier,
    _tier_schema,
    Field(description="How long it is meant to live: long_term, short_term, or working for the task at hand."),
]
ContentTypeName = Annotated[
    ContentType, _read_content_type, _content_type_schema, Field(description="What the content is.")
]
CategoryName = Annotated[Category, _read_category, _category_schema, Field(description="What the memory is about.")]
TierFilter = Annotated[
    Annotated[Tier, _read_tier, _tier_schema] | None, Field(description="Only memories of this tier.")
]
ContentTypeFilter = Annotated[
    Annotated[ContentType, _read_content_type, _content_type_schema] | None,
    Field(description="Only memories whose content is this."),
]
TagsFilter = Annotated[Tags, Field(description="Only memories that have all of these tags.")]
