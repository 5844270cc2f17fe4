"""The ``scene`` tool: past events, the characters present, and their feelings, as one block for role-play."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from memory_retrievers.models import JsonObject
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.protocols.memory import scene_memory_of
from memory_retrievers.settings import SCENE_BUDGET
from memory_retrievers.text.analysis import estimate_scene_tokens
from memory_retrievers.tools.arguments import LONGEST_ID, AtMost, ManagementArguments, whole_number
from memory_retrievers.tools.responses import respond
from memory_retrievers.tools.tool import ToolContext, ToolOutput

MOST_MESSAGES: Final = 2**53 - 1
LARGEST_BUDGET: Final = 1_000_000
MOST_NAMES: Final = 1_000

_Names: TypeAlias = Annotated[
    tuple[Annotated[str, AtMost(LONGEST_ID, "A name")], ...], AtMost(MOST_NAMES, "The list of names")
]


class SceneArguments(ManagementArguments):
    """Arguments of ``scene``."""

    chat_length: Annotated[
        int, *whole_number("chat_length", 0, MOST_MESSAGES, "How many messages the chat has so far.")
    ]
    present: Annotated[_Names, Field(description="The names of the characters who are there now.")] = ()
    pov: Annotated[
        _Names, Field(description="Only what these characters know of, by their names; leave it out for everything.")
    ] = ()
    budget: Annotated[
        int, *whole_number("budget", 1, LARGEST_BUDGET, "How many tokens the block may have at most.")
    ] = SCENE_BUDGET
    query: Annotated[
        str | None,
        Field(description="What the events should bear on where there is no room for all; leave it out for time."),
    ] = None
    scope: Annotated[str | None, Field(description="Whose story; leave it out for the usual place.")] = None


def scene(context: ToolContext, arguments: SceneArguments) -> ToolOutput:
    """The ``<scene_memory>`` block (specification §5.4), and with it, at level ``full``, the states of the characters.

    It leaves no trace, and counts no access.
    """
    memory, scope = scene_memory_of(context.memory), context.scope_named(arguments.scope)
    block = memory.scene(
        scope,
        chat_length=arguments.chat_length,
        present=arguments.present,
        pov=arguments.pov,
        budget=arguments.budget,
        query=arguments.query,
    )
    return respond(
        context,
        arguments,
        {"success": True, "token_count": estimate_scene_tokens(block)},
        {"scene": block},
        lambda: {"characters": [_character(state) for state in memory.characters(scope, pov=arguments.pov)]},
    )


def _character(state: CharacterState) -> JsonObject:
    return state.model_dump(mode="json", exclude_none=True)
