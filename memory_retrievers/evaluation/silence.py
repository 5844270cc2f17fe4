"""Silence: whether relevance separates questions that a memory can answer from those of another conversation."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from memory_retrievers.evaluation.conversations import Conversation, FilledStores, Question
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models.contents import Progress
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.settings import RetrievalSettings

DEPTH: Final = 5  # episodes among which an answer is looked for
LOSS: Final = 0.02  # share of the questions whose answer may be silenced, for the share of foreign questions that are

_BINS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question and the relevance of its results."""

    is_own: bool  # whether it was asked of its own conversation
    relevances: tuple[float, ...]  # relevance of each hit, best first
    is_gold: tuple[bool, ...]  # whether each hit holds evidence

    @property
    def best(self) -> float:
        """Relevance of the best hit; 0 without one."""
        return max(self.relevances, default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """How well relevance separates own questions from foreign ones.

    The calibration error is the expected difference between the relevance of hits and the share of hits with evidence,
    in ten bins.
    """

    questions: int  # number of own questions
    foreign: int  # number of foreign ones
    auc: float  # probability that the best hit of an own question is more relevant than that of a foreign one
    silenced: float  # share of the foreign questions that recall nothing, with this floor
    floor: float  # the share of the own questions whose answer is lost with it is at most ``LOSS``
    calibration_error: float


def ask(stores: FilledStores, settings: RetrievalSettings, *, progress: Progress) -> list[Asked]:
    """Ask every question in its own conversation and in the next one, with the names exchanged.

    Args:
        stores: The conversations, at least two.
        settings: Settings of retrieval.
        progress: Called with the number of questions asked, and of all.
    """
    conversations, answers = stores.conversations, []
    retrieve = partial(AgentMemory.retrieve, episodic_limit=DEPTH, semantic_limit=0, record=False)
    number = 2 * sum(len(conversation.questions) for conversation in conversations)
    with stores.opened(settings) as (memory, clock):
        for place, conversation in enumerate(conversations):
            other = conversations[(place + 1) % len(conversations)]
            names = dict(zip(speakers(conversation), speakers(other), strict=False))
            for question in conversation.questions:
                clock.moment = conversation.asked_at
                gold = frozenset(conversation.session_of[turn] for turn in question.gold)
                own = retrieve(memory, question.text, scope=conversation.scope)
                answers.append(answer_of(own, gold))
                clock.moment = other.asked_at
                foreign = retrieve(memory, exchanged(question, names), scope=other.scope)
                answers.append(answer_of(foreign, None))
                progress(len(answers), number)
    return answers


def speakers(conversation: Conversation) -> list[str]:
    """Return the speakers of a conversation, in the order of their first turns."""
    return list(dict.fromkeys(turn.speaker for turn in conversation.turns.values()))


def exchanged(question: Question, names: Mapping[str, str]) -> str:
    """Return the text of a question with names replaced (new by old), all at once."""
    pattern = "|".join(rf"\b{re.escape(name)}\b" for name in sorted(names, key=len, reverse=True))
    return re.sub(pattern, lambda found: names[found[0]], question.text) if names else question.text


def measured(answers: Sequence[Asked]) -> Silence:
    """Measure answers to own questions, at least one, and to foreign ones; without these, their figures are NaN."""
    own = [answer for answer in answers if answer.is_own]
    foreign = sorted(answer.best for answer in answers if not answer.is_own)
    found = sorted(answer.best for answer in own if any(answer.is_gold[:DEPTH]))
    floor = found[min(int(LOSS * len(own)), len(found) - 1)] if found else 0.0
    return Silence(
        questions=len(own),
        foreign=len(foreign),
        auc=auc([answer.best for answer in own], foreign) if foreign else math.nan,
        silenced=sum(best < floor for best in foreign) / len(foreign) if foreign else math.nan,
        floor=floor,
        calibration_error=calibration_error(
            [hit for each in answers for hit in zip(each.relevances, each.is_gold, strict=True)]
        ),
    )


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the probability that one of the first is above one of the second; ties count half.

    >>> auc([0.9, 0.4], [0.4, 0.1])
    0.875
    """
    import numpy as np

    ordered = np.sort(np.asarray(lower))
    below = np.searchsorted(ordered, higher, side="left") + np.searchsorted(ordered, higher, side="right")
    return float(below.mean()) / 2 / len(ordered)


def calibration_error(hits: Sequence[tuple[float, bool]]) -> float:
    """Return the expected calibration error of probabilities with outcomes, in ten bins of equal width.

    >>> calibration_error([(0.8, True), (0.8, False)])
    0.30000000000000004
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for probability, outcome in hits:
        bins[min(int(probability * _BINS), _BINS - 1)].append((probability, outcome))
    differences = (abs(sum(probability - outcome for probability, outcome in each)) for each in bins)
    return sum(differences) / max(len(hits), 1)


def answer_of(result: RetrievalResult, gold: Container[str] | None) -> Asked:
    """Return the best hits of a question; ``gold`` has the ids that answer it, or is None for a foreign question."""
    best = sorted(result, key=lambda hit: -hit.relevance)[:DEPTH]
    return Asked(
        is_own=gold is not None,
        relevances=tuple(hit.relevance for hit in best),
        is_gold=tuple(hit.memory.id in (gold or ()) for hit in best),
    )
