"""The toolbox: calls tools by name in one context, and puts errors into the one shape all tools share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_retrievers.errors import MemoryRetrieversError, NotFoundError, ValidationError
from memory_retrievers.models import JsonObject, ResponseLevel
from memory_retrievers.rendering.levels import parse_level
from memory_retrievers.tools.arguments import LEVEL_ARGUMENT, ManagementArguments
from memory_retrievers.tools.registry import AnyToolSpec, find_tool, offered_tools
from memory_retrievers.tools.spec import ToolContext, ToolOutput


class LocalToolbox:
    """All tools of the registry, on a memory in this process.

    Args:
        context: What every call works on.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._tools = {tool.name: tool for tool in offered_tools(allow_scopes=context.allow_scopes)}

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Run a tool. What goes wrong, an unknown name included, is answered with the error object."""
        try:
            tool = find_tool(name, among=self._tools)
        except NotFoundError as error:
            return ToolOutput.of(error_object(error), is_error=True)
        return run_tool(tool, self._context, arguments)


FAILURES: Final = (MemoryRetrieversError, NotImplementedError)
"""What a tool may raise."""


def run_tool(tool: AnyToolSpec, context: ToolContext, arguments: Mapping[str, object]) -> ToolOutput:
    """Run a tool as a model calls it: what goes wrong is answered with the error object."""
    try:
        return tool.call(context, arguments)
    except FAILURES as error:
        return failure(tool, context, arguments, error)


def failure(tool: AnyToolSpec, context: ToolContext, arguments: Mapping[str, object], error: Exception) -> ToolOutput:
    """The answer of a tool that has failed (specification §1.6, §4.1): the same at all levels, details at ``full``."""
    plain = context.response_format == "seed004"
    answer = error_object(error, with_details=plain or _wants_everything(arguments))
    if issubclass(tool.arguments, ManagementArguments) and not plain:
        answer = {"success": False} | answer
    return ToolOutput.of(answer, is_error=True)


def error_object(exception: Exception, *, with_details: bool = False) -> JsonObject:
    """What a tool answers when it fails (specification §1.6).

    >>> from memory_retrievers.errors import NotFoundError
    >>> error_object(NotFoundError("Memory not found: m9"))
    {'error': True, 'error_type': 'NotFoundError', 'message': 'Memory not found: m9'}

    Args:
        exception: What was raised.
        with_details: Whether to add what the error says beyond its message, if anything.
    """
    answer: JsonObject = {"error": True, "error_type": type(exception).__name__, "message": str(exception)}
    details = exception.details if isinstance(exception, MemoryRetrieversError) else None
    return answer | {"details": dict(details)} if with_details and details else answer


def _wants_everything(arguments: Mapping[str, object]) -> bool:
    level = arguments.get(LEVEL_ARGUMENT)
    try:
        return isinstance(level, str) and parse_level(level) is ResponseLevel.FULL
    except ValidationError:
        return False
