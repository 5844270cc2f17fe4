"""The tables and triggers of the SQLite file, version by version, and the migrations between them."""

from __future__ import annotations

import atexit
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Final

from memory_retrievers.backends.sql import ITEM_INDEXES, columns_in
from memory_retrievers.errors import ConfigurationError

_COLUMNS: Final = columns_in({"BOOLEAN": "INTEGER"})

_FIRST: Final = (
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # A scope's version rises with every change of what a search may see in it; an id is never used again.
    "CREATE TABLE scopes (id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE, version INTEGER DEFAULT 0)",
    # Long texts live in `excerpts` and `passage_contents`, so that rows stay short.
    f"""CREATE TABLE memories (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        scope_id INTEGER NOT NULL REFERENCES scopes (id),
        {_COLUMNS["memories"]},
        UNIQUE (scope_id, id)
    )""",
    # Answers "which memories may this search see" from the index alone.
    "CREATE INDEX memories_by_state ON memories (scope_id, kind, invalid_at, expires_at, category)",
    "CREATE INDEX memories_by_age ON memories (scope_id, kind, created_at)",
    """CREATE TABLE excerpts (
        memory INTEGER PRIMARY KEY REFERENCES memories (row) ON DELETE CASCADE,
        messages TEXT NOT NULL
    )""",
    # AUTOINCREMENT: the id of a passage is never used again, so caches may key on it.
    """CREATE TABLE passages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
        part TEXT NOT NULL,
        UNIQUE (memory, part)
    )""",
    """CREATE TABLE passage_contents (
        passage INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        vector BLOB NOT NULL
    )""",
    f"CREATE TABLE postings ({_COLUMNS['postings']}) WITHOUT ROWID",
    f"CREATE TABLE keyword_statistics ({_COLUMNS['keyword_statistics']}) WITHOUT ROWID",
    f"""CREATE TABLE pending_reviews (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        scope_id INTEGER NOT NULL REFERENCES scopes (id),
        {_COLUMNS["pending_reviews"]}
    )""",
    "CREATE INDEX pending_reviews_by_scope ON pending_reviews (scope_id, id)",
)

_WRITES_THROUGH: Final = "(SELECT json_extract(value, '$.write_through') FROM notes WHERE name = 'adoption')"

_PROJECTION: Final = (
    f"CREATE TABLE projection ({_COLUMNS['projection']})",
    "INSERT INTO projection VALUES (1, NULL, 0, 0)",
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, passage INTEGER NOT NULL)",
    """CREATE TRIGGER projected_passage_removed AFTER DELETE ON passages
        WHEN OLD.id <= (SELECT claimed FROM projection) BEGIN
        INSERT INTO outbox (passage) VALUES (OLD.id); END""",
    """CREATE TRIGGER projected_memory_changed
        AFTER UPDATE OF scope_id, category, created_at, expires_at, invalid_at, tier, origin ON memories
        WHEN (NEW.scope_id, NEW.category, NEW.created_at, NEW.expires_at, NEW.invalid_at, NEW.tier, NEW.origin)
            IS NOT (OLD.scope_id, OLD.category, OLD.created_at, OLD.expires_at, OLD.invalid_at, OLD.tier, OLD.origin)
        BEGIN
        INSERT INTO outbox (passage)
            SELECT id FROM passages WHERE memory = NEW.row AND id <= (SELECT claimed FROM projection); END""",
    # The vectors of another embedder, until there is one for every passage.
    """CREATE TABLE new_vectors (
        passage INTEGER PRIMARY KEY REFERENCES passages (id) ON DELETE CASCADE,
        vector BLOB NOT NULL
    )""",
    # What was adopted from a collection, or written to it: its id there, and the digest of what stood there last.
    """CREATE TABLE adopted (
        id TEXT PRIMARY KEY,
        memory INTEGER NOT NULL UNIQUE REFERENCES memories (row) ON DELETE CASCADE,
        digest BLOB NOT NULL
    ) WITHOUT ROWID""",
    # What that collection has still to take, where changes are written through: a memory, or an id that is gone.
    "CREATE TABLE unwritten (id INTEGER PRIMARY KEY AUTOINCREMENT, memory INTEGER, gone TEXT)",
    f"""CREATE TRIGGER unwritten_metadata AFTER UPDATE OF metadata ON memories
        WHEN NEW.metadata IS NOT OLD.metadata AND {_WRITES_THROUGH} BEGIN
        INSERT INTO unwritten (memory) VALUES (NEW.row); END""",
    # before: the row in `adopted` goes with the memory
    f"""CREATE TRIGGER unwritten_removal BEFORE DELETE ON memories WHEN {_WRITES_THROUGH} BEGIN
        INSERT INTO unwritten (gone) SELECT id FROM adopted WHERE memory = OLD.row; END""",
)

