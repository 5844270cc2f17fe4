"""The statistics that ANALYZE keeps of a table: samples of its values, in which deleted data could survive.

Since schema version 2 none are kept of columns that hold texts, ids or vectors. Plans do well without: the keys of the
tables show what is rare. It also keeps one tenant from reading values of others in the estimates of EXPLAIN.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from memory_retrievers.backends.postgres.connection import Connection
from memory_retrievers.backends.sql.connection import one

_logger: Final = logging.getLogger("memory_retrievers")

_TEXT: Final = 'text COLLATE "C"'
_TEXTS: Final = {
    "scopes": ("scope",),
    "memories": (
        *("id", "agent_id", "tags", "keywords", "source_episodic_ids", "consolidated_from", "title", "content"),
        *("metadata", "replaced_by", "scene"),
    ),
    "excerpts": ("messages",),
    "passages": ("speaker",),
    "passage_contents": ("text",),
    "postings": ("term",),
    "queued_messages": ("id", "content"),
    "queues": ("fence", "previous_summary"),
    "review_jobs": ("conversation",),
    "pending_reviews": ("query", "memories"),
    "audit": ("reason",),
    "characters": ("name", "known_events", "state"),
    "adopted": ("id",),
    "unwritten": ("gone",),
}
_OTHERS: Final = {
    "passage_contents": (("vector", "vector"),),
    "new_vectors": (("vector", "vector"),),
    "adopted": (("digest", "bytea"),),
}
_FACTS: Final = {
    "memories": (("text_hash", "bigint"),),
    "fact_versions": (
        *((column, _TEXT) for column in ("fact", "keywords")),
        *((column, "vector") for column in ("vector", "new_vector")),
    ),
}
"""What has come with the versions of facts."""

_FIRST: Final = {
    table: (*((column, _TEXT) for column in _TEXTS.get(table, ())), *_OTHERS.get(table, ()))
    for table in {**_TEXTS, **_OTHERS}
}
"""Those that there were when this was decided; what has been added since is below."""

_CONVERSATIONS: Final = {
    "memories": (("conversation_id", _TEXT),),
    "queued_messages": (("conversation", _TEXT), ("vector", "vector")),
    "queues": (("conversation", _TEXT),),
}
_TOKENS: Final = dict.fromkeys(("passage_contents", "new_vectors", "queued_messages"), (("tokens", "bytea"),))
_ITEMS: Final = {"memories": (("item_value", "jsonb"),)}
_EVENTS: Final = {"events": tuple((column, _TEXT) for column in ("channel", "actor", "fields"))}
_PARTS: Final = (_FIRST, _CONVERSATIONS, _FACTS, _TOKENS, _ITEMS, _EVENTS)
_COLUMNS: Final = {
    table: tuple(column for part in _PARTS for column in part.get(table, ()))
    for table in {**_FIRST, **_FACTS, **_EVENTS}
}
ITEM_VALUE: Final = r"""item_value jsonb GENERATED ALWAYS AS (
    CASE WHEN origin = 'store' THEN CAST(replace(metadata, '\u0000', '\u001a0') AS jsonb) -> 'value' END) STORED"""
"""The column of the values of a LangGraph store's items, as filters compare them; a NUL is escaped as in a text."""

_CATALOGS: Final = ("pg_statistic", "pg_statistic_ext_data")

UNSAMPLED: Final = {table: tuple(column for column, _ in columns) for table, columns in _COLUMNS.items()}
"""Of every table, the columns of which no values are kept."""

_INDEXES: Final = """DO $unsample$ DECLARE name text; BEGIN
    FOR name IN SELECT indexrelid::regclass FROM pg_index
        JOIN pg_partition_tree('passage_contents'::regclass) ON relid = indrelid WHERE indexprs IS NOT NULL
    LOOP EXECUTE format('ALTER INDEX %s ALTER COLUMN 1 SET STATISTICS 0', name); END LOOP;
END $unsample$"""


