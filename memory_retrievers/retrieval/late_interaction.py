"""Late interaction: the first memories are ordered anew, each token of the question by its nearest (MaxSim).

The best passages of a memory are measured as one text: an episode answers by what is said in it together, here the
name, there the thing. Each token weighs as the idf of its word. Stop words count as well, as if a tenth of the passages
had them: their vectors hold what stands around them, and without them a question of two rare words is those two words.

Only the first five are measured, as forgetting leaves them, and none of them falls behind the sixth: what is found
stays, and what answers best comes first; its messages keep the scores that they have by themselves. Where the best
passages of two episodes answer in the same words, both count as the first of them: else the least difference of wording
would outweigh which of the two is newer, or has been used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_retrievers.models import Kind
from memory_retrievers.retrieval.candidates import Candidates, QuestionTokens, RankedLists
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memory_retrievers.models.selection import Embedded, TermStatistics
    from memory_retrievers.storage.store import MemoryStore

    Floats = NDArray[np.float64]

MEASURED: Final = 5
"""Memories of a kind that are measured: the first by all else."""

TOGETHER: Final = 4
"""Passages of a memory that are measured as one text: its best."""

_STOP_WORD_SHARE: Final = 0.1
"""Share of the passages that a word which is no search term counts as being in."""

_BLOCK: Final = 200_000
"""Multiplications of a block."""

_KEPT_PASSAGES: Final = 2_000
"""Passages of a scope whose token vectors stay in memory, if they are no longer than most."""

_KEPT_BYTES: Final = 1_200
"""Bytes that the token vectors of most passages take."""


class KeptTokens:
    """Token vectors that were read last, of the passages of one snapshot, with which they go."""

    def __init__(self, passages: int) -> None:
        self.most = min(passages, _KEPT_PASSAGES) * _KEPT_BYTES
        self._size = 0
        self._tokens: dict[int, bytes] = {}

    def among(self, passages: Iterable[int]) -> dict[int, bytes | None]:
        """Return those that are kept of some passages."""
        return {each: tokens for each in passages if (tokens := self._tokens.get(each)) is not None}

    def keep(self, tokens: Mapping[int, bytes | None]) -> None:
        """Keep those that are known; when there is no room, all others go."""
        known = {each: its_tokens for each, its_tokens in tokens.items() if its_tokens is not None}
        size = sum(map(len, known.values()))
        if self._size + size > self.most:
            self._tokens, self._size = {}, 0
        if size <= self.most:
            self._tokens |= known
            self._size += size

    @property
    def passages(self) -> list[int]:
        """The passages whose token vectors are kept."""
        return list(self._tokens)


def by_tokens(
    store: MemoryStore, found: Mapping[Kind, Candidates | RankedLists], asked: Embedded
) -> dict[Kind, Candidates | RankedLists]:
    """Let candidates be measured by the tokens of the question.

    Args:
        store: Where their tokens are.
        found: The candidates of each kind.
        asked: The question with its tokens, one or more.
    """
    assert asked.tokens  # noqa: S101 - else nothing is measured
    vectors = _unit(asked.tokens, width=len(asked.tokens) // len(asked.words))
    arrays = {kind: each for kind, each in found.items() if isinstance(each, Candidates)}
    question = QuestionTokens(vectors, asked.words, partial(_read, store, arrays))
    return {**found, **{kind: replace(each, tokens=question) for kind, each in arrays.items()}}


def _read(
    store: MemoryStore, found: Mapping[Kind, Candidates], passages: Mapping[Kind, Sequence[int]]
) -> dict[Kind, dict[int, bytes | None]]:
    """Read the tokens of passages of each kind: of those that are not in memory by one statement."""
    kept = {kind: _kept(store, found[kind]) for kind in passages}
    tokens = {kind: kept[kind].among(ids) | _heard(found[kind]) for kind, ids in passages.items()}
    missing = [each for kind, ids in passages.items() for each in ids if each > 0 and each not in tokens[kind]]
    if not missing:
        return tokens
    read = store.ledger.token_vectors(missing)
    if None in read.values():
        store.on_missing_tokens()
    for kind, ids in passages.items():
        new = {each: read[each] for each in ids if each in read}
        kept[kind].keep(new)
        tokens[kind] |= new
    return tokens


def _kept(store: MemoryStore, candidates: Candidates) -> KeptTokens:
    snapshot = candidates.snapshot
    if snapshot is None:
        return KeptTokens(0)
    return store.ledger.snapshots.attach(snapshot, "tokens", lambda: KeptTokens(len(snapshot)), lambda made: made.most)


def _heard(candidates: Candidates) -> dict[int, bytes | None]:
    """Tokens of what is still queued, by the ids that its passages have."""
    turns = (turn for episode in candidates.open.values() for turn in episode.turns)
    return {-turn.row: turn.embedded.tokens for turn in turns if turn.embedded is not None}


def token_nearness(found: Mapping[Kind, tuple[Candidates, Floats, Sequence[int]]]) -> dict[Kind, tuple[Floats, Floats]]:
    """How much nearer the best passages of the first memories of each kind are, together, than the farthest of these.

    Args:
        found: n candidates of each kind, at least one, measured by tokens, with what all else gives each passage, shape
            (n,), and the indexes of k memories, best first by all else.

    Returns:
        Shape (k,), 0 or more, and how near its search terms alone are, or (0,), by kind; without the kinds of which a
        passage has no token vectors yet.
    """
    ids = {
        kind: [_best(candidates, scores, each) for each in first] for kind, (candidates, scores, first) in found.items()
    }
    question = next(candidates.tokens for candidates, _, _ in found.values())
    assert question is not None  # noqa: S101 - all are measured by tokens
    tokens = question.read({kind: list(chain(*memories)) for kind, memories in ids.items()})
    near: dict[Kind, tuple[Floats, Floats]] = {}
    for kind, memories in ids.items():
        if any(tokens[kind].get(each) is None for each in chain(*memories)):
            continue
        texts = [[tokens[kind][each] or b"" for each in passages] for passages in memories]
        sums, of_terms = max_sim(question, texts, found[kind][0].statistics, fade=kind is Kind.EPISODIC)
        near[kind] = sums - sums.min(), of_terms
    return near


def _best(candidates: Candidates, scores: Floats, memory: int) -> list[int]:
    """Ids of the best passages of a memory by all else, best first."""
    begin, end = candidates.span(memory)
    best = (-scores[begin:end]).argsort(kind="stable")[:TOGETHER]
    return candidates.layout.passages[begin:end][best].tolist()  # type: ignore[no-any-return]


def max_sim(
    question: QuestionTokens, texts: Sequence[Sequence[bytes]], statistics: TermStatistics, *, fade: bool
) -> tuple[Floats, Floats]:
    """MaxSim of n texts, weighed by idf: shape (n,), 0 to 1; 0 for a text without tokens.

    Beside it stands that of the question's search terms alone, of each text by itself; (0,) if it has none.

    Args:
        question: The question by its tokens.
        texts: The token vectors of one or more passages of each text, best first; the texts best first by all else.
        statistics: What its words are weighed by.
        fade: The texts are forgotten as they age: a best passage that answers as that of a text before it does counts
            as that one, so that it is age and use that order the two, and what else they say.
    """
    width = question.vectors.shape[1]
    parts = [part for best, *others in texts for part in (best, b"".join(others))]
    sizes = np.array([len(part) // width for part in parts])
    starts, has_any = np.cumsum(sizes) - sizes, np.flatnonzero(sizes)
    if not len(has_any):
        return np.zeros(len(texts)), np.zeros(0)
    vectors = _unit(b"".join(parts), width=width)
    near = _products(vectors, question.vectors)
    nearest = np.full((len(parts), len(question.words)), -1.0)
    nearest[has_any] = np.maximum.reduceat(near, starts[has_any])
    weights, are_terms = _weights(question.words, statistics)
    best, others = nearest[::2], nearest[1::2]
    alone = weights * are_terms
    of_terms = np.maximum(np.maximum(best, others) @ alone / alone.sum(), 0.0) if are_terms.any() else np.zeros(0)
    if fade and sizes[::2].all():
        spans = zip(starts[::2].tolist(), sizes[::2].tolist(), strict=True)
        answers = [vectors[start + near[start : start + size].argmax(axis=0)] for start, size in spans]
        best = best[_first_alike(np.stack(answers), best @ weights, weights)]
    found: Floats = np.maximum(np.maximum(best, others) @ weights, 0.0)
    return found, of_terms


def _first_alike(answers: NDArray[np.float32], near: Floats, weights: Floats) -> list[int]:
    """The first passage that says the same as each of n: their answers are nearer to each other than to the question.

    Args:
        answers: The token of each passage that is nearest to each token of the question, shape (n, q, d).
        near: MaxSim of each with the question, shape (n,).
        weights: Weight of each token of the question, shape (q,).

    Returns:
        The place of the first, which is the passage's own if there is none before it.
    """
    weighed = (answers * np.sqrt(weights)[:, np.newaxis]).reshape(len(answers), -1)
    is_same = weighed @ weighed.T >= np.maximum.outer(near, near)
    firsts: list[int] = []
    for place, same in enumerate(is_same.tolist()):
        firsts.append(next((first for first in firsts if same[first]), place))
    return firsts


def _weights(words: Sequence[str], statistics: TermStatistics) -> tuple[Floats, NDArray[np.bool_]]:
    """Weight of the word of each token, 1 in all, and which of them are search terms; shape (q,) each."""
    frequencies, passages = statistics.frequencies, statistics.passages
    known = {word: [frequencies[term] for term in analyze(word) if term in frequencies] for word in set(words)}
    holding = np.array([max(known[word], default=_STOP_WORD_SHARE * passages) for word in words])
    weights = np.log1p(passages / (1 + holding))
    total = float(weights.sum())
    are_terms = np.array([bool(known[word]) for word in words])
    return weights / total if total else np.full(len(words), 1 / len(words)), are_terms


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
    lengths = np.sqrt((vectors * vectors).sum(axis=1))
    vectors /= np.maximum(lengths, 1.0)[:, np.newaxis]
    return vectors
