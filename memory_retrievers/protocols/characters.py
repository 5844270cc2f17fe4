"""The socket for the characters of stories: how each stands, by scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memory_retrievers.scene_records import CharacterState


class Characters(Protocol):
    """The states of a scope's characters, whose scenes are memories of the scope.

    The id of a memory that is removed, or moved to another scope, leaves what the characters of its scope know. Once
    no scene is left in a scope, its characters go too.
    """

    def all(self, scope: str) -> list[CharacterState]:
        """The scope's characters, in the order in which they were first put."""
        ...

    def put(self, scope: str, states: Sequence[CharacterState]) -> None:
        """Store states, each over the one of its name; other characters stay as they are."""
        ...
