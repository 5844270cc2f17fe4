"""The hybrid retriever: from a request to the result and the pending review."""

from __future__ import annotations

import logging
import threading
from collections.abc import Container, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from memory_retrievers.errors import BackendError, MemoryRetrieversError, ValidationError
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, Kind, MemoryKey, SemanticMemory, scopes
from memory_retrievers.models.results import PendingReview, RetrievedMemory
from memory_retrievers.models.selection import Vector
from memory_retrievers.retrieval.excerpts import repeated_talks
from memory_retrievers.retrieval.explanations import ExplainedAbsence, ExplainedRetrieval, Outcome
from memory_retrievers.retrieval.request import MAX_EPISODES, RetrievalPlan, RetrievalRequest, is_visible, parse_limit
from memory_retrievers.retrieval.results import MOST_FACTS, Profile, RecentResult, RetrievalResult, profile_order
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.tracing import HYDRATE, observer_of_stages
from memory_retrievers.text.dates import shifted

if TYPE_CHECKING:
    from memory_retrievers.retrieval.rank_fusion import RankingByRank
    from memory_retrievers.retrieval.ranking import Ranking
    from memory_retrievers.retrieval.relevance import Calibration
    from memory_retrievers.retrieval.trace import ScoreTrace
    from memory_retrievers.storage.store import MemoryStore


FLUSH_SECONDS: Final = 1.0
"""Longest wait of a recorded retrieval for its batch, in seconds: a commit costs more than the whole retrieval."""

MOST_WAITING: Final = 1_000
"""Number of recorded retrievals, the newest, that are kept while the store cannot be reached."""

_logger = logging.getLogger("memory_retrievers")


