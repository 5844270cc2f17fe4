"""The commands that show the memory tools and call them as a language model would: tools list, tools call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from memory_retrievers.cli.app import BAD_INPUT, mistakes_in_one_line
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Scope, Store
from memory_retrievers.cli.places import Place
from memory_retrievers.cli.printing import print_json, print_table
from memory_retrievers.cli.stores import to_fill, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.tools.hosting import HostRules
from memory_retrievers.tools.registry import find_tool, offered_tools
from memory_retrievers.tools.toolbox import LocalToolbox

app = typer.Typer(no_args_is_help=True, help="Show the memory tools, and call them as a language model would.")

_TOOL: Final = ("name", "writes", "arguments", "description")

AllowScopes: TypeAlias = Annotated[
    bool, typer.Option("--allow-scopes", help="Offer the arguments and tools that name scopes within the root.")
]


@app.command("list")
@mistakes_in_one_line()
def list_tools(
    *,
    allow_scopes: AllowScopes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what a model is told of them, as JSON.")] = False,
) -> None:
    """List the tools: what each is called, whether it changes anything, its arguments, what it is for."""
    tools = offered_tools(allow_scopes=allow_scopes)
    offered = [tool.offered_arguments(allow_scopes=allow_scopes) for tool in tools]
    if as_json:
        told = [
            {"name": tool.name, "description": tool.description, "parameters": arguments.model_json_schema()}
            for tool, arguments in zip(tools, offered, strict=True)
        ]
        print_json({"tools": told})
        return
    rows = [
        (tool.name, "yes" if tool.writes else "no", ", ".join(arguments.offered()), tool.description)
        for tool, arguments in zip(tools, offered, strict=True)
    ]
    print_table(_TOOL, rows)


@app.command("call")
@mistakes_in_one_line()
def call(
    *,
    name: Annotated[str, typer.Argument(help="The name of the tool.")],
    scope: Scope,
    arguments: Annotated[str, typer.Option("--json", help="The arguments, as a JSON object.")] = "{}",
    root: Annotated[str | None, typer.Option(help="The scope no argument can leave; --scope if left out.")] = None,
    allow_scopes: AllowScopes = False,
    sync_directory: Annotated[Path | None, typer.Option(help="Where memory_sync keeps its files.")] = None,
    store: Store = DEFAULT_STORE,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Call a tool and print its result as JSON; where the tool fails, that is the error object, and exit code 2.

    Unlike the other commands, this counts as a use of what is found: it is what an agent does.
    """
    given = _object(arguments)
    rules = HostRules(root=root, allow_scopes=allow_scopes, sync_directory=sync_directory)
    writes = find_tool(name).writes
    with _open(store, writes=writes, embedder=embedder, embedder_id=embedder_id) as memory:
        output = LocalToolbox(rules.context(memory, scope=scope)).call(name, given)
    print_json(output.artifact)
    if output.is_error:
        raise typer.Exit(BAD_INPUT)


def _open(store: Place, *, writes: bool, embedder: str | None, embedder_id: str | None) -> AgentMemory:
    """For a tool that writes the store is made if need be; for one that only reads it has to be there."""
    if writes:
        return to_fill(store, embedder=embedder, embedder_id=embedder_id)
    return to_search(store, embedder=embedder, embedder_id=embedder_id, retrieval=RetrievalSettings())


def _object(arguments: str) -> JsonObject:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"--json takes the arguments as a JSON object: {error}") from error
    if not isinstance(given, dict):
        raise ValidationError('--json takes the arguments as a JSON object, for example \'{"query": "Lyon"}\'')
    return given
