"""What an MCP server offers of a memory: every tool of the registry, the newest memories as resources, one prompt.

The answers here are plain objects as they go over the wire; ``mcp_sdk`` hands them to the official SDK. Root and scope
are fixed by the host, so no client can leave them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import JsonObject
from memory_retrievers.protocols import Memory
from memory_retrievers.server.mcp_guide import guide
from memory_retrievers.tools.hosting import HostRules
from memory_retrievers.tools.registry import AnyToolSpec, find_tool, offered_tools
from memory_retrievers.tools.spec import ToolOutput
from memory_retrievers.tools.toolbox import error_object, run_tool

RECENT_MARKDOWN: Final = "memory://recent"
RECENT_JSON: Final = "memory://recent.json"
PROMPT: Final = "use_memory"

_RECENT: Final = 20
_RESOURCES: Final[Mapping[str, JsonObject]] = {
    RECENT_MARKDOWN: {
        "name": "recent",
        "title": "Recent memories",
        "description": f"The {_RECENT} newest episodes from earlier conversations, newest first, for a model to read.",
        "mimeType": "text/markdown",
    },
    RECENT_JSON: {
        "name": "recent.json",
        "title": "Recent memories as data",
        "description": f"The {_RECENT} newest episodes, complete with their messages, as JSON.",
        "mimeType": "application/json",
    },
}


class McpOffer:
    """A memory as MCP clients see it.

    Args:
        memory: An AgentMemory; anything of that shape will do for the tools that only read.
        scope: Whose memory.
        rules: What else holds for every call.
        read_only: Offer, and run, only the tools that change nothing; nothing is noted of their use.

    Attributes:
        guide: How to use this memory, for a model.

    Raises:
        ValidationError: A scope is malformed.
        ConfigurationError: The scope is outside the root.
    """

    def __init__(self, memory: Memory, *, scope: str, rules: HostRules | None = None, read_only: bool = False) -> None:
        self._context = replace((rules or HostRules()).context(memory, scope=scope), read_only=read_only)
        chosen = offered_tools(allow_scopes=self._context.allow_scopes, names="read" if read_only else None)
        self._tools: dict[str, AnyToolSpec] = {tool.name: tool for tool in chosen}
        self._read_only = read_only
        self.guide = guide(self._tools, read_only=read_only)

    def tools(self) -> JsonObject:
        """The answer to ``tools/list``."""
        return {"tools": [self._tool(spec) for spec in self._tools.values()]}

    def call(self, name: str, arguments: Mapping[str, object]) -> JsonObject:
        """The answer to ``tools/call``: text for the model and the same as data; an error is the unified object."""
        output = self._output(name, arguments)
        return {
            "content": [{"type": "text", "text": output.content}],
            "structuredContent": json.loads(json.dumps(output.artifact)),
            "isError": output.is_error,
        }

    def resources(self) -> JsonObject:
        """The answer to ``resources/list``."""
        return {"resources": [{"uri": uri} | about for uri, about in _RESOURCES.items()]}

    def read(self, uri: str) -> JsonObject:
        """The answer to ``resources/read``.

        Raises:
            NotFoundError: There is no such resource.
        """
        if uri not in _RESOURCES:
            raise NotFoundError(f"Unknown resource: {uri}. Known resources: {', '.join(_RESOURCES)}")
        recent = self._context.memory.recent(self._context.scope, limit=_RECENT)
        text = (
            recent.to_markdown()
            if uri == RECENT_MARKDOWN
            else json.dumps(recent.to_dict(), ensure_ascii=False, indent=2)
        )
        return {"contents": [{"uri": uri, "mimeType": _RESOURCES[uri]["mimeType"], "text": text}]}

    def prompts(self) -> JsonObject:
        """The answer to ``prompts/list``."""
        about = {"name": PROMPT, "title": "Use your memory", "description": "Tells a model how to use its memory."}
        return {"prompts": [about]}

    def prompt(self, name: str) -> JsonObject:
        """The answer to ``prompts/get``.

        Raises:
            NotFoundError: There is no such prompt.
        """
        if name != PROMPT:
            raise NotFoundError(f"Unknown prompt: {name}. Known prompts: {PROMPT}")
        return {"messages": [{"role": "user", "content": {"type": "text", "text": self.guide}}]}

    def _tool(self, spec: AnyToolSpec) -> JsonObject:
        arguments = spec.offered_arguments(allow_scopes=self._context.allow_scopes)
        return {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": arguments.model_json_schema(),
            "annotations": {"readOnlyHint": not spec.writes, "openWorldHint": False},
        }

    def _output(self, name: str, arguments: Mapping[str, object]) -> ToolOutput:
        try:
            spec = find_tool(name, among=self._tools)
        except NotFoundError as error:
            refused = self._read_only and any(tool.name == name for tool in offered_tools(allow_scopes=True))
            told = NotFoundError(f"{name} changes memories, and this server is read-only") if refused else error
            return ToolOutput.of(error_object(told), is_error=True)
        return run_tool(spec, self._context, arguments)
