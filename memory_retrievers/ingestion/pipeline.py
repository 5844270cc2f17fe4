"""The pipeline from queued messages to episodes, facts and reviews."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion import reviews
from memory_retrievers.ingestion.consolidation import FactConsolidator
from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title
from memory_retrievers.ingestion.queue import Claim, MessageQueue
from memory_retrievers.ingestion.reviews import LanguageModelJudge, OfflineJudge
from memory_retrievers.ingestion.segmenters import LanguageModelSegmenter, OfflineSegmenter
from memory_retrievers.models import (
    AnyMemory,
    EpisodicDraft,
    EpisodicMemory,
    MemoryKey,
    Origin,
    Rating,
    SummaryBy,
    scopes,
)
from memory_retrievers.models.management import Channel, acting_as
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Queued, Report
from memory_retrievers.models.selection import Embedded
from memory_retrievers.models.storage import QueuedMessage, ReviewJob
from memory_retrievers.protocols import Segment, SegmentationContext
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.options import ResolvedOptions
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.storage.tracing import advance
from memory_retrievers.text.analysis import one_line
from memory_retrievers.text.dates import shifted

RECENT_EPISODES: Final = 20  # number of the scope's newest episodes that a segment's surprise is measured against

_POLL_SECONDS: Final = 0.02


class IngestionPipeline:
    """The write path from queued messages to searchable memories.

    A language model does the work where there is one, else rules do, which make no facts.

    Args:
        store: Where everything is kept.
        retriever: Finds the known facts for consolidation.
        options: Options of the store.
    """

    def __init__(self, store: MemoryStore, retriever: HybridRetriever, options: ResolvedOptions) -> None:
        model, settings, segmenter, judge = options.language_model, options.ingestion, options.segmenter, options.judge
        if segmenter is None:
            segmenter = OfflineSegmenter() if model is None else LanguageModelSegmenter(model)
        if judge is None:
            judge = OfflineJudge() if model is None else LanguageModelJudge(model)
        self._segmenter = segmenter
        self._judge = judge
        self.queue = MessageQueue(store.ledger.conversations, settings=settings, clock=store)
        self._store = store
        self._analyzing = store.ledger.snapshots.analyzing
        self._conversations = store.ledger.conversations
        self._consolidator = None if model is None else FactConsolidator(store, retriever, model, settings)
        self._settings = settings
        self._review_settings = options.review
        # who makes memories of messages, as the log names it
        self._actor = None if model is None else str(getattr(model, "name", type(model).__name__))
        self._consolidating = threading.Lock()
        self.stopping = threading.Event()  # what may take long ends with its piece

    def push(self, scope: str, messages: Sequence[Message], *, conversation: str | None = None) -> Queued:
        """Queue messages of a conversation, leaving out those that the store does not admit.

        Args:
            scope: Scope of the conversation.
            messages: What was said, in order.
            conversation: Name of the conversation; None is the one without a name.
        """
        kept = [admitted for each in messages if (admitted := self._store.admitted(each)) is not None]
        return self.queue.push(scope, kept, conversation=self.queue.named(conversation))

    def process(self, scope: str) -> Report:
        """Do what is due in a scope; a conversation that fails does not keep the others waiting."""
        report, failures = Report(), list[Exception]()
        states = self._conversations.states(scope).items()
        for conversation in [each for (_, each), state in states if self.queue.may_be_due(state)]:
            with noting(failures):
                report = report.joined(self.process_conversation(scope, conversation))
        return self.finish(scope, report, failures)

    def process_conversation(self, scope: str, conversation: str | None) -> Report:
        """Make episodes of what is due in one conversation, until it is to stop; fails as :meth:`process` does."""
        report = Report()
        with acting_as(Channel.WORKER, self._actor), self._analyzing():
            while not self.stopping.is_set() and (made := self._piece(scope, conversation)) is not None:
                report = report.joined(made)
        return report

    def finish(self, scope: str, report: Report = Report(), failures: Sequence[Exception] = ()) -> Report:  # noqa: B008
        """Do what follows from new episodes: reviews, then facts; then raise the first failure, if there was one.

        Args:
            scope: Scope of the episodes.
            report: What was done before.
            failures: What failed before.
        """
        failed = list(failures)
        with acting_as(Channel.WORKER, self._actor), self._analyzing():
            for job in self._conversations.review_jobs(scope):
                with noting(failed):
                    report = report.joined(Report(reviews=self._reviewed(job)))
            if self._consolidator is not None and self._consolidator.due(scope):  # else nobody waits for the lock
                with noting(failed), self._consolidating:
                    advance()
                    report = report.joined(self._consolidator.consolidate(scope))
        if failed:
            raise failed[0]
        waiting = sum(state.messages for state in self._conversations.states(scope).values())
        return report.joined(Report(waiting=waiting))

    def flush(self, scope: str, *, conversation: str | None = None) -> Report:
        """Make episodes of all queued messages, after any other process at work on them, and run all that follows.

        With ``conversation``, only of its messages; where it has none, what else waits is not counted.
        """
        one = self.queue.named(conversation)
        ending = [each for _, each in self._conversations.states(scope)] if one is None else [one]
        is_known = one is None or self._conversations.state(scope, one).messages > 0
        report, failures = Report(), list[Exception]()
        with acting_as(Channel.WORKER, self._actor), self._analyzing():
            for each in ending:
                with noting(failures):
                    report = report.joined(self._flushed(scope, each))
        finished = self.finish(scope, report, failures)
        return finished if is_known else replace(finished, waiting=0)

    def _flushed(self, scope: str, conversation: str | None) -> Report:
        report = Report()
        while (state := self._conversations.state(scope, conversation)).messages:
            if (made := self._piece(scope, conversation, whole=True)) is not None:
                report = report.joined(made)
            elif self.queue.is_leased(state):
                advance()
                time.sleep(_POLL_SECONDS)
        return report

    def due(self) -> dict[str, list[str | None]]:
        """The scopes in which something may be due, sorted, each with the conversations that may be.

        Those of users who have just said something are left out.
        """
        waiting = [key for key, state in self._conversations.states().items() if self.queue.may_be_due(state)]
        facts = [] if self._consolidator is None else self._consolidator.due_scopes()
        every = {scope for scope, _ in waiting}.union(self._conversations.reviewed_scopes(), facts)
        due: dict[str, list[str | None]] = {scope: [] for scope in sorted(every)}
        for scope, conversation in waiting:
            due[scope].append(conversation)
        return due

    def process_all(self, *, within: str | None = None) -> Report:
        """Do what is due in every scope, or in one and those below it; one that fails does not keep the others waiting.

        Raises:
            MemoryRetrieversError: The first failure, after all scopes have had their turn.
        """
        report, failures = Report(), list[Exception]()
        for scope in (each for each in self.due() if within is None or scopes.is_within(within, each)):
            with noting(failures):
                report = report.joined(self.process(scope))
        if within is None:
            self.erase_old_messages()
        if failures:
            raise failures[0]
        left = self._conversations.states().items()  # also where nothing is due
        waiting = sum(state.messages for (scope, _), state in left if within is None or scopes.is_within(within, scope))
        return replace(report, waiting=waiting)

    def embed_open(self) -> None:
        """Embed what is queued and has no vector yet, so that searches need not; where messages are searched."""
        if self._store.searched == "turns":
            self._store.open_episodes.embed_rest(ends=self.stopping.is_set)

    def erase_old_messages(self) -> int:
        """Erase the messages that are to be kept no longer; gives the number of episodes that had some."""
        if (days := self._settings.keep_messages_days) is None:
            return 0
        return self._store.erase_messages(before=shifted(self._store.now(), -timedelta(days=days)))

    def _piece(self, scope: str, conversation: str | None, *, whole: bool = False) -> Report | None:
        """Claim messages and work on them; None if none can be claimed."""
        lease = self._conversations.new_lease()
        try:  # from before the lease is taken: Ctrl-C or a time limit may end this at any instruction
            claim = self.queue.claim(scope, conversation, whole=whole, lease=lease)
            return None if claim is None else self._work(claim)
        except BaseException:
            self._conversations.release(scope, conversation=conversation, lease=lease)
            raise

    def _work(self, claim: Claim) -> Report:
        advance()  # whoever watches may end it between two pieces
        segments = self._segments([each.message for each in claim.messages], claim)
        if not claim.ends:
            if len(segments) == 1 and not claim.is_last_look:
                self._conversations.release(
                    claim.scope, conversation=claim.conversation, lease=claim.lease, window_doubled=True
                )
                return Report()
            segments = segments if len(segments) == 1 else segments[:-1]  # the last one may still go on
        return Report(episodes=self._stored(claim, segments))

    def _segments(self, messages: Sequence[Message], claim: Claim) -> list[Segment]:
        now, read = self._store.now(), self._store.ledger.recent
        recent = read(EpisodicMemory, scope=claim.scope, limit=RECENT_EPISODES, now=now, since=None)
        context = SegmentationContext(
            previous_summary=claim.previous_summary, recent=recent, embed=self._store.open_episodes.embed
        )
        segments = self._segmenter.segment(messages, context)
        taken = [segment.messages for segment in segments]
        if sum(taken) != len(messages) or min(taken, default=1) < 1:
            raise ConfigurationError(
                f"the segmenter {type(self._segmenter).__name__} must cut {len(messages)} messages into segments of "
                f"at least 1, not into {taken}"
            )
        return segments

    def _stored(self, claim: Claim, segments: Sequence[Segment]) -> tuple[EpisodicMemory, ...]:
        """Make the episodes, and in the same transaction drain their messages and take the reviews that wait."""
        scope, taken = claim.scope, sum(segment.messages for segment in segments)
        goes_on = taken < len(claim.messages)

        def drain(stored: list[AnyMemory]) -> None:
            last = stored[-1] if goes_on and stored else None
            summary = last.summary if isinstance(last, EpisodicMemory) else None
            drained = self._conversations.drain(
                scope,
                conversation=claim.conversation,
                lease=claim.lease,
                messages=[each.id for each in claim.messages[:taken]],
                previous_summary=summary,
            )
            if not drained:
                raise _LeaseLostError
            said = [each.message for each in claim.messages]
            self._conversations.take_reviews(scope, conversation=said, at=self._store.now())

        def known() -> Mapping[str, Embedded]:
            return self._store.open_episodes.vectors(claim.messages, scope=scope, conversation=claim.conversation)

        try:
            waiting = iter(claim.messages)
            drafts: list[EpisodicDraft] = [
                _draft(claim, [*itertools.islice(waiting, each.messages)], each, self._settings) for each in segments
            ]
            stored = self._store.put(drafts, together=drain, known=known)
        except _LeaseLostError:  # it has grown old, or the scope was forgotten: whoever came after has the say
            return ()
        except ValidationError:
            if not self._conversations.release(scope, conversation=claim.conversation, lease=claim.lease):
                return ()  # they have made the same episode
            raise
        return tuple(memory for memory in stored if isinstance(memory, EpisodicMemory))

    def _reviewed(self, job: ReviewJob) -> tuple[tuple[MemoryKey, Rating], ...]:
        advance()
        changes = reviews.due_reviews(self._store, job, judge=self._judge, settings=self._review_settings)
        below = {key.scope for pending in job.reviews for key in pending.memories}  # or the same
        with self._store.transaction(*{job.scope, *below}):
            if not self._conversations.finish_review_job(job.id):
                return ()  # another worker has done it meanwhile
            days = self._review_settings.min_days
            return reviews.apply(self._store, changes, reviewed_at=job.reviewed_at, min_days=days)


@contextmanager
def noting(failures: list[Exception]) -> Iterator[None]:
    """Note what fails, whatever it is, and go on: a ``before_store`` may raise anything."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        failures.append(error)


