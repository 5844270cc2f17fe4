"""The command that serves a memory to MCP clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Scope, Store
from memory_retrievers.cli.stores import to_fill
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.tools.hosting import HostRules

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def mcp(
    *,
    scope: Scope,
    root: Annotated[str | None, typer.Option(help="The scope no client can leave; --scope if left out.")] = None,
    allow_scopes: Annotated[
        bool, typer.Option("--allow-scopes", help="Offer the arguments and tools that name scopes within the root.")
    ] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only look: no tool that changes anything, also beside a writer.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp; standard input and output else.")] = (
        False
    ),
    host: Annotated[str, typer.Option(help="Where to listen with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen with --http.")] = 8766,
    token: Annotated[
        str | None,
        typer.Option(envvar="MEMORY_RETRIEVERS_MCP_TOKEN", help="The bearer token that --http asks of clients."),
    ] = None,
    sync_directory: Annotated[Path | None, typer.Option(help="Where memory_sync keeps its files.")] = None,
    store: Store = DEFAULT_STORE,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Serve a memory to MCP clients: its tools, its newest memories, and a prompt on how to use them.

    Whose memory it is, is fixed here; clients cannot leave it.
    """
    if http and not token and host not in _LOOPBACK:
        raise ConfigurationError(f"whoever reaches {host} could read the memory: give --token, or a loopback host")
    from memory_retrievers.server.mcp import McpOffer
    from memory_retrievers.server.mcp_sdk import serve_http, serve_stdio

    rules = HostRules(root=root, allow_scopes=allow_scopes, sync_directory=sync_directory)
    with to_fill(store, embedder=embedder, embedder_id=embedder_id, read_only=read_only) as memory:
        offer = McpOffer(memory, scope=scope, rules=rules, read_only=read_only)
        if http:
            serve_http(offer, host=host, port=port, token=token)
        else:
            serve_stdio(offer)
