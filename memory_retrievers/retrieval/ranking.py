"""Ranking of the candidates of each kind: features and boosts are fused, then come forgetting and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from itertools import chain, islice
from sys import float_info
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory_retrievers import fsrs
from memory_retrievers.backends.snapshot import cached_property
from memory_retrievers.models import Kind
from memory_retrievers.models.fields import EPOCH, MICROSECOND
from memory_retrievers.models.selection import ForgettingState
from memory_retrievers.retrieval import features, times
from memory_retrievers.retrieval.candidates import Candidates, RankedLists, ReadTexts
from memory_retrievers.retrieval.features import BOOSTS, FusedLists, min_max
from memory_retrievers.retrieval.late_interaction import MEASURED, MESSAGE_SHARE, BestMessages, token_nearness
from memory_retrievers.retrieval.question import Question, asks_for_list
from memory_retrievers.retrieval.rank_fusion import Ranked, RankingByRank
from memory_retrievers.retrieval.request import RetrievalPlan
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.tracing import RANK, observer_of_stages
from memory_retrievers.text.passages import message_passage

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger

    Floats = NDArray[np.float64]

_LEAST_KIND_WEIGHT: Final = 0.05  # least score of the best memory of a kind, however far it is from the query


@dataclass(eq=False)
class Scored:
    """Candidates with a score for every passage; memories are indexed from 0, in the order of the candidates."""

    candidates: Candidates  # what competed
    stages: dict[str, Floats]  # what each list and each boost gave each passage, by name
    passages: Floats  # the sum of these for each passage, 0 or more
    bm25: Floats  # BM25 of each passage alone, shape (n,)
    question: Question  # the query that they were scored for
    planned: Floats | None = None  # how well the days in each passage fit those asked for, if any: shape (n,), 0 to 1
    is_by_time: bool = False  # whether times alone order them

    @cached_property
    def scores(self) -> Floats:
        """Score of each memory, that of its best passage; shape (m,)."""
        starts = self.candidates.layout.starts  # a fact has but one passage
        return self.passages if len(starts) == len(self.passages) else np.maximum.reduceat(self.passages, starts)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Row of each memory in the ledger, shape (m,)."""
        return self.candidates.layout.memories[self.candidates.layout.starts]

    @cached_property
    def best_dense(self) -> Floats:
        """Cosine of each memory's nearest passage, shape (m,)."""
        return np.maximum.reduceat(self.candidates.similarities, self.candidates.layout.starts)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The memories that say what a newer one says as well."""
        lost = self.stages.get(features.REPETITION)
        return frozenset() if lost is None else frozenset(self.candidates.layout.groups[lost < 0].tolist())

    @cached_property
    def coverage(self) -> float:
        """Best BM25 score divided by the largest one possible for this query. In [0, 1)."""
        most = float(self.candidates.repeats @ self.candidates.idf)
        return self.bm25.item(self.bm25.argmax()) / most if most else 0.0


def score(
    candidates: Candidates,
    question: Question,
    settings: RetrievalSettings,
    *,
    boosts: Mapping[str, Callable[[FusedLists], Floats | None]],
    planned: Floats | None = None,
) -> Scored:
    """Score every candidate passage.

    Args:
        candidates: At least one passage.
        question: The parsed query.
        settings: Weight of each list and boost; what weighs nothing is not computed.
        boosts: Boosts to add to the lists, as :data:`BOOSTS` has them.
        planned: How well the days in each passage fit, shape (n,), as :func:`times.planned` gives it.
    """
    bm25 = features.bm25(candidates, settings)
    is_planned = planned is not None and bool(planned.any())
    if (question.asks_what_was_said and boosts) or (is_planned and question.is_by_time):  # its words are no evidence
        stages = times.by_time(candidates, question, planned)
        return Scored(candidates, stages, reduce(np.add, stages.values()), bm25, question, planned, is_by_time=True)
    stages = dict(_lists(candidates, bm25, settings))
    total = reduce(np.add, stages.values())
    fused = FusedLists(candidates, total, question, settings, planned)
    for name, boost in boosts.items():
        if (weight := getattr(settings, f"{name}_weight")) and (given := boost(fused)) is not None:
            stages[name] = weight * given
            total = total + stages[name]
    return Scored(candidates, stages, total, bm25, question, planned)


def _without_repetition(scored: Scored, weight: float, *, limit: int, texts: ReadTexts) -> Scored:
    """Take a share of the score from episodes whose best message a newer one repeats: a question hides its answer."""
    found = features.repeated(scored.candidates, scored.passages, limit=limit, texts=texts) if weight else None
    if found is None:
        return scored
    lost = np.where(found, -weight * scored.passages, 0.0)
    return replace(scored, stages={**scored.stages, features.REPETITION: lost}, passages=scored.passages + lost)


def _lists(candidates: Candidates, bm25: Floats, settings: RetrievalSettings) -> Iterator[tuple[str, Floats]]:
    """The lists with their shares, by name; without messages there are no windows."""
    dense, window = settings.dense_weight, settings.window_weight if candidates.layout.has_messages else 0.0
    if dense * (1 - window):
        yield "dense", dense * (1 - window) * min_max(candidates.similarities)
    if dense * window:
        yield "window_dense", dense * window * min_max(candidates.windows[0])
    if (1 - dense) * (1 - window):
        yield "bm25", (1 - dense) * (1 - window) * min_max(bm25, floor=0.0)
    if (1 - dense) * window:
        yield "window_bm25", (1 - dense) * window * min_max(features.window_bm25(candidates, settings), floor=0.0)


@dataclass(eq=False)
class RankingByScore:
    """Ranking by the sum of scaled lists and boosts; a memory takes its best passage, and sums of 0 are left out.

    Scores are relative to the best memory, which gets the share of its kind: what is best among the facts may still be
    far from the question, and the episodes nearer.
    """

    scored: Scored  # candidates, at least one, with their sums
    kind_weight: float = 1.0  # the score of the best memory, above 0 and at most 1
    tokens: Floats | None = None  # what late interaction gave each memory, 0 or more, shape (m,), if it measured any
    nearness: Mapping[int, float] = field(default_factory=dict)  # of the query's words to each that it measured, by row
    messages: BestMessages | None = None  # the messages that it measures one by one, if any
    message_weight: float = 0.0  # what their nearness counts, as a share of the best score

    @cached_property
    def sums(self) -> Floats:
        """What lists, boosts and tokens give each memory, shape (m,)."""
        return self.scored.scores if self.tokens is None else self.scored.scores + self.tokens

    @cached_property
    def unit(self) -> float:
        """Factor that turns the sum of a memory into a score."""
        highest: float = self.sums.item(self.sums.argmax())
        return self.kind_weight / highest if highest >= float_info.min else 0.0  # else the factor is infinite

    @cached_property
    def rows(self) -> list[int]:
        """The memories, as rows of the ledger, best first."""
        return list(self.scores)

    @cached_property
    def scores(self) -> dict[int, float]:
        """Score of each, above 0 and at most 1; best first, equal ones in the order of their rows."""
        return self._best_first(self._scores.nonzero()[0])

    @cached_property
    def message_scores(self) -> Floats:
        """Score of each passage for what it says itself, shape (n,), 0 or more.

        Of the measured messages those nearer than their mean gain, the others lose; the best score stays what it was.
        """
        scored = self.scored
        if asks_for_list(scored.question.text):  # its parts stand in several episodes, whatever else these are about
            own = scored.passages - scored.stages.get("episode_words", 0.0)
            scored = replace(scored, passages=np.maximum(own, 0.0))
        scores: Floats = replace(self, scored=scored, tokens=None).unit * scored.passages
        if self.messages is None:
            return scores
        near, measured = self.messages.nearness(self.scored.candidates), self.messages.passages
        anew = scores.copy()
        anew[measured] += self.message_weight * self.kind_weight * (near - near.mean())
        highest = float(anew[measured].max())
        return np.maximum(anew * (float(scores[measured].max()) / highest), 0.0) if highest > 0 else scores

    def leading(self, limit: int, *, share: float) -> dict[int, float]:
        """Score of each memory with at least a share, 0 to 1, of that of the last of the best ``limit``; best first."""
        scores = self._scores
        if not (0 < limit < len(scores) and (last := features.at_rank(scores, limit))):
            return self.scores
        least = last * share
        return self._best_first((scores >= least if least else scores > 0).nonzero()[0])

    @cached_property
    def _scores(self) -> Floats:
        """Score of each memory, shape (m,)."""
        return np.minimum(self.sums * self.unit, self.kind_weight)  # a product may be off by a rounding

    def _best_first(self, memories: NDArray[np.int64]) -> dict[int, float]:
        """Scores of these memories, given by their indexes, ascending: shape (k,)."""
        scores = self._scores[memories]
        order = (-scores).argsort(kind="stable")
        return dict(zip(self.scored.rows[memories[order]].tolist(), scores[order].tolist(), strict=True))


FusedRanking: TypeAlias = RankingByScore | RankingByRank
"""The candidates of one kind with their scores before forgetting, and what each stage gave them."""


def normalise_across_kinds(rankings: Mapping[Kind, FusedRanking], *, dense_weight: float) -> dict[Kind, RankingByScore]:
    """Scale the rankings by score so that kinds compare: by the best evidence of each, relative to the best of all.

    Each kind is scaled by itself, so that what the other kind holds changes no order within it. Only the kinds as
    wholes are weighed against each other, by the cosine of the nearest passage and by the words of the best. Where no
    memory has any of the words, scores are not above what nearness counts (specification §2.18).
    """
    scored = {kind: each.scored for kind, each in rankings.items() if isinstance(each, RankingByScore)}
    nearest = {kind: max(float(np.maximum.reduce(each.candidates.similarities)), 0.0) for kind, each in scored.items()}
    covered = {kind: each.coverage for kind, each in scored.items()}
    weights = {
        kind: dense_weight * _relative(nearest, kind) + (1 - dense_weight) * _relative(covered, kind) for kind in scored
    }
    return {kind: RankingByScore(each, max(weights[kind], _LEAST_KIND_WEIGHT)) for kind, each in scored.items()}


def _relative(values: Mapping[Kind, float], kind: Kind) -> float:
    highest = max(values.values())
    return values[kind] / highest if highest > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranking of the memories of one kind, with its trace: what each stage gave each candidate."""

    fused: FusedRanking  # the candidates with their scores before forgetting, and what each stage gave them
    final: list[Ranked]  # those after forgetting, best first: the limit or more, or all for an explanation
    returned: list[Ranked]  # those that are returned, best first


