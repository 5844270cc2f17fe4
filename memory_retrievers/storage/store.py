"""The store: memories, passages, vectors and indexes, kept consistent by one transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import uuid_utils

from memory_retrievers import fsrs
from memory_retrievers.backends.sql.requests import beside_request, under_way
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    Draft,
    EpisodicDraft,
    EpisodicMemory,
    MemoryKey,
    SemanticDraft,
    SemanticMemory,
    scopes,
)
from memory_retrievers.models.management import MemoryEventType, changes_of, require_category
from memory_retrievers.models.memories import NearFact, changed, parse_id
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import MAX_PAGE, ForgottenMessages, PendingReview
from memory_retrievers.models.selection import TURN, Embedded, NewPassage, Passage, Vector, Vectors
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.drafts import Attempt, NotPrepared, PendingDraft, PendingDrafts, confirmed
from memory_retrievers.storage.embedder import StoreEmbedder
from memory_retrievers.storage.open_episodes import OpenEpisodes
from memory_retrievers.storage.tracing import EMBED, observer_of_stages
from memory_retrievers.text.passages import PassageText, longest_words, naming, passage_texts, with_vectors

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.connection import States
    from memory_retrievers.storage.embedder import ProbedEmbedder
    from memory_retrievers.storage.open import Storage
    from memory_retrievers.storage.options import ResolvedOptions


FoundT = TypeVar("FoundT")
VectorT = TypeVar("VectorT", "Vector", "Vectors")
RecordT = TypeVar("RecordT", bound="Message | Draft | AnyMemory")


class Revision(NamedTuple):
    """A change of a memory."""

    key: MemoryKey  # which memory
    # the fields it is to have, made from what it is; may be called again after a concurrent change
    fields: Callable[[AnyMemory], Mapping[str, object]]
    # a new text mends a fact in place; otherwise what the fact said until now is kept as a former version
    correct: bool = False
    restores: bool = False  # the change undoes another one


class _NotAdmittedError(Exception):
    """The store has moved to another embedder, or is about to."""


_AT_ONCE: Final = 0.0005  # seconds in which nothing is written that a search should still find: no commit is as fast

_ERASED_TOGETHER: Final = 256  # episodes whose messages are erased in one transaction

_RETOLD_TOGETHER: Final = 100
"""Episodes of which messages are forgotten in one transaction, about a tenth of a second each."""


class _Transaction(threading.local):
    """The transaction of a thread: whether one is open, the passages deleted in it, and the attempt it is part of.

    An embedder found to be the store's stays so until the transaction ends: nobody else can replace it meanwhile.
    """

    is_open = False
    embedder: ProbedEmbedder | None = None

    def __init__(self) -> None:
        self.deleted: list[int] = []
        self.attempt: Attempt | None = None


class MemoryStore:
    """Storage of memories: the ledger, its indexes, and the embedder that fills them.

    Args:
        storage: The ledger and its indexes.
        options: Options of the store; its embedder must be the one the store was filled with.
        read_only: Searches store nothing.

    Attributes:
        on_missing_tokens: Called where token vectors are found to be missing.
        after_write: Called after each outermost transaction: for who follows the changes.

    Raises:
        EmbeddingMismatchError: The store was filled with an embedder of another id.
    """

    def __init__(self, storage: Storage, options: ResolvedOptions, *, read_only: bool = False) -> None:
        self.ledger = ledger = storage.ledger
        self.categories: Final = tuple(options.ingestion.categories)
        self.keyword = storage.keyword
        self.dense = storage.dense
        self._clock = options.clock
        self.searched: Final = options.retrieval.passages
        self.before_store = options.before_store
        self.embedder = StoreEmbedder(ledger, options.embedder, with_tokens=options.retrieval.measures_tokens)
        self.open_episodes = OpenEpisodes(ledger, self.embedder, read_only=read_only)
        self.on_missing_tokens: Callable[[], None] = lambda: None
        self.after_write: Callable[[], None] = lambda: None
        self._transaction = _Transaction()
        ledger.snapshots.before_load = self._require_loaded

    def now(self) -> datetime:
        """Return the current time in UTC; in all of an attempt, that of its beginning."""
        if (attempt := self._transaction.attempt) is not None:
            return attempt.now
        moment = datetime.now(UTC) if self._clock is None else self._clock.now()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def admitted(self, record: RecordT) -> RecordT | None:
        """Return the record as it may be stored, or None if it may not.

        Raises:
            ConfigurationError: ``before_store`` gave something that is no such record, or moved it to another scope.
        """
        (kept,) = self._all_admitted([record])
        return kept

    def _all_admitted(self, records: Sequence[RecordT]) -> list[RecordT | None]:
        """What :meth:`admitted` makes of each of several records."""
        if self.before_store is None:
            return list(records)
        prepared = self._prepared
        kept = map(self.before_store, records) if prepared is None else prepared.admitted(records, self.before_store)
        return [self._of_the_same_kind(record, each) for record, each in zip(records, kept, strict=True)]

    def _of_the_same_kind(self, record: RecordT, kept: Any) -> RecordT | None:  # noqa: ANN401 - what the hook gave
        if kept is None:
            return None
        if not isinstance(kept, type(record)) or getattr(kept, "scope", None) != getattr(record, "scope", None):
            raise ConfigurationError(
                f"before_store was given a {type(record).__name__} and must return one of the same scope, or None"
            )
        if kept is record:
            return record
        return kept.model_copy(update=dict(kept))  # type: ignore[return-value]  # of that class; all of it is checked

    def get(self, id: str, *, scope: str) -> AnyMemory:
        """Return the memory of this id in this scope, whatever its state, unless it has expired.

        Raises:
            NotFoundError: There is none; other scopes make no difference.
        """
        memory = self.ledger.get(scope=scopes.parse(scope), id=parse_id(id))
        if memory is None or memory.has_expired(self.now()):
            raise NotFoundError(f"Memory not found: {id}")
        return memory

    def load(self, rows: Sequence[int], *, as_of: datetime | None) -> dict[int, AnyMemory]:
        """Read the memories of the given rows that exist, as they were at a moment; None is now."""
        memories = self.ledger.load(rows)
        return memories if as_of is None else self.ledger.facts.then(memories, as_of=as_of)

    def required(self, memory: AnyMemory) -> AnyMemory:
        """Return a changed memory as it may be stored."""
        kept = self.admitted(memory)
        if kept is None:
            raise ValidationError("before_store rejected this; nothing was changed")
        return kept

    @contextmanager
    def transaction(self, *within: str) -> Iterator[None]:
        """Group several changes of these scopes: all are kept or none; a nested transaction joins the outer one.

        Once the outermost one has ended, passages that were deleted inside leave the snapshots, and those that were
        added to the one scope it is of come into them.
        """
        if self._transaction.is_open:
            deleted_before = len(self._transaction.deleted)
            try:
                with self.ledger.database.write(*within):
                    yield
            except BaseException:
                del self._transaction.deleted[deleted_before:]  # what it deleted is there again
                raise
            return
        self._transaction.is_open, is_done = True, False
        try:
            with self.ledger.database.write(*within):
                yield
            if len(within) == 1:
                self.ledger.snapshots.grow(within[0])
            is_done = True
            if self._transaction.attempt is not None:
                self._transaction.attempt.has_written = True
        finally:
            self._transaction.is_open, self._transaction.embedder = False, None
            deleted, self._transaction.deleted = self._transaction.deleted, []
            if deleted:  # what failed has deleted nothing, or all if it was only not reported: snapshots are made anew
                self.ledger.snapshots.forget(deleted if is_done else None)
                self.open_episodes.clear()
        if not self.ledger.database.is_writing:
            self.after_write()

    def attempt(self, work: Callable[[], FoundT]) -> FoundT:
        """Do work whose transactions wait for no embedder and no hook: what they need is prepared outside.

        It may be begun again, after everything that it wrote was undone.
        """
        if self._transaction.is_open or self._transaction.attempt is not None:
            return work()
        attempt = self._transaction.attempt = Attempt(self.now())
        try:
            while True:
                attempt.has_written = False
                try:
                    return work()
                except NotPrepared as needed:
                    needed.prepare()
        finally:
            self._transaction.attempt = None

    def prepare(self, drafts: Sequence[Draft]) -> None:
        """Prepare drafts that an attempt is going to store, so that it need not begin again for them."""
        attempt = self._transaction.attempt
        if attempt is None or self._transaction.is_open or not drafts:
            return
        if self.before_store is not None:
            attempt.prepare_admitted(drafts, self.before_store)
        attempt.prepare_documents(self.embedder.latest(), [draft.embedding_text for draft in drafts])

    @property
    def _prepared(self) -> Attempt | None:
        """What is prepared for the open transaction of this thread; None if all may be asked for."""
        attempt = self._transaction.attempt
        return attempt if attempt is not None and self._transaction.is_open and not attempt.has_written else None

    def _require_loaded(self, key: Hashable, load: Callable[[], object]) -> None:
        if (prepared := self._prepared) is not None:
            prepared.require_loaded(key, load)

    def _latest_embedder(self) -> ProbedEmbedder:
        """The embedder as it was last seen, which is probed outside a transaction that is to be short."""
        if self._prepared is not None and not self.embedder.is_probed:
            raise NotPrepared(self.embedder.current)
        return self.embedder.latest()

    def _embed_passages(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> list[Embedded]:
        prepared = self._prepared
        return embedder.embed_passages(texts) if prepared is None else prepared.documents(embedder, texts)

    def _embed_documents(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> Vectors:
        """Embed n texts as they are stored: shape (n, d)."""
        prepared = self._prepared
        if prepared is None:
            return embedder.embed_documents(texts)
        import numpy as np  # here, so that importing the package loads no numpy

        return np.stack([each.vector for each in prepared.documents(embedder, texts)])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed n texts as they are stored with the store's embedder: shape (n, d)."""
        self._latest_embedder()
        return self._embed_documents(self.embedder.current(), texts)

    def write(
        self,
        texts: Sequence[Sequence[PassageText]],
        change: Callable[[list[list[NewPassage]]], FoundT],
        *,
        within: Iterable[str],
        known: Callable[[], Mapping[str, Embedded]] | None = None,
        look: Callable[[list[list[NewPassage]]], None] | None = None,
    ) -> FoundT:
        """Embed texts, and change the store in a transaction in which its vectors are still of that embedder.

        Args:
            texts: The texts of each memory.
            change: Called with the passages of each memory, inside the transaction, and again if it was undone.
            within: The scopes that are changed, as for :meth:`transaction`.
            known: Reads vectors that the store has of some of the texts.
            look: Called with the same passages before the transaction, to search by their vectors.
        """
        scopes_changed, is_within = set(within), self._transaction.is_open
        embedder = self._latest_embedder()
        while True:
            passages = with_vectors(
                texts, partial(self._embed_passages, embedder), known=None if known is None else known()
            )
            try:
                if look is not None:
                    look(passages)
            except Exception:
                if self.embedder.holds(embedder):
                    raise  # else vectors of two lengths have met
            else:
                with suppress(_NotAdmittedError), self.transaction(*scopes_changed):
                    if self._transaction.embedder is embedder or self.embedder.admits(embedder, can_wait=not is_within):
                        return change(passages)
                    raise _NotAdmittedError  # so that a request under way is not noted as done
                if not is_within:
                    self.embedder.wait_while_held()
            embedder = self.embedder.current()

    def add(
        self,
        memories: Sequence[AnyMemory],
        passages: Sequence[Sequence[NewPassage]],
        *,
        event: MemoryEventType | None = MemoryEventType.CREATED,
    ) -> list[Passage]:
        """Store memories, each with its passages and their postings; inside a transaction.

        Args:
            memories: The memories.
            passages: The passages of each.
            event: What the log says of it; None says nothing.

        Raises:
            ValidationError: A memory's id is already taken in its scope; nothing was stored.
        """
        added = self._indexed(self.ledger.add(memories, passages))
        if event is not None:
            for made, which in ((event, False), (MemoryEventType.MERGED, True)):
                if keys := [memory.key for memory in memories if bool(memory.consolidated_from) is which]:
                    self.ledger.events.note(keys, made, at=self.now())
        return added

    def overwrite(
        self, memory: AnyMemory, passages: Sequence[NewPassage], *, outdated: AbstractSet[str] | None
    ) -> list[Passage]:
        """Overwrite the memory of the same scope and id, its outdated passages and their postings; in a transaction.

        Args:
            memory: The memory as it is to be.
            passages: Passages in place of the outdated ones.
            outdated: Parts whose passages are deleted; None deletes all.
        """
        self._delete_passages(memory, outdated)
        return self._indexed(self.ledger.replace(memory, passages))

    def put_passages(self, memory: AnyMemory, passages: Sequence[NewPassage], *, outdated: AbstractSet[str]) -> None:
        """Replace the outdated passages of a memory and their postings, not the memory itself; inside a transaction.

        Args:
            memory: The memory.
            passages: Passages that it gets.
            outdated: Parts whose passages are deleted.
        """
        self._delete_passages(memory, outdated)
        self._indexed(self.ledger.put_passages(memory, passages))

    def _indexed(self, passages: list[Passage]) -> list[Passage]:
        self.keyword.add(passages)
        return passages

    def _delete_passages(self, memory: AnyMemory, parts: AbstractSet[str] | None) -> None:
        """Delete passages of a memory with their postings: those of the given parts, or all."""
        if parts is None or parts:
            passages = self.ledger.passages_of(memory.scope, id=memory.id)
            self.remove_passages([passage for passage in passages if parts is None or passage.part in parts])

    def remove_passages(self, passages: Sequence[Passage]) -> None:
        """Delete passages with their postings, and keep their memories; inside a transaction."""
        self.ledger.remove_passages(self._unindexed(passages))

    def _unindexed(self, passages: Sequence[Passage]) -> list[int]:
        """Remove the postings of passages that leave the ledger in this transaction; returns the passages' ids."""
        self.keyword.remove(passages)
        ids = [passage.id for passage in passages]
        self._transaction.deleted += ids
        return ids

    def search(
        self, query: str, find: Callable[[Vector], FoundT], *, known: States | None = None, passages: int | None = None
    ) -> FoundT:
        """Embed a question and search with its vector, of shape (d,), against vectors of the same embedder.

        Args:
            query: The question.
            find: Searches the indexes; called once more if the store has moved to another embedder meanwhile.
            known: States of scopes that were read just before, and are read again if the embedder had to be asked.
            passages: Passages of the scope, nearly, by which searches of threads take turns; None if nobody knows.
        """
        states = {} if known is None else known
        prepared = self._prepared

        def embed(embedder: ProbedEmbedder) -> Vector:
            if prepared is not None:
                return prepared.question(embedder, query)
            begun = time.monotonic()
            vector = embedder.embed_query(query)
            if time.monotonic() - begun >= _AT_ONCE:
                states.clear()
            return vector

        return self._search(embed, find, states, passages)

    def search_texts(self, texts: Sequence[str], find: Callable[[Vectors], FoundT]) -> FoundT:
        """Like :meth:`search`, with the vectors of n texts as they would be stored, of shape (n, d)."""
        return self._search(lambda embedder: self._embed_documents(embedder, texts), find, {}, None)

    def _search(
        self,
        embed: Callable[[ProbedEmbedder], VectorT],
        find: Callable[[VectorT], FoundT],
        states: States,
        passages: int | None,
    ) -> FoundT:
        embedder, snapshots = self._latest_embedder(), self.ledger.snapshots
        while True:
            try:
                with observer_of_stages.get()(EMBED):
                    embedded = embed(embedder)
                # the turn first: a few connections, whose pages are warm, serve all threads
                with snapshots.analyzing(), snapshots.turn(passages), self.ledger.database.reading(states):
                    found = find(embedded)
                    if self._transaction.embedder is embedder:
                        return found
                    if self.embedder.holds(embedder):
                        if self._transaction.is_open and embedder.state and embedder.state.probe:
                            self._transaction.embedder = embedder
                        return found
            except Exception:
                if self.embedder.holds(embedder):
                    raise  # else vectors of two lengths may have met
            states.clear()
            embedder = self.embedder.current()

    def close(self) -> None:
        """Release all resources."""
        self.embedder.close()
        self.dense.close()
        self.ledger.close()

    def check_category(self, category: Category | None) -> None:
        """Refuse a category that the memory does not have; None is no category."""
        if category is not None:
            require_category(category, self.categories)

    def put(
        self,
        drafts: Sequence[Draft],
        *,
        replace: bool = False,
        allow_duplicates: bool = True,
        replacing: Sequence[str | None] = (),
        near: IngestionSettings | None = None,
        together: Callable[[list[AnyMemory]], None] | None = None,
        known: Callable[[], Mapping[str, Embedded]] | None = None,
    ) -> list[AnyMemory]:
        """Embed drafts in batches and store them in one transaction.

        Args:
            drafts: What to store.
            replace: Forget the memories whose scope and id the drafts have, in the same transaction.
            allow_duplicates: Store a fact also if it is known; otherwise the known one is confirmed and returned.
            replacing: For each draft the id of a fact that it holds instead of, or None; may be shorter.
            near: What counts as near, to tell of facts that a single new one may contradict; None tells of none.
            together: Called with the returned memories inside the transaction, to write what belongs with them: kept
                and undone with them. It may be called again, after what it wrote was undone.
            known: Reads vectors that the store has of some of the texts, as for :meth:`write`.

        Returns:
            The memories, complete, in the order given; what ``before_store`` has held back is not among them.

        Raises:
            NotFoundError: There is no fact of an id to replace; nothing was stored.
            ValidationError: A scope is malformed, an id is taken, twice among the drafts if not in the store, or a
                memory to replace is no fact or replaced already.
        """
        for draft in drafts:
            self.check_category(draft.category if isinstance(draft, SemanticDraft) else None)
        now = self.now()
        replaced = [*replacing, *[None] * (len(drafts) - len(replacing))]
        admitted = zip(self._all_admitted(drafts), replaced, strict=True)
        prepared = [PendingDraft(kept, complete(kept, now=now), old) for kept, old in admitted if kept is not None]
        if not prepared:
            if together is not None:
                with self.transaction(*{draft.scope for draft in drafts}):
                    together([])
            return []
        pending = PendingDrafts(self.ledger, prepared, now)
        pending.replaced()  # what is wrong is refused before anything is embedded
        similar: tuple[NearFact, ...] = ()

        def look(passages: list[list[NewPassage]]) -> None:
            nonlocal similar
            similar = pending.near(passages, self.dense, near)

        def change(passages: list[list[NewPassage]]) -> list[AnyMemory]:
            gone = [*self.ledger.present([each.memory.key for each in prepared])] if replace else []
            with self.ledger.characters.made_anew(gone) if gone else nullcontext():
                self.remove(gone, event=None)
                memories = pending.store(passages, self.add, allow_duplicates=allow_duplicates)
            if together is not None:
                together(memories)
            if (request := under_way.get()) is not None:
                request.note_made(memories)
                request.quoted.update(MemoryKey(scope=prepared[0].memory.scope, id=each.id) for each in similar)
            return memories

        texts = [passage_texts(each.memory, searched=self.searched) for each in prepared]
        affected = affected_scopes((each.memory.scope, replace) for each in prepared)
        stored = self.write(texts, change, within=affected, known=known, look=look)
        return [_with_similar(memory, similar) for memory in stored] if similar else stored

    def confirm(self, key: MemoryKey, draft: SemanticDraft) -> SemanticMemory | None:
        """Confirm a known fact, and return it, marked so; None if it is not there or does not hold.

        It gets the tags, metadata and sources of the draft that states it again.
        """
        now = self.now()
        with self.transaction(key.scope):
            known = self.ledger.get(scope=key.scope, id=key.id)
            if not isinstance(known, SemanticMemory) or known.invalid_at is not None or known.has_expired(now):
                return None
            after = confirmed(known, draft, now=now)
            self.ledger.replace(after)
            self.ledger.events.note([key], MemoryEventType.CONFIRMED, at=now)
            return after.model_copy(update={"duplicate_of": after.id})

    def invalidate(self, id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true; it is kept but no longer found."""
        with self.transaction(scopes.parse(scope)):
            fact = self.get(id, scope=scope)
            if not isinstance(fact, SemanticMemory):
                raise ValidationError(f"{id} is an episode; only facts can be invalidated")
            if fact.invalid_at is not None:
                return fact
            now = max(self.now(), fact.updated_at)  # a clock may have been set back since
            self.ledger.invalidate(scope=scope, id=fact.id, at=now)
            self.ledger.events.note([fact.key], MemoryEventType.INVALIDATED, at=now)
            ended = {"invalid_at": max(now, fact.valid_at), "updated_at": now, "replaced_by": None}
            return fact.model_copy(update=ended)

    def update(self, id: str, *, scope: str, fields: Mapping[str, object], correct: bool = False) -> AnyMemory:
        """Change some fields of a memory; a new text is embedded and indexed in the same transaction.

        What a fact said before is kept as a former version of it, unless it is only corrected.

        Args:
            id: Id of the memory.
            scope: Its scope.
            fields: New values by field; ``NOT_GIVEN`` leaves a field as it is.
            correct: A new text mends a slip in place.
        """
        key = MemoryKey(scope=scopes.parse(scope), id=parse_id(id))
        (after,) = self.update_many([Revision(key, lambda _: fields, correct)])
        return after

    def update_many(self, revisions: Sequence[Revision]) -> list[AnyMemory]:
        """Change memories in one transaction, one after the other, and return what each has made of its memory."""
        while (made := self._updated(revisions)) is None:
            pass  # somebody else was faster: begin with what they left
        return made

    def _updated(self, revisions: Sequence[Revision]) -> list[AnyMemory] | None:
        """Apply revisions; None if a memory was changed by somebody else meanwhile, and nothing was stored."""
        before: dict[MemoryKey, AnyMemory] = {}
        after: dict[MemoryKey, AnyMemory] = {}
        superseded: dict[MemoryKey, datetime] = {}
        made = [self._revised(revision, before, after, superseded) for revision in revisions]
        moved = [key for key, memory in after.items() if memory is not before[key]]
        if not moved:
            return made
        if any("\0" in key.id for key in moved):  # stored by an earlier version, and not found among others to compare
            raise ValidationError("id: must not have a NUL character: store the memory under another id")
        restored = {revision.key for revision in revisions if revision.restores}

        def change(passages: list[list[NewPassage]]) -> list[AnyMemory] | None:
            if self.ledger.read(moved) != {key: before[key] for key in moved}:
                return None
            for key, its_passages in zip(moved, passages, strict=True):
                if key in superseded:
                    self.ledger.facts.keep_version(key, until=superseded[key])
                self.overwrite(after[key], its_passages, outdated=_outdated(before[key], after[key]))
                fields = changes_of(before[key], after[key])
                event = MemoryEventType.RESTORED if key in restored else MemoryEventType.UPDATED
                if event is MemoryEventType.UPDATED and "fact" in fields and key not in superseded:
                    event = MemoryEventType.CORRECTED
                self.ledger.events.note([key], event, at=self.now(), fields=fields)
            return made

        texts = [self._new_texts(before[key], after[key]) for key in moved]
        changed_scopes = {key.scope for key in moved}
        if any(texts):
            return self.write(texts, change, within=changed_scopes)
        with self.transaction(*changed_scopes):  # without new texts no embedder is asked
            return change([[] for _ in moved])

    def _revised(
        self,
        revision: Revision,
        before: dict[MemoryKey, AnyMemory],
        after: dict[MemoryKey, AnyMemory],
        superseded: dict[MemoryKey, datetime],
    ) -> AnyMemory:
        """Apply one revision after those before it; an unchanged memory stays the same object.

        A fact that says something else from now on is valid from now on.
        """
        key, now = revision.key, self.now()
        known = after[key] if key in after else before.setdefault(key, self.get(key.id, scope=key.scope))
        revised = changed(known, revision.fields(known), now=now)
        if revised is not known:
            revised = self.required(revised)
            if isinstance(revised, SemanticMemory) and revised.category != getattr(known, "category", None):
                self.check_category(revised.category)
            until = None if revision.correct else _superseded_at(before[key], revised, now=now)
            if until is not None:
                revised = revised.model_copy(update={"valid_at": until, "last_confirmed_at": None})
                superseded[key] = until
        after[key] = revised
        return revised

    def _new_texts(self, before: AnyMemory, after: AnyMemory) -> list[PassageText]:
        """Texts of a changed memory that were not searchable before."""
        kept = _kept_texts(before, after)
        return [text for text in passage_texts(after, searched=self.searched) if text not in kept]

    def forget(self, id: str, *, scope: str) -> None:
        """Delete a memory and every trace of it, in one transaction."""
        key = MemoryKey(scope=scopes.parse(scope), id=parse_id(id))
        with self.transaction(*scopes.lineage(scope)):
            if not self.remove([key]):
                self.open_episodes.forget(id, scope=scope)
                self.ledger.events.note_unheard(scope, at=self.now())

    def forget_scope(self, scope: str, *, include_child_scopes: bool) -> int:
        """Delete everything in a scope, in one transaction; returns the number of memories."""
        scopes.parse(scope)
        with self.transaction():
            self._unindexed(self.ledger.passages_of(scope, include_child_scopes=include_child_scopes))
            removed = self.ledger.remove_scope(scope, include_child_scopes=include_child_scopes)
        self.open_episodes.clear()
        return removed

    def forget_conversations(self, scope: str, conversations: Collection[str | None]) -> int:
        """Delete the episodes, whose number is returned, and queued messages of conversations, in one transaction."""
        removed = 0
        with self.transaction(*scopes.lineage(scope)):
            for each in conversations:
                episodes = self.remove(self.ledger.conversations.episodes(scope, conversation=each))
                self.ledger.open_episodes.forget(scope, each, had_episodes=episodes > 0)
                removed += episodes
            self.ledger.events.note_unheard(scope, at=self.now())
        self.open_episodes.clear()
        return removed

    def forget_messages(
        self,
        scope: str,
        named: Sequence[Message | str],
        *,
        retold: Callable[[Sequence[Message]], Mapping[str, object]],
        by: str | None = None,
    ) -> ForgottenMessages:
        """Delete messages of a scope, queued or in episodes, with every trace of them, in one transaction.

        Args:
            scope: The scope.
            named: Which messages, as :func:`naming` reads it.
            by: Whose, as :func:`naming` reads it.
            retold: Makes title and summary of an episode anew from the messages that are left.
        """
        is_meant, words = naming(named, by=by), longest_words(named)

        def forgotten() -> ForgottenMessages:
            with self.transaction(*scopes.lineage(scope)):
                queued = self.open_episodes.rows_of(scope, is_meant)
                telling = self.ledger.conversations.telling(scope, words)
                count = {id: sum(map(is_meant, messages)) for id, messages in telling.items()}  # noqa: A001
                keys = [MemoryKey(scope=scope, id=id) for id, number in count.items() if number]  # noqa: A001
                if not queued and not keys:
                    return ForgottenMessages(messages=0)
                if len(keys) > _RETOLD_TOGETHER:
                    raise ValidationError(
                        f"these are in {len(keys)} episodes, and at most {_RETOLD_TOGETHER} can be changed at once: "
                        "name fewer messages, or give those of a result, which are found by their time as well"
                    )
                there, now = self.ledger.read(keys), self.now()
                held = [key for key in keys if key in there and not there[key].has_expired(now)]
                left = [key for key in held if count[key.id] < len(telling[key.id])]
                gone = [key for key in keys if key not in left]
                derived = [self.ledger.overview.derived(scope, id=key.id, limit=MAX_PAGE) for key in keys]
                without = partial(_without, is_meant=is_meant, retold=retold)
                changed_episodes = self.update_many([Revision(key, without) for key in left])
                self.ledger.conversations.put_messages(
                    [each for each in changed_episodes if isinstance(each, EpisodicMemory)]
                )
                self.remove(gone)
                self.ledger.open_episodes.forget_messages(scope, queued)
                self.ledger.events.note_unheard(scope, at=self.now())
                return ForgottenMessages(
                    messages=len(queued) + sum(count.values()),
                    episodes=tuple(key.id for key in left),
                    memories=tuple(dict.fromkeys(chain.from_iterable(derived))),
                )

        try:
            return self.attempt(forgotten)
        finally:
            self.open_episodes.clear()

    def erase_messages(self, *, before: datetime) -> int:
        """Delete the messages, and their passages, of episodes that ended before a time; returns how many had any."""
        erased = 0
        while keys := self.ledger.conversations.old_messages(before=before, limit=_ERASED_TOGETHER):
            with self.transaction(*{key.scope for key in keys}):
                passages = [passage for key in keys for passage in self.ledger.passages_of(key.scope, id=key.id)]
                self.remove_passages([passage for passage in passages if passage.field == TURN])
                self.ledger.conversations.erase_messages(keys)
            erased += len(keys)
        return erased

    def purge(self) -> None:
        """Delete what has expired, and erase every byte of deleted data."""
        self.remove_expired()
        self.dense.purge()
        self.ledger.purge()

    def remove_expired(self) -> int:
        """Delete what has expired, and return the number of memories; :meth:`purge` also erases bytes."""
        expired, attempt = self.ledger.expired(self.now()), self._transaction.attempt
        try:
            self._transaction.attempt = None  # it may be done twice, and is no work that cannot begin again
            return self.remove(expired, event=MemoryEventType.EXPIRED)
        finally:
            self._transaction.attempt = attempt

    def remove(self, keys: Sequence[MemoryKey], *, event: MemoryEventType | None = MemoryEventType.FORGOTTEN) -> int:
        """Delete memories with every trace, in one transaction; returns how many existed.

        The log says what ``event`` is; None says nothing, where they are stored anew at once.
        """
        if not keys:
            return 0
        with self.transaction(*affected_scopes([(key.scope, True) for key in keys])):
            gone = [] if event is None else self.ledger.present(keys)
            for key in keys:
                self._unindexed(self.ledger.passages_of(key.scope, id=key.id))
            with self.ledger.characters.made_anew(gone):
                removed = self.ledger.remove(keys)
            if event is not None:
                self.ledger.events.note(gone, event, at=self.now())
            return removed

    def move(self, keys: Sequence[MemoryKey], *, target_scope: str) -> list[AnyMemory]:
        """Move memories to another scope in one transaction; returns them as they are there, in the order given."""
        target = scopes.parse(target_scope)
        with self.transaction():
            leaving = [key for key in keys if key.scope != target]
            passages = [passage for key in leaving for passage in self.ledger.passages_of(key.scope, id=key.id)]
            self.keyword.remove(passages)
            with self.ledger.characters.made_anew(leaving, in_scope=target):
                self.ledger.management.move(keys, target_scope=target)
            self.keyword.add([replace(passage, scope=target) for passage in passages])
            arrived = [MemoryKey(scope=target, id=key.id) for key in leaving]
            self.ledger.events.note(arrived, MemoryEventType.MOVED, at=self.now())
            return [self.get(key.id, scope=target) for key in keys]

    def add_pending_reviews(self, reviews: Sequence[PendingReview]) -> None:
        """Record retrievals for later review, without memories deleted and questions forgotten meanwhile."""
        with beside_request(), self.ledger.database.write(*{review.scope for review in reviews}):
            since = {scope: self.ledger.events.unheard_since(scope) for scope in {review.scope for review in reviews}}
            reviews = [review for review in reviews if review.created_at >= (since[review.scope] or review.created_at)]
            there = self.ledger.present([key for review in reviews for key in review.memories])
            kept = [replace(review, memories=tuple(filter(there.__contains__, review.memories))) for review in reviews]
            self.ledger.add_pending_reviews([review for review in kept if review.memories])


def complete(draft: Draft, *, now: datetime) -> AnyMemory:
    """Return the draft with all missing ids, times and forgetting states filled in."""
    scopes.parse(draft.scope)
    created_at = draft.created_at or now
    filled: dict[str, object] = {
        "id": draft.id or str(uuid_utils.uuid7()),
        "created_at": created_at,
        "updated_at": draft.updated_at or created_at,
    }
    model: type[AnyMemory] = SemanticMemory
    if isinstance(draft, EpisodicDraft):
        model, filled = EpisodicMemory, filled | _episode_defaults(draft, created_at)
    else:
        filled |= {"valid_at": draft.valid_at or created_at, "duplicate_of": None, "near": ()}
    # what a draft holds was checked when it was made; its metadata can have been changed since
    memory = model.trusted(
        {name: filled[name] if name in filled else getattr(draft, name) for name in model.model_fields}
    )
    return memory.model_copy(update={"metadata": draft.metadata}) if draft.metadata else memory


def _episode_defaults(draft: EpisodicDraft, created_at: datetime) -> dict[str, object]:
    messages = tuple(
        Message.trusted({"role": message.role, "content": message.content, "timestamp": draft.end_at or created_at})
        if message.timestamp is None
        else message
        for message in draft.messages
    )
    state = fsrs.initial_state(surprise=draft.surprise)
    times = [message.timestamp or created_at for message in messages] or [created_at]
    return {
        "messages": messages,
        "start_at": draft.start_at or min(times[0], draft.end_at or times[0]),
        "end_at": draft.end_at or max(times[-1], draft.start_at or times[-1]),
        "stability": draft.stability or state.stability,
        "difficulty": draft.difficulty or state.difficulty,
        "last_reviewed_at": draft.last_reviewed_at or created_at,
        "scene": None if draft.scene is None else draft.scene.completed(),
        "is_open": False,
        # what happens in a story is no fact about anybody
        "consolidated_at": draft.consolidated_at or (None if draft.scene is None else created_at),
    }


def _without(
    memory: AnyMemory,
    *,
    is_meant: Callable[[Message], bool],
    retold: Callable[[Sequence[Message]], Mapping[str, object]],
) -> dict[str, object]:
    """The fields of an episode without some of its messages; where these began or ended it, the others do."""
    assert isinstance(memory, EpisodicMemory)  # noqa: S101 - only episodes have messages
    before, messages = memory.messages, tuple(each for each in memory.messages if not is_meant(each))
    ends: dict[str, object] = {}
    for name, end in (("start_at", min), ("end_at", max)):
        then, now = (
            end([each.timestamp for each in said if each.timestamp], default=None) for said in (before, messages)
        )
        if now is not None and getattr(memory, name) == then:
            ends[name] = now
    return {"messages": messages, **ends, **retold(messages)}


def affected_scopes(changes: Iterable[tuple[str, bool]]) -> set[str]:
    """The scopes that changes affect: one that may remove something also the reviews of every scope above."""
    return {each for scope, removes in changes for each in (scopes.lineage(scope) if removes else [scope])}


def _with_similar(memory: AnyMemory, near: tuple[NearFact, ...]) -> AnyMemory:
    """A fact with those that it may contradict; a known one is answered without."""
    is_new = isinstance(memory, SemanticMemory) and memory.duplicate_of is None
    return type(memory).trusted({**memory.__dict__, "near": near}) if is_new else memory


def _superseded_at(before: AnyMemory, after: AnyMemory, *, now: datetime) -> datetime | None:
    """Until when a fact held that says something else after a change; None of what did not hold, or says the same."""
    if not isinstance(before, SemanticMemory) or not isinstance(after, SemanticMemory) or before.fact == after.fact:
        return None
    until = max(now, before.valid_at)  # a clock that was set back, or that of another machine, may be behind
    has_begun = before.valid_at <= max(now, before.created_at, before.updated_at)
    return until if has_begun and (before.invalid_at is None or before.invalid_at > now) else None


def _kept_texts(before: AnyMemory, after: AnyMemory) -> set[PassageText]:
    """Passages that a change leaves as they are: none of a fact that holds since another time, which snapshots tell."""
    if getattr(before, "valid_at", None) != getattr(after, "valid_at", None):
        return set()  # only words moved from the fact to its keywords, or back
    return set(passage_texts(before, searched="turns")) & set(passage_texts(after, searched="turns"))


def _outdated(before: AnyMemory, after: AnyMemory) -> set[str] | None:
    """Parts of a memory whose passages a change has made wrong; None are all."""
    kept = _kept_texts(before, after)
    wrong = {text.part for text in passage_texts(before, searched="turns") if text not in kept}
    return wrong if after.is_searchable or not wrong else None
