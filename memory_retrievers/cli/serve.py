"""Commands that serve a store: over HTTP, to MCP clients, and in a window."""

from __future__ import annotations

import hashlib
import os
import signal
import webbrowser
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from memory_retrievers.cli.app import DEFAULT_STORE, OfScope, Store, listed
from memory_retrievers.cli.options import BUNDLED, DEFAULTS, EmbedderOptions, ModelOptions, RankingProfile, SettingsFile
from memory_retrievers.cli.output import announce, print_text
from memory_retrievers.cli.stores import Place, opened
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.tools.tool import ToolPolicy

if TYPE_CHECKING:
    from memory_retrievers.server.settings import AccessToken

TOKENS: Final = "MEMORY_RETRIEVERS_TOKENS"
MCP_TOKEN: Final = "MEMORY_RETRIEVERS_MCP_TOKEN"  # noqa: S105 - its name


@listed
def _serve(
    *,
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(help="The port; 0 is any that is free.", min=0, max=65_535)] = 8_000,
    host: Annotated[str, typer.Option(help="The address; one that other machines reach needs tokens.")] = "127.0.0.1",
    tokens: Annotated[
        Path | None,
        typer.Option(
            help=f"A file of tokens, one a line: SECRET of at least 16 characters, read or read-write, the root scope "
            f"(* is all). {TOKENS} may hold the same lines."
        ),
    ] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="A host name of this server; may be repeated.")] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Origin of a web page that may send requests, https://…; may be repeated.")
    ] = None,
    max_body_bytes: Annotated[int, typer.Option(help="Maximum size of a request body.", min=1)] = 8_000_000,
    requests_per_minute: Annotated[float, typer.Option(help="Limit for each token, or each address.", min=1)] = 6_000,
    allow_scopes: Annotated[bool, typer.Option("--allow-scopes", help="Offer the tools' scope arguments.")] = False,
    model: ModelOptions = DEFAULTS,
) -> None:
    """Serve a store over HTTP until Ctrl-C; requests under way are finished, then the store is closed."""
    from memory_retrievers.server import ServerSettings, serve  # which may not be installed: before a store is made

    rules = ServerSettings(
        host=host,
        port=port,
        tokens=_tokens(tokens),
        allowed_hosts=tuple(allow_host or ()),
        allowed_origins=tuple(allow_origin or ()),
        max_body_bytes=max_body_bytes,
        requests_per_minute=requests_per_minute,
        allow_scopes=allow_scopes,
    )
    rules.require_safe_address()
    memory = opened(store, **model.options())
    serve(memory, settings=rules, announce=partial(announce, f"serving {store}"))


def _tokens(file: Path | None) -> tuple[AccessToken, ...]:
    from memory_retrievers.server.settings import parse_tokens

    lines, origins = [], []
    if file is not None:
        try:
            lines += file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the file of tokens {file} cannot be read: {type(error).__name__}") from error
        origins.append(str(file))
    if TOKENS in os.environ:
        lines += os.environ[TOKENS].splitlines()
        origins.append(TOKENS)
    found = parse_tokens(lines, origin=" and ".join(origins))
    if origins and not found:
        raise ConfigurationError(f"{' and '.join(origins)} contains no token: leave it out to serve only this machine")
    return found


@listed
def _mcp(
    *,
    at: OfScope,
    root: Annotated[str | None, typer.Option(help="Scope that no client can leave; the default is --scope.")] = None,
    allow_scopes: Annotated[
        bool, typer.Option("--allow-scopes", help="Offer the arguments and tools that name scopes within the root.")
    ] = False,
    tools: Annotated[str, typer.Option(help="essential, all, read, or names of tools, with commas.")] = "essential",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that changes anything; works beside a writer.")
    ] = False,
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP at /mcp, instead of standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen with --http.", min=0, max=65_535)] = 8766,
    token: Annotated[str | None, typer.Option(envvar=MCP_TOKEN, help="Bearer token that --http requires.")] = None,
    sync_directory: Annotated[Path | None, typer.Option(help="Directory of memory_sync's files, by scope.")] = None,
    model: ModelOptions = DEFAULTS,
) -> None:
    """Serve a memory to MCP clients: its tools, its newest memories, and a prompt that explains them.

    The scope is fixed by the command; clients cannot leave it.
    """
    from memory_retrievers.server.mcp import McpOffer
    from memory_retrievers.server.mcp_sdk import PATH, require_sdk, serve_http, serve_stdio
    from memory_retrievers.server.settings import AccessToken, is_loopback
    from memory_retrievers.tools.registry import offered_tools, parse_tool_choice

    if token and not http and token != os.environ.get(MCP_TOKEN):  # which may be set for another server
        raise ConfigurationError("--token is for clients over HTTP: give --http as well, or leave it out")
    if http and not token and MCP_TOKEN in os.environ:
        raise ConfigurationError(f"{MCP_TOKEN} contains no token: leave it out to serve only this machine")
    if http and not token and not is_loopback(host):
        raise ConfigurationError(f"anyone who reaches {host} could read the memory: give --token, or --host 127.0.0.1")
    if http and token:
        AccessToken(secret=token)  # which refuses a short one
    rules = ToolPolicy(root=root, allow_scopes=allow_scopes, sync_directory=sync_directory)
    choice = parse_tool_choice(tools)
    offered_tools(choice, allow_scopes=allow_scopes)  # before a store is made, as is what follows
    require_sdk()
    with opened(at.store, read_only=read_only, **model.options()) as memory:
        if not read_only:
            memory.start_worker()
        offer = McpOffer(memory, scope=at.scope, tools=choice, rules=rules, read_only=read_only)
        if http:
            told = f"serving {at.scope} of {at.store} to MCP clients"
            serve_http(offer, host=host, port=port, token=token, announce=lambda base: announce(told, base + PATH))
        else:
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as behind "&" in a script
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # as SIGTERM: what waits for a line hears no Ctrl-C
            serve_stdio(offer)


JOURNAL: Final = "window-changes.jsonl"  # in the directory of a store: who has changed what in a window, and when


@listed
def _ui(
    *,
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(help="The port; 0 is any that is free.", min=0, max=65_535)] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and the scopes below.")] = None,
    profile: RankingProfile = "default",
    settings: SettingsFile = None,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Open a live window into a store in the browser on this machine, until Ctrl-C.

    It works while the store is in use. The printed address opens it once, in one browser.
    """
    from memory_retrievers import window

    store.require_store()  # looking must not make one
    chosen = window.WindowSettings(
        title=store.name,
        address=store.address,
        root=scope,
        read_only=read_only,
        port=port,
        embedder=store.noted_embedder() or "",
        journal=_journal(store),
    )
    ranked = ModelOptions(**asdict(embedder), profile=profile, settings=settings)
    memory = opened(store, read_only=read_only, **ranked.options())

    def show(address: str) -> None:
        print_text(f"the window of {store} opens once, at {address}")
        if open_browser:
            webbrowser.open(address)

    window.serve(memory, settings=chosen, announce=show)


def _journal(store: Place) -> Path:
    """The journal of a store: in its directory, or for a database in the user's own folder of programs' states."""
    if isinstance(store.address, Path):
        return store.address / JOURNAL
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "memory-retrievers")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(store).encode()).hexdigest()[:16]}-{JOURNAL}"
