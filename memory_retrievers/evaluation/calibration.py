"""Calibration: weights and floors of relevance for an embedder, fitted to questions and their results."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.errors import ValidationError
from memory_retrievers.evaluation.custom import Pair, following_scopes
from memory_retrievers.evaluation.silence import LOSS, Asked, Silence, measured
from memory_retrievers.evaluation.synthetic import synthetic
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, SemanticMemory
from memory_retrievers.models.contents import Progress
from memory_retrievers.models.results import Evidence
from memory_retrievers.retrieval import relevance
from memory_retrievers.retrieval.relevance import KEPT, Calibration, Weights, calibration_of, falling
from memory_retrievers.text.analysis import STOP_WORDS

FOLDS: Final = 5
FEWEST: Final = 30  # questions of a kind that are answered, and as many that are not, below which nothing is fitted

CAUTION: Final = 0.5  # share of a floor by questions made of memories that holds for those that people ask
MOST: Final = 400  # questions that are made of a store's own memories

_PAGE: Final = 500
_RIDGE: Final = 1.0
_SMALLEST_STEP: Final = 1e-9
_STEPS: Final = 50
_FEWEST_WORDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationQuestion:
    """A question to a scope."""

    text: str  # the question
    scope: str  # whose memories are searched
    right: Mapping[Kind, frozenset[str]]  # ids of the memories that answer it, by kind; empty if none does
    fold: str  # questions of one fold are measured by what is fitted to the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question and its hits of one kind."""

    fold: str  # that of the question
    kind: Kind  # kind of the hits
    is_own: bool  # whether some memory of this kind answers it
    evidence: tuple[Evidence, ...]  # of each hit, best first
    is_gold: tuple[bool, ...]  # whether each hit answers it

    def answered(self, weights: Weights) -> Asked:
        """Return the example in the form that is measured."""
        relevances = falling([weights.relevance(each) for each in self.evidence])
        return Asked(is_own=self.is_own, relevances=tuple(relevances), is_gold=self.is_gold)


def examples(asked: Sequence[CalibrationQuestion], memory: AgentMemory, *, progress: Progress) -> list[Example]:
    """Ask questions; nothing is recorded. Results without any relevance, as for small talk, are left out.

    Args:
        asked: The questions.
        memory: A memory with scores, not one under rank fusion.
        progress: Called with the number of questions asked, and of all.
    """
    found: list[Example] = []
    for number, each in enumerate(asked, start=1):
        found += _hits(each, memory)
        progress(number, len(asked))
    return found


def _hits(asked: CalibrationQuestion, memory: AgentMemory) -> Iterator[Example]:
    result = memory.retrieve(asked.text, scope=asked.scope, record=False)  # as many as a search gives by default
    for kind, hits in ((Kind.EPISODIC, result.episodic), (Kind.SEMANTIC, result.semantic)):
        evidence = tuple(hit.explanation.evidence for hit in hits if hit.explanation.evidence is not None)
        right = asked.right.get(kind, frozenset())
        is_about_the_other_kind = not right and any(asked.right.values())
        if evidence and hits[0].relevance and not is_about_the_other_kind:
            yield Example(
                fold=asked.fold,
                kind=kind,
                is_own=bool(right),
                evidence=evidence,
                is_gold=tuple(hit.memory.id in right for hit in hits),
            )


def fitted(chosen: Sequence[Example], *, fewer: float = 0.0, personal: float = 0.0) -> Weights:
    """Fit a logistic regression over all hits; negative weights are dropped, and given ones are kept.

    Args:
        chosen: Examples of one kind, at least one.
        fewer: Weight of ``fewer``, which is not fitted.
        personal: Weight of ``personal``, which is not fitted.
    """
    every = [evidence for example in chosen for evidence in example.evidence]
    # Else it is the match once more; and among a handful of facts tokens silence the one that answers in other words.
    measured = float(chosen[0].kind is Kind.EPISODIC and any(each.tokens is not None for each in every))
    matched = ((relevance.match(each.cosine, each.coverage), measured * relevance.nearness(each)) for each in every)
    rows = np.array([(1.0, *pair, each.deviations, each.dated) for pair, each in zip(matched, every, strict=True)])
    given = np.array(
        [fewer * relevance.fewness(each.passages) + personal * relevance.personal_share(each) for each in every]
    )
    right = np.array([gold for example in chosen for gold in example.is_gold], np.float64)
    used = list(range(rows.shape[1]))
    while True:
        weights = _regression(rows[:, used], right, given=given)
        wrong = [column for column, weight in zip(used, weights, strict=True) if weight < 0 and column]
        if not wrong:
            whole = dict(zip(used, weights.tolist(), strict=True))
            bias, match, tokens, deviations, dated = (whole.get(column, 0.0) for column in range(rows.shape[1]))
            return Weights(bias, match, deviations, fewer, dated, tokens, personal)
        used.remove(wrong[0])


def _regression(
    rows: NDArray[np.float64], right: NDArray[np.float64], *, given: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fit weights (k,) by Newton's method to rows (n, k), outcomes (n,) and given offsets (n,)."""
    weights, ridge = np.zeros(rows.shape[1]), _RIDGE * np.eye(rows.shape[1])
    ridge[0, 0] = 0
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights + given, -30, 30)))
        gradient = rows.T @ (right - chance) - ridge @ weights
        step = np.linalg.solve((rows.T * (chance * (1 - chance))) @ rows + ridge, gradient)
        weights = weights + step
        if np.abs(step).max() < _SMALLEST_STEP:
            break
    return weights


