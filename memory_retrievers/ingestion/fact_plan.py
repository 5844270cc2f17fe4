"""What is going to be written about facts, worked out before the transaction that writes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import uuid_utils

from memory_retrievers.ingestion.duplicates import homes_of, is_current
from memory_retrievers.ingestion.fact_changes import FactChange, settled
from memory_retrievers.models import SemanticDraft, SemanticMemory
from memory_retrievers.prompts.consolidation import Action
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.store import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FactPlan:
    """What is going to be written.

    Attributes:
        at: From when it holds.
        new: Facts to store, each with its id.
        learned_again: Known facts, as they are now, and the episodes to add to their sources.
        leaving: Known facts that no longer hold, as they are now, and the id of what holds instead, if anything.
    """

    at: datetime
    new: tuple[SemanticDraft, ...]
    learned_again: tuple[tuple[SemanticMemory, tuple[str, ...]], ...]
    leaving: tuple[tuple[SemanticMemory, str | None], ...]

    @property
    def touched(self) -> Iterator[SemanticMemory]:
        """The known facts that the plan relies on."""
        yield from (fact for fact, _ in self.learned_again)
        yield from (fact for fact, _ in self.leaving)


def planned(
    proposals: Sequence[FactChange],
    *,
    known: Sequence[SemanticMemory],
    scope: str,
    store: MemoryStore,
    settings: IngestionSettings,
) -> FactPlan:
    """What the proposals come to, given the facts as they are now.

    Args:
        proposals: What a model wants, in its order.
        known: The facts it was shown; one whose words have changed since is not the one it meant.
        scope: Where they are.
        store: Where the facts are.
        settings: What counts as the same fact.

    Raises:
        EmbeddingError: The embedder failed.
    """
    active = _still_holding(known, scope=scope, store=store)
    changes = settled(proposals, active=active)
    leaving = {change.target for change in changes if change.target and change.action is not Action.REINFORCE}
    drafts = [change.draft for change in changes if change.draft is not None]
    homes = iter(homes_of(drafts, store=store, settings=settings, leaving=leaving))
    writing = _Writing(at=store.now())
    for change in changes:
        successor = None if change.draft is None else writing.place(change.draft, next(homes))
        if change.target is None:
            continue
        if change.action is Action.REINFORCE:
            writing.learn_again(active[change.target], change.sources)
        else:
            writing.leaving.append((active[change.target], successor))
    return writing.finished()


def _still_holding(known: Sequence[SemanticMemory], *, scope: str, store: MemoryStore) -> dict[str, SemanticMemory]:
    holding = {}
    for fact in known:
        now = store.ledger.get(scope=scope, id=fact.id)
        if isinstance(now, SemanticMemory) and now.fact == fact.fact and is_current(now, store):
            holding[now.id] = now
    return holding


class _Writing:
    """A plan in the making."""

    def __init__(self, *, at: datetime) -> None:
        self.at = at
        self.leaving: list[tuple[SemanticMemory, str | None]] = []
        self._placed: list[str] = []
        self._new: dict[str, SemanticDraft] = {}
        self._again: dict[str, tuple[SemanticMemory, tuple[str, ...]]] = {}

    def place(self, draft: SemanticDraft, home: SemanticMemory | int) -> str:
        """Put a draft where it belongs (see :func:`homes_of`), and give the id of what holds then."""
        if isinstance(home, SemanticMemory):
            self.learn_again(home, draft.source_episodic_ids)
            id = home.id  # noqa: A001
        elif home == len(self._placed):
            id = str(uuid_utils.uuid7())  # noqa: A001
            self._new[id] = draft.model_copy(update={"id": id, "valid_at": self.at})
        else:
            id = self._placed[home]  # noqa: A001
            first = self._new[id]
            self._new[id] = first.model_copy(
                update={"source_episodic_ids": _union(first.source_episodic_ids, draft.source_episodic_ids)}
            )
        self._placed.append(id)
        return id

    def learn_again(self, fact: SemanticMemory, sources: Sequence[str]) -> None:
        """Note further sources of a known fact."""
        _, before = self._again.get(fact.id, (fact, ()))
        self._again[fact.id] = (fact, _union(before, sources))

    def finished(self) -> FactPlan:
        """The plan."""
        return FactPlan(
            at=self.at,
            new=tuple(self._new.values()),
            learned_again=tuple(self._again.values()),
            leaving=tuple(self.leaving),
        )


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