def _unsampled(columns: Mapping[str, Sequence[tuple[str, str]]]) -> tuple[str, ...]:
    return tuple(
        f"ALTER TABLE {table} {', '.join(f'ALTER COLUMN {name} SET STATISTICS 0' for name, _ in named)}"
        for table, named in columns.items()
    )


UNSAMPLE: Final[tuple[str, ...]] = (*_unsampled(_FIRST), _INDEXES)
"""Statements that keep ANALYZE from taking samples; those that it has taken are there until they are cleared."""

UNSAMPLE_CONVERSATIONS: Final = _unsampled(_CONVERSATIONS)
"""The same for the columns that conversations got later."""

UNSAMPLE_FACTS: Final = _unsampled(_FACTS)
"""The same for the former versions of facts."""

UNSAMPLE_ITEMS: Final = _unsampled(_ITEMS)
"""The same for the values of items."""

UNSAMPLE_EVENTS: Final = _unsampled(_EVENTS)
"""The same for who has changed memories."""

UNSAMPLE_TOKENS: Final = _unsampled(_TOKENS)
"""The same for the vectors of tokens."""

_SAMPLED: Final = """
    WITH parts AS (SELECT CAST(? AS regclass) AS relid UNION SELECT relid FROM pg_partition_tree(CAST(? AS regclass)))
    SELECT count(*) FROM pg_stats JOIN pg_class ON relname = tablename AND relnamespace = schemaname::regnamespace
    WHERE schemaname = current_schema() AND (
        pg_class.oid IN (SELECT relid FROM parts) AND attname = ANY(?)
        OR pg_class.oid IN (SELECT indexrelid FROM pg_index JOIN parts ON relid = indrelid)
    )
"""


def clear(connection: Connection) -> None:
    """Delete the statistics of these columns, from older versions or an explicit ANALYZE."""
    for table, columns in _COLUMNS.items():
        if not one(connection, _SAMPLED, (table, table, list(UNSAMPLED[table]))):
            continue
        if table == "scopes":  # policies stand on its column, so its type cannot be set
            _sample_what_is_there(connection)
            continue
        # a column that gets the type it has keeps its values and loses its samples, as do the indexes on it
        generated = {name for name, _ in _ITEMS.get(table, ())}  # goes and comes again: what it is made of stays as is
        anew = [f"ALTER COLUMN {name} TYPE {type_}" for name, type_ in columns if name not in generated]
        statements = [f"ALTER TABLE {table} {', '.join(anew)}"]
        if generated:
            statements = [f"ALTER TABLE {table} DROP COLUMN item_value", *statements]
            statements.append(f"ALTER TABLE {table} ADD COLUMN {ITEM_VALUE}")
        connection.run("; ".join(statements))
    connection.run(";".join((*_unsampled(_COLUMNS), _INDEXES)))


def compact(connection: Connection) -> None:
    """Rewrite the catalogs that hold samples, so that cleared ones are in no file.

    Only the owner of the database can do it; for another role a warning is logged.
    """
    if not one(connection, "SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()"):
        _logger.warning(
            "samples of forgotten texts that ANALYZE took before schema version 2 are cleared, but may stand in free "
            "space of the server's files until the owner of the database runs VACUUM FULL pg_statistic"
        )
        return
    for catalog in _CATALOGS:
        connection.run(f"VACUUM (FULL) pg_catalog.{catalog}")


def _sample_what_is_there(connection: Connection) -> None:
    """Replace the samples by those of current rows, or of a temporary row in an empty table."""
    connection.run("""BEGIN;
        CREATE TEMP TABLE placeholder ON COMMIT DROP AS SELECT nextval(pg_get_serial_sequence('scopes', 'id')) AS id
            WHERE NOT EXISTS (SELECT FROM scopes);
        INSERT INTO scopes (id, scope) SELECT id, '-' FROM placeholder;
        ALTER TABLE scopes ALTER COLUMN scope SET STATISTICS 1;
        ANALYZE scopes (scope);
        DELETE FROM scopes WHERE id IN (SELECT id FROM placeholder);
        COMMIT""")
