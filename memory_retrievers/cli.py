"""The command line: try a memory out, look into it, add to it.

Markdown and JSON are printed as they are, so that they can be piped; tables are drawn on a terminal only and are
tab-separated elsewhere. Whatever the caller can put right ends with exit code 2 and one line on standard error.
Looking into a memory here does not count as a use of it: nothing is filed for review.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import pydantic
import typer

from memory_retrievers import __version__, samples
from memory_retrievers import scopes as scope_paths
from memory_retrievers.engine import STORE_FILE
from memory_retrievers.errors import (
    ConfigurationError,
    MemoryRetrieversError,
    NotFoundError,
    StoreLockedError,
    ValidationError,
)
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import (
    Category,
    Draft,
    EpisodicMemory,
    ScopeStatistics,
    SemanticMemory,
)
from memory_retrievers.printing import print_explanations, print_json, print_table
from memory_retrievers.rendering.markdown import NO_MEMORIES
from memory_retrievers.retrieval.result import parse_detail
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.text import one_line

BAD_INPUT: Final = 2  # the exit code
DEFAULT_STORE: Final = Path("agent-memory")
DEMO_STORE: Final = Path(".demo-memory")

PROFILES: Final[Mapping[str, Callable[[], RetrievalSettings]]] = {
    "default": RetrievalSettings,
    "seed": RetrievalSettings.seed,
}

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Store = Annotated[
    Path, typer.Option("--store", envvar="MEMORY_RETRIEVERS_STORE", help="The directory the memories are kept in.")
]
Scope = Annotated[str, typer.Option("--scope", help="Whose memories, for example user/alice.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the raw records as JSON.")]


@contextmanager
def _mistakes_in_one_line() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe has left; Typer ends quietly
    except pydantic.ValidationError as error:
        message = str(ValidationError.from_pydantic(error))
    except (MemoryRetrieversError, OSError) as error:
        message = str(error)
    else:
        return
    typer.echo(f"error: {one_line(message)}", err=True)
    raise typer.Exit(BAD_INPUT)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"memory-retrievers {__version__}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Long-term memory for agents, from the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # memories may hold any character


@app.command()
@_mistakes_in_one_line()
def demo(
    store: Annotated[Path, typer.Option("--store", help="Where to keep the sample history.")] = DEMO_STORE,
    scope: Annotated[str, typer.Option("--scope", help="Whose memories the sample history becomes.")] = samples.SCOPE,
) -> None:
    """Ask a sample history three questions; it is loaded on the first run."""
    scope_paths.parse(scope)
    with AgentMemory.open(store) as memory:
        _load_samples_once(memory, scope)
        for question in samples.QUESTIONS:
            result = memory.retrieve(question.text, scope=scope, episodic_limit=2, semantic_limit=2, record=False)
            typer.echo(f"# {question.text}\n\n{question.shows}\n\n{result.to_markdown() or NO_MEMORIES}\n")
    place = f"--store {shlex.quote(str(store))} --scope {shlex.quote(scope)}"
    typer.echo(f'The memories are in {store}. Try: memory-retrievers retrieve "{samples.NEXT}" {place}')


@app.command()
@_mistakes_in_one_line()
def remember(
    *,
    scope: Scope,
    store: Store = DEFAULT_STORE,
    fact: Annotated[str | None, typer.Option(help="One sentence to remember as a fact.")] = None,
    category: Annotated[str | None, typer.Option(help="What the fact is about; note if left out.")] = None,
    keyword: Annotated[list[str] | None, typer.Option(help="Helps to find the fact; may be repeated.")] = None,
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
    with AgentMemory.open(store) as memory:
        (stored,) = memory.remember_many([draft])
    typer.echo(stored.id)


@app.command()
@_mistakes_in_one_line()
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
) -> None:
    """Print the memories that answer a question."""
    if as_json and explain:
        raise ValidationError("--json and --explain are two ways of printing: give one of them")
    level = parse_detail(detail)
    with _to_look_into(store, profile) as memory:
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


@app.command()
@_mistakes_in_one_line()
def recent(
    scope: Scope,
    store: Store = DEFAULT_STORE,
    limit: Annotated[int, typer.Option(help="At most this many episodes, 1 to 100.")] = 10,
    days: Annotated[float | None, typer.Option(help="Only episodes of the last so many days.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the newest episodes."""
    with _to_look_into(store) as memory:
        result = memory.recent(scope, limit=limit, days_limit=days)
    if as_json:
        print_json(result.to_dict())
    else:
        typer.echo(result.to_markdown())


@app.command()
@_mistakes_in_one_line()
def scopes(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
) -> None:
    """List the scopes that hold memories, one a line."""
    with _to_look_into(store) as memory:
        found = memory.scopes()
    if scope is not None:
        first, behind = scope_paths.child_range(scope_paths.parse(scope))
        found = [name for name in found if name == scope or first <= name < behind]
    for name in found:
        typer.echo(name)


@app.command()
@_mistakes_in_one_line()
def stats(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Count in this scope only.")] = None,
) -> None:
    """Count what the store, or one scope, holds."""
    with _to_look_into(store) as memory:
        statistics = memory.stats(scope)
    print_table(list(ScopeStatistics.model_fields), [[str(count) for _, count in statistics]])


@app.command()
@_mistakes_in_one_line()
def forget(
    id: Annotated[str, typer.Argument(help="The id of the memory.")], scope: Scope, store: Store = DEFAULT_STORE
) -> None:
    """Remove a memory for good, with every trace of it."""
    with _existing(store) as memory:
        memory.forget(id, scope=scope)


@app.command()
@_mistakes_in_one_line()
def forget_scope(
    scope: Annotated[str, typer.Argument(help="Whose memories, with all scopes below.")],
    store: Store = DEFAULT_STORE,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this nothing is removed.")] = False,
) -> None:
    """Remove everything that a scope and the scopes below it hold, and print how many memories went."""
    scope_paths.parse(scope)
    if not yes:
        raise ValidationError(f"this removes all memories in {scope!r} and below for good: give --yes to do it")
    with _existing(store) as memory:
        typer.echo(memory.forget_scope(scope))


@app.command()
@_mistakes_in_one_line()
def purge(store: Store = DEFAULT_STORE) -> None:
    """Remove what has expired, and clear the last byte of what was forgotten."""
    with _existing(store) as memory:
        memory.purge()


@app.command()
@_mistakes_in_one_line()
def backup(
    target: Annotated[Path, typer.Argument(help="A directory that does not exist yet.")], store: Store = DEFAULT_STORE
) -> None:
    """Copy the store, also while it is in use."""
    with _existing(store, read_only=True) as memory:
        memory.backup(target)


def _existing(store: Path, profile: str = "default", *, read_only: bool = False) -> AgentMemory:
    """Open a store that is there; looking must not make one."""
    if profile not in PROFILES:
        raise ValidationError(f"unknown profile {profile!r}; one of: {', '.join(PROFILES)}")
    if not (store / STORE_FILE).is_file():
        raise ConfigurationError(f"there is no memory store at {store}")
    return AgentMemory.open(store, retrieval=PROFILES[profile](), read_only=read_only)


def _to_look_into(store: Path, profile: str = "default") -> AgentMemory:
    try:
        return _existing(store, profile)
    except StoreLockedError:
        return _existing(store, profile, read_only=True)


def _load_samples_once(memory: AgentMemory, scope: str) -> None:
    history = samples.load_history(scope=scope, now=datetime.now(UTC))
    try:
        memory.get(str(history[0].id), scope=scope)  # loaded all at once, so the first stands for the rest
    except NotFoundError:
        memory.remember_many(history)


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
