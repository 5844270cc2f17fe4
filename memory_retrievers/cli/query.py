"""Commands that read."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from memory_retrievers.backends.files import new_file, outside
from memory_retrievers.cli import inspect as inspection
from memory_retrievers.cli import output
from memory_retrievers.cli.app import (
    DEFAULT_STORE,
    AsJson,
    Category,
    ChildScopes,
    LeastRelevance,
    Limits,
    OfScope,
    Ranking,
    SemanticLimit,
    Store,
    listed,
)
from memory_retrievers.cli.options import BUNDLED, PAIRS, EmbedderOptions, json_object, metadata_of
from memory_retrievers.cli.stores import to_look_into, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import ScopeStatistics
from memory_retrievers.models.fields import iso
from memory_retrievers.models.filters import FilterOptions, SearchOptions
from memory_retrievers.models.memories import ANSWER_FIELDS
from memory_retrievers.retrieval.markdown import empty_block_text
from memory_retrievers.retrieval.results import PROFILE_TOKENS, parse_detail


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterGroup:
    """Filters of a search or a list."""

    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only memories with this tag; may be repeated.")] = None
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata",
            metavar=PAIRS,
            help="Only memories with this value in their metadata: JSON, or else text; may be repeated.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", help="Only facts created, and episodes begun, then or later (ISO 8601).")
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", help="Only facts created, and episodes begun, then or earlier (ISO 8601).")
    ] = None
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="JSON", help='Filter by operators: {"metadata.team": {"in": ["a", "b"]}}.'),
    ] = None

    def parsed(self) -> FilterOptions:
        """Return the filters as options of a search."""
        return {
            "tags": self.tag or (),
            "metadata": metadata_of(self.metadata),
            "since": self.since,
            "until": self.until,
            "where": None if self.where is None else json_object("--where", self.where),
        }


MaxTokens: TypeAlias = Annotated[int | None, typer.Option(min=0, help="Maximum of tokens, four characters each.")]
NO_FILTERS: Final = FilterGroup()
LIMITS: Final = Limits()
RANKING: Final = Ranking()


@listed
def _retrieve(
    *,
    query: Annotated[str, typer.Argument(help="What to search for, in plain words.")],
    at: OfScope,
    limits: Limits = LIMITS,
    category: Category = None,
    filters: FilterGroup = NO_FILTERS,
    min_relevance: LeastRelevance = "0",
    as_of: Annotated[str | None, typer.Option("--as-of", help="Search what was valid at this time (ISO 8601).")] = None,
    exclude_conversation: Annotated[
        str | None, typer.Option("--exclude-conversation", help="Exclude episodes of this conversation.")
    ] = None,
    detail: Annotated[
        str,
        typer.Option(help="Which episodes show their messages: auto, none, low or high; excerpts shows what matches."),
    ] = "auto",
    max_tokens: MaxTokens = None,
    as_json: AsJson = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show each memory's rank and score by stage.")] = False,
    ranking: Ranking = RANKING,
) -> None:
    """Print the memories that answer a query."""
    level = parse_detail(detail)
    options = SearchOptions(
        category=category, min_relevance=min_relevance, as_of=as_of, exclude_conversation=exclude_conversation
    )
    options |= asdict(limits) | filters.parsed()  # type: ignore[typeddict-item]  # which has no further keys
    with to_search(at.store, embedder=ranking, retrieval=ranking.settings()) as memory:
        if explain:
            explained = memory.explain(query, scope=at.scope, **options)
            output.print_answer(explained.to_dict() if as_json else explained.to_text())
            return
        result = memory.retrieve(query, scope=at.scope, **options, record=False)
        _remark_on_empty_scope(memory, at.scope, found=result, below=limits.include_child_scopes)
    markdown = result.to_markdown(level, max_tokens=max_tokens) or empty_block_text(result, max_tokens)
    output.print_answer(result.to_dict() if as_json else markdown)


@listed
def _explain_missing(
    *,
    id: Annotated[str, typer.Argument(help="The id of the memory.")],
    query: Annotated[str, typer.Argument(help="The query.")],
    at: OfScope,
    limits: Limits = LIMITS,
    category: Category = None,
    min_relevance: LeastRelevance = "0",
    as_json: AsJson = False,
    ranking: Ranking = RANKING,
) -> None:
    """Show which stage of a retrieval drops a memory, or that none does."""
    with to_search(at.store, embedder=ranking, retrieval=ranking.settings()) as memory:
        explained = memory.explain_missing(
            id, query=query, scope=at.scope, category=category, min_relevance=min_relevance, **asdict(limits)
        )
    output.print_answer(explained.to_dict() if as_json else explained.to_text())


@listed
def _context(
    *,
    query: Annotated[str, typer.Argument(help="The message of the user, or a topic.")],
    at: OfScope,
    semantic_limit: SemanticLimit = 20,
    category: Category = None,
    include_child_scopes: ChildScopes = False,
    max_tokens: MaxTokens = None,
    as_json: AsJson = False,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Print the facts that are relevant to a turn, if any."""
    with to_search(at.store, embedder=embedder) as memory:
        result = memory.context(
            query,
            scope=at.scope,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
        )
        _remark_on_empty_scope(memory, at.scope, found=result, below=include_child_scopes)
    output.print_answer(result.to_dict() if as_json else result.to_markdown(max_tokens=max_tokens))


