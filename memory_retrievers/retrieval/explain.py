"""Explanations of a ranking: its trace, formatted for each memory returned, or the stage that dropped another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, SemanticMemory, scopes
from memory_retrievers.models.fields import iso
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
    from memory_retrievers.models.selection import Vector
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
    # what each stage gave the candidates of each kind; made once for all memories
    stages: Mapping[Kind, ScoreTrace | RankingByRank]
    evidence: Mapping[int, Evidence]  # match with the query, by row, of the memories to explain
    memories: Mapping[int, AnyMemory]  # what is returned, by row

    def returned(self, kind: Kind) -> list[int]:
        """Memories of a kind that are returned, as rows of the ledger, best first."""
        return [each.row for each in self.rankings[kind].returned] if kind in self.rankings else []

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


class ExplainedOutcome(NamedTuple):
    """Outcome of a retrieval for one memory, and the reason as a sentence."""

    outcome: Outcome
    reason: str


def before_search(memory: AnyMemory, request: RetrievalRequest, *, now: datetime) -> ExplainedOutcome | None:
    """Decide from the record alone whether a memory is excluded.

    Args:
        memory: The record.
        request: The request.
        now: The moment of the retrieval, for expiry.

    Returns:
        The reason for the exclusion; None if the record is no obstacle.
    """
    if memory.has_expired(now):
        assert memory.expires_at is not None  # noqa: S101 - else it had not
        return ExplainedOutcome(Outcome.EXPIRED, f"It expired at {iso(memory.expires_at)}.")
    if not holds(memory, as_of=request.as_of):
        return _invalid(memory, request.as_of)
    if (obstacle := _obstacle(memory, request)) is not None:
        return obstacle
    is_fact = memory.kind is Kind.SEMANTIC
    if not (request.semantic_limit if is_fact else request.episodic_limit):
        unwanted = "No facts were asked for" if is_fact else "No episodes were asked for"
        return ExplainedOutcome(Outcome.NOT_ASKED_FOR, f"{unwanted}: the limit is 0.")
    return None


def _obstacle(memory: AnyMemory, request: RetrievalRequest) -> ExplainedOutcome | None:
    """Explain what of the request alone leaves a memory out; None if nothing does."""
    if isinstance(memory, SemanticMemory) and request.category not in {None, memory.category}:
        return ExplainedOutcome(
            Outcome.OTHER_CATEGORY, f"It is of category {memory.category}; only {request.category} was asked for."
        )
    if request.has_before_it(memory):
        return ExplainedOutcome(Outcome.IN_PROMPT, "All of its messages are in the prompt already.")
    if request.is_of_excluded(memory):
        left_out = f"It is of the conversation {request.exclude_conversation}, which is to be left out."
        return ExplainedOutcome(Outcome.OTHER_CONVERSATION, left_out)
    filtered = request.filters.obstacle(memory)
    if filtered is not None:
        return ExplainedOutcome(Outcome.FILTERED, f"It does not pass the filter by {filtered}.")
    return None


def unindexed(memory: AnyMemory) -> ExplainedOutcome:
    """Explain that a memory has no passages to be found by."""
    if isinstance(memory, EpisodicMemory) and memory.is_open:
        return ExplainedOutcome(
            Outcome.STILL_OPEN,
            "It is still open: these settings search finished episodes alone, or all of it is in the prompt already.",
        )
    if memory.is_searchable:
        return ExplainedOutcome(
            Outcome.NOT_INDEXED, "It has no searchable text in the store; verify() tells what is wrong."
        )
    return ExplainedOutcome(Outcome.NOT_INDEXED, "It was stored as a value that is not to be indexed.")


def not_a_candidate(evidence: Evidence, depth: int) -> ExplainedOutcome:
    """Explain that a searchable memory is not among the candidates, ``depth`` of each index."""
    shared = f"shares {', '.join(evidence.words)}" if evidence.words else "shares no word"
    return ExplainedOutcome(
        Outcome.NOT_A_CANDIDATE,
        f"It is not among the candidates, which are the {depth} nearest and the {depth} best by words: "
        f"its cosine is {evidence.cosine:.3f}, and it {shared}.",
    )


def after_search(memory: ExplainedMemory, trace: Trace) -> ExplainedOutcome:
    """Explain why a candidate is not returned."""
    final, limit = trace.rankings[Kind(memory.kind)].final, trace.plan.limits[Kind(memory.kind)]
    place = f"place {memory.rank} of {len(final)}"
    if memory.rank <= limit:
        return ExplainedOutcome(
            Outcome.JOINT_LIMIT,
            f"It comes to {place} of its kind, with {memory.score:.4f}; "
            f"the best {trace.plan.joint_limit} of both kinds together were asked for.",
        )
    wanted = f"the best {limit} were asked for, and the last of them has {final[:limit][-1].score:.4f}"
    if memory.rank_before_forgetting <= limit:
        return ExplainedOutcome(
            Outcome.FORGOTTEN,
            f"It is half forgotten: its retrievability of {memory.retrievability:.4f} brings it from place "
            f"{memory.rank_before_forgetting} to {place}, with {memory.score:.4f}; {wanted}.",
        )
    is_repeated = any(stage.name == REPETITION and stage.score for stage in memory.stages)
    again = ", since a newer one repeats its best message" if is_repeated else ""
    return ExplainedOutcome(Outcome.RANKED_TOO_LOW, f"It comes to {place}, with {memory.score:.4f}{again}; {wanted}.")


def _invalid(memory: AnyMemory, as_of: datetime | None) -> ExplainedOutcome:
    if not isinstance(memory, SemanticMemory):
        return ExplainedOutcome(Outcome.NOT_VALID_THEN, f"It only began at {iso(memory.start_at)}.")
    instead = f"; {memory.replaced_by} holds instead" if memory.replaced_by else ""
    until = "" if memory.invalid_at is None else f" until {iso(memory.invalid_at)}"
    if as_of is None:
        return ExplainedOutcome(Outcome.INVALIDATED, f"It held{until}{instead}.")
    return ExplainedOutcome(
        Outcome.NOT_VALID_THEN, f"It did not hold at {iso(as_of)}, but from {iso(memory.valid_at)}{until}."
    )


class Explainer:
    """Explains why a retrieval returns what it returns. An explanation is never recorded as a use of a memory."""

    def __init__(self, store: MemoryStore, *, settings: RetrievalSettings) -> None:
        self._store = store
        self._settings = settings

    def explain(self, request: RetrievalRequest) -> ExplainedRetrieval:
        """Explain every stage of what a request returns."""
        now = self._store.now().astimezone(request.zone(self._settings))
        trace = self._trace(RetrievalPlan.of(request, store=self._store, now=now, settings=self._settings))
        visible = {row: memory for row, memory in trace.memories.items() if is_visible(memory, request, now=now)}
        explained = {
            kind: tuple(
                filter(None, (trace.explain(row, visible[row]) for row in trace.returned(kind) if row in visible))
            )
            for kind in Kind
        }
        return ExplainedRetrieval(
            query=request.query,
            embedded=trace.plan.embedded,
            scope=request.scope,
            now=now,
            semantic=explained[Kind.SEMANTIC],
            episodic=explained[Kind.EPISODIC],
        )

    def explain_missing(self, id: str, request: RetrievalRequest) -> ExplainedAbsence:
        """Name the stage that drops a memory, or describe all its stages if none does.

        Raises:
            NotFoundError: There is no such memory in this scope; other scopes make no difference.
        """
        now = self._store.now().astimezone(request.zone(self._settings))
        memory = self._found(id, request)
        # 1. excluded by its record
        outcome = before_search(memory, request, now=now)
        if outcome is not None:
            return _absence(memory, request, outcome)
        # 2. excluded for want of passages
        plan = RetrievalPlan.of(request, store=self._store, now=now, settings=self._settings)
        row = self._row(memory, plan)
        if row is None:
            return _absence(memory, request, unindexed(memory))
        # 3. dropped by a stage of the search
        trace = self._trace(plan, about=(memory.kind, row))
        evidence, explained = trace.evidence.get(row, NO_EVIDENCE), trace.explain(row, memory)
        if explained is None:
            outcome = not_a_candidate(evidence, self._settings.candidate_depth)
        elif row in trace.returned(memory.kind):
            outcome = ExplainedOutcome(Outcome.RETURNED, f"It is returned, at place {explained.rank} of its kind.")
        else:
            outcome = after_search(explained, trace)
        absence = _absence(memory, request, outcome)
        return replace(absence, cosine=evidence.cosine, words=evidence.words, memory=explained)

    def _trace(self, plan: RetrievalPlan, *, about: tuple[Kind, int] | None = None) -> Trace:
        """Search as a retrieval does, and keep what every stage gave."""
        store, settings = self._store, self._settings

        def find(vector: Vector) -> Trace:
            candidates = read_all(store, plan, vector=vector, settings=settings)
            states, texts = store.ledger.forgetting_states, store.ledger.texts
            since = store.ledger.valid_from
            rankings = rank(
                candidates, plan, states=states, texts=texts, since=since, settings=settings, is_traced=True
            )
            trace = Trace(plan, rankings, {kind: trace_of(each.fused) for kind, each in rankings.items()}, {}, {})
            rows = [row for kind in rankings for row in trace.returned(kind)]
            trace = trace._replace(memories=load(store, candidates, rows, as_of=plan.request.as_of))
            evidence: dict[int, Evidence] = {}
            for kind, known in candidates.items():
                rows = [*trace.returned(kind), *([about[1]] if about is not None and about[0] is kind else [])]
                if not rows:
                    continue
                if isinstance(known, Candidates) and np.isin(rows, known.layout.memories).all():
                    evidence |= evidence_of(known, plan, rows)
                else:  # ranked lists have no arrays, and not every memory is a candidate
                    named = candidates_then(store, plan, kind, vector=vector, memories=rows)
                    evidence |= evidence_of(named, plan, rows)
            return trace._replace(evidence=evidence)

        plan = prepare(store, plan, settings=settings)
        return store.search(plan.embedded, find, known=plan.states)

    def _found(self, id: str, request: RetrievalRequest) -> AnyMemory:
        """Load the memory with this id from the scope, or else from the first scope below it that is searched too."""
        inside = [request.scope]
        if request.include_child_scopes:
            first, behind = scopes.child_range(request.scope)
            inside += [scope for scope in self._store.ledger.scopes() if first <= scope < behind]
        for scope in inside:
            memory = self._store.ledger.get(scope=scope, id=id)
            if memory is not None and (as_of := request.as_of) is not None:
                return self._store.ledger.facts.then_of(memory, as_of=as_of)
            if memory is not None:
                return memory
        for scope in dict.fromkeys([request.scope, *self._waiting(request)]):
            with suppress(NotFoundError):
                return self._store.open_episodes.get(id, scope=scope)
        raise NotFoundError(f"Memory not found: {id}")

    def _waiting(self, request: RetrievalRequest) -> list[str]:
        """The scopes with open episodes that are searched."""
        places = self._store.ledger.open_episodes.places(
            request.scope, include_child_scopes=request.include_child_scopes
        )
        return [place.scope for place in places]

    def _row(self, memory: AnyMemory, plan: RetrievalPlan) -> int | None:
        """The row of a memory in the ledger; None if it has no passage that the plan lets through."""
        if isinstance(memory, EpisodicMemory) and memory.is_open:
            known = open_episodes(self._store, plan.request) if self._settings.searches_open else {}
            return next((row for row, each in known.items() if open_id(memory.scope, each.first) == memory.id), None)
        selection = replace(plan.selections[memory.kind], ids=(memory.id,))
        layout = self._store.ledger.layout(selection)
        then = [row for page in self._store.ledger.facts.searched_then(selection) for row in page.memories]
        namesakes = self._store.ledger.load([*np.unique(layout.memories).tolist(), *then])
        return next((row for row, namesake in namesakes.items() if namesake.scope == memory.scope), None)


def evidence_of(candidates: Candidates, plan: RetrievalPlan, rows: Sequence[int]) -> dict[int, Evidence]:
    """Match some candidates with the query, by row; those that are not among the candidates are left out.

    Args:
        candidates: The candidates of one kind.
        plan: The search plan, with the query.
        rows: The memories, as rows of the ledger.
    """
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


def _absence(memory: AnyMemory, request: RetrievalRequest, outcome: ExplainedOutcome) -> ExplainedAbsence:
    return ExplainedAbsence(
        id=memory.id, scope=memory.scope, query=request.query, outcome=outcome.outcome, reason=outcome.reason
    )
