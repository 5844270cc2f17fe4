"""An MCP client of ``memory-retrievers mcp``: it lists the memory tools and calls them, as Claude or an IDE would.

Run it with ``python examples/mcp_client.py``; it needs ``pip install "memory-retrievers[mcp]"``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

COMMAND = str(Path(sys.executable).parent / "memory-retrievers")


async def main() -> None:
    """Store something, and look it up."""
    with TemporaryDirectory() as store:
        arguments = ["mcp", "--store", store, "--scope", "user/alice"]  # --read-only offers no tool that writes
        server = StdioServerParameters(command=COMMAND, args=arguments)
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            print(f"{len(tools)} tools, among them {', '.join(tool.name for tool in tools[:4])}")
            note = {"content": "Alice is allergic to peanuts", "category": "identity", "response_level": "minimal"}
            await call(session, "memory_store", note)
            print(await call(session, "retrieve_memory", {"query": "What must I not cook for her?"}))
            print(await call(session, "memory_update", {"id": "m9", "tags": ["home"]}))


async def call(session: ClientSession, name: str, arguments: Mapping[str, object]) -> str:
    """The text that a tool answers for the model."""
    answer = await session.call_tool(name, dict(arguments))
    assert isinstance(answer, CallToolResult)  # noqa: S101 - these tools ask nothing back
    return "\n".join(part.text for part in answer.content if isinstance(part, TextContent))


if __name__ == "__main__":
    asyncio.run(main())
