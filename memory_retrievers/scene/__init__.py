"""Scene memory: extraction of story events, states of characters, relevance and rendering (specification §5).

Here is how scenes get into the prompts of the framework adapters, for ``format="scene"``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.protocols import Memory
from memory_retrievers.protocols.memory import SceneMemory, scene_memory_of
from memory_retrievers.retrieval.request import asked_by
from memory_retrievers.settings import SceneSettings

PromptFormat: TypeAlias = Literal["block", "scene"]
"""Memory text in a prompt: facts and episodes that answer the user (``block``), or the current scene of a story."""

MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenePrompt(Generic[MessageT]):
    """Renders the current scene of a chat; its fields are the arguments of :func:`scene_prompt`."""

    memory: SceneMemory
    settings: SceneSettings | None
    present: Callable[[Sequence[MessageT]], Sequence[str]] | None
    pov: Sequence[str]
    budget: int
    chat_length: Callable[[Sequence[MessageT]], int]

    def render(self, messages: Sequence[MessageT], *, scope: str, query: str, budget: int | None = None) -> str:
        """The ``<scene_memory>`` block.

        Args:
            messages: The chat.
            scope: Whose story.
            query: What events are to bear on where there is no room for all; a blank one lets time decide.
            budget: Tokens; None means the prompt's own.
        """
        return self.memory.scene(
            scope,
            chat_length=self.chat_length(messages),
            present=() if self.present is None else self.present(messages),
            pov=self.pov,
            budget=self.budget if budget is None else budget,
            query=asked_by(self.memory, query),
            settings=self.settings,
        )


def scene_prompt(
    memory: Memory,
    *,
    format: PromptFormat,
    settings: SceneSettings | None,
    present: Callable[[Sequence[MessageT]], Sequence[str]] | None,
    pov: Sequence[str],
    budget: int,
    chat_length: Callable[[Sequence[MessageT]], int],
) -> ScenePrompt[MessageT] | None:
    """Build the renderer of scenes; None for the format ``block``.

    Args:
        memory: Memory that keeps the story.
        format: ``scene``, or ``block`` for none.
        settings: Rendering of scenes; None takes the memory's own.
        present: Names of the characters present, given the messages of the chat; None names none.
        pov: Names of the characters from whose point of view the story is rendered; empty is all of them.
        budget: Largest number of tokens of the block.
        chat_length: Counts the messages of the chat, as the events' ``message_ids`` do.

    Raises:
        ConfigurationError: The format is unknown, the memory has no scenes, or there are options for scenes alone.
    """
    if format == "block":
        if settings is not None or present is not None or pov:
            raise ConfigurationError("scene=, present= and pov= are about scenes: give format='scene' with them")
        return None
    if format != "scene":
        raise ConfigurationError(f"format must be 'block' or 'scene', not {format!r}")
    if isinstance(pov, str):
        raise ConfigurationError("pov must be a list of names, not one text")
    return ScenePrompt(
        memory=scene_memory_of(memory),
        settings=settings,
        present=present,
        pov=tuple(pov),
        budget=budget,
        chat_length=chat_length,
    )
