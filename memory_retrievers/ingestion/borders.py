"""Where a conversation turns to something else: evidence from time, from phrases and from falling cohesion."""

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
from memory_retrievers.messages import Message
from memory_retrievers.text import analyze

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vectors

OPENING = 200
"""Characters at either end of a message in which a greeting, a goodbye or a mark of a new topic is looked for."""

_QUESTION = re.compile(r"[?？][\s\"'”’)]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class BorderSettings:
    """How much each observation speaks for a border before a message; 1 in all makes one.

    The weights are round numbers near a logistic regression on conversations with known borders.

    Attributes:
        long_gap_hours: A pause of so long is a border by itself: another sitting.
        short_gap_minutes: From here on a pause is evidence.
        unusual_gap: A pause counts only if so many times the usual one: who writes once a day makes no pauses.
        short_gap: Weight of such a shorter pause.
        change_of_topic: Weight of an announced change ("on another note").
        aside: Weight of a phrase that may open a topic ("by the way").
        greeting: Weight of a greeting, unless it answers one. Nearly a border: nobody greets in the middle of a talk,
            save in "Hey, that's great!".
        reunion: Weight of a phrase said after a time apart ("how have you been").
        farewell: Weight of a goodbye just before, unless another follows.
        open_question: Weight of a question just before: an answer is due.
        cohesion: Weight of a complete fall of cohesion. By itself it makes a border only where nothing is shared.
        span: Messages on either side whose cohesion is compared; more blur the place, fewer are chance.
        ordinary_fall: Cohesion falls so much anywhere, which is no evidence.
        complete_fall: A fall so great counts in full, a greater one more, so that the deepest of neighbours wins.
            Inside a topic fewer than one place in a hundred reaches it.
        shortest: Messages between two borders, unless a long pause parts them: a greeting and its answer are too few.
    """

    long_gap_hours: float = 4.0
    short_gap_minutes: float = 30.0
    unusual_gap: float = 8.0
    short_gap: float = 0.5
    change_of_topic: float = 1.0
    aside: float = 0.7
    greeting: float = 0.8
    reunion: float = 0.3
    farewell: float = 0.4
    open_question: float = -0.3
    cohesion: float = 1.0
    span: int = 3
    ordinary_fall: float = 0.1
    complete_fall: float = 0.6
    shortest: int = 3


def find_borders(messages: Sequence[Message], vectors: Vectors, settings: BorderSettings) -> list[int]:
    """The positions, ascending, of the messages that open a new segment; never 0.

    Args:
        messages: The conversation.
        vectors: A vector per message.
        settings: The weights.
    """
    # 1. Evidence before every message but the first.
    pauses = _pauses(messages, settings)
    phrases = _phrases(messages, settings)
    falls = cohesion_falls(messages, vectors, settings)
    evidence = [math.fsum(each) for each in zip(pauses, phrases, falls, strict=True)]
    # 2. The strongest first; a weaker one too near to it goes.
    candidates = [position for position, sum_ in enumerate(evidence, start=1) if sum_ >= 1]
    borders = {position for position in candidates if pauses[position - 1] >= 1}
    for position in sorted(candidates, key=lambda position: (-evidence[position - 1], position)):
        if all(abs(position - other) >= settings.shortest for other in {0, *borders}):
            borders.add(position)
    return sorted(borders)


def _pauses(messages: Sequence[Message], settings: BorderSettings) -> list[float]:
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


def _phrases(messages: Sequence[Message], settings: BorderSettings) -> list[float]:
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


def cohesion_falls(messages: Sequence[Message], vectors: Vectors, settings: BorderSettings) -> list[float]:
    """Evidence from what the messages around each place are about: alike within the sides, unlike across.

    Vectors are compared after their mean is taken away, which makes the numbers alike for all embedders.
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
