"""How fast one scope is filled as it grows, without embedding, beside plain sqlite3 writing the same rows.

Each call stores episodes of twenty messages, that is 21 passages each. The plain database has the same tables and
indexes, is as durable, and gets the rows of each call, made beforehand, in one transaction right after ours: so both
meet the same neighbours on the machine. Its postings are in the order of their table too, since that is the fastest.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from corpus import BIG_SCOPE, DIMENSION, NOW, Words

from memory_retrievers import AgentMemory, EpisodicMemory, Message
from memory_retrievers.backends.sqlite.connection import Connection
from memory_retrievers.models import Draft
from memory_retrievers.models.selection import TURN
from memory_retrievers.testing import FixedClock
from memory_retrievers.text.analysis import analyze

MESSAGES: Final = 20
PASSAGES: Final = MESSAGES + 1
WORDS: Final = 12
CALLS: Final = 10
PREPARED: Final = 20_000
"""Passages that a call stores before anything is measured."""

_APPENDED: Final = {"memories": "row", "excerpts": "memory", "passages": "id", "passage_contents": "passage"}
"""Tables whose new rows have a higher number than all before."""

_COUNTED: Final = ("scopes", "keyword_statistics")
"""Tables of a few rows, which change."""

Rows: TypeAlias = dict[str, list[tuple[object, ...]]]
Rates: TypeAlias = "dict[int, tuple[list[Rate], list[Rate]]]"
"""By the size of the scope: ours, and those of the plain database."""


class Pool:
    """An embedder that gives each text one of a few thousand vectors, so that filling is measured and no model."""

    def __init__(self) -> None:
        vectors = np.random.default_rng(1).standard_normal((4_096, DIMENSION), np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_query(self, text: str) -> np.ndarray:
        return self._vectors[zlib.crc32(text.encode()) % len(self._vectors)]

    def embed_documents(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self.embed_query(text) for text in texts]


class Plain:
    """A database with the tables and indexes of a store, and nothing else: no triggers, no checks, no analysis."""

    def __init__(self, file: Path, store: sqlite3.Connection) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -32768"):
            self._connection.execute(f"PRAGMA {pragma}")
        made = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite_%'"
        for (sql,) in store.execute(f"{made} AND sql IS NOT NULL ORDER BY type DESC"):
            self._connection.execute(sql)

    def write(self, rows: Rows) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for table, its_rows in rows.items():
            places = ", ".join("?" * len(its_rows[0]))
            self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", its_rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class Pair:
    """A store and the plain database beside it, filled alike."""

    def __init__(self, directory: Path, embedder: Pool, words: Words) -> None:
        self.size = 0
        self._words = words
        clock = FixedClock(NOW)
        self._memory = AgentMemory.open(directory / "ours", embedder=embedder, embedder_id="pool", clock=clock)
        self._store = sqlite3.connect(directory / "ours" / "memory.db", isolation_level=None)
        self._plain = Plain(directory / "plain.db", self._store)
        self._last = dict.fromkeys(_APPENDED, 0)

    def fill(self, passages: int) -> tuple[Rate, Rate]:
        """Store about so many passages in both; returns the rate of each."""
        first = self.size // PASSAGES
        drafts = [self._draft(first + number) for number in range(max(1, passages // PASSAGES))]
        stored = len(drafts) * PASSAGES
        ours = _rate(stored, lambda: self._memory.remember_many(drafts))
        rows = self._written()
        plain = _rate(stored, lambda: self._plain.write(rows))
        self.size += stored
        return ours, plain

    def close(self) -> None:
        self._plain.close()
        self._store.close()
        self._memory.close()

    def _draft(self, number: int) -> Draft:
        at = NOW - timedelta(minutes=number)
        messages = [
            Message(role=("user", "assistant")[place % 2], content=self._words.sentence(WORDS), timestamp=at)
            for place in range(MESSAGES)
        ]
        summary = self._words.sentence(WORDS)
        return EpisodicMemory.new(scope=BIG_SCOPE, summary=summary, messages=messages, created_at=at)

    def _written(self) -> Rows:
        """The rows that the store has written since the last call."""
        rows: Rows = {table: self._store.execute(f"SELECT * FROM {table}").fetchall() for table in _COUNTED}
        for table, key in _APPENDED.items():
            new = self._store.execute(f"SELECT * FROM {table} WHERE {key} > ? ORDER BY {key}", (self._last[table],))
            rows[table] = new.fetchall()
            self._last[table] = max(self._last[table], rows[table][-1][0])
        ((scope_id,),) = self._store.execute("SELECT id FROM scopes")
        texts = {passage: text for passage, text, *_ in rows["passage_contents"]}
        postings: list[tuple[object, ...]] = []
        turns = self.size // PASSAGES * MESSAGES  # before this call, which decide in which volume its postings are
        volume = Connection.dialect.volume
        volumes = {TURN: turns // volume, "episodic": (self.size - turns) // volume}
        for passage, memory, part, *_ in rows["passages"]:
            terms = analyze(texts[passage])
            field_of = part if part == "episodic" else TURN
            kind = f"{field_of}:{volumes[field_of]}" if volumes[field_of] else field_of
            postings += [
                (scope_id, kind, term, passage, memory, frequency, len(terms))
                for term, frequency in Counter(terms).items()
            ]
        rows["postings"] = sorted(postings)
        return rows


class Rate(NamedTuple):
    """Passages by the second, and by the second of processor time, which neighbours on the machine change less."""

    elapsed: float
    processor: float


def _rate(passages: int, call: Callable[[], object]) -> Rate:
    elapsed, processor = time.perf_counter(), time.process_time()
    call()
    return Rate(passages / (time.perf_counter() - elapsed), passages / (time.process_time() - processor))


def measured(sizes: Sequence[int], *, call: int) -> Rates:
    """Fill a scope for each size, and measure its last calls, up to ten; the sizes take turns.

    Args:
        sizes: Passages in the scope at the end. One of a single call is filled ten times, each time in a new store.
        call: Passages that one call stores, about.

    Returns:
        Our rates and those of the plain database, for each size.
    """
    embedder, words = Pool(), Words(1)
    rates: Rates = {size: ([], []) for size in sizes}
    with ExitStack() as stack:
        pairs = {size: stack.enter_context(_pair(embedder, words)) for size in sizes}
        for size, pair in pairs.items():
            before = max(size // 2, size - CALLS * call) if size > call else 50 * PASSAGES
            while pair.size < before:
                pair.fill(min(PREPARED, before - pair.size))
        for _ in range(CALLS):
            for size, pair in pairs.items():
                if size <= call:
                    with _pair(embedder, words) as new:
                        both = new.fill(size)
                elif pair.size + call <= size + PASSAGES:
                    both = pair.fill(call)
                else:
                    continue
                for noted, rate in zip(rates[size], both, strict=True):
                    noted.append(rate)
    return rates


@contextmanager
def _pair(embedder: Pool, words: Words) -> Iterator[Pair]:
    """A pair in a directory of its own, which goes at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="memory-retrievers-bench-") as directory,
        closing(Pair(Path(directory), embedder, words)) as pair,
    ):
        yield pair


def table(results: dict[int, Rates]) -> Iterator[str]:
    """Rows of medians in passages a second, for each length of a call."""
    sizes = sorted({size for rates in results.values() for size in rates})
    yield "| |" + "".join(f" {size:,} passages |" for size in sizes) + " lowest / highest |"
    yield "|---|" + "---:|" * (len(sizes) + 1)
    for call, rates in results.items():
        yield f"| **{call:,} passages a call** |" + " |" * (len(sizes) + 1)
        for what, by in (("", "elapsed"), (", by processor time", "processor")):
            ours, plain = (
                [statistics.median(getattr(rate, by) for rate in rates[size][which]) for size in sizes]
                for which in (0, 1)
            )
            cells = [f"{own:,.0f} · **{own / other:.2f}×** plain" for own, other in zip(ours, plain, strict=True)]
            yield f"| memory-retrievers{what} | {' | '.join(cells)} | {min(ours) / max(ours):.2f} |"
            cells = [f"{rate:,.0f}" for rate in plain]
            yield f"| plain sqlite3{what} | {' | '.join(cells)} | {min(plain) / max(plain):.2f} |"
