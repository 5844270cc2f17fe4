"""Reports of measurements as tables and JSON, and the settings of an ablation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from memory_retrievers.evaluation.custom import Suggestion
from memory_retrievers.evaluation.measure import Figures, Score, TokenCounter, bootstrap, by_category, figures
from memory_retrievers.models import JsonObject
from memory_retrievers.settings import RetrievalSettings

ROWS: Final[Mapping[str, Mapping[str, object]]] = {
    "no vectors": {"dense_weight": 0.0},
    "no BM25": {"dense_weight": 1.0, "episode_words_weight": 0.0},
    "no passages": {"passages": "summary"},
    "fusion rrf": {"fusion": "rrf"},
    "decay 0": {"decay_weight": 0.0},
    "decay 1": {"decay_weight": 1.0},
    "no window": {"window_weight": 0.0},
    "no neighbours": {"neighbour_weight": 0.0},
    "no episode prior": {"episode_weight": 0.0},
    "no words of the episode": {"episode_words_weight": 0.0},
    "no speakers": {"speaker_weight": 0.0},
    "no length": {"length_weight": 0.0},
    "no dates": {"date_weight": 0.0},
    "no times": {"time_weight": 0.0},
    "no tokens": {"token_rerank": False},
    "common words embedded": {"common_share": 1.0},
}
"""Rows of the ablation by name, each with its difference from the default."""

GRID: Final[Mapping[str, tuple[object, ...]]] = {
    "dense_weight": (0.3, 0.5, 0.7),
    "decay_weight": (0.0, 0.05, 0.1, 0.2, 1.0),
}
"""Fields for which settings are suggested, each with the values to try."""


def ablations() -> dict[str, RetrievalSettings]:
    """Return the settings of every row, without the default itself."""
    return {name: RetrievalSettings.model_validate(change) for name, change in ROWS.items()}


def grid() -> dict[str, RetrievalSettings]:
    """Return all combinations of the grid except the default, named by their difference from it."""
    settings = [RetrievalSettings.model_validate(dict(zip(GRID, one, strict=True))) for one in product(*GRID.values())]
    return {difference: each for each in settings if (difference := difference_from_default(each))}


def difference_from_default(settings: RetrievalSettings) -> str:
    """Format the difference of settings from the default as arguments of ``RetrievalSettings``; empty if there is none.

    >>> difference_from_default(RetrievalSettings(rrf_k=10))
    'rrf_k=10'
    """
    default = RetrievalSettings()
    return ", ".join(f"{name}={value!r}" for name, value in settings if value != getattr(default, name))


ALL: Final = "all"  # the category of a row over all questions
_WITH_INTERVAL: Final = ("any@1", "any@5")  # whose interval is a column of its own

_MISSING: Final = "–"


def headings(measured: Mapping[str, Sequence[Score]], *, measures: Sequence[str] | None = None) -> list[str]:
    """Return the columns of :func:`rows`: profile, category, number of questions, measures, times."""
    columns = ["profile", "category", "questions"]
    for name in measures or _measures(measured):
        columns += [name, f"{name} 95 %"] if name in _WITH_INTERVAL else [name]
    return [*columns, "ms", "ms p95"]


def rows(measured: Mapping[str, Sequence[Score]], *, measures: Sequence[str] | None = None) -> list[list[str]]:
    """Return a row for each profile, then one for each category and profile; shares are in percent."""
    names = measures or _measures(measured)
    overall = [_row(profile, ALL, figures(scores), names) for profile, scores in measured.items()]
    found = {profile: by_category(scores) for profile, scores in measured.items()}
    categories = sorted({category for each in found.values() for category in each})
    return overall + [
        _row(profile, category, each[category], names)
        for category in categories
        for profile, each in found.items()
        if category in each
    ]


def paired_rows(measured: Mapping[str, Sequence[Score]]) -> list[list[str]]:
    """Return the paired differences of further profiles from the first in points, by category and measure."""
    (_, first), *others = measured.items()
    table = []
    for profile, scores in others:
        for category in (ALL, *sorted({score.category for score in first})):
            pairs = [pair for pair in zip(scores, first, strict=True) if category in {ALL, pair[0].category}]
            for name in _measures({"": [score for pair in pairs for score in pair]}):
                differences = [one.values[name] - other.values[name] for one, other in pairs]
                low, high = (f"{100 * end:+.1f}" for end in bootstrap(differences))
                mean = f"{100 * statistics.fmean(differences):+.1f}"
                table.append([profile, category, name, mean, f"{low} to {high}"])
    return table


def as_json(measured: Mapping[str, Sequence[Score]]) -> JsonObject:
    """Return all figures: shares from 0 to 1, times in milliseconds."""
    return {
        profile: {ALL: _figures(figures(scores))}
        | {category: _figures(found) for category, found in by_category(scores).items()}
        for profile, scores in measured.items()
    }


def suggestion_as_json(suggestion: Suggestion) -> JsonObject:
    """Return the suggestion with all its settings."""
    return {
        "name": suggestion.name,
        "settings": suggestion.settings.model_dump(mode="json"),
        "held_out": _figures(suggestion.held_out),
        "gain": list(suggestion.gain),
        "within_noise": suggestion.is_within_noise,
    }


def suggestion_lines(suggestion: Suggestion) -> Iterator[str]:
    """Yield the suggestion in words."""
    found, interval = suggestion.held_out, suggestion.held_out.intervals["any@5"]
    difference = difference_from_default(suggestion.settings)
    yield f"suggested: {suggestion.name}: RetrievalSettings({difference})"
    yield (
        f"on the {found.questions} held-out questions: any@5 {percent(found.means['any@5'])} % "
        f"(95 %: {percent(interval.low)} to {percent(interval.high)})"
    )
    if not difference:
        return
    low, high = (f"{100 * end:+.1f}" for end in suggestion.gain)
    verdict = "within noise, keep the default" if suggestion.is_within_noise else "better than the default"
    yield f"nDCG@10 there against the default: {low} to {high} points (95 %): {verdict}"


def counted(tokens: TokenCounter) -> str:
    """Return the footnote on the columns T500 and so on."""
    return f"T500: the share of evidence turns within the first 500 tokens of what is read, counted by {tokens.name}"


def percent(share: float) -> str:
    """Format a share as a percentage with one decimal.

    >>> percent(0.79564)
    '79.6'
    """
    return f"{100 * share:.1f}"


def _measures(measured: Mapping[str, Sequence[Score]]) -> list[str]:
    return max((list(figures(scores).means) for scores in measured.values()), key=len, default=[])


def _row(profile: str, category: str, found: Figures, names: Sequence[str]) -> list[str]:
    cells = [profile, category, str(found.questions)]
    for name in names:
        cells.append(percent(found.means[name]) if name in found.means else _MISSING)
        if name in _WITH_INTERVAL:
            interval = found.intervals[name]
            cells.append(f"{percent(interval.low)}–{percent(interval.high)}")
    return [*cells, f"{1_000 * found.median_seconds:.1f}", f"{1_000 * found.slow_seconds:.1f}"]


def _figures(found: Figures) -> JsonObject:
    return {
        "questions": found.questions,
        "means": dict(found.means),
        "intervals": {name: list(interval) for name, interval in found.intervals.items()},
        "ms": {"median": 1_000 * found.median_seconds, "p95": 1_000 * found.slow_seconds},
    }
