"""A person's years: how fast one scope is searched as its conversations add up, beside the floor of the same run.

A scope holds episodes of twenty messages, each a passage of its own beside the summary. Ours and the floor
(``floor.py``) answer in turn; then every search is measured right after an episode was added. Threads ask at once what
one thread has asked before. Embedding is left out.

    python benchmarks/years.py --episodes 500,2000,5000 --rounds 60
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
from corpus import NOW, Words
from filling import PASSAGES, Pool
from floor import ScopeFloor
from timings import Timings

from memory_retrievers import AgentMemory, EpisodicMemory, Message
from memory_retrievers.models import Draft
from memory_retrievers.testing import FixedClock, inside
from memory_retrievers.text.analysis import analyze

SCOPE: Final = "user/ines"
BATCH: Final = 100
THREADS: Final = 8
PAIRS: Final = 5
SMALL_EPISODES: Final = 5
"""Episodes of the small scopes that threads ask: about a hundred passages."""

SMALL_SCOPES: Final = 50


@dataclass
class Year:
    """What was measured at one size.

    Attributes:
        ours: Searches of a scope that nothing is added to.
        floor: The same by the floor.
        after: Searches right after an episode was added.
        bytes_per_passage: What the snapshot takes in memory.
        threads: Searches a second of eight threads, as a multiple of one.
    """

    ours: Timings
    floor: Timings
    after: Timings
    bytes_per_passage: float
    threads: float


class Life:
    """A store on disk with the conversations of one scope, and small scopes beside it."""

    def __init__(self, directory: Path, episodes: int) -> None:
        self._words = Words(episodes)
        self._random = random.Random(episodes)
        self._pool = Pool()
        self._added = 0
        self.memory = AgentMemory.open(directory, embedder=self._pool, embedder_id="pool", clock=FixedClock(NOW))
        self.small = [f"small/{number}" for number in range(SMALL_SCOPES)]
        for start in range(0, episodes, BATCH):
            self.memory.remember_many(
                [self.episode(SCOPE, number) for number in range(start, min(start + BATCH, episodes))]
            )
        self.memory.remember_many(
            [self.episode(scope, number) for scope in self.small for number in range(SMALL_EPISODES)]
        )

    def episode(self, scope: str, number: int) -> Draft:
        begin = NOW - timedelta(hours=8 * number + 1)
        messages = [
            Message(
                role="user" if place % 2 else "assistant",
                content=self._words.sentence(12),
                timestamp=begin + timedelta(minutes=place),
            )
            for place in range(PASSAGES - 1)
        ]
        return EpisodicMemory.new(
            scope=scope, summary=self._words.sentence(25), messages=messages, created_at=begin + timedelta(hours=1)
        )

    def add(self) -> None:
        self._added += 1
        self.memory.remember_many([self.episode(SCOPE, -self._added)])

    def question(self) -> str:
        return self._words.sentence(6)

    def search(self, question: str, scope: str = SCOPE) -> None:
        self.memory.retrieve(question, scope=scope, limit=5, record=False)

    def floor(self) -> Callable[[str], object]:
        """The floor's search over the passages of the scope."""
        ledger = inside(self.memory).ledger
        passages = ledger.passages_of(SCOPE)
        _, vectors = ledger.vectors([passage.id for passage in passages])
        scope = ScopeFloor(np.array(vectors), [analyze(passage.text) for passage in passages])
        return lambda question: scope.search(self._pool.embed_query(question), analyze(question))

    def bytes_per_passage(self) -> float:
        ledger = inside(self.memory).ledger
        return ledger.snapshots._size / len(ledger.passages_of(SCOPE))  # noqa: SLF001 - of this scope alone

    def shared(self, rounds: int, *, small: bool) -> float:
        """Searches a second of all threads, as a multiple of one: the median of several pairs, one after the other."""
        asked = [(self.question(), self._random.choice(self.small) if small else SCOPE) for _ in range(rounds)]
        for question, scope in asked:
            self.search(question, scope)
        ratios = []
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(THREADS) as many:
            for _ in range(PAIRS):
                seconds = []
                for executor in (one, many):
                    start = perf_counter()
                    list(executor.map(lambda each: self.search(*each), asked))
                    seconds.append(perf_counter() - start)
                ratios.append(seconds[0] / seconds[1])
        return statistics.median(ratios)


def measured(episodes: int, rounds: int, *, small: bool = False) -> Year:
    """Measure one size.

    Args:
        episodes: Episodes in the scope.
        rounds: Questions per figure.
        small: Let the threads ask the small scopes.
    """
    with tempfile.TemporaryDirectory(prefix="memory-retrievers-years-") as folder:
        life = Life(Path(folder) / "store", episodes)
        with life.memory:
            floor, ours, lowest, after = life.floor(), Timings(), Timings(), Timings()
            gc.collect()
            gc.freeze()
            for number in range(rounds + 5):
                question = life.question()
                life.memory.retrieve("warm", scope=SCOPE, limit=1, record=False) if number == 0 else None
                times = (Timings(), Timings()) if number < 5 else (ours, lowest)
                times[0].measure(lambda: life.search(question))  # noqa: B023 - called at once
                times[1].measure(lambda: floor(question))  # noqa: B023
            held = life.bytes_per_passage()
            for _ in range(rounds // 2):
                life.add()
                question = life.question()
                after.measure(lambda: life.search(question))  # noqa: B023
            threads = life.shared(rounds, small=small)
    return Year(ours, lowest, after, held, threads)


def table(years: dict[int, Year]) -> Iterator[str]:
    """One column for each size."""
    yield "| |" + "".join(f" {episodes:,} episodes |" for episodes in years)
    yield "|---|" + "---|" * len(years)
    rows: dict[str, Callable[[Year], str]] = {
        "search": lambda year: f"{year.ours} · **{year.ours.p50 / year.floor.p50:.1f}×** the floor",
        "floor": lambda year: str(year.floor),
        "search after an addition": lambda year: f"{year.after} · **{year.after.p50 / year.ours.p50:.1f}×** the search",
        "bytes a passage": lambda year: f"{year.bytes_per_passage:,.0f}",
        f"{THREADS} threads": lambda year: f"{year.threads:.1f}× the searches a second of one",
    }
    for name, cell in rows.items():
        yield f"| {name} | " + " | ".join(cell(year) for year in years.values()) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", default="500,2000,5000", help="sizes of the scope, separated by commas")
    parser.add_argument("--rounds", type=int, default=60, help="questions per figure")
    parser.add_argument("--small", action="store_true", help="let the threads ask scopes of a hundred passages")
    arguments = parser.parse_args()
    years: dict[int, Year] = {}
    for episodes in map(int, arguments.episodes.split(",")):
        print(f"{episodes:,} episodes: filling, then measuring …", file=sys.stderr, flush=True)
        years[episodes] = measured(episodes, arguments.rounds, small=arguments.small)
    print("Milliseconds, p50 / p95, and ratios of the p50s\n")
    print("\n".join(table(years)))


if __name__ == "__main__":
    main()