_CONVERSATIONS: Final = (
    "ALTER TABLE memories ADD COLUMN replaced_by TEXT",
    "ALTER TABLE memories ADD COLUMN is_flashbulb INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX memories_replaced ON memories (scope_id, replaced_by) WHERE replaced_by IS NOT NULL",
    """CREATE INDEX episodes_without_facts ON memories (scope_id, created_at, id)
        WHERE kind = 'episodic' AND consolidated_at IS NULL""",
    f"""CREATE TABLE queued_messages (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        scope_id INTEGER NOT NULL REFERENCES scopes (id),
        {_COLUMNS["queued_messages"]}
    )""",
    f"""CREATE TABLE queues (
        scope_id INTEGER PRIMARY KEY REFERENCES scopes (id) ON DELETE CASCADE,
        {_COLUMNS["queues"]},
        window_doubled INTEGER NOT NULL DEFAULT 0,
        previous_summary TEXT
    )""",
    f"""CREATE TABLE review_jobs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        scope_id INTEGER NOT NULL REFERENCES scopes (id),
        {_COLUMNS["review_jobs"]}
    )""",
    "CREATE INDEX review_jobs_by_scope ON review_jobs (scope_id, id)",
    "ALTER TABLE pending_reviews ADD COLUMN job INTEGER REFERENCES review_jobs (id)",
    "CREATE INDEX pending_reviews_by_job ON pending_reviews (job) WHERE job IS NOT NULL",
)

_MANAGEMENT: Final = (
    f"""CREATE TABLE associations (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
        target INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
        {_COLUMNS["associations"]}
    )""",
    "CREATE UNIQUE INDEX associations_by_pair ON associations (min(source, target), max(source, target))",
    "CREATE INDEX associations_by_source ON associations (source)",
    "CREATE INDEX associations_by_target ON associations (target)",
    f"""CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
        {_COLUMNS["audit"]}
    )""",
    "CREATE INDEX audit_by_memory ON audit (memory, type, at)",
    "CREATE INDEX audit_by_age ON audit (at)",
    # Lists of what the tools have stored, newest first, and "which of it may a search see", from the index alone.
    """CREATE INDEX memories_by_origin ON memories
        (scope_id, origin, created_at, id, kind, invalid_at, expires_at, tier, content_type)""",
    "CREATE INDEX memories_that_expire ON memories (expires_at) WHERE expires_at IS NOT NULL",
)

_TRACES: Final = (
    # A row of a collection may name the scope of its memory.
    f"""CREATE TRIGGER unwritten_move AFTER UPDATE OF scope_id ON memories
        WHEN NEW.scope_id IS NOT OLD.scope_id AND {_WRITES_THROUGH} BEGIN
        INSERT INTO unwritten (memory) VALUES (NEW.row); END""",
)

_SCENES: Final = (
    # What makes an episode a scene of a story.
    "ALTER TABLE memories ADD COLUMN scene TEXT",
    "CREATE INDEX scenes ON memories (scope_id, created_at, id) WHERE scene IS NOT NULL",
    f"""CREATE TABLE characters (
        row INTEGER PRIMARY KEY,
        scope_id INTEGER NOT NULL REFERENCES scopes (id),
        {_COLUMNS["characters"]},
        UNIQUE (scope_id, name)
    )""",
)

_TURNS: Final = (
    # The messages of episodes may be passages of their own.
    "ALTER TABLE passages ADD COLUMN speaker TEXT",
    "ALTER TABLE passages ADD COLUMN tells_time INTEGER NOT NULL DEFAULT 0",
    # A row of a collection holds what stands for its memory as a whole.
    "DROP TRIGGER IF EXISTS unwritten_passage",
    f"""CREATE TRIGGER unwritten_passage AFTER INSERT ON passages
        WHEN NEW.part IN ('episodic', 'semantic') AND {_WRITES_THROUGH} BEGIN
        INSERT INTO unwritten (memory) VALUES (NEW.memory); END""",
)

