"""Commands that write: by hand, from conversations and by the memory tools; and the demo."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from memory_retrievers.cli.app import (
    BAD_INPUT,
    DEFAULT_STORE,
    PLACE,
    AsJson,
    ChildScopes,
    OfScope,
    Store,
    Yes,
    command,
    listed,
)
from memory_retrievers.cli.options import (
    BUNDLED,
    DEFAULTS,
    PAIRS,
    EmbedderOptions,
    ModelOptions,
    json_object,
    metadata_of,
)
from memory_retrievers.cli.output import print_json, print_line, print_memories, print_table, print_text
from memory_retrievers.cli.stores import Place, opened, to_change, to_search
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.evaluation import samples
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import Category, Draft, EpisodicMemory, SemanticMemory
from memory_retrievers.models import scopes as scope_paths
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Report
from memory_retrievers.retrieval.markdown import NO_MEMORIES
from memory_retrievers.settings import ToolSettings
from memory_retrievers.storage.options import StoreOptions
from memory_retrievers.tools.registry import LocalToolbox, find_tool, offered_tools
from memory_retrievers.tools.sync import MAX_BYTES
from memory_retrievers.tools.tool import ToolPolicy


@listed
def _remember(
    *,
    at: OfScope,
    fact: Annotated[str | None, typer.Option(help="One sentence to store as a fact.")] = None,
    category: Annotated[str | None, typer.Option(help="Category of the fact; the default is note.")] = None,
    keyword: Annotated[list[str] | None, typer.Option(help="Keyword of the fact; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag of the fact; may be repeated.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(metavar=PAIRS, help="Its metadata; may be repeated.")] = None,
    replaces: Annotated[str | None, typer.Option(metavar="ID", help="Id of a fact that this one replaces.")] = None,
    allow_duplicates: Annotated[bool, typer.Option("--allow-duplicates", help="Store it even if it is known.")] = False,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Store a fact, or an episode given as JSON on standard input, and print its id.

    For a known fact the id of the known one is printed. Facts that it may contradict, because they differ in a number,
    a name or a negation, are printed on standard error.

    An episode has a summary and may have a title, messages (role, content, timestamp), surprise (0 to 1), start_at,
    end_at and the other fields of EpisodicMemory.new.
    """
    scope_paths.parse(at.scope)
    draft: Draft
    if fact is not None:
        draft = SemanticMemory.new(
            scope=at.scope,
            fact=fact,
            category=category or Category.NOTE,
            keywords=keyword or (),
            tags=tag or (),
            metadata=metadata_of(metadata),
        )
    elif any((category, keyword, tag, metadata, replaces, allow_duplicates)):
        raise ValidationError(
            "--category, --keyword, --tag, --metadata, --replaces and --allow-duplicates belong to a fact: give --fact "
            "as well"
        )
    else:
        draft = _episode_from_standard_input(at.scope)
    with opened(at.store, **embedder.options()) as memory:
        (stored,) = memory.remember_many([draft], allow_duplicates=allow_duplicates, replacing=[replaces])
    print_text(stored.id)
    for near in stored.near if isinstance(stored, SemanticMemory) else ():
        print_line(f"near, and differs: {near.id} {near.fact}", err=True)


