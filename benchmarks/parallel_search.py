"""Whether it pays to run both searches of a question, dense and BM25, at once instead of in turn.

One store on disk, scopes of 100, 10,000 and 40,000 facts, vectors of 384 dimensions. Each question is answered in
turn and at once, one right after the other: the dense search in a thread that waits for work, BM25 in the thread that
asks. In ``search`` both name their best hundred; in ``whole`` both measure every passage of the scope, as the default
does up to ``exact_limit``. ``retrieve`` is a whole retrieval, without embedding, to compare with.

    python benchmarks/parallel_search.py --questions 60
    python benchmarks/parallel_search.py --questions 60 --dense chroma
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sentences import questions, statements
from timings import Timings

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.models import Kind
from memory_retrievers.models.selection import Selection
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.text.analysis import analyze

SIZES: Final = "100,10000,40000"
DEPTH: Final = 100
SEED: Final = 7
DIMENSION: Final = 384

HEAD: Final = (
    "| passages | what is run | dense | BM25 | in turn | at once | at once / in turn | retrieve |\n"
    "|---:|---|---|---|---|---|---|---|"
)


class Race:
    """The two searches of many questions, in turn and at once."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.dense, self.bm25, self.in_turn, self.at_once = (Timings() for _ in range(4))

    def run(self, dense: Callable[[], object], bm25: Callable[[], object]) -> None:
        def in_turn() -> None:
            self.dense.measure(dense)
            self.bm25.measure(bm25)

        def at_once() -> None:
            other = self._pool.submit(dense)
            bm25()
            other.result()

        self.in_turn.measure(in_turn)
        self.at_once.measure(at_once)

    def line(self, size: int, what: str, retrieve: Timings) -> str:
        timed = " | ".join(str(each) for each in (self.dense, self.bm25, self.in_turn, self.at_once))
        return f"| {size:,} | {what} | {timed} | {self.at_once.p50 / self.in_turn.p50:.2f} | {retrieve} |"


def _fill(memory: AgentMemory, sizes: Sequence[int]) -> None:
    sentences = iter(statements(sum(sizes), seed=SEED))
    for size in sizes:
        facts = [SemanticMemory.new(scope=f"of/{size}", fact=next(sentences)) for _ in range(size)]
        for start in range(0, size, 2_000):
            memory.remember_many(facts[start : start + 2_000])


def _measured(memory: AgentMemory, size: int, asked: list[str], pool: ThreadPoolExecutor) -> list[str]:
    store = memory._store  # noqa: SLF001 - the indexes are not public
    selection = Selection(scope=f"of/{size}", kind=Kind.SEMANTIC, now=store.now())
    passages = store.ledger.layout(selection, memories=None).passages
    searches, wholes, retrieve = Race(pool), Race(pool), Timings()
    for number, question in enumerate(asked):
        vector, terms = store.embedder.current().embed_query(question), analyze(question)
        if not number:  # what is read once is not counted
            store.dense.similarities(vector, selection, passages)
            memory.retrieve(question, scope=f"of/{size}", record=False)
        searches.run(
            lambda: store.dense.search(vector, selection, limit=DEPTH),  # noqa: B023 - called at once
            lambda: store.keyword.search(terms, selection, limit=DEPTH),  # noqa: B023
        )
        wholes.run(
            lambda: store.dense.similarities(vector, selection, passages),  # noqa: B023
            lambda: store.keyword.counts(terms, selection, passages),  # noqa: B023
        )
        retrieve.measure(lambda: memory.retrieve(question, scope=f"of/{size}", record=False))  # noqa: B023
    return [searches.line(size, "search", retrieve), wholes.line(size, "whole", retrieve)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--dense", choices=["exact", "chroma"], default="exact")
    parser.add_argument("--sizes", default=SIZES)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    with (
        tempfile.TemporaryDirectory() as directory,
        ThreadPoolExecutor(1) as pool,
        AgentMemory.open(directory, embedder=HashEmbedder(DIMENSION), dense=arguments.dense) as memory,
    ):
        _fill(memory, sizes)
        print(f"\n{arguments.dense}, ms p50 / p95 of {arguments.questions} questions\n\n{HEAD}")
        for size in sizes:
            for line in _measured(memory, size, questions(arguments.questions, seed=SEED + 1), pool):
                print(line, flush=True)


if __name__ == "__main__":
    main()
