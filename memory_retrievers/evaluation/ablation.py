"""What is varied: the rows of the ablation, and the grid a setting is suggested from.

Both name fields of :class:`RetrievalSettings`; a new stage gets its row here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    "common words embedded": {"common_share": 1.0},
}
"""Each row of the ablation by its name: in what it differs from the default."""

GRID: Final[Mapping[str, tuple[object, ...]]] = {
    "dense_weight": (0.3, 0.5, 0.7),
    "decay_weight": (0.0, 0.05, 0.1, 0.2, 1.0),
}
"""The fields a setting is suggested for, each with the round numbers that are tried."""


def ablations() -> dict[str, RetrievalSettings]:
    """The settings of every row, without the default itself."""
    return {name: changed(RetrievalSettings(), change) for name, change in ROWS.items()}


def grid() -> dict[str, RetrievalSettings]:
    """The default with every combination of the grid, but for the default itself; named by what differs from it."""
    changes: list[dict[str, object]] = [{}]
    for field, values in GRID.items():
        changes = [change | {field: value} for change in changes for value in values]
    settings = [changed(RetrievalSettings(), change) for change in changes]
    return {difference: each for each in settings if (difference := told_difference(each))}


def told_difference(settings: RetrievalSettings) -> str:
    """In what settings differ from the default, as arguments of ``RetrievalSettings``; nothing if in nothing.

    >>> told_difference(RetrievalSettings(rrf_k=10))
    'rrf_k=10'
    """
    default = RetrievalSettings()
    return ", ".join(f"{name}={value!r}" for name, value in settings if value != getattr(default, name))


def changed(settings: RetrievalSettings, change: Mapping[str, object]) -> RetrievalSettings:
    """Settings that differ in the given fields, checked as any settings are.

    Raises:
        pydantic.ValidationError: There is no such field, or it takes no such value.
    """
    return RetrievalSettings.model_validate({**settings.model_dump(), **change})
