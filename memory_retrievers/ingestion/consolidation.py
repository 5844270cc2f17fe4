"""Consolidation of episodes into facts: predict, ask a language model for the differences, write them (§2.15).

The model is asked outside any transaction. What it says is written in one, together with the mark on the episodes it
came from; should an episode or a fact have changed meanwhile, nothing of it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, chain, zip_longest
from typing import Final

import uuid_utils

from memory_retrievers.backends.language_models import adapt
from memory_retrievers.backends.language_models.structured import shown_length
from memory_retrievers.ingestion.facts import (
    Action,
    FactChange,
    answer_type,
    parse_changes,
    resolve_conflicts,
    system_prompt,
    user_prompt,
)
from memory_retrievers.models import AnyMemory, EpisodicMemory, Kind, Origin, SemanticDraft, SemanticMemory
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.models.results import Report
from memory_retrievers.models.selection import Hits, Selection, Vectors
from memory_retrievers.protocols import LanguageModel
from memory_retrievers.retrieval.request import RetrievalRequest, fitting
from memory_retrievers.retrieval.retriever import HybridRetriever
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.drafts import KnownFacts, as_new, means_same_day
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.text.duplicates import is_duplicate

BATCH: Final = 10  # number of episodes in one prompt; more would crowd the model's context
BATCH_CHARACTERS: Final = 60_000  # of messages in one prompt, about 15,000 tokens, unless a single episode has more
NEAREST: Final = 5  # number of the nearest facts that a new one is compared with
FACTS_PER_EPISODE: Final = 20  # number of known facts looked up for each episode (specification §2.15)


class FactConsolidator:
    """Turns the episodes of a scope into facts."""

    def __init__(
        self, store: MemoryStore, retriever: HybridRetriever, language_model: LanguageModel, settings: IngestionSettings
    ) -> None:
        self._store = store
        self._retriever = retriever
        self._language_model = language_model
        self._settings = settings

    def due(self, scope: str) -> bool:
        """True if enough episodes wait, or a very surprising one does (specification §2.13)."""
        waiting = self._store.ledger.unconsolidated(scope, limit=self._settings.consolidate_from)
        return len(waiting) >= self._settings.consolidate_from or any(
            episode.surprise >= self._settings.flashbulb_surprise for episode in waiting
        )

    def due_scopes(self) -> list[str]:
        """The scopes in which it is :meth:`due`."""
        least, surprise = self._settings.consolidate_from, self._settings.flashbulb_surprise
        return self._store.ledger.unconsolidated_scopes(least=least, surprise=surprise)

    def consolidate(self, scope: str) -> Report:
        """Consolidate waiting episodes while that is due, in batches; each is kept as soon as it is done.

        If the model or the embedder fails, the episodes of its batch wait as before.
        """
        report = Report()
        while self.due(scope) and (waiting := self._store.ledger.unconsolidated(scope, limit=BATCH)):
            episodes = _first_batch(waiting)
            report = report.joined(self._consolidated(scope, episodes))
        return report

    def _consolidated(self, scope: str, episodes: Sequence[EpisodicMemory]) -> Report:
        """Consolidate one batch; report nothing if another process has done it meanwhile."""
        now = self._store.now()
        active = [episode for episode in episodes if not episode.has_expired(now)]
        known = self._predicted(scope, active)
        proposals = self._calibrated(scope, active, known)
        while True:
            plan = self._planned(proposals, known, scope)
            try:
                return self._written(plan, scope=scope, episodes=episodes)
            except _OvertakenError:
                if not all(map(self._waits, episodes)):
                    return Report()

    def _predicted(self, scope: str, episodes: Sequence[EpisodicMemory]) -> list[SemanticMemory]:
        """Known facts that the episodes may concern: the best of each episode in turn."""
        if not self._settings.related_facts:
            return []
        found = [self._facts_near(scope, episode) for episode in episodes]
        in_turn = chain.from_iterable(zip_longest(*found))
        distinct = {fact.id: fact for fact in in_turn if fact is not None and self._is_current(fact)}
        return list(distinct.values())[: self._settings.related_facts]

    def _facts_near(self, scope: str, episode: EpisodicMemory) -> list[SemanticMemory]:
        asked = fitting(episode.summary, most=self._retriever.query_characters)
        request = RetrievalRequest.parse(asked, scope=scope, episodic_limit=0, semantic_limit=FACTS_PER_EPISODE)
        return [hit.memory for hit in self._retriever.retrieve(request, record=False).semantic]

    def _calibrated(
        self, scope: str, episodes: Sequence[EpisodicMemory], known: Sequence[SemanticMemory]
    ) -> list[FactChange]:
        """Ask the model for changes, leaving out new facts that may not be stored."""
        if not episodes:  # all have expired
            return []
        schema = answer_type(tuple(self._settings.categories))
        question = user_prompt(known, episodes, zone=self._retriever.zone)
        answer = adapt(self._language_model).generate(system_prompt(self._settings), question, schema)
        changes: list[FactChange] = []
        for change in parse_changes(answer.facts, known=known, episodes=episodes, scope=scope):
            if change.draft is None:
                changes.append(change)
            elif (draft := self._store.admitted(change.draft)) is not None:
                changes.append(replace(change, draft=draft))
        return changes

    def _planned(self, proposals: Sequence[FactChange], known: Sequence[SemanticMemory], scope: str) -> FactWrites:
        """Plan the writes for the proposals of a model, given the facts as they are now.

        A known fact whose words have changed since it was shown is not the one that the model meant.
        """
        active = {}
        for fact in known:
            now = self._store.ledger.get(scope=scope, id=fact.id)
            if isinstance(now, SemanticMemory) and now.fact == fact.fact and self._is_current(now):
                active[now.id] = now
        changes = [_filed(change, active) for change in resolve_conflicts(proposals, active=active)]
        leaving = {change.target for change in changes if change.target and change.action is not Action.REINFORCE}
        drafts = [change.draft for change in changes if change.draft is not None]
        existing = iter(self._existing(drafts, leaving))
        writes = FactWrites(at=self._store.now())
        for change in changes:
            successor = None if change.draft is None else writes.place(change.draft, next(existing))
            if change.target is None:
                continue
            if change.action is Action.REINFORCE:
                writes.learn_again(active[change.target], change.sources)
            else:
                writes.leaving.append((active[change.target], successor))
        return writes

    def _existing(self, drafts: Sequence[SemanticDraft], leaving: Collection[str]) -> list[SemanticMemory | int]:
        """Find for each draft of a scope the stored fact that says the same already and does not leave.

        Else it is the position of a draft: its own, unless an earlier one tells the same.
        """
        if not drafts:
            return []
        stated = list(map(as_new, drafts))
        known_facts = KnownFacts(self._store.ledger, stated, now=self._store.now())
        selection = Selection(scope=drafts[0].scope, kind=Kind.SEMANTIC, now=self._store.now())
        limit = NEAREST + len(leaving)

        def find(vectors: Vectors) -> tuple[Vectors, list[Hits]]:
            return vectors, [self._store.dense.search(vector, selection, limit=limit) for vector in vectors]

        vectors, nearest = self._store.search_texts([draft.embedding_text for draft in drafts], find)
        existing: list[SemanticMemory | int] = []
        for position, (draft, near) in enumerate(zip(drafts, nearest, strict=True)):
            known = known_facts.find(stated[position], leaving=leaving) or self._stored_match(draft, near, leaving)
            if known is None:
                earlier = (place for place in range(position) if existing[place] == place)
                alike = (
                    place
                    for place in earlier
                    if self._is_same(drafts[place], draft, cosine=float(vectors[place] @ vectors[position]))
                )
                existing.append(next(alike, position))
            else:
                existing.append(known)
        return existing

    def _stored_match(self, draft: SemanticDraft, hits: Hits, leaving: Collection[str]) -> SemanticMemory | None:
        """The nearest stored fact that says the same."""
        memories = self._store.ledger.load(hits.memories)
        near = ((memories.get(row), cosine) for row, cosine in zip(hits.memories, hits.scores, strict=True))
        candidates = [
            (fact, cosine)
            for fact, cosine in near
            if isinstance(fact, SemanticMemory) and self._is_current(fact) and fact.id not in leaving
        ]
        day = draft.valid_at or self._store.now()
        for fact, cosine in candidates[:NEAREST]:
            if self._is_same(draft, fact, cosine=cosine) and (
                not self._settings.compare_details or means_same_day(fact, draft.fact, day=day)
            ):
                return fact
        return None

    def _is_same(self, one: SemanticDraft, other: SemanticDraft, *, cosine: float) -> bool:
        return is_duplicate(one.fact, other.fact, cosine=cosine, settings=self._settings)

    def _is_current(self, fact: SemanticMemory) -> bool:
        """True if a fact holds and may be changed here; facts that an application stores under its own keys may not."""
        return fact.invalid_at is None and not fact.has_expired(self._store.now()) and fact.origin != Origin.STORE

    def _written(self, plan: FactWrites, *, scope: str, episodes: Sequence[EpisodicMemory]) -> Report:
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
                now = self._store.ledger.get(scope=scope, id=episode.id)  # a review may have changed it since
                if now is not None:
                    self._store.ledger.replace(now.model_copy(update={"consolidated_at": plan.at}))

        self._store.put(list(plan.new.values()), together=write_the_rest)
        return report

    def _require_unchanged(self, plan: FactWrites, episodes: Sequence[EpisodicMemory]) -> None:
        ledger = self._store.ledger
        touched = (fact for fact, _ in (*plan.learned_again.values(), *plan.leaving))
        if not all(ledger.get(scope=fact.scope, id=fact.id) == fact for fact in touched):
            raise _OvertakenError
        leaving = {fact.id for fact, _ in plan.leaving}
        drafts = list(map(as_new, plan.new.values()))
        known = KnownFacts(ledger, drafts, now=plan.at)
        if any(known.find(draft, leaving={*leaving, *plan.new}) is not None for draft in drafts):
            raise _OvertakenError  # somebody else has just stored the same
        if not all(map(self._waits, episodes)):
            raise _OvertakenError

    def _waits(self, episode: EpisodicMemory) -> bool:
        """True if an episode is still stored with all that the model was told, and not yet consolidated."""
        now = self._store.ledger.get(scope=episode.scope, id=episode.id)
        return isinstance(now, EpisodicMemory) and now.consolidated_at is None and now.messages == episode.messages

    def _learned_again(self, plan: FactWrites) -> tuple[SemanticMemory, ...]:
        """Add the sources of facts that were known already."""
        learned = []
        for fact, sources in plan.learned_again.values():
            united = _union(fact.source_episodic_ids, sources)
            after = fact.model_copy(update={"source_episodic_ids": united, "last_confirmed_at": plan.at})
            self._store.ledger.replace(after)
            self._store.ledger.events.note([after.key], MemoryEventType.CONFIRMED, at=plan.at)
            learned.append(after)
        return tuple(learned)

    def _invalidated(self, plan: FactWrites, *, new: set[str], scope: str) -> tuple[SemanticMemory, ...]:
        """Mark what no longer holds, except where what holds instead was held back at the last moment."""
        held_back = plan.new.keys() - new
        leaving = [(fact, successor) for fact, successor in plan.leaving if successor not in held_back or not successor]
        for fact, successor in leaving:
            self._store.ledger.invalidate(scope=scope, id=fact.id, at=plan.at, replaced_by=successor)
            event = MemoryEventType.INVALIDATED if successor is None else MemoryEventType.SUPERSEDED
            self._store.ledger.events.note([fact.key], event, at=plan.at)
        return tuple(fact for fact, _ in leaving)


@dataclass(slots=True, kw_only=True)
class FactWrites:
    """Writes that a consolidation is going to make.

    Known facts are as they are now. To those that were learned again belong the episodes to add to their sources, to
    those that no longer hold the id of what holds instead, if anything.
    """

    at: datetime  # from when it holds
    new: dict[str, SemanticDraft] = field(default_factory=dict)  # by id
    learned_again: dict[str, tuple[SemanticMemory, tuple[str, ...]]] = field(default_factory=dict)  # by id
    leaving: list[tuple[SemanticMemory, str | None]] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)  # for each draft so far, the id of what holds its fact

    def place(self, draft: SemanticDraft, existing: SemanticMemory | int) -> str:
        """Place a draft by what was found for it, and give the id of what holds then."""
        if isinstance(existing, SemanticMemory):
            self.learn_again(existing, draft.source_episodic_ids)
            id = existing.id  # noqa: A001
        elif existing == len(self.placed):
            id = str(uuid_utils.uuid7())  # noqa: A001
            self.new[id] = draft.model_copy(update={"id": id, "valid_at": self.at})
        else:
            id = self.placed[existing]  # noqa: A001
            first = self.new[id]
            self.new[id] = first.model_copy(
                update={"source_episodic_ids": _union(first.source_episodic_ids, draft.source_episodic_ids)}
            )
        self.placed.append(id)
        return id

    def learn_again(self, fact: SemanticMemory, sources: Sequence[str]) -> None:
        """Note further sources of a known fact."""
        _, before = self.learned_again.get(fact.id, (fact, ()))
        self.learned_again[fact.id] = (fact, _union(before, sources))


def _filed(change: FactChange, active: Mapping[str, SemanticMemory]) -> FactChange:
    """The change, its new fact filed and pinned as the one that it updates: a filter finds the one as the other."""
    before, draft = active.get(change.target or ""), change.draft
    if before is None or draft is None:
        return change
    kept = {
        "tags": _union(before.tags, draft.tags),
        "metadata": before.metadata | draft.metadata,
        "importance": before.importance,
        "importance_pinned": before.importance_pinned,
    }
    return replace(change, draft=draft.model_copy(update=kept))


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


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
