"""Queues of messages by conversation: when they are due, and who has claimed them (specification §2.11)."""

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
from memory_retrievers.text.dates import shifted

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.conversations import SQLConversations


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to work on the first messages of a queue, until the lease ends or expires.

    On a last look a single topic is taken for an episode, and not looked at once more with what follows it: it has
    been, or nothing more would be seen.
    """

    scope: str
    conversation: str | None
    lease: str  # its token
    messages: tuple[QueuedMessage, ...]  # never more than a window, however many were handed in at once
    ends: bool  # whether nothing more is to be waited for, so that the last segment is an episode as well
    is_last_look: bool
    previous_summary: str | None  # of the episode before


class MessageQueue:
    """Messages on their way to become episodes."""

    def __init__(self, conversations: SQLConversations, *, settings: IngestionSettings, clock: Clock) -> None:
        self._conversations = conversations
        self._settings = settings
        self._clock = clock

    def named(self, conversation: str | None) -> str | None:
        """The conversation as whose messages are kept apart; None where a scope has one conversation."""
        return conversation if self._settings.by_conversation else None

    def push(self, scope: str, messages: Sequence[Message], *, conversation: str | None = None) -> Queued:
        """Let messages of a conversation wait; those without a time get the current one.

        Args:
            scope: Scope of the conversation.
            messages: What was said, in order.
            conversation: The conversation, as :meth:`named` gives it.
        """
        now = self._clock.now()
        queued = [
            QueuedMessage(
                id=str(uuid_utils.uuid7()),
                message=Message(role=each.role, content=each.content, timestamp=each.timestamp or now),
            )
            for each in messages
        ]
        self._conversations.append(scope, queued, conversation=conversation, at=now)
        state = self._conversations.state(scope, conversation)
        return Queued(accepted=len(queued), queued=state.messages, due=self.is_due(state))

    def is_due(self, state: QueueState) -> bool:
        """True if a queue is large, old or silent enough to be worked on, and is not claimed."""
        return not self.is_leased(state) and (self._is_enough(state) or self._is_silent(state))

    def may_be_due(self, state: QueueState) -> bool:
        """True if :meth:`claim` may succeed: also where a silence may have ended what stands before newer messages."""
        idle_after, first = self._settings.idle_after, state.first_at
        is_old = idle_after is not None and first is not None and self._clock.now() - first >= idle_after
        return self.is_due(state) or (is_old and not self.is_leased(state))

    def is_leased(self, state: QueueState) -> bool:
        """True if a process has claimed a queue and the claim has not expired."""
        return state.leased_at is not None and state.leased_at >= self._expired()

    def due_at(self, state: QueueState) -> datetime | None:
        """The moment when a queue that gets no further messages is due by its age or silence; None if never."""
        settings = self._settings
        moments = []
        if state.first_at is not None and state.messages >= settings.min_messages:
            moments.append(shifted(state.first_at, timedelta(hours=settings.due_after_hours)))
        if state.heard_at is not None and settings.idle_after is not None:
            moments.append(shifted(state.heard_at, settings.idle_after))
        return min(moments, default=None)

    def claim(
        self, scope: str, conversation: str | None = None, *, whole: bool = False, lease: str | None = None
    ) -> Claim | None:
        """Claim the first messages, a window of them, if the queue is due and no other process has claimed it.

        Args:
            scope: Scope of the queue.
            conversation: Conversation of the queue.
            whole: Also if it is not due, as long as there is a message.
            lease: Token of the lease, which the caller releases if this fails; None makes one.
        """
        state = self._conversations.state(scope, conversation)
        before = None if whole else self._before_pause(scope, conversation, state)
        ends = whole or self._is_silent(state) or before is not None
        if not state.messages or self.is_leased(state) or not (ends or self._is_enough(state)):
            return None
        every = state.messages if before is None else before
        lease, messages = lease or self._conversations.new_lease(), min(every, self._window(state))
        claimed = self._conversations.claim(
            scope,
            conversation=conversation,
            lease=lease,
            messages=messages,
            at=self._clock.now(),
            expired=self._expired(),
        )
        if not claimed:
            return None
        covered = tuple(self._conversations.head(scope, conversation=conversation, limit=messages))
        if len(covered) < messages:  # somebody has drained it since it was looked at
            self._conversations.release(scope, conversation=conversation, lease=lease)
            return self.claim(scope, conversation, whole=whole, lease=lease)
        is_all = messages == every
        return Claim(
            scope=scope,
            conversation=conversation,
            lease=lease,
            messages=covered,
            ends=ends and is_all,
            # what is due by its age would be claimed again at once, and the model be asked the same
            is_last_look=state.window_doubled or (is_all and self._is_old(state)),
            previous_summary=state.previous_summary,
        )

    def _before_pause(self, scope: str, conversation: str | None, state: QueueState) -> int | None:
        """How many messages a silence has ended, though somebody speaks again; None if there was no such silence."""
        idle_after, most = self._settings.idle_after, self._settings.doubled_window
        if idle_after is None or state.first_at is None or state.messages > most:
            return None  # of a longer queue what was just said is not claimed anyway
        now = self._clock.now()
        if now - state.first_at < idle_after:
            return None
        said = [one.message.timestamp for one in self._conversations.head(scope, conversation=conversation, limit=most)]
        times = [each or now for each in said]
        ended = sum(now - each >= idle_after for each in times)
        is_tail = 0 < ended < len(times) and all(now - each < idle_after for each in times[ended:])
        return ended if is_tail and times[ended] - times[ended - 1] >= idle_after else None

    def _is_enough(self, state: QueueState) -> bool:
        if state.messages < self._settings.min_messages:
            return False
        return state.messages >= self._window(state) or self._is_old(state)

    def _is_old(self, state: QueueState) -> bool:
        waits = timedelta(hours=self._settings.due_after_hours)
        return state.first_at is not None and self._clock.now() - state.first_at > waits

    def _is_silent(self, state: QueueState) -> bool:
        idle_after = self._settings.idle_after
        if idle_after is None or state.heard_at is None:
            return False
        return abs(self._clock.now() - state.heard_at) >= idle_after  # a clock that was ahead has been set back

    def _window(self, state: QueueState) -> int:
        return self._settings.doubled_window if state.window_doubled else self._settings.window

    def _expired(self) -> datetime:
        return shifted(self._clock.now(), -timedelta(minutes=self._settings.lease_minutes))
