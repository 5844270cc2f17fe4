"""The commands that change what a memory holds: remember, forget, forget-scope."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from memory_retrievers import scopes as scope_paths
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Scope, Store, Yes
from memory_retrievers.cli.stores import to_change, to_fill
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, Draft, EpisodicMemory, SemanticMemory


def remember(
    *,
    scope: Scope,
    store: Store = DEFAULT_STORE,
    fact: Annotated[str | None, typer.Option(help="One sentence to remember as a fact.")] = None,
    category: Annotated[str | None, typer.Option(help="What the fact is about; note if left out.")] = None,
    keyword: Annotated[list[str] | None, typer.Option(help="Helps to find the fact; may be repeated.")] = None,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Store a fact, or an episode given as JSON on standard input, and print its id.

    An episode has a summary and may have a title, messages (role, content, timestamp), surprise (0 to 1), start_at,
    end_at and the other fields of EpisodicMemory.new.
    """
    scope_paths.parse(scope)
    draft: Draft
    if fact is not None:
        draft = SemanticMemory.new(scope=scope, fact=fact, category=category or Category.NOTE, keywords=keyword or ())
    elif category or keyword:
        raise ValidationError("--category and --keyword belong to a fact: give --fact as well")
    else:
        draft = _episode_from_standard_input(scope)
    with to_fill(store, embedder=embedder, embedder_id=embedder_id) as memory:
        (stored,) = memory.remember_many([draft])
    typer.echo(stored.id)


def forget(
    id: Annotated[str, typer.Argument(help="The id of the memory.")], scope: Scope, store: Store = DEFAULT_STORE
) -> None:
    """Remove a memory for good, with every trace of it."""
    with to_change(store) as memory:
        memory.forget(id, scope=scope)


def forget_scope(
    scope: Annotated[str, typer.Argument(help="Whose memories, with all scopes below.")],
    store: Store = DEFAULT_STORE,
    yes: Yes = False,
) -> None:
    """Remove everything that a scope and the scopes below it hold, and print how many memories went."""
    scope_paths.parse(scope)
    if not yes:
        raise ValidationError(f"this removes all memories in {scope!r} and below for good: give --yes to do it")
    with to_change(store) as memory:
        typer.echo(memory.forget_scope(scope))


def _episode_from_standard_input(scope: str) -> Draft:
    if sys.stdin is None or sys.stdin.isatty():
        raise ValidationError("nothing to remember: give --fact TEXT, or an episode as JSON on standard input")
    try:
        given = json.loads(sys.stdin.buffer.read())
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"without --fact an episode is read from standard input as JSON: {error}") from error
    if not isinstance(given, dict):
        raise ValidationError("an episode is a JSON object with at least a summary")
    if "scope" in given:
        raise ValidationError("the scope of an episode is given by --scope, not in its JSON")
    return EpisodicMemory.new.model_validate(given | {"scope": scope})
