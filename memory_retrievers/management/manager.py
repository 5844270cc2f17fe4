"""The manager: all that the memory tools do to memories, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

from pydantic import JsonValue

from memory_retrievers.errors import ValidationError
from memory_retrievers.management.importance import ImportanceKeeper
from memory_retrievers.management.model import (
    AccessType,
    Association,
    Change,
)
from memory_retrievers.management.reading import Reading, key_of
from memory_retrievers.management.writing import Writing
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, SemanticDraft, SemanticMemory, Tier
from memory_retrievers.settings import ToolSettings
from memory_retrievers.store import MemoryStore, Revision, reached


class MemoryManager(Reading):
    """Stores, finds, searches, changes, moves and associates memories, for the memory tools.

    It may be used from several threads at once. A store that was opened read-only refuses whatever writes, and counts
    no accesses.

    Args:
        store: Where the memories are.
        settings: What the tools keep to.
        read_only: Refuse to write.
        after_write: Called after every write that is not part of another.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        settings: ToolSettings,
        read_only: bool = False,
        after_write: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, settings=settings)
        self._writing = Writing(store, settings=settings, read_only=read_only, after_write=after_write)
        self._importance = ImportanceKeeper(store, self._writing, settings=settings)

    def looking(self) -> MemoryManager:
        """The same memories for somebody who may only look: it refuses to write, and counts no accesses."""
        return MemoryManager(self._store, settings=self.settings, read_only=True)

    def transaction(self, *within: str) -> AbstractContextManager[None]:
        """Several operations together: all of them are kept, or none.

        Args:
            within: The scopes that they change, as for ``Ledger.transaction``.

        Raises:
            ConfigurationError: The store was opened read-only.
        """
        return self._transaction(*within)

    @contextmanager
    def _transaction(self, *within: str) -> Iterator[None]:
        with self._writing() as store, store.transaction(*within):
            yield

    @contextmanager
    def transaction_around(
        self, find: Callable[[], Sequence[AnyMemory]], *, scope: str, removes: bool = False
    ) -> Iterator[Sequence[AnyMemory]]:
        """The same, in the scopes where the memories are that it is about; those of all other scopes go on.

        Args:
            find: Finds the memories; called again once nobody else can change them, until they stay where they are.
            scope: What is stored beside goes here.
            removes: Whether memories may be removed.

        Yields:
            The memories.

        Raises:
            ConfigurationError: The store was opened read-only.
        """
        found = find()
        while True:
            within = reached([(scope, removes), *((memory.scope, removes) for memory in found)])
            with self._transaction(*within):
                found = find()
                if within.issuperset(memory.scope for memory in found):
                    yield found
                    return

    def add(self, drafts: Sequence[SemanticDraft], *, replace: bool = False) -> list[SemanticMemory]:
        """Store drafts in one embedding batch and one transaction: all of them or none.

        Args:
            drafts: What to store, with whatever ids and times they bring.
            replace: Forget the memories whose scope and id the drafts have; otherwise an id must not be taken.

        Returns:
            The stored memories, complete, in the order given.

        Raises:
            ValidationError: A scope is malformed, an id is taken, or the store holds one of them back.
            EmbeddingError: The embedder failed.
        """
        timed = [self._timed(draft) for draft in drafts]

        def all_admitted(memories: list[AnyMemory]) -> None:
            if len(memories) < len(drafts):
                raise ValidationError("before_store has held this back; nothing was stored")

        with self._writing() as store:
            stored = store.put(timed, replace=replace, together=all_admitted)
        return [memory for memory in stored if isinstance(memory, SemanticMemory)]

    def _timed(self, draft: SemanticDraft) -> SemanticDraft:
        """A short-term memory without a time of its own gets one, where the settings say so."""
        if not self.settings.short_term_expires or draft.tier is not Tier.SHORT_TERM or draft.expires_at is not None:
            return draft
        lives = timedelta(seconds=self.settings.short_term_ttl_seconds)
        return draft.model_copy(update={"expires_at": (draft.created_at or self.now()) + lives})

    def access(self, memories: Sequence[AnyMemory], *, how: AccessType) -> list[AnyMemory]:
        """Count one access of each memory, and give them as they are now.

        Importance follows, unless it was set by hand. The audit takes one access per memory and way in so many seconds.
        One that is gone meanwhile is given back as it is; a read-only store counts nothing.
        """
        return self._importance.access(memories, how=how)

    def importance(self, memory: AnyMemory) -> AnyMemory:
        """The memory with its importance as of now, which is no access.

        It stays as it was stored until the first access, and as it was set by hand.

        Raises:
            NotFoundError: It is gone.
        """
        return self._importance.recomputed(memory)

    def set_importance(self, memory: AnyMemory, *, score: float, reason: str) -> AnyMemory:
        """Set a memory's importance by hand, which accesses no longer change, and note it in the audit.

        Raises:
            ValidationError: The score is not within 0 to 1.
            NotFoundError: The memory is gone.
        """
        return self._importance.set(memory, score=score, reason=reason)

    def clear_importance(self, memory: AnyMemory) -> AnyMemory:
        """Let a memory's importance follow its use again.

        Raises:
            NotFoundError: The memory is gone.
        """
        return self._importance.clear(memory)

    def update(
        self,
        memory: AnyMemory,
        *,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        tier: Tier | None = None,
        category: Category | None = None,
    ) -> AnyMemory:
        """Change one memory; see :meth:`update_many`."""
        change = Change(
            memory=memory,
            content=content,
            tags=None if tags is None else tuple(tags),
            metadata=metadata,
            tier=tier,
            category=category,
        )
        (after,) = self.update_many([change])
        return after

    def update_many(self, changes: Sequence[Change]) -> list[AnyMemory]:
        """Change memories in one embedding batch and one transaction: all of them or none.

        A new text is found from then on, the old one no longer. ``updated_at`` moves unless nothing is different.

        Raises:
            NotFoundError: A memory is gone.
            ValidationError: A field breaks a rule, or an episode was given a content or category.
            EmbeddingError: The embedder failed.
        """
        with self._writing() as store:
            return store.update_many([(key_of(change.memory), _revision(change)) for change in changes])

    def delete(self, memories: Sequence[AnyMemory]) -> None:
        """Remove memories for good, with every trace of them, in one transaction; one that is gone is left out."""
        with self._writing() as store:
            store.remove([key_of(memory) for memory in memories])

    def move(self, memories: Sequence[AnyMemory], *, target_scope: str) -> list[AnyMemory]:
        """Give memories another scope, in one transaction, and give them as they are there.

        Ids, times and associations stay.

        Raises:
            ValidationError: The target is malformed, or an id is taken in it; nothing was moved.
            NotFoundError: A memory is gone; nothing was moved.
        """
        with self._writing() as store:
            return store.move([key_of(memory) for memory in memories], target_scope=target_scope)

    def associate(self, associations: Sequence[Association]) -> int:
        """Associate pairs of memories; of two associations of one pair the stronger stays.

        Returns:
            How many pairs were not associated before.
        """
        if not associations:
            return 0
        with self._writing():
            return self._ledger.associate(associations)


def _revision(change: Change) -> Revision:
    """The fields a memory is to have after a change, whatever it is by then."""

    def revise(memory: AnyMemory) -> Mapping[str, object]:
        if isinstance(memory, EpisodicMemory) and change.content is not None:
            raise ValidationError(f"{memory.id} is an episode; its content cannot be updated")
        asked: dict[str, object] = {
            "fact": change.content,
            "tags": change.tags,
            "metadata": None if change.metadata is None else {**memory.metadata, **change.metadata},
            "tier": change.tier,
            "category": change.category,
        }
        return {name: value for name, value in asked.items() if value is not None}

    return revise
