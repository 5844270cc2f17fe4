"""What forgetting and review bring: synthetic lives, asked with and without both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from memory_retrievers.contents import Progress
from memory_retrievers.evaluation.ablation import changed
from memory_retrievers.evaluation.filling import FilledStores
from memory_retrievers.evaluation.lives import Lives
from memory_retrievers.evaluation.measuring import measure
from memory_retrievers.evaluation.scoring import Score
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.protocols import Embedder

WEIGHTS: Final = (0.0, None, 1.0)
"""How strongly forgetting counts; None is the default."""


def measure_forgetting(
    told: Lives,
    *,
    embedder: Embedder,
    watched: Callable[[str], AbstractContextManager[Progress]],
) -> dict[str, list[Score]]:
    """The scores of each row: every decay weight, first without reviews and then with them.

    Args:
        told: The lives.
        embedder: What embeds.
        watched: Makes of a row's name what is told of its progress.

    Raises:
        EmbeddingError: The embedder failed.
    """
    default = RetrievalSettings()
    measured = {}
    for reviews, uses in (("without reviews", ()), ("with reviews", told.uses)):
        with FilledStores(told.conversations, embedder=embedder, uses=uses) as stores:
            for weight in WEIGHTS:
                settings = default if weight is None else changed(default, {"decay_weight": weight})
                name = f"{_name(weight)}, {reviews}"
                with watched(name) as progress:
                    measured[name] = measure(stores, settings, tokens=None, progress=progress)
    return measured


def _name(weight: float | None) -> str:
    return f"decay {RetrievalSettings().decay_weight} (default)" if weight is None else f"decay {weight:g}"
