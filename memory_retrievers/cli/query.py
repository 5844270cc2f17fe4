"""Commands that read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from memory_retrievers.backends.files import new_file, outside
from memory_retrievers.cli import inspect as inspection
from memory_retrievers.cli.app import (
    DEFAULT_STORE,
    AsJson,
    Category,
    ChildScopes,
    LeastRelevance,
    Limits,
    OfScope,
    Ranking,
    Store,
)
from memory_retrievers.cli.options import PAIRS, OptionGroup, json_object, metadata_of
from memory_retrievers.cli.output import (
    print_answer,
    print_diff,
    print_events,
    print_explained,
    print_json,
    print_memories,
    print_memory,
    print_statistics,
    print_text,
    print_versions,
)
from memory_retrievers.cli.stores import to_look_into, to_search
from memory_retrievers.errors import ValidationError
from memory_retrievers.models.filters import FilterOptions, SearchOptions
from memory_retrievers.retrieval.markdown import nothing_told
from memory_retrievers.retrieval.results import PROFILE_TOKENS, parse_detail


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterGroup(OptionGroup):
    """Options that narrow a search or a list."""

    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only memories that have this tag; again for a further one.")
    ] = None
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata",
            metavar=PAIRS,
            help="Only memories that have this under a key of their metadata: JSON, or else text. Again for further "
            "ones.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--since", help="Only facts made, and episodes begun, then or later, as ISO 8601.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", help="Only facts made, and episodes begun, then or earlier, as ISO 8601.")
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="JSON", help='A filter with operators, such as {"metadata.team": {"in": ["a", "b"]}}.'
        ),
    ] = None

    def parsed(self) -> FilterOptions:
        """The filters as a memory takes them.

        Raises:
            ValidationError: One is malformed.
        """
        return {
            "tags": self.tag or (),
            "metadata": metadata_of(self.metadata),
            "since": self.since,
            "until": self.until,
            "where": None if self.where is None else json_object("--where", self.where),
        }


NO_FILTERS: Final = FilterGroup()
LIMITS: Final = Limits()
RANKING: Final = Ranking()


def retrieve(
    *,
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    at: OfScope,
    limits: Limits = LIMITS,
    category: Category = None,
    filters: FilterGroup = NO_FILTERS,
    min_relevance: LeastRelevance = "0",
    as_of: Annotated[str | None, typer.Option("--as-of", help="Answer with what held then, as ISO 8601.")] = None,
    exclude_conversation: Annotated[
        str | None, typer.Option("--exclude-conversation", help="No episode of this conversation.")
    ] = None,
    detail: Annotated[
        str,
        typer.Option(help="Which episodes show their messages: auto, none, low or high; excerpts shows what matches."),
    ] = "auto",
    max_tokens: Annotated[
        int | None, typer.Option(min=0, help="Print at most so many tokens, four characters each.")
    ] = None,
    as_json: AsJson = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show why each memory stands where it stands; with --json in full.")
    ] = False,
    ranking: Ranking = RANKING,
) -> None:
    """Print the memories that answer a question.
    \f

    Args:
        query: Text to search for.
        at: Scope and store of the memories.
        limits: Largest numbers of episodes and facts, 0 or more, and whether to search below.
        category: Only facts of this category; None is any.
        filters: Only memories that these let through.
        min_relevance: Least relevance of what is printed, 0 to 1, or ``auto``.
        as_of: Moment whose memories are searched; None is now.
        exclude_conversation: Conversation whose episodes are left out.
        detail: Level of detail of episodes.
        max_tokens: Largest number of tokens to print, of four characters each; None is no limit.
        as_json: Print JSON.
        explain: Print the explanation of the ranking instead.
        ranking: Names the ranking profile and the embedder.
    """  # noqa: D205, D301, D415
    level = parse_detail(detail)
    options = SearchOptions(
        category=category, min_relevance=min_relevance, as_of=as_of, exclude_conversation=exclude_conversation
    )
    options |= asdict(limits) | filters.parsed()  # type: ignore[typeddict-item]  # which has no further keys
    with to_search(at.store, embedder=ranking, retrieval=ranking.settings()) as memory:
        if explain:
            explained = memory.explain(query, scope=at.scope, **options)
            if as_json:
                print_json(explained.to_dict())
            else:
                print_explained(explained)
            return
        result = memory.retrieve(query, scope=at.scope, **options, record=False)
    markdown = result.to_markdown(level, max_tokens=max_tokens) or nothing_told(result, max_tokens)
    print_answer(result.to_dict() if as_json else markdown)


def explain_missing(
    *,
    id: Annotated[str, typer.Argument(help="The id of the memory.")],
    query: Annotated[str, typer.Argument(help="What it should answer.")],
    at: OfScope,
    limits: Limits = LIMITS,
    category: Category = None,
    min_relevance: LeastRelevance = "0",
    as_json: AsJson = False,
    ranking: Ranking = RANKING,
) -> None:
    """Tell which stage of a retrieval drops a memory, or that none does.
    \f

    Args:
        id: Id of the memory.
        query: Query that the memory should answer.
        at: Scope and store of the memories.
        limits: Largest numbers of episodes and facts, 0 or more, and whether to search below.
        category: Only facts of this category; None is any.
        min_relevance: Least relevance of what is found, 0 to 1, or ``auto``.
        as_json: Print JSON.
        ranking: Names the ranking profile and the embedder.
    """  # noqa: D205, D301, D415
    with to_search(at.store, embedder=ranking, retrieval=ranking.settings()) as memory:
        explained = memory.explain_missing(
            id, query=query, scope=at.scope, category=category, min_relevance=min_relevance, **asdict(limits)
        )
    print_answer(explained.to_dict() if as_json else explained.to_text())


def recent(
    *,
    at: OfScope,
    limit: Annotated[int, typer.Option(help="At most this many of either kind, 1 to 100.")] = 10,
    days: Annotated[float | None, typer.Option(help="Only memories of the last so many days.")] = None,
    facts: Annotated[bool, typer.Option("--facts", help="Also print the newest facts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the newest episodes.
    \f

    Args:
        at: Scope and store of the memories.
        limit: Largest number of either kind, 1 to 100.
        days: Only memories stored in the last so many days; None is any age.
        facts: Also print facts.
        as_json: Print JSON.
    """  # noqa: D205, D301, D415
    with to_look_into(at.store) as memory:
        result = memory.recent(at.scope, limit=limit, days_limit=days, facts=facts)
    print_answer(result.to_dict() if as_json else result.to_markdown())