@listed
def _update(
    id: Annotated[str, typer.Argument(help="The id of the memory.")],
    *,
    at: OfScope,
    fact: Annotated[str | None, typer.Option(help="New text of a fact.")] = None,
    correct: Annotated[bool, typer.Option("--correct", help="Correct a mistake: the old text is not kept.")] = False,
    summary: Annotated[str | None, typer.Option(help="New summary of an episode.")] = None,
    title: Annotated[str | None, typer.Option(help="New title of an episode.")] = None,
    category: Annotated[str | None, typer.Option(help="New category of a fact.")] = None,
    keyword: Annotated[list[str] | None, typer.Option(help="New keyword of a fact; may be repeated.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="New tag; may be repeated.")] = None,
    importance: Annotated[float | None, typer.Option(help="New importance, 0 to 1.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar=PAIRS, help="New metadata, replacing all; may be repeated.")
    ] = None,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Replace fields of a memory; the old text of a fact stays in its history."""
    at.store.require_store()
    given = {
        "fact": fact,
        "summary": summary,
        "title": title,
        "category": category,
        "keywords": keyword,
        "tags": tag,
        "importance": importance,
        "metadata": None if metadata is None else metadata_of(metadata),
    }
    fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise ValidationError("nothing to change: give --fact, --summary, --title, --tag or another field")
    with opened(at.store, **embedder.options()) as memory:
        memory.update(id, scope=at.scope, correct=correct, **fields)


Conversation = Annotated[
    str | None, typer.Option("--conversation", help="Conversation within the scope, for example a thread id.")
]


@listed
def _add_messages(at: OfScope, conversation: Conversation = None, embedder: EmbedderOptions = BUNDLED) -> None:
    """Queue messages, given as JSON on standard input: a list of {"role": …, "content": …}, or one on each line."""
    messages = _messages_from_standard_input()
    with opened(at.store, **embedder.options()) as memory:
        queued = memory.add_messages(at.scope, messages, conversation=conversation)
    print_text(f"{queued.accepted} accepted, {queued.queued} wait{', some of them due' if queued.due else ''}")


@listed
def _process(
    *,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope; the default is all.")] = None,
    store: Store = DEFAULT_STORE,
    include_child_scopes: ChildScopes = False,
    as_json: AsJson = False,
    model: ModelOptions = DEFAULTS,
) -> None:
    """Turn due queued messages into episodes and facts, and print them."""
    store.require_store()
    with opened(store, **model.options()) as memory:
        report = memory.process_due(scope, include_child_scopes=include_child_scopes)
    _print_made(report, as_json=as_json)


@listed
def _flush(
    *, at: OfScope, conversation: Conversation = None, as_json: AsJson = False, model: ModelOptions = DEFAULTS
) -> None:
    """Turn all queued messages of a scope into episodes, as at the end of a session, and print them."""
    at.store.require_store()
    with opened(at.store, **model.options()) as memory:
        report = memory.flush(at.scope, conversation)
    _print_made(report, as_json=as_json)


@listed
def _review(
    id: Annotated[str, typer.Argument(help="The id of the episode.")],
    rating: Annotated[str, typer.Argument(help="How useful it was: again, hard, good or easy.")],
    at: OfScope,
) -> None:
    """Rate how useful an episode was, so that it fades more slowly or faster."""
    with to_change(at.store) as memory:
        memory.review(id, scope=at.scope, rating=rating)


@listed
def _invalidate(id: Annotated[str, typer.Argument(help="The id of the fact.")], at: OfScope) -> None:
    """Mark a fact as no longer valid: it is kept, but no longer found."""
    with to_change(at.store) as memory:
        memory.invalidate(id, scope=at.scope)


@listed
def _forget(id: Annotated[str, typer.Argument(help="The id of the memory.")], at: OfScope) -> None:
    """Delete a memory permanently, with every trace of it."""
    with to_change(at.store) as memory:
        memory.forget(id, scope=at.scope)


@listed
def _forget_messages(
    said: Annotated[list[str], typer.Argument(help="All words of each message; … stands for omitted ones.")],
    at: OfScope,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Delete messages; print their number, and the ids of memories that were made from them."""
    at.store.require_store()
    with opened(at.store, **embedder.options()) as memory:
        forgotten = memory.forget_messages(at.scope, said)
        for each in (forgotten.messages, *forgotten.memories):
            print_text(each)


@listed
def _forget_scope(
    scope: Annotated[str, typer.Argument(help="The scope; scopes below are included.")],
    store: Store = DEFAULT_STORE,
    yes: Yes = False,
) -> None:
    """Delete everything in a scope and the scopes below, and print the number of deleted memories."""
    scope_paths.parse(scope)
    if not yes:
        raise ValidationError(f"this removes all memories in {scope!r} and below for good: give --yes to do it")
    with to_change(store) as memory:
        print_text(memory.forget_scope(scope))


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


def _print_made(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(report.to_dict())
    else:
        print_memories([*report.episodes, *report.facts])
        print_text(f"{report.waiting} messages wait", err=True)


def _messages_from_standard_input() -> list[Message | dict[str, Any]]:
    if sys.stdin is None or sys.stdin.isatty():
        raise ValidationError('no messages: give JSON such as {"role": "user", "content": "Hello."} on standard input')
    given, place = sys.stdin.buffer.read(), ""
    messages: list[Message | dict[str, Any]] = []
    try:
        if is_list := given.lstrip().startswith(b"["):
            messages = json.loads(given)
        for number, line in enumerate([] if is_list else given.splitlines(), start=1):
            place = f", message in line {number}"
            if line.strip():
                messages.append(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"messages are read from standard input as JSON{place}: {error}") from error
    return messages


DEMO_STORE: Final = Place.named(".demo-memory")


@listed
def _demo(
    store: Annotated[
        Place, typer.Option("--store", parser=Place.named, metavar=PLACE, help="Location of the sample history.")
    ] = DEMO_STORE,
    scope: Annotated[str, typer.Option("--scope", help="Scope of the sample history.")] = samples.SCOPE,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Ask a sample history three questions; it is loaded on the first run."""
    scope_paths.parse(scope)
    with opened(store, **embedder.options()) as memory:
        _load_samples_once(memory, scope)
        for question, shown in samples.QUESTIONS.items():
            result = memory.retrieve(question, scope=scope, episodic_limit=2, semantic_limit=2, record=False)
            print_text(f"# {question}\n\n{shown}\n\n{result.to_markdown() or NO_MEMORIES}\n")
    place = f"--store {shlex.quote(str(store))} --scope {shlex.quote(scope)}"
    name = "memory-retrievers"
    if Path(sys.argv[0]).stem == name and shutil.which(name) is None:  # as in an environment that is not activated
        name = shlex.quote(sys.argv[0])
    print_text(f'The memories are in {store}. Try: {name} retrieve "{samples.NEXT}" {place}')


def _load_samples_once(memory: AgentMemory, scope: str) -> None:
    history = samples.load_history(scope=scope, now=datetime.now(UTC))
    try:
        memory.get(str(history[0].id), scope=scope)  # loaded all at once, so the first stands for the rest
    except NotFoundError:
        memory.remember_many(history)


tools = typer.Typer(no_args_is_help=True, help="Show the memory tools, and call them as a language model would.")

_OWN_IMPORTS: Final = {"import_max_bytes": MAX_BYTES, "import_max_values": 5_000_000, "import_max_memories": 100_000}
"""Limits of ``memory_sync`` here: all that it writes can be imported, since the document is the user's own. Servers and
models keep to the defaults of ``ToolSettings``."""

AllowScopes: TypeAlias = Annotated[
    bool, typer.Option("--allow-scopes", help="Offer the arguments and tools that name scopes within the root.")
]


@tools.command("list")
@command
def _list_tools(
    *,
    allow_scopes: AllowScopes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print their descriptions for a model, as JSON.")] = False,
) -> None:
    """List the tools: name, whether it writes, arguments and description."""
    chosen = offered_tools("all", allow_scopes=allow_scopes)
    offered = [tool.offered_arguments(allow_scopes=allow_scopes) for tool in chosen]
    if as_json:
        shown = [
            {"name": tool.name, "description": tool.description, "parameters": arguments.model_json_schema()}
            for tool, arguments in zip(chosen, offered, strict=True)
        ]
        print_json({"tools": shown})
        return
    rows = [
        (tool.name, "yes" if tool.writes else "no", ", ".join(arguments.offered()), tool.description)
        for tool, arguments in zip(chosen, offered, strict=True)
    ]
    print_table(("name", "writes", "arguments", "description"), rows)


@tools.command("call")
@command
def _call(
    *,
    name: Annotated[str, typer.Argument(help="The name of the tool.")],
    at: OfScope,
    arguments: Annotated[str, typer.Option("--json", help="The arguments, as a JSON object.")] = "{}",
    root: Annotated[str | None, typer.Option(help="Scope that no argument can leave; the default is --scope.")] = None,
    allow_scopes: AllowScopes = False,
    sync_directory: Annotated[Path | None, typer.Option(help="Directory of the files of memory_sync.")] = None,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Call a tool and print its result as JSON; if the tool fails, print the error object, with exit code 2.

    Unlike the other commands, this counts as use of the memories found, as for an agent.
    """
    given = json_object("--json", arguments)
    rules = ToolPolicy(root=root or at.scope, allow_scopes=allow_scopes, sync_directory=sync_directory)
    if find_tool(name).writes:  # it makes a missing store; one that only reads requires it
        own = ToolSettings.from_environment(otherwise=_OWN_IMPORTS)
        found = opened(at.store, **embedder.options() | StoreOptions(tools=own))
    else:
        found = to_search(at.store, embedder=embedder)
    with found as memory:
        output = LocalToolbox(rules.context(memory, scope=at.scope)).call(name, given)
    print_json(output.artifact)
    if output.is_error:
        raise typer.Exit(BAD_INPUT)
