"""The write path: queued messages become episodes, episodes facts, and retrievals are reviewed.

Every step thinks first and then writes all it has found out in one transaction, together with what says that it is
done. A process that dies leaves a step undone or done, never half done, and nothing is done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from memory_retrievers import review, scopes
from memory_retrievers.errors import MemoryRetrieversError, ValidationError
from memory_retrievers.ingestion.episodes import drafts_of
from memory_retrievers.ingestion.queue import Claim, MessageQueue
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, EpisodicDraft, EpisodicMemory, MemoryKey, Rating
from memory_retrievers.protocols import Background, Judge, ReviewJob, Segment, Segmenter
from memory_retrievers.reports import Queued, Report
from memory_retrievers.settings import IngestionSettings, ReviewSettings
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.ingestion.consolidation import FactConsolidator
    from memory_retrievers.passages import Vectors

RECENT_EPISODES: Final = 20
"""So many of the scope's newest episodes are what a segment's surprise is measured against."""

_POLL_SECONDS: Final = 0.02


class IngestionPipeline:
    """Everything between "a message arrives" and "a memory can be found".

    Args:
        store: Where everything is kept.
        segmenter: Cuts messages into segments.
        judge: Rates retrieved memories.
        consolidator: Turns episodes into facts; None leaves them as they are, until there is a language model.
        settings: How messages become episodes.
        review_settings: How memories are reviewed.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        segmenter: Segmenter,
        judge: Judge,
        consolidator: FactConsolidator | None,
        settings: IngestionSettings,
        review_settings: ReviewSettings,
    ) -> None:
        self.queue = MessageQueue(store.ledger.conversations, settings=settings, clock=store.clock)
        self._store = store
        self._conversations = store.ledger.conversations
        self._segmenter = segmenter
        self._judge = judge
        self._consolidator = consolidator
        self._settings = settings
        self._review_settings = review_settings
        self._consolidating = threading.Lock()

    def push(self, scope: str, messages: Sequence[Message]) -> Queued:
        """Queue messages, as far as the store may take them in.

        Raises:
            ValidationError: One of them is no ``Message``; nothing was queued.
        """
        if strangers := [type(each).__name__ for each in messages if not isinstance(each, Message)]:
            raise ValidationError(
                f"messages are Message(role=..., content=...) objects, not {strangers[0]}: "
                "Message.from_langchain and Message.from_llama_index make them of a framework's"
            )
        return self.queue.push(scope, [kept for each in messages if (kept := self._store.admitted(each)) is not None])

    def process(self, scope: str) -> Report:
        """Do what is due in a scope.

        Raises:
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
        """
        report = Report()
        while (claim := self.queue.claim(scope)) is not None:
            report = report.joined(self._work(scope, claim, drain_all=False))
        return self._finished(scope, report)

    def flush(self, scope: str) -> Report:
        """Make episodes of everything that is queued, after whoever works on it, and do all that follows.

        Raises:
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
        """
        report = Report()
        while (state := self._conversations.state(scope)).messages:
            claim = self.queue.claim(scope, whole=True)
            if claim is not None:
                report = report.joined(self._work(scope, claim, drain_all=claim.is_all))
            elif self.queue.is_fenced(state):
                time.sleep(_POLL_SECONDS)
        return self._finished(scope, report)

    def scopes(self) -> list[str]:
        """The scopes in which something may be due."""
        waiting = self._conversations.scopes()
        if self._consolidator is None:
            return waiting
        return sorted({*waiting, *self._store.ledger.unconsolidated_scopes()})

    def process_all(self, *, within: str | None = None) -> Report:
        """Do what is due in every scope; one that fails does not keep the others from their turn.

        Args:
            within: Only in this scope and those below it.

        Raises:
            MemoryRetrieversError: The first failure, after all scopes have had their turn.
        """
        report, failure = Report(), None
        for scope in self.scopes():
            if within is not None and not scopes.is_within(within, scope):
                continue
            try:
                report = report.joined(self.process(scope))
            except MemoryRetrieversError as error:
                failure = failure or error
        if within is None:
            self.erase_old_messages()
        if failure is not None:
            raise failure
        return report

    def review(self, id: str, *, scope: str, rating: Rating | str) -> EpisodicMemory:
        """Rate one episode now.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is a fact, or there is no such rating.
        """
        return review.review_one(self._store, id, scope=scope, rating=rating, now=self._store.now())

    def erase_old_messages(self) -> int:
        """Erase the messages that are to be kept no longer; gives the number of episodes that had some."""
        days = self._settings.keep_messages_days
        if days is None:
            return 0
        return self._store.erase_messages(before=self._store.now() - timedelta(days=days))

    def _work(self, scope: str, claim: Claim, *, drain_all: bool) -> Report:
        messages = [each.message for each in claim.messages]
        try:
            segments = self._segments(scope, messages, claim)
        except BaseException:
            self._conversations.release(scope, fence=claim.fence)
            raise
        if not drain_all:
            if len(segments) == 1 and not claim.window_doubled:
                self._conversations.release(scope, fence=claim.fence, window_doubled=True)
                return Report()
            segments = segments if len(segments) == 1 else segments[:-1]  # the last one may still go on
        return Report(episodes=self._stored(scope, claim, segments, conversation=messages))

    def _segments(self, scope: str, messages: Sequence[Message], claim: Claim) -> list[Segment]:
        now = self._store.now()
        recent = self._store.ledger.recent(scope=scope, limit=RECENT_EPISODES, now=now, since=None)
        background = Background(previous_summary=claim.previous_summary, recent=recent, embed=self._embed)
        return self._segmenter.segment(messages, background)

    def _stored(
        self, scope: str, claim: Claim, segments: Sequence[Segment], *, conversation: Sequence[Message]
    ) -> tuple[EpisodicMemory, ...]:
        """Make the episodes, and in the same transaction drain their messages and take the reviews that wait."""
        drafts: list[EpisodicDraft] = drafts_of(scope, claim.messages, segments, settings=self._settings)
        taken = sum(segment.messages for segment in segments)
        goes_on = taken < len(claim.messages)

        def drain(stored: list[AnyMemory]) -> None:
            last = stored[-1] if goes_on and stored else None
            summary = last.summary if isinstance(last, EpisodicMemory) else None
            if not self._conversations.drain(scope, fence=claim.fence, messages=taken, previous_summary=summary):
                raise _FenceIsGoneError
            self._conversations.take_reviews(scope, conversation=conversation, at=self._store.now())

        try:
            stored = self._store.put(drafts, together=drain)
        except _FenceIsGoneError:  # it has grown old, or the scope was forgotten: whoever came after has the say
            return ()
        except BaseException as error:
            still_ours = self._conversations.release(scope, fence=claim.fence)
            if isinstance(error, ValidationError) and not still_ours:
                return ()  # they have made the same episode
            raise
        return tuple(memory for memory in stored if isinstance(memory, EpisodicMemory))

    def _finished(self, scope: str, report: Report) -> Report:
        """Do what follows from new episodes: reviews, then facts."""
        for job in self._conversations.review_jobs(scope):
            report = report.joined(Report(reviews=self._reviewed(job)))
        if self._consolidator is not None and self._consolidator.due(scope):  # else nobody waits for the lock
            with self._consolidating:
                report = report.joined(self._consolidator.consolidate(scope))
        return report.joined(Report(waiting=self._conversations.state(scope).messages))

    def _reviewed(self, job: ReviewJob) -> tuple[tuple[MemoryKey, Rating], ...]:
        changes = review.due_reviews(
            self._store,
            reviews=job.reviews,
            conversation=job.conversation,
            reviewed_at=job.reviewed_at,
            judge=self._judge,
            settings=self._review_settings,
            embed=self._embed,
        )
        with self._store.ledger.transaction(*_reviewed_scopes(job)):
            if not self._conversations.finish_review_job(job.id):
                return ()  # another worker has done it meanwhile
            return tuple(review.apply(self._store, changes))

    def _embed(self, texts: Sequence[str]) -> Vectors:
        return self._store.embedder.current().embed_documents(texts)


def _reviewed_scopes(job: ReviewJob) -> set[str]:
    """A review may name memories of scopes below the one it was filed in."""
    return {job.scope, *(key.scope for pending in job.reviews for key in pending.memories)}


class _FenceIsGoneError(Exception):
    """Somebody else works on the queue now."""
