"""Features of candidate passages: cosine, BM25, neighbouring messages, boosts, repetition, and how they are scaled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models.messages import is_of_user
from memory_retrievers.retrieval import times
from memory_retrievers.retrieval.candidates import Candidates, ReadTexts
from memory_retrievers.retrieval.question import Question
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.text.analysis import STOP_WORDS, caseless, has_word

if TYPE_CHECKING:
    Floats = NDArray[np.float64]

_BLOCK: Final = 65_536  # numbers of a product for which BLAS does not wake its threads, which spin on another core
_AMONG: Final = 64  # scores of which only the best is looked at first
_SORTED: Final = 500  # so few scores are sorted at once
_ALIGNED: Final = 64  # columns of a block are a multiple, so that each number is rounded as in the whole product
_EQUAL: Final = 1e-9  # values that differ by no more are equal: a rounding must not be scaled up to a whole


def min_max(values: Floats, *, floor: float | None = None) -> Floats:
    """Scale values so that the best is 1 and the worst is 1 / (n + 1), since being second of two says little.

    A ``floor`` is scaled to 0 in place of that. Equal values are all 1, or 0 at the floor. Shape (n,), n at least 1, in
    and out.

    >>> min_max(np.array([0.2, 0.6])).tolist()
    [0.3333333333333333, 1.0]
    >>> min_max(np.array([0.0, 2.0, 4.0]), floor=0.0).tolist()
    [0.0, 0.5, 1.0]
    """
    highest = values.item(values.argmax())  # of so few numbers a reduction takes three times as long
    if floor is None:
        lowest = values.item(values.argmin())
        lowest -= (highest - lowest) / len(values)
    else:
        lowest = floor
    if highest - lowest <= _EQUAL:
        return np.full(len(values), 1.0 if floor is None else 0.0)
    return (values - lowest if lowest else values) / (highest - lowest)


def at_rank(scores: Floats, rank: int) -> float:
    """The score at a rank, 1 is the best: shape (m,), m at least the rank.

    Of many only blocks whose best is among the best are sorted: numpy's ``partition`` is slow where many are equal.
    """
    if len(scores) <= _SORTED:
        ascending = scores.copy()
        ascending.sort()
        return float(ascending[-rank])
    whole = len(scores) // _AMONG * _AMONG
    tops = np.concatenate([scores[:whole].reshape(-1, _AMONG).max(axis=1), scores[whole:]])
    if rank > len(tops):
        return float(np.sort(scores)[-rank])
    least = np.sort(tops)[-rank]  # at least so many are as good
    better = scores[scores > least]
    return float(least if len(better) < rank else np.sort(better)[-rank])


def bm25(candidates: Candidates, settings: RetrievalSettings) -> Floats:
    """BM25 of each passage, with the statistics of the searched scope; shape (n,), 0 or more."""
    k1, b, average_length = settings.bm25_k1, settings.bm25_b, candidates.statistics.average_length
    norms = candidates.kept(
        ("norms", average_length, k1, b), lambda: _norms(candidates.lengths, average_length=average_length, k1=k1, b=b)
    )
    return _saturated(candidates.counts, norms, _weights_alone(candidates))


def window_bm25(candidates: Candidates, settings: RetrievalSettings) -> Floats:
    """BM25 of each passage and the messages around it, as one text; shape (n,), 0 or more."""
    return _bm25_of_joined(candidates, *candidates.windows[1:], settings, name="norms of windows")


def memory_bm25(candidates: Candidates, settings: RetrievalSettings) -> Floats:
    """BM25 of each memory as one text: of its messages, or its other passages if it has none; shape (m,), 0 or more."""
    starts, has_both = candidates.layout.starts, candidates.layout.has_both

    def joined(values: Floats) -> Floats:
        return np.add.reduceat(values, starts, axis=-1) - values[..., starts] * has_both  # the first is the summary

    counts, lengths = joined(candidates.counts), candidates.kept("memories", lambda: joined(candidates.lengths))
    return _bm25_of_joined(candidates, counts, lengths, settings, name="norms of memories")


def _bm25_of_joined(
    candidates: Candidates, counts: Floats, lengths: Floats, settings: RetrievalSettings, *, name: str
) -> Floats:
    """BM25 of n texts that are joined of passages: counts of shape (t, n), lengths of shape (n,)."""
    k1, b = settings.bm25_k1, settings.bm25_b
    norms = candidates.kept(
        (name, k1, b), lambda: _norms(lengths, average_length=float(np.add.reduce(lengths)) / len(lengths), k1=k1, b=b)
    )
    return _saturated(counts, norms, _weights(candidates, counts))


def idf(frequencies: Floats, total: int) -> Floats:
    """Inverse document frequency of terms as in Lucene; 0 for a term that is in no text; shape (t,) in and out."""
    with_it = frequencies + 0.5
    return np.log1p((total + 1 - with_it) / with_it) * (frequencies > 0)


def score_bm25(
    counts: Floats, lengths: Floats, weights: Floats, *, average_length: float, k1: float, b: float
) -> Floats:
    """Score texts by BM25 as in Lucene.

    Args:
        counts: Occurrences of each term in each text, shape (t, n).
        lengths: Tokens of each text, shape (n,).
        weights: Weight of each term, shape (t,).
        average_length: Mean number of tokens of a text.
        k1: Saturation of term counts, above 0.
        b: Length normalisation, 0 to 1.

    Returns:
        Shape (n,), 0 or more.
    """
    return _saturated(counts, _norms(lengths, average_length=average_length, k1=k1, b=b), weights)


def _norms(lengths: Floats, *, average_length: float, k1: float, b: float) -> Floats:
    """What the counts in each text are measured by, shape (n,) in and out, above 0."""
    norms: Floats = k1 * (1 - b + b * lengths / max(average_length, 1e-9))
    return norms if k1 * (1 - b) else np.where(norms > 0, norms, 1.0)  # what has no norm is empty


def _saturated(counts: Floats, norms: Floats, weights: Floats) -> Floats:
    """BM25 of n texts by the norms of their lengths, shape (n,): counts of shape (t, n), weights of shape (t,)."""
    gains = counts + norms
    np.divide(counts, gains, out=gains)  # in place: among thousands of texts an array takes a megabyte
    return weighed_sum(weights, gains)


def weighed_sum(weights: Floats, rows: Floats) -> Floats:
    """Sum rows, shape (t, n), by their weights, (t,), in blocks that BLAS does not wake its threads for: shape (n,)."""
    terms, columns = rows.shape
    width = max(_BLOCK // max(terms, 1) // _ALIGNED, 1) * _ALIGNED
    if columns < width:
        return weights.dot(rows)  # type: ignore[no-any-return]
    scores, whole = np.empty(columns), columns // width * width
    blocks = rows[:, :whole].reshape(terms, whole // width, width).swapaxes(0, 1)
    np.matmul(weights, blocks, out=scores[:whole].reshape(-1, width))
    np.dot(weights, rows[:, whole:], out=scores[whole:])
    return scores


def _weights(candidates: Candidates, counts: Floats) -> Floats:
    """Weight of each term among texts that are combined here, shape (t,).

    Candidates from a wide search were chosen because they share terms with the question, so counting among them would
    take the rarest terms for common ones: the statistics of single passages stand in.
    """
    if candidates.is_whole:
        return candidates.repeats * idf(np.add.reduce(counts > 0, axis=1, dtype=np.float64), counts.shape[1])
    return _weights_alone(candidates)


def _weights_alone(candidates: Candidates) -> Floats:
    """Weight of each term among single passages, shape (t,)."""
    return candidates.repeats * candidates.idf * (candidates.frequencies > 0)


REPETITION: Final = "repetition"  # the stage that takes from the score of an episode that a newer one repeats
_COMPARED: Final = 1_024  # episodes at most, the best, among which one is looked for that repeats another

_NEARLY_THE_SAME: Final = 0.98  # cosine from which two messages are read; of the same words it is more
_WORDS: Final = re.compile(r"\w+")


def repeated(candidates: Candidates, scores: Floats, *, limit: int, texts: ReadTexts) -> NDArray[np.bool_] | None:
    """Look for episodes whose best message a newer one has word for word, as the same question asked again.

    Args:
        candidates: The candidates.
        scores: Score of each passage, shape (n,), 0 or more.
        limit: Number of episodes that repeat no other which is enough.
        texts: Reads passages that may be the same.

    Returns:
        Mask, shape (n,), of the repeated messages with those beside them and the summary; None if none are among the
        best.
    """
    layout = candidates.layout
    are_stored = candidates.kept("stored messages", lambda: layout.is_message & (layout.passages > 0))
    of_messages = np.where(are_stored, scores, 0.0)
    best, most = np.maximum.reduceat(of_messages, layout.starts), limit
    older: dict[int, int] = {}
    while most > 0:
        least = at_rank(best, most) if most < len(best) else 0.0
        are_leading = best >= least if least else best > 0
        leading = are_leading.nonzero()[0].tolist()
        spans = zip(layout.starts[are_leading].tolist(), layout.ends[are_leading].tolist(), strict=True)
        messages = [start + int(of_messages[start:end].argmax()) for start, end in spans]
        first = dict(zip(leading, messages, strict=True))
        older = _older(candidates, first, texts)
        if len(leading) - len(older) >= limit or len(leading) < most or most >= min(len(best), _COMPARED):
            break
        most = min(4 * most, len(best), _COMPARED)
    if not older:
        return None
    passages = np.zeros(len(candidates), np.bool_)
    for memory, message in older.items():
        start, end = candidates.span(memory)
        passages[start:end] = ~layout.is_message[start:end]
        passages[max(start, message - 1) : min(end, message + 2)] = True
    return passages


def _older(candidates: Candidates, messages: Mapping[int, int], texts: ReadTexts) -> dict[int, int]:
    """Those of some messages, each the best of a memory, that another of them says again later."""
    layout, counts, lengths, began = candidates.layout, candidates.counts, candidates.lengths, candidates.layout.began
    places = list(messages.values())
    keys = zip(layout.speakers[places].tolist(), lengths[places].tolist(), *counts[:, places].tolist(), strict=True)
    alike: dict[tuple[float, ...], list[tuple[int, int]]] = {}
    for key, each in zip(keys, messages.items(), strict=True):
        alike.setdefault(key, []).append(each)
    groups = (each for each in alike.values() if len(each) > 1)
    several = [near for each in groups if len(near := _nearly_the_same(candidates, each)) > 1]
    if not several:
        return {}
    read = texts([int(layout.passages[message]) for each in several for _, message in each])
    said: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for memory, message in (pair for each in several for pair in each):
        speaker = layout.names[layout.speakers[message]]
        _, _, content = read.get(int(layout.passages[message]), "").partition(f" {speaker}: ")
        if words := tuple(_WORDS.findall(content.casefold())):
            said.setdefault((speaker, *words), []).append((memory, message))
    newest = {words: max(int(began[place]) for _, place in each) for words, each in said.items()}
    return {memory: place for words, each in said.items() for memory, place in each if began[place] < newest[words]}


def _nearly_the_same(candidates: Candidates, messages: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of some messages whose vectors are nearly that of another; all if no vectors are at hand."""
    snapshot = candidates.snapshot
    if snapshot is None or len(messages) <= 1:
        return messages
    ids = candidates.layout.passages[[message for _, message in messages]]
    vectors = snapshot.matrix[np.searchsorted(snapshot.ids, ids)]
    near = np.add.reduce(vectors @ vectors.T >= _NEARLY_THE_SAME, axis=1) > 1
    return [each for each, is_near in zip(messages, near.tolist(), strict=True) if is_near]


