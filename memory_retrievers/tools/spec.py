"""What a tool is: arguments from a language model, a context fixed by the host, and a function of the two."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, runtime_checkable

import pydantic

from memory_retrievers import scopes
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.fields import storable
from memory_retrievers.managed import ToolKinds
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.arguments import (
    ArgumentsT,
    ManagementArguments,
    ToolArguments,
    storable_throughout,
    without,
)
from memory_retrievers.tools.scopes_of_models import scope_within, shown_scope

if TYPE_CHECKING:
    from memory_retrievers.management.manager import MemoryManager

__all__ = [
    "ManagementArguments",
    "ResponseFormat",
    "RunsTools",
    "ToolArguments",
    "ToolContext",
    "ToolKinds",
    "ToolOutput",
    "ToolSpec",
    "compact_json",
]

ResponseFormat: TypeAlias = Literal["levels", "seed004"]
"""The shape of answers: by response level, or the plain objects of specification §3.3."""


@runtime_checkable
class RunsTools(Protocol):
    """A memory elsewhere that runs the tools that manage memories itself; ``RemoteMemory`` is one."""

    def run_tool(self, name: str, arguments: Mapping[str, object], *, scope: str) -> JsonObject:
        """The data of a tool's answer; what goes wrong there is raised here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What the host fixes for a tool, and a model cannot change.

    Attributes:
        memory: The memory to work on.
        root: The scope that nothing a model says can leave.
        default_scope: Where to work when a model names no scope; ``root`` or below it. None means ``root``.
        kinds: What searches, lists and deletes by condition reach.
        allow_scopes: Whether models may name scopes within ``root``. Otherwise they do not see those arguments.
        response_format: The shape of the answers.
        sync_directory: The directory that exports are written to and read from; None lets no tool touch a file.
        read_only: Only look: nothing is noted for review, no access is counted, and nothing can be changed.

    Raises:
        ValidationError: A scope is malformed.
        ConfigurationError: ``default_scope`` is outside ``root``, or ``kinds`` or ``response_format`` is unknown.
    """

    memory: Memory
    root: str
    default_scope: str | None = None
    kinds: ToolKinds = "tool"
    allow_scopes: bool = False
    response_format: ResponseFormat = "levels"
    sync_directory: Path | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        scopes.parse(self.root)
        if not scopes.is_within(self.root, scopes.parse(self.scope)):
            raise ConfigurationError(f"default_scope {self.scope!r} is not within root {self.root!r}")
        if self.kinds not in {"tool", "all"}:
            raise ConfigurationError(f"kinds must be 'tool' or 'all', not {self.kinds!r}")
        if self.response_format not in {"levels", "seed004"}:
            raise ConfigurationError(f"response_format must be 'levels' or 'seed004', not {self.response_format!r}")

    @property
    def scope(self) -> str:
        """The scope to work in when a model names none."""
        return self.root if self.default_scope is None else self.default_scope

    @property
    def manager(self) -> MemoryManager:
        """What the tools that manage memories use.

        Raises:
            ConfigurationError: The memory is not an AgentMemory.
        """
        if not isinstance(self.memory, AgentMemory):
            raise ConfigurationError(
                f"the tools that manage memories need an AgentMemory, not {type(self.memory).__name__}"
            )
        return self.memory.manager.looking() if self.read_only else self.memory.manager

    def scope_named(self, given: str | None) -> str:
        """The scope that a model has named, relative to the root; the default scope where it has named none.

        Raises:
            ValidationError: The path is malformed, or too long together with the root.
        """
        return self.scope if given is None else scope_within(self.root, given)

    def run_there(self, memory: RunsTools, name: str, arguments: Mapping[str, object]) -> JsonObject:
        """The data of a tool that runs where the memory is.

        Raises:
            ConfigurationError: The host has fixed something that is for the other side to fix.
            MemoryRetrieversError: What the tool raised there.
        """
        if (self.scope, self.kinds, self.response_format, self.sync_directory) != (self.root, "tool", "levels", None):
            raise ConfigurationError(
                "over a server, the scope is the root, and kinds, response_format and sync_directory are the server's: "
                "leave them out here"
            )
        return memory.run_tool(name, arguments, scope=self.root)

    def shown(self, scope: str) -> str:
        """A scope as a model is to see it: relative to the root, which is ``.``."""
        return shown_scope(self.root, scope)


def compact_json(value: JsonObject) -> str:
    """An object as JSON in its own script, without a space that costs a token."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool answers: text for the model, and the same as data for the host.

    Attributes:
        content: The text.
        artifact: The data.
        is_error: Whether the tool failed, so that both are the error object.
    """

    content: str
    artifact: JsonObject
    is_error: bool = False

    @classmethod
    def of(cls, artifact: JsonObject, *, is_error: bool = False) -> ToolOutput:
        """Data that is its own text, as compact JSON."""
        return cls(content=compact_json(artifact), artifact=artifact, is_error=is_error)


@dataclass(frozen=True, kw_only=True)
class ToolSpec(Generic[ArgumentsT]):
    """A tool: everything an adapter needs to offer it to a model and to run it.

    Attributes:
        name: What the model calls it.
        description: What it is for, in words a model understands.
        arguments: The model of its arguments; each field carries its own description.
        function: What it does. It raises errors of this package, or NotImplementedError.
        writes: Whether it changes what is remembered, or files.
        scoped: Which of the arguments name scopes; models see them only where the host allows it.
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    function: Callable[[ToolContext, ArgumentsT], ToolOutput]
    writes: bool = False
    scoped: tuple[str, ...] = ()

    @cached_property
    def is_about_scopes(self) -> bool:
        """Whether it is of no use to a model that cannot name a scope, since one of its arguments has to be one."""
        return any(self.arguments.model_fields[name].is_required() for name in self.scoped)

    @cached_property
    def _without_scopes(self) -> type[ArgumentsT]:
        return without(self.arguments, self.scoped)

    def offered_arguments(self, *, allow_scopes: bool) -> type[ArgumentsT]:
        """The model of the arguments that a language model sees and may give."""
        return self.arguments if allow_scopes else self._without_scopes

    def call(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
        """Check the arguments, then run the tool.

        Raises:
            ValidationError: The arguments do not fit.
        """
        offered = self.offered_arguments(allow_scopes=context.allow_scopes)
        try:
            given = {storable(name): storable_throughout(value) for name, value in arguments.items()}
            checked = offered.model_validate(given)
            if isinstance(context.memory, RunsTools) and issubclass(self.arguments, ManagementArguments):
                return ToolOutput.of(context.run_there(context.memory, self.name, given))
            return self.function(context, checked)
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        except RecursionError as error:
            raise ValidationError(f"the arguments of {self.name} are nested too deeply: give them flat") from error
