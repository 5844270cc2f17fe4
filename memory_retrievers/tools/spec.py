"""What a tool is: arguments from a language model, a context fixed by the host, and a function of the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, model_validator

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.protocols import Memory

ToolKinds: TypeAlias = Literal["tool", "all"]
"""Which memories tools may list or delete by condition: those that tools stored, or all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What the host fixes for a tool, and a model cannot change.

    Attributes:
        memory: The memory to work on.
        root: The scope that nothing a model says can leave.
        default_scope: Where to work when a model names no scope; ``root`` or below it. None means ``root``.
        kinds: What deletes and lists by condition reach.

    Raises:
        ValidationError: A scope is malformed.
        ConfigurationError: ``default_scope`` is outside ``root``, or ``kinds`` is unknown.
    """

    memory: Memory
    root: str
    default_scope: str | None = None
    kinds: ToolKinds = "tool"

    def __post_init__(self) -> None:
        scopes.parse(self.root)
        if self.scope != self.root and not scopes.parse(self.scope).startswith(f"{self.root}/"):
            raise ConfigurationError(f"default_scope {self.scope!r} is not within root {self.root!r}")
        if self.kinds not in {"tool", "all"}:
            raise ConfigurationError(f"kinds must be 'tool' or 'all', not {self.kinds!r}")

    @property
    def scope(self) -> str:
        """The scope to work in when a model names none."""
        return self.root if self.default_scope is None else self.default_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool answers: text for the model, and the same as data for the host."""

    content: str
    artifact: JsonObject


class ToolArguments(BaseModel):
    """Arguments as a language model gives them: null means "not given", and an unknown name is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if value is not None}
        return given


ArgumentsT = TypeVar("ArgumentsT", bound=ToolArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec(Generic[ArgumentsT]):
    """A tool: everything an adapter needs to offer it to a model and to run it.

    Attributes:
        name: What the model calls it.
        description: What it is for, in words a model understands.
        arguments: The model of its arguments; each field carries its own description.
        function: What it does.
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    function: Callable[[ToolContext, ArgumentsT], ToolOutput]

    def call(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
        """Check the arguments, then run the tool.

        Raises:
            ValidationError: The arguments do not fit.
        """
        try:
            checked = self.arguments.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        return self.function(context, checked)
