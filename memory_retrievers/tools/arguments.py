"""Arguments of tools: their types and limits, how they are parsed, and how a wrong one is reported."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, ContentType, JsonObject, ResponseLevel, Tier
from memory_retrievers.models.fields import MAX_CONTENT_LENGTH, OWN_CATEGORY, UTCDateTime, storable
from memory_retrievers.models.filters import MAX_FILTERS, FilterOptions, Filters
from memory_retrievers.settings import ToolSettings

LARGEST_PAGE: Final = 1_000  # the most memories that one search or page gives
ECHOED: Final = 80  # characters of a wrong value that its error message quotes

WordT = TypeVar("WordT", bound=StrEnum)
NumberT = TypeVar("NumberT", int, float)
SizedT = TypeVar("SizedT")

LONGEST_ID: Final = 1_000  # characters of an id, as of all that a memory has for a name; scopes have fewer
MOST_IDS: Final = 10_000  # ids in one call; most tools take fewer, and say so themselves
MOST_TAGS: Final = 10_000  # tags that ``ToolSettings.max_tags`` can allow at most, each of so many characters at most


def one_of(
    words: type[WordT], *, aliases: Mapping[str, WordT] | None = None, refusal: str = "Invalid"
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Reads one of the words, in any case of letters, and lists them in the schema itself: not all follow a ``$ref``.

    What is no such word is refused by a ValidationError, which names the argument.

    >>> ManagementArguments(response_level="Full").response_level
    <ResponseLevel.FULL: 'full'>

    Args:
        words: The words that are accepted, as they are stored.
        aliases: Other spelling in lower case → word; None means that there are none.
        refusal: How the error message begins.

    Returns:
        The validator and the schema, both for the annotation of the argument.
    """
    known = {word.value: word for word in words} | dict(aliases or {})

    def read(given: object, info: ValidationInfo) -> WordT:
        word = known.get(str(given).strip().lower())
        if word is None:
            said = str(given)[:ECHOED]
            raise ValidationError(f"{refusal} {info.field_name}: {said}. Must be one of: {', '.join(words)}")
        return word

    return BeforeValidator(read), WithJsonSchema({"type": "string", "enum": [word.value for word in words]})


def within(low: float, high: float | None, description: str | None = None) -> tuple[AfterValidator, Any]:
    """Refuses a number outside its bounds, which the schema names, by a ValidationError that names the argument.

    Args:
        low: The least it may be.
        high: The most it may be; None for no end.
        description: The description that a model reads.

    Returns:
        The validator and the field, both for the annotation of the argument.
    """

    def check(value: NumberT, info: ValidationInfo) -> NumberT:
        if high is None and not value >= low:
            raise ValidationError(f"{info.field_name} must be >= {low}")
        if high is not None and not low <= value <= high:
            raise ValidationError(f"{info.field_name} must be between {low} and {high}")
        return value

    shown: JsonObject = {"minimum": low} if high is None else {"minimum": low, "maximum": high}
    return AfterValidator(check), Field(description=description, json_schema_extra=shown)


def at_most(most: int, what: str) -> AfterValidator:
    """Refuses a text of more characters, or a list of more elements; ``what`` is what it is called there.

    The schema does not show it: no honest argument comes near, and it would cost tokens with every call of a model.
    """

    def check(value: SizedT) -> SizedT:
        if isinstance(value, str | tuple) and len(value) > most:
            unit = "characters" if isinstance(value, str) else "elements"
            raise ValidationError(f"{what} is too long: {len(value)} {unit}, at most {most} are allowed")
        return value

    return AfterValidator(check)


def _not_blank(content: str) -> str:
    if not content.strip():
        raise ValidationError("Content cannot be empty")
    return storable(content)


def _read_category(value: object, info: ValidationInfo) -> Category:
    """One of the nine, or of those that the context names as ``categories``; None there leaves it to another side."""
    own = (info.context or {}).get("categories", ())
    word = str(value).strip().lower()
    if own is None and OWN_CATEGORY.fullmatch(word):
        return Category(word)
    known = [*Category, *(own or ())]
    if word not in known:
        raise ValidationError(f"Invalid category: {str(value)[:ECHOED]}. Must be one of: {', '.join(known)}")
    return Category(word)


_CATEGORIES: Final = [category.value for category in Category]