def profile(
    at: OfScope,
    max_tokens: Annotated[int, typer.Option(help="At most this many tokens of markdown.", min=0)] = PROFILE_TOKENS,
    as_json: AsJson = False,
) -> None:
    """Print what a model should always know: guidelines, identity, preferences and pinned facts.
    \f

    Args:
        at: Scope and store of the memories.
        max_tokens: Largest length of the markdown in tokens, 0 or more.
        as_json: Print JSON, with every such fact.
    """  # noqa: D205, D301, D415
    with to_look_into(at.store) as memory:
        result = memory.profile(at.scope)
    markdown = result.to_markdown(max_tokens=max_tokens) or nothing_told(result, max_tokens)
    print_answer(result.to_dict() if as_json else markdown)


def list_memories(
    at: OfScope,
    kind: Annotated[str | None, typer.Option(help="Only episodic, or only semantic memories.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many, 1 to 1000.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended, as it said.")] = None,
    *,
    filters: FilterGroup = NO_FILTERS,
) -> None:
    """List what a scope holds, newest first; where more follows, standard error says how to go on.
    \f

    Args:
        at: Scope and store of the memories.
        kind: ``episodic`` or ``semantic``; None lists both.
        limit: Largest number of memories, 1 to 1000.
        cursor: Cursor of the page before; None is the first page.
        filters: Only memories that these let through.
    """  # noqa: D205, D301, D415
    with to_look_into(at.store) as memory:
        page = memory.list(at.scope, kind=kind, cursor=cursor, limit=limit, **filters.parsed())
    print_memories(page.memories)
    if page.cursor is not None:
        print_text(f"--cursor {page.cursor}", err=True)


