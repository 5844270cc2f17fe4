"""Late interaction: the first memories are ordered anew, each token of the question by its nearest (MaxSim).

The best passages of a memory are measured as one text: an episode answers by what is said in it together, here the
name, there the thing. Each token weighs as the idf of its word. Stop words count as well, as if a tenth of the passages
had them: their vectors hold what stands around them, and without them a question of two rare words is those two words.

To MaxSim comes proximity, as in sequential dependence models (Metzler and Croft 2005): words that are neighbours in the
question say more where they are near each other in a message too. Messages that are too short to tell gain nothing.

Only the first five are measured, as forgetting leaves them, and none of them falls behind the sixth: what is found
stays, and what answers best comes first. Where the best passages of two episodes answer in the same words, both have
the MaxSim of the first: else the least difference of wording would outweigh which of them is newer, or has been used.

Messages are measured one by one, the best of all episodes, and ordered anew among themselves: which of them are shown
is another matter than which episode comes first. A word that the message beside one answers counts for it as well, but
less, as a question and its answer share their words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models import Kind
from memory_retrievers.models.selection import Embedded, TermStatistics
from memory_retrievers.retrieval.candidates import Candidates, PassageTokens, QuestionTokens, RankedLists
from memory_retrievers.retrieval.features import at_rank

if TYPE_CHECKING:
    from memory_retrievers.storage.store import MemoryStore

    Floats = NDArray[np.float64]

MEASURED: Final = 5  # memories of a kind that are measured: the first by all else
TOGETHER: Final = 4  # passages of a memory that are measured as one text: its best
MESSAGES: Final = 30  # messages that are measured one by one: the best by all else
MESSAGE_SHARE: Final = 0.5  # weight of a message's MaxSim, as a share of that of a memory's
PAIR_SHARE: Final = 0.1  # what all neighbours of the question add that are near each other, MaxSim being 1 at most
_NEAR: Final = 4  # two search terms are near each other if they stand no further apart, counted in search terms
_BESIDE: Final = 0.7  # what a word counts that is answered by the message before or after
_STOP_WORD_SHARE: Final = 0.1  # share of the passages that a word which is no search term counts as being in
_BLOCK: Final = 200_000  # multiplications of a block
_KEPT_PASSAGES: Final = 2_000  # passages of a scope that are kept by their tokens, if they are no longer than most
_KEPT_BYTES: Final = 1_900  # bytes that the token vectors of most passages take, with the terms of their texts


class KeptTokens:
    """Token vectors and texts that were read last, of the passages of one snapshot, with which they go."""

    def __init__(self, passages: int) -> None:
        self.most = min(passages, _KEPT_PASSAGES) * _KEPT_BYTES
        self._size = 0
        self._tokens: dict[int, PassageTokens] = {}

    def among(self, passages: Iterable[int]) -> dict[int, PassageTokens]:
        """Return those that are kept of some passages."""
        return {each: tokens for each in passages if (tokens := self._tokens.get(each)) is not None}

    def keep(self, tokens: Mapping[int, PassageTokens]) -> None:
        """Keep some more; when there is no room, all others go."""
        size = sum(each.size for each in tokens.values())
        if self._size + size > self.most:
            self._tokens, self._size = {}, 0
        if size <= self.most:
            self._tokens |= tokens
            self._size += size


def by_tokens(
    store: MemoryStore, found: Mapping[Kind, Candidates | RankedLists], asked: Embedded
) -> dict[Kind, Candidates | RankedLists]:
    """Let candidates be measured by the tokens of the question.

    Args:
        store: Store of their tokens.
        found: Candidates of each kind.
        asked: The question with at least one token.
    """
    assert asked.tokens  # noqa: S101 - else nothing is measured
    arrays = {kind: each for kind, each in found.items() if isinstance(each, Candidates)}
    question = QuestionTokens(asked.tokens, asked.terms, partial(_read, store, arrays))
    return {**found, **{kind: replace(each, tokens=question) for kind, each in arrays.items()}}


def _read(
    store: MemoryStore, found: Mapping[Kind, Candidates], passages: Mapping[Kind, set[int]]
) -> dict[Kind, dict[int, PassageTokens]]:
    """Read the tokens of passages of each kind that have any: of those that are not in memory by one statement."""
    kept = {kind: _kept(store, found[kind]) for kind in passages}
    tokens = {kind: kept[kind].among(ids) for kind, ids in passages.items()}
    for kind, ids in passages.items():
        if found[kind].open:
            tokens[kind] |= _heard(found[kind], ids)
    missing = [each for kind, ids in passages.items() for each in ids.difference(tokens[kind]) if each > 0]
    if not missing:
        return tokens
    read = store.ledger.tokens(missing)
    if any(vectors is None for vectors, _ in read.values()):
        store.on_missing_tokens()
    made = {each: PassageTokens(vectors, text) for each, (vectors, text) in read.items() if vectors is not None}
    for kind, ids in passages.items():
        new = {each: made[each] for each in ids if each in made}
        kept[kind].keep(new)
        tokens[kind] |= new
    return tokens


def _kept(store: MemoryStore, candidates: Candidates) -> KeptTokens:
    snapshot = candidates.snapshot
    if snapshot is None:
        return KeptTokens(0)
    return store.ledger.snapshots.attach(snapshot, "tokens", lambda: KeptTokens(len(snapshot)), lambda made: made.most)


def _heard(candidates: Candidates, passages: set[int]) -> dict[int, PassageTokens]:
    """Tokens of passages that are still queued, by the ids that these have."""
    turns = (turn for episode in candidates.open.values() for turn in episode.turns if -turn.row in passages)
    heard = ((turn, turn.embedded and turn.embedded.tokens) for turn in turns)
    return {-turn.row: PassageTokens(tokens, said=turn.words) for turn, tokens in heard if tokens is not None}


@dataclass(frozen=True, slots=True)
class BestMessages:
    """Messages that are measured one by one, if somebody looks at them."""

    passages: NDArray[np.int64]  # their indexes among the candidates, ascending, shape (k,), k at least 1
    tokens: Sequence[PassageTokens]  # each by its tokens

    def nearness(self, candidates: Candidates) -> Floats:
        """MaxSim of each, weighed by idf, shape (k,), 0 to 1; neighbours count if they are measured as well."""
        question = candidates.tokens
        assert question is not None  # noqa: S101 - else they have no tokens
        vectors = _vectors(self.tokens, question)
        if not any(vectors):
            return np.zeros(len(self.passages))
        nearest = np.maximum(_nearest(question, vectors)[0], 0.0)
        around = np.zeros_like(nearest)
        is_next = candidates.layout.is_next[self.passages[1:]] & (np.diff(self.passages) == 1)
        around[1:] = nearest[:-1] * is_next[:, np.newaxis]
        around[:-1] = np.maximum(around[:-1], nearest[1:] * is_next[:, np.newaxis])
        weights, _ = _weights(question.terms, candidates.statistics)
        near: Floats = np.maximum(nearest, _BESIDE * around) @ weights
        return near


def token_nearness(
    found: Mapping[Kind, tuple[Candidates, Floats, Sequence[int]]],
) -> dict[Kind, tuple[Floats, Floats, BestMessages | None]]:
    """Measure by kind how much nearer the best passages of its first k memories are than those of the farthest.

    Takes n candidates, at least one, with what all else gives each passage, shape (n,), and the indexes of the
    memories, best first. Returns that gain, shape (k,), 0 or more; the nearness of the search terms alone, (k,) or
    (0,); and the best messages, if any. Kinds of which a passage has no token vectors yet are left out.
    """
    measured: dict[Kind, tuple[list[NDArray[np.int64]], NDArray[np.int64], list[int]]] = {}
    for kind, (candidates, scores, first) in found.items():
        together, best = [_best(candidates, scores, each) for each in first], _best_messages(candidates, scores)
        measured[kind] = together, best, candidates.layout.passages[np.concatenate((*together, best))].tolist()
    wanted = {kind: {*ids} for kind, (*_, ids) in measured.items()}
    question = next(candidates.tokens for candidates, _, _ in found.values())
    assert question is not None  # noqa: S101 - all are measured by tokens
    near: dict[Kind, tuple[Floats, Floats, BestMessages | None]] = {}
    for kind, read in question.read(wanted).items():
        if len(read) < len(wanted[kind]):
            continue
        candidates, (together, best, ids) = found[kind][0], measured[kind]
        tokens = iter([read[each] for each in ids])
        texts = [_vectors(islice(tokens, len(each)), question) for each in together]
        sums, of_terms = max_sim(question, texts, candidates.statistics, fade=kind is Kind.EPISODIC)
        sums = sums + PAIR_SHARE * _neighbours_near(candidates, together, read)
        messages = BestMessages(best, list(tokens)) if len(best) else None
        near[kind] = sums - np.minimum.reduce(sums, initial=np.inf), of_terms, messages
    return near


def _neighbours_near(
    candidates: Candidates, memories: Sequence[NDArray[np.int64]], read: Mapping[int, PassageTokens]
) -> Floats:
    """Share of the question's pairs of neighbouring words, by idf, that are near each other in a message; shape (k,).

    It is that of the best message among the given passages of each of k memories, 0 to 1. Any form of a word counts;
    a message too short for two terms to be apart does not.
    """
    statistics, none = candidates.statistics, np.zeros(len(memories))
    words: dict[str, list[int]] = {}  # the rows of the forms of each that any passage has, in the order of the question
    for row, (term, known) in enumerate(statistics.frequencies.items()):
        if known:
            words.setdefault(statistics.words.get(term, term), []).append(row)
    if len(words) < 2 or not memories:  # noqa: PLR2004 - a pair is two
        return none
    rows, starts = list(chain.from_iterable(words.values())), list(accumulate(map(len, words.values()), initial=0))[:-1]
    layout, passages = candidates.layout, np.concatenate(memories)
    has = np.logical_or.reduceat(candidates.counts[:, passages][rows], starts)
    columns, pairs = (each.tolist() for each in (has[:-1] & has[1:] & layout.is_message[passages]).T.nonzero())
    if not columns:
        return none
    idf = np.minimum.reduceat(candidates.idf[rows], starts)
    weights = np.minimum(idf[:-1], idf[1:])
    total, shares = float(np.add.reduce(weights)), [0.0] * len(passages)
    terms = list(map(hash, statistics.frequencies))
    forms = [[terms[row] for row in each] for each in words.values()]
    for column, pair in zip(columns, pairs, strict=True):
        said = read[int(layout.passages[passages[column]])].said
        if len(said) > _NEAR + 1 and _are_near(said, forms[pair], forms[pair + 1]):
            shares[column] += float(weights[pair])
    of_passages = iter(shares)
    near: Floats = np.array([max(islice(of_passages, len(each)), default=0.0) for each in memories]) / total
    return near


def _are_near(said: array[int], one: Sequence[int], other: Sequence[int]) -> bool:
    around = (said[max(place - _NEAR, 0) : place + _NEAR + 1] for place, term in enumerate(said) if term in one)
    return any(form in terms for terms in around for form in other)


def _best_messages(candidates: Candidates, scores: Floats) -> NDArray[np.int64]:
    """Indexes of the messages that are the best by all else, ascending: shape (k,)."""
    messages = candidates.kept("messages", lambda: candidates.layout.is_message.nonzero()[0])
    if len(messages) <= MESSAGES:
        return messages
    given = scores[messages]
    best = (given >= at_rank(given, MESSAGES)).nonzero()[0]
    if len(best) > MESSAGES:  # some are equal
        best = np.sort(best[(-given[best]).argsort(kind="stable")[:MESSAGES]])
    return messages[best]


def _best(candidates: Candidates, scores: Floats, memory: int) -> NDArray[np.int64]:
    """Indexes of the best passages of a memory by all else, best first."""
    begin, end = candidates.span(memory)
    return begin + (-scores[begin:end]).argsort(kind="stable")[:TOGETHER]


def max_sim(
    question: QuestionTokens, texts: Sequence[Sequence[bytes]], statistics: TermStatistics, *, fade: bool
) -> tuple[Floats, Floats]:
    """MaxSim of n texts, weighed by idf: shape (n,), 0 to 1; 0 for a text without tokens.

    The second array is that of the question's search terms alone, for each text by itself; (0,) if it has none.

    Args:
        question: The question by its tokens.
        texts: Token vectors of one or more passages of each text, best first; the texts best first by all else.
        statistics: What its words are weighed by.
        fade: Texts fade with age: a best passage that answers like that of an earlier text counts as that one, so that
            age, use and what else they say order the two.
    """
    parts = [part for best, *others in texts for part in (best, b"".join(others))]
    if not any(parts):
        return np.zeros(len(texts)), np.zeros(0)
    nearest, near, vectors, bounds = _nearest(question, parts)
    weights, of_search_terms = _weights(question.terms, statistics)
    best, others = nearest[::2], nearest[1::2]
    total = float(np.add.reduce(of_search_terms))
    of_terms = np.maximum(np.maximum(best, others) @ of_search_terms / total, 0.0) if total else np.zeros(0)
    if fade and all(parts[::2]):
        spans = zip(bounds[:-1:2], bounds[1::2], strict=True)
        answers = vectors[np.array([start + near[start:end].argmax(axis=0) for start, end in spans])]
        best = best[_first_alike(answers, best @ weights, weights)]
    found: Floats = np.maximum(np.maximum(best, others) @ weights, 0.0)
    return found, of_terms


def _vectors(tokens: Iterable[PassageTokens], question: QuestionTokens) -> list[bytes]:
    """Token vectors of passages; those of another width, as damage leaves them, count as none."""
    width = len(question.vectors) // len(question.terms)
    return [b"" if len(each.vectors) % width else each.vectors for each in tokens]


def _nearest(
    question: QuestionTokens, parts: Sequence[bytes]
) -> tuple[Floats, NDArray[np.float32], NDArray[np.float32], list[int]]:
    """Cosine of the nearest token of each of p parts to each of the question's q tokens: shape (p, q); -1 without any.

    Also the cosines of all t tokens, (t, q), their unit vectors, (t, d), and the p + 1 bounds of the parts among them.
    """
    asked, width = len(question.terms), len(question.vectors) // len(question.terms)
    bounds = list(accumulate((len(part) // width for part in parts), initial=0))
    has_any = [place for place, part in enumerate(parts) if part]
    every = _unit(b"".join((question.vectors, *parts)), width=width)
    vectors = every[asked:]
    cosines = _products(vectors, every[:asked])
    nearest = np.maximum.reduceat(cosines, [bounds[place] for place in has_any]).astype(np.float64)
    if len(has_any) < len(parts):
        known, nearest = nearest, np.full((len(parts), asked), -1.0)
        nearest[has_any] = known
    return nearest, cosines, vectors, bounds


def _first_alike(answers: NDArray[np.float32], near: Floats, weights: Floats) -> list[int]:
    """The first that says the same as each of n passages: they are nearer to each other than to the question.

    Of each there is the token that is nearest to each token of the question, (n, q, d), and its MaxSim, (n,), by the
    weights of the tokens of the question, (q,).
    """
    weighed = (answers * np.sqrt(weights)[:, np.newaxis]).reshape(len(answers), -1)
    is_same = weighed @ weighed.T >= np.maximum(near[:, np.newaxis], near)
    firsts: list[int] = []
    for place, same in enumerate(is_same.tolist()):
        firsts.append(next((first for first in firsts if same[first]), place))
    return firsts


def _weights(terms: Sequence[Sequence[str]], statistics: TermStatistics) -> tuple[Floats, Floats]:
    """Weight of each token by the terms of its word, 1 in all, and that of search terms, else 0; shape (q,) each."""
    frequencies, passages = statistics.frequencies, statistics.passages
    known = [[frequencies[term] for term in each if term in frequencies] for each in terms]
    stop_words = _STOP_WORD_SHARE * passages
    weights = np.log1p(passages / (1.0 + np.array([max(each) if each else stop_words for each in known])))
    total = float(np.add.reduce(weights))
    weights = weights / total if total else np.full(len(terms), 1 / len(terms))
    return weights, weights * list(map(bool, known))


def _products(texts: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosine of each token of the texts, shape (t, d), and of the question, shape (q, d): shape (t, q).

    In blocks below the size at which BLAS wakes its threads, which costs more than it brings.
    """
    rows = max(1, _BLOCK // question.size)
    blocks: list[NDArray[np.float32]] = [
        np.dot(texts[start : start + rows], question.T) for start in range(0, len(texts), rows)
    ]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _unit(tokens: bytes, *, width: int) -> NDArray[np.float32]:
    """Token vectors as unit vectors, shape (t, width)."""
    vectors = np.frombuffer(tokens, np.int8).reshape(-1, width).astype(np.float32)
    lengths = np.sqrt(np.add.reduce(vectors * vectors, axis=1))  # whole numbers, exact in any order
    vectors /= np.maximum(lengths, 1.0)[:, np.newaxis]
    return vectors
