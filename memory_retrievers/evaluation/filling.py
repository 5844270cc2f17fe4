"""Stores of conversations: filled once for each way of indexing them, opened with every setting that is compared."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from memory_retrievers.evaluation.conversations import Conversation
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import Rating
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.protocols import Embedder


class StandingClock:
    """A clock that stands where it is put."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        """The moment it stands at."""
        return self.moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A memory proved useful.

    Attributes:
        scope: The scope of the memory.
        session: The session it is of.
        at: When.
    """

    scope: str
    session: str
    at: datetime


class Opened(NamedTuple):
    """An open store, and the clock it goes by."""

    memory: AgentMemory
    clock: StandingClock


class FilledStores:
    """Conversations as stores in a directory of their own, until the end of a ``with`` statement.

    One session is one episode and one conversation a scope of a store that holds all of them.

    Args:
        conversations: What the stores hold.
        embedder: What embeds.
        uses: Which memories prove useful before anything is asked, in the order of time.
    """

    def __init__(self, conversations: Sequence[Conversation], *, embedder: Embedder, uses: Sequence[Use] = ()) -> None:
        self.conversations = tuple(conversations)
        self.embedder = embedder
        self._uses = tuple(uses)
        self._directory = tempfile.TemporaryDirectory(prefix="memory-retrievers-")
        self._filled: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    @contextmanager
    def opened(self, settings: RetrievalSettings) -> Iterator[Opened]:
        """The store that is indexed as the settings ask for, with these settings.

        Raises:
            EmbeddingError: The embedder failed.
        """
        clock = StandingClock(max(conversation.asked_at for conversation in self.conversations))
        place = Path(self._directory.name) / settings.passages
        with AgentMemory.open(place, embedder=self.embedder, retrieval=settings, clock=clock) as memory:
            if settings.passages not in self._filled:
                self._fill(memory, clock)
                self._filled.add(settings.passages)
            yield Opened(memory, clock)

    def _fill(self, memory: AgentMemory, clock: StandingClock) -> None:
        for conversation in self.conversations:
            memory.remember_many(conversation.drafts())
        for use in self._uses:
            clock.moment = use.at
            memory.review(use.session, scope=use.scope, rating=Rating.GOOD)
