"""Relevance: the probability that a memory bears on the query, from evidence that compares across queries and scopes.

A score says how memories of one result stand to each other; what is best among nothing fitting has a high one too.
Relevance is a logistic function of absolute evidence, fitted by ``scripts/fit_relevance.py``, which says on what.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, MemoryKey, SemanticMemory
from memory_retrievers.models.results import Evidence, RetrievedMemory
from memory_retrievers.retrieval.features import weighed_sum
from memory_retrievers.retrieval.question import asks_for_list
from memory_retrievers.text.dates import tells_time
from memory_retrievers.text.plans import days_behind, names_relative_day

if TYPE_CHECKING:
    from memory_retrievers.retrieval.candidates import Candidates
    from memory_retrievers.retrieval.question import Question
    from memory_retrievers.retrieval.request import RetrievalPlan, RetrievalRequest

ScoresT = TypeVar("ScoresT", float, "NDArray[np.float64]")
Hits: TypeAlias = "tuple[RetrievedMemory[Any], ...]"

FEW_PASSAGES: Final = 20
"""Below so many passages the cosines of a scope say little, and a fixed middle and spread stand for theirs."""

FEWEST_PASSAGES, MANY_PASSAGES = 5, 100
"""A scope is not taken to be smaller; and from here up it tells nothing for a memory that its scope has no more."""

FURTHER: Final = 10.0  # weight that every query is taken to have beside its terms; a rare word weighs 5 to 7

KNOWN_PASSAGES: Final = 400
"""Size of the smallest scopes that the weights were fitted on; a smaller scope counts words as if it had as many."""

BACKGROUND: Final = 0.1, 0.05
"""Middle cosine of a query and unrelated passages, by the bundled embedder, and median deviation of such from it."""

LEAST_SPREAD: Final = 0.02  # a smaller deviation is not believed: where all passages say the same, none stands out
MOST_DEVIATIONS: Final = 15.0  # what stands out further tells no more
COVERAGE: Final = 2.0  # what the coverage of a passage counts beside its cosine

NEARNESS: Final = (0.25, 0.4)
"""Expected nearness of a query's words to the tokens of a memory that does not match, and the gain of a match of 1."""

KEPT: Final = 0.6  # share of the floor that a memory needs behind one that reaches it: the best decides on silence
OLDER: Final = 0.1  # share of the relevance of the best that an older fact needs, too, unless a list is asked for


class Weights(NamedTuple):
    """Weights of the evidence for one kind; see :class:`~memory_retrievers.models.results.Evidence`."""

    bias: float  # added to all
    match: float  # weight of the cosine and twice the coverage of the best passage; 0 or more
    deviations: float  # weight of the deviations; 0 or more
    # what it tells for a memory that its scope has few. Chosen, not fitted: the scopes of the data are all large.
    fewer: float = 0.0
    dated: float = 0.0  # weight of being of a time that the query names; 0 or more
    tokens: float = 0.0  # weight of the nearness of its tokens; 0 or more
    # weight of a query in the first person; 0 or more. Chosen, not fitted: the data asks by names.
    personal: float = 0.0

    def relevance(self, evidence: Evidence) -> float:
        """Probability that the memory bears on the query, 0 to 1; it never falls with more evidence."""
        matched, few = match(evidence.cosine, evidence.coverage), fewness(evidence.passages)
        given = (1.0, matched, evidence.deviations, few, evidence.dated, nearness(evidence), personal_share(evidence))
        total = sum(weight * each for weight, each in zip(self, given, strict=True))
        return 1 / (1 + math.exp(-total))


def nearness(evidence: Evidence) -> float:
    """How near the words of the query are to the tokens of a memory, measured or as is to be expected."""
    expected = NEARNESS[0] + NEARNESS[1] * match(evidence.cosine, evidence.coverage)
    return expected if evidence.tokens is None else evidence.tokens


def personal_share(evidence: Evidence) -> float:
    """How much it tells that a query is in the first person: 0 to 1, less in a scope whose few memories tell it too."""
    return evidence.personal * (1 - fewness(evidence.passages) / fewness(FEWEST_PASSAGES))


def fewness(passages: int) -> float:
    """How few passages a scope has: 0 from 100 on, 3 at five and less."""
    return math.log(MANY_PASSAGES / min(max(passages, FEWEST_PASSAGES), MANY_PASSAGES))


