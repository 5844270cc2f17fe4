"""How unexpected a stretch of conversation is: far from what is known, and said with emphasis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_retrievers.ingestion import cues
from memory_retrievers.messages import Message

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vector, Vectors

_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class SurpriseSettings:
    """How novelty and language become a surprise with the meaning of the three levels of specification §2.12.

    ``surprise = ordinary + stronger × max(novelty, language) + weaker × min(novelty, language)``: one of the two makes
    an episode notable (0.6), only both together a key moment (0.7) or something extraordinary (0.9).

    Attributes:
        ordinary: The level of what is neither new nor emphatic, and of the first episode of a scope.
        stronger: 0.2 + 0.4 is the level "high".
        weaker: 0.2 + 0.4 + 0.3 is the level "extremely high".
        enough_known: With fewer known episodes nobody knows what is usual, and nothing is new.
        usual_distance: Up to so many standard deviations farther from the nearest known episode than these are from
            their own nearest, nothing is new; half of all segments are within.
        strange_distance: From here on everything is; one in fifty segments is.
        least_deviation: Cosines of episodes that are all alike deviate by chance, and less than this tells nothing.
        life_event: The mention of a rare event is notable by itself.
        correction: Share of corrections ("actually", "no, I meant").
        full_corrections: So many of them count in full: one is a slip of the tongue.
        changed_number: Share of a correction that names a number.
        emphasis: Share of emphatic messages ("never", "!!").
        usual_emphasis: This part of all messages is emphatic in lively talk.
        full_emphasis: From this part on emphasis counts in full.
    """

    ordinary: float = 0.2
    stronger: float = 0.4
    weaker: float = 0.3
    enough_known: int = 3
    usual_distance: float = 0.5
    strange_distance: float = 2.5
    least_deviation: float = 0.05
    life_event: float = 1.0
    correction: float = 0.4
    full_corrections: int = 2
    changed_number: float = 0.3
    emphasis: float = 0.4
    usual_emphasis: float = 0.3
    full_emphasis: float = 0.8


def surprises(
    stretches: Sequence[Sequence[Message]], vectors: Vectors, known: Vectors, settings: SurpriseSettings
) -> list[float]:
    """The surprise of each stretch, in order, 0 to 1; each is known when the next is looked at.

    Args:
        stretches: The messages of each.
        vectors: A vector per message of all stretches together.
        known: A vector per known episode; without any, the first stretch is ordinary.
        settings: The numbers.
    """
    found = []
    before = [_direction(vector) for vector in known]
    start = 0
    for stretch in stretches:
        centre = _direction(vectors[start : start + len(stretch)].mean(axis=0))
        start += len(stretch)
        if before:
            weaker, stronger = sorted([novelty(centre, before, settings), language(stretch, settings)])
            found.append(min(1.0, settings.ordinary + settings.stronger * stronger + settings.weaker * weaker))
        else:
            found.append(settings.ordinary)
        before.append(centre)
    return found


def language(stretch: Sequence[Message], settings: SurpriseSettings) -> float:
    """How emphatic or corrective the words are, 0 to 1."""
    texts = [message.content for message in stretch]
    corrections = [text for text in texts if cues.CORRECTION.search(text)]
    emphatic = sum(bool(cues.EMPHASIS.search(text)) for text in texts) / len(texts)
    excess = (emphatic - settings.usual_emphasis) / (settings.full_emphasis - settings.usual_emphasis)
    strength = settings.life_event * any(cues.LIFE_EVENT.search(text) for text in texts)
    strength += settings.correction * min(1.0, len(corrections) / settings.full_corrections)
    strength += settings.changed_number * any(_DIGIT.search(text) for text in corrections)
    strength += settings.emphasis * min(1.0, max(0.0, excess))
    return min(1.0, strength)


def novelty(centre: Vector, known: Sequence[Vector], settings: SurpriseSettings) -> float:
    """How far a stretch is from the nearest known episode, 0 to 1, by the measure of how near these are to each other.

    Only differences of cosines count, by their own deviation, which makes the numbers alike for all embedders.
    """
    import numpy as np

    if len(known) < settings.enough_known:
        return 0.0
    stacked = np.stack(known)
    cosines = stacked @ stacked.T
    pairs = cosines[np.triu_indices(len(known), 1)]
    np.fill_diagonal(cosines, -np.inf)
    usual = float(np.median(cosines.max(axis=1)))
    nearest = float((stacked @ centre).max())
    distance = (usual - nearest) / max(float(pairs.std()), settings.least_deviation)
    share = (distance - settings.usual_distance) / (settings.strange_distance - settings.usual_distance)
    return min(1.0, max(0.0, share))


def _direction(vector: Vector) -> Vector:
    """The vector at length 1; one of no length stays as it is."""
    length = float((vector @ vector) ** 0.5)
    return vector / length if length > 0 else vector
