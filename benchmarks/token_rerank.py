"""What ordering the first by their tokens costs: time of a search beside one without, and bytes of a message.

    python benchmarks/token_rerank.py [--conversations 8] [--rounds 5]

Of two stores of the same conversations one is searched with ``token_rerank`` and one without, each question in turn: in
processor time of the thread that asks, once its scope has been read and it is embedded. Asked for the first time, a
question reads tokens from the database, as far as none before has; for the second time it finds them in memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation.conversations import FilledStores, RememberedVectors
from memory_retrievers.evaluation.synthetic import synthetic
from memory_retrievers.testing import inside


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    held = synthetic(number=arguments.conversations)
    questions = [(each.scope, question.text) for each in held for question in each.questions]
    embedder = RememberedVectors(MiniLMEmbedder())
    with ExitStack() as opened:
        memories = [
            opened.enter_context(
                opened.enter_context(FilledStores(held, embedder=embedder)).opened(
                    RetrievalSettings(token_rerank=is_on)
                )
            )[0]
            for is_on in (True, False)
        ]
        print(_bytes(memories[0]))
        for _ in range(arguments.rounds):
            _forget_tokens(memories[0], questions)
            _compare("first", memories, questions)
            _compare("again", memories, questions)


def _forget_tokens(memory: AgentMemory, questions: Sequence[tuple[str, str]]) -> None:
    """Begin anew: snapshots go with the tokens kept beside them, and questions have been embedded."""
    inside(memory).ledger.snapshots.forget(None)
    for scope, text in questions:
        memory.retrieve(text, scope=scope, record=False)
    for entry in inside(memory).ledger.snapshots._entries.values():  # noqa: SLF001 - what they keep is for nobody else
        entry.snapshot.attached.clear()


def _compare(name: str, memories: Sequence[AgentMemory], questions: Sequence[tuple[str, str]]) -> None:
    """Print the times of searches with and without, each question asked of both in turn."""
    times: list[list[float]] = [[], []]
    for number, (scope, text) in enumerate(questions):
        for place in (0, 1) if number % 2 else (1, 0):
            begun = time.thread_time_ns()
            memories[place].retrieve(text, scope=scope, record=False)
            times[place].append((time.thread_time_ns() - begun) / 1e6)
    on, off = map(statistics.median, times)
    more = statistics.median(one - other for one, other in zip(*times, strict=True))
    print(
        f"{name}: p50 of {len(questions):,} searches {on:.2f} ms with tokens, {off:.2f} without; a search {more:+.2f}"
    )


def _bytes(memory: AgentMemory) -> str:
    with inside(memory).ledger.database.read() as connection:
        number, stored, most = connection.execute(
            """SELECT count(*), avg(length(tokens)), max(length(tokens))
            FROM passage_contents c JOIN passages p ON p.id = c.passage WHERE p.part LIKE 'turn %'"""
        ).fetchone()
    return f"{number:,} messages: {stored:,.0f} bytes of token vectors each, {most:,} at most"


if __name__ == "__main__":
    main()
