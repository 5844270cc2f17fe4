"""The tool that tells the scene a story is in: what happened, who is there, and how they feel."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.models import JsonObject
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.scene import DEFAULT_BUDGET
from memory_retrievers.rendering.scene_budget import estimate_scene_tokens
from memory_retrievers.scene.telling import telling_scenes
from memory_retrievers.scene_records import CharacterState
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.parameters import whole_number
from memory_retrievers.tools.spec import ToolContext, ToolOutput

MOST_MESSAGES: Final = 2**53 - 1
LARGEST_BUDGET: Final = 1_000_000


class SceneArguments(ManagementArguments):
    """Arguments of ``scene``."""

    chat_length: Annotated[
        int, *whole_number("chat_length", 0, MOST_MESSAGES, "How many messages the chat has so far.")
    ]
    present: Annotated[tuple[str, ...], Field(description="The names of the characters who are there now.")] = ()
    pov: Annotated[
        tuple[str, ...],
        Field(description="Only what these characters know of, by their names; leave it out for everything."),
    ] = ()
    budget: Annotated[
        int, *whole_number("budget", 1, LARGEST_BUDGET, "How many tokens the block may have at most.")
    ] = DEFAULT_BUDGET
    query: Annotated[
        str | None,
        Field(description="What the events should bear on where there is no room for all; leave it out for time."),
    ] = None
    scope: Annotated[str | None, Field(description="Whose story; leave it out for the usual place.")] = None


def scene(context: ToolContext, arguments: SceneArguments) -> ToolOutput:
    """The ``<scene_memory>`` block (specification §5.4), and with it, at level ``full``, the states of the characters.

    It leaves no trace, and counts no access.
    """
    memory, scope = telling_scenes(context.memory), context.scope_named(arguments.scope)
    block = memory.scene(
        scope,
        chat_length=arguments.chat_length,
        present=arguments.present,
        pov=arguments.pov,
        budget=arguments.budget,
        query=arguments.query,
    )
    return ToolOutput.of(
        levels(
            {"success": True, "token_count": estimate_scene_tokens(block)},
            {"scene": block},
            {"characters": [_told(state) for state in memory.characters(scope)]},
            level=arguments.response_level,
        )
    )


def _told(state: CharacterState) -> JsonObject:
    return state.model_dump(mode="json", exclude_none=True)
