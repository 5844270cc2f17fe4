"""Commands of conversations: queue what was said, make memories of it, recall for a turn, say how they served."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from memory_retrievers.cli.app import (
    DEFAULT_STORE,
    AsJson,
    Category,
    ChildScopes,
    OfScope,
    SemanticLimit,
    Store,
    listed,
)
from memory_retrievers.cli.options import BUNDLED, DEFAULTS, EmbedderOptions, ModelOptions, store_options
from memory_retrievers.cli.output import print_answer, print_json, print_memories, print_table, print_text
from memory_retrievers.cli.stores import to_change, to_fill, to_look_into, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import iso
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Report
from memory_retrievers.settings import RetrievalSettings

Conversation = Annotated[
    str | None, typer.Option("--conversation", help="Which of the scope's conversations, for example a thread's id.")
]


@listed
def _add_messages(at: OfScope, conversation: Conversation = None, embedder: EmbedderOptions = BUNDLED) -> None:
    """Queue messages, given as JSON on standard input: a list of {"role": …, "content": …}, or one on each line."""
    messages = _messages_from_standard_input()
    with to_fill(at.store, embedder=embedder) as memory:
        queued = memory.add_messages(at.scope, messages, conversation=conversation)
    print_text(f"{queued.accepted} accepted, {queued.queued} wait{', some of them due' if queued.due else ''}")


@listed
def _process(
    *,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope; all if left out.")] = None,
    store: Store = DEFAULT_STORE,
    include_child_scopes: ChildScopes = False,
    as_json: AsJson = False,
    model: ModelOptions = DEFAULTS,
) -> None:
    """Turn what is due of the queued messages into episodes and facts, and print these."""
    store.require_store()
    options = store_options(model)
    with to_fill(store, embedder=model, options=options) as memory:
        report = memory.process_due(scope, include_child_scopes=include_child_scopes)
    _print_made(report, as_json=as_json)


@listed
def _flush(
    *, at: OfScope, conversation: Conversation = None, as_json: AsJson = False, model: ModelOptions = DEFAULTS
) -> None:
    """Make episodes of everything that is queued in a scope, as at the end of a session, and print them."""
    at.store.require_store()
    options = store_options(model)
    with to_fill(at.store, embedder=model, options=options) as memory:
        report = memory.flush(at.scope, conversation)
    _print_made(report, as_json=as_json)


@listed
def _waiting(
    *,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Whose messages; the scopes in which any wait if left out.")
    ] = None,
    store: Store = DEFAULT_STORE,
    limit: Annotated[int, typer.Option(min=0, help="At most this many messages.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Print the messages of a scope that no episode has been made of yet."""
    with to_look_into(store) as memory:
        scopes = memory.waiting_scopes() if scope is None else []
        messages = [] if scope is None else memory.waiting(scope, limit=limit)
    if as_json:
        counts = (
            {"scopes": scopes} if scope is None else {"messages": [each.model_dump(mode="json") for each in messages]}
        )
        print_json(counts)
    elif scope is None:
        for name in scopes:
            print_text(name)
    else:
        rows = [("" if each.timestamp is None else iso(each.timestamp), each.role, each.content) for each in messages]
        print_table(("timestamp", "role", "content"), rows)


@listed
def _context(
    *,
    query: Annotated[str, typer.Argument(help="What a turn is about.")],
    at: OfScope,
    semantic_limit: SemanticLimit = 20,
    category: Category = None,
    include_child_scopes: ChildScopes = False,
    max_tokens: Annotated[
        int | None, typer.Option(min=0, help="Print at most so many tokens, four characters each.")
    ] = None,
    as_json: AsJson = False,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Print the facts to put before a turn; nothing where none bears on it."""
    with to_search(at.store, embedder=embedder, retrieval=RetrievalSettings()) as memory:
        result = memory.context(
            query,
            scope=at.scope,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
        )
    print_answer(result.to_dict() if as_json else result.to_markdown(max_tokens=max_tokens))


@listed
def _review(
    id: Annotated[str, typer.Argument(help="The id of the episode.")],
    rating: Annotated[str, typer.Argument(help="How it served: again, hard, good or easy.")],
    at: OfScope,
) -> None:
    """Say how an episode served, so that it fades slower or faster from now on."""
    with to_change(at.store) as memory:
        memory.review(id, scope=at.scope, rating=rating)


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
