"""The demo: a sample history, and three questions to it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from memory_retrievers import samples
from memory_retrievers import scopes as scope_paths
from memory_retrievers.cli.options import PLACE, Embedder, EmbedderId
from memory_retrievers.cli.places import Place
from memory_retrievers.cli.stores import to_fill
from memory_retrievers.errors import NotFoundError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.rendering.markdown import NO_MEMORIES

DEMO_STORE: Final = Place.named(".demo-memory")


def demo(
    store: Annotated[
        Place, typer.Option("--store", parser=Place.named, metavar=PLACE, help="Where to keep the sample history.")
    ] = DEMO_STORE,
    scope: Annotated[str, typer.Option("--scope", help="Whose memories the sample history becomes.")] = samples.SCOPE,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Ask a sample history three questions; it is loaded on the first run."""
    scope_paths.parse(scope)
    with to_fill(store, embedder=embedder, embedder_id=embedder_id) as memory:
        _load_samples_once(memory, scope)
        for question in samples.QUESTIONS:
            result = memory.retrieve(question.text, scope=scope, episodic_limit=2, semantic_limit=2, record=False)
            typer.echo(f"# {question.text}\n\n{question.shows}\n\n{result.to_markdown() or NO_MEMORIES}\n")
    place = f"--store {shlex.quote(str(store))} --scope {shlex.quote(scope)}"
    typer.echo(f'The memories are in {store}. Try: memory-retrievers retrieve "{samples.NEXT}" {place}')


def _load_samples_once(memory: AgentMemory, scope: str) -> None:
    history = samples.load_history(scope=scope, now=datetime.now(UTC))
    try:
        memory.get(str(history[0].id), scope=scope)  # loaded all at once, so the first stands for the rest
    except NotFoundError:
        memory.remember_many(history)
