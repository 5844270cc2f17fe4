"""What ANALYZE keeps of tables holds no text of a memory, and after a purge no file of the database does."""

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.backends.postgres import HNSWVectorIndex
from memory_retrievers.backends.postgres.guards import COLUMNS
from memory_retrievers.backends.postgres.schema import OTHER_TABLES, TABLES_BY_SCOPE
from memory_retrievers.testing import HashEmbedder, inside

from .postgres_first_schema import first_schema
from .test_postgres_tenants import MARKER, fill

pytestmark = pytest.mark.usefixtures("own_pools")

KEPT = {"kind", "category", "tier", "content_type", "origin", "part", "role", "summary_by", "type"}
"""Texts of which there are a few, which the package chooses."""


def samples(server, name):
    """What is kept of values, of tables and indexes."""
    columns = "most_common_vals, most_common_elems, histogram_bounds"
    sql = f"SELECT format('%s.%s', tablename, attname), format('%s %s %s', {columns.replace(',', '::text,')}::text)"
    return server.run(f"{sql} FROM pg_stats WHERE schemaname = 'public'", database=name)


def of_vectors(server, name):
    """The columns of vectors, and the indexes on them, of which values are kept."""
    columns = [column for column, _ in samples(server, name)]
    return [each for each in columns if each.startswith("passage_vectors") or each.endswith(".vector")]


def forget_all(memory):
    for scope in memory.scopes():
        memory.forget_scope(scope)


def in_files(server, name):
    """The files of a database that have the marker in them."""
    server.run("CHECKPOINT")
    ((oid,),) = server.run(f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    files = (server.directory / "base" / str(oid)).iterdir()
    return [file.name for file in files if file.is_file() and MARKER.encode() in file.read_bytes()]


def connected(server, name):
    return AgentMemory.connect(server.url(name), embedder=HashEmbedder(8))


def filled(memory):
    for number in range(6):
        fill(memory, f"{MARKER}/{number}", MARKER)


@pytest.fixture
def of_first_schema(server, name, monkeypatch):
    """A database as the first schema made it, with samples of what stands in it."""
    with first_schema(monkeypatch), connected(server, name) as memory:
        filled(memory)
        server.run("ANALYZE", database=name)


def test_no_values_of_texts_ids_and_vectors_are_kept(server, name):
    with connected(server, name) as memory:
        filled(memory)
        ledger = inside(memory).ledger
        index = HNSWVectorIndex(ledger, database=ledger.database, exact_limit=0)
        index.make(8)
        index.close()
    server.run("ANALYZE", database=name)
    kept = samples(server, name)
    assert len(kept) > 100
    assert not [column for column, values in kept if MARKER in values]
    assert of_vectors(server, name) == []


def test_every_column_that_may_hold_what_was_said_is_left_out(server, name):
    connected(server, name).close()
    columns = server.run(
        """SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND attnum > 0
        AND (atttypid IN ('text'::regtype, 'bytea'::regtype, 'vector'::regtype, 'jsonb'::regtype) OR attname LIKE '%hash')""",
        database=name,
    )
    tables = {*TABLES_BY_SCOPE, *OTHER_TABLES} - {"notes"}
    assert {(t, c) for t, c in columns if t in tables and c not in KEPT} == {
        (table, column) for table, columns in COLUMNS.items() for column, _ in columns
    }


@pytest.mark.parametrize("left", ["nothing", "one"])
def test_a_purge_leaves_nothing_of_what_was_forgotten_in_samples_and_files(server, name, of_first_schema, left):
    assert any(MARKER in values for _, values in samples(server, name))
    assert len(in_files(server, name)) > 10
    with connected(server, name) as memory:
        if left == "one":
            memory.remember_fact(scope="other", fact="User likes tea", id="f1")
        for scope in memory.scopes():
            if scope.startswith(MARKER):
                memory.forget_scope(scope)
        assert any(MARKER in values for _, values in samples(server, name))
        memory.purge()
        assert not [column for column, values in samples(server, name) if MARKER in values]
        assert in_files(server, name) == []
        assert memory.scopes() == (["other"] if left == "one" else [])
        assert memory.verify().ok


def test_a_purge_clears_the_samples_of_an_index_of_vectors(server, name, of_first_schema):
    server.run("DROP INDEX IF EXISTS passage_vectors_8_0", database=name)
    make = (
        "CREATE INDEX passage_vectors_8_{n} ON passage_contents_{n} USING hnsw ((vector::vector(8)) vector_cosine_ops)"
    )
    for number in range(8):
        server.run(f"{make.format(n=number)} WHERE vector_dims(vector) = 8", database=name)
    server.run("ANALYZE", database=name)
    assert of_vectors(server, name)
    with connected(server, name) as memory:
        forget_all(memory)
        memory.purge()
    server.run("ANALYZE", database=name)
    assert of_vectors(server, name) == []
