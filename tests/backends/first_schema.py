"""A PostgreSQL database as the first schema made it, filled by the code of today."""

from contextlib import contextmanager

from memory_retrievers.backends.postgres import migrations

UNDO = """
    DROP TABLE fact_versions;
    ALTER TABLE memories DROP COLUMN text_hash, DROP COLUMN last_confirmed_at;
"""


@contextmanager
def first_schema(server, name, monkeypatch):
    """Connections made inside find the tables of the first schema, with the columns that today's code writes.

    These are gone again at the end; the trigger functions and the samples are those of the first schema all along.
    """
    first, _, *later = migrations.MIGRATIONS
    tables = [
        statement
        for statement in (statement for migration in later for statement in migration)
        if "number_" not in statement and "SET STATISTICS" not in statement
    ]
    with monkeypatch.context() as older:
        older.setattr(migrations, "MIGRATIONS", ((*first, *tables),))
        yield
    server.run(UNDO, database=name)
