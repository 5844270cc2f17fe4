"""The memory manager: one object with every operation that the memory tools perform on memories.

Everything goes through the store, so that each operation is whole or not at all. Nothing here knows what a tool's
answer looks like, nor what a model may name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from datetime import datetime, timedelta
from typing import Final, TypeVar

import numpy as np

from memory_retrievers.backends.sql.requests import beside_request, under_way
from memory_retrievers.errors import READ_ONLY, ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Draft,
    EpisodicMemory,
    Kind,
    MemoryKey,
    SemanticDraft,
    SemanticMemory,
    Tier,
    scopes,
)
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import (
    Association,
    AuditEntry,
    Change,
    FoundMemory,
    MemoryFilter,
    SearchRequest,
    check_top_k,
)
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import ForgottenMessages
from memory_retrievers.models.selection import Vectors
from memory_retrievers.retrieval.request import check_length
from memory_retrievers.storage.options import ResolvedOptions
from memory_retrievers.storage.store import MemoryStore, Revision, affected_scopes
from memory_retrievers.text.dates import shifted
from memory_retrievers.tools.manager.importance import Importance
from memory_retrievers.tools.manager.search import open_memories, search

WorkT = TypeVar("WorkT")

_MOVED_BY_USE: Final = frozenset({"updated_at", "access_count", "last_accessed_at"})


class MemoryManager:
    """Stores, finds, searches, changes, moves and associates memories, for the memory tools.

    It may be used from several threads at once. A store that was opened read-only refuses whatever writes, and counts
    no accesses.

    Args:
        store: Where the memories are.
        options: What the tools keep to, what counts as the same memory, and whether open episodes are among them.
        retold: Makes title and summary of an episode of the messages that are left.
        read_only: Refuse to write.
    """

    def __init__(
        self,
        store: MemoryStore,
        options: ResolvedOptions,
        *,
        retold: Callable[[Sequence[Message]], Mapping[str, object]],
        read_only: bool = False,
    ) -> None:
        self.settings = options.tools
        self.ingestion = options.ingestion
        self._retrieval = options.retrieval
        self._retold = retold
        self._store = store
        self._ledger = store.ledger.management
        self._is_read_only = read_only
        self._lock = threading.Lock()
        self._purged_at: datetime | None = None

    @property
    def importance(self) -> Importance:
        """The importance of memories: counts accesses, and rates memories by them or by hand."""
        return Importance(
            store=self._store, settings=self.settings, transaction=self.transaction, is_read_only=self._is_read_only
        )

    def read_only(self) -> MemoryManager:
        """A manager of the same memories that refuses to write, and counts no accesses."""
        looking = copy(self)
        looking._is_read_only = True  # noqa: SLF001 - its own
        return looking

    def now(self) -> datetime:
        """The current moment in UTC."""
        return self._store.now()

    def find(self, id: str, *, root: str, scope: str) -> AnyMemory:
        """The memory of this id, of either kind: in the scope, or else anywhere in the root.

        Args:
            id: The id of the memory.
            root: The scope that bounds the search, child scopes included.
            scope: The scope to look in first, within the root.

        Raises:
            NotFoundError: There is none there, or it has expired; what lies outside the root makes no difference.
            ValidationError: There are several in the root, and none in the scope.
        """
        id = storable(id)  # noqa: A001
        if not scopes.is_within(scopes.parse(root), scopes.parse(scope)):
            raise NotFoundError(f"Memory not found: {id}")
        for searched, with_children in ((scope, False), (root, True)):
            where = MemoryFilter(
                scope=searched, include_child_scopes=with_children, kinds="all", ids=(id,), include_invalidated=True
            )
            found = self.select(where, limit=2)
            if len(found) == 1:
                return found[0]
            if found:
                raise ValidationError(
                    f"several scopes hold a memory of the id {id}: name the one meant, for example with "
                    "memory_manage(operation='get', memory_id=..., scope=...)"
                )
        raise NotFoundError(f"Memory not found: {id}")

    def select(self, filter: MemoryFilter, *, limit: int | None = None, offset: int = 0) -> list[AnyMemory]:
        """The memories that a filter lets through, open episodes among them, newest first, then by id.

        Args:
            filter: Which memories.
            limit: At most this many; None gives all.
            offset: So many are left out before.
        """
        scopes.parse(filter.scope)
        found = self.open_episodes(filter)
        # so many of those before the page may have moved behind open ones, which are placed among those read here
        before = min(offset, len(found))
        most = None if limit is None else limit + before
        stored = self._ledger.select(filter, now=self.now(), limit=most, offset=offset - before)
        if not found:
            return stored
        together = sorted([*stored, *found], key=lambda memory: (memory.id, memory.scope))
        together.sort(key=lambda memory: memory.created_at, reverse=True)
        return together[before : None if limit is None else before + limit]

    def count(self, filter: MemoryFilter) -> int:
        """The number of memories that a filter lets through."""
        scopes.parse(filter.scope)
        return self._ledger.count(filter, now=self.now()) + len(self.open_episodes(filter))

    def open_episodes(self, filter: MemoryFilter) -> list[EpisodicMemory]:
        """The conversations that are still queued and that a filter lets through, if searches are to see them."""
        return open_memories(self._store, filter) if self._retrieval.searches_open else []

    def scopes(self, *, root: str) -> dict[str, int]:
        """Every scope of the root, itself included, that holds memories, with their number, sorted by name."""
        return self._ledger.scopes(scopes.parse(root), now=self.now())

    def search(self, request: SearchRequest) -> list[FoundMemory]:
        """The memories that answer a query best; nothing is counted as an access.

        A search by words alone embeds nothing: its hits have the similarity 0, and ``min_similarity`` leaves it alone.
        """
        check_length(request.query, most=self._retrieval.query_characters)
        shown = self._retrieval if self._retrieval.searches_open else None
        return search(self._store, request, settings=self.settings, retrieval=shown)

    def like(self, text: str, filter: MemoryFilter, *, top_k: int, min_similarity: float = 0.0) -> list[FoundMemory]:
        """The memories nearest to a text as long as a memory may be: it is compared whole, as it would be stored.

        Args:
            text: The text, which must not be blank.
            filter: The memories to search among.
            top_k: The most hits to return, 1 to 1,000.
            min_similarity: The least similarity of a hit, 0 to 1.
        """
        request = SearchRequest(text, filter, top_k=top_k, min_similarity=min_similarity)

        def near(vectors: Vectors) -> list[FoundMemory]:
            return search(self._store, request, settings=self.settings, vector=vectors[0])

        return self._store.search_texts([storable(text)], near)

    def nearest_facts(self, vector: Sequence[float], filter: MemoryFilter, *, top_k: int) -> list[SemanticMemory]:
        """The facts whose vectors have the largest cosine with one, the largest first; words do not count.

        Args:
            vector: A vector of the store's embedder, shape (d,), of any length but 0.
            filter: The memories to search among.
            top_k: The most facts to return, 1 to 1,000.

        Raises:
            ValidationError: The vector is none of the store's embedder, or ``top_k`` lies outside its range.
        """
        scopes.parse(filter.scope)
        check_top_k(top_k)
        dimension = self._store.embedder.current().fingerprint.dimension
        if len(vector) != dimension:
            raise ValidationError(f"a vector has {len(vector)} numbers, and those of this store {dimension}")
        given = np.array(vector, np.float64)
        length = float(np.linalg.norm(given))
        if not 0 < length < np.inf:
            raise ValidationError("a vector must have finite numbers, and not be zero")
        unit = (given / length).astype(np.float32)
        hits = self._store.dense.search(unit, filter.selection(Kind.SEMANTIC, now=self.now()), limit=top_k)
        found = self._store.ledger.load(hits.memories)
        near = (found.get(row) for row in hits.memories)
        return [each for each in near if isinstance(each, SemanticMemory) and each.scope == filter.scope]

    def vectors_of(self, memories: Sequence[AnyMemory]) -> Vectors:
        """The stored unit vectors of n memories in their order, shape (n, d); zeros for one that is not searched."""
        keys = [memory.key for memory in memories]
        passages = self._ledger.passages(keys)
        ids, matrix = self._store.ledger.vectors(list(passages.values()))
        rows = dict(zip(ids, matrix, strict=True))
        nothing = np.zeros(matrix.shape[1], np.float32)
        vectors = [rows.get(passages.get(key, 0), nothing) for key in keys]
        return np.array(vectors, np.float32).reshape(len(keys), -1 if keys else 0)

    def present(self, keys: Sequence[MemoryKey]) -> set[MemoryKey]:
        """Those of some memories that exist, whatever their state."""
        return self._store.ledger.present(keys)

    def audit(self, memory: AnyMemory) -> list[AuditEntry]:
        """Return the audit entries of a memory about its use and importance, oldest first."""
        return self._ledger.audit(memory.key)

    def associations_of(self, memory: AnyMemory, *, within: str, limit: int | None = None) -> list[Association]:
        """The associations of a memory, strongest first.

        Args:
            memory: The memory.
            within: Only those with memories of this scope, or of one below it.
            limit: At most this many; None gives all.
        """
        return self._ledger.associations(memory.key, within=scopes.parse(within), now=self.now(), limit=limit)

    def attempt(self, work: Callable[[], WorkT]) -> WorkT:
        """Do work whose transactions wait for no embedder and no hook, see ``MemoryStore.attempt``."""
        return self._store.attempt(work)

    def prepare(self, drafts: Sequence[SemanticDraft]) -> None:
        """Embed drafts that an attempt is going to store, before its transaction."""
        self._store.prepare([self._timed(draft) for draft in drafts])

    @contextmanager
    def transaction(self, *within: str) -> Iterator[None]:
        """Several operations that change these scopes together: all of them are kept, or none."""
        with self._writing().transaction(*within):
            yield

    @contextmanager
    def transaction_for(
        self, find: Callable[[], Sequence[AnyMemory]], *, scope: str, removes: bool = False
    ) -> Iterator[Sequence[AnyMemory]]:
        """Open a transaction in the scopes of the memories that it is about; writes in all others go on.

        Args:
            find: Finds the memories; called again once nobody else can change them, until they stay where they are.
            scope: What is stored beside goes here.
            removes: Whether memories may be removed.

        Yields:
            The memories.
        """
        found = find()
        while True:
            within = affected_scopes([(scope, removes), *((memory.scope, removes) for memory in found)])
            with self.transaction(*within):
                found = find()
                if within.issuperset(memory.scope for memory in found):
                    yield found
                    return

    def add(
        self,
        drafts: Sequence[Draft],
        *,
        replace: bool = False,
        allow_duplicates: bool = True,
        replacing: Sequence[str | None] = (),
    ) -> list[SemanticMemory]:
        """Store drafts in one transaction, all or none, and give the facts alone, complete, in the order given.

        Args:
            drafts: What to store, with whatever ids and times they bring; their texts are embedded in batches.
            replace: Forget the memories whose scope and id the drafts have; otherwise an id must not be taken.
            allow_duplicates: Store a fact also if it is known; otherwise the known one is confirmed, and a single new
                one says what it may contradict.
            replacing: For each draft the id of a fact that it holds instead of, or None; may be shorter.
        """

        def all_admitted(memories: list[AnyMemory]) -> None:
            if len(memories) < len(drafts):
                raise ValidationError("before_store rejected this; nothing was stored")

        stored = self._writing().put(
            [self._timed(draft) for draft in drafts],
            replace=replace,
            allow_duplicates=allow_duplicates,
            replacing=replacing,
            near=None if allow_duplicates else self.ingestion,
            together=all_admitted,
        )
        return [fact for fact in stored if isinstance(fact, SemanticMemory)]

    def confirm(self, fact: SemanticMemory, draft: SemanticDraft) -> SemanticMemory | None:
        """Confirm a known fact by a draft that states it again, and return it; None if it no longer holds."""
        return self._writing().confirm(fact.key, draft)

    def _timed(self, draft: Draft) -> Draft:
        """A short-term memory without a time of its own gets one, where the settings say so."""
        if not self.settings.short_term_expires or draft.tier is not Tier.SHORT_TERM or draft.expires_at is not None:
            return draft
        lives = timedelta(seconds=self.settings.short_term_ttl_seconds)
        return draft.model_copy(update={"expires_at": (draft.created_at or self.now()) + lives})

    def update(self, change: Change) -> AnyMemory:
        """Change one memory and give it as it is now; see :meth:`update_many`."""
        (after,) = self.update_many([change])
        return after

    def update_many(self, changes: Sequence[Change]) -> list[AnyMemory]:
        """Change memories in one transaction: all of them or none; new texts are embedded in batches.

        A new text is found from then on, the old one no longer but by searches of the past, unless the change only
        corrects it. ``updated_at`` moves unless nothing is different.

        Raises:
            ValidationError: A field breaks a rule, or an episode was given a content or category.
        """
        return self._writing().update_many([Revision(each.memory.key, each.revised, each.correct) for each in changes])

    def restore(self, before: AnyMemory, after: AnyMemory) -> AnyMemory:
        """Undo what made ``after`` of ``before``: a fact that said something new since has never said it.

        Raises:
            ValidationError: What was changed then has been changed again since; nothing was changed.
        """
        names = [name for name in type(before).model_fields if name not in _MOVED_BY_USE]
        names = [name for name in names if getattr(before, name) != getattr(after, name)]

        def former(memory: AnyMemory) -> dict[str, object]:
            if any(getattr(memory, name) != getattr(after, name) for name in names):
                raise ValidationError(f"{memory.id} has been changed again since: this can no longer be undone")
            return {name: getattr(before, name) for name in names}

        def restored() -> AnyMemory:
            with self._store.transaction(before.scope):
                (memory,) = self._store.update_many([Revision(before.key, former, correct=True, restores=True)])
                if isinstance(before, SemanticMemory) and isinstance(after, SemanticMemory) and "fact" in names:
                    self._store.ledger.facts.drop_version(before, until=after.valid_at)
            return memory

        return self._writing().attempt(restored)

    def delete(self, memories: Sequence[AnyMemory]) -> None:
        """Remove memories for good, with every trace of them, in one transaction; one that is gone is left out."""
        is_open = [memory for memory in memories if isinstance(memory, EpisodicMemory) and memory.is_open]
        with self.transaction(*affected_scopes((each.scope, True) for each in memories)):
            for memory in is_open:
                with suppress(NotFoundError):
                    self._store.open_episodes.forget(memory.id, scope=memory.scope)
            self._store.remove([memory.key for memory in memories])

    def forget_messages(
        self, scope: str, named: Sequence[Message | str], *, by: str | None = None
    ) -> ForgottenMessages:
        """Remove messages of a scope for good, as ``AgentMemory.forget_messages`` does.

        Args:
            scope: The scope.
            named: Which messages.
            by: Whose alone are meant by words, as a block shows the name; None are everybody's.
        """
        return self._writing().forget_messages(scope, named, by=by, retold=self._retold)

    def quote(self, memories: Sequence[AnyMemory]) -> None:
        """Note what else the answer to the request under way quotes, which is not given again without it."""
        if (request := under_way.get()) is not None:
            request.quoted.update(memory.key for memory in memories)

    def move(self, memories: Sequence[AnyMemory], *, target_scope: str) -> list[AnyMemory]:
        """Give memories another scope, in one transaction, and give them as they are there.

        Ids, times and associations stay.

        Raises:
            ValidationError: The target is malformed, or an id is taken in it; nothing was moved.
            NotFoundError: A memory is gone; nothing was moved.
        """
        return self._writing().move([memory.key for memory in memories], target_scope=target_scope)

    def cosine(self, hit: FoundMemory) -> float:
        """The cosine, by which associations and duplicates are defined even where the host reports another measure."""
        return hit.similarity if self.settings.similarity == "cosine" else 2 * hit.similarity - 1

    def associate(self, associations: Sequence[Association]) -> int:
        """Associate pairs of memories, of two associations of one pair the stronger; gives how many pairs are new."""
        if not associations:
            return 0
        return self._writing().ledger.management.associate(associations)

    def _writing(self) -> MemoryStore:
        """The store, for an operation that writes: first, what has expired is purged, unless in a transaction."""
        if self._is_read_only:
            raise ConfigurationError(READ_ONLY)
        if not self._store.ledger.database.is_writing:
            self._purge()
        return self._store

    def _purge(self) -> None:
        """Remove what has expired and what was noted long ago, unless that was done a short while ago."""
        now, interval = self.now(), timedelta(seconds=self.settings.cleanup_interval_seconds)
        with self._lock:
            last = self._purged_at
            if last is not None and timedelta() <= now - last < interval:
                return
            self._purged_at = now
        with beside_request():
            self._store.remove_expired()
            self._ledger.forget_audit(before=shifted(now, -timedelta(days=self.settings.audit_days)))
