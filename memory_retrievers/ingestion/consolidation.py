"""Episodes become facts: predict what is known, let a language model say what differs, write it down (§2.15).

The model is asked outside any transaction. What it says is written in one, together with the mark on the episodes it
came from; should an episode or a fact have changed meanwhile, nothing of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, zip_longest
from typing import Final

from memory_retrievers.ingestion.duplicates import is_current
from memory_retrievers.ingestion.fact_changes import FactChange, proposed
from memory_retrievers.ingestion.fact_plan import FactPlan, planned
from memory_retrievers.models import AnyMemory, EpisodicMemory, SemanticMemory
from memory_retrievers.prompts.consolidation import SYSTEM_PROMPT, ConsolidationAnswer, user_prompt
from memory_retrievers.prompts.conversation import shown_length
from memory_retrievers.protocols import LanguageModel
from memory_retrievers.reports import Report
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.store import MemoryStore

BATCH: Final = 10
"""So many episodes are shown to the model at once; more would crowd its context."""

BATCH_CHARACTERS: Final = 60_000
"""Nor more than so much of their messages, about 15,000 tokens, unless a single episode has more."""

FACTS_PER_EPISODE: Final = 20
"""So many facts are looked up for each episode (specification §2.15)."""


class FactConsolidator:
    """Turns the episodes of a scope into facts.

    Args:
        store: Where both are.
        retriever: Finds the facts that an episode touches.
        language_model: Says what the episodes teach.
        settings: When that is due, and what counts as the same fact.
    """

    def __init__(
        self,
        store: MemoryStore,
        retriever: HybridRetriever,
        language_model: LanguageModel,
        settings: IngestionSettings,
    ) -> None:
        self._store = store
        self._retriever = retriever
        self._language_model = language_model
        self._settings = settings

    def due(self, scope: str) -> bool:
        """Whether enough episodes wait, or a very surprising one (specification §2.13)."""
        waiting = self._store.ledger.unconsolidated(scope, limit=self._settings.consolidate_from)
        return len(waiting) >= self._settings.consolidate_from or any(
            episode.surprise >= self._settings.flashbulb_surprise for episode in waiting
        )

    def consolidate(self, scope: str, *, force: bool = False) -> Report:
        """Turn what waits into facts, if that is due; batch by batch, each kept as soon as it is done.

        Args:
            scope: Whose episodes.
            force: Also when it is not due yet.

        Raises:
            LanguageModelError: The model failed; the episodes of its batch wait as before.
            EmbeddingError: The embedder failed; likewise.
        """
        report = Report()
        while force or self.due(scope):
            episodes = _first_batch(self._store.ledger.unconsolidated(scope, limit=BATCH))
            if not episodes:
                break
            report = report.joined(self._consolidated(scope, episodes))
        return report

    def _consolidated(self, scope: str, episodes: Sequence[EpisodicMemory]) -> Report:
        """What one batch teaches; nothing if somebody else was faster."""
        now = self._store.now()
        told = [episode for episode in episodes if episode.expires_at is None or episode.expires_at > now]
        known = self._predicted(scope, told)
        proposals = self._calibrated(scope, told, known)
        while True:
            plan = planned(proposals, known=known, scope=scope, store=self._store, settings=self._settings)
            try:
                return self._written(plan, scope=scope, episodes=episodes)
            except _OvertakenError:
                if not all(map(self._waits, episodes)):
                    return Report()

    def _predicted(self, scope: str, episodes: Sequence[EpisodicMemory]) -> list[SemanticMemory]:
        """The facts that the episodes may touch: the best of each in turn."""
        if not self._settings.related_facts:
            return []
        found = [self._facts_near(scope, episode) for episode in episodes]
        in_turn = chain.from_iterable(zip_longest(*found))
        distinct = {fact.id: fact for fact in in_turn if fact is not None and is_current(fact, self._store)}
        return list(distinct.values())[: self._settings.related_facts]

    def _facts_near(self, scope: str, episode: EpisodicMemory) -> list[SemanticMemory]:
        request = RetrievalRequest.parse(
            episode.summary, scope=scope, episodic_limit=0, semantic_limit=FACTS_PER_EPISODE
        )
        return [hit.memory for hit in self._retriever.retrieve(request, record=False).semantic]

    def _calibrated(
        self, scope: str, episodes: Sequence[EpisodicMemory], known: Sequence[SemanticMemory]
    ) -> list[FactChange]:
        """What the model says, without new facts that may not be stored."""
        if not episodes:  # all have expired
            return []
        answer = self._language_model.generate(SYSTEM_PROMPT, user_prompt(known, episodes), ConsolidationAnswer)
        changes = proposed(answer.facts, known=known, episodes=episodes, scope=scope)
        admitted = (change.admitted_by(self._store.admitted) for change in changes)
        return [change for change in admitted if change is not None]

    def _written(self, plan: FactPlan, *, scope: str, episodes: Sequence[EpisodicMemory]) -> Report:
        report = Report()

        def write_the_rest(stored: list[AnyMemory]) -> None:
            nonlocal report
            self._require_unchanged(plan, episodes)
            facts = tuple(fact for fact in stored if isinstance(fact, SemanticMemory))
            report = Report(
                facts=facts,
                reinforced=self._learned_again(plan),
                invalidated=self._invalidated(plan, new={fact.id for fact in facts}, scope=scope),
            )
            for episode in episodes:
                self._mark(episode, plan)

        self._store.put(plan.new, together=write_the_rest)
        return report

    def _require_unchanged(self, plan: FactPlan, episodes: Sequence[EpisodicMemory]) -> None:
        ledger = self._store.ledger
        if not all(ledger.get(scope=fact.scope, id=fact.id) == fact for fact in plan.touched):
            raise _OvertakenError
        if not all(map(self._waits, episodes)):
            raise _OvertakenError

    def _waits(self, episode: EpisodicMemory) -> bool:
        """Whether an episode is still there, and nobody has turned it into facts."""
        now = self._store.ledger.get(scope=episode.scope, id=episode.id)
        return isinstance(now, EpisodicMemory) and now.consolidated_at is None

    def _learned_again(self, plan: FactPlan) -> tuple[SemanticMemory, ...]:
        """Add the sources of facts that were known already."""
        learned = []
        for fact, sources in plan.learned_again:
            after = fact.model_copy(
                update={"source_episodic_ids": tuple(dict.fromkeys((*fact.source_episodic_ids, *sources)))}
            )
            if after != fact:
                self._store.ledger.replace(after)
            learned.append(after)
        return tuple(learned)

    def _invalidated(self, plan: FactPlan, *, new: set[str], scope: str) -> tuple[SemanticMemory, ...]:
        """Mark what no longer holds, except where what holds instead was held back at the last moment."""
        held_back = {draft.id for draft in plan.new} - new
        leaving = [(fact, successor) for fact, successor in plan.leaving if successor not in held_back or not successor]
        for fact, successor in leaving:
            self._store.ledger.invalidate(scope=scope, id=fact.id, at=plan.at, replaced_by=successor)
        return tuple(fact for fact, _ in leaving)

    def _mark(self, episode: EpisodicMemory, plan: FactPlan) -> None:
        # read again, for a review may have changed it since
        now = self._store.ledger.get(scope=episode.scope, id=episode.id)
        if now is not None:
            self._store.ledger.replace(now.model_copy(update={"consolidated_at": plan.at}))


def _first_batch(episodes: Sequence[EpisodicMemory]) -> list[EpisodicMemory]:
    """The first episodes, at least one of them, whose messages fit into a prompt."""
    lengths = accumulate(sum(shown_length(message) for message in episode.messages) for episode in episodes)
    return [
        episode
        for position, (episode, length) in enumerate(zip(episodes, lengths, strict=True))
        if not position or length <= BATCH_CHARACTERS
    ]


class _OvertakenError(Exception):
    """An episode or a fact has changed while the model was thinking."""
