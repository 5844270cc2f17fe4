"""What a store takes up in PostgreSQL, how long its vector index takes to build, and a dump and its restoration.

python benchmarks/postgres_sizes.py --memories 10000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from corpus import DIMENSION, VectorTable
from postgres_server import PostgresServer, running_postgres
from sentences import statements

from memory_retrievers import AgentMemory
from memory_retrievers.backends.postgres import Database, HNSWVectorIndex
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import SemanticMemory

TOGETHER: Final = 500
SCOPES: Final = 20

_SIZES: Final = """
    SELECT coalesce(p.inhparent, c.oid)::regclass::text, sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid))
    FROM pg_class c LEFT JOIN pg_inherits p ON p.inhrelid = c.oid
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1
    ORDER BY sum(pg_total_relation_size(c.oid)) DESC
"""
_HNSW: Final = "SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relname LIKE 'passage_vectors_%'"
_LEAST: Final = 40
"""Bytes per memory below which a table is not told of."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    memories = parser.parse_args().memories
    with running_postgres() as server:
        name = server.create()
        with _timed(f"storing {memories:,} facts, {TOGETHER} together"):
            wal = _fill(server, name, memories)
        print(f"{'write-ahead log, bytes per memory':<50}{wal / memories:>10,.0f}")
        server.run("VACUUM ANALYZE", database=name)
        print(f"{'bytes per memory':<30}{'table':>10}{'indexes':>10}")
        total = 0
        for table, heap, indexes in server.run(_SIZES, database=name):
            total += heap + indexes
            if heap + indexes >= _LEAST * memories:
                print(f"{table:<30}{heap / memories:>10,.0f}{indexes / memories:>10,.0f}")
        print(f"{'all':<30}{total / memories:>20,.0f}")
        with _timed("building the HNSW index"):
            _index(server.url(name))
        print(f"{'HNSW, bytes per vector':<50}{server.run(_HNSW, database=name)[0][0] / memories:>10,.0f}")
        with tempfile.TemporaryDirectory() as directory:
            _move(server, name, Path(directory) / "store.dump", memories)
    return 0


def _fill(server: PostgresServer, name: str, memories: int) -> int:
    """Store facts in some scopes, and give the bytes of write-ahead log that it took."""
    texts = statements(memories, seed=1)
    with _connected(server.url(name)) as memory:
        before = server.run("SELECT pg_current_wal_insert_lsn()")[0][0]
        for start in range(0, memories, TOGETHER):
            memory.remember_many(
                [
                    SemanticMemory.new(scope=f"team/{number % SCOPES}", fact=texts[number])
                    for number in range(start, min(start + TOGETHER, memories))
                ]
            )
    return int(server.run(f"SELECT pg_current_wal_insert_lsn() - '{before}'::pg_lsn")[0][0])


def _index(url: str) -> None:
    ledger = SQLLedger(Database(url))
    try:
        HNSWVectorIndex(ledger, database=ledger.database, exact_limit=0).make(DIMENSION)
    finally:
        ledger.close()


def _move(server: PostgresServer, name: str, dump: Path, memories: int) -> None:
    """Dump the store with pg_dump, restore it into a new database with pg_restore, and look through that."""
    with _timed("pg_dump --format=custom"):
        _run(server.program("pg_dump"), "--format=custom", f"--file={dump}", server.url(name))
    print(f"{'dump, bytes per memory':<50}{dump.stat().st_size / memories:>10,.0f}")
    restored = server.create()
    with _timed("pg_restore, the HNSW index included"):
        _run(server.program("pg_restore"), "--exit-on-error", f"--dbname={server.url(restored)}", str(dump))
    with _connected(server.url(restored)) as memory:
        report = memory.verify()
        assert report.memories == memories, report
        assert report.ok, report
        with _timed("purge (VACUUM FULL), its HNSW index included"):
            memory.purge()
    print(f"{'memories after the restoration, verified':<50}{report.memories:>10,}")


def _connected(url: str) -> AgentMemory:
    return AgentMemory.connect(url, embedder=VectorTable(1), embedder_id="table")


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - our own


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what + ', seconds':<50}{time.monotonic() - began:>10.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
