"""Speed of retrieval without embedding time, beside the floor and beside the peers, in the same run.

``make bench`` prints the table of the README. Ours, the floor (``floor.py``: the least that any hybrid search must do)
and the peers (``peers.py``: what people put together today) answer in turn, over the same records, scopes and
vectors. Absolute times depend on the machine and its neighbours; the ratios are the figures to quote.

    python benchmarks/speed.py --sizes 1000,10000,100000 --rounds 300
    python benchmarks/speed.py --no-peers           # the quick form: a minute or two instead of ten
    python benchmarks/speed.py --backend postgres   # the same memory on a PostgreSQL server beside the embedded one
    python benchmarks/speed.py --filling            # instead: how fast one scope is filled as it grows (``filling.py``)
    python benchmarks/speed.py --facts 10000        # instead: one scope of so many facts, searched and added to
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import filling
from corpus import BIG_SCOPE, NOW, Corpus, OneScope, Text
from floor import Floor
from timings import Timings

from memory_retrievers import AgentMemory
from memory_retrievers.models import Draft
from memory_retrievers.testing import FixedClock
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

SMALL: Final = "small scope (~100)"
BIG: Final = "scope of 10 %"
ADD: Final = "add one and find it"
BY_TOOL: Final = "`memory_store`, nothing searched before"
OPEN: Final = "open + first retrieve"

Results: TypeAlias = dict[str, dict[str, Timings]]
"""What was done, by whom."""


class System(Protocol):
    """Whatever is timed."""

    name: str

    def search(self, question: Text) -> object: ...

    def add_and_find(self, newcomer: Text) -> None: ...


class Ours:
    """memory-retrievers, in a directory."""

    name = "memory-retrievers"

    def __init__(self, place: str | Path, corpus: Corpus) -> None:
        self._place = place
        self._embedder = corpus.embedder
        self.memory = self.open()

    def fill(self, drafts: Sequence[Draft]) -> None:
        self.memory.remember_many(drafts)

    def search(self, question: Text) -> None:
        self.memory.retrieve(question.words, scope=question.scope, limit=5)

    def add_and_find(self, newcomer: Text) -> None:
        stored = self.memory.remember_fact(scope=newcomer.scope, fact=newcomer.words)
        found = self.memory.retrieve(newcomer.words, scope=newcomer.scope, limit=5)
        assert stored.id in {hit.memory.id for hit in found.semantic}

    def open_and_search(self, question: Text) -> None:
        with self.open() as memory:
            memory.retrieve(question.words, scope=question.scope, limit=5)

    def open(self) -> AgentMemory:
        return AgentMemory.open(self._place, embedder=self._embedder, embedder_id="table", clock=FixedClock(NOW))


class OnPostgres(Ours):
    """The same on a PostgreSQL server of its own."""

    name = "on PostgreSQL"

    def open(self) -> AgentMemory:
        url, clock = str(self._place), FixedClock(NOW)
        return AgentMemory.connect(url, embedder=self._embedder, embedder_id="table", clock=clock)


class Bench:
    """The systems, filled with the records of one size."""

    def __init__(self, corpus: Corpus, directory: Path, peers: Sequence[System], *, server: str | None) -> None:
        self.corpus = corpus
        self.ours = [Ours(directory / "ours", corpus), *([OnPostgres(server, corpus)] if server else [])]
        self.systems: list[System] = [*self.ours, Floor(corpus), *peers]
        for drafts, texts in corpus.batches():
            for ours in self.ours:
                ours.fill(drafts)
            for peer in peers:
                peer.add(texts)
        gc.collect()
        gc.freeze()  # the garbage collector shall not walk the bench's own lists while others are timed

    def run(self, rounds: int) -> Results:
        scopes = self.corpus.small_scopes(50)
        results = {
            SMALL: self.searched(scopes, rounds),
            BIG: self.searched([BIG_SCOPE], max(30, rounds // 4)),
            ADD: self._add_and_find(scopes, max(30, rounds // 2)),
        }
        for ours in self.ours:
            ours.memory.close()
        return results | {OPEN: {ours.name: self._open_and_search(ours, scopes, 20) for ours in self.ours}}

    def searched(self, scopes: Sequence[str], rounds: int) -> dict[str, Timings]:
        """Each on the same questions; what is cached per scope has been seen before."""
        for scope in scopes:
            question = self.corpus.question(scope)
            for system in self.systems:
                system.search(question)
        timings = {system.name: Timings() for system in self.systems}
        for number in range(rounds):
            question = self.corpus.question(scopes[number % len(scopes)])
            for system in self._asked(number, rounds):
                timings[system.name].measure(lambda: system.search(question))  # noqa: B023
        return timings

    def _add_and_find(self, scopes: Sequence[str], rounds: int) -> dict[str, Timings]:
        """Each with newcomers of its own, since some share a collection."""
        timings = {system.name: Timings() for system in self.systems}
        for number in range(rounds):
            for system in self._asked(number, rounds):
                newcomer = self.corpus.newcomer(scopes[number % len(scopes)])
                timings[system.name].measure(lambda: system.add_and_find(newcomer))  # noqa: B023
        return timings

    def _open_and_search(self, ours: Ours, scopes: Sequence[str], rounds: int) -> Timings:
        timings = Timings()
        for number in range(rounds):
            question = self.corpus.question(scopes[number % len(scopes)])
            timings.measure(lambda: ours.open_and_search(question))  # noqa: B023
        return timings

    def _asked(self, number: int, rounds: int) -> Iterator[System]:
        """Who takes part in this round: a slow peer has fewer questions, spread over all rounds."""
        for system in self.systems:
            share = min(rounds, getattr(system, "questions", rounds))
            if number * share // rounds != (number - 1) * share // rounds:
                yield system


@contextmanager
def _peers(directory: Path, corpus: Corpus, *, wanted: bool) -> Iterator[Sequence[System]]:
    if not wanted:
        yield []
        return
    from peers import opened_peers  # needs the extra "bench"

    with opened_peers(directory, corpus.embedder) as peers:
        yield peers


@contextmanager
def _server(*, wanted: bool) -> Iterator[str | None]:
    """A PostgreSQL server as it comes, so that what is acknowledged is on disk, as with the embedded store."""
    if not wanted:
        yield None
        return
    from postgres_server import running_postgres

    with running_postgres(settings=("shared_buffers = '1GB'",)) as server:
        yield server.url(server.create())


def _measure(size: int, directory: Path, rounds: int, *, peers: bool, postgres: bool) -> Results:
    corpus = Corpus(size)
    with _peers(directory, corpus, wanted=peers) as opened, _server(wanted=postgres) as server:
        return Bench(corpus, directory, opened, server=server).run(rounds)


def _table(results: dict[int, Results]) -> Iterator[str]:
    """One row for each that was timed: p50 / p95, and how it compares."""
    sizes = list(results)
    yield "| |" + "".join(f" {size:,} records |" for size in sizes)
    yield "|---|" + "---|" * len(sizes)
    for sort, by_system in results[sizes[0]].items():
        yield f"| **{sort}** |" + " |" * len(sizes)
        for name in by_system:
            yield f"| {name} | " + " | ".join(_cell(results[size][sort], name) for size in sizes) + " |"


def _cell(timings: dict[str, Timings], name: str) -> str:
    own, ours, floor = timings[name], timings[Ours.name], timings.get(Floor.name)
    if name == Floor.name or floor is None:
        return str(own)
    if name == Ours.name:
        return f"{own} · **{own.p50 / floor.p50:.1f}×** the floor"
    return f"{own} · **{own.p50 / ours.p50:.1f}×** ours"


def _measure_filling(sizes: Sequence[int], calls: Sequence[int]) -> None:
    results: dict[int, filling.Rates] = {}
    for call in calls:
        print(f"filling a scope by {call:,} passages a call …", file=sys.stderr, flush=True)
        results[call] = filling.measured(sizes, call=call)
    print("Passages a second, without embedding, at the size that one scope has reached\n")
    print("\n".join(filling.table(results)))


def _measure_facts(size: int, rounds: int) -> None:
    """The floor's search stands beside both rows: what it does for an addition is to count all words anew."""
    with tempfile.TemporaryDirectory(prefix="memory-retrievers-bench-") as folder:
        bench = Bench(OneScope(size), Path(folder), [], server=None)
        (ours,) = bench.ours
        searches, added = bench.searched([BIG_SCOPE], rounds), Timings()
        for _ in range(rounds):
            newcomer = bench.corpus.newcomer(BIG_SCOPE)
            added.measure(lambda: ours.add_and_find(newcomer))  # noqa: B023
        ours.memory.close()
        by_tool = _stored_by_tool(ours, bench.corpus, rounds)
    floor = searches[Floor.name]
    print("Milliseconds, p50 / p95, and the ratio of the p50 to that of the floor's search\n")
    print(f"| | one scope of {size:,} facts |\n|---|---|\n| floor, search | {floor} |")
    for name, timings in (("search", searches[Ours.name]), (ADD, added), (BY_TOOL, by_tool)):
        print(f"| {name} | {timings} · **{timings.p50 / floor.p50:.1f}×** the floor |")


