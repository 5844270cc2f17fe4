"""What a host fixes once for all the tools it offers; each call then gets a context of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from memory_retrievers.managed import ToolKinds
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.spec import ResponseFormat, ToolContext

ToolChoice: TypeAlias = Collection[str] | Literal["read"] | None
"""Which tools to offer: those of these names, those that change nothing, or all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """What holds for every call, whoever it is for. The fields are those of :class:`ToolContext`.

    Attributes:
        root: The scope that nothing a model says can leave; None means the scope of each call.
        kinds: What searches, lists and deletes by condition reach.
        allow_scopes: Whether models may name scopes within the root.
        response_format: The shape of the answers.
        sync_directory: The directory of exports; None lets no tool touch a file.
    """

    root: str | None = None
    kinds: ToolKinds = "tool"
    allow_scopes: bool = False
    response_format: ResponseFormat = "levels"
    sync_directory: Path | None = None

    def check(self, memory: Memory, *, scope: str | None) -> None:
        """Refuse at once what would fail at every call; raises what :meth:`context` raises."""
        self.context(memory, scope=scope or self.root or "anyone")

    def context(self, memory: Memory, *, scope: str) -> ToolContext:
        """What one call works on.

        Raises:
            ValidationError: A scope is malformed.
            ConfigurationError: The scope is outside the root, or one of the words is unknown.
        """
        return ToolContext(
            memory=memory,
            root=scope if self.root is None else self.root,
            default_scope=scope,
            kinds=self.kinds,
            allow_scopes=self.allow_scopes,
            response_format=self.response_format,
            sync_directory=self.sync_directory,
        )
