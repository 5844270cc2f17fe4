"""Fit the weights of relevance (``memory_retrievers/retrieval/relevance.py``) to conversations in LoCoMo's form.

    python scripts/fit_relevance.py locomo.json [--vectors vectors.npz]

Each question is asked of its own conversation, where the hits with evidence are right, and of the next one with the
names exchanged, where none is; so are fifty greetings. Episodes are sessions, and facts are single turns with their
speaker. The weights are those of a logistic regression over the default number of hits; negative ones are left out.
Prints the weights, and what they measure on each conversation by the weights fitted without it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation import locomo
from memory_retrievers.evaluation.conversations import Conversation
from memory_retrievers.evaluation.silence import Asked, exchanged, measured, speakers
from memory_retrievers.evaluation.stores import MovableClock, RememberedVectors
from memory_retrievers.models import Category, Kind
from memory_retrievers.models.results import Evidence
from memory_retrievers.retrieval.relevance import Weights, falling

LIMITS: Final = {Kind.EPISODIC: 5, Kind.SEMANTIC: 20}
RIDGE: Final = 1.0
FLOORS: Final = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08)
SMALLEST_STEP: Final = 1e-9
GREETINGS: Final = tuple(
    """hi|hello|hey there|good morning|good evening|good night|how are you?|how's it going?|what's up?|thanks|thank you
    so much|thanks a lot!|you're welcome|bye|goodbye|see you tomorrow|see you later|take care|ok|okay, great|sure|sounds
    good|yes|no|yes please|no thanks|maybe|cool|nice|awesome|great, thanks|perfect|got it|I see|alright|hmm|wow|haha|lol
    |please go on|can you help me?|are you there?|who are you?|what can you do?|tell me a joke|let's start|welcome back
    |happy new year|merry christmas|sorry""".replace("\n    ", " ").split("|")
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its hits.

    Attributes:
        scope: The conversation that was asked.
        kind: Kind of the hits.
        is_own: Whether it is a question about this conversation.
        evidence: Of each hit, best first.
        is_gold: Whether each holds evidence.
    """

    scope: str
    kind: Kind
    is_own: bool
    evidence: tuple[Evidence, ...]
    is_gold: tuple[bool, ...]


def examples(conversations: Sequence[Conversation], embedder: RememberedVectors) -> Iterator[Example]:
    """Ask all questions of all conversations, and the greetings of each."""
    clock = MovableClock(conversations[0].asked_at)
    with tempfile.TemporaryDirectory() as folder, AgentMemory.open(folder, embedder=embedder, clock=clock) as memory:
        for conversation in conversations:
            memory.remember_many([*conversation.drafts(), *_facts(conversation)])
        for place, conversation in enumerate(conversations):
            other = conversations[(place + 1) % len(conversations)]
            names = dict(zip(speakers(conversation), speakers(other), strict=False))
            clock.moment = conversation.asked_at
            for question in conversation.questions:
                sessions = {conversation.session_of[turn] for turn in question.gold}
                around = {turn for turn, session in conversation.session_of.items() if session in sessions}
                gold = {Kind.EPISODIC: sessions, Kind.SEMANTIC: around}
                yield from _asked(memory, conversation, question.text, gold=gold)
            for greeting in GREETINGS:
                yield from _asked(memory, conversation, greeting.strip(), gold={})
            clock.moment = other.asked_at
            for question in conversation.questions:
                yield from _asked(memory, other, exchanged(question, names), gold={})


def _facts(conversation: Conversation) -> Iterator[SemanticMemory]:
    for turn in conversation.turns.values():
        yield SemanticMemory.new(
            scope=conversation.scope, id=turn.id, fact=f"{turn.speaker}: {turn.text}", category=Category.NOTE
        )


def _asked(
    memory: AgentMemory, conversation: Conversation, text: str, *, gold: dict[Kind, set[str]]
) -> Iterator[Example]:
    result = memory.retrieve(
        text,
        scope=conversation.scope,
        episodic_limit=LIMITS[Kind.EPISODIC],
        semantic_limit=LIMITS[Kind.SEMANTIC],
        record=False,
    )
    for kind, hits in ((Kind.EPISODIC, result.episodic), (Kind.SEMANTIC, result.semantic)):
        yield Example(
            scope=conversation.scope,
            kind=kind,
            is_own=bool(gold),
            evidence=tuple(hit.explanation.evidence for hit in hits if hit.explanation.evidence is not None),
            is_gold=tuple(hit.memory.id in gold.get(kind, ()) for hit in hits),
        )


def fitted(chosen: Sequence[Example]) -> Weights:
    """Weights of a logistic regression; what would be negative is left out."""
    rows = np.array([_row(each) for example in chosen for each in example.evidence])
    right = np.array([gold for example in chosen for gold in example.is_gold], np.float64)
    used = [0, 1, 2, 3]
    while True:
        weights = _regression(rows[:, used], right)
        wrong = [column for column, weight in zip(used, weights, strict=True) if weight < 0 and column]
        if not wrong:
            whole = np.zeros(4)
            whole[used] = weights
            return Weights(*whole.tolist())
        used.remove(wrong[0])


def _row(evidence: Evidence) -> tuple[float, ...]:
    return (1.0, evidence.cosine, evidence.coverage, evidence.margin)


def _regression(rows: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's method, with a ridge on all but the bias."""
    weights, ridge = np.zeros(rows.shape[1]), RIDGE * np.eye(rows.shape[1])
    ridge[0, 0] = 0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(rows @ weights)))
        gradient = rows.T @ (right - chance) - ridge @ weights
        step = np.linalg.solve((rows.T * (chance * (1 - chance))) @ rows + ridge, gradient)
        weights = weights + step
        if np.abs(step).max() < SMALLEST_STEP:
            break
    return weights


def answered(example: Example, weights: Weights) -> Asked:
    """An example as the evaluation measures it."""
    relevances = falling([weights.relevance(each) for each in example.evidence])
    return Asked(is_own=example.is_own, relevances=tuple(relevances), is_gold=example.is_gold)


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", default=os.environ.get("LOCOMO_PATH"))
    parser.add_argument("--vectors", type=Path, help="file that vectors are kept in from one run to the next")
    arguments = parser.parse_args()
    if arguments.path is None:
        parser.error("name the file, or set LOCOMO_PATH")
    conversations = locomo.load(arguments.path)
    embedder = RememberedVectors(MiniLMEmbedder(), file=arguments.vectors)
    every = list(examples(conversations, embedder))
    embedder.save()
    for kind in Kind:
        chosen = [each for each in every if each.kind is kind and each.evidence]
        print(f"{kind}: {len(chosen):,} questions, {sum(len(each.evidence) for each in chosen):,} hits")
        left_out = []
        for conversation in conversations:
            others = fitted([each for each in chosen if each.scope != conversation.scope])
            held = [answered(each, others) for each in chosen if each.scope == conversation.scope]
            left_out += held
            print(f"  without {conversation.scope}: {_line(held)}")
        print(f"  together: {_line(left_out)}")
        for floor in FLOORS:
            print(f"  floor {floor}: {_silenced(left_out, floor)}")
        print(f"  {fitted(chosen)}")


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
        each for each in found if max(r for r, gold in zip(each.relevances, each.is_gold, strict=True) if gold) >= floor
    ]
    return (
        f"{sum(each.best < floor for each in foreign) / len(foreign):.1%} of what nothing answers recalls nothing, "
        f"{(len(found) - len(kept)) / len(own):.1%} of the answers are lost"
    )


if __name__ == "__main__":
    main()
