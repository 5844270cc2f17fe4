"""What turns conversations into memories: messages in, episodes and facts out, and reviews of what was used."""

from __future__ import annotations

from collections.abc import Sequence

from memory_retrievers import scopes
from memory_retrievers.errors import NotFoundError
from memory_retrievers.memory.handle import Handle
from memory_retrievers.messages import Message
from memory_retrievers.models import EpisodicMemory, Rating, SemanticMemory
from memory_retrievers.reports import Queued, Report
from memory_retrievers.retrieval.request import parse_limit


class Conversing(Handle):
    """The part of ``AgentMemory`` that takes conversations in."""

    def add_messages(self, scope: str, messages: Sequence[Message]) -> Queued:
        """Queue messages of a conversation; cheap, since no model is called and nothing is embedded.

        They are kept from here on, and become part of an episode when :meth:`process_due` finds a border behind them,
        or with :meth:`flush`.

        Returns:
            How many were accepted, how many the queue holds, and whether something is due.

        Raises:
            ValidationError: The scope is malformed; nothing was queued.
        """
        queued = self._engine.pipeline.push(scopes.parse(scope), messages)
        if queued.due:
            self._engine.wake_worker()
        return queued

    def process_due(self, scope: str | None = None, *, include_child_scopes: bool = False) -> Report:
        """Turn what is due into episodes, review what was retrieved, and turn episodes into facts.

        Messages are due when there are 20 of them, or 5 of which the first is older than two hours
        (``IngestionSettings``). Facts need a language model.

        Args:
            scope: Only this scope; None is every scope in which something waits.
            include_child_scopes: Also every scope below ``scope``.

        Raises:
            ValidationError: The scope is malformed.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
        """
        self._pending.flush()
        with self._written():
            if scope is None or include_child_scopes:
                return self._engine.pipeline.process_all(within=None if scope is None else scopes.parse(scope))
            return self._engine.pipeline.process(scopes.parse(scope))

    def flush(self, scope: str) -> Report:
        """Make episodes of everything that is queued, the last message included, as at the end of a session.

        Raises:
            ValidationError: The scope is malformed.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
        """
        self._pending.flush()
        with self._written():
            return self._engine.pipeline.flush(scopes.parse(scope))

    def start_worker(self) -> None:
        """Let a thread do what is due, when messages arrive and when they have waited long enough, until :meth:`close`.

        What it cannot do is tried again later, and a warning is logged. A second call does nothing.

        Raises:
            ConfigurationError: The memory was opened read-only.
        """
        self._engine.start_worker()

    def review(self, id: str, *, scope: str, rating: Rating | str) -> EpisodicMemory:
        """Say how an episode served, so that it fades slower or faster from now on (FSRS-6).

        Args:
            id: The episode.
            scope: Its scope.
            rating: ``again``, ``hard``, ``good`` or ``easy``.

        Returns:
            The episode with its new forgetting state.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is a fact, or there is no such rating.
        """
        return self._engine.pipeline.review(id, scope=scopes.parse(scope), rating=rating)

    def history(self, fact_id: str, *, scope: str) -> tuple[SemanticMemory, ...]:
        """The versions of a fact: itself, what it has replaced and what has replaced it, oldest first.

        Raises:
            NotFoundError: There is no such fact in this scope.
            ValidationError: The scope is malformed.
        """
        versions = self._store.ledger.versions(scope=scopes.parse(scope), id=fact_id)
        if fact_id not in {version.id for version in versions}:
            raise NotFoundError(f"Memory not found: {fact_id}")
        return tuple(versions)

    def waiting(self, scope: str, *, limit: int = 100) -> list[Message]:
        """The queued messages of a scope that no episode has been made of yet, in the order they came.

        Args:
            scope: Whose messages.
            limit: At most this many, from the first on; ``stats(scope).queued_messages`` counts all.

        Raises:
            ValidationError: The scope is malformed, or the limit is negative or no whole number.
        """
        at_most = parse_limit("limit", limit)
        queued = self._store.ledger.conversations.head(scopes.parse(scope), limit=at_most)
        return [waiting.message for waiting in queued]

    def waiting_scopes(self) -> list[str]:
        """The scopes in which messages wait to become episodes, or reviews to be made, sorted."""
        return self._store.ledger.conversations.scopes()
