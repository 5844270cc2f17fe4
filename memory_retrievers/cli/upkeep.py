"""The commands that keep a store whole: verify, rebuild, purge, reembed, reindex."""

from __future__ import annotations

from typing import Annotated, Final, get_args

import typer

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Store, Yes
from memory_retrievers.cli.places import Place
from memory_retrievers.cli.printing import print_report
from memory_retrievers.cli.progress import progress_bar
from memory_retrievers.cli.stores import opened, to_change, to_fill, to_look_into
from memory_retrievers.contents import VerificationReport
from memory_retrievers.errors import BackendError, ValidationError
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.turn_passages import Searched
from memory_retrievers.upkeep import Index

NOT_WHOLE: Final = 1  # the exit code


def verify(store: Store = DEFAULT_STORE) -> None:
    """Look whether the store is whole: print counts and every problem, and end with 1 if there are any."""
    report = _looked_through(store)
    print_report(report)
    if not report.ok:
        raise typer.Exit(NOT_WHOLE)


def rebuild(
    what: Annotated[str, typer.Argument(metavar=f"[{'|'.join(get_args(Index))}]", help="Which indexes.")] = "all",
    store: Store = DEFAULT_STORE,
) -> None:
    """Make the indexes anew from the memories, which stay as they are."""
    index: Index | None = next((known for known in get_args(Index) if known == what), None)
    if index is None:
        raise ValidationError(f"unknown index {what!r}; one of: {', '.join(get_args(Index))}")
    with to_change(store) as memory, progress_bar("rebuilding"):
        memory.rebuild(index)


def purge(store: Store = DEFAULT_STORE) -> None:
    """Remove what has expired, and clear the last byte of what was forgotten."""
    with to_change(store) as memory, progress_bar("purging"):
        memory.purge()


def reembed(
    store: Store = DEFAULT_STORE, embedder: Embedder = None, embedder_id: EmbedderId = None, yes: Yes = False
) -> None:
    """Make all vectors anew by another embedder; the one that filled the store need not be at hand."""
    store.require_store()
    noted = store.noted_embedder()
    if noted is not None and not yes:
        raise ValidationError(
            f"this puts new vectors in the place of those by {noted!r}, which are then gone: give --yes to do it"
        )
    found = embedder_at(embedder)
    with opened(store, embedder=found, embedder_id=noted) as memory, progress_bar("embedding") as progress:
        memory.reembed(found, embedder_id=embedder_id, progress=progress)


def reindex(
    passages: Annotated[
        str, typer.Argument(metavar=f"[{'|'.join(get_args(Searched))}]", help="What of an episode is searched.")
    ] = "turns",
    store: Store = DEFAULT_STORE,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Index the messages of all episodes too, or only their summaries; print how many episodes were changed."""
    searched: Searched | None = next((known for known in get_args(Searched) if known == passages), None)
    if searched is None:
        raise ValidationError(f"unknown passages {passages!r}; one of: {', '.join(get_args(Searched))}")
    store.require_store()
    settings = RetrievalSettings(passages=searched)
    with (
        to_fill(store, embedder=embedder, embedder_id=embedder_id, retrieval=settings) as memory,
        progress_bar("indexing") as progress,
    ):
        changed = memory.reindex(progress=progress)
    typer.echo(changed)


def _looked_through(store: Place) -> VerificationReport:
    try:
        with to_look_into(store) as memory, progress_bar("verifying"):
            return memory.verify()
    except BackendError as error:  # so damaged that it cannot even be opened
        return VerificationReport(problems=(str(error),))