class Calibration(NamedTuple):
    """What was fitted for an embedder and one kind of memory."""

    weights: Weights  # weights of the evidence
    floor: float  # least relevance of the best of what is put into prompts that did not ask for it

    def least(self, best: float) -> float:
        """The least relevance of a hit beside one of relevance ``best``: behind one that fits, a part of the floor."""
        return self.floor if best < self.floor else KEPT * self.floor


_BUNDLED: Final = {
    Kind.EPISODIC: Calibration(
        Weights(-8.9, 3.45, deviations=0.15, fewer=1.2, dated=1.6, tokens=4.3, personal=2.0), floor=0.0275
    ),
    Kind.SEMANTIC: Calibration(Weights(-4.95, 3.0, deviations=0.2, fewer=0.5, personal=0.7), floor=0.08),
}
_SAME_MATTER: Final = {"all-MiniLM-L6-v2-int8": 0.35}
"""Cosine from which two passages are taken to be about the same: unrelated ones of one person have 0.1 to 0.3."""
_ABOVE_LOW: Final = 0.15  # and so far above low ones: unrelated facts that begin with the same name have 0.3 to 0.5

_FORMER_NUMBERS: Final = 7  # numbers of a calibration that was noted before it told whether a query is personal

_OTHERS: Final = {kind: each._replace(floor=0.0) for kind, each in _BUNDLED.items()}
_FITTED: Final = {"all-MiniLM-L6-v2-int8": _BUNDLED}


@functools.lru_cache(maxsize=16)
def calibration_of(embedder_id: str, note: str | None = None) -> Mapping[Kind, Calibration]:
    """Calibration for an embedder, by kind; one without its own has the weights of the bundled one and no floor.

    ``note`` is what :func:`noted` gave for it, from the notes of the store.
    """
    if note is not None and (found := parsed(note)) is not None:
        return found
    return _FITTED.get(embedder_id, _OTHERS)


def same_matter(embedder_id: str, *, low: float) -> float:
    """Cosine from which two passages are about the same, if it is ``low`` otherwise; above any where nobody knows."""
    return max(_SAME_MATTER.get(embedder_id, math.inf), low + _ABOVE_LOW)


def noted(calibration: Mapping[Kind, Calibration]) -> str:
    """A calibration as text for the notes of a store."""
    return json.dumps({kind: [*each.weights, each.floor] for kind, each in calibration.items()})


def parsed(note: str) -> Mapping[Kind, Calibration] | None:
    """Read what :func:`noted` wrote; None if another version wrote it, or nobody: then the default holds."""
    try:
        noted = json.loads(note)
        numbers = {kind: [float(number) for number in noted[kind]] for kind in Kind}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    found = {}
    for kind, each in numbers.items():
        if len(each) not in {_FORMER_NUMBERS, len(Weights._fields) + 1} or not all(map(math.isfinite, each)):
            return None
        *weights, floor = each
        if min(weights[1:]) < 0 or not 0 <= floor <= 1:
            return None
        found[kind] = Calibration(Weights(*weights), floor)
    return found


def falling(relevances: Sequence[float]) -> list[float]:
    """Let relevance fall with rank: each is at least what comes behind it.

    >>> falling([0.5, 0.7, 0.2])
    [0.7, 0.7, 0.2]
    """
    return list(accumulate(reversed(relevances), max))[::-1]


def coverages(candidates: Candidates, question: Question) -> NDArray[np.float64]:
    """Share of the query's terms that each passage has, weighed by idf: shape (n,), 0 to 1.

    A term that no passage has weighs as much as the rarest: a query of mostly such words is about something else. Forms
    of a word are one term, and a query of a word or two says little even if they are found. Messages are searched with
    their date, facts are not: a date that no fact tells is not a word that they lack.
    """
    statistics = candidates.statistics
    passages = max(statistics.passages, KNOWN_PASSAGES)
    repeats, counts, frequencies = candidates.repeats, candidates.counts, candidates.frequencies
    if not candidates.layout.has_messages and (dates := question.date_terms):
        repeats = np.where([term in dates and not known for term, known in statistics.frequencies.items()], 0, repeats)
    if statistics.words:
        words = [statistics.words.get(term, term) for term in statistics.frequencies]
        firsts = [words.index(word) for word in dict.fromkeys(words)]
        is_form = np.array([[words[first] == word for word in words] for first in firsts], np.float64)
        frequencies = np.minimum(is_form @ frequencies, passages)
        repeats, counts = repeats[firsts], np.array([weighed_sum(forms, counts) for forms in is_form])
    weights = repeats * np.log1p((passages - frequencies + 0.5) / (frequencies + 0.5))
    return weighed_sum(weights / (weights.sum() + FURTHER), (counts > 0).astype(np.float64))


