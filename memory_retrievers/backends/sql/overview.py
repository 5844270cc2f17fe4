"""What a person looks through: the tree of scopes, pages of a scope in either order and at any moment, and traces.

Each query reads only as many rows as it shows, or counts in the database, so it takes no longer in a large store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Dialect, Part, one
from memory_retrievers.backends.sql.facts import SQLFacts
from memory_retrievers.backends.sql.memories import listed, listed_rows
from memory_retrievers.backends.sql.rows import BELOW, COLUMNS, below, encode_json, memory_of
from memory_retrievers.models import AnyMemory, scopes
from memory_retrievers.models.fields import moment
from memory_retrievers.models.results import Position
from memory_retrievers.models.selection import Listing

TEXT_SHOWN: Final = 2_000  # characters of a text in a page; the memory itself may hold a million
METADATA_SHOWN: Final = 4_000  # characters of metadata, as JSON, in a page: larger ones are left out

_SHORTENED: Final = {
    "metadata": f"CASE WHEN length(m.metadata) <= {METADATA_SHOWN} THEN m.metadata ELSE '{{}}' END",
    "title": f"substr(m.title, 1, {TEXT_SHOWN + 1})",
    "scene": "NULL",
}
_COLUMNS: Final = ", ".join(_SHORTENED.get(column, f"m.{column}") for column in COLUMNS)


class Listed(NamedTuple):
    """A memory in a list, and how many versions it has; long texts are cut, and messages left out."""

    memory: AnyMemory
    versions: int


class ScopeCounts(NamedTuple):
    """What a scope holds itself."""

    scope: str  # its path
    facts: int  # facts that hold
    episodes: int  # episodes
    open: int  # conversations that are queued
    below: int  # scopes beneath it


class QueuedConversation(NamedTuple):
    """Messages of a conversation that wait to become an episode."""

    scope: str  # its scope
    conversation: str | None  # its name, or None
    messages: int  # how many there are
    oldest: datetime  # when the first of them was said


class SQLOverview(Part):
    """Questions about a store as a whole, each of bounded cost."""

    def schema(self) -> int:
        """Version of the schema of the store as it is now, whoever has raised it."""
        return int(self.value(self.dialect.schema_version))

    def children(self, under: str | None, *, after: str | None, limit: int) -> list[ScopeCounts]:
        """List the scopes directly below one that hold something or have scopes below them.

        Args:
            under: The scope; None lists the topmost.
            after: Last scope of the page before; None begins.
            limit: Largest number of scopes.
        """
        prefix = "" if under is None else f"{under}/"
        with self.database.read(snapshot=True) as connection:
            return _counted(connection, _direct(connection, prefix, after=after, limit=limit))

    def counts(self, scope: str) -> ScopeCounts:
        """Count what one scope holds itself, and the scopes below it."""
        with self.database.read() as connection:
            return _counted(connection, [scope])[0]

    def page(self, listing: Listing, *, after: Position | None, limit: int) -> list[Listed]:
        """List memories by ``created_at``, then by id.

        Args:
            listing: Which memories, in which order.
            after: Position of the last memory of the page before; None begins.
            limit: Largest number of memories.
        """
        with self.database.read(snapshot=True) as connection:
            dialect, rows = connection.dialect, listed_rows(connection, listing, after=after, limit=limit)
            shown = {"rows": dialect.listed(rows)}
            memories = {
                row: memory_of(tuple(columns))
                for row, *columns in connection.execute(
                    f"""SELECT m.row, {_COLUMNS}, m.kind, substr(m.content, 1, {TEXT_SHOWN + 1}),
                    (SELECT s.scope FROM scopes s WHERE s.id = m.scope_id), NULL
                    FROM memories m WHERE {dialect.among("m.row", ":rows")}""",
                    shown,
                )
            }
            of_rows = dialect.among("memory", ":rows")
            counting = f"SELECT memory, count(*) FROM fact_versions WHERE {of_rows} GROUP BY memory"
            former = dict(connection.execute(counting, shown).fetchall())
        if listing.as_of is not None:
            memories = SQLFacts(self.database).then(memories, as_of=listing.as_of)
        return [Listed(memories[row], 1 + former.get(row, 0)) for row in rows]

    def count(self, listing: Listing) -> int:
        """Count the memories of a listing."""
        with self.database.read(snapshot=True) as connection:
            return sum(
                int(one(connection, f"SELECT count(*) FROM memories m WHERE {condition}", values))
                for kind in listing.kinds
                for condition, values in [listed(connection.dialect, listing.of(kind))]
            )

    def earliest(self, within: str | None) -> datetime | None:
        """The moment of the first memory of a scope and those below it, or of all."""
        first = self.value(
            f"""SELECT min((SELECT min(m.created_at) FROM memories m WHERE m.scope_id = s.id AND m.kind = k.kind))
            FROM scopes s, (SELECT 'episodic' AS kind UNION ALL SELECT 'semantic') AS k WHERE {_within(within)}""",
            _scope_values(within),
        )
        return None if first is None else moment(first)

    def state(self, within: str | None, *, include_child_scopes: bool = True) -> tuple[int, ...]:
        """Numbers that change with what a scope and those below it hold, or all, except for labels and ratings.

        They are read from indexes alone.
        """
        asked = _scope_values(within, include_child_scopes=include_child_scopes)
        with self.database.read(snapshot=True) as connection:
            found = connection.execute(
                f"SELECT count(*), coalesce(max(s.id), 0), coalesce(sum(s.version), 0) FROM scopes s "
                f"WHERE {_within(within)}",
                asked,
            ).fetchone()
            queued = connection.execute(
                f"""SELECT count(*), coalesce(max(m.row), 0) FROM queued_messages m JOIN scopes s ON s.id = m.scope_id
                WHERE {_within(within)}""",
                asked,
            ).fetchone()
        return tuple(map(int, (*found, *queued)))

    def ratings(self, scope: str) -> tuple[int, ...]:
        """Numbers that change with labels, ratings and reviews; reads all memories of the scope."""
        (found,) = self.query(
            f"""SELECT count(*), coalesce(max(m.updated_at), 0), coalesce(max(m.last_reviewed_at), 0),
            coalesce(sum(CAST(m.importance * 10000 AS BIGINT)), 0),
            coalesce(sum(CASE WHEN m.importance_pinned THEN 1 ELSE 0 END), 0)
            FROM memories m WHERE m.{OF_SCOPE}""",
            {"scope": scope},
        )
        return tuple(map(int, found))

    def queues(self, within: str | None, *, limit: int) -> list[QueuedConversation]:
        """List the conversations that wait, in a scope and those below it or in all, the longest waiting first."""
        found = self.query(
            f"""SELECT s.scope, m.conversation, count(*), min(m.timestamp) FROM queued_messages m
            JOIN scopes s ON s.id = m.scope_id WHERE {_within(within)}
            GROUP BY s.scope, m.conversation ORDER BY min(m.timestamp), s.scope, m.conversation LIMIT :limit""",
            _scope_values(within) | {"limit": limit},
        )
        return [
            QueuedConversation(scope, conversation or None, messages, moment(oldest))
            for scope, conversation, messages, oldest in found
        ]

    def pending_reviews(self, within: str | None) -> int:
        """Count the retrievals of a scope and those below it, or of all, that wait for their review."""
        sql = f"SELECT count(*) FROM pending_reviews r JOIN scopes s ON s.id = r.scope_id WHERE {_within(within)}"
        return int(self.value(sql, _scope_values(within)))

    def traces(self, scope: str, *, id: str) -> dict[str, int]:
        """Count what belongs to a memory and what names it, by what it is."""
        asked = {"scope": scope, "id": id, "name": encode_json(id)}
        with self.database.read(snapshot=True) as connection:
            row = f"(SELECT m.row FROM memories m WHERE m.{OF_SCOPE} AND m.id = :id)"
            counted = {
                "passages": f"SELECT count(*) FROM passages WHERE memory = {row}",
                "earlier versions": f"SELECT count(*) FROM fact_versions WHERE memory = {row}",
                "associations": f"SELECT count(*) FROM associations WHERE source = {row} OR target = {row}",
                "audit entries": f"SELECT count(*) FROM audit WHERE memory = {row}",
                "mentions as a source": f"SELECT count(*) FROM memories m WHERE {_naming(self.dialect)}",
            }
            return {what: int(one(connection, sql, asked)) for what, sql in counted.items()}

    def derived(self, scope: str, *, id: str, limit: int) -> list[str]:
        """List the ids of memories that name one as their source, oldest first.

        Args:
            scope: Scope of the memory.
            id: Its id.
            limit: Largest number of ids.
        """
        naming = f"SELECT m.id FROM memories m WHERE {_naming(self.dialect)} ORDER BY m.created_at, m.id LIMIT :limit"
        return self.column(naming, {"scope": scope, "name": encode_json(id), "limit": limit})


def _naming(dialect: Dialect) -> str:
    """SQL condition for a memory ``m`` to name another one as its source."""
    named = (f"{dialect.position}(m.{column}, :name) > 0" for column in ("source_episodic_ids", "consolidated_from"))
    return f"m.{OF_SCOPE} AND ({' OR '.join(named)})"


def _direct(connection: Connection, prefix: str, *, after: str | None, limit: int) -> list[str]:
    """Scopes directly below a prefix, in the order in which the index first tells of each: itself, or one below it.

    What is below a scope need not follow it at once: ``a-b`` stands between ``a`` and ``a/b``.
    """
    end = f"{prefix[:-1]}0" if prefix else None
    position, inclusive = prefix, True
    if after is not None:  # behind itself if it was listed itself, and behind all that is below it if not
        inclusive = not _is_scope(connection, after)
        position = scopes.child_range(after)[1] if inclusive else after
    first, is_new = position, dict[str, bool]()
    while True:
        page = connection.execute(
            f"""SELECT scope FROM scopes WHERE scope {">=" if inclusive else ">"} :position
            AND (CAST(:end AS TEXT) IS NULL OR scope < :end) ORDER BY scope LIMIT :limit""",
            {"position": position, "end": end, "limit": limit},
        ).fetchall()
        for (found,) in page:
            child = prefix + found[len(prefix) :].partition("/")[0]
            if child not in is_new:  # one before the first was listed when it came itself, in an earlier page
                is_new[child] = found == child or child > first or not _is_scope(connection, child)
            position, inclusive = (child, False) if found == child else (scopes.child_range(child)[1], True)
        listed = [child for child, is_listed in is_new.items() if is_listed]
        if len(page) < limit or len(listed) >= limit:
            return listed[:limit]


def _is_scope(connection: Connection, name: str) -> bool:
    return one(connection, "SELECT 1 FROM scopes WHERE scope = ?", (name,)) is not None


def _counted(connection: Connection, names: Sequence[str]) -> list[ScopeCounts]:
    """Count what each of some scopes holds itself, in their order; they need hold nothing, and need not be there."""
    found = connection.execute(
        f"""SELECT asked.value,
        (SELECT count(*) FROM memories m WHERE m.scope_id = s.id AND m.kind = 'semantic' AND m.invalid_at IS NULL),
        (SELECT count(*) FROM memories m WHERE m.scope_id = s.id AND m.kind = 'episodic'),
        (SELECT count(DISTINCT q.conversation) FROM queued_messages q WHERE q.scope_id = s.id),
        (SELECT count(*) FROM scopes b WHERE b.scope >= asked.value || '/' AND b.scope < asked.value || '0')
        FROM ({connection.dialect.items(":names")}) AS asked LEFT JOIN scopes s ON s.scope = asked.value""",
        {"names": encode_json(names)},
    )
    counts = {name: ScopeCounts(name, *map(int, numbers)) for name, *numbers in found}
    return [counts[name] for name in names]


def _within(scope: str | None) -> str:
    return "TRUE" if scope is None else BELOW


def _scope_values(scope: str | None, *, include_child_scopes: bool = True) -> dict[str, object]:
    return {} if scope is None else below(scope, include_child_scopes=include_child_scopes)
