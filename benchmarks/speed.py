"""Speed of retrieval without embedding time, beside the floor, in the same run.

``make bench`` prints the table of the README. The floor is the least that any hybrid search must do when it already
knows the scope: numpy dot products over the scope's vectors and BM25 as a sum of sparse columns over its documents,
all in memory, nothing fused, nothing ranked by forgetting, nothing read from disk. Absolute times depend on the
machine and its neighbours; the ratios are the figures to quote.

    python benchmarks/speed.py --sizes 1000,10000,100000 --rounds 300
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from scipy import sparse

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SemanticMemory
from memory_retrievers.models import Draft
from memory_retrievers.testing import FixedClock
from memory_retrievers.text import analyze

DIMENSION = 384
SMALL_SCOPE = 100
CANDIDATES = 100
NOW = datetime(2026, 3, 1, tzinfo=UTC)


class VectorTable:
    """An embedder that only looks vectors up, so that nothing but retrieval is measured."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._vectors: dict[str, np.ndarray] = {}

    def embed_query(self, text: str) -> np.ndarray:
        if text not in self._vectors:
            self._vectors[text] = self._random_vector()
        return self._vectors[text]

    def embed_documents(self, texts: list[str]) -> list[np.ndarray]:
        known = (self._vectors.get(text.removeprefix("note: ")) for text in texts)
        return [self._random_vector() if vector is None else vector for vector in known]

    def _random_vector(self) -> np.ndarray:
        return self._random.standard_normal(DIMENSION, np.float32)


@dataclass
class Words:
    """Sentences of pseudo-words whose frequencies follow Zipf's law."""

    seed: int
    vocabulary: int = 50_000
    _weights: list[float] = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        total = 0.0
        self._weights = [total := total + 1 / rank**1.07 for rank in range(1, self.vocabulary + 1)]
        self._random = random.Random(self.seed)

    def sentence(self, length: int) -> str:
        ranks = self._random.choices(range(self.vocabulary), cum_weights=self._weights, k=length)
        return " ".join(_word(rank) for rank in ranks)


def _word(rank: int) -> str:
    syllables = ("ka", "lo", "mi", "nu", "re", "so", "ta", "vi", "we", "xa")
    return "".join(syllables[int(digit)] for digit in f"{rank:05d}")


