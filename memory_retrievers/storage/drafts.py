"""What becomes of a draft that is stored: a new memory or a known fact, and what it replaces or may contradict.

Its transaction waits for no embedder, hook or snapshot, since all others wait for it to end; but work of several steps
may only know inside which texts it needs. So it is attempted: where something is needed that has not been prepared, the
transaction is undone, the embedder or hook is asked outside, or the snapshot loaded, and the work begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import (
    AnyMemory,
    ContentType,
    Draft,
    Kind,
    MemoryKey,
    Origin,
    SemanticDraft,
    SemanticMemory,
)
from memory_retrievers.models.fields import moment
from memory_retrievers.models.management import MemoryEventType
from memory_retrievers.models.memories import NearFact, changed
from memory_retrievers.models.selection import Embedded, NewPassage, Selection, Vector
from memory_retrievers.protocols import Embedder
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.text.duplicates import COMPARED_CHARACTERS, contradicted, normalised, text_hash
from memory_retrievers.text.plans import names_same_days

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.backends.vectors import ExactVectorIndex
    from memory_retrievers.storage.embedder import ProbedEmbedder

TOLD_BY_AGENTS: Final = frozenset({Origin.TOOL, Origin.API, Origin.CONSOLIDATION})
"""Where a fact that is stated again may come from; applications, collections and imports keep what they have stored."""

NEAREST: Final = 20  # nearest facts that are compared with a new one
MOST_NEAR: Final = 5  # facts at most that an answer names


def _beside_words(fact: SemanticDraft) -> tuple[object, ...]:
    """What two facts have in common, beside their words, if the second only says the first again."""
    return fact.scope, fact.category, fact.agent_id, fact.tier, fact.content_type, fact.expires_at


def says_again(known: SemanticMemory, draft: SemanticDraft) -> bool:
    """True if a known fact has all that a draft has beside its words, so that nothing is lost without the draft."""
    return _beside_words(known) == _beside_words(draft)


def _said(fact: SemanticDraft) -> tuple[object, ...]:
    return normalised(fact.fact, fact.content_type), *_beside_words(fact)


def means_same_day(known: SemanticMemory, text: str, *, day: datetime) -> bool:
    """False if a text names a day as "tomorrow", which is another one for a known fact that says the same."""
    return known.valid_at.date() == day.date() or names_same_days(text, known.valid_at, day)


class KnownFacts:
    """The facts that hold and say the same as one of some drafts; to be asked in the transaction that stores them."""

    def __init__(self, ledger: SQLLedger, drafts: Iterable[SemanticDraft], *, now: datetime) -> None:
        self._now = now
        self._facts: dict[tuple[object, ...], list[SemanticMemory]] = {}
        hashes: dict[str, set[int]] = {}
        for draft in drafts:
            hashes.setdefault(draft.scope, set()).add(text_hash(draft.fact, draft.content_type))
        for scope, its_hashes in hashes.items():
            for fact in ledger.facts.alike(scope, its_hashes, now=now):
                self.add(fact)

    def add(self, fact: SemanticMemory) -> None:
        """Add a fact to those that are known."""
        if fact.origin in TOLD_BY_AGENTS:
            self._facts.setdefault(_said(fact), []).append(fact)

    def find(self, draft: SemanticDraft, *, leaving: Collection[str] = ()) -> SemanticMemory | None:
        """Return the oldest fact that says what a draft says, for the same time, and is not about to be invalidated."""
        if draft.id is not None or draft.origin not in TOLD_BY_AGENTS or draft.invalid_at is not None:
            return None
        known = (fact for fact in self._facts.get(_said(draft), ()) if fact.id not in leaving)
        return next((fact for fact in known if self._holds_for(fact, draft)), None)

    def _holds_for(self, fact: SemanticMemory, draft: SemanticDraft) -> bool:
        if draft.valid_at is not None:
            return fact.valid_at == draft.valid_at
        # what somebody else has stored since this began holds since then
        return fact.valid_at <= max(self._now, fact.updated_at) and means_same_day(fact, draft.fact, day=self._now)


def as_new(draft: SemanticDraft) -> SemanticDraft:
    """Return a draft without the id and the time that consolidation gives it, as a fact that is stated now."""
    return draft.model_copy(update={"id": None, "valid_at": None})


def confirmed(known: SemanticMemory, draft: SemanticDraft, *, now: datetime) -> SemanticMemory:
    """Return a known fact as it is once it was stated again: with all tags, metadata and sources, and the time of it.

    Args:
        known: The known fact.
        draft: What is to be stored.
        now: When.
    """
    added = {"tags": tuple(dict.fromkeys((*known.tags, *draft.tags))), "metadata": {**known.metadata, **draft.metadata}}
    after = changed(known, added, now=now)
    assert isinstance(after, SemanticMemory)  # noqa: S101 - as before
    sources = tuple(dict.fromkeys((*known.source_episodic_ids, *draft.source_episodic_ids)))
    return after.model_copy(update={"source_episodic_ids": sources, "last_confirmed_at": now})


class PendingDraft(NamedTuple):
    """A draft on its way into the store."""

    draft: Draft  # what is to be stored
    memory: AnyMemory  # the memory that it becomes if it is new
    replaces: str | None = None  # the id of a fact that it holds instead of


@dataclass(frozen=True, slots=True)
class PendingDrafts:
    """Drafts on their way into the store together."""

    ledger: SQLLedger  # where facts are
    drafts: Sequence[PendingDraft]  # what is to be stored
    now: datetime  # their moment

    def replaced(self) -> dict[int, SemanticMemory]:
        """The facts that drafts replace, by the place of each.

        Raises:
            NotFoundError: There is no such memory.
            ValidationError: It is no fact, or something else replaces it already.
        """
        leaving: dict[int, SemanticMemory] = {}
        for place, (_, memory, id) in enumerate(self.drafts):  # noqa: A001
            if id is None:
                continue
            found = self.ledger.get(scope=memory.scope, id=id)
            if found is None or found.has_expired(self.now):
                raise NotFoundError(f"Memory not found: {id}; nothing was stored")
            if not isinstance(found, SemanticMemory) or not isinstance(memory, SemanticMemory):
                raise ValidationError(f"only a fact can replace a fact, and {found.id} or what is stored is an episode")
            if found.replaced_by is not None:
                raise ValidationError(
                    f"{found.id} was replaced by {found.replaced_by} already: replace that one; nothing was stored"
                )
            leaving[place] = found
        return leaving

    def near(
        self, passages: Sequence[Sequence[NewPassage]], dense: ExactVectorIndex, settings: IngestionSettings | None
    ) -> tuple[NearFact, ...]:
        """Find the facts that a single new one may contradict but does not replace, nearest first; before it is stored.

        Args:
            passages: The passages of each draft.
            dense: Finds the nearest.
            settings: What is near, and whether details are compared; None finds none.
        """
        fact = self.drafts[0].memory
        if settings is None or not settings.compare_details or len(self.drafts) != 1 or not passages[0]:
            return ()
        if not isinstance(fact, SemanticMemory) or fact.content_type is not ContentType.TEXT:
            return ()
        if fact.origin is Origin.STORE or fact.invalid_at is not None or len(fact.fact) > COMPARED_CHARACTERS:
            return ()
        with self.ledger.snapshots.comparing(), self.ledger.database.reading():
            selection = Selection(scope=fact.scope, kind=Kind.SEMANTIC, now=self.now)
            hits = dense.search(passages[0][0].vector, selection, limit=NEAREST)
            found = self.ledger.facts.comparable(hits.memories, longest=COMPARED_CHARACTERS)
            compared = [(found[row], cos) for row, cos in zip(hits.memories, hits.scores, strict=True) if row in found]
            places = contradicted(fact.fact, [(said, cosine) for (_, said, _), cosine in compared], settings=settings)
            first = [compared[place] for place in islice(places, MOST_NEAR)]
        return tuple(
            NearFact.trusted({"id": its_id, "fact": said, "valid_at": moment(since)})
            for (its_id, said, since), _ in first
            if its_id != self.drafts[0].replaces
        )

    def store(
        self,
        passages: Sequence[Sequence[NewPassage]],
        add: Callable[[Sequence[AnyMemory], Sequence[Sequence[NewPassage]]], object],
        *,
        allow_duplicates: bool,
    ) -> list[AnyMemory]:
        """Store what is new, confirm what is known, and end what is replaced, inside a transaction.

        Args:
            passages: The passages of each draft.
            add: Stores memories, each with its passages.
            allow_duplicates: Everything is new; otherwise only facts are with an id of the caller's.

        Returns:
            The memory of each draft; a known one is marked by ``duplicate_of``.
        """
        leaving = self.replaced()
        drafts = [] if allow_duplicates else [each for each, *_ in self.drafts if isinstance(each, SemanticDraft)]
        unnamed = [draft for draft in drafts if draft.id is None]
        known = KnownFacts(self.ledger, unnamed, now=self.now) if drafts else None
        states: dict[MemoryKey, AnyMemory] = {}
        keys: list[MemoryKey] = []
        new: dict[int, None] = {}
        for place, (draft, memory, _) in enumerate(self.drafts):
            twin = known.find(draft) if known is not None and isinstance(draft, SemanticDraft) else None
            if twin is not None and isinstance(draft, SemanticDraft):
                state = states.get(twin.key, twin)
                assert isinstance(state, SemanticMemory)  # noqa: S101 - it is the twin
                states[twin.key] = confirmed(state, draft, now=self.now)
            else:
                new[place] = None
                states[memory.key] = memory
                if known is not None and isinstance(memory, SemanticMemory):
                    known.add(memory)
            keys.append(memory.key if twin is None else twin.key)
        add([states[keys[place]] for place in new], [passages[place] for place in new])
        for key in states.keys() - {keys[place] for place in new}:
            self.ledger.replace(states[key])
            self.ledger.events.note([key], MemoryEventType.CONFIRMED, at=self.now)
        stored = [
            states[key] if place in new else states[key].model_copy(update={"duplicate_of": key.id})
            for place, key in enumerate(keys)
        ]
        for place, old in leaving.items():
            self._end(old, by=stored[place])
        return stored

    def _end(self, fact: SemanticMemory, *, by: AnyMemory) -> None:
        """Let something else hold instead of a fact, from when it holds, at the latest from now on; not itself."""
        if fact.id == by.id or not isinstance(by, SemanticMemory):
            return
        until = fact.invalid_at or max(fact.valid_at, min(self.now, by.valid_at))
        self.ledger.replace(fact.model_copy(update={"invalid_at": until, "updated_at": self.now, "replaced_by": by.id}))
        self.ledger.events.note([fact.key], MemoryEventType.SUPERSEDED, at=self.now)


class NotPrepared(BaseException):
    """Undoes a transaction in which something is needed that takes time."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        super().__init__()
        self.prepare = prepare


