"""Queue of messages per scope: due times, and claims of the processes that work on it (specification §2.11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import uuid_utils

from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Queued
from memory_retrievers.models.storage import QueuedMessage, QueueState
from memory_retrievers.protocols import Clock
from memory_retrievers.settings import IngestionSettings

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.conversations import SQLConversations


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on the first messages of a queue, until the lease ends or expires.

    Attributes:
        lease: Its token.
        messages: The messages it covers; never more than a window, however many were handed in at once.
        is_all: Whether there were no others.
        window_doubled: Whether the look before saw a single topic.
        previous_summary: The summary of the episode before.
    """

    lease: str
    messages: tuple[QueuedMessage, ...]
    is_all: bool
    window_doubled: bool
    previous_summary: str | None


class MessageQueue:
    """Messages on their way to become episodes.

    Args:
        conversations: Where they wait.
        settings: When they are due.
        clock: Tells what time it is.
    """

    def __init__(self, conversations: SQLConversations, *, settings: IngestionSettings, clock: Clock) -> None:
        self._conversations = conversations
        self._settings = settings
        self._clock = clock

    def push(self, scope: str, messages: Sequence[Message]) -> Queued:
        """Let messages wait; those without a time get the current one."""
        now = self._clock.now()
        queued = [
            QueuedMessage(
                id=str(uuid_utils.uuid7()),
                message=Message(role=each.role, content=each.content, timestamp=each.timestamp or now),
            )
            for each in messages
        ]
        self._conversations.append(scope, queued)
        state = self._conversations.state(scope)
        return Queued(accepted=len(queued), queued=state.messages, due=self.is_due(state))

    def is_due(self, state: QueueState) -> bool:
        """True if a queue is large or old enough to be worked on, and is not claimed."""
        return not self.is_leased(state) and self._is_enough(state)

    def is_leased(self, state: QueueState) -> bool:
        """True if a process has claimed a queue and the claim has not expired."""
        return state.leased_at is not None and state.leased_at >= self._expired()

    def due_at(self, state: QueueState) -> datetime | None:
        """The moment when a queue that gets no further messages is due by its age; None if never."""
        if state.first_at is None or state.messages < self._settings.min_messages:
            return None
        try:
            return state.first_at + timedelta(hours=self._settings.due_after_hours)
        except OverflowError:  # a message may claim to be of the last day there is
            return None

    def claim(self, scope: str, *, whole: bool = False) -> Claim | None:
        """Claim the first messages, a window of them, if the queue is due and no other process has claimed it.

        Args:
            scope: Whose queue.
            whole: Also if it is not due, as long as there is a message.
        """
        state = self._conversations.state(scope)
        if not state.messages or self.is_leased(state) or not (whole or self._is_enough(state)):
            return None
        lease, messages = self._conversations.new_lease(), min(state.messages, self._window(state))
        claimed = self._conversations.claim(
            scope, lease=lease, messages=messages, at=self._clock.now(), expired=self._expired()
        )
        if not claimed:
            return None
        covered = tuple(self._conversations.head(scope, limit=messages))
        if len(covered) < messages:  # somebody has drained it since it was looked at
            self._conversations.release(scope, lease=lease)
            return self.claim(scope, whole=whole)
        return Claim(
            lease=lease,
            messages=covered,
            is_all=messages == state.messages,
            window_doubled=state.window_doubled,
            previous_summary=state.previous_summary,
        )

    def _is_enough(self, state: QueueState) -> bool:
        settings = self._settings
        if state.first_at is None or state.messages < settings.min_messages:
            return False
        return state.messages >= self._window(state) or self._clock.now() - state.first_at > timedelta(
            hours=settings.due_after_hours
        )

    def _window(self, state: QueueState) -> int:
        return self._settings.doubled_window if state.window_doubled else self._settings.window

    def _expired(self) -> datetime:
        return self._clock.now() - timedelta(minutes=self._settings.lease_minutes)
