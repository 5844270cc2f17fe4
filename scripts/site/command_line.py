"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from memory_retrievers.cli import app


def command_line() -> str:
    """Every command with its arguments and options, as Markdown."""
    return "\n\n".join(_told(get_command(app), "memory-retrievers", level=1))


def _told(command: TyperCommand | TyperGroup, name: str, *, level: int) -> Iterator[str]:
    """A command and those below it."""
    if level > 1:
        yield f"{'#' * level} `{name}`"
        yield (getattr(command, "help", "") or "").strip()
        if rows := list(_rows(command)):
            yield "\n".join(("| | what it is |", "|---|---|", *rows))
    for below, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from _told(each, f"{name} {below}", level=level + 1)


def _rows(command: TyperCommand | TyperGroup) -> Iterator[str]:
    """A row for each argument and option: how it is written, what it is, and what else is to be known."""
    for parameter in command.params:
        is_argument = parameter.param_type_name == "argument"
        written = parameter.name.upper() if is_argument else ", ".join((*parameter.opts, *parameter.secondary_opts))
        remarks = [(getattr(parameter, "help", None) or "").strip().replace("\n", " ").replace("|", "\\|")]
        if parameter.required:
            remarks.append("Required.")
        elif _has_default(parameter.default):
            remarks.append(f"Default: `{getattr(parameter.default, 'value', parameter.default)}`.")
        if parameter.envvar:
            remarks.append(f"Environment: `{parameter.envvar}`.")
        yield f"| `{written}` | {' '.join(remarks)} |"


def _has_default(default: object) -> bool:
    return not (default is None or default == () or isinstance(default, bool) or callable(default))
