"""The application that the commands belong to, and how it tells of mistakes."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import pydantic
import typer

from memory_retrievers import __version__
from memory_retrievers.errors import MemoryRetrieversError, ValidationError
from memory_retrievers.text import one_line

BAD_INPUT: Final = 2  # the exit code

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@contextmanager
def mistakes_in_one_line() -> Iterator[None]:
    """End with exit code 2 and one line on standard error when something is wrong that the caller can put right."""
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
