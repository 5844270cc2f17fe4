"""A database from before the guards: the second migration is missing, and what came later is in the first."""

from contextlib import contextmanager

from memory_retrievers.backends.postgres import migrations


@contextmanager
def first_schema(monkeypatch):
    """Make a database without the second migration; whoever connects afterwards has that one to do."""
    _, second, *_ = migrations.MIGRATIONS
    others = [each for each in migrations.MIGRATIONS if each is not second]
    # numbers are given by functions of the second
    first = tuple(statement for each in others for statement in each if "number_" not in statement)
    monkeypatch.setattr(migrations, "MIGRATIONS", (first,))
    yield
    monkeypatch.setattr(migrations, "MIGRATIONS", (first, second))
