"""From what a language model answers to what may happen to facts: nothing here reads or writes a store.

The answer is untrusted. It can name only facts it was shown, and only while they hold; each of them changes in one
way at most (the table of specification §2.15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory_retrievers.models import EpisodicMemory, Origin, SemanticDraft, SemanticMemory
from memory_retrievers.prompts.consolidation import (
    MAX_FACT_LENGTH,
    Action,
    FactAnswer,
    fact_labels,
    read_label,
)
from memory_retrievers.prompts.conversation import cut

_PRIORITY: Final = (Action.UPDATE, Action.INVALIDATE, Action.REINFORCE)
"""Which action stands where several name one fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """What is to become of a fact.

    Attributes:
        action: What.
        target: The id of the known fact it is about; None for a new one.
        draft: The new fact, if there is one.
        sources: The ids of the episodes it was learned from.
    """

    action: Action
    target: str | None = None
    draft: SemanticDraft | None = None
    sources: tuple[str, ...] = ()

    def admitted_by(self, admit: Callable[[SemanticDraft], SemanticDraft | None]) -> FactChange | None:
        """The change with its new fact as it may be stored; None if it may not, and so nothing is to change."""
        if self.draft is None:
            return self
        draft = admit(self.draft)
        return None if draft is None else replace(self, draft=draft)


def proposed(
    answers: Sequence[FactAnswer], *, known: Sequence[SemanticMemory], episodes: Sequence[EpisodicMemory], scope: str
) -> list[FactChange]:
    """What a model proposes, in its order: labels read, texts trimmed, and new facts without text left out.

    Args:
        answers: What the model said.
        known: The facts it was shown, in that order.
        episodes: The episodes it was shown, in that order.
        scope: Where the new facts will be.
    """
    by_label = dict(zip(fact_labels(len(known)), (fact.id for fact in known), strict=True))
    changes = (_proposed(answer, by_label, episodes, scope=scope) for answer in answers)
    return [change for change in changes if change is not None]


def _proposed(
    answer: FactAnswer, by_label: Mapping[str, str], episodes: Sequence[EpisodicMemory], *, scope: str
) -> FactChange | None:
    sources = _sources(answer.source_episodes, episodes)
    names_target = answer.action is not Action.NEW and answer.existing_fact_id is not None
    target = by_label.get(read_label(answer.existing_fact_id or "")) if names_target else None
    if answer.action in {Action.REINFORCE, Action.INVALIDATE}:
        return FactChange(action=answer.action, target=target, sources=sources)
    if not answer.fact:
        return None
    draft = SemanticDraft(
        scope=scope,
        fact=cut(answer.fact, MAX_FACT_LENGTH),
        category=answer.category,
        keywords=answer.keywords,
        source_episodic_ids=sources,
        origin=Origin.CONSOLIDATION,
    )
    return FactChange(action=answer.action, target=target, draft=draft, sources=sources)


def _sources(numbers: Sequence[int], episodes: Sequence[EpisodicMemory]) -> tuple[str, ...]:
    """The ids of the episodes that the numbers, from 1, name; of all episodes if they name none."""
    named = [episode.id for number, episode in enumerate(episodes, start=1) if number in numbers]
    return tuple(named or (episode.id for episode in episodes))


def settled(proposals: Sequence[FactChange], *, active: Mapping[str, SemanticMemory]) -> list[FactChange]:
    """What may happen, given which facts still hold: one change for each of them, in the order proposed.

    An update of a fact that does not hold is a new fact; nothing else can happen to one.

    Args:
        proposals: As :func:`proposed` gives them.
        active: The facts that still hold, by id.
    """
    possible = [_possible(proposal, active) for proposal in proposals]
    best: dict[str, FactChange] = {}
    for change in possible:
        if change is not None and change.target is not None:
            rival = best.setdefault(change.target, change)
            if _PRIORITY.index(change.action) < _PRIORITY.index(rival.action):
                best[change.target] = change
    return [
        change for change in possible if change is not None and (change.target is None or best[change.target] is change)
    ]


def _possible(proposal: FactChange, active: Mapping[str, SemanticMemory]) -> FactChange | None:
    if proposal.action is Action.NEW or proposal.target in active:
        return proposal
    return replace(proposal, action=Action.NEW, target=None) if proposal.action is Action.UPDATE else None
