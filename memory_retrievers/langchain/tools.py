"""The LangChain tools, generated from the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator

from memory_retrievers.langchain.scope import ScopedByConfig
from memory_retrievers.models import JsonObject
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.hosting import HostRules
from memory_retrievers.tools.registry import REGISTRY, AnyToolSpec
from memory_retrievers.tools.toolbox import FAILURES, failure

ContentAndArtifact: TypeAlias = tuple[str, JsonObject]


class RegistryTool(ScopedByConfig, BaseTool):
    """Any tool of the registry as a LangChain tool.

    The content is text for the model, the artifact the same as data. An error, also in the arguments, is answered
    with the JSON object of specification §1.6 in a message of status ``error``; only where no scope is named, which
    is the host's doing and not the model's, the call raises. Whose memory it works on is never up to the model: it
    is the tool's ``scope`` or, where it has none, what the configuration says.

    Attributes:
        spec: The tool of the registry; name, description and arguments come from it unless given.
        memory: An AgentMemory, or anything of that shape.
        rules: What else the host fixes for every call.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    spec: AnyToolSpec = Field(exclude=True, repr=False)
    memory: Annotated[Memory, SkipValidation] = Field(exclude=True, repr=False)
    rules: HostRules = Field(default=HostRules(), exclude=True, repr=False)
    name: str = ""
    description: str = ""
    response_format: Literal["content_and_artifact"] = "content_and_artifact"
    handle_tool_error: bool | str | Callable[[ToolException], str] | None = True

    @model_validator(mode="after")
    def _describe_by_spec(self) -> Self:
        self.name = self.name or self.spec.name
        self.description = self.description or self.spec.description
        self.args_schema = self.args_schema or self.spec.offered_arguments(allow_scopes=self.rules.allow_scopes)
        return self

    @property
    def tool_call_schema(self) -> dict[str, Any]:
        """What a model is told: the arguments' own schema, where LangChain would make another of their fields."""
        schema = self.args_schema
        shown = schema if isinstance(schema, dict) else _json_schema(schema)
        return {**shown, "description": self.description}

    def _parse_input(self, tool_input: str | dict[str, object], tool_call_id: str | None) -> dict[str, object]:
        """All arguments as one, as they came: checking them is the registry's. A bare string is the first of them."""
        del tool_call_id
        first = self.spec.arguments.offered()[0]
        return {"arguments": {first: tool_input} if isinstance(tool_input, str) else tool_input}

    def _run(self, arguments: Mapping[str, object], *, config: RunnableConfig) -> ContentAndArtifact:
        context = self.rules.context(self.memory, scope=self.scope_of(config))
        try:
            output = self.spec.call(context, arguments)
        except FAILURES as error:
            raise ToolException(failure(self.spec, context, arguments, error).content) from error
        return output.content, output.artifact

    async def _arun(self, arguments: Mapping[str, object], *, config: RunnableConfig) -> ContentAndArtifact:
        return await asyncio.to_thread(self._run, arguments, config=config)


class RetrieveMemoryTool(RegistryTool):
    """Searches long-term memory: the tool an agent needs first."""

    spec: AnyToolSpec = Field(default=REGISTRY["retrieve_memory"], exclude=True, repr=False)


@cache
def _json_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    return arguments.model_json_schema()