def _remark_on_empty_scope(memory: AgentMemory, scope: str, *, found: Sized, below: bool) -> None:
    if not len(found) and memory.stats(scope) == ScopeStatistics() and not (below and memory.scopes(scope)):
        output.print_line(f"The scope {scope} is empty: memory-retrievers scopes lists those with memories.", err=True)


@listed
def _recent(
    *,
    at: OfScope,
    limit: Annotated[int, typer.Option(help="Maximum number of either kind, 1 to 100.")] = 10,
    days: Annotated[float | None, typer.Option(help="Maximum age in days.")] = None,
    facts: Annotated[bool, typer.Option("--facts", help="Also print the newest facts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the newest episodes."""
    with to_look_into(at.store) as memory:
        result = memory.recent(at.scope, limit=limit, days_limit=days, facts=facts)
    output.print_answer(result.to_dict() if as_json else result.to_markdown())


@listed
def _profile(
    at: OfScope,
    max_tokens: Annotated[int, typer.Option(help="Maximum number of tokens of markdown.", min=0)] = PROFILE_TOKENS,
    as_json: AsJson = False,
) -> None:
    """Print what a model should always know: guidelines, identity, preferences and pinned facts."""
    with to_look_into(at.store) as memory:
        result = memory.profile(at.scope)
    markdown = result.to_markdown(max_tokens=max_tokens) or empty_block_text(result, max_tokens)
    output.print_answer(result.to_dict() if as_json else markdown)


@listed
def _list(
    at: OfScope,
    kind: Annotated[str | None, typer.Option(help="Only memories of this kind: episodic or semantic.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number, 1 to 1000.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Cursor printed with the previous page.")] = None,
    *,
    filters: FilterGroup = NO_FILTERS,
) -> None:
    """List the memories of a scope, newest first; if there are more, standard error has the next cursor."""
    with to_look_into(at.store) as memory:
        page = memory.list(at.scope, kind=kind, cursor=cursor, limit=limit, **filters.parsed())
    output.print_memories(page.memories)
    if page.cursor is not None:
        output.print_text(f"--cursor {page.cursor}", err=True)


@listed
def _get(id: Annotated[str, typer.Argument(help="The id of the memory.")], at: OfScope) -> None:
    """Print a whole memory as JSON."""
    with to_look_into(at.store) as memory:
        found = memory.get(id, scope=at.scope)
    output.print_json({"kind": str(found.kind)} | found.model_dump(mode="json", exclude=set(ANSWER_FIELDS)))


@listed
def _history(id: Annotated[str, typer.Argument(help="The id of the fact.")], at: OfScope) -> None:
    """List the versions of a fact, and facts that it replaced or was replaced by, in the order of validity."""
    with to_look_into(at.store) as memory:
        versions = memory.history(id, scope=at.scope)
    rows = [
        (each.id, iso(each.valid_at), "" if each.invalid_at is None else iso(each.invalid_at), each.fact)
        for each in versions
    ]
    output.print_table(("id", "valid_at", "invalid_at", "fact"), rows)


@listed
def _events(
    at: OfScope,
    id: Annotated[str | None, typer.Argument(help="The id of a memory; the default is all of the scope.")] = None,
    *,
    limit: Annotated[int, typer.Option(help="Maximum number, 1 to 1000.")] = 100,
) -> None:
    """List changes of a memory, or of all in a scope: time, event, channel and actor; newest first."""
    with to_look_into(at.store) as memory:
        found = memory.events(at.scope, id=id, limit=limit)
    rows = [
        (iso(each.at), each.type, each.id or "", each.channel, each.actor or "", " ".join(each.fields))
        for each in found
    ]
    output.print_table(("at", "event", "id", "channel", "actor", "fields"), rows)


@listed
def _diff(
    at: OfScope,
    since: Annotated[str, typer.Option(help="The earlier time (ISO 8601; UTC without a zone).")],
    *,
    until: Annotated[str | None, typer.Option(help="The later time; the default is now.")] = None,
    include_child_scopes: ChildScopes = False,
    limit: Annotated[int, typer.Option(help="Maximum number of memories, 1 to 1000.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Show what changed in a scope between two times."""
    with to_look_into(at.store) as memory:
        found = memory.diff(at.scope, since=since, until=until, include_child_scopes=include_child_scopes, limit=limit)
    if as_json:
        output.print_json(found.to_dict())
    else:
        output.print_diff(found)


@listed
def _scopes(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
) -> None:
    """List the scopes that contain memories, one a line."""
    with to_look_into(store) as memory:
        found = memory.scopes(scope)
    for name in found:
        output.print_text(name)


@listed
def _waiting(
    *,
    scope: Annotated[
        str | None,
        typer.Option("--scope", help="Scope of the messages; without it, list the scopes that have queued messages."),
    ] = None,
    store: Store = DEFAULT_STORE,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of messages.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Print the queued messages of a scope, which are not an episode yet."""
    with to_look_into(store) as memory:
        scopes = memory.waiting_scopes() if scope is None else []
        messages = [] if scope is None else memory.waiting(scope, limit=limit)
    if as_json:
        dumped = [each.model_dump(mode="json") for each in messages]
        output.print_json({"scopes": scopes} if scope is None else {"messages": dumped})
    elif scope is None:
        for name in scopes:
            output.print_text(name)
    else:
        rows = [("" if each.timestamp is None else iso(each.timestamp), each.role, each.content) for each in messages]
        output.print_table(("timestamp", "role", "content"), rows)


@listed
def _stats(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Count in this scope only.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Count the memories of the store, or of one scope."""
    with to_look_into(store) as memory:
        statistics = memory.stats(scope)
    if as_json:
        output.print_json(statistics.model_dump(mode="json"))
    else:
        output.print_statistics(statistics)


@listed
def _inspect(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="A file that does not exist yet.")],
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
    query: Annotated[
        str | None, typer.Option("--query", help="Also show why this question is answered as it is, in --scope.")
    ] = None,
    limits: Limits = LIMITS,
    limit: Annotated[
        int, typer.Option(help="Show at most this many memories of each scope, the newest; 1 to 1000.")
    ] = inspection.DEFAULT_LIMIT,
    ranking: Ranking = RANKING,
) -> None:
    """Write one HTML file: memories with search, forgetting curves, queued messages, and an explained answer."""
    settings = ranking.settings()
    if query is not None and scope is None:
        raise ValidationError("--query needs --scope: a question is asked of one scope, for example user/alice")
    with (
        new_file(outside(store.address if isinstance(store.address, Path) else None, out)) as file,
        to_look_into(store) if query is None else to_search(store, embedder=ranking, retrieval=settings) as memory,
    ):
        explained = None if query is None or scope is None else memory.explain(query, scope=scope, **asdict(limits))
        survey = inspection.survey_of(memory, within=scope, limit=limit, explained=explained)
        file.write(inspection.page_of(survey, title=store.name).encode())
    output.print_text(out)