def get(id: Annotated[str, typer.Argument(help="The id of the memory.")], at: OfScope) -> None:
    """Print all of one memory as JSON."""
    with to_look_into(at.store) as memory:
        found = memory.get(id, scope=at.scope)
    print_memory(found)


def history(id: Annotated[str, typer.Argument(help="The id of the fact.")], at: OfScope) -> None:
    """List what a fact has said, and what it replaced or was replaced by, in the order of validity."""
    with to_look_into(at.store) as memory:
        versions = memory.history(id, scope=at.scope)
    print_versions(versions)


def events(
    at: OfScope,
    id: Annotated[str | None, typer.Argument(help="The id of a memory; all of the scope if left out.")] = None,
    *,
    limit: Annotated[int, typer.Option(help="At most this many, 1 to 1000.")] = 100,
) -> None:
    """List what happened to a memory, or to those of a scope: when, what, by which way, by whom; newest first.
    \f

    Args:
        at: Scope and store of the memories.
        id: Id of the memory; None is all.
        limit: Largest number of entries.
    """  # noqa: D205, D301, D415
    with to_look_into(at.store) as memory:
        found = memory.events(at.scope, id=id, limit=limit)
    print_events(found)


def diff(
    at: OfScope,
    since: Annotated[str, typer.Option(help="The earlier moment, as ISO 8601; UTC where it names no zone.")],
    *,
    until: Annotated[str | None, typer.Option(help="The later moment; now if left out.")] = None,
    include_child_scopes: ChildScopes = False,
    limit: Annotated[int, typer.Option(help="At most this many memories, 1 to 1000.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Show what a scope knows at one moment and did not know, or knew otherwise, at another.
    \f

    Args:
        at: Scope and store of the memories.
        since: The earlier moment.
        until: The later moment; None is now.
        include_child_scopes: The scopes below as well.
        limit: Largest number of memories.
        as_json: Print JSON, with all of each memory.
    """  # noqa: D205, D301, D415
    with to_look_into(at.store) as memory:
        found = memory.diff(at.scope, since=since, until=until, include_child_scopes=include_child_scopes, limit=limit)
    if as_json:
        print_json(found.to_dict())
    else:
        print_diff(found)


def scopes(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and those below it.")] = None,
) -> None:
    """List the scopes that hold memories, one a line."""
    with to_look_into(store) as memory:
        found = memory.scopes(scope)
    for name in found:
        print_text(name)


def stats(
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Count in this scope only.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Count what the store, or one scope, holds.
    \f

    Args:
        store: Place of the store.
        scope: Count in this scope only; None counts in all.
        as_json: Print JSON.
    """  # noqa: D205, D301, D415
    with to_look_into(store) as memory:
        statistics = memory.stats(scope)
    if as_json:
        print_json(statistics.model_dump(mode="json"))
    else:
        print_statistics(statistics)


def inspect(
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
    """Write one HTML file to look at: memories with search, forgetting curves, what waits, and why an answer.
    \f

    Args:
        out: File to write; it must not exist.
        store: Place of the store.
        scope: Only this scope and those below it; None shows all.
        query: Query to explain in ``scope``; None explains none.
        limits: Largest numbers of episodes and facts in the answer, 0 or more, and whether to search below.
        limit: Largest number of memories shown of each scope, 1 to 1000.
        ranking: Names the ranking profile and the embedder.
    """  # noqa: D205, D301, D415
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
    print_text(out)
