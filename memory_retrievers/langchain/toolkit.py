"""The tools with which a LangChain agent manages its own memory, made in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from langchain_core.tools import BaseTool
from langchain_core.tools.base import BaseToolkit
from pydantic import ConfigDict, Field, SkipValidation

from memory_retrievers.langchain.scope import ScopedByConfig, ScopeSource
from memory_retrievers.langchain.tools import RegistryTool
from memory_retrievers.managed import ToolKinds
from memory_retrievers.protocols import Memory
from memory_retrievers.tools.hosting import HostRules, ToolChoice
from memory_retrievers.tools.registry import offered_tools
from memory_retrievers.tools.spec import ResponseFormat


class MemoryToolkit(ScopedByConfig, BaseToolkit):
    """The memory tools: ``create_agent(model, tools=MemoryToolkit(memory, scope="user/alice").get_tools())``.

    A tool's content is text for the model, its artifact the same as data; what goes wrong is answered with the error
    object of specification §1.6 in a message of status ``error``. Whose memory the tools work on is the host's to say.

    Args:
        memory: An AgentMemory; anything of that shape will do for the tools that only read.
        scope: Whose memory. None takes the scope of each call from its configuration.
        scope_from: Replaces the keys a scope is looked for under in the configuration.
        root: The scope that nothing a model says can leave; None means the scope of each call.
        allow_scopes: Whether models may name scopes within the root, and are offered the tools that are about scopes.
        kinds: What searches, lists and deletes by condition reach: what tools have stored, or every memory.
        response_format: Answers by response level, or the plain objects of specification §3.3.
        sync_directory: Where ``memory_sync`` keeps its files; None lets no tool touch a file.
        tools: The names of the tools to offer, ``"read"`` for those that change nothing, or None for all.

    Raises:
        NotFoundError: There is no tool of a given name.
        ConfigurationError: The scope is outside the root, or a word is unknown.
        ValidationError: The root is malformed.
        pydantic.ValidationError: The scope is malformed, or ``scope_from`` is given as well.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: Annotated[Memory, SkipValidation] = Field(exclude=True, repr=False)
    rules: HostRules = Field(exclude=True, repr=False)
    tools: ToolChoice = None

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | None = None,
        scope_from: ScopeSource | None = None,
        root: str | None = None,
        allow_scopes: bool = False,
        kinds: ToolKinds = "tool",
        response_format: ResponseFormat = "levels",
        sync_directory: Path | None = None,
        tools: ToolChoice = None,
    ) -> None:
        rules = HostRules(
            root=root,
            allow_scopes=allow_scopes,
            kinds=kinds,
            response_format=response_format,
            sync_directory=sync_directory,
        )
        super().__init__(memory=memory, scope=scope, scope_from=scope_from, rules=rules, tools=tools)
        rules.check(memory, scope=scope)
        offered_tools(allow_scopes=allow_scopes, names=tools)

    def get_tools(self) -> list[BaseTool]:
        """The tools, ready for an agent."""
        return [
            RegistryTool(spec=spec, memory=self.memory, scope=self.scope, scope_from=self.scope_from, rules=self.rules)
            for spec in offered_tools(allow_scopes=self.rules.allow_scopes, names=self.tools)
        ]
