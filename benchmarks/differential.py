"""Searches beside writers, compared with a plain table of what was there: nothing is missing, nothing comes back.

Every thread adds, changes and forgets memories of its own and searches those of all. A table notes when each change
began and ended; an answer is right if every memory in it said so at some moment of the search, and none is missing
that was there all the time. In the end the answers must be those of the store opened anew, scores to the last digit.

    python benchmarks/differential.py [--seconds 60] [--threads 8]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory_retrievers import AgentMemory
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.testing import FixedClock, HashEmbedder

SCOPE: Final = "crew"
BELOW: Final = "crew/nets"
WORDS: Final = ("boat", "pier", "cod", "net", "ice", "late", "early", "price", "auction", "storm")
ROOM: Final = 10
"""Memories of each kind that a thread has at once: those of eight threads are fewer than a search can return."""


@dataclass
class Version:
    """What a memory said from a change on; None is nothing.

    Attributes:
        text: Its text.
        began: When the change began, in nanoseconds.
        ended: When it was over; None as long as it is not.
    """

    text: str | None
    began: int
    ended: int | None = None


@dataclass
class Table:
    """The plain implementation: every memory with its versions, by scope and id."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    there: dict[tuple[str, str], list[Version]] = field(default_factory=dict)
    gone: dict[tuple[str, str], list[Version]] = field(default_factory=dict)

    def change(self, key: tuple[str, str], text: str | None, work: Callable[[], object]) -> None:
        """Do a change and note when it was done."""
        version = Version(text, time.monotonic_ns())
        with self.lock:
            self.there.setdefault(key, []).append(version)
        work()
        with self.lock:
            version.ended = time.monotonic_ns()
            if text is None:
                self.gone[key] = self.there.pop(key)

    def faults(self, found: dict[tuple[str, str], str], scopes: set[str], *, began: int, ended: int) -> list[str]:
        """What is wrong with an answer.

        Args:
            found: The texts of the memories in it.
            scopes: The scopes that were searched.
            began: When the search began.
            ended: When it ended.
        """
        with self.lock:
            there = {key: list(versions) for key, versions in self.there.items() if key[0] in scopes}
            known = {key: list(there.get(key) or self.gone.get(key, ())) for key in found}
        wrong = [
            f"{key} said {text!r}, which it did not say then"
            for key, text in found.items()
            if not _may_have_said(known[key], text, began=began, ended=ended)
        ]
        settled = {key for key, versions in there.items() if _was_there(versions, began=began, ended=ended)}
        return wrong + [f"{key} is missing" for key in sorted(settled - found.keys())]


def _may_have_said(versions: list[Version], text: str, *, began: int, ended: int) -> bool:
    after = [each.ended for each in versions[1:]] + [None]
    return any(
        each.text == text and each.began <= ended and (until is None or until >= began)
        for each, until in zip(versions, after, strict=True)
    )


def _was_there(versions: list[Version], *, began: int, ended: int) -> bool:
    before = [each for each in versions if each.began <= ended]
    said = [each for each in before if each.ended is not None and each.ended < began]
    return bool(said) and all(each.text is not None for each in (said[-1], *before[len(said) :]))


