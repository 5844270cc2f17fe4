"""The memory tools for LangChain: any tool of the registry, the retrieval tool, and a toolkit of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Self, TypeAlias, Unpack

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools.base import BaseToolkit
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory_retrievers.errors import only_known
from memory_retrievers.langchain.scope import ScopedByConfig, ScopeSource, asked_in_run, zone_of
from memory_retrievers.models import JsonObject
from memory_retrievers.retrieval.memory import GivenMemory, Memory
from memory_retrievers.tools.registry import REGISTRY, offered_tools
from memory_retrievers.tools.tool import FAILURES, AnyTool, PolicyOptions, ToolChoice, ToolPolicy, failure

ContentAndArtifact: TypeAlias = tuple[str, JsonObject]


class RegistryTool(ScopedByConfig, BaseTool):
    """Any tool of the registry as a LangChain tool.

    The content is text for the model, the artifact the same as data. An error, also in the arguments, is answered
    with the JSON object of specification §1.6 in a message of status ``error``. Only a missing scope raises, since
    that is a mistake of your code and not of the model. A model cannot choose the scope: it is the tool's ``scope``
    or, if it has none, that of the configuration.

    Attributes:
        spec: The tool of the registry; name, description and arguments come from it unless given.
        memory: An AgentMemory, or an object with its methods.
        rules: What your code fixes for every call.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    spec: AnyTool = Field(exclude=True, repr=False)
    memory: GivenMemory = Field(exclude=True, repr=False)
    rules: ToolPolicy = Field(default=ToolPolicy(), exclude=True, repr=False)
    name: str = ""
    description: str = ""
    response_format: Literal["content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool | str | Callable[[ToolException], str] | None = True

    @model_validator(mode="after")
    def _describe_by_spec(self) -> Self:
        self.name = self.name or self.spec.name
        self.description = self.description or self.spec.description
        self.args_schema = self.args_schema or self._offered()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """As any model's, but for arguments that were made of the tool's, which are made again."""
        made = {"args_schema": None} if self.args_schema is self._offered() else {}
        state = super().__getstate__()
        return state | {"__dict__": state["__dict__"] | made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As any model's; arguments that are missing are made of the tool's."""
        super().__setstate__(state)
        self.args_schema = self.args_schema or self._offered()

    def _offered(self) -> type[BaseModel]:
        return self.spec.offered_arguments(allow_scopes=self.rules.allow_scopes, memory=self.memory)

    @property
    def tool_call_schema(self) -> dict[str, Any]:
        """The schema that a model sees: the arguments' own, where LangChain would make another of their fields."""
        schema = self.args_schema
        shown = schema if isinstance(schema, dict) else _json_schema(schema)
        return {**shown, "description": self.description}

    def _parse_input(self, tool_input: str | dict[str, object], tool_call_id: str | None) -> dict[str, object]:
        """All arguments as one, as they came: checking them is the registry's. A bare string is the first of them."""
        del tool_call_id
        first = self.spec.arguments.offered()[0]
        return {"arguments": {first: tool_input} if isinstance(tool_input, str) else tool_input}

    def _run(self, arguments: Mapping[str, object], *, config: RunnableConfig) -> ContentAndArtifact:
        scope = self.scope_of(config)
        context = self.rules.context(self.memory, scope=scope, asked=asked_in_run(), time_zone=zone_of(config))
        try:
            output = self.spec.call(context, arguments)
        except FAILURES as error:
            raise ToolException(failure(self.spec, context, arguments, error).content) from error
        return output.content, output.artifact


class RetrieveMemoryTool(RegistryTool):
    """Searches long-term memory: the tool an agent needs first."""

    spec: AnyTool = Field(default=REGISTRY["retrieve_memory"], exclude=True, repr=False)


@cache
def _json_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    return arguments.model_json_schema()


class MemoryToolkit(ScopedByConfig, BaseToolkit):
    """The memory tools: ``create_agent(model, tools=MemoryToolkit(memory, scope="user/alice").get_tools())``.

    :class:`RegistryTool` says how they answer. A model cannot choose the scope.

    Args:
        memory: An AgentMemory; for tools that only read, any object with its methods.
        scope: Scope of the tools. None takes the scope of each call from its configuration.
        scope_from: Replaces the keys under which the configuration is searched for a scope.
        tools: ``"essential"`` offers the four that a model needs, ``"read"`` all that change nothing, ``"all"`` all;
            or their names.
        policy: ``root``, ``kinds``, ``deletes``, ``allow_scopes``, ``response_format`` and ``sync_directory``, as
            ``ToolPolicy`` has them: what the host fixes for every call.

    Raises:
        NotFoundError: There is no tool of a given name.
        ConfigurationError: The scope is outside the root, or a word is unknown.
        ValidationError: The root or the scope is malformed, or ``scope_from`` is given as well.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: GivenMemory = Field(exclude=True, repr=False)
    rules: ToolPolicy = Field(exclude=True, repr=False)
    tools: ToolChoice = "essential"

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | None = None,
        scope_from: ScopeSource | None = None,
        tools: ToolChoice = "essential",
        **policy: Unpack[PolicyOptions],
    ) -> None:
        only_known(policy, PolicyOptions.__optional_keys__, of=MemoryToolkit.__init__)
        rules = ToolPolicy(**policy)
        offered_tools(tools, allow_scopes=rules.allow_scopes)
        super().__init__(memory=memory, scope=scope, scope_from=scope_from, rules=rules, tools=tools)
        rules.check(memory, scope=scope)

    def get_tools(self) -> list[BaseTool]:
        """The tools, ready for an agent."""
        return [
            RegistryTool(spec=spec, memory=self.memory, scope=self.scope, scope_from=self.scope_from, rules=self.rules)
            for spec in offered_tools(self.tools, allow_scopes=self.rules.allow_scopes)
        ]