def rank(
    candidates: Mapping[Kind, Candidates | RankedLists],
    plan: RetrievalPlan,
    *,
    ledger: SQLLedger,
    settings: RetrievalSettings,
    is_traced: bool = False,
) -> dict[Kind, Ranking]:
    """Rank the candidates of each kind, best first; kinds without candidates are left out.

    Args:
        candidates: What was found of each kind.
        plan: The search plan: query, selections and limits.
        ledger: Where forgetting states, texts of passages and times of facts are read.
        settings: Weights and fusion.
        is_traced: Weigh every candidate by its retrievability, also those that forgetting cannot bring among the best.
    """
    with observer_of_stages.get()(RANK):
        fused = _fuse(candidates, plan, settings, ledger)
        final = {
            kind: _forget(each, kind, plan, ledger, settings=settings, is_traced=is_traced)
            for kind, each in fused.items()
        }
        for kind, each, by_tokens in _by_tokens(fused, final, settings):
            fused[kind], final[kind] = each, by_tokens
        best = {kind: each[: plan.limits[kind]] for kind, each in final.items()}
        kept = best if plan.request.limit is None else _joint_cut(best, plan.request.limit)
        return {kind: Ranking(each, final[kind], kept[kind]) for kind, each in fused.items()}


def _fuse(
    candidates: Mapping[Kind, Candidates | RankedLists],
    plan: RetrievalPlan,
    settings: RetrievalSettings,
    ledger: SQLLedger,
) -> dict[Kind, FusedRanking]:
    """Score the candidates of each kind, on one scale where scores are added up."""
    fused: dict[Kind, FusedRanking] = {}
    asked = plan.question
    days = (asked.ahead or asked.behind) and asked.described_periods
    for kind, each in candidates.items():
        if isinstance(each, RankedLists):
            fused[kind] = RankingByRank(each, settings)
        elif len(each):
            boosts = BOOSTS if kind is Kind.EPISODIC else {}
            planned = None
            if days:
                planned = times.planned(each, asked, texts=partial(_texts, ledger), since=ledger.valid_from)
            scored = score(each, asked, settings, boosts=boosts, planned=planned)
            asks_of_a_time = asked.dates or asked.periods or scored.is_by_time  # an older one may be what is meant
            if kind is Kind.EPISODIC and each.layout.has_messages and not asks_of_a_time:
                limit = max(plan.limits[kind], MEASURED)
                scored = _without_repetition(scored, settings.repetition_weight, limit=limit, texts=ledger.texts)
            fused[kind] = RankingByScore(scored)
    return {**fused, **normalise_across_kinds(fused, dense_weight=settings.dense_weight)}


