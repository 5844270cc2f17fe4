"""What becomes of a draft that is stored: a new memory or a known fact, and the end of the fact that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, Draft, MemoryKey, SemanticDraft, SemanticMemory
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.storage.known import KnownFacts, confirmed

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.models.selection import NewPassage


class PendingDraft(NamedTuple):
    """A draft on its way into the store.

    Attributes:
        draft: What is to be stored.
        memory: The memory that it becomes if it is new.
        replaces: The id of a fact that it holds instead of.
    """

    draft: Draft
    memory: AnyMemory
    replaces: str | None = None


def store_drafts(
    pending: Sequence[PendingDraft],
    passages: Sequence[Sequence[NewPassage]],
    *,
    ledger: SQLLedger,
    add: Callable[[Sequence[AnyMemory], Sequence[Sequence[NewPassage]]], object],
    allow_duplicates: bool,
    now: datetime,
) -> list[AnyMemory]:
    """Store what is new and confirm what is known, inside a transaction.

    Args:
        pending: What is to be stored.
        passages: The passages of each.
        ledger: Where facts are.
        add: Stores memories, each with its passages.
        allow_duplicates: Everything is new; otherwise only facts are with an id of the caller's.
        now: The moment of pending.

    Returns:
        The memory of each draft; a known one is marked by ``duplicate_of``.

    Raises:
        ValidationError: An id is taken.
    """
    open_facts = [] if allow_duplicates else [each.draft for each in pending if isinstance(each.draft, SemanticDraft)]
    known = KnownFacts(ledger, [draft for draft in open_facts if draft.id is None], now=now) if open_facts else None
    states: dict[MemoryKey, AnyMemory] = {}
    keys: list[MemoryKey] = []
    new: list[int] = []
    for place, (draft, memory, _) in enumerate(pending):
        twin = known.find(draft) if known is not None and isinstance(draft, SemanticDraft) else None
        if twin is not None and isinstance(draft, SemanticDraft):
            state = states.get(twin.key, twin)
            assert isinstance(state, SemanticMemory)  # noqa: S101 - it is the twin
            states[twin.key] = confirmed(state, draft, now=now)
        else:
            new.append(place)
            states[memory.key] = memory
            if known is not None and isinstance(memory, SemanticMemory):
                known.add(memory)
        keys.append(memory.key if twin is None else twin.key)
    add([states[keys[place]] for place in new], [passages[place] for place in new])
    for key in states.keys() - {keys[place] for place in new}:
        ledger.replace(states[key])
        ledger.events.note([key], MemoryEventType.CONFIRMED, at=now)
    added = set(new)
    return [
        states[key] if place in added else states[key].model_copy(update={"duplicate_of": key.id})
        for place, key in enumerate(keys)
    ]


def require_replaceable(pending: PendingDraft, found: AnyMemory | None, *, now: datetime) -> SemanticMemory:
    """Return the fact that a draft replaces.

    Args:
        pending: What is to be stored.
        found: The memory of the id that it names; None if there is none.
        now: The moment of pending.

    Raises:
        NotFoundError: There is no such memory.
        ValidationError: It is no fact, or something else replaces it already.
    """
    if found is None or found.has_expired(now):
        raise NotFoundError(f"Memory not found: {pending.replaces}; nothing was stored")
    if not isinstance(found, SemanticMemory) or not isinstance(pending.memory, SemanticMemory):
        raise ValidationError(f"only a fact can replace a fact, and {found.id} or what is stored is an episode")
    if found.replaced_by is not None:
        raise ValidationError(
            f"{found.id} was replaced by {found.replaced_by} already: replace that one; nothing was stored"
        )
    return found


def replace_fact(old: SemanticMemory, new: AnyMemory, *, ledger: SQLLedger, now: datetime) -> None:
    """Let one fact hold instead of another, from when it holds itself, at the latest from now on.

    Args:
        old: The fact that no longer holds.
        new: What holds instead; the fact itself if it was only stated again, and then nothing happens.
        ledger: Where both are.
        now: The moment of pending.
    """
    if old.id == new.id or not isinstance(new, SemanticMemory):
        return
    until = old.invalid_at or max(old.valid_at, min(now, new.valid_at))
    ledger.replace(old.model_copy(update={"invalid_at": until, "updated_at": now, "replaced_by": new.id}))
    ledger.events.note([old.key], MemoryEventType.SUPERSEDED, at=now)
