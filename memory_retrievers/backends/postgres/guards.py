"""Triggers on inserts, updates and deletes of memories and passages, which run no code that another role has created.

They do what the row triggers of the SQLite file do: one function each, called once per statement.

A role that is confined to a scope may run any SQL of its own, and make temporary tables, views, functions and triggers.
So each function names every table with its schema, has only ``pg_catalog`` on its search path (``pg_temp`` is named
last, since it would come first if it were not named), runs for the table that it was made for and no other, and may
not be attached to another table by anybody but the owner.

Which of them need the owner's rights (``SECURITY DEFINER``), and why:

- ``memories_added``: since schema version 5, for ``changes``, in which a confined role only reads.
- ``memories_changed``: yes, for ``outbox``, ``unwritten`` and ``projection``, of which a confined role sees nothing.
- ``memories_removed``: yes, for these, and for associations of scopes that the session is not shown.
- ``passages_added``: yes, for ``unwritten``.
- ``passages_removed``: yes, for ``outbox`` and ``projection``.
- ``memories_numbered``, ``passages_numbered``: yes, to see that no other scope has a row of that number.
- ``number_is_drawn``: yes, to ask the sequences of the tables, on which a confined role has no rights.
- ``number_stays``: no; it only refuses.

There are no views. Policies run with the rights of the current role, and refer to tables by number, not by name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from memory_retrievers.backends.postgres.connection import Connection
from memory_retrievers.backends.sql import connection as sql
from memory_retrievers.backends.sql.connection import one

_PATH: Final = "pg_catalog, pg_temp"

_WRITES_THROUGH: Final = (
    "(SELECT coalesce((value::json ->> 'write_through')::boolean, FALSE) FROM <store>.notes WHERE name = 'adoption')"
)
_PROJECTS: Final = "(SELECT claimed FROM <store>.projection) > 0"
_RAISED: Final = """
    UPDATE <store>.scopes SET version = version + 1, raised_in = pg_current_xact_id()
    WHERE id IN ({scopes}) AND raised_in IS DISTINCT FROM pg_current_xact_id();
"""
"""A version that has been raised in this transaction is good enough for all of it."""
_CHANGED_SCOPES: Final = """
    SELECT unnest(ARRAY[was.scope_id, is_now.scope_id]) FROM was JOIN is_now USING (row)
    WHERE (was.invalid_at, was.expires_at, was.category, was.scope_id)
    IS DISTINCT FROM (is_now.invalid_at, is_now.expires_at, is_now.category, is_now.scope_id)
