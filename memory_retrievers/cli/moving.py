"""The commands that take a store elsewhere: backup, export, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Store
from memory_retrievers.cli.printing import print_statistics
from memory_retrievers.cli.progress import progress_bar
from memory_retrievers.cli.stores import to_change
from memory_retrievers.memory import AgentMemory


def backup(
    target: Annotated[Path, typer.Argument(help="A directory that does not exist yet.")], store: Store = DEFAULT_STORE
) -> None:
    """Copy the store, also while it is in use."""
    with to_change(store, read_only=True) as memory, progress_bar("copying"):
        memory.backup(target)


def export(
    target: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
) -> None:
    """Write all memories with their vectors to one file of JSON lines, and print how many there are."""
    with to_change(store, read_only=True) as memory, progress_bar("exporting") as progress:
        written = memory.export(target, scope=scope, progress=progress)
    typer.echo(written)


def import_(
    source: Annotated[Path, typer.Argument(help="A file that export wrote.")],
    into: Annotated[Path, typer.Option("--into", help="The new store's directory: missing, or empty.")],
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Make a store from a file that export wrote, and print what it holds; nothing is embedded again."""
    found = embedder_at(embedder)
    with progress_bar("importing") as progress:
        memory = AgentMemory.import_(source, into=into, embedder=found, embedder_id=embedder_id, progress=progress)
    with memory:
        statistics = memory.stats()
    print_statistics(statistics)