Content = Annotated[str, at_most(MAX_CONTENT_LENGTH, "Content"), AfterValidator(_not_blank)]
Tags: TypeAlias = Annotated[
    tuple[Annotated[str, at_most(MOST_TAGS, "A tag")], ...], at_most(MOST_TAGS, "The list of tags")
]
Id: TypeAlias = Annotated[str, at_most(LONGEST_ID, "An id")]
Ids: TypeAlias = Annotated[tuple[Id, ...], at_most(MOST_IDS, "The list of ids")]
Metadata: TypeAlias = Annotated[  # whose schema would refer to a definition of any JSON
    dict[str, JsonValue], WithJsonSchema({"type": "object", "additionalProperties": {}})
]
MemoryId = Annotated[Id, Field(description="The id of a memory, as another tool gave it.")]
_Tier: TypeAlias = Annotated[Tier, *one_of(Tier)]
_ContentType: TypeAlias = Annotated[ContentType, *one_of(ContentType)]
MemoryTier = Annotated[
    _Tier, Field(description="How long to keep it: long_term, short_term, or working for the current task.")
]
ContentTypeName = Annotated[_ContentType, Field(description="What the content is.")]
CategoryName = Annotated[
    Category,
    BeforeValidator(_read_category),
    WithJsonSchema({"type": "string", "enum": _CATEGORIES}),
    Field(description="What the memory is about."),
]
TierFilter = Annotated[_Tier | None, Field(description="Only memories of this tier.")]
ContentTypeFilter = Annotated[_ContentType | None, Field(description="Only memories whose content is this.")]
TagsFilter = Annotated[Tags, Field(description="Only memories that have all of these tags.")]
_SCALARS: Final = {"anyOf": [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]}
MetadataFilter = Annotated[
    Annotated[  # what it is compared with, and with how much, the filters say
        JsonObject, WithJsonSchema({"type": "object", "additionalProperties": _SCALARS, "maxProperties": MAX_FILTERS})
    ]
    | None,
    Field(description="Only memories that have each of these values under its key."),
]
Since = Annotated[
    UTCDateTime | None, Field(description="Only facts created, and episodes begun, then or later, as ISO 8601.")
]
Until = Annotated[
    UTCDateTime | None, Field(description="Only facts created, and episodes begun, then or earlier, as ISO 8601.")
]
Where = Annotated[
    Metadata | None,
    Field(
        description=(
            'Only memories for which this holds, e.g. {"metadata.team": {"in": ["a", "b"]}, "not": {"tags": "old"}}: '
            "eq, ne, gt, gte, lt, lte, in, nin over metadata.KEY, tags, time, created_at; and, or, not."
        )
    ),
]

LEVEL_ARGUMENT: Final = "response_level"

Level: TypeAlias = Annotated[
    ResponseLevel,
    *one_of(ResponseLevel),
    Field(
        description=(
            "Response detail level:\n"
            "• minimal: Success status + essential IDs only (minimal tokens)\n"
            "• standard: Balanced info for workflow continuity + content previews\n"
            "• full: Complete data + metadata + associations (maximum detail)"
        )
    ),
]


class ToolArguments(BaseModel):
    """Arguments as a language model gives them: null means "not given", and an unknown name is refused.

    Attributes:
        hidden: Arguments that are not offered: they are in no schema, and refused like unknown ones.
        other_names: Other names of arguments, with their own; both may be given if they agree.
        ignored: Names that are neither offered nor refused.
        categories: Categories of a memory's own, which the schema offers beside the nine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: ClassVar[frozenset[str]] = frozenset()
    other_names: ClassVar[Mapping[str, str]] = {}
    ignored: ClassVar[frozenset[str]] = frozenset()
    categories: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _under_own_names(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        arguments = {name: value for name, value in given.items() if value is not None and name not in cls.ignored}
        for other, name in cls.other_names.items():
            if other in arguments:
                value = arguments.pop(other)
                if arguments.setdefault(name, value) != value:
                    raise ValidationError(f"{other} is another name of {name}: give one of them")
        if refused := [name for name in arguments if name in cls.hidden]:
            raise ValueError("; ".join(f"{name}: Extra inputs are not permitted" for name in refused))
        return arguments

    @classmethod
    def offered(cls) -> list[str]:
        """The names of the arguments, the most specific first."""
        names = [name for name in cls.model_fields if name not in cls.hidden]
        return sorted(names, key=LEVEL_ARGUMENT.__eq__)  # stable: only the level goes last

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Only what is offered, in that order, with no ``$ref``, which not every provider follows.

        Titles that repeat the names, and the docstring, tell a model nothing: they would cost it tokens in every call.
        """
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema["properties"] = {name: _without(schema["properties"][name], "title") for name in cls.offered()}
        offered: JsonSchemaValue = offering(_without(schema, "description"), cls.categories)
        return offered