"""
# what a vector index outside the database filters by
_SEEN: Final = "{0}.scope_id, {0}.category, {0}.created_at, {0}.expires_at, {0}.invalid_at, {0}.tier, {0}.origin"
_REFUSED: Final = "RAISE insufficient_privilege USING MESSAGE = 'the store gives rows their numbers'"

# Rows of other tables, and of other scopes, are found by these numbers. That the owner's are right is for the owner to
# see to: only a role that is confined by policies is held to it.
_CONFINED: Final = "row_security_active('scopes'::regclass)"
_NUMBERED: Final = {"memories": ("row", "memory_rows"), "passages": ("id", "passage_ids")}
_IDENTIFIED: Final = {
    "scopes": "id",
    "queued_messages": "row",
    "review_jobs": "id",
    "pending_reviews": "id",
    "associations": "id",
    "audit": "id",
    "characters": "row",
}


def _numbers(table: str) -> str:
    column, sequence = _NUMBERED[table]
    return f"""
        IF EXISTS (SELECT FROM added WHERE added.{column} > (SELECT last_value FROM <store>.{sequence}))
        OR EXISTS (SELECT FROM added JOIN <store>.{table} other ON other.{column} = added.{column}
                   WHERE other.scope_id <> added.scope_id)
        THEN {_REFUSED}; END IF;"""


# Counted for each, by an index: joined, it might be planned as a walk through all memories.
_GONE: Final = "(SELECT count(*) FROM <store>.memories WHERE memories.row = removed.row) = 0"

_BODIES: Final = {
    "memories_added": _RAISED.format(scopes="SELECT scope_id FROM added"),
    "memories_changed": f"""
        {_RAISED.format(scopes=_CHANGED_SCOPES)}
        UPDATE <store>.queues SET previous_summary = NULL FROM was JOIN is_now USING (row)
        WHERE queues.scope_id = was.scope_id AND was.kind = 'episodic' AND previous_summary = was.content
        AND (was.content, was.scope_id) IS DISTINCT FROM (is_now.content, is_now.scope_id);
        IF {_PROJECTS} THEN
            INSERT INTO <store>.outbox (passage)
            SELECT p.id FROM was JOIN is_now USING (row) JOIN <store>.passages p ON p.memory = row
            WHERE p.id <= (SELECT claimed FROM <store>.projection)
            AND ({_SEEN.format("was")}) IS DISTINCT FROM ({_SEEN.format("is_now")});
        END IF;
        IF {_WRITES_THROUGH} THEN
            INSERT INTO <store>.unwritten (memory) SELECT row FROM was JOIN is_now USING (row)
            WHERE (was.metadata, was.scope_id) IS DISTINCT FROM (is_now.metadata, is_now.scope_id);
        END IF;""",
    # A number that a memory still has is not gone: what refers to that one stays.
    "memories_removed": f"""
        {_RAISED.format(scopes="SELECT scope_id FROM removed")}
        UPDATE <store>.queues SET previous_summary = NULL FROM removed AS gone
        WHERE queues.scope_id = gone.scope_id AND gone.kind = 'episodic' AND previous_summary = gone.content;
        DELETE FROM <store>.associations USING removed WHERE associations.target = removed.row
        AND {_GONE};
        IF {_WRITES_THROUGH} THEN
            INSERT INTO <store>.unwritten (gone)
            SELECT a.id FROM <store>.adopted a JOIN removed ON a.memory = removed.row AND {_GONE};
        END IF;
        DELETE FROM <store>.adopted USING removed WHERE adopted.memory = removed.row
        AND {_GONE};""",
    "passages_added": f"""
        {_RAISED.format(scopes="SELECT scope_id FROM added")}
        IF {_WRITES_THROUGH} THEN
            INSERT INTO <store>.unwritten (memory) SELECT memory FROM added WHERE part IN ('episodic', 'semantic');
        END IF;""",
    "passages_removed": f"""
        {_RAISED.format(scopes="SELECT scope_id FROM removed")}
        IF {_PROJECTS} THEN
            INSERT INTO <store>.outbox (passage)
            SELECT id FROM removed WHERE id <= (SELECT claimed FROM <store>.projection);
        END IF;""",
    **{f"{table}_numbered": _numbers(table) for table in _NUMBERED},
}

_TABLE_OF: Final = {name: name.partition("_")[0] for name in _BODIES}
_AS_INVOKER: Final = frozenset({"memories_added", "number_stays"})
_OF_ANY_TABLE: Final = {
    "number_is_drawn": f"""
        IF (to_jsonb(NEW) ->> TG_ARGV[1])::bigint IS DISTINCT FROM currval(TG_ARGV[0]::regclass)
        THEN {_REFUSED}; END IF;
        RETURN NEW;""",
    "number_stays": f"{_REFUSED};",
}

FUNCTIONS: Final = (*_BODIES, *_OF_ANY_TABLE)  # the names of all trigger functions


def _function(name: str, *, also: str = "", as_owner: bool | None = None) -> str:
    """Create or replace the function; its text contains the name of the store's schema."""
    if (body := _OF_ANY_TABLE.get(name)) is None:
        body = f"""
        IF TG_RELID IS DISTINCT FROM (<name> || '.{_TABLE_OF[name]}')::regclass THEN
            RAISE insufficient_privilege USING MESSAGE = '{name} is for {_TABLE_OF[name]} alone';
        END IF;
        {_BODIES[name]}{also}
        RETURN NULL;"""
    rights = "DEFINER" if as_owner or name not in _AS_INVOKER else "INVOKER"
    return f"""DO $migration$ BEGIN
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %I.{name}() RETURNS trigger LANGUAGE plpgsql SECURITY {rights}
            SET search_path TO {_PATH} AS %L',
            current_schema(),
            replace(
                replace($body$BEGIN {body} END$body$, '<store>', quote_ident(current_schema())),
                '<name>', quote_literal(quote_ident(current_schema()))
            )
        );
        EXECUTE format('REVOKE ALL ON FUNCTION %I.{name}() FROM PUBLIC', current_schema());
    END $migration$"""


def _numbered(table: str) -> tuple[str, ...]:
    column, _ = _NUMBERED[table]
    return (
        f"""CREATE TRIGGER {table}_numbered AFTER INSERT ON {table} REFERENCING NEW TABLE AS added
            FOR EACH STATEMENT WHEN ({_CONFINED}) EXECUTE FUNCTION {table}_numbered()""",
        _staying(table, column),
    )


