"""Processes that only write: facts into a store, and the same rows by plain sqlite3, to compare like with like.

Both sides commit one fact at a time, durably (WAL, ``synchronous = FULL``), into tables with the same indexes. The
plain side has no triggers, makes no vectors, terms or ids and checks nothing: its rows are ready before it begins. It
writes them twice: as processes that know nothing of each other do, of which one writes many in a row while another
waits, and once more taking turns by the lock that the package takes.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Final

from fleet_process import SCOPES, WORDS
from windows_processes import Process
from windows_worker import opened

from memory_retrievers import SemanticMemory
from memory_retrievers.backends.files import Folder
from memory_retrievers.backends.locks import Turnstile
from memory_retrievers.storage.open import STORE_FILE
from memory_retrievers.testing import HashEmbedder

PREPARED: Final = 150
"""Facts a second that each process has ready; it stops when there are no more."""

LEAD: Final = 0.5
"""Seconds from the word to the beginning, which all processes wait for."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast all processes together wrote.

    Attributes:
        p50: Seconds of a write, the middle one.
        p95: Seconds that 19 of 20 writes took at most.
        longest: Seconds of the longest write: who comes last where turns are not fair.
        per_second: Writes of all processes.
        processor: Seconds of processor time of a write, on average; what else runs on the machine counts for little.
    """

    p50: float
    p95: float
    longest: float
    per_second: float
    processor: float


def measured(directory: Path, *, processes: int, seconds: float, pace: float = 0) -> tuple[Rate, Rate, Rate]:
    """Measure writes by the package, of the same rows by plain sqlite3, and by plain sqlite3 that takes turns.

    Args:
        directory: Gets the databases.
        processes: How many there are of each.
        seconds: How long they write at most.
        pace: How many writes each begins in a second; 0 is one after the other.
    """
    directory.mkdir()
    ours, plain, fair = directory / "written", directory / "plain.db", directory / "turns" / "plain.db"
    with opened(ours) as memory:
        for scope in SCOPES:
            memory.remember_fact(scope=scope, fact="The first one.")
    orders = [_Orders(ours, ours, number, processes, seconds, pace) for number in range(processes)]
    first = _rate(orders, directory)
    fair.parent.mkdir()
    rates = [first]
    for target in (plain, fair):
        _made_empty(target, like=ours / STORE_FILE)
        rates.append(_rate([replace(each, target=target, in_turns=target is fair) for each in orders], directory))
    return rates[0], rates[1], rates[2]


def part_of(times: Sequence[float], part: float) -> float:
    """The time that this part of sorted times does not exceed."""
    return times[min(len(times) - 1, int(len(times) * part))]


@dataclass(frozen=True, slots=True)
class _Orders:
    """What a process is to write.

    Attributes:
        target: The store, or the database of plain sqlite3.
        source: The store whose rows plain sqlite3 writes; the same as the target for the package itself.
        number: Which of the processes it is.
        of: How many there are.
        seconds: How long it writes at most.
        pace: How many writes it begins in a second; 0 is one after the other.
        in_turns: Plain sqlite3 takes the package's lock for each write.
    """

    target: Path
    source: Path
    number: int
    of: int
    seconds: float
    pace: float
    in_turns: bool = False

    @classmethod
    def parse(cls, given: Sequence[str]) -> _Orders:
        """What the arguments of the process say."""
        *_, number, of, seconds, pace, in_turns = given
        return cls(
            Path(given[0]), Path(given[1]), int(number), int(of), float(seconds), float(pace), in_turns == str(True)
        )


class _Writer(Process):
    """This file in a process of its own."""

    def __init__(self, orders: _Orders, *, log: Path) -> None:
        self._orders = orders
        super().__init__(orders.target, scope="", log=log)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.begin(request)
        return self.end()

    def begin(self, request: Mapping[str, Any]) -> None:
        """Ask without waiting for the answer."""
        self._say(request)

    def end(self) -> dict[str, Any]:
        """The answer."""
        return self._hear()

    def _command(self, store: Path, scope: str) -> list[str]:  # noqa: ARG002 - they are among the arguments
        return [sys.executable, __file__, *map(str, astuple(self._orders))]

    def _greet(self) -> None:
        self._hear()


def _rate(orders: Sequence[_Orders], directory: Path) -> Rate:
    writers = [_Writer(each, log=directory / f"rate-{each.number}.log") for each in orders]
    at = time.time() + LEAD
    for writer in writers:
        writer.begin({"at": at})
    answers = [writer.end() for writer in writers]
    for writer in writers:
        writer.close()
    times = sorted(seconds for answer in answers for seconds in answer["times"])
    took = max(answer["ended"] for answer in answers) - at
    worked = sum(answer["processor"] for answer in answers)
    return Rate(part_of(times, 0.5), part_of(times, 0.95), times[-1], len(times) / took, worked / len(times))


def main(arguments: Sequence[str]) -> None:
    """Be a process that writes: all is made ready, then it waits for the word."""
    orders = _Orders.parse(arguments)
    by = _by_the_package if orders.target == orders.source else _by_sqlite
    with by(orders) as step:
        print(json.dumps({"ready": True}), flush=True)
        at = json.loads(sys.stdin.readline())["at"]
        times: list[float] = []
        worked = time.process_time()
        for moment in _moments(orders, at):
            time.sleep(max(0.0, moment - time.time()))
            began = time.perf_counter()
            if not step():
                break
            times.append(time.perf_counter() - began)
        print(json.dumps({"times": times, "ended": time.time(), "processor": time.process_time() - worked}), flush=True)


def _moments(orders: _Orders, at: float) -> Iterator[float]:
    """When to begin a write; those of all processes are spread evenly over the time between two of one."""
    end = at + orders.seconds
    if orders.pace:
        yield from (
            at + (each + orders.number / orders.of) / orders.pace for each in range(int(orders.seconds * orders.pace))
        )
        return
    yield at
    while time.time() < end:
        yield at


@contextmanager
def _by_the_package(orders: _Orders) -> Iterator[Callable[[], bool]]:
    chosen, facts = random.Random(orders.number), range(int(PREPARED * orders.seconds))
    texts = [f"r{orders.number}x{each}q {' '.join(chosen.sample(WORDS, 4))}" for each in facts]
    waiting, scope = iter(texts), SCOPES[orders.number % len(SCOPES)]
    with opened(orders.target, _Prepared(texts)) as memory:
        memory.retrieve("tea", scope=scope)  # whatever is loaded once is loaded now

        def step() -> bool:
            text = next(waiting, None)
            return text is not None and bool(memory.remember_fact(scope=scope, fact=text))

        yield step


class _Prepared(HashEmbedder):
    """An embedder that has embedded the texts of facts before."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self._known: dict[str, list[float]] = {}
        drafts = [SemanticMemory.new(scope=SCOPES[0], fact=text) for text in texts]
        self._known = {draft.embedding_text: self.embed_query(draft.embedding_text) for draft in drafts}

    def embed_query(self, text: str) -> list[float]:
        return self._known.get(text) or super().embed_query(text)


