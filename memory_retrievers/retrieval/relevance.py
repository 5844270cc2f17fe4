"""Relevance: the probability that a memory bears on the query, from evidence that compares across queries and scopes.

A score says how memories of one result stand to each other; what is best among nothing fitting has a high one too.
Relevance is a logistic function of absolute evidence, fitted by ``scripts/fit_relevance.py``, which says on what.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from memory_retrievers.models import Kind
from memory_retrievers.models.results import Evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.retrieval.candidates import Candidates

FEW_PASSAGES: Final = 20
"""Below so many passages the middle cosine of a scope says little, and :data:`BACKGROUND` stands for it."""

FEWEST_PASSAGES: Final = 5
"""From here down a scope is not taken to be smaller."""

FURTHER: Final = 10.0
"""Weight that every query is taken to have beside its terms; a rare word weighs 5 to 7."""

KNOWN_PASSAGES: Final = 400
"""Passages of the smallest scopes that the weights are fitted on. A smaller one is taken to have as many where words
are counted: among five passages every word would be a common one."""

BACKGROUND: Final = 0.1
"""Middle cosine of a query and unrelated passages, by the bundled embedder."""


class Weights(NamedTuple):
    """Weights of the evidence for one kind; see :class:`~memory_retrievers.models.results.Evidence`.

    Attributes:
        bias: Added to all.
        cosine: Weight of the cosine.
        coverage: Weight of the coverage.
        margin: Weight of the margin.
        fewer: How much it tells for a memory that its scope has few: 1 if some memory had to answer, 0 if none need.
            Chosen, not fitted: the scopes of the data are all large.
    """

    bias: float
    cosine: float
    coverage: float
    margin: float
    fewer: float = 0.0

    def relevance(self, evidence: Evidence) -> float:
        """Probability that the memory bears on the query, 0 to 1."""
        fewer = math.log(KNOWN_PASSAGES / min(max(evidence.passages, FEWEST_PASSAGES), KNOWN_PASSAGES))
        total = (
            self.bias
            + self.fewer * fewer
            + self.cosine * evidence.cosine
            + self.coverage * evidence.coverage
            + self.margin * evidence.margin
        )
        return 1 / (1 + math.exp(-total))


class Calibration(NamedTuple):
    """What was fitted for an embedder and one kind of memory.

    Attributes:
        weights: Weights of the evidence.
        floor: Least relevance of what is put into prompts that did not ask for it.
    """

    weights: Weights
    floor: float


_BUNDLED: Final = {
    Kind.EPISODIC: Calibration(Weights(bias=-7.0, cosine=2.7, coverage=9.6, margin=4.5, fewer=0.75), floor=0.03),
    Kind.SEMANTIC: Calibration(Weights(bias=-5.0, cosine=1.8, coverage=5.3, margin=5.5, fewer=0.4), floor=0.05),
}
_OTHERS: Final = {kind: each._replace(floor=0.0) for kind, each in _BUNDLED.items()}
_FITTED: Final = {"all-MiniLM-L6-v2-int8": _BUNDLED}


def calibration_of(embedder_id: str) -> Mapping[Kind, Calibration]:
    """Calibration for an embedder, by kind; one without its own has the weights of the bundled one and no floor.

    Args:
        embedder_id: Name of the embedder.
    """
    return _FITTED.get(embedder_id, _OTHERS)


def falling(relevances: Sequence[float]) -> list[float]:
    """Let relevance fall with rank: each is at least what comes behind it.

    >>> falling([0.5, 0.7, 0.2])
    [0.7, 0.7, 0.2]
    """
    return list(accumulate(reversed(relevances), max))[::-1]


def coverages(candidates: Candidates) -> NDArray[np.float64]:
    """Share of the query's terms that each passage has, weighed by idf: shape (n,), 0 to 1.

    A term that no passage has weighs as the rarest: a query that is mostly of such words is about something else. A
    query of a word or two says little, even where they are found.
    """
    statistics = candidates.statistics
    frequencies = np.array(list(statistics.frequencies.values()), np.float64)
    passages = max(statistics.passages, KNOWN_PASSAGES)
    weights = candidates.repeats * np.log1p((passages - frequencies + 0.5) / (frequencies + 0.5))
    covered: NDArray[np.float64] = (weights / (weights.sum() + FURTHER)) @ (candidates.counts > 0)
    return covered


def background(candidates: Candidates) -> float:
    """Cosine that an unrelated passage of the scope has with the query."""
    if len(candidates) < FEW_PASSAGES or not candidates.is_whole:
        return BACKGROUND
    return float(np.median(candidates.similarities))
