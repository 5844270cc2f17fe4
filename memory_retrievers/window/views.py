"""What a window shows: itself, the tree of scopes, memories at any moment, what has changed, and how a store is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from memory_retrievers import __version__
from memory_retrievers.backends.sql.overview import TEXT_SHOWN, ScopeCounts
from memory_retrievers.errors import MemoryRetrieversError, ValidationError
from memory_retrievers.fsrs import curve_of, retrievability
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, JsonObject, Kind, SemanticMemory, scopes
from memory_retrievers.models.fields import ShortText, iso, microseconds
from memory_retrievers.models.filters import Filters, parse_moment
from memory_retrievers.models.management import MemoryFilter
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Position, held, parse_cursor, position_cursor
from memory_retrievers.models.selection import Listing
from memory_retrievers.settings import Checked
from memory_retrievers.window.state import Doctor, Window

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import User

MOST_SCOPES: Final = 100  # scopes in a page of the tree
MOST_CHANGES: Final = 200  # memories that a comparison of two moments reads

MOST_DERIVED: Final = 100

Moment = Annotated[datetime | None, BeforeValidator(lambda given: parse_moment("a moment", given))]


class Query(Checked):
    """Base of the query models, without fields."""


class ScopesQuery(Query):
    """A page of the tree of scopes."""

    under: str | None = None
    cursor: str | None = None


class ScopeQuery(Query):
    """One scope."""

    scope: str


class MemoriesQuery(ScopeQuery):
    """A page of the memories of a scope."""

    cursor: Annotated[str | None, Field(max_length=5_000)] = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    kind: Literal["fact", "episode", "open"] | None = None
    as_of: Moment = None
    tag: ShortText | None = None
    oldest_first: bool = False


class MemoryQuery(ScopeQuery):
    """One memory."""

    id: ShortText


class DiffQuery(ScopeQuery):
    """A comparison of two moments."""

    since: Moment
    until: Moment = None


class PulseQuery(Query):
    """One scope, or none."""

    scope: str | None = None


def about(window: Window, _query: Query) -> JsonObject:
    """Describe the store, the root of the window, and the time of the first memory."""
    settings, earliest = window.settings, window.memory.overview.earliest(window.settings.root)
    return {
        "title": settings.title,
        "version": __version__,
        "read_only": settings.read_only,
        "root": settings.root,
        "now": iso(window.memory.now()),
        "embedder": settings.embedder,
        "backend": "PostgreSQL" if isinstance(settings.address, str) else "SQLite",
        "categories": list(map(str, Category)),
        "earliest": None if earliest is None else iso(earliest),
    }


def children(window: Window, query: ScopesQuery) -> JsonObject:
    """List the scopes directly below a scope; without one, the topmost scopes, or the root of the window."""
    root, overview = window.settings.root, window.memory.overview
    if query.under is None and root is not None:
        return {"scopes": [_scope(overview.counts(root), under=None)], "cursor": None}
    under = None if query.under is None else window.reach(query.under)
    after = None if query.cursor is None else _child_of(under, query.cursor)
    found = overview.children(under, after=after, limit=MOST_SCOPES + 1)
    shown = found[:MOST_SCOPES]
    return {
        "scopes": [_scope(each, under=under) for each in shown],
        "cursor": shown[-1].scope if len(found) > MOST_SCOPES else None,
    }


def _child_of(under: str | None, cursor: str) -> str:
    """Check that a cursor is a scope directly below."""
    child = scopes.parse(cursor)
    if child.rpartition("/")[0] != (under or ""):
        raise ValidationError("cursor must be that of an earlier page, unchanged; leave it out for the first page")
    return child


def _scope(counts: ScopeCounts, *, under: str | None) -> JsonObject:
    name = counts.scope if under is None else counts.scope[len(under) + 1 :]
    return counts._asdict() | {"name": name}


def memories(window: Window, query: MemoriesQuery) -> JsonObject:
    """List a page of the memories of a scope, with open conversations, by time of creation in either order."""
    scope, now = window.reach(query.scope), window.memory.now()
    after, overview = parse_cursor(query.cursor), window.memory.overview
    listing = Listing(
        scope=scope,
        now=now,
        kinds={"fact": (Kind.SEMANTIC,), "episode": (Kind.EPISODIC,), "open": ()}.get(query.kind or "", tuple(Kind)),
        as_of=query.as_of,
        filters=Filters(tags=() if query.tag is None else (query.tag,)),
        oldest_first=query.oldest_first,
    )
    shapes: list[tuple[AnyMemory, int]] = list(overview.page(listing, after=after, limit=query.limit + 1))
    still_open = _open(window, query, scope)
    shapes += [(each, 1) for each in still_open if _is_behind(each, after, oldest_first=query.oldest_first)]
    shapes.sort(key=lambda shape: shape[0].id)
    shapes.sort(key=lambda shape: shape[0].created_at, reverse=not query.oldest_first)
    if after is None:
        window.read_ahead(scope)
    shown = shapes[: query.limit]
    return {
        "memories": [memory_shape(memory, now=now, as_of=query.as_of, versions=versions) for memory, versions in shown],
        "cursor": position_cursor(shown[-1][0]) if len(shapes) > len(shown) else None,
        "total": overview.count(listing) + len(still_open),
    }


def _open(window: Window, query: MemoriesQuery, scope: str) -> list[EpisodicMemory]:
    """Open conversations of a listing; what they said at an earlier moment is not known, so none in the past."""
    if query.kind in {"fact", "episode"} or query.as_of is not None or query.tag is not None:
        return []
    return window.memory.manager.open_episodes(MemoryFilter(scope=scope, kinds="all"))


def _is_behind(memory: AnyMemory, after: Position | None, *, oldest_first: bool) -> bool:
    if after is None:
        return True
    made = microseconds(memory.created_at)
    if made == after.created_at:
        return memory.id > after.id
    return made > after.created_at if oldest_first else made < after.created_at


def memory(window: Window, query: MemoryQuery) -> JsonObject:
    """Return a whole memory: messages, versions, forgetting curve, sources, and memories derived from it."""
    found, now = window.find(query.id, scope=query.scope), window.memory.now()
    history = window.memory.history(found.id, scope=found.scope) if isinstance(found, SemanticMemory) else ()
    sources = (*found.consolidated_from, *(found.source_episodic_ids if isinstance(found, SemanticMemory) else ()))
    versions = [version_shape(version, of=found.id) for version in history]
    own = sum(version["id"] == found.id for version in versions)
    messages = found.messages if isinstance(found, EpisodicMemory) else ()
    return {
        "memory": memory_shape(found, now=now, versions=max(own, 1), whole=True),
        "messages": [_message(message) for message in messages[:MOST_MESSAGES]],
        "hidden_messages": max(len(messages) - MOST_MESSAGES, 0),
        "versions": versions,
        "curve": curve_shape(found, now=now),
        "sources": list(dict.fromkeys(sources)),
        "derived": window.memory.overview.derived(found.scope, id=found.id, limit=MOST_DERIVED),
        "actions": [] if window.settings.read_only else actions_of(found, now=now),
    }


def actions_of(memory: AnyMemory, *, now: datetime) -> list[str]:
    """List the names of the actions that a memory allows."""
    if isinstance(memory, EpisodicMemory):
        of_message = ["forget_message"] if memory.messages else []
        if memory.is_open:
            return ["forget", *of_message]
        return ["correct", "unpin" if memory.is_pinned else "pin", "tag", "move", "forget", *of_message]
    pin = "unpin" if memory.is_pinned else "pin"
    if memory.invalid_at is not None or memory.has_expired(now):
        return ["correct", pin, "tag", "move", "forget"]
    return ["correct", "update", "invalidate", pin, "tag", "merge", "move", "forget"]


def diff(window: Window, query: DiffQuery) -> JsonObject:
    """Compare the memories of a scope at two moments."""
    if query.since is None:
        raise ValidationError("since must be a time, as ISO 8601")
    scope, now = window.reach(query.scope), window.memory.now()
    found = window.memory.diff(scope, since=query.since, until=query.until or now, limit=MOST_CHANGES)
    context: dict[str, Any] = {"now": now, "as_of": found.until}
    return {
        "new": [memory_shape(each, **context) for each in found.added],
        "changed": [
            {
                "memory": memory_shape(after, **context),
                "before": before.fact,
                "after": after.fact,
                "at": iso(after.valid_at),
            }
            for before, after in found.changed
        ],
        "gone": [memory_shape(each, **context) for each in found.ended],
        "complete": found.is_complete,
    }


def pulse(window: Window, query: PulseQuery) -> JsonObject:
    """Return two fingerprints, of the scope and of everything within reach, that change with the contents."""
    version = None if query.scope is None else window.pulse(window.reach(query.scope))
    within = window.memory.overview.state(window.settings.root)
    return {"version": version, "store": ".".join(map(str, (*within, window.undo.changes)))}


MOST_QUEUES: Final = 200

_NOTHING_WRONG: Final = {"level": "ok", "what": "nothing is wrong", "advice": ""}
_ELSEWHERE: Final = "run memory-retrievers doctor, or open a window without --scope"


def health(window: Window, _query: Query) -> JsonObject:
    """Findings, sizes, queues, reviews and processes; of a window with a root only the queues and reviews in it."""
    overview, root = window.memory.overview, window.settings.root
    queues = [
        {"scope": each.scope, "conversation": each.conversation, "messages": each.messages, "oldest": iso(each.oldest)}
        for each in overview.queues(root, limit=MOST_QUEUES)
    ]
    counts: JsonObject = {"queue": queues, "due": overview.pending_reviews(root)}
    if root is not None:
        return _only("note", "this window does not check the store as a whole", _ELSEWHERE) | counts
    return _diagnosed(window.doctor) | counts


def _diagnosed(doctor: Doctor) -> JsonObject:
    try:
        seen = doctor.diagnosis()
    except MemoryRetrieversError as error:
        return _only("error", str(error), "run memory-retrievers doctor")
    if seen is None:
        return _only("note", "the store is being checked", "look again in a moment")
    tables = seen.tables
    level = "error" if seen.damage or seen.schema > seen.known_schema else "warning"
    findings = [{"level": level, "what": each.what, "advice": each.remedy} for each in seen.findings]
    index: JsonObject = {"backend": seen.backend, "schema": seen.schema, "known schema": seen.known_schema}
    if tables is not None:
        index |= {
            "embedder": tables.embedder,
            "dimension": tables.dimension,
            "memories": tables.memories,
            "chroma": tables.projection,
            "unprojected passages": tables.unprojected,
            "re-embedded passages": tables.reembedded,
        }
    return {
        "findings": findings or [_NOTHING_WRONG],
        "sizes": [{"name": name, "bytes": size} for name, size in seen.bytes.items()],
        "processes": [_process(user) for user in seen.users],
        "index": {name: value for name, value in index.items() if value is not None},
    }


def _only(level: str, what: str, advice: str) -> JsonObject:
    return {"findings": [{"level": level, "what": what, "advice": advice}], "sizes": [], "processes": [], "index": {}}


def _process(user: User) -> JsonObject:
    return {
        "pid": user.pid,
        "since": None if user.since is None else iso(user.since),
        "role": user.program if user.is_alive else f"{user.program} (killed)",
        "version": user.version,
        "holds": list(user.holds),
    }


MOST_MESSAGES: Final = 400
MESSAGE_SHOWN: Final = 20_000  # characters of a message that are shown

_DECIMALS: Final = 6
_DAY: Final = timedelta(days=1)

_AS_STORED: Final = {"id", "scope", "tags", "origin", "created_at", "updated_at", "agent_id", "expires_at"}


def memory_shape(
    memory: AnyMemory, *, now: datetime, as_of: datetime | None = None, versions: int = 1, whole: bool = False
) -> JsonObject:
    """Convert a memory to the JSON that the page shows.

    Args:
        memory: The memory.
        now: The current time.
        as_of: The moment at which the memory had this text; None is now.
        versions: Number of its versions.
        whole: Include long texts and metadata in full.
    """
    text = _text_of(memory)
    shape: JsonObject = memory.model_dump(mode="json", include=_AS_STORED, exclude_none=True) | {
        "kind": _kind(memory),
        "text": text if whole else text[:TEXT_SHOWN],
        "is_cut": not whole and len(text) > TEXT_SHOWN,
        "metadata": memory.metadata if whole or len(str(memory.metadata)) <= TEXT_SHOWN else {},
        "pinned": memory.is_pinned,
        "importance": round(memory.importance, _DECIMALS),
        "versions": versions,
    }
    is_there = not memory.has_expired(now)
    if isinstance(memory, SemanticMemory):
        return shape | _fact(memory) | {"active": is_there and held(memory, as_of or now)}
    return shape | _episode(memory, now) | {"active": is_there}


def _text_of(memory: AnyMemory) -> str:
    """Return the text of a memory; of an open conversation, the last message."""
    if isinstance(memory, SemanticMemory):
        return memory.fact
    return memory.messages[-1].content if memory.is_open and memory.messages else memory.summary


def _kind(memory: AnyMemory) -> str:
    if isinstance(memory, SemanticMemory):
        return "fact"
    return "open" if memory.is_open else "episode"


def _fact(fact: SemanticMemory) -> JsonObject:
    return {
        "category": str(fact.category),
        "keywords": list(fact.keywords),
        "valid_from": iso(fact.valid_at),
        "valid_until": None if fact.invalid_at is None else iso(fact.invalid_at),
        "replaced_by": None if fact.replaced_by == fact.id else fact.replaced_by,
        "retrievability": 1.0,
        "stability_days": None,
    }


def _episode(episode: EpisodicMemory, now: datetime) -> JsonObject:
    days = (now - episode.last_reviewed_at) / _DAY
    fades = not (episode.is_flashbulb or episode.is_open)
    return {
        "title": episode.title[:TEXT_SHOWN],
        "valid_from": iso(episode.start_at),
        "valid_until": None if episode.is_open else iso(episode.end_at),
        "conversation": episode.conversation_id,
        "summary_by": str(episode.summary_by),
        "surprise": round(episode.surprise, _DECIMALS),
        "retrievability": round(retrievability(max(days, 0.0), episode.stability), _DECIMALS) if fades else 1.0,
        "stability_days": round(episode.stability, _DECIMALS),
        "last_reviewed_at": iso(episode.last_reviewed_at),
        "fades": fades,
    }


def _message(message: Message) -> JsonObject:
    return {
        "role": message.role,
        "text": message.content[:MESSAGE_SHOWN],
        "at": None if message.timestamp is None else iso(message.timestamp),
    }


def version_shape(version: SemanticMemory, *, of: str) -> JsonObject:
    """A version of a fact, or of one that it has replaced or that has replaced it."""
    return {
        "id": version.id,
        "text": version.fact,
        "valid_from": iso(version.valid_at),
        "valid_until": None if version.invalid_at is None else iso(version.invalid_at),
        "current": version.id == of and version.replaced_by != of,
    }


def curve_shape(memory: AnyMemory, *, now: datetime) -> list[list[float]]:
    """The forgetting curve of an episode as pairs of days from now and retrievability; empty for what does not fade."""
    if isinstance(memory, SemanticMemory) or memory.is_open:
        return []
    points = curve_of(memory, now=now).points
    return [[round(day, _DECIMALS), round(value, _DECIMALS)] for day, value in points]