class _LeaseLostError(Exception):
    """The claim on the queue was lost to another process."""


_NAMESPACE: Final = uuid.UUID("5f0d5b5e-7d61-5c0a-9a53-2f6f1f0f7c11")


def _draft(
    claim: Claim, queued: Sequence[QueuedMessage], segment: Segment, settings: IngestionSettings
) -> EpisodicDraft:
    messages = tuple(each.message for each in queued)
    times = [message.timestamp for message in messages if message.timestamp is not None]
    surprise = min(max(segment.surprise or 0.0, 0.0), 1.0)
    summary = one_line(segment.summary or "")  # None is what a careless segmenter leaves empty
    return EpisodicMemory.new(
        scope=claim.scope,
        id=episode_id(claim.scope, queued),
        title=one_line(segment.title or "") or fallback_title(messages),
        summary=summary or fallback_summary(messages),
        summary_by=segment.summary_by if summary else SummaryBy.RULES,
        conversation_id=claim.conversation,
        messages=messages,
        surprise=surprise,
        start_at=min(times, default=None),
        end_at=max(times, default=None),
        origin=Origin.CONVERSATION,
        is_flashbulb=settings.keep_flashbulbs and surprise >= settings.flashbulb_surprise,
    )


def episode_id(scope: str, queued: Sequence[QueuedMessage]) -> str:
    """Id derived from the messages, so that ingesting them again stores nothing twice; equal texts differ in it."""
    return str(uuid.uuid5(_NAMESPACE, f"{scope}\n{queued[0].id}\n{queued[-1].id}"))