_BEST_PASSAGES: Final = 3  # number of passages that score an episode as a whole


class FusedLists(NamedTuple):
    """What a boost looks at: n candidate passages whose lists are fused."""

    candidates: Candidates  # the candidates
    scores: Floats  # weighted sum of the lists for each passage, shape (n,)
    question: Question  # the query: it may name speakers and dates, or ask when
    settings: RetrievalSettings  # BM25 parameters
    # how well the plans in each passage fit the days ahead that the query names, shape (n,); None if it names none
    planned: Floats | None = None


def neighbour(fused: FusedLists) -> Floats:
    """The better score of the two messages around a passage, (n,): answers are next to their questions."""
    scores, is_next = fused.scores, fused.candidates.layout.is_next[1:]
    better = np.zeros(len(scores))
    better[1:] = scores[:-1] * is_next
    better[:-1] = np.maximum(better[:-1], scores[1:] * is_next)
    return better


def episode(fused: FusedLists) -> Floats:
    """Sum over the three best passages of the passage's episode, scaled over all episodes; shape (n,), 0 to 1."""
    starts, groups = fused.candidates.layout.starts, fused.candidates.layout.groups
    are_first = fused.candidates.kept("first places", lambda: fused.candidates.layout.ranks < _BEST_PASSAGES)
    together: Floats = np.add.reduceat(np.where(are_first, _best_first(groups, fused.scores), 0.0), starts)
    return min_max(together)[groups]