_KEYED_CONVERSATIONS: Final = (
    # A queue is that of a conversation of a scope; one without a name has an empty one.
    "ALTER TABLE queued_messages ADD COLUMN conversation TEXT NOT NULL DEFAULT ''",
    # What is queued is found before it is part of an episode: the vector of what is said, once somebody has made it.
    "ALTER TABLE queued_messages ADD COLUMN vector BLOB",
    "DROP INDEX IF EXISTS queued_messages_by_scope",
    "CREATE INDEX queued_messages_by_conversation ON queued_messages (scope_id, conversation, row)",
    # These name the table, which gets another key.
    "DROP TRIGGER IF EXISTS summary_removed",
    "DROP TRIGGER IF EXISTS summary_changed",
    "ALTER TABLE queues RENAME TO queues_of_scopes",
    f"""CREATE TABLE queues (
        scope_id INTEGER NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
        conversation TEXT NOT NULL,
        {_COLUMNS["queues"]},
        heard_at INTEGER NOT NULL,
        window_doubled INTEGER NOT NULL DEFAULT 0,
        previous_summary TEXT,
        PRIMARY KEY (scope_id, conversation)
    )""",
    """INSERT INTO queues (scope_id, conversation, heard_at, window_doubled, previous_summary)
        SELECT q.scope_id, '', max(m.timestamp), q.window_doubled, q.previous_summary
        FROM queues_of_scopes q JOIN queued_messages m ON m.scope_id = q.scope_id GROUP BY q.scope_id""",
    "DROP TABLE queues_of_scopes",
    # It remembers what the episode before it said: as long as that episode says so, and no longer.
    """CREATE TRIGGER summary_removed AFTER DELETE ON memories WHEN OLD.kind = 'episodic' BEGIN
        UPDATE queues SET previous_summary = NULL
        WHERE scope_id = OLD.scope_id AND previous_summary = OLD.content; END""",
    """CREATE TRIGGER summary_changed AFTER UPDATE OF content, scope_id ON memories
        WHEN OLD.kind = 'episodic' AND (NEW.content, NEW.scope_id) IS NOT (OLD.content, OLD.scope_id) BEGIN
        UPDATE queues SET previous_summary = NULL
        WHERE scope_id = OLD.scope_id AND previous_summary = OLD.content; END""",
    "ALTER TABLE memories ADD COLUMN conversation_id TEXT",
    "ALTER TABLE memories ADD COLUMN summary_by TEXT NOT NULL DEFAULT 'caller'",
)

_FACTS: Final = (
    # A number that equal facts have in common; those of older stores get theirs when it is first asked for.
    "ALTER TABLE memories ADD COLUMN text_hash INTEGER",
    "ALTER TABLE memories ADD COLUMN last_confirmed_at INTEGER",
    "CREATE INDEX facts_by_text ON memories (scope_id, text_hash) WHERE kind = 'semantic'",
    f"""CREATE TABLE fact_versions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory INTEGER NOT NULL REFERENCES memories (row) ON DELETE CASCADE,
        {_COLUMNS["fact_versions"]}
    )""",
    "CREATE INDEX fact_versions_by_memory ON fact_versions (memory, valid_at)",
)

_RAISE: Final = "UPDATE scopes SET version = version + 1 WHERE id = {scope}"
_NOTE: Final = "INSERT INTO changes SELECT id, version, {memory} FROM scopes WHERE id = {scope}"


def _noting(name: str, when: str, *scopes: str, memory: str) -> tuple[str, str]:
    """The trigger of this name made anew, which also notes the memory that has changed."""
    does = "; ".join(statement.format(scope=scope, memory=memory) for scope in scopes for statement in (_RAISE, _NOTE))
    return f"DROP TRIGGER IF EXISTS {name}", f"CREATE TRIGGER {name} AFTER {when} BEGIN {does}; END"


_SEEN: Final = ("invalid_at", "expires_at", "category", "start_at")
_OF_PASSAGE: Final = "(SELECT scope_id FROM memories WHERE row = {row}.memory)"

