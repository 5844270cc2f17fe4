"""The retriever: a question becomes a ranked answer, in seven steps."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, MemoryKey, SemanticMemory
from memory_retrievers.paging import Page, page_of, parse_cursor, parse_kinds, parse_page_size
from memory_retrievers.retrieval.asking import Asked, is_visible, limits
from memory_retrievers.retrieval.pending import PendingReviewBuffer
from memory_retrievers.retrieval.request import RetrievalRequest, parse_limit
from memory_retrievers.retrieval.rerank import joint_cut
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieved import PendingReview, RetrievedMemory
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.stages import HYDRATE, stage
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vector
    from memory_retrievers.retrieval.contests import Ranked
    from memory_retrievers.retrieval.explaining import Explainer

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
        from memory_retrievers.retrieval.ranking import Ranking  # numpy, which importing the package does not load

        self._ranking = Ranking(store, settings)
        self._pending = pending

    def retrieve(self, request: RetrievalRequest, *, record: bool) -> RetrievalResult:
        """Answer a question. Forgetting state never changes here; with ``record`` a review is filed for later."""
        now = self._store.now()
        asked = Asked.of(request, store=self._store, now=now, settings=self._settings)
        limit = dict(limits(request))

        def find(vector: Vector) -> tuple[list[Ranked], list[Ranked], dict[int, AnyMemory]]:
            best = self._ranking.best(asked, vector=vector, limits=limit)
            kept = joint_cut(best.get(Kind.SEMANTIC, []), best.get(Kind.EPISODIC, []), request.limit)
            with stage(HYDRATE):
                return *kept, self._store.ledger.load([ranked.row for ranked in chain(*kept)])

        semantic, episodic, memories = self._store.search(asked.embedded, find)
        visible = {row: memory for row, memory in memories.items() if is_visible(memory, request, now=now)}
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

    def explainer(self) -> Explainer:
        """What tells why a question is answered as it is."""
        from memory_retrievers.retrieval.explaining import Explainer

        return Explainer(self._store, ranking=self._ranking)

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


def _hydrated(
    ranked: list[Ranked], memories: dict[int, AnyMemory], kind: type[KindT]
) -> tuple[RetrievedMemory[KindT], ...]:
    """The memories themselves; ranks run from 1 without gaps, also when one has just been deleted."""
    present = [(memory, each) for each in ranked if isinstance(memory := memories.get(each.row), kind)]
    return tuple(
        RetrievedMemory(
            memory=memory,
            rank=position,
            score=each.explanation.score,
            explanation=each.explanation,
            matches=each.matches,
        )
        for position, (memory, each) in enumerate(present, start=1)
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
