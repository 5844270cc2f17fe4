"""The memory tools for LlamaIndex, generated from the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Unpack

from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.tool_spec.base import SPEC_FUNCTION_TYPE, BaseToolSpec
from llama_index.core.tools.types import DefaultToolFnSchema

from memory_retrievers.errors import ConfigurationError, only_known
from memory_retrievers.llama_index.memory import asked_last
from memory_retrievers.llama_index.turns import Scope, Zone, checked_scope, checked_zone, scope_of, zone_of
from memory_retrievers.retrieval.memory import Memory
from memory_retrievers.tools.registry import offered_tools
from memory_retrievers.tools.tool import AnyTool, PolicyOptions, ToolChoice, ToolPolicy, run_tool

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool


class MemoryTool(FunctionTool):
    """A tool of the registry for LlamaIndex, which can be converted to one for LangChain."""

    def to_langchain_tool(self, **langchain_tool_kwargs: Any) -> StructuredTool:  # type: ignore[override]  # noqa: ANN401
        """Convert the tool for LangChain: its content is text for the model, its artifact the same as data.

        LlamaIndex's own conversion needs packages that LangChain has given up; this one needs ``langchain-core``.
        """
        from langchain_core.tools import StructuredTool, ToolException

        def answer(output: ToolOutput) -> tuple[str, object]:
            if output.is_error:
                raise ToolException(output.content)
            return output.content, output.raw_output

        def run(**arguments: object) -> tuple[str, object]:
            return answer(self.call(**arguments))

        async def run_in_thread(**arguments: object) -> tuple[str, object]:
            return answer(await self.acall(**arguments))

        described: dict[str, Any] = {
            "name": self.metadata.get_name(),
            "description": self.metadata.description,
            "args_schema": self.metadata.get_parameters_dict(),  # as a model sees them; the tool checks them itself
            "response_format": "content_and_artifact",
            "handle_tool_error": True,
        }
        return StructuredTool.from_function(func=run, coroutine=run_in_thread, **described | langchain_tool_kwargs)

    to_langchain_structured_tool = to_langchain_tool


class MemoryToolSpec(BaseToolSpec):
    """The tools of the registry as LlamaIndex tools: ``MemoryToolSpec(memory, scope="user/alice").to_tool_list()``.

    A tool's content is text for the model, its ``raw_output`` the same as data. An error is answered with the object of
    specification §1.6 and ``is_error``. A model cannot choose the scope beyond what the policy allows.

    Args:
        memory: An AgentMemory; for tools that only read, any object with its methods.
        scope: Scope of the tools: a path such as ``user/alice``, or a function that is called for it at each use.
        tools: ``"essential"`` offers the four that a model needs, ``"read"`` all that change nothing, ``"all"`` all
            of them; or a list of names.
        time_zone: Time zone of "today": a name such as ``America/Lima``, or a function that is called for it at each
            use. None uses that of the memory's settings.
        policy: ``root``, ``kinds``, ``deletes``, ``allow_scopes``, ``response_format`` and ``sync_directory``, as
            in ``ToolPolicy``, fixed for every call.

    Raises:
        NotFoundError: There is no tool of a given name.
        ConfigurationError: The scope is outside the root, or a word is unknown.
        ValidationError: A scope is malformed, or there is no such time zone.
    """

    spec_functions: list[SPEC_FUNCTION_TYPE]

    def __init__(
        self,
        memory: Memory,
        *,
        scope: Scope,
        tools: ToolChoice = "essential",
        time_zone: Zone = None,
        **policy: Unpack[PolicyOptions],
    ) -> None:
        self._memory = memory
        self._scope = checked_scope(scope)
        self._time_zone = checked_zone(time_zone)
        only_known(policy, PolicyOptions.__optional_keys__, of=MemoryToolSpec.__init__)
        self._rules = ToolPolicy(**policy)
        self._rules.check(memory, scope=None if callable(scope) else scope)
        self._chosen = {spec.name: spec for spec in offered_tools(tools, allow_scopes=self._rules.allow_scopes)}
        self.spec_functions = [*self._chosen]

    def to_tool_list(
        self,
        spec_functions: list[SPEC_FUNCTION_TYPE] | None = None,
        func_to_metadata_mapping: dict[str, ToolMetadata] | None = None,
    ) -> list[FunctionTool]:
        """The tools, ready for an agent.

        Args:
            spec_functions: The names of some of them; None takes those chosen at construction.
            func_to_metadata_mapping: Other metadata for a tool, by its name; what is left out stays.

        Raises:
            NotFoundError: There is no tool of a given name.
            ConfigurationError: A single name was given in place of a list.
        """
        chosen = spec_functions or self.spec_functions
        if isinstance(chosen, str):
            raise ConfigurationError(f"spec_functions must be a list of names: write [{chosen!r}]")
        names = [name if isinstance(name, str) else name[0] for name in chosen]
        metadata = func_to_metadata_mapping or {}
        further = [name for name in names if name not in self._chosen]
        others = {spec.name: spec for spec in offered_tools(further, allow_scopes=self._rules.allow_scopes)}
        known = others | self._chosen
        return [self._tool(known[name], metadata.get(name)) for name in names]

    def _tool(self, spec: AnyTool, metadata: ToolMetadata | None) -> FunctionTool:
        def run(*first: object, **arguments: object) -> ToolOutput:
            return self._run(spec, parameters.bind_partial(*first).arguments | arguments)

        async def run_in_thread(*first: object, **arguments: object) -> ToolOutput:
            return await asyncio.to_thread(run, *first, **arguments)

        metadata = metadata or ToolMetadata(description=spec.description)
        if metadata.fn_schema is DefaultToolFnSchema:  # it takes an "input", which no tool of the registry has
            shown = spec.offered_arguments(allow_scopes=self._rules.allow_scopes, memory=self._memory)
            metadata = replace(metadata, name=metadata.name or spec.name, fn_schema=shown)
        parameters = _show(run, metadata)  # by itself the function would keep itself, and the memory, alive
        # without the callback a FunctionTool takes what its function returns for the raw output alone
        return MemoryTool(fn=run, async_fn=run_in_thread, metadata=metadata, callback=lambda output: output)

    def _run(self, spec: AnyTool, arguments: dict[str, object]) -> ToolOutput:
        scope = scope_of(self._scope)
        of_call = {"asked": asked_last(self._memory, scope), "time_zone": zone_of(self._time_zone)}
        context = self._rules.context(self._memory, scope=scope, **of_call)
        output = run_tool(spec, context, arguments)
        return ToolOutput(
            tool_name=spec.name,
            content=output.content,
            raw_input={"args": (), "kwargs": arguments},
            raw_output=output.artifact,
            is_error=output.is_error,
        )


def _show(function: Callable[..., ToolOutput], metadata: ToolMetadata) -> Signature:
    """Give a function the name, the arguments and the words of its tool: all of it that a ``CodeActAgent`` shows."""
    schema = metadata.get_parameters_dict()
    shown, required = schema.get("properties", {}), schema.get("required", ())
    defaults = {name: Parameter.empty if name in required else each.get("default") for name, each in shown.items()}
    ordered = sorted(defaults.items(), key=lambda each: each[0] not in required)  # as Python wants them
    arguments = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default) for name, default in ordered]
    parameters = Signature(arguments)
    function.__signature__ = parameters  # type: ignore[attr-defined]  # which inspect.signature looks for
    told = [f"{name}: {each['description']}" for name, each in shown.items() if "description" in each]
    function.__name__ = function.__qualname__ = metadata.get_name()
    function.__doc__ = "\n".join([metadata.description, *told])
    return parameters
