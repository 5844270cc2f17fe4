"""The retriever: a question becomes a ranked answer, in seven steps."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, Kind, MemoryKey, SemanticMemory
from memory_retrievers.paging import Page, page_of, parse_cursor, parse_kinds, parse_page_size
from memory_retrievers.passages import Selection
from memory_retrievers.retrieval.fusion import reciprocal_rank_fusion
from memory_retrievers.retrieval.legs import run_legs
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.request import RetrievalRequest, parse_limit
from memory_retrievers.retrieval.rerank import Ranked, by_fused_score, contenders, rerank, retrievabilities
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieved import PendingReview, RetrievedMemory
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.stages import HYDRATE, RANK, stage
from memory_retrievers.store import MemoryStore
from memory_retrievers.text import analyze

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector

MAX_RECENT: Final = 100
MAX_DAYS: Final = 1_000_000

KindT = TypeVar("KindT", EpisodicMemory, SemanticMemory)


class HybridRetriever:
    """The read path over a store (specification §2.3).

    Args:
        store: Where to search.
        settings: How to rank and show.
        pending: Where retrievals wait for their review.
    """

    def __init__(self, store: MemoryStore, *, settings: RetrievalSettings, pending: PendingReviewBuffer) -> None:
        self._store = store
        self._settings = settings
        self._pending = pending

    def retrieve(self, request: RetrievalRequest, *, record: bool) -> RetrievalResult:
        """Answer a question. Forgetting state never changes here; with ``record`` a review is filed for later."""
        now = self._store.now()
        semantic, episodic = self._store.search(request.query, lambda vector: self._both_kinds(request, vector, now))
        semantic, episodic = _joint_cut(semantic, episodic, request.limit)
        with stage(HYDRATE):
            memories = self._store.ledger.load([ranked.row for ranked in chain(semantic, episodic)])
        visible = {row: memory for row, memory in memories.items() if _is_visible(memory, request, now)}
        result = RetrievalResult(
            query=request.query,
            scope=request.scope,
            now=now,
            semantic=_hydrated(semantic, visible, SemanticMemory),
            episodic=_hydrated(episodic, visible, EpisodicMemory),
            fact_display_length=self._settings.fact_display_length,
        )
        if record and result.episodic:
            self._pending.add(_pending_review(result))
        return result

    def recent(self, scope: str, *, limit: int, days_limit: float | None) -> RecentResult:
        """The scope's newest episodes (specification §2.17).

        Raises:
            ValidationError: The scope is malformed, or a limit is negative or not a number.
        """
        now = self._store.now()
        episodes = self._store.ledger.recent(
            scope=scopes.parse(scope),
            limit=min(max(parse_limit("limit", limit), 1), MAX_RECENT),
            now=now,
            since=None if days_limit is None else now - _days(days_limit),
        )
        return RecentResult(now=now, episodic=tuple(episodes))

    def page(self, scope: str, *, kind: Kind | str | None, cursor: str | None, limit: int) -> Page:
        """Some of the scope's memories, newest first, invalidated facts included.

        Raises:
            ValidationError: The scope or cursor is malformed, the kind unknown, or the limit not from 1 to 1000.
        """
        size = parse_page_size(limit)
        memories = self._store.ledger.page(
            scopes.parse(scope),
            kinds=parse_kinds(kind),
            after=parse_cursor(cursor),
            limit=size + 1,
            now=self._store.now(),
        )
        return page_of(memories, limit=size)

    def _both_kinds(
        self, request: RetrievalRequest, vector: Vector, now: datetime
    ) -> tuple[list[Ranked], list[Ranked]]:
        terms = analyze(request.query)
        return (
            self._ranked(request, Kind.SEMANTIC, request.semantic_limit, vector=vector, terms=terms, now=now),
            self._ranked(request, Kind.EPISODIC, request.episodic_limit, vector=vector, terms=terms, now=now),
        )

    def _ranked(
        self, request: RetrievalRequest, kind: Kind, limit: int, *, vector: Vector, terms: list[str], now: datetime
    ) -> list[Ranked]:
        if not limit:
            return []
        selection = Selection(
            scope=request.scope,
            kind=kind,
            now=now,
            include_child_scopes=request.include_child_scopes,
            category=_category_for(kind, request.category),
            as_of=request.as_of,
        )
        depth = self._settings.candidate_depth
        legs = run_legs(self._store, selection, vector=vector, terms=terms, depth=depth)
        with stage(RANK):
            fused = reciprocal_rank_fusion((legs.dense, legs.bm25), k=self._settings.rrf_k)
            decay_weight = self._settings.decay_weight if kind is Kind.EPISODIC else 0.0
            rows = contenders(by_fused_score(fused, depth=depth), fused, decay_weight=decay_weight, limit=limit)
            states = self._store.ledger.forgetting_states(rows) if kind is Kind.EPISODIC else {}
            retrievability = retrievabilities(states, now=now, settings=self._settings)
            return rerank(rows, fused, legs, retrievability=retrievability, settings=self._settings, limit=limit)


def _category_for(kind: Kind, category: Category | None) -> Category | None:
    return category if kind is Kind.SEMANTIC else None  # episodes have no category


def _joint_cut(semantic: list[Ranked], episodic: list[Ranked], limit: int | None) -> tuple[list[Ranked], list[Ranked]]:
    """The best ``limit`` of both kinds together; at equal scores facts come first."""
    if limit is None or len(semantic) + len(episodic) <= limit:
        return semantic, episodic
    together = sorted(chain(semantic, episodic), key=lambda ranked: -ranked.explanation.score)[:limit]
    kept = {ranked.row for ranked in together}
    return (
        [ranked for ranked in semantic if ranked.row in kept],
        [ranked for ranked in episodic if ranked.row in kept],
    )


def _is_visible(memory: AnyMemory, request: RetrievalRequest, now: datetime) -> bool:
    """The last word, on the record itself: whatever an index says, nothing of another scope or time gets out."""
    in_scope = memory.scope == request.scope or (
        request.include_child_scopes and memory.scope.startswith(f"{request.scope}/")
    )
    return in_scope and _holds(memory, request.as_of) and (memory.expires_at is None or memory.expires_at > now)


def _holds(memory: AnyMemory, as_of: datetime | None) -> bool:
    invalid_at = memory.invalid_at if isinstance(memory, SemanticMemory) else None
    if as_of is None:
        return invalid_at is None
    since = memory.valid_at if isinstance(memory, SemanticMemory) else memory.start_at
    return since <= as_of and (invalid_at is None or invalid_at > as_of)


def _hydrated(
    ranked: list[Ranked], memories: dict[int, AnyMemory], kind: type[KindT]
) -> tuple[RetrievedMemory[KindT], ...]:
    """The memories themselves; ranks run from 1 without gaps, also when one has just been deleted."""
    present = [(memory, each.explanation) for each in ranked if isinstance(memory := memories.get(each.row), kind)]
    return tuple(
        RetrievedMemory(memory=memory, rank=position, score=explanation.score, explanation=explanation)
        for position, (memory, explanation) in enumerate(present, start=1)
    )


def _pending_review(result: RetrievalResult) -> PendingReview:
    return PendingReview(
        scope=result.scope,
        query=result.query,
        memories=tuple(MemoryKey(scope=hit.memory.scope, id=hit.memory.id) for hit in result.episodic),
        created_at=result.now,
    )


def _days(days_limit: object) -> timedelta:
    if isinstance(days_limit, bool) or not isinstance(days_limit, int | float) or not 0 <= days_limit <= MAX_DAYS:
        raise ValidationError(f"days_limit must be a number of days from 0 to {MAX_DAYS}, not {days_limit!r}")
    return timedelta(days=days_limit)