def episode_words(fused: FusedLists) -> Floats:
    """BM25 of the passage's whole episode, scaled over all episodes; shape (n,), 0 to 1."""
    scores = memory_bm25(fused.candidates, fused.settings)
    return min_max(scores, floor=0.0)[fused.candidates.layout.groups]


def speaker(fused: FusedLists) -> Floats:
    """1 for a passage said by the one speaker whom the query names, else 0, as where it names several; shape (n,)."""
    layout = fused.candidates.layout
    speakers = fused.candidates.kept("names of speakers", lambda: Speakers.of(layout.names))
    named = named_speakers(speakers, fused.question.text)
    if len({speakers.folded[place] for place in named}) != 1:
        return np.zeros(len(fused.scores))
    is_said = layout.speakers == named[0] if len(named) == 1 else np.isin(layout.speakers, named)
    return np.where(is_said, 1.0, 0.0)


class Speakers(NamedTuple):
    """Names of speakers, so that they can be compared with a question."""

    folded: list[str]  # each name in letters of one case
    parts: list[tuple[str, str]]  # the parts of the names that are no roles, each with its name

    @classmethod
    def of(cls, names: Sequence[str]) -> Speakers:
        """Fold some names."""
        folded = [caseless(name) for name in names]
        people = dict.fromkeys(name for name in folded if name != "user" and is_of_user(name))
        return cls(folded, [(name, part) for name in people for part in _BETWEEN_PARTS.split(name)])