def match(cosine: ScoresT, coverage: ScoresT) -> ScoresT:
    """How well passages match by meaning and by words together; of the shape of both."""
    return cosine + COVERAGE * coverage


def middle(candidates: Candidates) -> tuple[float, float]:
    """Cosine that an unrelated passage of the scope has with the query, and how far such ones are from it."""
    if len(candidates) < FEW_PASSAGES or not candidates.is_whole:
        return BACKGROUND
    at = float(np.median(candidates.similarities))
    return at, max(float(np.median(np.abs(candidates.similarities - at))), LEAST_SPREAD)


_NEAREST: Final = 3  # memories of each kind that answer a question about oneself where none is relevant enough


def relevant(
    semantic: Hits, episodic: Hits, plan: RetrievalPlan, calibration: Mapping[Kind, Calibration]
) -> tuple[set[MemoryKey], bool]:
    """Name the memories that the least relevance of a request lets through, and tell whether their words did it.

    Args:
        semantic: Facts found, best first.
        episodic: Episodes found, best first.
        plan: The search plan.
        calibration: The floors.
    """
    request, question, is_auto = plan.request, plan.question, plan.request.min_relevance == "auto"
    if is_auto and question.is_small_talk and not question.is_by_time:
        return set(), False
    of_time = _of_its_time((*semantic, *episodic), plan) if is_auto and question.is_by_time else set()
    share = OLDER if is_auto and not asks_for_list(question.text) else 0.0  # of an episode the question may be newer
    kept = _relevant(semantic, request, calibration[Kind.SEMANTIC], share=share)
    if of_its_time := of_time & {hit.memory.key for hit in semantic}:
        facts = [hit.memory for hit in semantic if hit.memory.key in kept and tells_time(hit.memory.fact)]
        kept = of_its_time | {fact.key for fact in facts if not names_relative_day(fact.fact)}  # also "every Friday"
    if of_time or question.asks_what_was_said:
        kept |= of_time
        if question.behind:  # the days that an open one tells of are not read
            kept |= _tells_of_days(episodic, _relevant(episodic, request, calibration[Kind.EPISODIC]))
        return kept, False
    kept |= _relevant(episodic, request, calibration[Kind.EPISODIC])
    if is_auto and not kept and question.asks_about_self:  # what is nearest may tell it in other words
        return {hit.memory.key for hit in (*semantic[:_NEAREST], *episodic[:_NEAREST])}, False
    return kept, True


def _relevant(hits: Hits, request: RetrievalRequest, calibration: Calibration, *, share: float = 0.0) -> set[MemoryKey]:
    fitted = calibration.least(hits[0].relevance) if hits else 0.0
    least = fitted if request.min_relevance == "auto" else request.min_relevance
    near = [hit for hit in hits if hit.relevance >= least]
    if not (near and fitted and share):
        return {hit.memory.key for hit in near}
    enough, at = share * hits[0].relevance, holds_since(hits[0].memory)
    return {hit.memory.key for hit in near if hit.relevance >= enough or holds_since(hit.memory) >= at}


def holds_since(memory: AnyMemory) -> datetime:
    """The time from which a memory holds: of two about the same, the later one is the newer."""
    return memory.valid_at if isinstance(memory, SemanticMemory) else memory.end_at


def _of_its_time(hits: Hits, plan: RetrievalPlan) -> set[MemoryKey]:
    """Name what is of the time that a question names, or is planned then; all episodes where it names none."""
    question = plan.question
    if not (question.dates or question.periods or question.ahead):
        return {hit.memory.key for hit in hits if hit.memory.kind is Kind.EPISODIC}
    evidence = {hit.memory.key: hit.explanation.evidence for hit in hits}
    return {key for key, each in evidence.items() if each is not None and each.dated}


def _tells_of_days(hits: Iterable[RetrievedMemory[EpisodicMemory]], kept: Container[MemoryKey]) -> set[MemoryKey]:
    """Name those of some conversations that are still open and tell of days gone by."""
    ones = (hit.memory for hit in hits if hit.memory.is_open and hit.memory.key in kept)
    return {one.key for one in ones for it in one.messages if days_behind(it.content, today=one.end_at)}
