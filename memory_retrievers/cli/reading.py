"""The commands that look into a memory: retrieve, recent, list, get, scopes, stats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from memory_retrievers import scopes as scope_paths
from memory_retrievers.cli.options import DEFAULT_STORE, AsJson, Embedder, EmbedderId, Scope, Store
from memory_retrievers.cli.printing import (
    print_explanations,
    print_json,
    print_memories,
    print_memory,
    print_statistics,
)
from memory_retrievers.cli.stores import to_look_into, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.rendering.markdown import NO_MEMORIES
from memory_retrievers.retrieval.result import parse_detail
from memory_retrievers.settings import RetrievalSettings

PROFILES: Final[Mapping[str, Callable[[], RetrievalSettings]]] = {
    "default": RetrievalSettings,
    "seed": RetrievalSettings.seed,
}


def retrieve(
    *,
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    scope: Scope,
    store: Store = DEFAULT_STORE,
    episodic_limit: Annotated[int, typer.Option(help="At most this many episodes.")] = 5,
    semantic_limit: Annotated[int, typer.Option(help="At most this many facts.")] = 20,
    category: Annotated[str | None, typer.Option(help="Only facts of this category.")] = None,
    include_child_scopes: Annotated[
        bool, typer.Option("--include-child-scopes", help="Also search every scope below.")
    ] = False,
    profile: Annotated[str, typer.Option(help="How to rank: default, or seed for the specified formula.")] = "default",
    detail: Annotated[str, typer.Option(help="Which episodes show their messages: auto, none, low or high.")] = "auto",
    as_json: AsJson = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show why each memory stands where it stands.")] = False,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Print the memories that answer a question."""
    if as_json and explain:
        raise ValidationError("--json and --explain are two ways of printing: give one of them")
    if profile not in PROFILES:
        raise ValidationError(f"unknown profile {profile!r}; one of: {', '.join(PROFILES)}")
    level = parse_detail(detail)
    with to_search(store, embedder=embedder, embedder_id=embedder_id, retrieval=PROFILES[profile]()) as memory:
        result = memory.retrieve(
            query,
            scope=scope,
            episodic_limit=episodic_limit,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            record=False,
        )
    if as_json:
        print_json(result.to_dict())
    elif explain:
        print_explanations([*result.semantic, *result.episodic])
    else:
        typer.echo(result.to_markdown(level) or NO_MEMORIES)


def recent(
    scope: Scope,
    store: Store = DEFAULT_STORE,
    limit: Annotated[int, typer.Option(help="At most this many episodes, 1 to 100.")] = 10,
    days: Annotated[float | None, typer.Option(help="Only episodes of the last so many days.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest episodes."""
    with to_look_into(store) as memory:
        result = memory.recent(scope, limit=limit, days_limit=days)
    if as_json:
        print_json(result.to_dict())
    else:
        typer.echo(result.to_markdown())


def list_memories(
    scope: Scope,
    store: Store = DEFAULT_STORE,
    kind: Annotated[str | None, typer.Option(help="Only episodic, or only semantic memories.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many, 1 to 1000.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended, as it said.")] = None,
) -> None:
    """List what a scope holds, newest first; where more follows, standard error says how to go on."""
    with to_look_into(store) as memory:
        page = memory.list(scope, kind=kind, cursor=cursor, limit=limit)
    print_memories(page.memories)
    if page.cursor is not None:
        typer.echo(f"--cursor {page.cursor}", err=True)


def get(
    id: Annotated[str, typer.Argument(help="The id of the memory.")], scope: Scope, store: Store = DEFAULT_STORE
) -> None:
    """Print all of one memory as JSON."""
    with to_look_into(store) as memory:
        found = memory.get(id, scope=scope)
    print_memory(found)


def scopes(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
) -> None:
    """List the scopes that hold memories, one a line."""
    with to_look_into(store) as memory:
        found = memory.scopes()
    if scope is not None:
        first, behind = scope_paths.child_range(scope_paths.parse(scope))
        found = [name for name in found if name == scope or first <= name < behind]
    for name in found:
        typer.echo(name)


def stats(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Count in this scope only.")] = None,
) -> None:
    """Count what the store, or one scope, holds."""
    with to_look_into(store) as memory:
        statistics = memory.stats(scope)
    print_statistics(statistics)
