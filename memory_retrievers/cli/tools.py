"""Commands that list the memory tools and call them as a language model would: tools list, tools call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from memory_retrievers.cli.app import BAD_INPUT, OfScope, command
from memory_retrievers.cli.options import BUNDLED, EmbedderOptions
from memory_retrievers.cli.output import print_json, print_table
from memory_retrievers.cli.stores import Place, to_fill, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject
from memory_retrievers.settings import RetrievalSettings, ToolSettings
from memory_retrievers.tools.registry import LocalToolbox, find_tool, offered_tools
from memory_retrievers.tools.sync import MAX_BYTES
from memory_retrievers.tools.tool import ToolPolicy

app = typer.Typer(no_args_is_help=True, help="Show the memory tools, and call them as a language model would.")

_TOOL: Final = ("name", "writes", "arguments", "description")

_OWN_IMPORTS: Final = {"import_max_bytes": MAX_BYTES, "import_max_values": 5_000_000, "import_max_memories": 100_000}
"""What ``memory_sync`` takes in here: all that it writes, since the document is the user's own, and so is the memory
that reading it takes. Servers and models keep to the defaults of ``ToolSettings``."""

AllowScopes: TypeAlias = Annotated[
    bool, typer.Option("--allow-scopes", help="Offer the arguments and tools that name scopes within the root.")
]


@app.command("list")
@command
def list_tools(
    *,
    allow_scopes: AllowScopes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print their descriptions for a model, as JSON.")] = False,
) -> None:
    """List the tools: what each is called, whether it changes anything, its arguments, what it is for."""
    tools = offered_tools("all", allow_scopes=allow_scopes)
    offered = [tool.offered_arguments(allow_scopes=allow_scopes) for tool in tools]
    if as_json:
        shown = [
            {"name": tool.name, "description": tool.description, "parameters": arguments.model_json_schema()}
            for tool, arguments in zip(tools, offered, strict=True)
        ]
        print_json({"tools": shown})
        return
    rows = [
        (tool.name, "yes" if tool.writes else "no", ", ".join(arguments.offered()), tool.description)
        for tool, arguments in zip(tools, offered, strict=True)
    ]
    print_table(_TOOL, rows)


@app.command("call")
@command
def call(
    *,
    name: Annotated[str, typer.Argument(help="The name of the tool.")],
    at: OfScope,
    arguments: Annotated[str, typer.Option("--json", help="The arguments, as a JSON object.")] = "{}",
    root: Annotated[str | None, typer.Option(help="The scope no argument can leave; --scope if left out.")] = None,
    allow_scopes: AllowScopes = False,
    sync_directory: Annotated[Path | None, typer.Option(help="Where memory_sync keeps its files.")] = None,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Call a tool and print its result as JSON; where the tool fails, that is the error object, and exit code 2.

    Unlike the other commands, this counts as a use of what is found: it is what an agent does.
    \f

    Args:
        name: Name of the tool.
        at: Scope and store of the memories.
        arguments: Arguments of the tool, as a JSON object.
        root: Scope that no client can leave; None is that of the memories.
        allow_scopes: Offer the tools' scope arguments.
        sync_directory: Directory of ``memory_sync``; None lets no tool touch a file.
        embedder: Names the embedder.
    """  # noqa: D301
    given = _object(arguments)
    rules = ToolPolicy(root=root or at.scope, allow_scopes=allow_scopes, sync_directory=sync_directory)
    writes = find_tool(name).writes
    with _open(at.store, writes=writes, embedder=embedder) as memory:
        output = LocalToolbox(rules.context(memory, scope=at.scope)).call(name, given)
    print_json(output.artifact)
    if output.is_error:
        raise typer.Exit(BAD_INPUT)


def _open(store: Place, *, writes: bool, embedder: EmbedderOptions) -> AgentMemory:
    """Open the store for a tool; one that writes makes a missing store, one that only reads requires it."""
    if writes:
        tools = ToolSettings.from_environment(otherwise=_OWN_IMPORTS)
        return to_fill(store, embedder=embedder, options={"tools": tools})
    return to_search(store, embedder=embedder, retrieval=RetrievalSettings())


def _object(arguments: str) -> JsonObject:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"--json takes the arguments as a JSON object: {error}") from error
    if not isinstance(given, dict):
        raise ValidationError('--json takes the arguments as a JSON object, for example \'{"query": "Lyon"}\'')
    return given