def numbered_by_the_store(table: str, column: str) -> tuple[str, ...]:
    """Statements that let a confined role give a row of this table no number of its own."""
    return (
        f"""DO $migration$ BEGIN EXECUTE format(
            'CREATE TRIGGER number_is_drawn BEFORE INSERT ON {table} FOR EACH ROW WHEN (%s)
            EXECUTE FUNCTION number_is_drawn(%L, %L)',
            $when${_CONFINED}$when$, pg_get_serial_sequence('{table}', '{column}'), '{column}'
        ); END $migration$""",
        _staying(table, column),
    )


def _staying(table: str, column: str) -> str:
    return f"""CREATE TRIGGER number_stays BEFORE UPDATE OF {column} ON {table} FOR EACH ROW
        WHEN (OLD.{column} IS DISTINCT FROM NEW.{column} AND {_CONFINED}) EXECUTE FUNCTION number_stays()"""


def _noting(changed: str) -> str:
    """Note which memories have changed: columns ``scope_id`` and ``memory`` of a query. -1 stands for too many."""
    return f"""
        {_RAISED.format(scopes=f"SELECT scope_id FROM ({changed}) AS each")}
        INSERT INTO <store>.changes (scope_id, version, memory)
        SELECT DISTINCT s.id, s.version, CASE WHEN c.more THEN -1 ELSE c.memory END
        FROM (SELECT scope_id, memory, count(*) OVER (PARTITION BY scope_id) > 1000 AS more
              FROM ({changed}) AS each) c
        JOIN <store>.scopes s ON s.id = c.scope_id ON CONFLICT DO NOTHING;
        IF EXISTS (SELECT FROM ({changed}) AS c JOIN <store>.scopes s ON s.id = c.scope_id
                   WHERE c.memory % 256 = 0 OR s.version % 100 = 0) THEN
            DELETE FROM <store>.changes USING (
                SELECT s.id, s.version FROM <store>.scopes s WHERE s.id IN (SELECT scope_id FROM ({changed}) AS each)
                AND (SELECT count(*) FROM <store>.changes n WHERE n.scope_id = s.id) > 2000
            ) AS full_ WHERE changes.scope_id = full_.id AND changes.version < full_.version;
            INSERT INTO <store>.changes (scope_id, version, memory)
            SELECT s.id, s.version, -1 FROM <store>.scopes s WHERE s.id IN (SELECT scope_id FROM ({changed}) AS each)
            AND (SELECT count(*) FROM <store>.changes n WHERE n.scope_id = s.id AND n.version = s.version) > 2000
            ON CONFLICT DO NOTHING;
            DELETE FROM <store>.changes USING <store>.changes AS many
            WHERE many.scope_id IN (SELECT scope_id FROM ({changed}) AS each) AND many.memory = -1
            AND changes.scope_id = many.scope_id AND changes.version = many.version AND changes.memory <> -1;
        END IF;"""


_SEARCHED: Final = "{0}.scope_id, {0}.invalid_at, {0}.expires_at, {0}.category, {0}.start_at"
_NOTED: Final = {
    "memories_added": "SELECT scope_id, row AS memory FROM added",
    "memories_changed": f"""SELECT unnest(ARRAY[was.scope_id, is_now.scope_id]) AS scope_id, row AS memory
        FROM was JOIN is_now USING (row)
        WHERE ({_SEARCHED.format("was")}) IS DISTINCT FROM ({_SEARCHED.format("is_now")})""",
    "memories_removed": "SELECT scope_id, row AS memory FROM removed",
    "passages_added": "SELECT scope_id, memory FROM added",
    "passages_removed": "SELECT scope_id, memory FROM removed",
}

NOTING: Final[tuple[str, ...]] = tuple(
    _function(name, also=_noting(changed), as_owner=True) for name, changed in _NOTED.items()
)
"""The trigger functions that also fill the table ``changes``."""

_CALLED: Final = {
    "memories_added": "INSERT ON memories REFERENCING NEW TABLE AS added",
    "memories_changed": "UPDATE ON memories REFERENCING OLD TABLE AS was NEW TABLE AS is_now",
    "memories_removed": "DELETE ON memories REFERENCING OLD TABLE AS removed",
    "passages_added": "INSERT ON passages REFERENCING NEW TABLE AS added",
    "passages_removed": "DELETE ON passages REFERENCING OLD TABLE AS removed",
}
TRIGGERS: Final[tuple[str, ...]] = tuple(
    statement
    for name, when in _CALLED.items()
    for statement in (
        _function(name),
        f"CREATE TRIGGER {name} AFTER {when} FOR EACH STATEMENT EXECUTE FUNCTION {name}()",
    )
)
"""Triggers of schema version 1; a database that was made with other functions gets these by ``GUARDS``."""

