"""Definition of a tool (``Tool``), the context that a host lets it run in, its answers, and the shape of its errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict
from urllib.parse import quote

import pydantic

from memory_retrievers.errors import (
    ConfigurationError,
    MemoryRetrieversError,
    NotFoundError,
    ValidationError,
    error_object,
)
from memory_retrievers.models import AnyMemory, JsonObject, Origin, ResponseLevel, scopes
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import Channel, ToolKinds, acting_as
from memory_retrievers.models.messages import Message
from memory_retrievers.retrieval.memory import Memory, checked_memory
from memory_retrievers.storage.tracing import Operation, observe
from memory_retrievers.tools.arguments import (
    LEVEL_ARGUMENT,
    ArgumentsT,
    ManagementArguments,
    storable_throughout,
    with_categories,
    without,
)

if TYPE_CHECKING:
    from memory_retrievers.tools.manager import MemoryManager


ROOT: Final = "."  # notation of the root itself

ResponseFormat: TypeAlias = Literal["levels", "plain"]
"""The shape of answers: by response level, or the plain objects of specification §3.3."""


class PolicyOptions(TypedDict, total=False):
    """The fields of :class:`ToolPolicy`, as an adapter takes them by name."""

    root: str | None
    kinds: ToolKinds | None
    deletes: ToolKinds
    allow_scopes: bool
    response_format: ResponseFormat
    sync_directory: Path | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Policy that the host sets for every call of the tools.

    Attributes:
        root: The scope that nothing a model says can leave; None means the scope of each call.
        kinds: What searches and lists reach; None is every memory, or what the tools have stored in the plain format.
        deletes: What deletes by condition reach, of that.
        allow_scopes: Whether models may name scopes within the root.
        response_format: The shape of the answers.
        sync_directory: The directory of exports, with one for each scope in it, unless ``root`` is fixed; None lets no
            tool touch a file.
    """

    root: str | None = None
    kinds: ToolKinds | None = None
    deletes: ToolKinds = "tool"
    allow_scopes: bool = False
    response_format: ResponseFormat = "levels"
    sync_directory: Path | str | None = None

    def check(self, memory: Memory, *, scope: str | None) -> None:
        """Refuse at once what would fail at every call; raises what :meth:`context` raises."""
        self.context(checked_memory(memory), scope=scope or self.root or "anyone")

    def context(self, memory: Memory, *, scope: str, **of_call: Any) -> ToolContext:  # noqa: ANN401 - fields of it
        """The context of one call.

        Args:
            memory: The memory.
            scope: The scope, where arguments name none.
            **of_call: Fields that are of this call alone.
        """
        fixed: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(ToolPolicy)}
        if self.root is None:
            fixed["root"] = scopes.parse(scope)
        if self.sync_directory == "":
            raise ConfigurationError("sync_directory is an empty text: name a directory, or leave it out")
        if self.sync_directory is not None:  # one policy may serve many users: none reads what another exports
            fixed["sync_directory"] = Path(self.sync_directory, _folder_of(scope) if self.root is None else "")
        return ToolContext(memory=memory, default_scope=scope, **fixed, **of_call)


