"""What was measured as rows of a table, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from memory_retrievers.evaluation.ablation import told_difference
from memory_retrievers.evaluation.own import Suggestion
from memory_retrievers.evaluation.scoring import Figures, Score, by_category, figures
from memory_retrievers.evaluation.tokens import TokenCounter
from memory_retrievers.models import JsonObject

ALL: Final = "all"
"""The category of a row over all questions."""

_WITH_INTERVAL: Final = ("any@1", "any@5")
"""Whose interval is a column of its own."""

_MISSING: Final = "–"


def headings(measured: Mapping[str, Sequence[Score]], *, measures: Sequence[str] | None = None) -> list[str]:
    """The columns of :func:`rows`: the profile, the category, how many questions, the measures, the times."""
    columns = ["profile", "category", "questions"]
    for name in measures or _measures(measured):
        columns += [name, f"{name} 95 %"] if name in _WITH_INTERVAL else [name]
    return [*columns, "ms", "ms p95"]


def rows(measured: Mapping[str, Sequence[Score]], *, measures: Sequence[str] | None = None) -> list[list[str]]:
    """A row for each profile, then one for each category and profile; shares are in percent.

    Args:
        measured: The scores of each profile.
        measures: Only these; None shows all that any of them has.
    """
    names = measures or _measures(measured)
    told = [_row(profile, ALL, figures(scores), names) for profile, scores in measured.items()]
    found = {profile: by_category(scores) for profile, scores in measured.items()}
    categories = sorted({category for each in found.values() for category in each})
    return told + [
        _row(profile, category, each[category], names)
        for category in categories
        for profile, each in found.items()
        if category in each
    ]


def as_json(measured: Mapping[str, Sequence[Score]]) -> JsonObject:
    """All figures as they are: shares from 0 to 1, times in milliseconds."""
    return {
        profile: {ALL: _figures(figures(scores))}
        | {category: _figures(found) for category, found in by_category(scores).items()}
        for profile, scores in measured.items()
    }


def suggestion_as_json(suggestion: Suggestion) -> JsonObject:
    """The suggestion with every number of its setting."""
    return {
        "name": suggestion.name,
        "settings": suggestion.settings.model_dump(mode="json"),
        "held_out": _figures(suggestion.held_out),
        "gain": list(suggestion.gain),
        "within_noise": suggestion.is_within_noise,
    }


def suggestion_lines(suggestion: Suggestion) -> Iterator[str]:
    """The suggestion in words."""
    found, interval = suggestion.held_out, suggestion.held_out.intervals["any@5"]
    difference = told_difference(suggestion.settings)
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
    """What the columns T500 and so on mean."""
    return f"T500: the share of evidence turns within the first 500 tokens of what is read, counted by {tokens.name}"


def percent(share: float) -> str:
    """A share with one digit behind the point.

    >>> percent(0.79564)
    '79.6'
    """
    return f"{100 * share:.1f}"


def _measures(measured: Mapping[str, Sequence[Score]]) -> list[str]:
    """The measures of those that have most; the others have some of them."""
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
