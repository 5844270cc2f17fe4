"""The essential tools: the four that a model needs to use a memory by itself, with the few arguments it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Final

from memory_retrievers.tools.arguments import LEVEL_ARGUMENT, MemoryId, without
from memory_retrievers.tools.records import MemoryDeleteArguments
from memory_retrievers.tools.tool import AnyTool

DESCRIPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "retrieve_memory": (
            "Search long-term memory of earlier conversations. Use it whenever the user refers to something said or "
            "done before, or when knowing the user would change the answer. Returns known facts, then past episodes, "
            "best match first. With response_level full it also tells the ids, for memory_update and memory_delete."
        ),
        "memory_store": (
            "Remember one thing for good: a fact, a decision, a preference. Write it so that it can be understood by "
            "itself later. Returns its id."
        ),
        "memory_update": (
            "Change one memory, by its id: its text, or its tags. What is left out stays. Use it when something has "
            "changed, instead of storing it a second time."
        ),
        "memory_delete": "Delete one memory for good, by its id. Use it when the user asks you to forget something.",
    }
)
"""What each is for, in the order in which they are offered; no word of it needs a further tool."""

ARGUMENTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "retrieve_memory": frozenset({"query", "category"}),
        "memory_store": frozenset({"content", "category", "tags"}),
        "memory_update": frozenset({"id", "content", "tags"}),
        "memory_delete": frozenset({"id"}),
    }
)
"""The arguments that each is offered with, beside the response level and scopes; the others keep their defaults."""


class DeleteByIdArguments(MemoryDeleteArguments):
    """Arguments of ``memory_delete`` where it takes one id and nothing else."""

    hidden: ClassVar[frozenset[str]] = frozenset(MemoryDeleteArguments.model_fields) - {"id", LEVEL_ARGUMENT}

    id: MemoryId


def essential_tools(tools: Mapping[str, AnyTool]) -> list[AnyTool]:
    """The essential ones of some tools, each as a model is to see it that has few others.

    Args:
        tools: Tools by their name.
    """
    return [_brief(tools[name], description) for name, description in DESCRIPTIONS.items() if name in tools]


def _brief(tool: AnyTool, description: str) -> AnyTool:
    kept = ARGUMENTS[tool.name] | {LEVEL_ARGUMENT, *tool.scoped}
    by_id = issubclass(tool.arguments, MemoryDeleteArguments)
    arguments = DeleteByIdArguments if by_id else without(tool.arguments, _others(tool, kept))
    return replace(tool, description=description, arguments=arguments)


def _others(tool: AnyTool, kept: Collection[str]) -> frozenset[str]:
    return frozenset(tool.arguments.model_fields) - frozenset(kept)
