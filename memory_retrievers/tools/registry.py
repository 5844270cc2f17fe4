"""The table of all tools: name → arguments model → function → description. Adapters are generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from memory_retrievers.errors import NotFoundError
from memory_retrievers.tools import recall
from memory_retrievers.tools.spec import ToolSpec

AnyToolSpec: TypeAlias = ToolSpec[Any]
"""A tool, whatever its arguments."""

_TOOLS: tuple[AnyToolSpec, ...] = (
    ToolSpec(
        name="retrieve_memory",
        arguments=recall.RetrieveMemoryArguments,
        function=recall.retrieve_memory,
        description=(
            "Search long-term memory of earlier conversations. Use it whenever the user refers to something said or "
            "done before, or when knowing the user would change the answer. Returns known facts, then past episodes, "
            "best match first, each with when it happened."
        ),
    ),
    ToolSpec(
        name="context_pre_retrieve",
        arguments=recall.ContextArguments,
        function=recall.context_pre_retrieve,
        description=(
            "Look up only the known facts that bear on a message, without past episodes and without leaving a trace. "
            "Meant to run before answering; returns nothing when no fact applies."
        ),
    ),
    ToolSpec(
        name="recent_memory",
        arguments=recall.RecentMemoryArguments,
        function=recall.recent_memory,
        description=(
            "List the newest episodes from earlier conversations, newest first, whatever they are about. "
            "Use it to catch up at the start of a conversation."
        ),
    ),
)

REGISTRY: Mapping[str, AnyToolSpec] = MappingProxyType({tool.name: tool for tool in _TOOLS})
"""Every tool by its name, in the order in which they are offered."""


def find_tool(name: str) -> AnyToolSpec:
    """The tool of that name.

    Raises:
        NotFoundError: There is none; the message names those there are.
    """
    if name not in REGISTRY:
        raise NotFoundError(f"Unknown tool: {name}. Known tools: {', '.join(REGISTRY)}")
    return REGISTRY[name]