class Worker:
    """A thread that writes memories of its own, and searches those of all.

    Args:
        memory: The memory.
        table: What is compared with.
        number: The worker's number.
        seed: Seed of what it does.
    """

    def __init__(self, memory: AgentMemory, table: Table, *, number: int, seed: int) -> None:
        self._memory = memory
        self._table = table
        self._name = f"w{number}"
        self._random = random.Random(f"{seed}/{number}")
        self._made = 0
        self._facts: list[tuple[str, str]] = []
        self._episodes: list[tuple[str, str]] = []
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []

    def step(self) -> None:
        """Do one thing at random."""
        kept = self._facts if self._random.random() < 0.5 else self._episodes
        work = self._random.choices((self._search, self._add, self._forget, self._update), (5, 3, 2, 2))[0]
        if work == self._add and len(kept) == ROOM:
            work = self._forget
        if work in {self._forget, self._update} and not kept:
            work = self._add
        self.done[work.__name__.removeprefix("_")] += 1
        work(kept)

    def _text(self) -> str:
        self._made += 1
        return f"{' '.join(self._random.choices(WORDS, k=4))} {self._name} {self._made}"

    def _add(self, kept: list[tuple[str, str]]) -> None:
        text, scope = self._text(), self._random.choice((SCOPE, BELOW))
        key = scope, f"{self._name}-{self._made}"
        if kept is self._facts:
            self._table.change(key, text, lambda: self._memory.remember_fact(scope=scope, id=key[1], fact=text))
        else:
            self._table.change(
                key, text, lambda: self._memory.remember_episode(scope=scope, id=key[1], summary=text, messages=[])
            )
        kept.append(key)

    def _update(self, kept: list[tuple[str, str]]) -> None:
        key, text = self._random.choice(kept), self._text()
        name = "fact" if kept is self._facts else "summary"
        self._table.change(key, text, lambda: self._memory.update(key[1], scope=key[0], **{name: text}))

    def _forget(self, kept: list[tuple[str, str]]) -> None:
        key = kept.pop(self._random.randrange(len(kept)))
        self._table.change(key, None, lambda: self._memory.forget(key[1], scope=key[0]))

    def _search(self, _: list[tuple[str, str]]) -> None:
        scope, below = self._random.choice(((SCOPE, False), (SCOPE, True), (BELOW, False)))
        question = " ".join(self._random.choices(WORDS, k=2))
        began = time.monotonic_ns()
        found = _texts(answer(self._memory, question, scope=scope, below=below))
        ended = time.monotonic_ns()
        self.faults += self._table.faults(found, {scope, BELOW} if below else {scope}, began=began, ended=ended)


def answer(memory: AgentMemory, question: str, *, scope: str, below: bool) -> RetrievalResult:
    """All that is there, in the order of a question."""
    return memory.retrieve(
        question, scope=scope, include_child_scopes=below, semantic_limit=1_000, episodic_limit=100, record=False
    )


def _texts(result: RetrievalResult) -> dict[tuple[str, str], str]:
    facts = {(hit.memory.scope, hit.memory.id): hit.memory.fact for hit in result.semantic}
    return facts | {(hit.memory.scope, hit.memory.id): hit.memory.summary for hit in result.episodic}


def _scores(memory: AgentMemory) -> list[tuple[str, str, float]]:
    found = [answer(memory, word, scope=SCOPE, below=below) for word in WORDS for below in (False, True)]
    return [(hit.memory.scope, hit.memory.id, hit.score) for each in found for hit in (*each.semantic, *each.episodic)]


def differences(
    directory: Path, *, threads: int, steps: int | None = None, seconds: float = 0.0, seed: int = 0
) -> tuple[list[str], Counter[str]]:
    """Let threads work on a store, and compare their answers with the plain table.

    Args:
        directory: A new directory for the store.
        threads: How many work at once.
        steps: What each does; None is as much as there is time for.
        seconds: The time.
        seed: Seed of what they do.

    Returns:
        What was wrong, and how often each thing was done.
    """
    clock, table = FixedClock(datetime(2026, 1, 1, tzinfo=UTC)), Table()
    with AgentMemory.open(directory, embedder=HashEmbedder(32), clock=clock) as memory:
        workers = [Worker(memory, table, number=number, seed=seed) for number in range(threads)]
        until = time.monotonic() + seconds

        def work(worker: Worker) -> None:
            left = steps
            while left != 0 if left is not None else time.monotonic() < until:
                worker.step()
                left = None if left is None else left - 1

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, workers))
        faults = [fault for worker in workers for fault in worker.faults]
        held = _scores(memory)
    with AgentMemory.open(directory, embedder=HashEmbedder(32), clock=clock) as memory:
        if _scores(memory) != held:
            faults.append("the store opened anew answers otherwise")
    return faults, sum((worker.done for worker in workers), Counter())


def main() -> None:
    """Print what was done and what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--threads", type=int, default=8, help="how many at once")
    parser.add_argument("--seed", type=int, default=0, help="seed of what they do")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        faults, done = differences(
            Path(directory) / "store", threads=given.threads, seconds=given.seconds, seed=given.seed
        )
    print(dict(done), f"{len(faults)} wrong", *faults[:20], sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
