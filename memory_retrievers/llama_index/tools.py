"""The LlamaIndex tools, generated from the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec

from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.llama_index.scope import Scope, scope_getter
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.registry import REGISTRY, AnyToolSpec, find_tool
from memory_retrievers.tools.spec import ToolContext
from memory_retrievers.tools.toolbox import error_object, error_text


class MemoryToolSpec(BaseToolSpec):
    """The tools of the registry as LlamaIndex tools: ``MemoryToolSpec(memory, scope="user/alice").to_tool_list()``.

    A tool's content is text for the model, its ``raw_output`` the same as data; an error is answered with the object
    of specification §1.6 and ``is_error``. Whose memory the tools work on is never up to the model.

    Args:
        memory: An AgentMemory, or anything of that shape.
        scope: Whose memory: a path such as ``user/alice``, or a function that is asked for it at each call.
        tools: The names of the tools to offer; None offers all.

    Raises:
        NotFoundError: There is no tool of a given name.
        ValidationError: The scope is malformed.
    """

    spec_functions: list[SPEC_FUNCTION_TYPE]

    def __init__(self, memory: Memory, *, scope: Scope, tools: Sequence[str] | None = None) -> None:
        self._memory = memory
        self._scope = scope_getter(scope)
        self.spec_functions = [find_tool(name).name for name in (REGISTRY if tools is None else tools)]

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
        return [self._tool(find_tool(name), metadata.get(name)) for name in names]

    def _tool(self, spec: AnyToolSpec, metadata: ToolMetadata | None) -> FunctionTool:
        def run(**arguments: object) -> ToolOutput:
            return self._run(spec, arguments)

        async def run_in_thread(**arguments: object) -> ToolOutput:
            return await asyncio.to_thread(self._run, spec, arguments)

        return FunctionTool(
            fn=run,
            async_fn=run_in_thread,
            metadata=metadata or ToolMetadata(description=spec.description, name=spec.name, fn_schema=spec.arguments),
            callback=_as_it_is,
        )

    def _run(self, spec: AnyToolSpec, arguments: dict[str, object]) -> ToolOutput:
        raw_input = {"args": (), "kwargs": arguments}
        context = ToolContext(memory=self._memory, root=self._scope())
        try:
            output = spec.call(context, arguments)
        except MemoryRetrieversError as error:
            return ToolOutput(
                tool_name=spec.name,
                content=error_text(error),
                raw_input=raw_input,
                raw_output=error_object(error),
                is_error=True,
            )
        return ToolOutput(tool_name=spec.name, content=output.content, raw_input=raw_input, raw_output=output.artifact)


def _as_it_is(output: ToolOutput) -> ToolOutput:
    """A FunctionTool takes what its function returns for raw output, and what its callback returns for the whole."""
    return output