class Floor:
    """One scope, in memory: a matrix of vectors and a sparse matrix of BM25 weights, as bm25s has it."""

    def __init__(self, vectors: np.ndarray, terms: list[list[str]]) -> None:
        self.vectors = vectors
        self.terms = terms
        self._rebuild()

    def add(self, vector: np.ndarray, terms: list[str]) -> None:
        self.vectors = np.vstack((self.vectors, vector))
        self.terms.append(terms)
        self._rebuild()

    def search(self, vector: np.ndarray, terms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        columns = [self.columns[term] for term in terms if term in self.columns]
        keyword = np.asarray(self.weights[:, columns].sum(axis=1)).ravel()
        return _top(_dot(self.vectors, vector)), _top(keyword)

    def _rebuild(self, k1: float = 0.9, b: float = 0.4) -> None:
        self.columns: dict[str, int] = {}
        rows, columns, frequencies = [], [], []
        for row, terms in enumerate(self.terms):
            for term, frequency in Counter(terms).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                frequencies.append(frequency)
        total, frequency = len(self.terms), np.array(frequencies, np.float64)
        lengths = np.array([len(terms) for terms in self.terms])
        document_frequency = np.bincount(columns)
        idf = np.log(1 + (total - document_frequency + 0.5) / (document_frequency + 0.5))
        norm = k1 * (1 - b + b * lengths / lengths.mean())
        weights = idf[columns] * frequency / (frequency + norm[rows])
        self.weights = sparse.csc_matrix((weights, (rows, columns)), shape=(total, len(self.columns)))


def _dot(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """In chunks, since BLAS wakes its threads for a large product and takes ten times as long."""
    return np.concatenate([matrix[start : start + 256] @ vector for start in range(0, len(matrix), 256)])


def _top(scores: np.ndarray) -> np.ndarray:
    best = np.argpartition(-scores, CANDIDATES)[:CANDIDATES] if len(scores) > CANDIDATES else np.arange(len(scores))
    return best[np.argsort(-scores[best])]


def _records(size: int, words: Words) -> list[Draft]:
    """Half episodes, half facts; a tenth of them in one big scope, the rest in small ones, in mixed order."""
    small_scopes = max(1, size * 9 // 10 // SMALL_SCOPE)
    scopes = ["big"] * (size // 10) + [f"user/{i % small_scopes}" for i in range(size - size // 10)]
    random.Random(size).shuffle(scopes)
    return [_record(scope, number, words) for number, scope in enumerate(scopes)]


def _record(scope: str, number: int, words: Words) -> Draft:
    created_at = NOW - timedelta(hours=number % 2_000)
    if number % 2:
        return SemanticMemory.new(scope=scope, fact=words.sentence(15), category="note", created_at=created_at)
    messages = [Message(role=role, content=words.sentence(20)) for role in ("user", "assistant")]
    return EpisodicMemory.new(scope=scope, summary=words.sentence(30), messages=messages, created_at=created_at)


@dataclass
class Timings:
    """Milliseconds of repeated calls."""

    values: list[float] = field(default_factory=list)

    def measure(self, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        self.values.append((time.perf_counter() - start) * 1_000)

    @property
    def p50(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        return sorted(self.values)[int(len(self.values) * 0.95)]


class Bench:
    """One store of a given size and the floors of its scopes."""

    def __init__(self, size: int, directory: Path, rounds: int) -> None:
        self.rounds = rounds
        self.path = directory / str(size)
        self.words = Words(size)
        self.random = random.Random(size)
        self.embedder = VectorTable(size)
        self.memory = self.open()
        records = _records(size, self.words)
        for start in range(0, len(records), 2_000):
            self.memory.remember_many(records[start : start + 2_000])
        self.terms: dict[str, list[list[str]]] = defaultdict(list)
        for record in records:
            self.terms[record.scope].append(analyze(record.search_text))
        self.scopes = sorted(scope for scope in self.terms if scope != "big")
        self.floors: dict[str, Floor] = {}
        gc.collect()
        gc.freeze()  # the garbage collector shall not walk the bench's own lists while others are timed

    def open(self) -> AgentMemory:
        return AgentMemory.open(self.path, embedder=self.embedder, embedder_id="table", clock=FixedClock(NOW))

    def floor(self, scope: str) -> Floor:
        if scope not in self.floors:
            terms = self.terms[scope]
            vectors = np.random.default_rng(1).standard_normal((len(terms), DIMENSION)).astype(np.float32)
            self.floors[scope] = Floor(vectors, list(terms))
        return self.floors[scope]

    def question(self, scope: str) -> tuple[str, list[str], np.ndarray]:
        """Six words of one of the scope's memories, as a question about it would have."""
        terms = self.random.choice(self.terms[scope])
        query = " ".join(self.random.sample(terms, min(6, len(terms))))
        return query, analyze(query), np.array(self.embedder.embed_query(query), np.float32)

    def retrieve(self, scopes: Sequence[str], rounds: int) -> tuple[Timings, Timings]:
        """Ours and the floor, in turn, on the same questions; what is cached per scope has been seen before."""
        ours, floor = Timings(), Timings()
        for warm in (True, False):
            for round_number in range(len(scopes) if warm else rounds):
                scope = scopes[round_number % len(scopes)]
                query, terms, vector = self.question(scope)
                scope_floor = self.floor(scope)
                timings = (Timings(), Timings()) if warm else (ours, floor)
                timings[0].measure(lambda: self.memory.retrieve(query, scope=scope, limit=5))  # noqa: B023
                timings[1].measure(lambda: scope_floor.search(vector, terms))  # noqa: B023
        return ours, floor

    def add_and_find(self, rounds: int) -> tuple[Timings, Timings]:
        ours, floor = Timings(), Timings()
        for round_number in range(rounds):
            scope = self.scopes[round_number % len(self.scopes)]
            fact = self.words.sentence(15) + f" newcomer{round_number}"
            terms, vector = analyze(fact), np.array(self.embedder.embed_query(fact), np.float32)
            scope_floor = self.floor(scope)
            ours.measure(lambda: self._add(scope, fact))  # noqa: B023
            floor.measure(lambda: (scope_floor.add(vector, terms), scope_floor.search(vector, terms)))  # noqa: B023
        return ours, floor

    def _add(self, scope: str, fact: str) -> None:
        stored = self.memory.remember_fact(scope=scope, fact=fact)
        found = self.memory.retrieve(fact, scope=scope, limit=5)
        assert stored.id in {hit.memory.id for hit in found.semantic}

    def open_and_first(self, rounds: int) -> Timings:
        self.memory.close()
        timings = Timings()
        for _ in range(rounds):
            scope = self.random.choice(self.scopes)
            query, *_ = self.question(scope)
            timings.measure(lambda: self._open_once(query, scope))  # noqa: B023
        return timings

    def _open_once(self, query: str, scope: str) -> None:
        with self.open() as memory:
            memory.retrieve(query, scope=scope, limit=5)


def _row(name: str, sizes: Sequence[int], results: dict[int, dict[str, tuple[Timings, Timings | None]]]) -> str:
    cells = []
    for size in sizes:
        ours, floor = results[size][name]
        beside = "" if floor is None else f" · {floor.p50:.2f} / {floor.p95:.2f} · {ours.p50 / floor.p50:.1f}×"
        cells.append(f"{ours.p50:.2f} / {ours.p95:.2f}{beside}")
    return f"| {name} | " + " | ".join(cells) + " |"


def _measure(size: int, directory: Path, rounds: int) -> dict[str, tuple[Timings, Timings | None]]:
    bench = Bench(size, directory, rounds)
    scopes = bench.random.sample(bench.scopes, min(50, len(bench.scopes)))
    return {
        "small scope (~100)": bench.retrieve(scopes, rounds),
        "scope of 10 %": bench.retrieve(["big"], max(30, rounds // 4)),
        "add one and find it": bench.add_and_find(max(30, rounds // 2)),
        "open + first retrieve": (bench.open_and_first(20), None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000", help="records, separated by commas")
    parser.add_argument("--rounds", type=int, default=300, help="questions per figure")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    directory = Path(tempfile.mkdtemp(prefix="memory-retrievers-bench-"))
    try:
        results = {size: _measure(size, directory, arguments.rounds) for size in sizes}
    finally:
        shutil.rmtree(directory)
    print("Milliseconds, p50 / p95: memory-retrievers · floor · ratio of the p50s\n")
    print("| |" + "".join(f" {size:,} records |" for size in sizes))
    print("|---|" + "---|" * len(sizes))
    for name in results[sizes[0]]:
        print(_row(name, sizes, results))
    for name in ("small scope (~100)", "open + first retrieve"):
        growth = results[sizes[-1]][name][0].p50 / results[sizes[0]][name][0].p50
        print(f"\n{name}: {growth:.2f}× from {sizes[0]:,} to {sizes[-1]:,} records")
    print(f"\nchromadb loaded: {'yes' if 'chromadb' in sys.modules else 'no'}")


if __name__ == "__main__":
    main()
