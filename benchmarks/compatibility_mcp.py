"""The cases of ``compatibility.py`` for MCP: the official client asks a server in this process, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import httpx2 as httpx
from compatibility import COLUMNS, SCOPE, Case, Section, Setting, expect
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from memory_retrievers.server.mcp import PROMPT, RECENT_JSON, RECENT_MARKDOWN, McpOffer
from memory_retrievers.server.mcp_sdk import PATH, http_app

NO_SYNC: Final = "the official SDK has no synchronous version"
ONE_SCOPE: Final = "a server has one scope: start one for each user"
REASONS: Final = {COLUMNS[0]: NO_SYNC, COLUMNS[2]: NO_SYNC, COLUMNS[3]: ONE_SCOPE}


@asynccontextmanager
async def session(setting: Setting) -> AsyncIterator[ClientSession]:
    """A client of a server over Bob's memory."""
    if not (setting.given and setting.asynchronous):
        raise NotImplementedError
    app = http_app(McpOffer(setting.memory, scope=SCOPE, tools="all"))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app)
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
        streams = await stack.enter_async_context(
            streamable_http_client(f"http://localhost:8000{PATH}", http_client=client)
        )
        opened = await stack.enter_async_context(ClientSession(*streams[:2]))
        await opened.initialize()
        yield opened


def asking(name: str, ask: Callable[[ClientSession], Awaitable[Any]], *, told: str) -> Case:
    """A case whose answer tells something, and nothing of anybody else.

    Args:
        name: The row.
        ask: Asks the server.
        told: What the answer has to contain.
    """

    async def check(setting: Setting) -> None:
        async with session(setting) as opened:
            answer = str(await ask(opened))
        expect(told in answer and "Alice" not in answer, answer)

    return Case(name, check, REASONS)


async def _stored(opened: ClientSession) -> object:
    await opened.call_tool("memory_store", {"content": "Bob sails on Sundays"})
    return await opened.call_tool("memory_search", {"query": "Bob sails"})


SECTIONS: Final = (
    Section(
        title="MCP: tools, resources and prompts",
        packages=("mcp",),
        text="A server is started for one scope, and clients cannot name another. `langchain-mcp-adapters` of "
        "LangChain uses version 1 of the SDK, which the server also supports.",
        cases=[
            asking("`tools/list`", lambda opened: opened.list_tools(), told="memory_search"),
            asking(
                "`tools/call`, `retrieve_memory`",
                lambda opened: opened.call_tool("retrieve_memory", {"query": "Where does Bob live?"}),
                told="Bob lives in Bergen",
            ),
            asking("`tools/call`, `memory_store` and `memory_search`", _stored, told="Bob sails on Sundays"),
            asking("`resources/list`", lambda opened: opened.list_resources(), told=RECENT_JSON),
            asking("`resources/templates/list`", lambda opened: opened.list_resource_templates(), told="memories/{id}"),
            asking(
                "`resources/read`", lambda opened: opened.read_resource(RECENT_MARKDOWN), told="Bob lives in Bergen"
            ),
            asking("`prompts/list`", lambda opened: opened.list_prompts(), told=PROMPT),
            asking("`prompts/get`", lambda opened: opened.get_prompt(PROMPT), told="retrieve_memory"),
        ],
    ),
)