def _texts(ledger: SQLLedger, passages: Sequence[int]) -> dict[int, str]:
    """Texts of passages by their ids, and of queued messages by their numbers below 0."""
    queued = ledger.open_episodes.read([-each for each in passages if each < 0])
    said = {-each.row: message_passage(each.message) for each in queued}
    stored = ledger.texts([each for each in passages if each > 0])
    return stored | {number: each.text for number, each in said.items() if each is not None}


def _forget(
    fused: FusedRanking,
    kind: Kind,
    plan: RetrievalPlan,
    ledger: SQLLedger,
    *,
    settings: RetrievalSettings,
    is_traced: bool,
) -> list[Ranked]:
    """Weigh the scores of episodes by their retrievability; facts do not decay."""
    limit, decay_weight = len(fused.rows) if is_traced else max(plan.limits[kind], MEASURED), settings.decay_weight
    if kind is Kind.SEMANTIC:
        return [Ranked(row, score) for row, score in islice(fused.leading(limit, share=1.0).items(), limit)]
    # Forgetting takes at most this share of a score: what is below that of the last of the best cannot pass it.
    scores = fused.leading(limit, share=1 - decay_weight)
    states = ledger.forgetting_states(list(scores))
    retrievability = _retrievabilities(states, now=plan.selections[kind].now, settings=settings)
    return _apply_decay(scores, retrievability=retrievability, decay_weight=decay_weight, limit=limit)


