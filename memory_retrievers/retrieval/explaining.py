"""Explaining: a retrieval is done again, and told stage by stage, for what it returns and for what it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memory_retrievers import scopes
from memory_retrievers.errors import NotFoundError
from memory_retrievers.models import AnyMemory, Kind
from memory_retrievers.passages import Selection
from memory_retrievers.retrieval import dropping
from memory_retrievers.retrieval.asking import Asked, is_visible, selection_of
from memory_retrievers.retrieval.explained import ExplainedAbsence, ExplainedMemory, ExplainedRetrieval
from memory_retrievers.retrieval.ranking import Ranking
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.standings import NO_EVIDENCE, Evidence, Standing, evidence_of, standings_of
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector


class _Survey(NamedTuple):
    """What a question meets.

    Attributes:
        embedded: What of it was embedded.
        standings: How the memories of each kind stand.
        evidence: What of it is in the memories that are told of, by row.
    """

    embedded: str
    standings: Mapping[Kind, Standing]
    evidence: Mapping[int, Evidence]

    def told(self, row: int, memory: AnyMemory) -> ExplainedMemory | None:
        return self.standings[memory.kind].told(row, memory, self.evidence.get(row, NO_EVIDENCE))


class Explainer:
    """Tells why a question is answered as it is. That is never noted as a use of a memory.

    Args:
        store: Where to search.
        ranking: How memories are ranked there.
    """

    def __init__(self, store: MemoryStore, *, ranking: Ranking) -> None:
        self._store = store
        self._ranking = ranking

    def explain(self, request: RetrievalRequest) -> ExplainedRetrieval:
        """Every stage of what a request returns."""
        now = self._store.now()
        survey = self._survey(request, now)
        returned = {kind: standing.returned for kind, standing in survey.standings.items()}
        memories = self._store.ledger.load([row for rows in returned.values() for row in rows])
        visible = {row: memory for row, memory in memories.items() if is_visible(memory, request, now=now)}
        told = {
            kind: tuple(filter(None, (survey.told(row, visible[row]) for row in rows if row in visible)))
            for kind, rows in returned.items()
        }
        return ExplainedRetrieval(
            query=request.query,
            embedded=survey.embedded,
            scope=request.scope,
            now=now,
            semantic=told[Kind.SEMANTIC],
            episodic=told[Kind.EPISODIC],
        )

    def explain_missing(self, id: str, request: RetrievalRequest) -> ExplainedAbsence:
        """The stage that drops a memory, or all its stages if none does.

        Raises:
            NotFoundError: There is no such memory in this scope; other scopes make no difference.
        """
        now = self._store.now()
        memory = self._found(id, request)
        # 1. what its record tells
        fate = dropping.before_search(memory, request, now=now)
        if fate is not None:
            return _absence(memory, request, fate)
        # 2. what its passages tell
        row = self._row(memory, self._selection(request, memory.kind, now))
        if row is None:
            return _absence(memory, request, dropping.unindexed(memory))
        # 3. what its place among all others tells
        survey = self._survey(request, now, about=(memory.kind, row))
        evidence, told = survey.evidence.get(row, NO_EVIDENCE), survey.told(row, memory)
        if told is None:
            depth = self._ranking.settings.candidate_depth
            fate = dropping.not_a_candidate(cosine=evidence.cosine, words=evidence.words, depth=depth)
        else:
            standing = survey.standings[memory.kind]
            fate = dropping.after_search(told, _bounds(standing, request), is_returned=row in standing.returned)
        absence = _absence(memory, request, fate)
        return replace(absence, cosine=evidence.cosine, words=evidence.words, memory=told)

    def _survey(self, request: RetrievalRequest, now: datetime, *, about: tuple[Kind, int] | None = None) -> _Survey:
        """Do a retrieval again.

        Args:
            request: What is asked.
            now: When.
            about: A kind and a row: also gather the evidence of this memory, whether it is returned or not.
        """
        asked = Asked.of(request, store=self._store, now=now, settings=self._ranking.settings)

        def look(vector: Vector) -> _Survey:
            standings = standings_of(self._ranking, request, asked, vector=vector, now=now)
            evidence: dict[int, Evidence] = {}
            for kind, standing in standings.items():
                rows = [*standing.returned, *([about[1]] if about is not None and about[0] is kind else [])]
                selection = self._selection(request, kind, now)
                evidence |= (
                    evidence_of(self._store, selection, asked.question, vector=vector, rows=rows) if rows else {}
                )
            return _Survey(asked.embedded, standings, evidence)

        return self._store.search(asked.embedded, look)

    def _selection(self, request: RetrievalRequest, kind: Kind, now: datetime) -> Selection:
        return selection_of(request, kind, now=now, settings=self._ranking.settings)

    def _found(self, id: str, request: RetrievalRequest) -> AnyMemory:
        """The memory of this id in the scope, or else in the first of those below that is searched as well."""
        inside = [request.scope]
        if request.include_child_scopes:
            first, behind = scopes.child_range(request.scope)
            inside += [scope for scope in self._store.ledger.scopes() if first <= scope < behind]
        for scope in inside:
            memory = self._store.ledger.get(scope=scope, id=id)
            if memory is not None:
                return memory
        raise NotFoundError(f"Memory not found: {id}")

    def _row(self, memory: AnyMemory, selection: Selection) -> int | None:
        """The row of a memory in the ledger; None if it has no passage that the selection lets through."""
        layout = self._store.ledger.layout(replace(selection, ids=(memory.id,)))
        namesakes = self._store.ledger.load(np.unique(layout.memories).tolist())
        return next((row for row, namesake in namesakes.items() if namesake.scope == memory.scope), None)


def _bounds(standing: Standing, request: RetrievalRequest) -> dropping.Bounds:
    wanted = [final.score for final in islice(standing.final.values(), standing.limit)]
    return dropping.Bounds(
        competing=len(standing.final), limit=standing.limit, last=wanted[-1], joint_limit=request.limit
    )


def _absence(memory: AnyMemory, request: RetrievalRequest, fate: dropping.Fate) -> ExplainedAbsence:
    return ExplainedAbsence(
        id=memory.id, scope=memory.scope, query=request.query, outcome=fate.outcome, reason=fate.reason
    )
