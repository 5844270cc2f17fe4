"""``MemoryStoreAdapter`` beside LangGraph's own stores: the same items and embeddings, in one run.

    python benchmarks/store.py
    python benchmarks/store.py --postgres
    python benchmarks/store.py --items 2000 --concurrent 600

Needs the extra ``bench``. Ours on disk beside ``SqliteStore``, or with ``--postgres`` ours beside ``PostgresStore`` on
a server that this starts. Each operation is timed in one store and then in the other, again and again, so that what
else the machine does slows down both. Prints the least of these times, of batches the middle, and how many times as
long ours takes; exit status 1 if one takes more than 3 times as long. What is concurrent is timed once.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import aiosqlite
from langgraph.store.base import BaseStore, IndexConfig, PutOp
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from postgres_server import PostgresServer

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.testing import HashEmbedder

BATCH: Final = 500
MOST_TIMES: Final = 3
NAMESPACES: Final = 10
TURNS: Final = 15
"""How often what only reads, or puts one item, is timed in each store."""


class Peer(NamedTuple):
    """LangGraph's store, and how its form for tasks takes so many operations at once."""

    store: BaseStore
    together: Callable[[int], Coroutine[None, None, float]]


def main() -> int:
    """Measure; 1 if ours takes more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--concurrent", type=int, default=6_000, help="operations at once (default: %(default)s)")
    parser.add_argument("--postgres", action="store_true", help="both on a PostgreSQL server")
    asked = parser.parse_args()
    with _stores(is_postgres=asked.postgres) as (ours, peer):
        times = dict(_times(ours, peer.store, asked.items))
        theirs = asyncio.run(peer.together(asked.concurrent))
        times[f"{asked.concurrent:,} concurrent"] = asyncio.run(_together(ours, asked.concurrent)), theirs
    name = type(peer.store).__name__
    print(f"{asked.items:,} items, times in ms\n\n| | ours | {name} | ratio |\n|---|---|---|---|")
    for what, (our_time, their_time) in times.items():
        print(f"| {what} | {our_time * 1e3:,.2f} | {their_time * 1e3:,.2f} | {our_time / their_time:.1f} |")
    return int(any(our_time > MOST_TIMES * their_time for our_time, their_time in times.values()))


@contextmanager
def _stores(*, is_postgres: bool) -> Iterator[tuple[BaseStore, Peer]]:
    index = _index(HashEmbedder())
    with TemporaryDirectory() as directory:
        open_peer = _postgres(Path(directory), index) if is_postgres else _sqlite(Path(directory), index)
        with open_peer as (place, peer), _opened(place) as memory:
            yield MemoryStoreAdapter(memory, scope="app", fields=["text"]), peer


def _opened(place: Path | str) -> AgentMemory:
    embedder = HashEmbedder()
    return (
        AgentMemory.open(place, embedder=embedder)
        if isinstance(place, Path)
        else AgentMemory.connect(place, embedder=embedder)
    )


def _index(embedder: HashEmbedder) -> IndexConfig:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [list(map(float, vector)) for vector in embedder.embed_documents(list(texts))]

    return {"dims": len(embed(["a"])[0]), "embed": embed, "fields": ["text"]}


@contextmanager
def _sqlite(directory: Path, index: IndexConfig) -> Iterator[tuple[Path, Peer]]:
    """Where ours may live, and the peer on disk."""
    file = directory / "theirs.db"
    connection = _connection_with_extensions(file)

    async def together(number: int) -> float:
        async with aiosqlite.Connection(lambda: _connection_with_extensions(file), 64) as opened:
            store = AsyncSqliteStore(opened, index=index)
            await store.setup()
            return await _together(store, number)

    store = SqliteStore(connection, index=index)
    store.setup()
    yield directory / "ours", Peer(store, together)
    connection.close()


@contextmanager
def _postgres(directory: Path, index: IndexConfig) -> Iterator[tuple[str, Peer]]:
    """The same on a server, with a pool of connections for the peer, as ours has one."""
    server = PostgresServer(directory / "server")
    ours, theirs = server.url(server.create()), server.url(server.create())
    pool = {"min_size": 1, "max_size": 10}

    async def together(number: int) -> float:
        async with AsyncPostgresStore.from_conn_string(theirs, pool_config=pool, index=index) as store:
            return await _together(store, number)

    with PostgresStore.from_conn_string(theirs, pool_config=pool, index=index) as store:
        store.setup()
        yield ours, Peer(store, together)
    server.stop()


def _times(ours: BaseStore, theirs: BaseStore, items: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """Seconds of each operation in both stores."""
    batches = [
        (_timed(lambda batch=batch: ours.batch(batch)), _timed(lambda batch=batch: theirs.batch(batch)))
        for batch in map(_puts, range(0, items, BATCH))
    ]
    yield f"batch of {BATCH}", (median(each for each, _ in batches), median(each for _, each in batches))
    yield "all batches", (sum(each for each, _ in batches), sum(each for _, each in batches))
    numbers = iter(range(2 * TURNS + 2))
    works: dict[str, Callable[[BaseStore], object]] = {
        "browse": lambda store: store.search((), limit=10),
        "browse a namespace": lambda store: store.search(("users", "3"), limit=10),
        "list namespaces": lambda store: store.list_namespaces(),
        "filter, equal": lambda store: store.search((), filter={"number": 7}, limit=10),
        "filter, greater": lambda store: store.search((), filter={"number": {"$gte": items - 5}}, limit=10),
        "search": lambda store: store.search((), query="item 77 of the garden", limit=10),
        "search with a filter": lambda store: store.search((), query="garden", filter={"even": True}, limit=10),
        "search with a rare filter": lambda store: store.search((), query="garden", filter={"number": 7}, limit=10),
        "get": lambda store: store.get(("users", "3"), "k3"),
        "put": lambda store: store.put(("one",), f"k{next(numbers) // 2}", {"text": "One more item"}),
        "put over an item": lambda store: store.put(("users", "4"), "k4", {"text": "Another text", "number": 4}),
    }
    for what, work in works.items():
        turns = [(_timed(lambda: work(ours)), _timed(lambda: work(theirs))) for _ in range(TURNS + 1)][1:]  # noqa: B023
        yield what, (min(each for each, _ in turns), min(each for _, each in turns))


def _puts(start: int) -> list[PutOp]:
    return [
        PutOp(
            ("users", str(number % NAMESPACES)),
            f"k{number}",
            {"text": f"Item {number} of the garden, in row {number % 97}", "number": number, "even": number % 2 == 0},
        )
        for number in range(start, start + BATCH)
    ]


async def _together(store: BaseStore, number: int) -> float:
    """Seconds of a third of puts, of gets and of searches, each a task."""
    work: list[Coroutine[None, None, object]] = []
    for each in range(number // 3):
        work += [
            store.aput(("tasks", str(each % NAMESPACES)), f"t{each}", {"text": f"Task {each}", "number": each}),
            store.aget(("users", str(each % NAMESPACES)), f"k{each}"),
            store.asearch(("users", str(each % NAMESPACES)), limit=5),
        ]
    began = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - began


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _connection_with_extensions(file: Path) -> sqlite3.Connection:
    """As SqliteStore opens one; many builds of Python cannot load sqlite-vec, and pysqlite3 is built so that it can."""
    module = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        import pysqlite3 as module
    return module.connect(str(file), check_same_thread=False, isolation_level=None)


if __name__ == "__main__":
    sys.exit(main())
