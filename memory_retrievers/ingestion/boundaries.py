"""Boundaries of segments in a conversation, and the surprise of each segment, by rules.

Boundaries come from pauses, phrases and falling cohesion; surprise comes from the distance to known episodes and from
emphasis in the language.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from memory_retrievers.ingestion import cues
from memory_retrievers.models.messages import Message
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vector, Vectors


OPENING = 200
"""Characters at either end of a message in which a greeting, a goodbye or a mark of a new topic is looked for."""

_QUESTION = re.compile(r"[?？][\s\"'”’)]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundarySettings:
    """Weight of each observation as evidence for a boundary before a message; a sum of 1 makes a boundary."""

    long_gap_hours: float = 4.0  # a pause of so long is a boundary by itself: another sitting
    short_gap_minutes: float = 30.0  # from here on a pause is evidence
    # a pause counts only if so many times the usual one: who writes once a day makes no pauses
    unusual_gap: float = 8.0
    short_gap: float = 0.5  # weight of such a shorter pause
    change_of_topic: float = 1.0  # weight of an announced change ("on another note")
    aside: float = 0.7  # weight of a phrase that may open a topic ("by the way")
    # weight of a greeting, unless it answers one. Nearly a boundary: nobody greets in the middle of a talk, save in
    # "Hey, that's great!".
    greeting: float = 0.8
    reunion: float = 0.3  # weight of a phrase said after a time apart ("how have you been")
    farewell: float = 0.4  # weight of a goodbye just before, unless another follows
    open_question: float = -0.3  # weight of a question just before: an answer is due
    # weight of a complete fall of cohesion. By itself it makes a boundary only where nothing is shared.
    cohesion: float = 1.0
    span: int = 3  # messages on either side whose cohesion is compared; more blur the place, fewer are chance
    ordinary_fall: float = 0.1  # cohesion falls so much anywhere, which is no evidence
    # a fall so great counts in full, a greater one more, so that the deepest of neighbours wins. Inside a topic fewer
    # than one place in a hundred reaches it.
    complete_fall: float = 0.6
    # messages between two boundaries, unless a long pause parts them: a greeting and its answer are too few
    shortest: int = 3


def find_boundaries(messages: Sequence[Message], vectors: Vectors, settings: BoundarySettings) -> list[int]:
    """Find the messages that open a new segment.

    Args:
        messages: The conversation, n messages in order.
        vectors: A vector per message, shape (n, d).
        settings: Weights and thresholds.

    Returns:
        Their positions, ascending; never 0.
    """
    # 1. Evidence before every message but the first.
    pauses = _pauses(messages, settings)
    phrases = _phrases(messages, settings)
    falls = cohesion_falls(messages, vectors, settings)
    evidence = [math.fsum(each) for each in zip(pauses, phrases, falls, strict=True)]
    # 2. The strongest first; a weaker one too near to it goes.
    candidates = [position for position, sum_ in enumerate(evidence, start=1) if sum_ >= 1]
    boundaries = {position for position in candidates if pauses[position - 1] >= 1}
    for position in sorted(candidates, key=lambda position: (-evidence[position - 1], position)):
        if all(abs(position - other) >= settings.shortest for other in {0, *boundaries}):
            boundaries.add(position)
    return sorted(boundaries)


def _pauses(messages: Sequence[Message], settings: BoundarySettings) -> list[float]:
    """Evidence from the time between neighbours; where a time is missing there is none."""
    gaps = [
        (after.timestamp - before.timestamp).total_seconds() if before.timestamp and after.timestamp else 0.0
        for before, after in pairwise(messages)
    ]
    usual = statistics.median_low(gaps) if gaps else 0.0

    def weigh(gap: float) -> float:
        if gap < settings.short_gap_minutes * 60 or gap < settings.unusual_gap * usual:
            return 0.0
        return 1.0 if gap >= settings.long_gap_hours * 3600 else settings.short_gap

    return [weigh(gap) for gap in gaps]


def _phrases(messages: Sequence[Message], settings: BoundarySettings) -> list[float]:
    """Evidence from how messages open and end."""
    openings = [message.content[:OPENING] for message in messages]
    greets = [bool(cues.GREETING.search(opening)) for opening in openings]
    meets = [bool(cues.REUNION.search(opening)) for opening in openings]
    parts = [bool(cues.FAREWELL.search(message.content[-OPENING:])) for message in messages]

    def weigh(position: int) -> float:
        before, opening = position - 1, openings[position]
        weight = settings.change_of_topic if cues.CHANGE_OF_TOPIC.search(opening) else 0.0
        weight = weight or (settings.aside if cues.ASIDE.search(opening) else 0.0)
        weight += settings.greeting * (greets[position] and not greets[before])
        weight += settings.reunion * (meets[position] and not meets[before])
        weight += settings.farewell * (parts[before] and not parts[position])
        return weight + settings.open_question * bool(_QUESTION.search(messages[before].content))

    return [weigh(position) for position in range(1, len(messages))]


def cohesion_falls(messages: Sequence[Message], vectors: Vectors, settings: BoundarySettings) -> list[float]:
    """Score the fall of cohesion at each place: the messages around it are alike within the sides, unlike across.

    Args:
        messages: The conversation, n messages in order.
        vectors: A vector per message, shape (n, d).
        settings: Span, expected falls and the weight of cohesion.

    Returns:
        Evidence for a boundary before each message but the first, 0 or more; n - 1 numbers.
    """
    import numpy as np

    # 1. How alike any two messages are, in meaning and in words.
    centred = vectors - vectors.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    directions = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > np.finfo(np.float32).eps)
    alike = directions @ directions.T + _shared_words(messages)
    # 2. How much more alike neighbours are on the same side than across.
    evidence = []
    for position in range(1, len(messages)):
        left = slice(max(0, position - settings.span), position)
        right = slice(position, position + settings.span)
        within = (_mean_of_pairs(alike[left, left]) + _mean_of_pairs(alike[right, right])) / 2
        fall = within - float(alike[left, right].mean())
        share = (fall - settings.ordinary_fall) / (settings.complete_fall - settings.ordinary_fall)
        # Near an end there are fewer pairs to tell from, and none beside a single message.
        shorter = min(position, len(messages) - position, settings.span)
        seen = _pairs(shorter) / max(_pairs(settings.span), 1)
        evidence.append(settings.cohesion * seen * max(0.0, share))
    return evidence


def _pairs(number: int) -> int:
    return number * (number - 1) // 2


def _mean_of_pairs(alike: Vectors) -> float:
    """The mean over all pairs of different messages; 0 if there is none."""
    return float(alike.sum() - alike.trace()) / 2 / max(_pairs(len(alike)), 1)


def _shared_words(messages: Sequence[Message]) -> Vectors:
    """Cosines of tf-idf vectors, counted within these messages: rare words in common weigh most."""
    import numpy as np

    counts = [Counter(analyze(message.content)) for message in messages]
    spread = Counter(term for count in counts for term in count)
    columns = {term: column for column, term in enumerate(spread)}
    weights = np.zeros((len(messages), len(columns)), dtype=np.float32)
    for row, count in enumerate(counts):
        for term, number in count.items():
            weights[row, columns[term]] = (1 + math.log(number)) * math.log((len(messages) + 1) / spread[term])
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    weights = np.divide(weights, lengths, out=weights, where=lengths > 0)
    shared: Vectors = weights @ weights.T
    return shared


_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class SurpriseSettings:
    """Parameters that turn novelty and language into a surprise on the three levels of specification §2.12.

    ``surprise = ordinary + stronger × max(novelty, language) + weaker × min(novelty, language)``: one of the two makes
    an episode notable (0.6), only both together a key moment (0.7) or something extraordinary (0.9).
    """

    ordinary: float = 0.2  # the level of what is neither new nor emphatic, and of the first episode of a scope
    stronger: float = 0.4  # 0.2 + 0.4 is the level "high"
    weaker: float = 0.3  # 0.2 + 0.4 + 0.3 is the level "extremely high"
    enough_known: int = 3  # with fewer known episodes nobody knows what is usual, and nothing is new
    # up to so many standard deviations farther from the nearest known episode than these are from their own nearest,
    # nothing is new; half of all segments are within
    usual_distance: float = 0.5
    strange_distance: float = 2.5  # from here on everything is; one in fifty segments is
    # cosines of episodes that are all alike deviate by chance, and less than this tells nothing
    least_deviation: float = 0.05
    life_event: float = 1.0  # the mention of a rare event is notable by itself
    correction: float = 0.4  # share of corrections ("actually", "no, I meant")
    full_corrections: int = 2  # so many of them count in full: one is a slip of the tongue
    changed_number: float = 0.3  # share of a correction that names a number
    emphasis: float = 0.4  # share of emphatic messages ("never", "!!")
    usual_emphasis: float = 0.3  # this part of all messages is emphatic in lively talk
    full_emphasis: float = 0.8  # from this part on emphasis counts in full


def surprises(
    stretches: Sequence[Sequence[Message]], vectors: Vectors, known: Vectors, settings: SurpriseSettings
) -> list[float]:
    """Rate the surprise of each stretch, in order; each is known when the next is rated.

    Args:
        stretches: The messages of each, n in all.
        vectors: A vector per message of all stretches together, shape (n, d).
        known: A vector per known episode, shape (k, d); with k = 0 the first stretch is ordinary.
        settings: Weights and thresholds.

    Returns:
        A surprise per stretch, 0 to 1.
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
    """Rate how emphatic or corrective the words are, 0 to 1."""
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
    """Rate the distance of a stretch from the nearest known episode, relative to the distances among these.

    Args:
        centre: Unit vector of the stretch, shape (d,).
        known: Unit vectors of the known episodes, each of shape (d,).
        settings: Thresholds.

    Returns:
        0 to 1; 0 where too few episodes are known.
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