def _stored_by_tool(ours: Ours, corpus: Corpus, rounds: int) -> Timings:
    """What ``memory_store`` takes in a process that has never searched the scope, from its second call on."""
    timings = Timings()
    with ours.open() as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root=BIG_SCOPE))

        def store(words: str) -> None:
            assert not toolbox.call("memory_store", {"content": words}).is_error

        store(corpus.newcomer(BIG_SCOPE).words)
        for _ in range(rounds):
            timings.measure(partial(store, corpus.newcomer(BIG_SCOPE).words))
    return timings


def _numbers(listed: str) -> list[int]:
    return [int(number) for number in listed.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000", help="records, separated by commas")
    parser.add_argument("--backend", choices=["disk", "postgres"], default="disk", help="what is timed beside the disk")
    parser.add_argument("--rounds", type=int, default=300, help="questions per figure")
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="measure the peers too")
    parser.add_argument(
        "--filling",
        nargs="?",
        const="1000,40000,400000",
        metavar="SIZES",
        help="measure how fast a scope is filled at these sizes, in passages, separated by commas",
    )
    parser.add_argument("--calls", default="1000,10000", help="passages that one call stores, with --filling")
    parser.add_argument("--facts", type=int, metavar="FACTS", help="measure one scope of so many facts")
    arguments = parser.parse_args()
    if arguments.facts:
        _measure_facts(arguments.facts, max(30, arguments.rounds // 3))
        return
    if arguments.filling:
        _measure_filling(_numbers(arguments.filling), _numbers(arguments.calls))
        return
    postgres = arguments.backend == "postgres"
    results: dict[int, Results] = {}
    for size in _numbers(arguments.sizes):
        print(f"{size:,} records: filling, then measuring …", file=sys.stderr, flush=True)
        directory = Path(tempfile.mkdtemp(prefix="memory-retrievers-bench-"))
        try:
            results[size] = _measure(size, directory, arguments.rounds, peers=arguments.peers, postgres=postgres)
        finally:
            shutil.rmtree(directory)
    print("Milliseconds, p50 / p95, and the ratio of the p50s\n")
    print("\n".join(_table(results)))
    smallest, largest = min(results), max(results)
    for sort in (SMALL, OPEN):
        for name in (Ours.name, *([OnPostgres.name] if postgres else [])):
            growth = results[largest][sort][name].p50 / results[smallest][sort][name].p50
            print(f"\n{sort}, {name}: {growth:.2f}× from {smallest:,} to {largest:,} records")
    if not arguments.peers:
        print(f"\nchromadb loaded: {'yes' if 'chromadb' in sys.modules else 'no'}")


if __name__ == "__main__":
    main()