_CHANGES: Final = (
    # Which memory changed with each version of a scope, so that who knows an earlier one need not compare all.
    """CREATE TABLE changes (
        scope_id INTEGER NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
        version INTEGER NOT NULL,
        memory INTEGER NOT NULL,
        PRIMARY KEY (scope_id, version)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER changes_bounded AFTER INSERT ON changes WHEN NEW.version % 500 = 0 BEGIN
        DELETE FROM changes WHERE scope_id = NEW.scope_id AND version <= NEW.version - 2000; END""",
    *_noting("memory_added", "INSERT ON memories", "NEW.scope_id", memory="NEW.row"),
    *_noting(
        "memory_changed",
        f"UPDATE OF {', '.join(_SEEN)} ON memories WHEN "
        f"({', '.join(f'OLD.{each}' for each in _SEEN)}) IS NOT ({', '.join(f'NEW.{each}' for each in _SEEN)})",
        "NEW.scope_id",
        memory="NEW.row",
    ),
    *_noting(
        "memory_moved",
        "UPDATE OF scope_id ON memories WHEN OLD.scope_id IS NOT NEW.scope_id",
        "OLD.scope_id",
        "NEW.scope_id",
        memory="NEW.row",
    ),
    *_noting("memory_removed", "DELETE ON memories", "OLD.scope_id", memory="OLD.row"),
    *_noting("passage_added", "INSERT ON passages", _OF_PASSAGE.format(row="NEW"), memory="NEW.memory"),
    *_noting("passage_removed", "DELETE ON passages", _OF_PASSAGE.format(row="OLD"), memory="OLD.memory"),
)

_TOKENS: Final = tuple(
    # The vectors of a text's tokens, one after another; none where nobody has made them yet.
    f"ALTER TABLE {table} ADD COLUMN tokens BLOB"
    for table in ("passage_contents", "new_vectors", "queued_messages")
)

_EVENTS: Final = (
    f"""CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        scope_id INTEGER NOT NULL REFERENCES scopes (id) ON DELETE CASCADE,
        {_COLUMNS["events"]}
    )""",
    "CREATE INDEX events_by_memory ON events (scope_id, memory)",
    """CREATE TRIGGER events_removed AFTER DELETE ON memories BEGIN
        DELETE FROM events WHERE scope_id = OLD.scope_id AND memory = OLD.row; END""",
    """CREATE TRIGGER events_moved AFTER UPDATE OF scope_id ON memories WHEN OLD.scope_id IS NOT NEW.scope_id BEGIN
        UPDATE events SET scope_id = NEW.scope_id WHERE scope_id = OLD.scope_id AND memory = NEW.row; END""",
)

# No table changes: postings may have kinds like `turn:1`, which an older version of the package would not find.
_VOLUMES: Final[tuple[str, ...]] = ()

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    _FIRST,
    _PROJECTION,
    _CONVERSATIONS,
    _MANAGEMENT,
    _TRACES,
    _SCENES,
    _TURNS,
    _KEYED_CONVERSATIONS,
    _FACTS,
    _CHANGES,
    _TOKENS,
    ITEM_INDEXES,
    _EVENTS,
    _VOLUMES,
)
"""The first n make schema version n, but for what a later one makes anew; it is kept in ``PRAGMA user_version``."""


def version_of(connection: sqlite3.Connection) -> int:
    """Version of the file's schema; 0 if nothing has been written yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path | None) -> None:
    """Raise an error if a newer version of the package wrote the schema."""
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise ConfigurationError(
            f"{path} was written by a newer version of memory-retrievers (schema {version}, this one knows "
            f"{len(MIGRATIONS)}): upgrade the package. Nothing was changed."
        )


def refuse_older(connection: sqlite3.Connection, path: Path | None) -> None:
    """Raise an error if the file must be migrated before it can be read."""
    if any(MIGRATIONS[(version := version_of(connection)) :]):  # one without statements changes nothing to be read
        raise ConfigurationError(
            f"{path} was written by an older version of memory-retrievers (schema {version}, this one reads "
            f"{len(MIGRATIONS)}): open it once without read_only=True, or a copy of its directory where it cannot be "
            "written, which brings it up to date"
        )


def fill(connection: sqlite3.Connection) -> None:
    """Create the tables of a database without a page: copied from an empty one, in one transaction and little time."""
    _empty(MIGRATIONS).backup(connection, progress=refuse_to_wait)


def refuse_to_wait(status: int, *_: int) -> None:
    """End a copy of a database that waits for a lock, which SQLite would go on to try for."""
    if status in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:  # even after the timeout; it would be tried for ever
        raise sqlite3.OperationalError("database is locked")


@lru_cache(maxsize=1)
def _empty(_migrations: tuple[tuple[str, ...], ...]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(connection.close)
    atexit.register(_empty.cache_clear)  # first: what opens a store later than this makes one of its own
    migrate(connection)
    return connection


def migrate(connection: sqlite3.Connection) -> None:
    """Create the tables or bring them up to date, in one transaction."""
    if version_of(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another opener may have migrated while this one waited for the lock
        for statements in MIGRATIONS[version_of(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise
