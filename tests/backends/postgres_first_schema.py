"""A database from before the guards: the second migration is missing, and what came later is in the first."""

from contextlib import contextmanager

from memory_retrievers.backends.postgres import migrations
from memory_retrievers.backends.postgres.guards import NOTING


@contextmanager
def first_schema(monkeypatch):
    """Make a database without the second migration; whoever connects afterwards has that one to do."""
    _, second, *_ = migrations.MIGRATIONS
    others = [each for each in migrations.MIGRATIONS if each is not second]
    # numbers are given by functions of the second, and those that note changes are written as these are
    first = tuple(
        statement for each in others for statement in each if "number_" not in statement and statement not in NOTING
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", (first,))
    yield
    monkeypatch.setattr(migrations, "MIGRATIONS", (first, (*second, *NOTING)))
