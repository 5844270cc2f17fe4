"""Arguments of tools: what a language model may say, and the JSON schema it is told of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, ClassVar, Final, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from memory_retrievers.fields import storable
from memory_retrievers.models import ResponseLevel
from memory_retrievers.rendering.levels import parse_level

LEVEL_ARGUMENT: Final = "response_level"

Level: TypeAlias = Annotated[
    ResponseLevel,
    BeforeValidator(parse_level),
    WithJsonSchema({"type": "string", "enum": [level.value for level in ResponseLevel]}),
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
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        arguments = {name: value for name, value in given.items() if value is not None}
        if refused := [name for name in arguments if name in cls.hidden]:
            raise ValueError("; ".join(f"{name}: Extra inputs are not permitted" for name in refused))
        return arguments

    @classmethod
    def offered(cls) -> list[str]:
        """The names of the arguments, the most telling first."""
        names = [name for name in cls.model_fields if name not in cls.hidden]
        return sorted(names, key=LEVEL_ARGUMENT.__eq__)  # stable: only the level goes last

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Only what is offered, in that order, and written out: not every provider follows a ``$ref``."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema["properties"] = {name: _in_place(schema["properties"][name], handler) for name in cls.offered()}
        return schema


class ManagementArguments(ToolArguments):
    """What the arguments of every tool that manages memories begin with."""

    response_level: Level = ResponseLevel.STANDARD


def _in_place(schema: JsonSchemaValue, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """A schema with what it refers to written out; what is said beside a reference wins."""
    if "$ref" in schema:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = handler.resolve_ref_schema({"$ref": schema["$ref"]}) | beside
    return {key: _parts_in_place(value, handler) for key, value in schema.items()}


def _parts_in_place(part: object, handler: GetJsonSchemaHandler) -> object:
    if isinstance(part, dict):
        return _in_place(part, handler)
    if isinstance(part, list):
        return [_parts_in_place(each, handler) for each in part]
    return part


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


def storable_throughout(given: object) -> object:
    """What a model has given, with every lone surrogate mended: answers repeat parts of it, and go out as UTF-8."""
    if isinstance(given, str):
        return storable(given)
    if isinstance(given, Mapping):
        return {storable_throughout(name): storable_throughout(value) for name, value in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return [storable_throughout(each) for each in given]
    return given


def without(arguments: type[ArgumentsT], hidden: Collection[str]) -> type[ArgumentsT]:
    """The same arguments without some of them, which keep their defaults."""
    if not hidden:
        return arguments
    offered: type[ArgumentsT] = create_model(arguments.__name__, __base__=arguments, __doc__=arguments.__doc__)
    offered.hidden = frozenset(hidden)
    return offered
