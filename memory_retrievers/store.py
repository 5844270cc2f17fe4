"""The store: records are the truth, indexes are kept in step with them, and every write is whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from memory_retrievers import scopes
from memory_retrievers.drafts import completed
from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.indexed import IndexedLedger
from memory_retrievers.models import AnyMemory, Draft, MemoryKey, SemanticMemory
from memory_retrievers.passages import TURN, NewPassage, Passage
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.turn_passages import PassageText, passage_texts, with_vectors
from memory_retrievers.updates import changed

Revision: TypeAlias = Callable[[AnyMemory], Mapping[str, object]]
"""The fields a memory is to have, told from what it is."""


_ERASED_TOGETHER: Final = 256
"""Episodes whose messages are erased in one transaction."""


class MemoryStore(IndexedLedger):
    """The ledger and its indexes, and the embedder that fills them.

    Args:
        ledger: Keeps the records.
        keyword: The BM25 index.
        dense: The vector index.
        embedder: Must be the one the store was filled with.
        clock: Tells what time it is.
        before_store: Sees every record before it is stored, and gives it, changed or not, or None.
        searched: What of an episode is searched, and so stored as its passages.

    Raises:
        EmbeddingMismatchError: The store was filled with an embedder of another id.
    """

    def put(
        self,
        drafts: Sequence[Draft],
        *,
        replace: bool = False,
        together: Callable[[list[AnyMemory]], None] | None = None,
    ) -> list[AnyMemory]:
        """Store drafts: one embedding batch, one transaction; all of them or none.

        Args:
            drafts: What to store.
            replace: Forget the memories whose scope and id the drafts have, in the same transaction.
            together: Called with the stored memories inside the transaction, to write what belongs with them: kept
                and undone with them. It may be called again, after what it wrote was undone.

        Returns:
            The stored memories, complete, in the order given; what ``before_store`` has held back is not among them.

        Raises:
            ValidationError: A scope is malformed, or an id is taken, twice among the drafts if not in the store.
            EmbeddingError: The embedder failed, or gave unusable vectors.
            EmbeddingMismatchError: The embedder is not the store's.
        """
        now = self.now()
        admitted = [kept for draft in drafts if (kept := self.admitted(draft)) is not None]
        memories = [completed(draft, now=now) for draft in admitted]
        if not memories:
            if together is not None:
                with self.ledger.transaction(*{draft.scope for draft in drafts}):
                    together([])
            return []
        while True:
            embedder = self.embedder.current()
            texts = [passage_texts(memory, searched=self.searched) for memory in memories]
            passages = with_vectors(texts, embedder.embed_documents)
            replaced: list[Passage] = []
            with self.ledger.transaction(*reached((memory.scope, replace) for memory in memories)):
                if not self.embedder.admits(embedder):
                    continue  # the store has just moved to another embedder
                for memory in memories if replace else ():
                    replaced += self.unindexed(memory.scope, id=memory.id)
                    self.ledger.remove(scope=memory.scope, id=memory.id)
                self.keyword.add(self.ledger.add(memories, passages))
                if together is not None:
                    together(memories)
            self.let_go(replaced)
            return memories

    def invalidate(self, id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true; it stays in the store and is no longer found.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is an episode, or the scope is malformed.
        """
        if not isinstance(self.get(id, scope=scope), SemanticMemory):
            raise ValidationError(f"{id} is an episode; only facts can be invalidated")
        self.ledger.invalidate(scope=scope, id=id, at=self.now())
        memory = self.get(id, scope=scope)
        assert isinstance(memory, SemanticMemory)  # noqa: S101 - the kind of a memory never changes
        return memory

    def update(self, id: str, *, scope: str, fields: Mapping[str, object]) -> AnyMemory:
        """Change some fields of a memory; a new text is embedded and indexed in the same transaction.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: A field is not one of its kind, or breaks a rule.
            EmbeddingError: The embedder failed.
        """
        (after,) = self.update_many([(MemoryKey(scope=scope, id=id), lambda _: fields)])
        return after

    def update_many(self, revisions: Sequence[tuple[MemoryKey, Revision]]) -> list[AnyMemory]:
        """Change memories, each by what a function of it gives: one embedding batch, one transaction; all or none.

        Args:
            revisions: Which memory, and the fields it is to have, told from what it is then. A memory that is named
                again is changed further. The functions may be called again, when somebody else was faster.

        Returns:
            What each revision has made of its memory.

        Raises:
            NotFoundError: A memory is not there.
            ValidationError: A field is not one of its kind, or breaks a rule.
            EmbeddingError: The embedder failed.
        """
        while True:
            before: dict[MemoryKey, AnyMemory] = {}
            after: dict[MemoryKey, AnyMemory] = {}
            made = [self._revised(key, revise, before, after) for key, revise in revisions]
            moved = [key for key, memory in after.items() if memory is not before[key]]
            if not moved:
                return made
            texts = [self._new_texts(before[key], after[key]) for key in moved]
            embedder = self.embedder.current() if any(texts) else None
            passages: list[list[NewPassage]] = (
                [[] for _ in moved] if embedder is None else with_vectors(texts, embedder.embed_documents)
            )
            replaced: list[Passage] = []
            with self.ledger.transaction(*{key.scope for key in moved}):
                if any(self.ledger.get(scope=key.scope, id=key.id) != before[key] for key in moved):
                    continue  # somebody else was faster: begin with what they left
                if embedder is not None and not self.embedder.admits(embedder):
                    continue  # the store has just moved to another embedder
                for key, its_passages in zip(moved, passages, strict=True):
                    replaced += self._without_outdated(before[key], after[key])
                    self.keyword.add(self.ledger.replace(after[key], its_passages))
            self.let_go(replaced)
            return made

    def _revised(
        self,
        key: MemoryKey,
        revise: Revision,
        before: dict[MemoryKey, AnyMemory],
        after: dict[MemoryKey, AnyMemory],
    ) -> AnyMemory:
        """One revision, upon those before it, noted in both; what is not changed stays the same object."""
        known = after[key] if key in after else before.setdefault(key, self.get(key.id, scope=key.scope))
        revised = changed(known, revise(known), now=self.now())
        after[key] = known if revised is known else self.required(revised)
        return after[key]

    def _new_texts(self, before: AnyMemory, after: AnyMemory) -> list[PassageText]:
        """What a changed memory is found by that it was not found by before."""
        known = set(passage_texts(before, searched="turns"))
        return [text for text in passage_texts(after, searched=self.searched) if text not in known]

    def _without_outdated(self, before: AnyMemory, after: AnyMemory) -> list[Passage]:
        """Remove the passages of a memory that a change has made wrong, and give them; inside a transaction."""
        right = set(passage_texts(after, searched="turns"))
        wrong = {text.part for text in passage_texts(before, searched="turns") if text not in right}
        if not wrong:
            return []
        gone = self.unindexed(before.scope, id=before.id, parts=wrong if after.is_searchable else None)
        self.ledger.remove_passages([passage.id for passage in gone])
        return gone

    def forget(self, id: str, *, scope: str) -> None:
        """Remove a memory and every trace of it, in one transaction.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        with self.ledger.transaction(*scopes.lineage(scopes.parse(scope))):
            gone = self.unindexed(scope, id=id)
            if not self.ledger.remove(scope=scope, id=id):
                raise NotFoundError(f"Memory not found: {id}")
        self.let_go(gone)

    def forget_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Remove all that a scope holds, in one transaction, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        scopes.parse(scope)
        with self.ledger.transaction():
            gone = self.unindexed(scope, include_child_scopes=include_child_scopes)
            removed = self.ledger.remove_scope(scope, include_child_scopes=include_child_scopes)
        self.let_go(gone)
        return removed

    def erase_messages(self, *, before: datetime) -> int:
        """Erase the messages of episodes that ended before a moment, and what they were found by.

        Returns:
            The number of episodes that had messages.
        """
        erased = 0
        while keys := self.ledger.conversations.old_messages(before=before, limit=_ERASED_TOGETHER):
            gone: list[Passage] = []
            with self.ledger.transaction(*{key.scope for key in keys}):
                for key in keys:
                    passages = self.ledger.passages_of(key.scope, id=key.id)
                    turns = {passage.part for passage in passages if passage.field == TURN}
                    gone += self.unindexed(key.scope, id=key.id, parts=turns)
                self.ledger.remove_passages([passage.id for passage in gone])
                self.ledger.conversations.erase_messages(keys)
            self.let_go(gone)
            erased += len(keys)
        return erased

    def purge(self) -> None:
        """Remove what has expired, and leave no byte of what was removed.

        Raises:
            BackendError: It could not be done now.
        """
        self.remove_expired()
        self.dense.purge()
        self.ledger.purge()

    def remove_expired(self) -> int:
        """Remove what has expired, and give the number of memories; :meth:`purge` also clears the bytes."""
        return self.remove(self.ledger.expired(self.now()))

    def remove(self, keys: Sequence[MemoryKey]) -> int:
        """Remove those of the memories that are there, with every trace, in one transaction; gives their number."""
        if not keys:
            return 0
        gone: list[Passage] = []
        with self.ledger.transaction(*reached([(key.scope, True) for key in keys])):
            for key in keys:
                gone += self.unindexed(key.scope, id=key.id)
            removed = self.ledger.management.remove(keys)
        self.let_go(gone)
        return removed

    def move(self, keys: Sequence[MemoryKey], *, target_scope: str) -> list[AnyMemory]:
        """Give memories another scope, in one transaction, and give them as they are there, in the order given.

        Raises:
            NotFoundError: One of them is not there.
            ValidationError: The target is malformed, or an id is taken in it; nothing was moved.
        """
        target = scopes.parse(target_scope)
        with self.ledger.transaction():
            leaving = [key for key in keys if key.scope != target]
            passages = [passage for key in leaving for passage in self.unindexed(key.scope, id=key.id)]
            self.ledger.management.move(keys, target_scope=target)
            self.keyword.add([replace(passage, scope=target) for passage in passages])
            return [self.get(key.id, scope=target) for key in keys]

    def add_pending_reviews(self, reviews: Sequence[PendingReview]) -> None:
        """File retrievals for later review, without the memories that have been forgotten meanwhile."""
        with self.ledger.transaction(*{review.scope for review in reviews}):
            there = self.ledger.present([key for review in reviews for key in review.memories])
            kept = [replace(review, memories=tuple(filter(there.__contains__, review.memories))) for review in reviews]
            self.ledger.add_pending_reviews([review for review in kept if review.memories])


def reached(changes: Iterable[tuple[str, bool]]) -> set[str]:
    """The scopes that changes reach: a removal also reaches the reviews of every scope above.

    Args:
        changes: For each the scope, and whether it may remove something.
    """
    return {each for scope, removes in changes for each in (scopes.lineage(scope) if removes else [scope])}