GUARDS: Final[tuple[str, ...]] = (
    *(_function(name) for name in FUNCTIONS),
    *(statement for table in _NUMBERED for statement in _numbered(table)),
    *(statement for table, column in _IDENTIFIED.items() for statement in numbered_by_the_store(table, column)),
)
"""What makes of a database of schema version 1 one in which nobody runs code as the owner."""

_HELD: Final = f"""
    SELECT proname, prosecdef,  -- quoted where the function was made with quote_all_identifiers
        (proconfig IN (ARRAY['search_path={_PATH}'], ARRAY['search_path="pg_catalog", "pg_temp"'])) IS TRUE,
        has_function_privilege('public', oid, 'EXECUTE'),
        strpos(replace(prosrc, '"', ''), replace(quote_ident(current_schema()), '"', '') || '.') > 0
    FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace AND proname = ANY(?)
    AND prorettype = 'trigger'::regtype ORDER BY proname
"""
_OPEN_SCHEMAS: Final = """
    SELECT name FROM unnest(current_schemas(FALSE)) AS name WHERE has_schema_privilege('public', name, 'CREATE')
"""


def problems(connection: sql.Connection) -> Iterator[str]:
    """Describe, in one sentence each, what lets one role run code as another, and the remedy.

    A dump that was restored without its privileges brings it back, as does a function that was made by hand.
    """
    for name, as_owner, is_bound, is_public, is_of_schema in connection.execute(_HELD, (list(FUNCTIONS),)).fetchall():
        if as_owner and not is_bound:
            yield (
                f"other roles may create tables in the schemas that the trigger function {name} searches, and so run "
                f"code as its owner: let the owner run ALTER FUNCTION {name}() SET search_path TO {_PATH}"
            )
        if as_owner and is_public:
            yield (
                f"every role may attach the trigger function {name} to tables of its own: let the owner run "
                f"REVOKE ALL ON FUNCTION {name}() FROM PUBLIC"
            )
        if name in _BODIES and not is_of_schema:
            yield (
                f"the trigger function {name} names another schema than its own, so that no write succeeds: if the "
                "schema was renamed, let its owner give it its former name again with ALTER SCHEMA"
            )
    for (schema,) in connection.execute(_OPEN_SCHEMAS):
        yield (
            f"every role may create functions in the schema {schema}, which this store may then run: let its owner run "
            f"REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"
        )


def blind_spots(connection: sql.Connection) -> Iterator[str]:
    """Say that policies hide rows from this role, so that what it counts and finds whole is not all there is."""
    if sql.one(connection, "SELECT row_security_active(to_regclass('scopes'))"):
        yield "this role sees only the scopes that it is confined to: let the owner of the tables check all"


_logger: Final = logging.getLogger("memory_retrievers")

_TEXT: Final = 'text COLLATE "C"'


def _texts(*columns: str) -> tuple[tuple[str, str], ...]:
    return tuple((column, _TEXT) for column in columns)


FIRST: Final = {
    "scopes": _texts("scope"),
    "memories": _texts(
        *("id", "agent_id", "tags", "keywords", "source_episodic_ids", "consolidated_from", "title", "content"),
        *("metadata", "replaced_by", "scene"),
    ),
    "excerpts": _texts("messages"),
    "passages": _texts("speaker"),
    "passage_contents": (*_texts("text"), ("vector", "vector")),
    "postings": _texts("term"),
    "queued_messages": _texts("id", "content"),
    "queues": _texts("fence", "previous_summary"),
    "review_jobs": _texts("conversation"),
    "pending_reviews": _texts("query", "memories"),
    "audit": _texts("reason"),
    "characters": _texts("name", "known_events", "state"),
    "adopted": (*_texts("id"), ("digest", "bytea")),
    "unwritten": _texts("gone"),
    "new_vectors": (("vector", "vector"),),
}
"""Those that there were when this was decided; what has been added since is below."""

