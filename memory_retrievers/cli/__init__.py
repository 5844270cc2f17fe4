"""The command line: try a memory out, read it, write to it, maintain it.

Markdown and JSON are printed as they are, so that they can be piped; tables are drawn on a terminal only and are
tab-separated elsewhere. Whatever the caller can put right ends with exit code 2 and one line on standard error.
Looking into a memory here does not count as a use of it: nothing is filed for review.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memory_retrievers.cli import conversations, evaluate, maintain, query, serve, write
from memory_retrievers.cli.app import app, command

__all__ = ["app"]

_COMMANDS: Final[Mapping[str, Mapping[str, Callable[..., None]]]] = {
    "Try it": {"demo": write.demo},
    "Look into a memory": {
        "retrieve": query.retrieve,
        "explain-missing": query.explain_missing,
        "context": conversations.context,
        "recent": query.recent,
        "profile": query.profile,
        "list": query.list_memories,
        "get": query.get,
        "history": query.history,
        "events": query.events,
        "diff": query.diff,
        "scopes": query.scopes,
        "stats": query.stats,
        "waiting": conversations.waiting,
        "inspect": query.inspect,
        "ui": serve.ui,
    },
    "Change what it holds": {
        "remember": write.remember,
        "update": write.update,
        "invalidate": write.invalidate,
        "add-messages": conversations.add_messages,
        "process": conversations.process,
        "flush": conversations.flush,
        "review": conversations.review,
        "forget": write.forget,
        "forget-scope": write.forget_scope,
    },
    "Keep it whole": {
        "doctor": maintain.doctor,
        "verify": maintain.verify,
        "rebuild": maintain.rebuild,
        "purge": maintain.purge,
        "reembed": maintain.reembed,
        "reindex": maintain.reindex,
    },
    "Take it elsewhere": {
        "backup": maintain.backup,
        "export": maintain.export,
        "import": maintain.import_,
        "migrate": maintain.migrate,
        "import-chroma": maintain.import_chroma,
    },
    "Serve it": {"serve": serve.serve, "mcp": serve.mcp},
}

for _panel, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(command(_command))

app.add_typer(write.tools, name="tools", rich_help_panel="Change what it holds")
app.add_typer(evaluate.app, name="eval", rich_help_panel="Measure it")
