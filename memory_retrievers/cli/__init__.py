"""The command line: try a memory, read it, write to it, maintain it.

Markdown and JSON are printed unchanged, so that they can be piped. Tables are drawn on a terminal and tab-separated
elsewhere. An error that the caller can correct ends with exit code 2 and one line on standard error. Reading does not
count as use: nothing is recorded for review.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_retrievers.cli import evaluate, maintain, query, serve, write  # noqa: F401 - they list theirs
from memory_retrievers.cli.app import COMMANDS, app

__all__ = ["app"]

_PANELS: Final[Mapping[str, str]] = {
    "Try it": "demo",
    "Look into a memory": (
        "retrieve explain-missing context recent profile list get history events diff scopes stats waiting inspect ui"
    ),
    "Change what it holds": (
        "remember update invalidate add-messages process flush review forget forget-messages forget-scope"
    ),
    "Maintain it": "doctor verify rebuild purge reembed reindex",
    "Copy or move it": "backup export import migrate import-chroma",
    "Serve it": "serve mcp",
}

for _panel, _names in _PANELS.items():
    for _name in _names.split():
        app.command(_name, rich_help_panel=_panel)(COMMANDS[_name])

app.add_typer(write.tools, name="tools", rich_help_panel="Change what it holds")
app.add_typer(evaluate.app, name="eval", rich_help_panel="Measure it")