CONVERSATIONS: Final = {
    "memories": _texts("conversation_id"),
    "queued_messages": (*_texts("conversation"), ("vector", "vector")),
    "queues": _texts("conversation"),
}
FACTS: Final = {
    "memories": (("text_hash", "bigint"),),
    "fact_versions": (*_texts("fact", "keywords"), ("vector", "vector"), ("new_vector", "vector")),
}
TOKENS: Final = dict.fromkeys(("passage_contents", "new_vectors", "queued_messages"), (("tokens", "bytea"),))
ITEMS: Final = {"memories": (("item_value", "jsonb"),)}
EVENTS: Final = {"events": _texts("channel", "actor", "fields")}
_PARTS: Final = (FIRST, CONVERSATIONS, FACTS, TOKENS, ITEMS, EVENTS)
COLUMNS: Final = {
    table: tuple(column for part in _PARTS for column in part.get(table, ())) for table in {**FIRST, **FACTS, **EVENTS}
}
"""Of every table, the columns of which no values are kept, with their types."""

ITEM_VALUE: Final = r"""item_value jsonb GENERATED ALWAYS AS (
    CASE WHEN origin = 'store' THEN CAST(replace(metadata, '\u0000', '\u001a0') AS jsonb) -> 'value' END) STORED"""
"""The column of the values of a LangGraph store's items, as filters compare them; a NUL is escaped as in a text."""

# What ANALYZE keeps of a table are samples of its values, in which deleted data could survive, and from which one
# tenant could read values of others in the estimates of EXPLAIN. Since schema version 2 none are kept of columns that
# hold texts, ids or vectors. Plans do well without: the keys of the tables show what is rare.

UNSAMPLE_INDEXES: Final = """DO $unsample$ DECLARE name text; BEGIN
    FOR name IN SELECT indexrelid::regclass FROM pg_index
        JOIN pg_partition_tree('passage_contents'::regclass) ON relid = indrelid WHERE indexprs IS NOT NULL
    LOOP EXECUTE format('ALTER INDEX %s ALTER COLUMN 1 SET STATISTICS 0', name); END LOOP;
END $unsample$"""


def unsampled(columns: Mapping[str, Sequence[tuple[str, str]]]) -> tuple[str, ...]:
    """Statements that keep ANALYZE from taking samples; those that it has taken are there until they are cleared."""
    return tuple(
        f"ALTER TABLE {table} {', '.join(f'ALTER COLUMN {name} SET STATISTICS 0' for name, _ in named)}"
        for table, named in columns.items()
    )


_SAMPLED: Final = """
    WITH parts AS (SELECT CAST(? AS regclass) AS relid UNION SELECT relid FROM pg_partition_tree(CAST(? AS regclass)))
    SELECT count(*) FROM pg_stats
    JOIN pg_class ON relname = tablename AND relnamespace = quote_ident(schemaname)::regnamespace
    WHERE schemaname = current_schema() AND (
        pg_class.oid IN (SELECT relid FROM parts) AND attname = ANY(?)
        OR pg_class.oid IN (SELECT indexrelid FROM pg_index JOIN parts ON relid = indrelid)
    )
"""


def clear_samples(connection: Connection) -> None:
    """Delete the statistics of these columns, from older versions or an explicit ANALYZE."""
    for table, columns in COLUMNS.items():
        if not one(connection, _SAMPLED, (table, table, [name for name, _ in columns])):
            continue
        if table == "scopes":  # policies stand on its column, so its type cannot be set
            _sample_what_is_there(connection)
            continue
        # a column that gets the type it has keeps its values and loses its samples, as do the indexes on it
        generated = {name for name, _ in ITEMS.get(table, ())}  # goes and comes again: what it is made of stays as is
        anew = [f"ALTER COLUMN {name} TYPE {type_}" for name, type_ in columns if name not in generated]
        statements = [f"ALTER TABLE {table} {', '.join(anew)}"]
        if generated:
            statements = [f"ALTER TABLE {table} DROP COLUMN item_value", *statements]
            statements.append(f"ALTER TABLE {table} ADD COLUMN {ITEM_VALUE}")
        connection.run("; ".join(statements))
    connection.run(";".join((*unsampled(COLUMNS), UNSAMPLE_INDEXES)))


def compact_samples(connection: Connection) -> None:
    """Rewrite the catalogs that hold samples, so that cleared ones are in no file.

    Only the owner of the database can do it; for another role a warning is logged.
    """
    if not one(connection, "SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()"):
        _logger.warning(
            "samples of forgotten texts that ANALYZE took before schema version 2 are cleared, but may stand in free "
            "space of the server's files until the owner of the database runs VACUUM FULL pg_statistic"
        )
        return
    for catalog in ("pg_statistic", "pg_statistic_ext_data"):
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