def named_speakers(speakers: Speakers, text: str) -> list[int]:
    """Positions of the speakers whom a text names: by whole names, or else by what only one of them is called.

    That is a part of the name, or its beginning of three letters or more, as "Mel" for Melanie, written as a name
    within the sentence. A name in other letters, as ``anna`` beside ``Anna``, is the same; one that is a common word,
    as Will, is named where it is written as a name. A last line that is a name alone is who asks, and is meant where
    nobody else is named.
    """
    folded = speakers.folded
    before, _, asker = text.rpartition("\n")
    if before:
        name = caseless(asker)
        if own := [place for place, each in enumerate(folded) if each == name]:
            return named_speakers(speakers, before) or own
    asked = unicodedata.normalize("NFC", text.casefold())
    words = [word.casefold() for word in _WRITTEN_AS_NAME.findall(text)]
    whole = [place for place, name in enumerate(folded) if name in asked and has_word(asked, name)]
    whole = [place for place in whole if folded[place] not in STOP_WORDS or folded[place] in words]
    if whole:
        return whole
    fitting = ({name for name, part in speakers.parts if part.startswith(word)} for word in words)
    named = {name for names in fitting if len(names) == 1 for name in names}
    return [place for place, name in enumerate(folded) if name in named]


_WRITTEN_AS_NAME: Final = re.compile(r"(?<=[\w,] )[A-Z]\w{2,}")
_BETWEEN_PARTS: Final = re.compile(r"[\s_.]+")


def length(fused: FusedLists) -> Floats:
    """Scaled log length: of two passages that match equally well, the longer one holds more; shape (n,), 0 to 1."""
    return fused.candidates.kept("length", lambda: min_max(np.log1p(fused.candidates.lengths)))


def date(fused: FusedLists) -> Floats | None:
    """How well the beginning of its episode or the plans in a passage fit the days of a query; shape (n,)."""
    question = fused.question
    if not (question.dates or question.periods or question.ahead):
        return None
    found = times.dated(fused.candidates.layout.began, question)
    return found if fused.planned is None else np.maximum(found, fused.planned)


def time_expression(fused: FusedLists) -> Floats | None:
    """1 for a passage that contains a time expression, else 0, if the query asks when; shape (n,)."""
    return fused.candidates.layout.tells_time.astype(np.float64) if fused.question.asks_when else None


def _best_first(groups: NDArray[np.int64], fused: Floats) -> Floats:
    """The values of each memory's passages, best first; scores are at most 1, so one plain sort keeps them together."""
    keys = groups - fused / 2
    keys.sort()
    return (groups - keys) * 2


BOOSTS: Final[Mapping[str, Callable[[FusedLists], Floats | None]]] = {
    "neighbour": neighbour,
    "episode": episode,
    "episode_words": episode_words,
    "speaker": speaker,
    "length": length,
    "date": date,
    "time": time_expression,
}
"""The boosts by their names, to which the settings have a weight each; None where a boost does not apply to a query."""
