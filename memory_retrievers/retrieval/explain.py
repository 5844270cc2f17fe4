"""Explanations of a ranking: its trace, formatted for each memory returned, or the stage that dropped another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, SemanticMemory, scopes
from memory_retrievers.models.fields import iso
from memory_retrievers.models.selection import Vector
from memory_retrievers.retrieval.candidates import Candidates
from memory_retrievers.retrieval.explanations import ExplainedAbsence, ExplainedMemory, ExplainedRetrieval, Outcome
from memory_retrievers.retrieval.features import REPETITION
from memory_retrievers.retrieval.rank_fusion import RankingByRank
from memory_retrievers.retrieval.ranking import Ranking, rank
from memory_retrievers.retrieval.request import RetrievalPlan, RetrievalRequest, holds, is_visible
from memory_retrievers.retrieval.trace import ScoreTrace, trace_of
from memory_retrievers.retrieval.unindexed_candidates import candidates_then, load, open_episodes, prepare, read_all
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.open_episodes import open_id

if TYPE_CHECKING:
    from memory_retrievers.storage.store import MemoryStore


class Evidence(NamedTuple):
    """Match of a memory with the query: best cosine over its passages, and the terms it shares."""

    cosine: float
    words: tuple[str, ...]


NO_EVIDENCE = Evidence(-1.0, ())  # evidence of a memory that has been deleted meanwhile


class Trace(NamedTuple):
    """Trace of one search."""

    plan: RetrievalPlan  # the search plan
    rankings: Mapping[Kind, Ranking]  # the ranking of each kind, every candidate weighed by its retrievability
    returned: Mapping[Kind, list[int]]  # memories that are returned, as rows of the ledger, best first
    # what each stage gave the candidates of each kind; made once for all memories
    stages: Mapping[Kind, ScoreTrace | RankingByRank]
    evidence: Mapping[int, Evidence]  # match with the query, by row, of the memories to explain
    memories: Mapping[int, AnyMemory]  # what is returned, by row

    def explain(self, row: int, memory: AnyMemory) -> ExplainedMemory | None:
        """Explain the rank and score of a memory at every stage; None if it is not a candidate."""
        ranking = self.rankings.get(memory.kind)
        final = () if ranking is None else ranking.final
        place = next((place for place, each in enumerate(final) if each.row == row), None)
        if ranking is None or place is None:
            return None
        evidence = self.evidence.get(row, NO_EVIDENCE)
        trace = self.stages[memory.kind]
        why = trace.explanation(ranking.final[place])
        return ExplainedMemory(
            id=memory.id,
            scope=memory.scope,
            kind=memory.kind.value,
            is_open=isinstance(memory, EpisodicMemory) and memory.is_open,
            text=memory.fact if isinstance(memory, SemanticMemory) else memory.title or memory.summary,
            cosine=evidence.cosine,
            words=evidence.words,
            dense_rank=why.dense_rank,
            bm25_rank=why.bm25_rank,
            stages=trace.stages(row),
            fused_score=why.fused_score,
            rank_before_forgetting=ranking.fused.rows.index(row) + 1,
            score_before_forgetting=ranking.fused.scores[row],
            retrievability=why.retrievability,
            rank=place + 1,
            score=why.score,
        )


Reason: TypeAlias = tuple[Outcome, str]
"""Outcome of a retrieval for one memory, and the reason as a sentence."""


def _before_search(memory: AnyMemory, request: RetrievalRequest, *, now: datetime) -> Reason | None:
    """The reason why the record of a memory excludes it; None if it may be searched."""
    if memory.has_expired(now):
        assert memory.expires_at is not None  # noqa: S101 - else it had not
        return Outcome.EXPIRED, f"It expired at {iso(memory.expires_at)}."
    if not holds(memory, as_of=request.as_of):
        return _invalid(memory, request.as_of)
    return _left_out(memory, request)


def _left_out(memory: AnyMemory, request: RetrievalRequest) -> Reason | None:
    if isinstance(memory, SemanticMemory) and request.category not in {None, memory.category}:
        return Outcome.OTHER_CATEGORY, f"It is of category {memory.category}; only {request.category} was asked for."
    if request.has_before_it(memory):
        return Outcome.IN_PROMPT, "All of its messages are in the prompt already."
    if request.is_of_excluded(memory):
        conversation = request.exclude_conversation
        return Outcome.OTHER_CONVERSATION, f"It is of the conversation {conversation}, which is to be left out."
    filtered = request.filters.obstacle(memory)
    if filtered is not None:
        return Outcome.FILTERED, f"It does not pass the filter by {filtered}."
    is_fact = memory.kind is Kind.SEMANTIC
    if not (request.semantic_limit if is_fact else request.episodic_limit):
        return Outcome.NOT_ASKED_FOR, f"No {'facts' if is_fact else 'episodes'} were asked for: the limit is 0."
    return None


def _unindexed(memory: AnyMemory) -> Reason:
    if isinstance(memory, EpisodicMemory) and memory.is_open:
        return (
            Outcome.STILL_OPEN,
            "It is still open: these settings search finished episodes alone, or all of it is in the prompt already.",
        )
    if memory.is_searchable:
        return Outcome.NOT_INDEXED, "It has no searchable text in the store; verify() tells what is wrong."
    return Outcome.NOT_INDEXED, "It was stored as a value that is not to be indexed."


def _not_a_candidate(evidence: Evidence, depth: int) -> Reason:
    shared = f"shares {', '.join(evidence.words)}" if evidence.words else "shares no word"
    candidates = f"the candidates, which are the best {depth} by vector similarity and by BM25"
    cosine = f"its cosine is {evidence.cosine:.3f}"
    return Outcome.NOT_A_CANDIDATE, f"It is not among {candidates}: {cosine}, and it {shared}."


def _after_search(memory: ExplainedMemory, trace: Trace) -> Reason:
    final, limit = trace.rankings[Kind(memory.kind)].final, trace.plan.limits[Kind(memory.kind)]
    rank = f"rank {memory.rank} of {len(final)}"
    if memory.rank <= limit:
        asked = f"the best {trace.plan.request.limit} of both kinds together were asked for"
        return Outcome.JOINT_LIMIT, f"It has {rank} of its kind, with a score of {memory.score:.4f}; {asked}."
    wanted = f"the best {limit} were asked for, and the last of them has {final[:limit][-1].score:.4f}"
    if memory.rank_before_forgetting <= limit:
        brought = f"its retrievability of {memory.retrievability:.4f} lowers it from rank"
        ranks = f"{memory.rank_before_forgetting} to {rank}, with a score of {memory.score:.4f}"
        return Outcome.FORGOTTEN, f"It has faded: {brought} {ranks}; {wanted}."
    is_repeated = any(stage.name == REPETITION and stage.score for stage in memory.stages)
    again = ", since a newer one repeats its best message" if is_repeated else ""
    return Outcome.RANKED_TOO_LOW, f"It has {rank}, with a score of {memory.score:.4f}{again}; {wanted}."


def _invalid(memory: AnyMemory, as_of: datetime | None) -> Reason:
    if not isinstance(memory, SemanticMemory):
        return Outcome.NOT_VALID_THEN, f"It only began at {iso(memory.start_at)}."
    instead = f"; {memory.replaced_by} holds instead" if memory.replaced_by else ""
    until = "" if memory.invalid_at is None else f" until {iso(memory.invalid_at)}"
    if as_of is None:
        return Outcome.INVALIDATED, f"It held{until}{instead}."
    return Outcome.NOT_VALID_THEN, f"It did not hold at {iso(as_of)}, but from {iso(memory.valid_at)}{until}."


def explain(store: MemoryStore, request: RetrievalRequest, *, settings: RetrievalSettings) -> ExplainedRetrieval:
    """Explain every stage of what a request returns. It is never recorded as a use of a memory.

    Args:
        store: Where the memories are.
        request: The request.
        settings: As those of the retrieval.
    """
    now = store.now().astimezone(request.zone(settings))
    trace = _trace(store, RetrievalPlan.of(request, store=store, now=now, settings=settings), settings=settings)
    visible = {row: memory for row, memory in trace.memories.items() if is_visible(memory, request, now=now)}
    facts, episodes = (
        tuple(
            filter(None, (trace.explain(row, visible[row]) for row in trace.returned.get(kind, []) if row in visible))
        )
        for kind in (Kind.SEMANTIC, Kind.EPISODIC)
    )
    embedded = trace.plan.embedded
    return ExplainedRetrieval(
        query=request.query, embedded=embedded, scope=request.scope, now=now, semantic=facts, episodic=episodes
    )


def explain_missing(
    store: MemoryStore, id: str, request: RetrievalRequest, *, settings: RetrievalSettings
) -> ExplainedAbsence:
    """Name the stage that drops a memory, or describe all its stages if none does; no use of it is recorded.

    Args:
        store: Where the memories are.
        id: The memory, in the scope of the request or below it.
        request: The request.
        settings: As those of the retrieval.
    """
    now = store.now().astimezone(request.zone(settings))
    memory = _found(store, id, request)
    # 1. excluded by its record
    outcome = _before_search(memory, request, now=now)
    if outcome is not None:
        return _absence(memory, request, outcome)
    # 2. excluded for want of passages
    plan = RetrievalPlan.of(request, store=store, now=now, settings=settings)
    row = _row(store, memory, plan, settings=settings)
    if row is None:
        return _absence(memory, request, _unindexed(memory))
    # 3. dropped by a stage of the search
    trace = _trace(store, plan, settings=settings, about=(memory.kind, row))
    evidence, explained = trace.evidence.get(row, NO_EVIDENCE), trace.explain(row, memory)
    if explained is None:
        outcome = _not_a_candidate(evidence, settings.candidate_depth)
    elif row in trace.returned[memory.kind]:
        outcome = Outcome.RETURNED, f"It is returned, at rank {explained.rank} of its kind."
    else:
        outcome = _after_search(explained, trace)
    absence = _absence(memory, request, outcome)
    return replace(absence, cosine=evidence.cosine, words=evidence.words, memory=explained)


def _trace(
    store: MemoryStore, plan: RetrievalPlan, *, settings: RetrievalSettings, about: tuple[Kind, int] | None = None
) -> Trace:
    """Search as a retrieval does, and keep what every stage gave."""

    def find(vector: Vector) -> Trace:
        candidates = read_all(store, plan, vector=vector, settings=settings)
        rankings = rank(candidates, plan, ledger=store.ledger, settings=settings, is_traced=True)
        returned = {kind: [each.row for each in ranking.returned] for kind, ranking in rankings.items()}
        evidence: dict[int, Evidence] = {}
        for kind, known in candidates.items():
            rows = [*returned.get(kind, []), *([about[1]] if about is not None and about[0] is kind else [])]
            if not rows:
                continue
            if not (isinstance(known, Candidates) and np.isin(rows, known.layout.memories).all()):
                # ranked lists have no arrays, and not every memory is a candidate
                known = candidates_then(store, plan, kind, vector=vector, memories=rows)  # noqa: PLW2901
            evidence |= _evidence_of(known, plan, rows)
        stages = {kind: trace_of(each.fused) for kind, each in rankings.items()}
        memories = load(store, candidates, list(chain(*returned.values())), as_of=plan.request.as_of)
        return Trace(plan, rankings, returned, stages, evidence, memories)

    plan = prepare(store, plan, settings=settings)
    return store.search(plan.embedded, find, known=plan.states)


def _found(store: MemoryStore, id: str, request: RetrievalRequest) -> AnyMemory:
    """Load the memory with this id from the scope, or else from the first scope below it that is searched too."""
    inside = [request.scope]
    if request.include_child_scopes:
        first, behind = scopes.child_range(request.scope)
        inside += [scope for scope in store.ledger.scopes() if first <= scope < behind]
    for scope in inside:
        if (memory := store.ledger.get(scope=scope, id=id)) is not None:
            as_of = request.as_of
            return memory if as_of is None else store.ledger.facts.then_of(memory, as_of=as_of)
    waiting = store.ledger.open_episodes.places(request.scope, include_child_scopes=request.include_child_scopes)
    for scope in dict.fromkeys([request.scope, *(place.scope for place in waiting)]):
        with suppress(NotFoundError):
            return store.open_episodes.get(id, scope=scope)
    raise NotFoundError(f"Memory not found: {id}")


def _row(store: MemoryStore, memory: AnyMemory, plan: RetrievalPlan, *, settings: RetrievalSettings) -> int | None:
    """The row of a memory in the ledger; None if it has no passage that the plan lets through."""
    if isinstance(memory, EpisodicMemory) and memory.is_open:
        known = open_episodes(store, plan.request) if settings.searches_open else {}
        return next((row for row, each in known.items() if open_id(memory.scope, each.first) == memory.id), None)
    selection = replace(plan.selections[memory.kind], ids=(memory.id,))
    layout = store.ledger.layout(selection)
    then = [row for page in store.ledger.facts.searched_then(selection) for row in page.memories]
    namesakes = store.ledger.load([*np.unique(layout.memories).tolist(), *then])
    return next((row for row, namesake in namesakes.items() if namesake.scope == memory.scope), None)


def _evidence_of(candidates: Candidates, plan: RetrievalPlan, rows: Sequence[int]) -> dict[int, Evidence]:
    """Match some memories with the query, by row; those that are not among the candidates are left out."""
    if not len(candidates):
        return {}
    terms = list(dict.fromkeys(plan.question.terms))
    wanted = np.flatnonzero(np.isin(candidates.layout.memories[candidates.layout.starts], rows))
    cosines = np.maximum.reduceat(candidates.similarities, candidates.layout.starts)[wanted].tolist()
    shares = np.logical_or.reduceat(candidates.counts > 0, candidates.layout.starts, axis=1).T[wanted].tolist()
    found = candidates.layout.memories[candidates.layout.starts][wanted].tolist()
    return {
        row: Evidence(cosine, tuple(term for term, shared in zip(terms, its_shares, strict=True) if shared))
        for row, cosine, its_shares in zip(found, cosines, shares, strict=True)
    }


def _absence(memory: AnyMemory, request: RetrievalRequest, why: Reason) -> ExplainedAbsence:
    outcome, reason = why
    return ExplainedAbsence(id=memory.id, scope=memory.scope, query=request.query, outcome=outcome, reason=reason)
