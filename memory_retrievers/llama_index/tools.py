"""The LlamaIndex tools, generated from the registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from memory_retrievers.llama_index.scope import Scope, scope_getter
from memory_retrievers.managed import ToolKinds
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.hosting import HostRules, ToolChoice
from memory_retrievers.tools.registry import AnyToolSpec, offered_tools
from memory_retrievers.tools.spec import ResponseFormat
from memory_retrievers.tools.toolbox import run_tool


class MemoryToolSpec(BaseToolSpec):
    """The tools of the registry as LlamaIndex tools: ``MemoryToolSpec(memory, scope="user/alice").to_tool_list()``.

    A tool's content is text for the model, its ``raw_output`` the same as data; an error is answered with the object
    of specification §1.6 and ``is_error``. Whose memory the tools work on is never up to the model.

    Args:
        memory: An AgentMemory; anything of that shape will do for the tools that only read.
        scope: Whose memory: a path such as ``user/alice``, or a function that is asked for it at each call.
        root: The scope that nothing a model says can leave; None means the scope of each call.
        allow_scopes: Whether models may name scopes within the root, and are offered the tools that are about scopes.
        kinds: What searches, lists and deletes by condition reach: what tools have stored, or every memory.
        response_format: Answers by response level, or the plain objects of specification §3.3.
        sync_directory: Where ``memory_sync`` keeps its files; None lets no tool touch a file.
        tools: The names of the tools to offer, ``"read"`` for those that change nothing, or None for all.

    Raises:
        NotFoundError: There is no tool of a given name.
        ConfigurationError: The scope is outside the root, or a word is unknown.
        ValidationError: A scope is malformed.
    """

    spec_functions: list[SPEC_FUNCTION_TYPE]

    def __init__(
        self,
        memory: Memory,
        *,
        scope: Scope,
        root: str | None = None,
        allow_scopes: bool = False,
        kinds: ToolKinds = "tool",
        response_format: ResponseFormat = "levels",
        sync_directory: Path | None = None,
        tools: ToolChoice = None,
    ) -> None:
        self._memory = memory
        self._scope = scope_getter(scope)
        self._rules = HostRules(
            root=root,
            allow_scopes=allow_scopes,
            kinds=kinds,
            response_format=response_format,
            sync_directory=sync_directory,
        )
        self._rules.check(memory, scope=None if callable(scope) else scope)
        self.spec_functions = [spec.name for spec in offered_tools(allow_scopes=allow_scopes, names=tools)]

    def to_tool_list(
        self,
        spec_functions: list[SPEC_FUNCTION_TYPE] | None = None,
        func_to_metadata_mapping: dict[str, ToolMetadata] | None = None,
    ) -> list[FunctionTool]:
        """The tools, ready for an agent.

        Args:
            spec_functions: The names of some of them; None takes those chosen at construction.
            func_to_metadata_mapping: Other metadata for a tool, by its name.

        Raises:
            NotFoundError: There is no tool of a given name.
        """
        names = [name if isinstance(name, str) else name[0] for name in spec_functions or self.spec_functions]
        metadata = func_to_metadata_mapping or {}
        offered = offered_tools(allow_scopes=self._rules.allow_scopes, names=names)
        return [self._tool(spec, metadata.get(spec.name)) for spec in offered]

    def _tool(self, spec: AnyToolSpec, metadata: ToolMetadata | None) -> FunctionTool:
        def run(**arguments: object) -> ToolOutput:
            return self._run(spec, arguments)

        async def run_in_thread(**arguments: object) -> ToolOutput:
            return await asyncio.to_thread(self._run, spec, arguments)

        return FunctionTool(
            fn=run,
            async_fn=run_in_thread,
            metadata=metadata or self._metadata(spec),
            callback=_as_it_is,
        )

    def _metadata(self, spec: AnyToolSpec) -> ToolMetadata:
        shown = spec.offered_arguments(allow_scopes=self._rules.allow_scopes)
        return ToolMetadata(description=spec.description, name=spec.name, fn_schema=shown)

    def _run(self, spec: AnyToolSpec, arguments: dict[str, object]) -> ToolOutput:
        output = run_tool(spec, self._rules.context(self._memory, scope=self._scope()), arguments)
        return ToolOutput(
            tool_name=spec.name,
            content=output.content,
            raw_input={"args": (), "kwargs": arguments},
            raw_output=output.artifact,
            is_error=output.is_error,
        )


def _as_it_is(output: ToolOutput) -> ToolOutput:
    """A FunctionTool takes what its function returns for raw output, and what its callback returns for the whole."""
    return output
