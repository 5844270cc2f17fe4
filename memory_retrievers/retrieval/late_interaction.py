"""Late interaction: the best candidates are measured once more, each token of the question by its nearest (MaxSim).

What is near as a whole need not speak of what is asked; the rare words of the question tell. So each of its tokens is
weighed by the idf of its word. Stop words count as well, as if a tenth of the passages had them: their vectors hold
what stands around them, and without them a question of two rare words is those two words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_retrievers.retrieval.candidates import Candidates, QuestionTokens, RankedLists
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.models import Kind
    from memory_retrievers.models.selection import Embedded, TermStatistics
    from memory_retrievers.retrieval.request import RetrievalPlan
    from memory_retrievers.storage.heard import OpenEpisode
    from memory_retrievers.storage.store import MemoryStore

    Floats = NDArray[np.float64]

MEASURED: Final = 100
"""Candidates that are measured: the first by the lists."""

_STOP_WORD_SHARE: Final = 0.1
"""Share of the passages that a word which is no search term counts as being in."""

_BLOCK: Final = 200_000
"""Multiplications of a block."""


def by_tokens(
    store: MemoryStore, found: Mapping[Kind, Candidates | RankedLists], plan: RetrievalPlan
) -> dict[Kind, Candidates | RankedLists]:
    """Let candidates be measured by the tokens of the question, if the embedder gives any.

    Args:
        store: Where their tokens are.
        found: The candidates of each kind.
        plan: The search plan, whose question has just been embedded.
    """
    asked = store.embedder.question(plan.embedded)
    if asked is None or not asked.tokens or not asked.words:
        return dict(found)
    vectors = _unit(asked.tokens, width=len(asked.tokens) // len(asked.words))
    return {
        kind: replace(each, tokens=QuestionTokens(vectors, asked.words, partial(_read, store, each.open)))
        if isinstance(each, Candidates)
        else each
        for kind, each in found.items()
    }


def _read(store: MemoryStore, episodes: Mapping[int, OpenEpisode], passages: Sequence[int]) -> dict[int, bytes | None]:
    heard: dict[int, Embedded | None] = {
        -turn.row: turn.embedded for episode in episodes.values() for turn in episode.turns
    }
    stored = store.ledger.token_vectors([passage for passage in passages if passage > 0])
    if None in stored.values():
        store.on_missing_tokens()
    return stored | {each: embedded.tokens for each in passages if (embedded := heard.get(each)) is not None}


def token_nearness(candidates: Candidates, fused: Floats) -> Floats | None:
    """How near the first hundred candidates are by their tokens, from 0, the farthest of them, to 1; 0 for the others.

    Args:
        candidates: n passages, with the question by its tokens.
        fused: Weighted sum of the lists for each, shape (n,).

    Returns:
        Shape (n,); None if some of them have no token vectors yet.
    """
    assert candidates.tokens is not None  # noqa: S101 - asked for only then
    first = np.argsort(-fused, kind="stable")[:MEASURED]
    ids = candidates.layout.passages[first].tolist()
    known = candidates.tokens.read(ids)
    if any(known.get(each) is None for each in ids):
        return None
    measured = max_sim(candidates.tokens, [known[each] or b"" for each in ids], candidates.statistics)
    lowest, highest = float(measured.min()), float(measured.max())
    near = np.zeros(len(candidates))
    if highest > lowest:
        near[first] = (measured - lowest) / (highest - lowest)
    return near


def max_sim(question: QuestionTokens, tokens: Sequence[bytes], statistics: TermStatistics) -> Floats:
    """MaxSim of n texts, weighed by idf: shape (n,), at most 1; 0 for a text without tokens.

    Args:
        question: The question by its tokens.
        tokens: The token vectors of each text.
        statistics: What its words are weighed by.
    """
    width = question.vectors.shape[1]
    sizes = np.array([len(each) // width for each in tokens])
    has_any = np.flatnonzero(sizes)
    found = np.zeros(len(tokens))
    if len(has_any):
        near = _products(_unit(b"".join(tokens), width=width), question.vectors)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))[has_any]
        found[has_any] = np.maximum.reduceat(near, starts) @ _weights(question.words, statistics)
    return found


def _weights(words: Sequence[str], statistics: TermStatistics) -> NDArray[np.float64]:
    """Weight of the word of each token, shape (q,), 1 in all."""
    frequencies, passages = statistics.frequencies, statistics.passages
    known = [[frequencies[term] for term in analyze(word) if term in frequencies] for word in words]
    holding = np.array([max(each) if each else _STOP_WORD_SHARE * passages for each in known])
    weights = np.log1p(passages / (1 + holding))
    total = float(weights.sum())
    return weights / total if total else np.full(len(words), 1 / len(words))


def _products(texts: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of each token of the texts, shape (t, d), and of the question, shape (q, d): shape (t, q).

    In blocks below the size at which BLAS wakes its threads, which costs more than it brings.
    """
    near = np.empty((len(texts), len(question)), np.float32)
    rows = max(1, _BLOCK // question.size)
    for start in range(0, len(texts), rows):
        block = slice(start, start + rows)
        np.dot(texts[block], question.T, out=near[block])
    return near


def _unit(tokens: bytes, *, width: int) -> NDArray[np.float32]:
    """Token vectors as unit vectors, shape (t, width)."""
    vectors = np.frombuffer(tokens, np.int8).reshape(-1, width).astype(np.float32)
    lengths = np.sqrt(np.einsum("td,td->t", vectors, vectors))
    vectors /= np.maximum(lengths, 1.0)[:, np.newaxis]
    return vectors
