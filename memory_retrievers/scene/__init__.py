"""Scene memory: extraction of story events, states of characters, relevance and rendering (specification §5).

Here is how scenes get into the prompts of the framework adapters, for ``format="scene"``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.retrieval.memory import Memory, require_scenes
from memory_retrievers.settings import SceneSettings

PromptFormat: TypeAlias = Literal["block", "scene"]
"""Memory text in a prompt: facts and episodes that answer the user (``block``), or the current scene of a story."""

MessageT = TypeVar("MessageT")


@dataclass(slots=True, kw_only=True)
class ScenePrompt(Generic[MessageT]):
    """Renders the current scene of a chat, for the format ``scene``.

    Raises:
        ConfigurationError: The format is unknown, the memory has no scenes, or there are options for scenes alone.
    """

    memory: Memory  # what keeps the story
    format: PromptFormat
    settings: SceneSettings | None  # how scenes are rendered; None takes the memory's own
    present: Callable[[Sequence[MessageT]], Sequence[str]] | None  # names who is there, given the chat
    pov: Sequence[str]  # names of those from whose point of view it is rendered; empty is all of them
    budget: int  # tokens of the block at most
    chat_length: Callable[[Sequence[MessageT]], int]  # counts the messages, as the events' ``message_ids`` do

    def __post_init__(self) -> None:
        if self.format == "block":
            if self.settings is not None or self.present is not None or self.pov:
                raise ConfigurationError("scene=, present= and pov= are about scenes: give format='scene' with them")
            return
        if self.format != "scene":
            raise ConfigurationError(f"format must be 'block' or 'scene', not {self.format!r}")
        if isinstance(self.pov, str):
            raise ConfigurationError("pov must be a list of names, not one text")
        require_scenes(self.memory)
        self.pov = tuple(self.pov)

    def render(self, messages: Sequence[MessageT], *, scope: str, query: str, budget: int | None = None) -> str:
        """The ``<scene_memory>`` block.

        Args:
            messages: The chat.
            scope: Whose story.
            query: What ``asked_by`` makes of the user's message, for where not all fits; a blank one lets time decide.
            budget: Tokens; None means the prompt's own.
        """
        return self.memory.scene(
            scope,
            chat_length=self.chat_length(messages),
            present=() if self.present is None else self.present(messages),
            pov=self.pov,
            budget=self.budget if budget is None else budget,
            query=query,
            settings=self.settings,
        )
