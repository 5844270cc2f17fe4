"""The options that several commands share."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from memory_retrievers.cli.places import Place

DEFAULT_STORE: Final = Place.named("agent-memory")
PLACE: Final = "DIRECTORY|postgresql://…"

Store: TypeAlias = Annotated[
    Place,
    typer.Option(
        "--store",
        envvar="MEMORY_RETRIEVERS_STORE",
        parser=Place.named,
        metavar=PLACE,
        help="Where the memories are kept: a directory, or the address of a PostgreSQL database.",
    ),
]
Scope: TypeAlias = Annotated[str, typer.Option("--scope", help="Whose memories, for example user/alice.")]
EpisodicLimit: TypeAlias = Annotated[int, typer.Option("--episodic-limit", help="At most this many episodes.")]
SemanticLimit: TypeAlias = Annotated[int, typer.Option("--semantic-limit", help="At most this many facts.")]
Category: TypeAlias = Annotated[str | None, typer.Option("--category", help="Only facts of this category.")]
ChildScopes: TypeAlias = Annotated[bool, typer.Option("--include-child-scopes", help="Also search every scope below.")]
Profile: TypeAlias = Annotated[
    str, typer.Option("--profile", help="How to rank: default, or seed for the specified formula.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the raw records as JSON.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is changed.")]
Embedder: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="MEMORY_RETRIEVERS_EMBEDDER",
        metavar="MODULE:NAME",
        help="What turns text into vectors: an embedder, or a class or function without arguments that makes one. "
        "The bundled model if left out.",
    ),
]
EmbedderId: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--embedder-id",
        envvar="MEMORY_RETRIEVERS_EMBEDDER_ID",
        metavar="ID",
        help="The name the store knows the embedder by, where it is not the embedder's own.",
    ),
]
