"""What measuring the best by their tokens costs: time of a search beside one without, and bytes of a message.

    python benchmarks/token_rerank.py [--conversations 8] [--rounds 5]

One store of synthetic conversations is opened with ``token_rerank`` on and off in turn. Embedding the question is left
out of the times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation.stores import FilledStores, RememberedVectors
from memory_retrievers.evaluation.synthetic import conversations
from memory_retrievers.testing import inside


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    held = conversations(number=arguments.conversations)
    questions = [(each.scope, question.text) for each in held for question in each.questions]
    times: dict[bool, list[float]] = {True: [], False: []}
    with FilledStores(held, embedder=RememberedVectors(MiniLMEmbedder())) as stores:
        with stores.opened(RetrievalSettings(token_rerank=True)) as (memory, _):
            print(_bytes(memory))
        for _ in range(arguments.rounds):
            for is_on in (True, False):
                with stores.opened(RetrievalSettings(token_rerank=is_on)) as (memory, _):
                    times[is_on] += _milliseconds(memory, questions)
    on, off = (statistics.median(times[is_on]) for is_on in (True, False))
    number = len(times[True])
    print(f"p50 of {number:,} searches: {on:.2f} ms with tokens, {off:.2f} without: {on - off:+.2f} ms")


def _milliseconds(memory: AgentMemory, questions: Sequence[tuple[str, str]]) -> Iterator[float]:
    """Times of searches once their scopes have been read and the questions embedded."""
    for scope, text in questions:
        memory.retrieve(text, scope=scope, record=False)
    for scope, text in questions:
        memory.retrieve(text, scope=scope, record=False)
        begun = time.perf_counter()
        memory.retrieve(text, scope=scope, record=False)
        yield 1_000 * (time.perf_counter() - begun)


def _bytes(memory: AgentMemory) -> str:
    with inside(memory).ledger.database.read() as connection:
        number, stored, most = connection.execute(
            """SELECT count(*), avg(length(tokens)), max(length(tokens))
            FROM passage_contents c JOIN passages p ON p.id = c.passage WHERE p.part LIKE 'turn %'"""
        ).fetchone()
    return f"{number:,} messages: {stored:,.0f} bytes of token vectors each, {most:,} at most"


if __name__ == "__main__":
    main()