def _by_tokens(
    fused: Mapping[Kind, FusedRanking], final: Mapping[Kind, list[Ranked]], settings: RetrievalSettings
) -> Iterator[tuple[Kind, RankingByScore, list[Ranked]]]:
    """Order the first memories of each kind, and messages, anew by tokens; none comes in or falls behind others."""
    measured = {kind: each for kind, each in fused.items() if isinstance(each, RankingByScore)}
    found: dict[Kind, tuple[Candidates, Floats, list[int]]] = {}
    for kind, each in measured.items():
        if each.scored.candidates.tokens is not None and not each.scored.is_by_time:
            hits = np.array([ranked.row for ranked in final[kind][:MEASURED] if len(final[kind]) > 1], np.int64)
            places = (each.scored.rows == hits[:, np.newaxis]).argmax(axis=1)
            first = places[(-each.sums[places]).argsort(kind="stable")]  # what is forgotten is no worse an answer
            found[kind] = each.scored.candidates, each.scored.passages, first.tolist()
    for kind, (near, of_terms, messages) in token_nearness(found).items() if found else ():
        former, first = measured[kind], found[kind][2]
        rows, tokens = former.scored.rows[first].tolist(), np.zeros(len(former.sums))
        tokens[first] = settings.token_weight * float(np.maximum.reduce(former.sums)) * near
        nearness = dict(zip(rows, of_terms.tolist(), strict=False))
        weight = settings.token_weight * MESSAGE_SHARE
        given = tokens if first else None
        anew = RankingByScore(former.scored, former.kind_weight, given, nearness, messages, weight)
        if not first:
            yield kind, anew, final[kind]
            continue
        scores = np.minimum(anew.sums[first] * anew.unit, anew.kind_weight).tolist()
        ordered = _apply_decay(
            dict(zip(rows, scores, strict=True)),
            retrievability={each.row: each.retrievability for each in final[kind][:MEASURED]},
            decay_weight=settings.decay_weight,
            limit=MEASURED,
        )
        others = (each._replace(score=each.score / former.unit * anew.unit) for each in final[kind][MEASURED:])
        yield kind, anew, [*ordered, *others]


def _retrievabilities(
    states: Mapping[int, ForgettingState], *, now: datetime, settings: RetrievalSettings
) -> dict[int, float]:
    """Retrievability of each episode now, 0 to 1, by row (specification §2.4)."""
    moment, whole_days = (now - EPOCH) // MICROSECOND, settings.whole_days
    return {
        row: fsrs.retrievability(fsrs.elapsed_days(moment - reviewed, whole_days=whole_days), stability)
        for row, (stability, reviewed) in states.items()
    }


def _apply_decay(
    scores: Mapping[int, float], *, retrievability: Mapping[int, float], decay_weight: float, limit: int
) -> list[Ranked]:
    """Weigh scores by retrievability, and take the best ``limit`` memories, best first.

    ``final = score × (1 − w × (1 − R))``: with w = 1 this is the specification's ``rrf × R`` (§2.3, §2.5). Facts do
    not decay: where nothing is known, R = 1. Ties keep the order of ``scores``.
    """
    known = {row: retrievability.get(row, 1.0) for row in scores}
    final = {row: score * (1 - decay_weight * (1 - known[row])) for row, score in scores.items()}
    best = sorted(scores, key=final.__getitem__, reverse=True)[:limit]
    return [Ranked(row, final[row], known[row]) for row in best]


def _joint_cut(best: Mapping[Kind, list[Ranked]], limit: int | None) -> dict[Kind, list[Ranked]]:
    """Cut both kinds, facts first, to the best ``limit`` together; at equal scores facts come first."""
    together = sorted(chain.from_iterable(best.values()), key=lambda ranked: -ranked.score)[:limit]
    kept = {ranked.row for ranked in together}
    return {kind: [ranked for ranked in each if ranked.row in kept] for kind, each in best.items()}
