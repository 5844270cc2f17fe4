"""The commands that take a store elsewhere: backup, export, import, migrate."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.engines import moved_from, moved_into
from memory_retrievers.cli.options import DEFAULT_STORE, PLACE, Embedder, EmbedderId, Store
from memory_retrievers.cli.places import Place
from memory_retrievers.cli.printing import print_json, print_report, print_statistics
from memory_retrievers.cli.progress import progress_bar
from memory_retrievers.cli.stores import to_change
from memory_retrievers.memory import AgentMemory

NOT_THE_SAME: Final = 1  # the exit code


def backup(
    target: Annotated[
        Place, typer.Argument(parser=Place.named, metavar="TARGET", help="A directory that does not exist yet.")
    ],
    store: Store = DEFAULT_STORE,
) -> None:
    """Copy the store, also while it is in use."""
    directory = target.required_directory(otherwise="migrate moves a store into one")
    with to_change(store, read_only=True) as memory, progress_bar("copying"):
        memory.backup(directory)


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
    into: Annotated[
        Place,
        typer.Option(
            "--into", parser=Place.named, metavar="DIRECTORY", help="The new store's directory: missing, or empty."
        ),
    ],
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Make a store from a file that export wrote, and print what it holds; nothing is embedded again."""
    directory = into.required_directory(otherwise="import into a new directory, then migrate that")
    found = embedder_at(embedder)
    with progress_bar("importing") as progress:
        memory = AgentMemory.import_(source, into=directory, embedder=found, embedder_id=embedder_id, progress=progress)
    with memory:
        statistics = memory.stats()
    print_statistics(statistics)


def migrate(
    *,
    source: Annotated[
        Place,
        typer.Option("--from", parser=Place.named, metavar=PLACE, help="The store; nothing may write it meanwhile."),
    ],
    target: Annotated[
        Place,
        typer.Option("--to", parser=Place.named, metavar=PLACE, help="Where it is to be: missing, or an empty store."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts and problems as JSON.")] = False,
) -> None:
    """Move a store between a directory and a PostgreSQL database, compare both in the end, and print what was seen.

    The store it comes from stays as it is. Nothing is embedded again. Interrupted, the same command goes on where it
    was. What differs in the end, or is not whole, is printed line by line, and the exit code is 1.
    """
    from memory_retrievers import moving  # here, so that the other commands start without it

    with moved_from(source) as ledger, moved_into(target, source=source) as store:
        with progress_bar("moving") as progress:
            moving.move(ledger, store, progress=progress)
        with progress_bar("comparing") as progress:
            report = moving.check(ledger, store, progress=progress)
    if as_json:
        print_json(asdict(report))
    else:
        print_report(report)
    if not report.ok:
        raise typer.Exit(NOT_THE_SAME)