class ManagementArguments(ToolArguments):
    """The arguments that every tool for managing memories begins with."""

    response_level: Level = ResponseLevel.STANDARD


class NarrowingArguments(ManagementArguments):
    """What narrows a list or a search of memories."""

    memory_tier: TierFilter = None
    tags: TagsFilter = ()
    metadata: MetadataFilter = None
    since: Since = None
    until: Until = None
    where: Where = None
    content_type: ContentTypeFilter = None


def offering(schema: Any, categories: Sequence[str]) -> Any:  # noqa: ANN401 - a schema, or a part of one
    """A schema in which every list of the nine categories also has those of a memory's own."""
    if not categories:
        return schema
    if isinstance(schema, list):
        return [*schema, *categories] if schema == _CATEGORIES else [offering(each, categories) for each in schema]
    if isinstance(schema, dict):
        return {key: offering(value, categories) for key, value in schema.items()}
    return schema


def _without(schema: JsonSchemaValue, key: str) -> JsonSchemaValue:
    return {name: value for name, value in schema.items() if name != key}


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)

MAX_DEPTH: Final = 300  # levels of lists and objects within an argument; Python's own limit is not everywhere the same


def storable_throughout(given: object, *, depth: int = MAX_DEPTH) -> object:
    """Replace every lone surrogate in what a model has given: answers repeat parts of it, and go out as UTF-8.

    Raises:
        RecursionError: Lists and objects are nested more than ``depth`` levels deep.
    """
    if isinstance(given, str):
        return storable(given)
    if not isinstance(given, Mapping | Sequence) or isinstance(given, bytes | bytearray):
        return given
    if not depth:
        raise RecursionError
    if isinstance(given, Mapping):
        return {storable_throughout(name): storable_throughout(value, depth=depth - 1) for name, value in given.items()}
    return [storable_throughout(each, depth=depth - 1) for each in given]


@cache
def with_categories(arguments: type[ArgumentsT], categories: tuple[str, ...]) -> type[ArgumentsT]:
    """The same arguments, whose schema also offers these categories."""
    if not categories:
        return arguments
    offered: type[ArgumentsT] = create_model(arguments.__name__, __base__=arguments, __doc__=arguments.__doc__)
    offered.categories = categories
    return offered


def without(arguments: type[ArgumentsT], hidden: Collection[str]) -> type[ArgumentsT]:
    """The same arguments without some of them, which keep their defaults."""
    if not hidden:
        return arguments
    offered: type[ArgumentsT] = create_model(arguments.__name__, __base__=arguments, __doc__=arguments.__doc__)
    offered.hidden = arguments.hidden | frozenset(hidden)
    return offered


def check_limits(
    settings: ToolSettings,
    *,
    content: str | None = None,
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> None:
    """Refuse what is too much for one memory; what is None is not checked.

    Args:
        settings: The limits.
        content: The text, at most ``max_content_length`` characters.
        tags: The labels, limited in number and in length.
        metadata: The further keys, limited in size when written as JSON.

    Raises:
        ValidationError: The content, the tags or the metadata are beyond a limit, or the metadata is not JSON.
    """
    if content is not None and len(content) > settings.max_content_length:
        raise ValidationError(
            f"Content is too long: {len(content)} characters, at most {settings.max_content_length} are allowed"
        )
    if tags is not None and len(tags) > settings.max_tags:
        raise ValidationError(f"Too many tags: {len(tags)}, at most {settings.max_tags} are allowed")
    if (longest := max(map(len, tags or ()), default=0)) > settings.max_tag_length:
        raise ValidationError(f"A tag is too long: {longest} characters, at most {settings.max_tag_length} are allowed")
    if metadata is None:
        return
    try:
        size = len(json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ValidationError("metadata must be JSON: NaN, infinity and endless nesting are not") from None
    if size > settings.max_metadata_bytes:
        raise ValidationError(
            f"metadata is too large: {size} bytes of JSON, at most {settings.max_metadata_bytes} are allowed"
        )


def narrowed(settings: ToolSettings, arguments: ToolArguments) -> Filters:
    """What tags, metadata, times and conditions narrow a list or a search to.

    Raises:
        ValidationError: There are more tags than a memory can have, one is too long, or another filter is malformed.
    """
    options = arguments.model_dump(include=set(FilterOptions.__annotations__))
    tags = options.pop("tags")
    check_limits(settings, tags=tags)
    return replace(
        Filters.parse(cast("FilterOptions", options)), tags=tuple(tag.strip() for tag in tags if tag.strip())
    )
