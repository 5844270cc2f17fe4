"""Boosts: small named stages, each of which adds to the fused score of a passage for a reason of its own.

Each gives a value of 0 to 1 for every passage of a field; the settings say what it weighs, and 0 leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from memory_retrievers.retrieval import evidence
from memory_retrievers.retrieval.field import Field
from memory_retrievers.retrieval.fusion import min_max
from memory_retrievers.retrieval.question import AskedDate, Question
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_BEST_PASSAGES: Final = 3
"""So many passages of an episode speak for it as a whole."""

_NEXT_MONTH: Final = 0.5
"""What an episode of the month after the one that is asked for gets: many things are told later."""


def neighbour(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """The better of the two messages around it: answers stand beside what they answer."""
    better: Floats = np.maximum(field.before(fused), field.after(fused))
    return better


def episode(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """The three best passages of its episode together, relative to the best episode."""
    place = np.arange(len(field)) - field.starts[field.groups]
    together: Floats = np.add.reduceat(np.where(place < _BEST_PASSAGES, _best_first(field, fused), 0.0), field.starts)
    return min_max(together)[field.groups]


def episode_words(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """The words of its whole episode."""
    scores = evidence.memory_words(field, k1=settings.bm25_k1, b=settings.bm25_b)
    return min_max(scores, floor=0.0)[field.groups]


def speaker(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """Whether it is said by the one speaker whom the question names."""
    named = [number for number, name in enumerate(field.layout.names) if question.names(name)]
    if len(named) != 1:
        return np.zeros(len(field))
    return np.where(field.layout.speakers == named[0], 1.0, 0.0)


def length(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """How much it says: of two that fit equally well, the longer one holds more of the answer."""
    return min_max(np.log1p(field.lengths))


def date(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """Whether its episode began at a date that the question names; half for the month after it."""
    months = field.layout.began.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    found = np.zeros(len(field))
    for asked in question.dates:
        found = np.maximum(found, _fits(asked, months))
    return found


def time_expression(field: Field, fused: Floats, question: Question, settings: RetrievalSettings) -> Floats:  # noqa: ARG001
    """For a question that asks when: whether it tells a time."""
    return field.layout.tells_time.astype(np.float64) if question.asks_when else np.zeros(len(field))


def _best_first(field: Field, fused: Floats) -> Floats:
    """The values of each memory's passages, best first; scores are at most 1, so one plain sort keeps them together."""
    keys = np.sort(field.groups - fused / 2)
    best_first: Floats = (field.groups - keys) * 2
    return best_first


def _fits(asked: AskedDate, months: NDArray[np.int64]) -> Floats:
    """How well months since 1970 fit a date."""
    years, of_year = months // 12 + 1970, months % 12 + 1
    if asked.month is None:
        return np.where(years == asked.year, 1.0, 0.0)
    after = months - 1

    def right_year(given: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.full(len(given), True) if asked.year is None else given == asked.year

    is_month = (of_year == asked.month) & right_year(years)
    is_next = (after % 12 + 1 == asked.month) & right_year(after // 12 + 1970)
    return np.where(is_month, 1.0, np.where(is_next, _NEXT_MONTH, 0.0))


Boost = Callable[[Field, "Floats", Question, RetrievalSettings], "Floats"]


class NamedBoost(NamedTuple):
    """A boost, the setting that says what it weighs, and whether it can add anything to a question's answer."""

    name: str
    setting: str
    add: Boost
    concerns: Callable[[Question], bool] = lambda _: True


BOOSTS: Final = (
    NamedBoost("neighbour", "neighbour_weight", neighbour),
    NamedBoost("episode", "episode_weight", episode),
    NamedBoost("episode_words", "episode_words_weight", episode_words),
    NamedBoost("speaker", "speaker_weight", speaker),
    NamedBoost("length", "length_weight", length),
    NamedBoost("date", "date_weight", date, lambda question: bool(question.dates)),
    NamedBoost("time", "time_weight", time_expression, lambda question: question.asks_when),
)
