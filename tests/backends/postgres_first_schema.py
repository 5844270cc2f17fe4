"""A database from before the guards: its triggers run code of other roles, and the second migration is missing.

What came later is in the first.
"""

from contextlib import contextmanager

from memory_retrievers.backends.postgres import guards, migrations
from memory_retrievers.backends.postgres.guards import NOTING

_WRITES_THROUGH = (
    "(SELECT coalesce((value::json ->> 'write_through')::boolean, FALSE) FROM notes WHERE name = 'adoption')"
)
_PROJECTS = "(SELECT claimed FROM projection) > 0"
_RAISED = """
    UPDATE scopes SET version = version + 1, raised_in = pg_current_xact_id()
    WHERE id IN ({scopes}) AND raised_in IS DISTINCT FROM pg_current_xact_id();
"""

CHANGED_SCOPES = """
    SELECT unnest(ARRAY[was.scope_id, is_now.scope_id]) FROM was JOIN is_now USING (row)
    WHERE (was.invalid_at, was.expires_at, was.category, was.scope_id)
    IS DISTINCT FROM (is_now.invalid_at, is_now.expires_at, is_now.category, is_now.scope_id)
"""
_SUMMARY_GONE = """
    UPDATE queues SET previous_summary = NULL FROM {gone} AS gone
    WHERE queues.scope_id = gone.scope_id AND gone.kind = 'episodic' AND previous_summary = gone.content;
"""
_SEEN = "scope_id, category, created_at, expires_at, invalid_at, tier, origin"


def seen(table):
    return ", ".join(f"{table}.{column}" for column in _SEEN.split(", "))


def _trigger(name, body, *, table, event, tables):
    return (
        f"""CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
            AS $$ BEGIN {body} RETURN NULL; END $$""",
        (
            f"CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {tables} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        ),
    )


TRIGGERS = (
    *_trigger(
        "memories_added",
        _RAISED.format(scopes="SELECT scope_id FROM added"),
        table="memories",
        event="INSERT",
        tables="NEW TABLE AS added",
    ),
    *_trigger(
        "memories_changed",
        f"""
        {_RAISED.format(scopes=CHANGED_SCOPES)}
        UPDATE queues SET previous_summary = NULL FROM was JOIN is_now USING (row)
        WHERE queues.scope_id = was.scope_id AND was.kind = 'episodic' AND previous_summary = was.content
        AND (was.content, was.scope_id) IS DISTINCT FROM (is_now.content, is_now.scope_id);
        IF {_PROJECTS} THEN
            INSERT INTO outbox (passage) SELECT p.id FROM was JOIN is_now USING (row) JOIN passages p ON p.memory = row
            WHERE p.id <= (SELECT claimed FROM projection) AND ({seen("was")}) IS DISTINCT FROM ({seen("is_now")});
        END IF;
        IF {_WRITES_THROUGH} THEN
            INSERT INTO unwritten (memory) SELECT row FROM was JOIN is_now USING (row)
            WHERE (was.metadata, was.scope_id) IS DISTINCT FROM (is_now.metadata, is_now.scope_id);
        END IF;
        """,
        table="memories",
        event="UPDATE",
        tables="OLD TABLE AS was NEW TABLE AS is_now",
    ),
    *_trigger(
        "memories_removed",
        f"""
        {_RAISED.format(scopes="SELECT scope_id FROM removed")}
        {_SUMMARY_GONE.format(gone="removed")}
        DELETE FROM associations USING removed WHERE associations.target = removed.row;
        IF {_WRITES_THROUGH} THEN
            INSERT INTO unwritten (gone) SELECT a.id FROM adopted a JOIN removed ON a.memory = removed.row;
        END IF;
        DELETE FROM adopted USING removed WHERE adopted.memory = removed.row;
        """,
        table="memories",
        event="DELETE",
        tables="OLD TABLE AS removed",
    ),
    *_trigger(
        "passages_added",
        f"""
        {_RAISED.format(scopes="SELECT scope_id FROM added")}
        IF {_WRITES_THROUGH} THEN
            INSERT INTO unwritten (memory) SELECT memory FROM added WHERE part IN ('episodic', 'semantic');
        END IF;
        """,
        table="passages",
        event="INSERT",
        tables="NEW TABLE AS added",
    ),
    *_trigger(
        "passages_removed",
        f"""
        {_RAISED.format(scopes="SELECT scope_id FROM removed")}
        IF {_PROJECTS} THEN
            INSERT INTO outbox (passage) SELECT id FROM removed WHERE id <= (SELECT claimed FROM projection);
        END IF;
        """,
        table="passages",
        event="DELETE",
        tables="OLD TABLE AS removed",
    ),
)


@contextmanager
def first_schema(monkeypatch):
    """Make a database without the second migration; whoever connects afterwards has that one to do."""
    _, second, *_ = migrations.MIGRATIONS
    others = [each for each in migrations.MIGRATIONS if each is not second]
    before = dict(zip(guards.TRIGGERS, TRIGGERS, strict=True))
    # numbers are given by functions of the second, and those that note changes are written as these are
    first = tuple(
        before.get(statement, statement)
        for each in others
        for statement in each
        if "number_" not in statement and statement not in NOTING
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", (first,))
    yield
    monkeypatch.setattr(migrations, "MIGRATIONS", (first, (*second, *NOTING)))
