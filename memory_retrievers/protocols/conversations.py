"""The socket for what waits to become memories: queued messages, who works on them, and retrievals to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memory_retrievers.contents import StoredQueue
from memory_retrievers.messages import Message
from memory_retrievers.models import MemoryKey
from memory_retrievers.retrieved import PendingReview


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message that waits.

    Attributes:
        id: Given on arrival, never used again.
        message: The message, with its time.
    """

    id: str
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A scope's queue.

    Attributes:
        messages: How many messages wait.
        first_at: The time of the first of them; None if there is none.
        fenced_at: Since when somebody works on it; None if nobody does.
        window_doubled: Whether the last look saw a single topic.
        previous_summary: The summary of the episode before, if the queue goes on from there.
    """

    messages: int = 0
    first_at: datetime | None = None
    fenced_at: datetime | None = None
    window_doubled: bool = False
    previous_summary: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewJob:
    """Retrievals that are to be judged by the conversation around them.

    Attributes:
        id: Its number in the ledger.
        scope: The scope.
        reviewed_at: The moment the review counts from.
        conversation: The messages.
        reviews: The retrievals, oldest first.
    """

    id: int
    scope: str
    reviewed_at: datetime
    conversation: tuple[Message, ...]
    reviews: tuple[PendingReview, ...]


class Conversations(Protocol):
    """Messages that wait, by scope, and the fences that keep two workers off one queue (specification §2.11)."""

    def append(self, scope: str, messages: Sequence[QueuedMessage]) -> None:
        """Let messages wait, behind those that do."""
        ...

    def restore(self, queue: StoredQueue) -> None:
        """Let messages of another store wait here as they did there."""
        ...

    def state(self, scope: str) -> QueueState:
        """How the scope's queue stands."""
        ...

    def head(self, scope: str, *, limit: int) -> list[QueuedMessage]:
        """The first messages of the queue, in the order they came."""
        ...

    def scopes(self) -> list[str]:
        """The scopes in which messages or review jobs wait, sorted."""
        ...

    def claim(self, scope: str, *, fence: str, messages: int, at: datetime, expired: datetime) -> bool:
        """Put up a fence around the first messages, unless there is one that is not older than ``expired``."""
        ...

    def release(self, scope: str, *, fence: str, window_doubled: bool | None = None) -> bool:
        """Take the fence down, and note whether the window is doubled; False if the fence is not there any more."""
        ...

    def drain(self, scope: str, *, fence: str, messages: int, previous_summary: str | None) -> bool:
        """Take the first messages out and the fence down, and start over with a single window.

        Returns:
            False, with nothing done, if the fence is not there any more.
        """
        ...

    def tear_down_fences(self) -> None:
        """Take all fences down: whoever put them up is gone."""
        ...

    def take_reviews(self, scope: str, *, conversation: Sequence[Message], at: datetime) -> None:
        """Make a review job of all pending reviews of the scope, if there are any."""
        ...

    def review_jobs(self, scope: str) -> list[ReviewJob]:
        """The scope's review jobs, oldest first."""
        ...

    def finish_review_job(self, job: int) -> bool:
        """Remove a review job; False if it has gone already."""
        ...

    def old_messages(self, *, before: datetime, limit: int) -> list[MemoryKey]:
        """Some episodes that ended before a moment and still have their messages."""
        ...

    def erase_messages(self, keys: Sequence[MemoryKey]) -> None:
        """Erase the messages of episodes; their passages are left."""
        ...
