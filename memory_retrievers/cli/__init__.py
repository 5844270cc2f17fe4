"""The command line: try a memory out, look into it, add to it, keep it whole.

Markdown and JSON are printed as they are, so that they can be piped; tables are drawn on a terminal only and are
tab-separated elsewhere. Whatever the caller can put right ends with exit code 2 and one line on standard error.
Looking into a memory here does not count as a use of it: nothing is filed for review.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memory_retrievers.cli import adopting, demo, evaluating, mcp, moving, reading, serving, tools, upkeep, writing
from memory_retrievers.cli.app import app, mistakes_in_one_line

__all__ = ["app"]

_COMMANDS: Final[Mapping[str, Mapping[str, Callable[..., None]]]] = {
    "Try it": {"demo": demo.demo},
    "Look into a memory": {
        "retrieve": reading.retrieve,
        "explain-missing": reading.explain_missing,
        "recent": reading.recent,
        "list": reading.list_memories,
        "get": reading.get,
        "scopes": reading.scopes,
        "stats": reading.stats,
        "inspect": reading.inspect,
    },
    "Change what it holds": {
        "remember": writing.remember,
        "forget": writing.forget,
        "forget-scope": writing.forget_scope,
    },
    "Keep it whole": {
        "verify": upkeep.verify,
        "rebuild": upkeep.rebuild,
        "purge": upkeep.purge,
        "reembed": upkeep.reembed,
        "reindex": upkeep.reindex,
    },
    "Take it elsewhere": {
        "backup": moving.backup,
        "export": moving.export,
        "import": moving.import_,
        "migrate": moving.migrate,
        "import-chroma": adopting.import_chroma,
    },
    "Serve it": {"serve": serving.serve, "mcp": mcp.mcp},
}

for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(mistakes_in_one_line()(_command))

app.add_typer(tools.app, name="tools", rich_help_panel="Change what it holds")
app.add_typer(evaluating.app, name="eval", rich_help_panel="Measure it")