class Attempt:
    """What has been prepared for the work of one thread; all its attempts share the moment at which the work began.

    Attributes:
        has_written: Whether a transaction of the running attempt was kept, so that it cannot begin again.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.has_written = False
        self._embedder: Embedder | None = None
        self._documents: dict[str, Embedded] = {}
        self._questions: dict[str, Vector] = {}
        self._admitted: dict[str, Any] = {}
        self._failures: dict[tuple[str, ...], Exception] = {}
        self._loaded: set[Hashable] = set()

    def require_loaded(self, key: Hashable, load: Callable[[], object]) -> None:
        """Have a part of the store loaded outside the transaction, where it is kept; once, if it cannot be.

        Raises:
            NotPrepared: It has not been loaded for this work.
        """
        if key not in self._loaded:
            self._loaded.add(key)
            raise NotPrepared(load)

    def documents(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> list[Embedded]:
        """What an embedder makes of texts, in their order."""
        self._begin_with(embedder)
        missing = tuple(text for text in dict.fromkeys(texts) if text not in self._documents)
        if missing:
            self._require(missing, lambda: self.prepare_documents(embedder, missing))
        return [self._documents[text] for text in texts]

    def prepare_documents(self, embedder: ProbedEmbedder, texts: Sequence[str]) -> None:
        """Embed texts that are not yet, outside a transaction."""
        self._begin_with(embedder)
        if wanted := [text for text in dict.fromkeys(texts) if text not in self._documents]:
            self._documents.update(zip(wanted, embedder.embed_passages(wanted), strict=True))

    def question(self, embedder: ProbedEmbedder, text: str) -> Vector:
        """Vector of a question, shape (d,); raises as :meth:`documents` does."""
        self._begin_with(embedder)
        if text not in self._questions:
            self._require((text,), lambda: self._questions.update({text: embedder.embed_query(text)}))
        return self._questions[text]

    def admitted(self, records: Sequence[Any], hook: Callable[[Any], Any]) -> list[Any]:
        """What the hook has made of records; raises what it raised.

        Raises:
            NotPrepared: It has not been asked about all of them.
        """
        keys = [_key_of(record) for record in records]
        for key in keys:
            if key not in self._admitted:
                self._require((key,), lambda: self.prepare_admitted(records, hook))
        return [self._admitted[key] for key in keys]

    def prepare_admitted(self, records: Sequence[Any], hook: Callable[[Any], Any]) -> None:
        """Ask a hook about records, outside a transaction; what it raises is raised where they are used."""
        for record in records:
            if (key := _key_of(record)) not in self._admitted:
                try:
                    self._admitted[key] = hook(record)
                except Exception as error:  # noqa: BLE001 - raised later, in its place
                    self._failures[key,] = error

    def _require(self, wanted: tuple[str, ...], prepare: Callable[[], object]) -> None:
        """Raise ``NotPrepared``, or what the preparation raised."""
        if (failure := self._failures.pop(wanted, None)) is not None:
            raise failure

        def noting_failure() -> None:
            try:
                prepare()
            except Exception as error:  # noqa: BLE001 - raised in its place, when the work is done again
                self._failures[wanted] = error

        raise NotPrepared(noting_failure)

    def _begin_with(self, embedder: ProbedEmbedder) -> None:
        if embedder.embedder is not self._embedder:
            self._documents.clear()
            self._questions.clear()
            self._embedder = embedder.embedder


def _key_of(record: Any) -> str:  # noqa: ANN401 - a message, a draft or a memory
    return f"{type(record).__name__} {record.model_dump_json()}"
