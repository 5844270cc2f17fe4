"""Up to how many passages the exact search of one scope pays, beside Chroma's index or pgvector's.

One store for each size, with facts whose vectors are the mean of those of their words, so that alike ones are near.
Each question is a whole retrieval without embedding. The exact search answers first, then searches run while the
index is being made in the background, which are exact as well, and at last the index answers. ``exact_limit`` belongs
where the ratios of the index to the exact search fall below 1; that by processor time depends less on what else the
machine does.

    python benchmarks/wide.py --sizes 10000,20000,50000,100000,200000
    python benchmarks/wide.py --sizes 50000,100000 --wait   # makes the index first: no searches beside that
    python benchmarks/wide.py --sizes 10000,20000,50000 --postgres
    python benchmarks/wide.py --sizes 160000 --beside 90    # ends 90 s after the index has been begun, made or not
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from corpus import BIG_SCOPE, DIMENSION, NOW, Words
from timings import Timings

from memory_retrievers import AgentMemory, RetrievalSettings, SemanticMemory
from memory_retrievers.testing import FixedClock, inside

Opening: TypeAlias = Callable[[int], AgentMemory]
"""Opens the store with an ``exact_limit``."""

STORED: Final = 2_000
"""Facts a call."""

MOST_PASSAGES: Final = 1 << 40
PAUSE: Final = 0.05
"""Seconds between searches while the index is made: as of a few people who ask."""

HEAD: Final = (
    "| passages | exact | while the index is made | p95 / p50 | {index} | {index} / exact | by processor | made in |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|"
)


class Searches(Timings):
    """Timings by the clock, and the processor time of all together."""

    processor = 0.0

    def measure(self, call: Callable[[], object]) -> None:
        began = time.process_time()
        super().measure(call)
        self.processor += time.process_time() - began


class WordVectors:
    """An embedder whose vectors are the mean of one for each word."""

    def __init__(self) -> None:
        self._words = np.random.default_rng(1).standard_normal((1 << 15, DIMENSION), np.float32)

    def embed_query(self, text: str) -> np.ndarray:
        vector = self._words[[zlib.crc32(word.encode()) % len(self._words) for word in text.split()]].mean(axis=0)
        return np.asarray(vector / np.linalg.norm(vector))

    def embed_documents(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self.embed_query(text.removeprefix("note: ")) for text in texts]


def _fill(memory: AgentMemory, size: int) -> None:
    words = Words(size)
    for start in range(0, size, STORED):
        count = min(STORED, size - start)
        memory.remember_many([SemanticMemory.new(scope=BIG_SCOPE, fact=words.sentence(12)) for _ in range(count)])


def _is_made(memory: AgentMemory) -> bool:
    store = inside(memory).store
    if hasattr(store.dense, "_ready"):
        return bool(store.dense._ready)  # noqa: SLF001 - nobody else asks
    return store.dense._feeder.ready and not store.ledger.outbox.waiting(at_most=0)  # noqa: SLF001


def _line(opened: Opening, size: int, rounds: int, *, wait: bool, beside: float) -> str:
    words = Words(-size)

    def search(memory: AgentMemory, timings: Timings) -> None:
        question = words.sentence(6)
        timings.measure(lambda: memory.retrieve(question, scope=BIG_SCOPE, episodic_limit=0, record=False))

    exact, meanwhile, indexed = Searches(), Searches(), Searches()
    with opened(MOST_PASSAGES) as memory:
        _fill(memory, size)
        for number in range(rounds + 3):
            search(memory, exact if number >= 3 else Searches())
    with opened(0) as memory:
        began, dense = time.perf_counter(), inside(memory).dense
        if wait:
            dense.make(DIMENSION) if hasattr(dense, "make") else dense._feeder.catch_up()  # noqa: SLF001
        search(memory, Searches())
        while not (is_made := _is_made(memory)) and time.perf_counter() - began < beside:
            search(memory, meanwhile)
            time.sleep(PAUSE)
        made = time.perf_counter() - began
        for number in range(rounds + 3 if is_made else 0):
            search(memory, indexed if number >= 3 else Searches())
    between = f"{meanwhile} | {meanwhile.p95 / meanwhile.p50:.1f}" if len(meanwhile.values) > 1 else "| "
    if not is_made:
        return f"| {size:,} | {exact} | {between} | | | | not in {made:.0f} s |"
    ratios = f"{indexed.p50 / exact.p50:.2f} | {indexed.processor / exact.processor:.2f}"
    return f"| {size:,} | {exact} | {between} | {indexed} | {ratios} | {made:.0f} s |"


@contextmanager
def _opening(*, postgres: bool) -> Iterator[Opening]:
    embedder = WordVectors()

    def parts(limit: int) -> dict[str, object]:
        retrieval = RetrievalSettings(exact_limit=limit)
        return {"embedder": embedder, "embedder_id": "words", "clock": FixedClock(NOW), "retrieval": retrieval}

    if not postgres:
        with tempfile.TemporaryDirectory(prefix="memory-retrievers-wide-") as folder:
            yield lambda limit: AgentMemory.open(Path(folder) / "store", **parts(limit))  # type: ignore[arg-type]
        return
    from postgres_server import running_postgres

    with running_postgres(settings=("shared_buffers = '1GB'",)) as server:
        url = server.url(server.create())
        yield lambda limit: AgentMemory.connect(url, **parts(limit))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,20000,50000,100000,200000", help="passages, separated by commas")
    parser.add_argument("--rounds", type=int, default=60, help="questions per figure")
    parser.add_argument("--postgres", action="store_true", help="on a server of its own, with pgvector's index")
    parser.add_argument("--wait", action="store_true", help="make the index before anything is searched beside it")
    parser.add_argument("--beside", type=float, default=float("inf"), help="seconds to wait for the index at most")
    arguments = parser.parse_args()
    print("Milliseconds, p50 / p95, of a retrieval in one scope, without embedding\n")
    print(HEAD.format(index="pgvector" if arguments.postgres else "Chroma"), flush=True)
    for size in map(int, arguments.sizes.split(",")):
        with _opening(postgres=arguments.postgres) as opened:
            print(_line(opened, size, arguments.rounds, wait=arguments.wait, beside=arguments.beside), flush=True)


if __name__ == "__main__":
    main()
