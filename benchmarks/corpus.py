"""What is searched: records of pseudo-words, the scopes they are in, and vectors that cost nothing."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from memory_retrievers import EpisodicMemory, Message, SemanticMemory
from memory_retrievers.models import Draft
from memory_retrievers.text.analysis import analyze

DIMENSION: Final = 384
SMALL_SCOPE: Final = 100
BIG_SCOPE: Final = "big"
_DRAWN: Final = 1_000
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)


class VectorTable:
    """An embedder that only looks vectors up, so that nothing but retrieval is measured.

    A text that was never seen gets a random vector of length 1, once; one that only leaves words of the last such text
    out gets its vector, as a question does that is embedded without its common words: by another it would not find what
    says the same. Vectors are made many at a time, since to draw one takes a hundred times as long as to find one.
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._vectors: dict[str, np.ndarray] = {}
        self._unused: list[np.ndarray] = []
        self._last: tuple[frozenset[str], np.ndarray] | None = None

    def embed_query(self, text: str) -> np.ndarray:
        vector = self._vectors.get(text)
        if vector is None:
            words = text.split()
            if self._last is not None and self._last[0].issuperset(words):
                vector = self._last[1]
            else:
                vector = self._drawn()
                self._last = frozenset(words), vector
            self._vectors[text] = vector
        return vector

    def _drawn(self) -> np.ndarray:
        if not self._unused:
            drawn = self._random.standard_normal((_DRAWN, DIMENSION), np.float32)
            self._unused = list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        return self._unused.pop()

    def embed_documents(self, texts: Iterable[str]) -> list[np.ndarray]:
        return [self.embed_query(text.removeprefix("note: ")) for text in texts]


@dataclass
class Words:
    """Sentences of pseudo-words whose frequencies follow Zipf's law."""

    seed: int
    vocabulary: int = 50_000
    _weights: list[float] = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        total = 0.0
        self._weights = [total := total + 1 / rank**1.07 for rank in range(1, self.vocabulary + 1)]
        self._random = random.Random(self.seed)

    def sentence(self, length: int) -> str:
        ranks = self._random.choices(range(self.vocabulary), cum_weights=self._weights, k=length)
        return " ".join(_word(rank) for rank in ranks)


def _word(rank: int) -> str:
    syllables = ("ka", "lo", "mi", "nu", "re", "so", "ta", "vi", "we", "xa")
    return "".join(syllables[int(digit)] for digit in f"{rank:05d}")


@dataclass(frozen=True)
class Text:
    """What is searched for, or searched: where it is, its words, and what every system may know of it beforehand."""

    key: str
    scope: str
    words: str
    terms: list[str]
    vector: np.ndarray


class Corpus:
    """The records of one size: half episodes, half facts, a tenth of them in one big scope, the rest in small ones."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.embedder = VectorTable(size)
        self.texts: dict[str, list[Text]] = defaultdict(list)
        self._words = Words(size)
        self._random = random.Random(size)
        self._numbers = itertools.count()

    def batches(self, length: int = 2_000) -> Iterator[tuple[list[Draft], list[Text]]]:
        """All records and their texts in mixed order, made as they are asked for; the texts are kept by scope."""
        small_scopes = max(1, self.size * 9 // 10 // SMALL_SCOPE)
        tenth = self.size // 10
        scopes = [BIG_SCOPE] * tenth + [f"user/{number % small_scopes}" for number in range(self.size - tenth)]
        random.Random(self.size).shuffle(scopes)
        for start in range(0, self.size, length):
            places = range(start, min(start + length, self.size))
            drafts = [self._draft(scopes[place], place) for place in places]
            texts = [self._text(draft.scope, draft.search_text) for draft in drafts]
            for text in texts:
                self.texts[text.scope].append(text)
            yield drafts, texts

    def small_scopes(self, most: int) -> list[str]:
        scopes = sorted(scope for scope in self.texts if scope != BIG_SCOPE)
        return self._random.sample(scopes, min(most, len(scopes)))

    def question(self, scope: str) -> Text:
        """Six words of one of the scope's memories, as a question about it would have."""
        terms = self._random.choice(self.texts[scope]).terms
        return self._text(scope, " ".join(self._random.sample(terms, min(6, len(terms)))))

    def newcomer(self, scope: str) -> Text:
        """A fact that is not there yet, to be added and asked for."""
        return self._text(scope, f"{self._words.sentence(15)} newcomer{next(self._numbers)}")

    def _text(self, scope: str, words: str) -> Text:
        key = f"text-{next(self._numbers)}"
        return Text(key, scope, words, analyze(words), self.embedder.embed_query(words))

    def _draft(self, scope: str, number: int) -> Draft:
        created_at = NOW - timedelta(hours=number % 2_000)
        if number % 2:
            fact = self._words.sentence(15)
            return SemanticMemory.new(scope=scope, fact=fact, category="note", created_at=created_at)
        messages = [Message(role=role, content=self._words.sentence(20)) for role in ("user", "assistant")]
        summary = self._words.sentence(30)
        return EpisodicMemory.new(scope=scope, summary=summary, messages=messages, created_at=created_at)


class OneScope(Corpus):
    """Facts alone, all of them in the big scope: as many passages as records."""

    def _draft(self, scope: str, number: int) -> Draft:  # noqa: ARG002
        return super()._draft(BIG_SCOPE, 2 * number + 1)
