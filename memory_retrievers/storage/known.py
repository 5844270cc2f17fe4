"""What is known already: a fact that is stated again, and facts that are near to a new one and say something else."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_retrievers.models import (
    Category,
    ContentType,
    Kind,
    Origin,
    SemanticDraft,
    SemanticMemory,
    Tier,
)
from memory_retrievers.models.memories import NearFact, changed
from memory_retrievers.models.selection import Selection
from memory_retrievers.text.duplicates import COMPARED_CHARACTERS, contradicted, normalised, text_hash

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.models.selection import Vector
    from memory_retrievers.protocols import VectorIndex
    from memory_retrievers.settings import IngestionSettings

TOLD_BY_AGENTS: Final = frozenset({Origin.TOOL, Origin.API, Origin.CONSOLIDATION})
"""Where a fact that is stated again may come from; applications, collections and imports keep what they have stored."""

NEAREST: Final = 20
"""Nearest facts that are compared with a new one."""

MOST_NEAR: Final = 5
"""Facts at most that an answer names."""


class _FactKey(NamedTuple):
    """What two facts have in common if the second only says the first again."""

    scope: str
    text: str
    category: Category
    agent_id: str | None
    tier: Tier
    content_type: ContentType
    expires_at: datetime | None

    @classmethod
    def of(cls, fact: SemanticDraft) -> _FactKey:
        text = normalised(fact.fact, fact.content_type)
        return cls(fact.scope, text, fact.category, fact.agent_id, fact.tier, fact.content_type, fact.expires_at)


def says_again(known: SemanticMemory, draft: SemanticDraft) -> bool:
    """True if a known fact has all that a draft has beside its words, so that nothing is lost without the draft."""
    return _FactKey.of(known)._replace(text="") == _FactKey.of(draft)._replace(text="")


class KnownFacts:
    """The facts that hold and say the same as one of some drafts; to be asked in the transaction that stores them.

    Args:
        ledger: Where facts are.
        drafts: What is to be stored.
        now: The moment of pending.
    """

    def __init__(self, ledger: SQLLedger, drafts: Iterable[SemanticDraft], *, now: datetime) -> None:
        self._now = now
        self._facts: dict[_FactKey, list[SemanticMemory]] = {}
        hashes: dict[str, set[int]] = {}
        for draft in drafts:
            hashes.setdefault(draft.scope, set()).add(text_hash(draft.fact, draft.content_type))
        for scope, its_hashes in hashes.items():
            for fact in ledger.facts.alike(scope, its_hashes, now=now):
                self.add(fact)

    def add(self, fact: SemanticMemory) -> None:
        """Let a fact be known from here on."""
        if fact.origin in TOLD_BY_AGENTS:
            self._facts.setdefault(_FactKey.of(fact), []).append(fact)

    def find(self, draft: SemanticDraft, *, leaving: Collection[str] = ()) -> SemanticMemory | None:
        """Return the oldest fact that says what a draft says, for the same time; None if there is none.

        Args:
            draft: What is to be stored; one with an id of the caller's is another memory.
            leaving: Ids of facts that are about to be invalidated.
        """
        if draft.id is not None or draft.origin not in TOLD_BY_AGENTS or draft.invalid_at is not None:
            return None
        known = (fact for fact in self._facts.get(_FactKey.of(draft), ()) if fact.id not in leaving)
        return next((fact for fact in known if self._holds_for(fact, draft)), None)

    def _holds_for(self, fact: SemanticMemory, draft: SemanticDraft) -> bool:
        if draft.valid_at is not None:
            return fact.valid_at == draft.valid_at
        # what somebody else has stored since this began holds since then
        return fact.valid_at <= max(self._now, fact.updated_at)


def as_new(draft: SemanticDraft) -> SemanticDraft:
    """Return a draft without the id and the time that consolidation gives it, as a fact that is stated now."""
    return draft.model_copy(update={"id": None, "valid_at": None})


def confirmed(known: SemanticMemory, draft: SemanticDraft, *, now: datetime) -> SemanticMemory:
    """Return a known fact as it is once it was stated again: with all tags, metadata and sources, and the time of it.

    Args:
        known: The known fact.
        draft: What is to be stored.
        now: When.

    Raises:
        ValidationError: Its metadata would break a rule.
    """
    added = {
        "tags": tuple(dict.fromkeys((*known.tags, *draft.tags))),
        "metadata": {**known.metadata, **draft.metadata},
    }
    after = changed(known, added, now=now)
    assert isinstance(after, SemanticMemory)  # noqa: S101 - as before
    sources = tuple(dict.fromkeys((*known.source_episodic_ids, *draft.source_episodic_ids)))
    return after.model_copy(update={"source_episodic_ids": sources, "last_confirmed_at": now})


def near_facts(
    fact: SemanticMemory,
    vector: Vector,
    *,
    ledger: SQLLedger,
    dense: VectorIndex,
    settings: IngestionSettings,
    now: datetime,
) -> tuple[NearFact, ...]:
    """Find the facts of the scope that a new one may contradict, nearest first; read before it is stored.

    Args:
        fact: The new fact.
        vector: Its unit vector, shape (d,).
        ledger: Where facts are.
        dense: Finds the nearest.
        settings: What is near, and whether details are compared.
        now: The moment of pending.
    """
    if not settings.compare_details or not _is_comparable(fact):
        return ()
    with ledger.database.reading():
        hits = dense.search(vector, Selection(scope=fact.scope, kind=Kind.SEMANTIC, now=now), limit=NEAREST)
        found = ledger.facts.comparable(hits.memories, longest=COMPARED_CHARACTERS)
    compared = [
        (known, cosine)
        for row, cosine in zip(hits.memories, hits.scores, strict=True)
        if (known := found.get(row)) is not None
    ]
    places = contradicted(fact.fact, [(known.fact, cosine) for known, cosine in compared], settings=settings)
    near = (compared[place][0] for place in islice(places, MOST_NEAR))
    return tuple(NearFact.trusted({"id": known.id, "fact": known.fact, "valid_at": known.valid_at}) for known in near)


def _is_comparable(fact: SemanticMemory) -> bool:
    return (
        fact.content_type is ContentType.TEXT
        and fact.origin is not Origin.STORE
        and fact.invalid_at is None
        and len(fact.fact) <= COMPARED_CHARACTERS
    )
