"""What the default ranking costs beside the profile of the specification, over the same store, in turn.

Half of the memories are facts, half are episodes with some messages each. Both profiles answer the same questions, one
after the other, without embedding time: the embedder hashes words. Ratios of the medians are the figures to quote.

    python benchmarks/profiles.py --messages 10
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from timings import Timings

from memory_retrievers import AgentMemory, EpisodicMemory, Message, RetrievalSettings, SemanticMemory
from memory_retrievers.models import Draft
from memory_retrievers.testing import HashEmbedder

PLANS: Final = {"100 scopes of 100 memories": (100, 100), "one scope of 1,000 memories": (1, 1_000)}
PROFILES: Final = {
    "reference": RetrievalSettings.reference(),
    "light": RetrievalSettings.light(),
    "default": RetrievalSettings(),
}
VOCABULARY: Final = 8_000


class Texts:
    """Sentences of made-up words, a few of which are common."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sentence(self, words: int) -> str:
        """So many words."""
        return " ".join(f"w{int(self._random.paretovariate(0.6)) % VOCABULARY}" for _ in range(words))

    def draft(self, scope: str, *, messages: int) -> Draft:
        """A fact, or an episode of so many messages."""
        if self._random.random() < 0.5:
            return SemanticMemory.new(scope=scope, fact=self.sentence(12))
        said = tuple(
            Message(role=("user", "assistant")[turn % 2], content=self.sentence(14)) for turn in range(messages)
        )
        return EpisodicMemory.new(scope=scope, summary=self.sentence(25), messages=said)


def measured(directory: Path, *, scopes: int, memories: int, messages: int, rounds: int) -> dict[str, Timings]:
    """The times of each profile over a store of so many scopes, each of so many memories."""
    texts = Texts(1)
    names = [f"scope-{number}" for number in range(scopes)]
    with AgentMemory.open(directory, embedder=HashEmbedder()) as memory:
        for name in names:
            memory.remember_many([texts.draft(name, messages=messages) for _ in range(memories)])
    opened = {
        name: AgentMemory.open(directory, embedder=HashEmbedder(), retrieval=settings, read_only=True)
        for name, settings in PROFILES.items()
    }
    times = {name: Timings() for name in PROFILES}
    for number in range(rounds + scopes):
        question, scope = texts.sentence(8), names[number % scopes]
        for name, memory in opened.items():
            ask = partial(memory.retrieve, question, scope=scope, record=False)
            if number < scopes:  # at first every scope is searched once
                ask()
            else:
                times[name].measure(ask)
    for memory in opened.values():
        memory.close()
    return times


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each plan and profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10, help="messages of an episode")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args(arguments)
    print(f"| {options.messages} messages an episode | p50 / p95, ms | of reference |\n|---|---|---|")
    for plan, (scopes, memories) in PLANS.items():
        with tempfile.TemporaryDirectory() as directory:
            times = measured(
                Path(directory), scopes=scopes, memories=memories, messages=options.messages, rounds=options.rounds
            )
        for name, timings in times.items():
            print(f"| {plan}, {name} | {timings} | {timings.p50 / times['reference'].p50:.2f}× |")


if __name__ == "__main__":
    main()
