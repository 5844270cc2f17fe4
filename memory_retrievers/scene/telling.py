"""Telling a chat the story so far: what the adapters of the frameworks put into the prompt with ``format="scene"``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar, cast

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.protocols import Memory
from memory_retrievers.protocols.scenes import TellsScenes
from memory_retrievers.settings import SceneSettings

PromptFormat: TypeAlias = Literal["block", "scene"]
"""What of a memory goes into a prompt: facts and episodes that answer the user, or the scene the story is in."""

MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneTeller(Generic[MessageT]):
    """Tells the scene that a chat is in.

    Attributes:
        memory: Where the story is kept.
        settings: How it is told; None takes the memory's own way.
        present: Who is there, given the messages of the chat; None names nobody.
        pov: Through whose eyes it is told; nobody is everybody.
        budget: Tokens of the block at most.
        chat_length: How many messages the chat has, counted as the events' ``message_ids`` are.
    """

    memory: TellsScenes
    settings: SceneSettings | None
    present: Callable[[Sequence[MessageT]], Sequence[str]] | None
    pov: Sequence[str]
    budget: int
    chat_length: Callable[[Sequence[MessageT]], int]

    def tell(self, messages: Sequence[MessageT], *, scope: str, query: str, budget: int | None = None) -> str:
        """The ``<scene_memory>`` block.

        Args:
            messages: The chat.
            scope: Whose story.
            query: What events are to bear on where there is no room for all; a blank one lets time decide.
            budget: Tokens; None means the teller's own.

        Raises:
            MemoryRetrieversError: The memory failed.
        """
        return self.memory.scene(
            scope,
            chat_length=self.chat_length(messages),
            present=() if self.present is None else tuple(self.present(messages)),
            pov=self.pov,
            budget=self.budget if budget is None else budget,
            query=query,
            settings=self.settings,
        )


def scene_teller(
    memory: Memory,
    *,
    format: PromptFormat,
    settings: SceneSettings | None,
    present: Callable[[Sequence[MessageT]], Sequence[str]] | None,
    pov: Sequence[str],
    budget: int,
    chat_length: Callable[[Sequence[MessageT]], int],
) -> SceneTeller[MessageT] | None:
    """What tells the scenes; None where the format is ``block``. The arguments are those of :class:`SceneTeller`.

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
    return SceneTeller(
        memory=telling_scenes(memory),
        settings=settings,
        present=present,
        pov=tuple(pov),
        budget=budget,
        chat_length=chat_length,
    )


def telling_scenes(memory: Memory) -> TellsScenes:
    """The same memory, if it tells scenes.

    Raises:
        ConfigurationError: It does not.
    """
    if not callable(getattr(memory, "scene", None)):
        raise ConfigurationError(
            f"{type(memory).__name__} does not tell scenes: give an AgentMemory, or ask a server with its scene tool"
        )
    return cast("TellsScenes", memory)
