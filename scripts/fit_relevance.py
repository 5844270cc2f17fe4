"""Fit the weights of relevance (``memory_retrievers/retrieval/relevance.py``) to conversations in LoCoMo's form.

    python scripts/fit_relevance.py locomo.json [--vectors vectors.npz]

Each question is asked of its own conversation, where the hits with evidence are right, and of the next one with the
names exchanged, where none is; so are fifty greetings. Episodes are sessions, and facts are single turns with their
speaker. The weights are those of a logistic regression over the default number of hits; negative ones are left out.
Prints what they measure on each conversation by the weights fitted without it, what the floor of the package and its
neighbours silence and lose there, and the weights. The shipped ones are rounded from the five conversations that the
project develops on; what else was tried as evidence stands in ``docs/evaluation.md``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation import datasets
from memory_retrievers.evaluation.calibration import CalibrationQuestion, Example, examples, fitted, floor_of, left_out
from memory_retrievers.evaluation.conversations import Conversation, MovableClock, RememberedVectors
from memory_retrievers.evaluation.silence import Asked, exchanged, measured, speakers
from memory_retrievers.models import Category, Kind
from memory_retrievers.retrieval.relevance import KEPT, calibration_of

FLOORS: Final = {Kind.EPISODIC: (0.02, 0.025, 0.0275, 0.03, 0.04, 0.05), Kind.SEMANTIC: (0.05, 0.07, 0.08, 0.09, 0.1)}
GREETINGS: Final = tuple(
    """hi|hello|hey there|good morning|good evening|good night|how are you?|how's it going?|what's up?|thanks|thank you
    so much|thanks a lot!|you're welcome|bye|goodbye|see you tomorrow|see you later|take care|ok|okay, great|sure|sounds
    good|yes|no|yes please|no thanks|maybe|cool|nice|awesome|great, thanks|perfect|got it|I see|alright|hmm|wow|haha|lol
    |please go on|can you help me?|are you there?|who are you?|what can you do?|tell me a joke|let's start|welcome back
    |happy new year|merry christmas|sorry""".replace("\n    ", " ").split("|")
)


def asked(conversations: Sequence[Conversation], embedder: RememberedVectors) -> Iterator[Example]:
    """Ask all questions of all conversations, and the greetings of each."""
    clock = MovableClock(conversations[0].asked_at)
    with tempfile.TemporaryDirectory() as folder, AgentMemory.open(folder, embedder=embedder, clock=clock) as memory:
        for conversation in conversations:
            memory.remember_many([*conversation.drafts(), *_facts(conversation)])
        for place, conversation in enumerate(conversations):
            other = conversations[(place + 1) % len(conversations)]
            clock.moment = conversation.asked_at
            yield from examples(list(_own(conversation)), memory, progress=_silent)
            clock.moment = other.asked_at
            yield from examples(list(_foreign(conversation, other)), memory, progress=_silent)


def _silent(done: int, whole: int) -> None:
    pass


def _facts(conversation: Conversation) -> Iterator[SemanticMemory]:
    for turn in conversation.turns.values():
        yield SemanticMemory.new(
            scope=conversation.scope, id=turn.id, fact=f"{turn.speaker}: {turn.text}", category=Category.NOTE
        )


def _own(conversation: Conversation) -> Iterator[CalibrationQuestion]:
    scope = conversation.scope
    for question in conversation.questions:
        sessions = frozenset(conversation.session_of[turn] for turn in question.gold)
        around = frozenset(turn for turn, session in conversation.session_of.items() if session in sessions)
        yield CalibrationQuestion(
            text=question.text, scope=scope, right={Kind.EPISODIC: sessions, Kind.SEMANTIC: around}, fold=scope
        )
    for greeting in GREETINGS:
        yield CalibrationQuestion(text=greeting.strip(), scope=scope, right={}, fold=scope)


def _foreign(conversation: Conversation, other: Conversation) -> Iterator[CalibrationQuestion]:
    names = dict(zip(speakers(conversation), speakers(other), strict=False))
    for question in conversation.questions:
        yield CalibrationQuestion(text=exchanged(question, names), scope=other.scope, right={}, fold=other.scope)


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", default=os.environ.get("LOCOMO_PATH"))
    parser.add_argument("--vectors", type=Path, help="file that vectors are kept in from one run to the next")
    arguments = parser.parse_args()
    if arguments.path is None:
        parser.error("name the file, or set LOCOMO_PATH")
    embedder = RememberedVectors(MiniLMEmbedder(), file=arguments.vectors)
    every = list(asked(datasets.load_locomo(arguments.path), embedder))
    embedder.save()
    for kind in Kind:
        chosen = [each for each in every if each.kind is kind]
        folds = left_out(chosen)
        together = list(chain.from_iterable(folds.values()))
        print(f"{kind}: {len(chosen):,} questions, {sum(len(each.evidence) for each in chosen):,} hits")
        for fold, held in folds.items():
            print(f"  without {fold}: {_line(held)}")
        print(f"  together: {_line(together)}")
        for floor in (*FLOORS[kind], floor_of(together)):
            print(f"  floor {floor:.4f}: {_silenced(together, floor)}")
        print(f"  {fitted(chosen, fewer=calibration_of('')[kind].weights.fewer)}")


def _line(answers: Sequence[Asked]) -> str:
    figures = measured(answers)
    return (
        f"AUC {figures.auc:.3f}, silenced {figures.silenced:.1%} at a floor of {figures.floor:.3f}, "
        f"calibration error {figures.calibration_error:.3f}"
    )


def _silenced(answers: Sequence[Asked], floor: float) -> str:
    foreign = [each for each in answers if not each.is_own]
    own = [each for each in answers if each.is_own]
    found = [each for each in own if any(each.is_gold)]
    kept = [
        each
        for each in found
        if each.best >= floor
        and max(r for r, gold in zip(each.relevances, each.is_gold, strict=True) if gold) >= KEPT * floor
    ]
    return (
        f"{sum(each.best < floor for each in foreign) / len(foreign):.1%} of what nothing answers recalls nothing, "
        f"{(len(found) - len(kept)) / len(own):.1%} of the answers are lost"
    )


if __name__ == "__main__":
    main()
