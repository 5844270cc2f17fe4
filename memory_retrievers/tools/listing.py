"""The tool that leafs through all memories, whatever scope within the root they are in."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.managed import MemoryFilter
from memory_retrievers.rendering.levels import levels
from memory_retrievers.tools.objects import complete, glance
from memory_retrievers.tools.parameters import whole_number
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput

PREVIEW: Final = 30
ASSOCIATIONS: Final = 3


class ListAllArguments(ManagementArguments):
    """Arguments of ``memory_list_all``."""

    page: Annotated[int, Field(ge=1, description="Which page, from 1 on.")] = 1
    per_page: Annotated[int, *whole_number("per_page", 1, 100, "How many memories a page has, 1 to 100.")] = 10


def memory_list_all(context: ToolContext, arguments: ListAllArguments) -> ToolOutput:
    """One page of all memories, newest first; a page past the end is empty (specification §4.3)."""
    manager = context.manager
    everything = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.kinds)
    total = manager.count(everything)
    pages = -(-total // arguments.per_page)
    before = (arguments.page - 1) * arguments.per_page
    memories = manager.select(everything, limit=arguments.per_page, offset=before) if before < total else []
    return ToolOutput.of(
        levels(
            {"success": True, "total_count": total},
            {"memories": [glance(context, memory, length=PREVIEW, key="preview") for memory in memories]},
            {
                "memories": [
                    complete(
                        context,
                        memory,
                        linked=manager.associations_of(memory, within=context.root, limit=ASSOCIATIONS),
                    )
                    for memory in memories
                ],
                "pagination_info": {
                    "page": arguments.page,
                    "per_page": arguments.per_page,
                    "total_items": total,
                    "total_pages": pages,
                    "has_next": arguments.page < pages,
                    "has_previous": arguments.page > 1,
                },
            },
            level=arguments.response_level,
        )
    )