def _folder_of(scope: str) -> str:
    """The name of a scope's directory: two scopes never have one, on no file system."""
    return f"{quote(scope, safe='')[:60]}-{hashlib.sha256(scope.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(ToolPolicy):
    """Settings of one call that the host fixes, and a model cannot change: its policy, and what is of this call.

    Attributes:
        memory: The memory to work on.
        root: The scope that nothing a model says can leave.
        default_scope: Where to work when a model names no scope; ``root`` or below it. None means ``root``.
        read_only: Only look: nothing is noted for review, no access is counted, and nothing can be changed.
        asked: What the user has said last, where the model has it before it: it is the question, and no memory.
        time_zone: Whose "today" is meant; None is that of the memory's settings.

    Raises:
        ConfigurationError: ``default_scope`` is outside ``root``, or a word is unknown.
    """

    memory: Memory
    root: str
    sync_directory: Path | None = None
    default_scope: str | None = None
    read_only: bool = False
    asked: tuple[Message, ...] = ()
    time_zone: str | None = None

    def __post_init__(self) -> None:
        scopes.parse(self.root)
        if not scopes.is_within(self.root, scopes.parse(self.scope)):
            raise ConfigurationError(f"default_scope {self.scope!r} is not within root {self.root!r}")
        for name, kinds in (("kinds", self.seen), ("deletes", self.deletes)):
            if kinds not in ("tool", "all"):
                raise ConfigurationError(f"{name} must be 'tool' or 'all', not {kinds!r}")
        if self.response_format not in {"levels", "plain"}:
            raise ConfigurationError(f"response_format must be 'levels' or 'plain', not {self.response_format!r}")

    @property
    def scope(self) -> str:
        """The scope to work in when a model names none."""
        return self.root if self.default_scope is None else self.default_scope

    @property
    def seen(self) -> ToolKinds:
        """What searches and lists reach."""
        if self.kinds is not None:
            return self.kinds
        return "tool" if self.response_format == "plain" else "all"

    @property
    def deleted(self) -> ToolKinds:
        """What deletes by condition reach: nothing that is not seen."""
        return self.deletes if self.seen == "all" else "tool"

    @property
    def manager(self) -> MemoryManager:
        """The memory manager, for the tools that manage memories."""
        manager: MemoryManager | None = getattr(self.memory, "manager", None)
        if manager is None:
            raise ConfigurationError(
                f"the tools that manage memories need an AgentMemory, not {type(self.memory).__name__}"
            )
        return manager.read_only() if self.read_only else manager

    def find(self, id: str) -> AnyMemory:
        """The memory of that id, in the scope or else anywhere in the root."""
        return self.manager.find(id, root=self.root, scope=self.scope)

    def find_seen(self, id: str) -> AnyMemory:
        """A memory that operations on many may touch: one that searches and lists reach."""
        memory = self.find(id)
        if self.seen != "all" and memory.origin is not Origin.TOOL:
            raise NotFoundError(f"Memory not found: {id}")
        return memory

    def scope_named(self, given: str | None) -> str:
        """The scope that a model has named, relative to the root; the default scope where it has named none.

        There is no way out: ``..``, a leading slash and the like are malformed, and any other path lies below the root.
        """
        return self.scope if given is None else scopes.join(self.root, given)

    def require_nothing_fixed(self) -> None:
        """Refuse a call that runs where the memory is, if the host has fixed what is for the other side to fix."""
        fixed = (self.scope, self.kinds, self.deletes, self.response_format, self.sync_directory)
        if fixed != (self.root, None, "tool", "levels", None):
            raise ConfigurationError(
                "over a server, the scope is the root, and kinds, deletes, response_format and sync_directory are the "
                "server's: leave them out here"
            )

    def shown(self, scope: str) -> str:
        """A scope of the store as a model is to see it: relative to the root, which is ``.``."""
        if scope == self.root:
            return ROOT
        if not scopes.is_within(self.root, scope):
            raise ConfigurationError(f"a scope outside the root {self.root!r} is not to be shown")
        return scope[len(self.root) + 1 :]