_OF_MEMORIES: Final = {
    "memories": "row = ?1",
    "excerpts": "memory = ?1",
    "passages": "memory = ?1",
    "passage_contents": "passage IN (SELECT id FROM passages WHERE memory = ?1)",
    "postings": "memory = ?1",
}
"""The tables a stored memory has rows in, and which."""
_COUNT_VERSION: Final = "UPDATE scopes SET version = version + 2 WHERE id = ?"
_NOTE_CHANGES: Final = "INSERT INTO changes SELECT id, version - ?, ? FROM scopes WHERE id = ?"
_COUNT_WORDS: Final = (
    "UPDATE keyword_statistics SET passages = passages + 1, terms = terms + 5 WHERE scope_id = ? AND kind = ?"
)
"""What it changes besides: a memory and its passage each raise the version, and are noted with it."""


@contextmanager
def _by_sqlite(orders: _Orders) -> Iterator[Callable[[], bool]]:
    ready = iter(_rows(orders.source / STORE_FILE, orders.number, orders.of))
    with (
        closing(sqlite3.connect(orders.target, isolation_level=None, timeout=60)) as connection,
        Folder(orders.target.parent) as folder,
        closing(Turnstile(folder, "turn")) as turn,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

        def step() -> bool:
            rows = next(ready, None)
            if rows is None:
                return False
            if orders.in_turns:
                turn.acquire(60)
            connection.execute("BEGIN IMMEDIATE")
            for statement, values in rows:
                connection.executemany(statement, values)
            connection.execute("COMMIT")
            if orders.in_turns:
                turn.release()
            return True

        yield step


def _rows(file: Path, number: int, of: int) -> list[list[tuple[str, list[tuple[object, ...]]]]]:
    """Statements for every memory that is this process's part of a store, with their values."""
    with closing(sqlite3.connect(file)) as connection:
        memories = connection.execute("SELECT row, scope_id, kind FROM memories WHERE row % ?2 = ?1", (number, of))
        found = []
        for row, scope_id, kind in memories.fetchall():
            statements = []
            for table, condition in _OF_MEMORIES.items():
                values = connection.execute(f"SELECT * FROM {table} WHERE {condition}", (row,)).fetchall()
                if values:
                    marks = ", ".join("?" * len(values[0]))
                    statements.append((f"INSERT INTO {table} VALUES ({marks})", values))
            statements.append((_COUNT_VERSION, [(scope_id,)]))
            statements.append((_NOTE_CHANGES, [(1, row, scope_id), (0, row, scope_id)]))
            statements.append((_COUNT_WORDS, [(scope_id, kind)]))
            found.append(statements)
        return found


def _made_empty(file: Path, *, like: Path) -> None:
    """Make the tables and indexes of a store, without its triggers, and what a memory's rows refer to."""
    with closing(sqlite3.connect(like)) as source, closing(sqlite3.connect(file)) as target:
        made = source.execute(
            "SELECT sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL "
            "AND name NOT LIKE 'sqlite_%' ORDER BY type DESC"
        )
        target.execute("PRAGMA journal_mode = WAL")
        for (statement,) in made:
            target.execute(statement)
        for table in ("scopes", "keyword_statistics"):
            for values in source.execute(f"SELECT * FROM {table}"):
                target.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
        target.commit()


if __name__ == "__main__":
    main(sys.argv[1:])
