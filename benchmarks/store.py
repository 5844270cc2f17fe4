"""``MemoryStoreAdapter`` beside LangGraph's ``SqliteStore``: the same items and embeddings, in one run.

    python benchmarks/store.py
    python benchmarks/store.py --items 2000 --concurrent 600

Needs the extra ``bench``. Prints the time of each operation in both, the middle of several, and how many times as long
ours takes; exit status 1 if one takes more than 3 times as long. What fills is timed once. Both are on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import aiosqlite
from langgraph.store.base import BaseStore, IndexConfig, PutOp
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryStoreAdapter
from memory_retrievers.testing import HashEmbedder

BATCH: Final = 500
MOST_TIMES: Final = 3
NAMESPACES: Final = 10
TURNS: Final = 9
"""How often what only reads, or puts one item, is timed."""


def main() -> int:
    """Measure; 1 if ours takes more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--concurrent", type=int, default=6_000, help="operations at once (default: %(default)s)")
    asked = parser.parse_args()
    embedder = HashEmbedder()
    with TemporaryDirectory() as directory, AgentMemory.open(Path(directory) / "ours", embedder=embedder) as memory:
        store = MemoryStoreAdapter(memory, scope="app", fields=["text"])
        together = f"{asked.concurrent:,} concurrent"
        ours = _times(store, asked.items)
        ours[together] = _timed(lambda: asyncio.run(_together(store, asked.concurrent)), 1)
        file, index = Path(directory) / "theirs.db", _index(embedder)
        connection = _connection_with_extensions(file)
        peer = SqliteStore(connection, index=index)
        peer.setup()
        theirs = _times(peer, asked.items)
        connection.close()
        theirs[together] = asyncio.run(_peer_together(file, index, asked.concurrent))
    print(f"{asked.items:,} items, times in ms\n\n| | ours | SqliteStore | ratio |\n|---|---|---|---|")
    for what, taken in ours.items():
        print(f"| {what} | {taken * 1e3:,.2f} | {theirs[what] * 1e3:,.2f} | {taken / theirs[what]:.1f} |")
    return int(any(taken > MOST_TIMES * theirs[what] for what, taken in ours.items()))


def _index(embedder: HashEmbedder) -> IndexConfig:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [list(map(float, vector)) for vector in embedder.embed_documents(list(texts))]

    return {"dims": len(embed(["a"])[0]), "embed": embed, "fields": ["text"]}


async def _peer_together(file: Path, index: IndexConfig, number: int) -> float:
    """Seconds of the same in the form of the peer that has tasks."""
    async with aiosqlite.Connection(lambda: _connection_with_extensions(file), 64) as connection:
        store = AsyncSqliteStore(connection, index=index)
        await store.setup()
        began = time.perf_counter()
        await _together(store, number)
        return time.perf_counter() - began


def _times(store: BaseStore, items: int) -> dict[str, float]:
    """Seconds of each operation."""
    batches = [_timed(lambda start=start: store.batch(_puts(start)), 1) for start in range(0, items, BATCH)]
    reads: dict[str, Callable[[], object]] = {
        "browse": lambda: store.search((), limit=10),
        "browse a namespace": lambda: store.search(("users", "3"), limit=10),
        "list namespaces": store.list_namespaces,
        "filter, equal": lambda: store.search((), filter={"number": 7}, limit=10),
        "filter, greater": lambda: store.search((), filter={"number": {"$gte": items - 5}}, limit=10),
        "search": lambda: store.search((), query="item 77 of the garden", limit=10),
        "search with a filter": lambda: store.search((), query="garden", filter={"even": True}, limit=10),
        "get": lambda: store.get(("users", "3"), "k3"),
    }
    numbers = iter(range(TURNS + 1))
    times = {f"batch of {BATCH}": median(batches), "all batches": sum(batches)}
    times |= {what: _timed(read, TURNS) for what, read in reads.items()}
    times["put"] = _timed(lambda: store.put(("one",), f"k{next(numbers)}", {"text": "One more item"}), TURNS)
    return times


def _puts(start: int) -> list[PutOp]:
    return [
        PutOp(
            ("users", str(number % NAMESPACES)),
            f"k{number}",
            {"text": f"Item {number} of the garden, in row {number % 97}", "number": number, "even": number % 2 == 0},
        )
        for number in range(start, start + BATCH)
    ]


async def _together(store: BaseStore, number: int) -> None:
    """A third of puts, of gets and of searches, each a task."""
    work = []
    for each in range(number // 3):
        work += [
            store.aput(("tasks", str(each % NAMESPACES)), f"t{each}", {"text": f"Task {each}", "number": each}),
            store.aget(("users", str(each % NAMESPACES)), f"k{each}"),
            store.asearch(("users", str(each % NAMESPACES)), limit=5),
        ]
    await asyncio.gather(*work)


def _timed(work: Callable[[], object], turns: int) -> float:
    taken = []
    if turns > 1:
        work()
    for _ in range(turns):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return median(taken)


def _connection_with_extensions(file: Path) -> sqlite3.Connection:
    """As SqliteStore opens one; many builds of Python cannot load sqlite-vec, and pysqlite3 is built so that it can."""
    module = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        import pysqlite3 as module
    return module.connect(str(file), check_same_thread=False, isolation_level=None)


if __name__ == "__main__":
    sys.exit(main())