class PendingReviewBuffer:
    """Batches pending reviews: all that arrive within a second are written in one transaction."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: list[PendingReview] = []
        self._timer: threading.Timer | None = None

    def add(self, review: PendingReview) -> None:
        """Take a review in; it is in the ledger a second later, or after :meth:`flush`."""
        with self._lock:
            self._waiting.append(review)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self._flush_in_background)
                self._timer.name, self._timer.daemon = "memory-retrievers-reviews", True
                self._timer.start()

    def flush(self) -> None:
        """Write everything that is waiting; when it returns, all that was added before is in the ledger."""
        with self._writing:  # also waits for a batch that the timer is writing
            with self._lock:
                waiting, self._waiting = self._waiting, []
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
            if not waiting:
                return
            try:
                self._store.add_pending_reviews(waiting)
            except BackendError:
                with self._lock:  # written with the next ones, once the store can be reached again
                    self._waiting = [*waiting, *self._waiting][-MOST_WAITING:]
                raise

    def _flush_in_background(self) -> None:
        try:
            self.flush()
        except MemoryRetrieversError:
            _logger.exception("pending reviews could not be written")


MAX_RECENT: Final = 100
MAX_DAYS: Final = 1_000_000

KindT = TypeVar("KindT", EpisodicMemory, SemanticMemory)


class HybridRetriever:
    """The read path over a store (specification §2.3)."""

    def __init__(self, store: MemoryStore, *, settings: RetrievalSettings, pending: PendingReviewBuffer) -> None:
        self._store = store
        self._settings = settings
        self._pending = pending
        self.query_characters: Final = settings.query_characters
        self.zone: Final = settings.zone
        self._searches_open: Final = settings.searches_open
        self._measures_tokens: Final = settings.measures_tokens

    def retrieve(self, request: RetrievalRequest, *, record: bool) -> RetrievalResult:
        """Answer a question. No forgetting state changes; with ``record`` a review is filed for later."""
        with self._store.ledger.snapshots.analyzing():
            result, _ = self._found(request)
        found = [hit.memory for hit in result.episodic if record and not hit.memory.is_open]
        if found:
            keys = tuple(MemoryKey(scope=each.scope, id=each.id) for each in found)
            review = PendingReview(scope=result.scope, query=result.query, memories=keys, created_at=result.now)
            self._pending.add(review)
        return result

    def _found(self, request: RetrievalRequest) -> tuple[RetrievalResult, RetrievalRequest]:
        """The answer, and the request that leads to it: one for more, where episodes that are not told came first."""
        asked, most = request, request.episodic_limit
        while True:
            result, hidden = self._answer(asked)
            again = repeated_talks(result.episodic, request.query) if request.is_for_prompt else set()
            more = hidden + len(again)
            if not more and asked is request:  # as nearly always
                return result, asked
            if asked.limit is not None or asked.episodic_limit >= min(most + more, MAX_EPISODES):
                break
            asked = replace(asked, episodic_limit=min(most + 2 * more, MAX_EPISODES))
        repeated_last = sorted(result.episodic, key=lambda hit: hit.memory.key in again)
        told = {hit.memory.key for hit in repeated_last[:most]}
        return replace(result, episodic=_numbered(result.episodic, told)), asked

    def _answer(self, request: RetrievalRequest) -> tuple[RetrievalResult, int]:
        """Search once; also the number of episodes that the prompt has already."""
        from memory_retrievers.retrieval.candidates import read_candidates
        from memory_retrievers.retrieval.ranking import rank
        from memory_retrievers.retrieval.relevance import calibration_of, relevant
        from memory_retrievers.retrieval.unindexed_candidates import load, prepare, read_all  # numpy is loaded late

        store, settings = self._store, self._settings
        now = store.now().astimezone(request.zone(settings))
        snapshots = store.ledger.snapshots
        with snapshots.turn(snapshots.loaded(request.scope, include_child_scopes=request.include_child_scopes)):
            plan = RetrievalPlan.of(request, store=store, now=now, settings=settings)
        passages = max((each.passages for each in plan.statistics.values()), default=0)

        def find(vector: Vector) -> tuple[dict[Kind, Ranking], dict[int, AnyMemory]]:
            waiting = self._searches_open and plan.may_find_open  # what was said may have been stored meanwhile
            by_tokens = self._measures_tokens and store.embedder.gives_tokens
            is_plain = request.as_of is None and not (waiting or by_tokens)
            read = read_candidates if is_plain else read_all
            candidates = read(store, plan, vector=vector, settings=settings)
            rankings = rank(candidates, plan, ledger=store.ledger, settings=settings)
            with observer_of_stages.get()(HYDRATE):
                rows = [hit.row for each in rankings.values() for hit in each.returned]
                if is_plain:
                    return rankings, store.load(rows, as_of=None)
                return rankings, load(store, candidates, rows, as_of=request.as_of)

        if self._searches_open and (plan.may_find_open or store.open_episodes.kept):
            plan = prepare(store, plan, settings=settings)
        rankings, memories = store.search(plan.embedded, find, known=plan.states, passages=passages)
        visible = {row: memory for row, memory in memories.items() if is_visible(memory, request, now=now)}
        calibration = calibration_of(store.embedder.id, store.embedder.relevance_note)
        semantic = _hydrated(rankings.get(Kind.SEMANTIC), visible, SemanticMemory, plan, calibration)
        episodic = _hydrated(rankings.get(Kind.EPISODIC), visible, EpisodicMemory, plan, calibration)
        is_auto = request.min_relevance == "auto"
        asks_for_all = is_auto and plan.question.asks_for_all  # nothing is beside the point
        if request.category is None and settings.fusion != "rrf" and request.min_relevance and not asks_for_all:
            kept, is_by_words = relevant(semantic, episodic, plan, calibration)
            if is_auto and is_by_words and request.as_of is None and 0 < len(kept) < len(visible):
                kept |= self._newer(visible, kept, rankings)
            kept |= {memory.key for memory in visible.values() if _is_always_known(memory)}
            semantic, episodic = _numbered(semantic, kept), _numbered(episodic, kept)
        result = RetrievalResult(
            query=request.query,
            scope=request.scope,
            now=now,
            semantic=semantic,
            episodic=episodic,
            fact_display_length=settings.fact_display_length,
        )
        return result, sum(map(request.has_before_it, memories.values())) if request.in_prompt else 0

    def _newer(
        self, memories: Mapping[int, AnyMemory], above: Container[MemoryKey], rankings: Mapping[Kind, Ranking]
    ) -> set[MemoryKey]:
        """Name what is newer than a memory above the floor and about the same: that one may hold no more."""
        from memory_retrievers.retrieval.relevance import holds_since, same_matter
        from memory_retrievers.retrieval.trace import low_cosines, vectors_of  # numpy, which is loaded late

        vectors: dict[int, Vector] = {}
        for kind, ranking in rankings.items():
            of_kind = [row for row, memory in memories.items() if memory.kind is kind]
            vectors |= vectors_of(of_kind, ranking.fused, self._store)
        told = [(memory, vectors[row]) for row, memory in memories.items() if row in vectors]
        known = [(holds_since(memory), vector) for memory, vector in told if memory.key in above]
        facts, embedder = rankings.get(Kind.SEMANTIC), self._store.embedder.id
        lows = [0.0] * len(known) if facts is None else low_cosines([vector for _, vector in known], facts.fused)

        def is_newer(memory: AnyMemory, vector: Vector) -> bool:
            for (then, other), low in zip(known, lows, strict=True):
                least = same_matter(embedder, low=low if isinstance(memory, SemanticMemory) else 0.0)
                if then < holds_since(memory) and vector.shape == other.shape and float(vector @ other) >= least:
                    return True  # one of another shape was embedded anew meanwhile
            return False

        return {memory.key for memory, vector in told if is_newer(memory, vector)}

    def explain(self, request: RetrievalRequest) -> ExplainedRetrieval:
        """Explain every stage of what a request returns."""
        from memory_retrievers.retrieval.explain import explain  # numpy, which is loaded late

        with self._store.ledger.snapshots.analyzing():
            asked = self._found(request)[1] if request.in_prompt or request.is_for_prompt else request
            told = explain(self._store, asked, settings=self._settings)
        if not request.min_relevance:
            return replace(told, episodic=told.episodic[: request.episodic_limit])
        kept = self._relevances(request)
        facts, episodes = ([e for e in kind if (e.scope, e.id) in kept] for kind in (told.semantic, told.episodic))
        return replace(told, semantic=tuple(facts), episodic=tuple(episodes))

    def explain_missing(self, id: str, request: RetrievalRequest) -> ExplainedAbsence:
        """Name the stage that drops a memory, or describe all its stages if none does."""
        from memory_retrievers.retrieval.explain import explain_missing  # numpy, which is loaded late

        with self._store.ledger.snapshots.analyzing():
            absence = explain_missing(self._store, id, request, settings=self._settings)
        key = (absence.scope, absence.id)
        if absence.outcome is not Outcome.RETURNED or not request.min_relevance or key in self._relevances(request):
            return absence
        relevance = self._relevances(replace(request, min_relevance=0.0)).get(key, 0.0)
        reason = f"It is found, but its relevance of {relevance:.4f} is less than min_relevance asks for."
        return replace(absence, outcome=Outcome.NOT_RELEVANT, reason=reason)

    def _relevances(self, request: RetrievalRequest) -> dict[tuple[str, str], float]:
        found = self.retrieve(request, record=False)
        return {(hit.memory.scope, hit.memory.id): hit.relevance for hit in found}

    def recent(self, scope: str, *, limit: int, days_limit: float | None, facts: bool = False) -> RecentResult:
        """List the scope's newest episodes (specification §2.17), open ones included, and if asked its newest facts.

        Args:
            scope: Scope to read; scopes below it are not included.
            limit: Largest number of either kind; taken as 1 to 100.
            days_limit: Only memories stored in the last so many days; None is any age.
            facts: Also list facts.
        """
        now, ledger, parsed = self._store.now(), self._store.ledger, scopes.parse(scope)
        most = min(max(parse_limit("limit", limit), 1), MAX_RECENT)
        since = None if days_limit is None else shifted(now, -_days(days_limit))
        stored = ledger.recent(EpisodicMemory, scope=parsed, limit=most, now=now, since=since)
        known = ledger.recent(SemanticMemory, scope=parsed, limit=most, now=now, since=since) if facts else ()
        still_open = self._store.open_episodes.episodes(parsed) if self._settings.searches_open else []
        new = [each for each in still_open if since is None or each.created_at >= since]
        newest = sorted([*new, *stored], key=lambda each: (each.created_at, each.end_at), reverse=True)
        return RecentResult(
            now=now.astimezone(self.zone),
            episodic=tuple(newest[:most]),
            semantic=tuple(known) if facts else None,
            fact_display_length=self._settings.fact_display_length,
        )

    def profile(self, scope: str) -> Profile:
        """Read what a model should always know of a scope."""
        parsed = scopes.parse(scope)
        facts = self._store.ledger.profile_facts(scope=parsed, limit=MOST_FACTS, now=self._store.now())
        return Profile(
            scope=parsed,
            facts=tuple(sorted(facts, key=profile_order)),
            fact_display_length=self._settings.fact_display_length,
            time_zone=self._settings.time_zone,
        )


def _hydrated(
    ranking: Ranking | None,
    memories: dict[int, AnyMemory],
    kind: type[KindT],
    plan: RetrievalPlan,
    calibration: Mapping[Kind, Calibration],
) -> tuple[RetrievedMemory[KindT], ...]:
    """Build the hits; ranks run from 1 without gaps, also when one has just been deleted."""
    if ranking is None:
        return ()
    fitted = calibration[Kind.SEMANTIC if kind is SemanticMemory else Kind.EPISODIC].weights
    weights = None if plan.question.is_small_talk else fitted
    present = [(memory, each) for each in ranking.returned if isinstance(memory := memories.get(each.row), kind)]
    traces: list[ScoreTrace | RankingByRank] = []
    relevances: list[float] = []  # both worked out when they are first read

    def trace() -> ScoreTrace | RankingByRank:
        from memory_retrievers.retrieval.trace import trace_of  # numpy, which is loaded late

        if not traces:
            traces[:] = [trace_of(ranking.fused)]
        return traces[0]

    def relevance(place: int) -> float:
        if not relevances:
            relevances[:] = trace().relevances([each for _, each in present], weights=weights)
        return relevances[place]

    hits: list[RetrievedMemory[KindT]] = []
    for position, (memory, each) in enumerate(present, start=1):
        hit = RetrievedMemory.__new__(RetrievedMemory)  # a frozen one sets its fields one by one
        vars(hit).update(
            memory=memory,
            rank=position,
            score=each.score,
            relevance=partial(relevance, position - 1),
            explanation=partial(lambda each: trace().explanation(each), each),
            matches=partial(lambda row, of: trace().matches(row, getattr(of, "messages", ())), each.row, memory),
        )
        hits.append(hit)
    return tuple(hits)


def _numbered(
    hits: tuple[RetrievedMemory[KindT], ...], kept: Container[MemoryKey]
) -> tuple[RetrievedMemory[KindT], ...]:
    """Leave out the other hits; the ranks of those that are left run from 1."""
    left = [hit for hit in hits if hit.memory.key in kept]
    if len(left) == len(hits):
        return hits
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(left, start=1))


def _is_always_known(memory: AnyMemory) -> bool:
    """Guidelines, and what is pinned, are left out of no answer."""
    return memory.is_pinned or (isinstance(memory, SemanticMemory) and memory.category is Category.GUIDELINE)


def _days(days_limit: object) -> timedelta:
    if isinstance(days_limit, bool) or not isinstance(days_limit, int | float) or not 0 <= days_limit <= MAX_DAYS:
        raise ValidationError(f"days_limit must be a number of days from 0 to {MAX_DAYS}, not {days_limit!r}")
    return timedelta(days=days_limit)
