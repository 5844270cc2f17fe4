"""The Typer application of the commands, its error messages, and shared options."""

from __future__ import annotations

import functools
import inspect
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import pydantic
import typer
from typer.core import TyperGroup

from memory_retrievers import __version__
from memory_retrievers.cli.options import PROFILE_NAMES, EmbedderOptions, profile_named
from memory_retrievers.cli.output import print_line
from memory_retrievers.cli.stores import Place
from memory_retrievers.errors import MemoryRetrieversError, ValidationError
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.retrieval.request import parse_relevance
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.text.analysis import for_terminals

BAD_INPUT: Final = 2  # the exit code


class _QuotingGroup(TyperGroup):
    """Commands that escape invalid arguments in error messages for a terminal."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - the type differs between versions
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding="utf-8", errors="replace")  # memories, and the help, have any character
        with _quoted_for_terminals():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:  # noqa: ANN401 - as above
        with _quoted_for_terminals():
            return super().invoke(ctx)


@contextmanager
def _quoted_for_terminals() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str) and not isinstance(error, ExceptionGroup):
            error.message = for_terminals(message)  # type: ignore[attr-defined]  # one of Typer's, in any version
        raise


app = typer.Typer(cls=_QuotingGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """End with exit code 2 and one line on standard error for an error that the caller can correct."""
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
    print_line(f"error: {message}", err=True)
    raise typer.Exit(BAD_INPUT)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Convert a function for Typer: a dataclass becomes a group of options, and errors are one line."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        if (group := groups.get(each.name)) is None:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name]))
        else:
            options, taken = get_type_hints(group, include_extras=True), inspect.signature(group).parameters
            parameters += [option.replace(annotation=options[name]) for name, option in taken.items()]

    @functools.wraps(function)
    def run(**given: Any) -> None:  # noqa: ANN401 - as the command has them
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        with mistakes_in_one_line():
            function(**given)

    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


COMMANDS: Final[dict[str, Callable[..., None]]] = {}  # the commands by name, in no order


def listed(function: Callable[..., None]) -> Callable[..., None]:
    """Register a function as the command of its name; the help of its options describes its arguments."""
    COMMANDS[function.__name__.strip("_").replace("_", "-")] = command(function)
    return function


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


DEFAULT_STORE: Final = Place.named("agent-memory")
PLACE: Final = "DIRECTORY|postgresql://…"

Store: TypeAlias = Annotated[
    Place,
    typer.Option(
        "--store",
        envvar="MEMORY_RETRIEVERS_STORE",
        parser=Place.named,
        metavar=PLACE,
        help="Location of the store: a directory, or the address of a PostgreSQL database.",
    ),
]
SemanticLimit: TypeAlias = Annotated[int, typer.Option("--semantic-limit", help="Maximum number of facts.")]
Category: TypeAlias = Annotated[str | None, typer.Option("--category", help="Only facts of this category.")]
ChildScopes: TypeAlias = Annotated[bool, typer.Option("--include-child-scopes", help="Include the scopes below.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfScope:
    """Options for the scope of a command, and the store."""

    scope: Annotated[str, typer.Option("--scope", help="Scope of the memories, for example user/alice.")]
    store: Store = DEFAULT_STORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Options for the size of a result, and for child scopes."""

    episodic_limit: Annotated[int, typer.Option("--episodic-limit", help="Maximum number of episodes.")] = 5
    semantic_limit: SemanticLimit = 20
    include_child_scopes: ChildScopes = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(EmbedderOptions):
    """Options for the ranking and the embedder of a search."""

    profile: Annotated[
        str, typer.Option("--profile", help=f"Ranking profile: {PROFILE_NAMES} (the formula of the specification).")
    ] = "default"

    def settings(self) -> RetrievalSettings:
        """Return the retrieval settings of the profile."""
        return profile_named(self.profile)


def _least_relevance(written: str) -> MinRelevance:
    try:
        return parse_relevance(written if written == "auto" else float(written))
    except ValueError as error:
        raise typer.BadParameter("a number from 0 to 1, or auto") from error


LeastRelevance: TypeAlias = Annotated[
    Any,
    typer.Option(
        "--min-relevance",
        metavar="NUMBER|auto",
        parser=_least_relevance,
        help="Leave out memories below this relevance, 0 to 1; auto is fitted to the embedder. Guidelines stay.",
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the raw records as JSON.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Confirm; without this nothing is changed.")]
