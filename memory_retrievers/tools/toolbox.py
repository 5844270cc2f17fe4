"""The toolbox: calls tools by name in one context, and puts errors into the one shape all tools share."""

from __future__ import annotations

import json
from collections.abc import Mapping

from memory_retrievers.models import JsonObject
from memory_retrievers.tools.registry import find_tool
from memory_retrievers.tools.spec import ToolContext, ToolOutput


class LocalToolbox:
    """All tools of the registry, on a memory in this process.

    Args:
        context: What every call works on.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def call(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        """Run a tool.

        Raises:
            NotFoundError: There is no such tool.
            ValidationError: The arguments do not fit.
            MemoryRetrieversError: The tool failed.
        """
        return find_tool(name).call(self._context, arguments)


def error_object(exception: Exception) -> JsonObject:
    """What a tool answers when it fails (specification §1.6).

    >>> from memory_retrievers.errors import NotFoundError
    >>> error_object(NotFoundError("Memory not found: m9"))
    {'error': True, 'error_type': 'NotFoundError', 'message': 'Memory not found: m9'}
    """
    return {"error": True, "error_type": type(exception).__name__, "message": str(exception)}


def error_text(exception: Exception) -> str:
    """:func:`error_object` as the text a model reads."""
    return json.dumps(error_object(exception), ensure_ascii=False)
