"""From answers to figures: what each question scores, and what that makes over all of them and by category."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory_retrievers.evaluation.conversations import Conversation, Question
from memory_retrievers.evaluation.metrics import (
    Interval,
    all_at,
    any_at,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    wilson,
)

EPISODE_DEPTHS: Final = (1, 5, 10)
TURN_DEPTHS: Final = (5, 10, 20)
NDCG_DEPTH: Final = 10
BUDGETS: Final = (500, 1_000, 2_000, 4_000)
"""Tokens of rendered context within which the evidence is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a system gives for a question.

    Attributes:
        sessions: The ids of sessions, best first.
        turns: The ids of turns, best first; None for a system that ranks no turns.
        evidence: By number of tokens, the right turns whose whole text is within so many tokens of what is read.
        seconds: How long the search took, without embedding the question.
    """

    sessions: Sequence[str]
    turns: Sequence[str] | None
    evidence: Mapping[int, frozenset[str]]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the answer to one question scores.

    Attributes:
        category: The sort of question.
        values: Each measure by its name, 0 to 1; what was not measured is left out.
        seconds: As in :class:`Answer`.
    """

    category: str
    values: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a number of questions score.

    Attributes:
        questions: How many.
        means: The mean of each measure over the questions.
        intervals: The 95 % Wilson interval of each measure that is a share of questions.
        median_seconds: How long a search takes.
        slow_seconds: What 95 of 100 searches stay below.
    """

    questions: int
    means: Mapping[str, float]
    intervals: Mapping[str, Interval]
    median_seconds: float
    slow_seconds: float


def score(conversation: Conversation, question: Question, answer: Answer) -> Score:
    """What an answer scores by every measure."""
    sessions = {conversation.session_of[turn] for turn in question.gold}
    values: dict[str, float] = {}
    for k in EPISODE_DEPTHS:
        values[f"any@{k}"] = any_at(answer.sessions, sessions, k)
        values[f"frac@{k}"] = recall_at(answer.sessions, sessions, k)
        values[f"all@{k}"] = all_at(answer.sessions, sessions, k)
    values["MRR"] = reciprocal_rank(answer.sessions, sessions)
    if answer.turns is not None:
        values |= {f"R@{k}": recall_at(answer.turns, question.gold, k) for k in TURN_DEPTHS}
        values[f"nDCG@{NDCG_DEPTH}"] = ndcg_at(answer.turns, question.gold, NDCG_DEPTH)
    for tokens, found in answer.evidence.items():
        values[f"T{tokens}"] = len(found & question.gold) / len(question.gold)
    return Score(category=question.category, values=values, seconds=answer.seconds)


def figures(scores: Sequence[Score]) -> Figures:
    """The means of at least one score; a measure that a score lacks is not averaged."""
    names = [name for name in scores[0].values if all(name in score.values for score in scores)]
    means = {name: statistics.fmean(score.values[name] for score in scores) for name in names}
    seconds = sorted(score.seconds for score in scores)
    return Figures(
        questions=len(scores),
        means=means,
        intervals={
            name: wilson(mean, len(scores)) for name, mean in means.items() if name.startswith(("any@", "all@"))
        },
        median_seconds=statistics.median(seconds),
        slow_seconds=seconds[min(len(seconds) - 1, len(seconds) * 95 // 100)],
    )


def by_category(scores: Sequence[Score]) -> dict[str, Figures]:
    """The figures of each category, in the order of their names."""
    categories = sorted({score.category for score in scores})
    return {category: figures([score for score in scores if score.category == category]) for category in categories}