def compact_json(value: JsonObject) -> str:
    """An object as JSON in its own script, without a space that costs a token."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """Answer of a tool: text for the model, and the same as data for the host.

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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers in every format and at every level; a key whose value is None is left out.

    Attributes:
        minimal: The keys of every level.
        standard: The keys that ``standard`` and ``full`` add; such a value takes the place of one in ``minimal``.
        full: Gives the keys that only ``full`` adds, likewise.
        plain: The plain object of specification §3.3; None if the tool has none, and answers by level always.
    """

    minimal: JsonObject
    standard: JsonObject = field(default_factory=dict)
    full: Callable[[], JsonObject] = dict
    plain: JsonObject | None = None

    def output(self, level: ResponseLevel, *, response_format: ResponseFormat) -> ToolOutput:
        """The answer in a format, with everything up to a level."""
        if self.plain is not None and response_format == "plain":
            return ToolOutput.of(self.plain)
        shown = dict(self.minimal)
        if level is not ResponseLevel.MINIMAL:
            shown |= self.standard
        if level is ResponseLevel.FULL:
            shown |= self.full()
        return ToolOutput.of({key: value for key, value in shown.items() if value is not None})


def own_categories(memory: Memory | None) -> tuple[str, ...] | None:
    """The categories that a memory has beside the nine; None where only another side knows them."""
    if hasattr(memory, "run_tool"):
        return None
    manager: MemoryManager | None = getattr(memory, "manager", None)
    return () if manager is None else tuple(manager.ingestion.categories)


_OPERATIONS: Final[Mapping[str, Operation]] = {
    "memory_search": "search_memory",
    **dict.fromkeys(("memory_store", "memory_batch_store"), "upsert_memory"),
    **dict.fromkeys(("memory_update", "memory_batch_update", "memory_consolidate"), "update_memory"),
    "memory_delete": "delete_memory",
}
"""What a tool is to OpenTelemetry; those that are not named here do nothing, or nothing but by ``AgentMemory``."""


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[ArgumentsT]):
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
    function: Callable[[ToolContext, ArgumentsT], Answer | ToolOutput]
    writes: bool = False
    scoped: tuple[str, ...] = ()

    @cached_property
    def is_about_scopes(self) -> bool:
        """True if the tool is useless to a model that cannot name scopes, since one of its arguments has to be one."""
        return any(self.arguments.model_fields[name].is_required() for name in self.scoped)

    @cached_property
    def _without_scopes(self) -> type[ArgumentsT]:
        return without(self.arguments, self.scoped)

    def offered_arguments(self, *, allow_scopes: bool, memory: Memory | None = None) -> type[ArgumentsT]:
        """The model of the arguments that a language model may give, with the categories of a memory of its own."""
        arguments = self.arguments if allow_scopes else self._without_scopes
        return with_categories(arguments, own_categories(memory) or ())

    def call(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
        """Check the arguments, then run the tool: one that finds or changes something in a span (:func:`observe`)."""
        operation, named = _OPERATIONS.get(self.name), {name: arguments.get(name) for name in ("id", "query")}
        run = partial(self._run, context, arguments)
        return observe(operation, run, {"scope": context.scope} | named) if operation else run()

    def _run(self, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
        offered = self.offered_arguments(allow_scopes=context.allow_scopes)
        try:
            given = {storable(name): storable_throughout(value) for name, value in arguments.items()}
            checked = offered.model_validate(given, context={"categories": own_categories(context.memory)})
            # a memory on a server runs the tools that manage memories there
            run_there: Callable[..., JsonObject] | None = getattr(context.memory, "run_tool", None)
            if run_there is not None and issubclass(self.arguments, ManagementArguments):
                context.require_nothing_fixed()
                return ToolOutput.of(run_there(self.name, given, scope=context.root))
            with acting_as(Channel.TOOL, self.name):
                answer = partial(self._answer, context, checked)
                is_attempt = self.writes and issubclass(self.arguments, ManagementArguments)
                return context.manager.attempt(answer) if is_attempt else answer()
        except pydantic.ValidationError as error:
            raise ValidationError.from_pydantic(error) from error
        except RecursionError as error:
            raise ValidationError(f"the arguments of {self.name} are nested too deeply: give them flat") from error

    def _answer(self, context: ToolContext, checked: ArgumentsT) -> ToolOutput:
        answer = self.function(context, checked)
        if isinstance(answer, ToolOutput):
            return answer
        return answer.output(getattr(checked, LEVEL_ARGUMENT), response_format=context.response_format)


AnyTool: TypeAlias = Tool[Any]  # a tool, whatever its arguments

ToolChoice: TypeAlias = Collection[str] | Literal["essential", "all", "read"]
"""Choice of the tools to offer: the four that a model needs, all, those that change nothing, or those named."""

FAILURES: Final = (MemoryRetrieversError, NotImplementedError)  # errors that a tool may raise


def run_tool(tool: AnyTool, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
    """Run a tool as a model calls it: what goes wrong is answered with the error object.

    Args:
        tool: The tool.
        context: The memory and the scope of the call.
        arguments: The arguments, as the model gave them.
    """
    try:
        return tool.call(context, arguments)
    except FAILURES as error:
        return failure(tool, context, arguments, error)


def failure(tool: AnyTool, context: ToolContext, arguments: Mapping[str, object], error: Exception) -> ToolOutput:
    """The answer of a tool that has failed (specification §1.6, §4.1): the same at all levels, details at ``full``.

    Args:
        tool: The tool.
        context: The context of the call, which says in what shape it answers.
        arguments: The arguments, as the model gave them; they may name the response level.
        error: The error that was raised.
    """
    plain, level = context.response_format == "plain", arguments.get(LEVEL_ARGUMENT)
    is_full = isinstance(level, str) and level.strip().lower() == ResponseLevel.FULL
    answer = error_object(error, with_details=plain or is_full)
    if issubclass(tool.arguments, ManagementArguments) and not plain:
        answer = {"success": False} | answer
    return ToolOutput.of(answer, is_error=True)
