"""The socket between a memory that tells scenes of a story and those who ask for them: adapters and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memory_retrievers.scene_records import CharacterState
from memory_retrievers.settings import SceneSettings


class TellsScenes(Protocol):
    """What is needed of a memory that holds a story; ``AgentMemory`` is one, ``RemoteMemory`` is not."""

    def scene(
        self,
        scope: str,
        *,
        chat_length: int,
        present: Sequence[str] = (),
        pov: Sequence[str] = (),
        budget: int = 10_000,
        query: str | None = None,
        settings: SceneSettings | None = None,
    ) -> str:
        """The ``<scene_memory>`` block."""
        ...

    def characters(self, scope: str) -> list[CharacterState]:
        """The characters of the story, each as of its last event."""
        ...
