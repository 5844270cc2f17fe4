"""The command that serves a memory to other programs: serve."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Store
from memory_retrievers.cli.stores import to_fill
from memory_retrievers.errors import ConfigurationError

if TYPE_CHECKING:
    from memory_retrievers.server.access import AccessToken

TOKENS: Final = "MEMORY_RETRIEVERS_TOKENS"


def serve(
    *,
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(help="The port; 0 is any that is free.", min=0, max=65_535)] = 8_000,
    host: Annotated[str, typer.Option(help="The address; another than this machine's own needs tokens.")] = "127.0.0.1",
    tokens: Annotated[
        Path | None,
        typer.Option(
            help=f"A file of tokens, one a line: SECRET, read or read-write, the root scope (* is all). {TOKENS} may "
            "hold the same lines."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name this server is known by; may be repeated.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A web page that may ask, https://…; may be repeated.")
    ] = None,
    max_body_bytes: Annotated[int, typer.Option(help="Larger requests are refused.", min=1)] = 8_000_000,
    requests_per_minute: Annotated[float, typer.Option(help="Of each token, or each address.", min=1)] = 6_000,
    allow_scopes: Annotated[bool, typer.Option("--allow-scopes", help="Offer the tools' scope arguments.")] = False,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Serve a store over HTTP until Ctrl-C: what is under way is finished, then the store is closed."""
    from memory_retrievers import server

    settings = server.ServerSettings(
        host=host,
        port=port,
        tokens=_tokens(tokens),
        allowed_hosts=tuple(allow_host or ()),
        allowed_origins=tuple(allow_origin or ()),
        max_body_bytes=max_body_bytes,
        requests_per_minute=requests_per_minute,
        allow_scopes=allow_scopes,
    )
    settings.require_safe_address()  # before a store is made
    memory = to_fill(store, embedder=embedder, embedder_id=embedder_id)
    server.serve(memory, settings=settings, announce=lambda address: typer.echo(f"serving {store} at {address}"))


def _tokens(file: Path | None) -> tuple[AccessToken, ...]:
    from memory_retrievers.server.access import parse_tokens

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
        raise ConfigurationError(f"{' and '.join(origins)} holds no token: leave it away to let this machine in")
    return found
