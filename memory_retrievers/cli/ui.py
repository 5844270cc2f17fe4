"""The command that opens a live window into a store."""

from __future__ import annotations

import hashlib
import os
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from memory_retrievers.cli.app import DEFAULT_STORE, Embedder, EmbedderId, Store
from memory_retrievers.cli.options import RankingProfile, SettingsFile, store_options
from memory_retrievers.cli.output import print_text
from memory_retrievers.cli.stores import Place, to_fill

JOURNAL: Final = "window-changes.jsonl"
"""In the directory of a store: who has changed what in a window, and when."""


def ui(
    *,
    store: Store = DEFAULT_STORE,
    port: Annotated[int, typer.Option(help="The port; 0 is any that is free.", min=0, max=65_535)] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look: nothing can be changed.")] = False,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
    profile: RankingProfile = "default",
    settings: SettingsFile = None,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Open a live window into a store, for the browser on this machine, until Ctrl-C.

    It works beside all who use the store. The address that is printed opens it once, in one browser.
    \f

    Args:
        store: Place of the store, which must exist.
        port: Port on 127.0.0.1, 0 to 65535; 0 takes a free one.
        open_browser: Open the address in the browser.
        read_only: Only look.
        scope: Only this scope and those below it; None shows all.
        profile: Name of a profile.
        settings: File of settings; None is the profile's.
        embedder: Embedder as MODULE:NAME; None is the bundled model.
        embedder_id: Name the store knows the embedder by; None is the embedder's own.
    """  # noqa: D301
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
    options = store_options(language_model=None, profile=profile, settings=settings)
    memory = to_fill(store, embedder=embedder, embedder_id=embedder_id, read_only=read_only, options=options)

    def announce(address: str) -> None:
        print_text(f"a window into {store} is open, once, at {address}")
        if open_browser:
            webbrowser.open(address)

    window.serve(memory, settings=chosen, announce=announce)


def _journal(store: Place) -> Path:
    """The journal of a store: in its directory, or for a database in the user's own folder of programs' states."""
    if isinstance(store.address, Path):
        return store.address / JOURNAL
    states = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    folder = states / "memory-retrievers"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(store).encode()).hexdigest()[:16]}-{JOURNAL}"
