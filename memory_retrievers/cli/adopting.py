"""The command that takes a Chroma collection over: import-chroma."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Store
from memory_retrievers.cli.printing import print_adoption
from memory_retrievers.cli.progress import progress_bar
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import Category


def import_chroma(
    *,
    collection: Annotated[str, typer.Option("--collection", help="The name of the collection.")],
    path: Annotated[
        Path | None, typer.Option("--path", help="Chroma's directory; nothing else may use it now.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="Chroma's server, for example http://localhost:8000.")
    ] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Whose memories its documents become.")] = None,
    scope_key: Annotated[
        str | None, typer.Option("--scope-key", help="The metadata key that tells whose memory a document is.")
    ] = None,
    text_key: Annotated[
        str | None, typer.Option("--text-key", help="The metadata key of the text, where it is not the document.")
    ] = None,
    category: Annotated[str, typer.Option(help="What the facts are about.")] = Category.NOTE.value,
    store: Store = DEFAULT_STORE,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Take the documents of a Chroma collection over as facts, with their vectors; the collection stays as it is.

    The embedder must be the one the collection was filled with. Run again, it goes on where it stopped, and takes in
    what is new or has changed.
    """
    if (path is None) == (url is None):
        raise ValidationError("where is the collection: give either --path or --url")
    if (scope is None) == (scope_key is None):
        raise ValidationError("whose memories are they: give either --scope or --scope-key")
    # imported here, so that the other commands start without it
    from memory_retrievers.backends.chroma_client import opened_collection

    found = embedder_at(embedder)
    with (
        store.without_its_secret(),
        opened_collection(collection, path=path, url=url) as source,
        progress_bar("adopting") as progress,
    ):
        memory = AgentMemory.from_chroma(
            source,
            path=store.address,
            embedder=found,
            embedder_id=embedder_id,
            scope=scope,
            scope_key=scope_key,
            text_key=text_key,
            category=category,
            progress=progress,
        )
        with memory:
            report = memory.adoption
    if report is not None:
        print_adoption(report)