def floor_of(answers: Sequence[Asked], *, loss: float = LOSS) -> float:
    """Return the highest floor that loses the answers to at most a share, 0 to 1, of the own questions.

    An answer is lost if the best hit is below the floor, or if every answering hit is below the share of it that
    further hits need.
    """
    own = [each for each in answers if each.is_own]
    lost_above = sorted(
        min(each.best, max(r for r, gold in zip(each.relevances, each.is_gold, strict=True) if gold) / KEPT)
        for each in own
        if any(each.is_gold)
    )
    return lost_above[min(int(loss * len(own)), len(lost_above) - 1)] if lost_above else 0.0


def left_out(chosen: Sequence[Example]) -> dict[str, list[Asked]]:
    """Return the answers of each fold by weights fitted to the other folds."""
    found = {}
    for fold in sorted({each.fold for each in chosen}):
        weights = fitted([each for each in chosen if each.fold != fold])
        found[fold] = [each.answered(weights) for each in chosen if each.fold == fold]
    return found


def calibrated(every: Sequence[Example], *, are_made: bool) -> dict[Kind, Calibration]:
    """Fit weights and floor of each kind; a kind with too few examples keeps the bundled weights, without a floor.

    Questions generated from memories are easier than those of people: for them the floor is a share of the one that
    loses no answer at all.

    Raises:
        ValidationError: No kind has enough.
    """
    found, default = {}, calibration_of("")
    for kind in Kind:
        chosen = [each for each in every if each.kind is kind]
        found[kind] = default[kind]
        if has_enough(chosen):
            given = default[kind].weights
            weights = fitted(chosen, fewer=given.fewer, personal=given.personal)
            answers = [each.answered(weights) for each in chosen]
            floor = CAUTION * floor_of(answers, loss=0) if are_made else floor_of(answers)
            found[kind] = Calibration(weights, floor)
    if not any(each.floor for each in found.values()):
        raise ValidationError(
            f"nothing was fitted: this needs {FEWEST} questions that memories of a kind answer and {FEWEST} that none "
            "answers; store more, or give a file with more questions"
        )
    return found


def figures_left_out(every: Sequence[Example], kind: Kind) -> Silence | None:
    """Measure the answers of one kind by weights fitted to the other folds; None if there are too few."""
    chosen = [each for each in every if each.kind is kind]
    return measured([each for held in left_out(chosen).values() for each in held]) if has_enough(chosen) else None


def has_enough(chosen: Sequence[Example]) -> bool:
    """Return whether there are enough examples with and without an answer to fit weights."""
    answered = sum(any(each.is_gold) for each in chosen)
    return answered >= FEWEST and sum(not each.is_own for each in chosen) >= FEWEST


def asked_by_pairs(pairs: Sequence[Pair], memory: AgentMemory) -> list[CalibrationQuestion]:
    """Return the questions of a file, each also asked of the next scope in the file, and synthetic ones."""
    following, asked = following_scopes(pairs), []
    for number, pair in enumerate(pairs):
        fold = str(number % FOLDS)
        answering = [memory.get(name, scope=pair.scope) for name in pair.memory_ids]
        right = {kind: frozenset(each.id for each in answering if each.kind is kind) for kind in Kind}
        asked.append(CalibrationQuestion(text=pair.query, scope=pair.scope, right=right, fold=fold))
        if following[pair.scope] != pair.scope:
            asked.append(CalibrationQuestion(text=pair.query, scope=following[pair.scope], right={}, fold=fold))
    return [*asked, *_foreign([*following], len(pairs))]


def asked_by_memories(memory: AgentMemory) -> list[CalibrationQuestion]:
    """Generate questions from a store's own memories, and as many that none of them answers.

    A question has half of the words of a fact or message, and half as many words that are not in it, since people use
    other words when they ask. This is easier or harder than real questions: your own questions tell more.
    """
    chance = random.Random(1)  # noqa: S311 - nothing secret
    scopes = memory.scopes()
    chosen: list[AnyMemory] = []
    for kind in Kind:
        stored = [found for scope in scopes for found in memory.list(scope, kind=kind, limit=_PAGE).memories]
        again = sum(len(each.messages) if isinstance(each, EpisodicMemory) else 1 for each in stored)
        chosen += chance.choices(stored, k=min(again, MOST // 2)) if stored else []
    foreign = _foreign(scopes, len(chosen))
    others = sorted({word for each in foreign for word in _words(each.text)})
    asked = []
    for number, each in enumerate(chosen):
        words = _words(_said(each, chance))
        if len(words) < _FEWEST_WORDS:
            continue
        kept = sorted(chance.sample(range(len(words)), math.ceil(len(words) / 2))[:_FEWEST_WORDS])
        text = [*(words[place] for place in kept), *chance.sample(others, len(kept) // 2)]
        right = {each.kind: frozenset({each.id})}
        asked.append(CalibrationQuestion(text=" ".join(text), scope=each.scope, right=right, fold=str(number % FOLDS)))
    return [*asked, *foreign]


def _said(memory: AnyMemory, chance: random.Random) -> str:
    if isinstance(memory, SemanticMemory):
        return memory.fact
    return chance.choice([message.content for message in memory.messages] or [memory.summary])


def _words(text: str) -> list[str]:
    words = (word.strip("?.!,;:'\"()…") for word in text.split())
    return list(dict.fromkeys(word for word in words if word and word.casefold() not in STOP_WORDS))


def _foreign(scopes: Sequence[str], number: int) -> list[CalibrationQuestion]:
    """Return questions about synthetic conversations, which no store answers, distributed over scopes."""
    questions = [each.text for conversation in synthetic() for each in conversation.questions]
    distinct = list(dict.fromkeys(questions))
    return [
        CalibrationQuestion(
            text=distinct[place % len(distinct)], scope=scopes[place % len(scopes)], right={}, fold=f"{place % FOLDS}"
        )
        for place in range(number if scopes else 0)
    ]
