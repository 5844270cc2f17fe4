"""Maintenance of a store: rebuild indexes, recreate passages, make missing token vectors, change embedders, verify."""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from memory_retrievers.errors import BackendError, ConfigurationError, MemoryRetrieversError, ValidationError
from memory_retrievers.models import EpisodicMemory
from memory_retrievers.models.contents import HALF_MOVED, MOVING, Progress, VerificationReport
from memory_retrievers.models.selection import NewPassage
from memory_retrievers.models.storage import Fingerprint, UnembeddedPassage
from memory_retrievers.protocols import Embedder
from memory_retrievers.storage.embedder import EMBEDDED_TEXTS, ProbedEmbedder
from memory_retrievers.text.passages import PassageText, passage_text, passage_texts, turn_place

if TYPE_CHECKING:
    from memory_retrievers.storage.store import MemoryStore

_logger = logging.getLogger("memory_retrievers")

PASSAGES_AT_ONCE: Final = EMBEDDED_TEXTS  # passages that are embedded and kept at a time: what a crash can lose
LAST: Final = 32  # so many passages may be embedded while writers are held; twice as many with every further attempt

TOKENS_AT_ONCE: Final = 32
"""Passages that are embedded and written at a time: what a crash can lose, and what closing waits for."""


def reembed(store: MemoryStore, embedder: Embedder, *, progress: Progress | None = None) -> None:
    """Recompute the vector of every passage, then replace all old ones at once.

    What is done is kept: after a crash or an error, the same embedder goes on where it was, and another starts over.

    Args:
        store: What to move; it may be written and searched meanwhile.
        embedder: Makes the vectors, and is the store's from then on.
        progress: Called for every page.

    Raises:
        ConfigurationError: Another thread or process is re-embedding this store, or it is read-only.
        EmbeddingError: The embedder failed; the store is as it was.
    """
    with store.ledger.database.alone("moving") as is_alone:
        if not is_alone:
            raise ConfigurationError("this store is being re-embedded already: wait until that is done")
        _move(store, ProbedEmbedder.probed(embedder, with_tokens=store.embedder.with_tokens), progress)
    try:
        store.dense.rebuild()
    except BackendError as error:  # of an index outside the ledger
        _logger.warning("the vector index could not be rebuilt and will be later: %s", error)


def _move(store: MemoryStore, new: ProbedEmbedder, progress: Progress | None) -> None:
    _begin_or_go_on(store, new)
    for most in (LAST << attempt for attempt in itertools.count()):  # so that it ends, however much is written
        _embed_missing(store, new, progress)
        if store.embedder.replace(new, partial(_take_over, store)):
            return
        if len(store.ledger.new_vectors.missing(limit=most + 1)) <= most:
            store.embedder.hold_writers()  # who never rests would always be ahead
            _embed_missing(store, new, None)
            if store.embedder.replace(new, partial(_take_over, store)):
                return


def _begin_or_go_on(store: MemoryStore, new: ProbedEmbedder) -> None:
    new_vectors = store.ledger.new_vectors
    with store.ledger.database.write():
        label = new_vectors.label()
        before = None if label is None else Fingerprint.noted(json.loads(label))
        if before is None or before.embedder_id != new.embedder.id or not before.has_vectors_like(new.fingerprint):
            new_vectors.begin(json.dumps(new.fingerprint.notes()))


def _embed_missing(store: MemoryStore, new: ProbedEmbedder, progress: Progress | None) -> None:
    import numpy as np  # here, so that importing the package loads no numpy

    new_vectors, last = store.ledger.new_vectors, 0
    while page := new_vectors.missing(after=last, limit=PASSAGES_AT_ONCE):
        if texts := texts_of(store, page)[0]:
            made = new.embed_passages(list(texts.values()))
            vectors = np.stack([each.vector for each in made])
            new_vectors.keep(list(texts), vectors, [each.tokens for each in made])
        last = page[-1].id
        if progress is not None:
            progress(*new_vectors.counts())
        if len(page) < PASSAGES_AT_ONCE:
            break  # what is missing now was stored meanwhile, and there may always be more of it
    facts = store.ledger.facts
    while versions := facts.without_new_vector(limit=PASSAGES_AT_ONCE):
        facts.keep_new_vectors(list(versions), new.embed_documents(list(versions.values())))
        if len(versions) < PASSAGES_AT_ONCE:
            return


def _take_over(store: MemoryStore) -> bool:
    """Start using the new vectors if there are all; True if it did. Inside a transaction, where nothing is embedded."""
    ledger = store.ledger
    if ledger.new_vectors.missing(limit=1) or ledger.facts.without_new_vector(limit=1):
        return False
    ledger.new_vectors.take_over()
    ledger.open_episodes.forget_vectors()
    ledger.outbox.begin(None)  # an index outside the ledger has to be fed anew
    return True


EPISODES_AT_ONCE: Final = 16  # episodes that are embedded and written at a time: what a crash can lose


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """Passages that an episode is missing, and those it should not have or that have other texts now."""

    episode: EpisodicMemory
    missing: tuple[PassageText, ...]
    wrong: frozenset[str]


def reindex(store: MemoryStore, *, progress: Progress | None = None) -> int:
    """Give every episode exactly the passages that the store's settings ask for; returns how many were changed.

    What is done is kept: after a crash or an error, another call goes on where it was. Meanwhile the store may be
    written and searched. Progress is told of the episodes that have been looked at, page by page.
    """
    total, done, changed, last = store.ledger.statistics(None).episodes, 0, 0, 0
    while rows := store.ledger.episode_rows(after=last, limit=EPISODES_AT_ONCE):
        while (closed := _closed(store, rows, _gaps(store, rows))) is None:
            pass  # an episode has changed meanwhile
        changed += closed
        done, last = done + len(rows), rows[-1]
        if progress is not None:
            progress(done, max(done, total))
    return changed


def _closed(store: MemoryStore, rows: Sequence[int], gaps: Sequence[_Gap]) -> int | None:
    """Close the gaps of episodes in one transaction, and return how many; None if they are no longer the same."""
    if not gaps:
        return 0

    def change(passages: list[list[NewPassage]]) -> int | None:
        if _gaps(store, rows) != gaps:
            return None
        for gap, its_passages in zip(gaps, passages, strict=True):
            store.put_passages(gap.episode, its_passages, outdated=gap.wrong)
        return len(gaps)

    return store.write([gap.missing for gap in gaps], change, within={gap.episode.scope for gap in gaps})


def _gaps(store: MemoryStore, rows: Sequence[int]) -> list[_Gap]:
    memories = store.ledger.load(rows)
    found = (_gap(store, memory) for memory in memories.values() if isinstance(memory, EpisodicMemory))
    return [gap for gap in found if gap is not None]


def _gap(store: MemoryStore, episode: EpisodicMemory) -> _Gap | None:
    wanted = {text.part: text for text in passage_texts(episode, searched=store.searched)}
    stored = {passage.part: passage for passage in store.ledger.passages_of(episode.scope, id=episode.id)}
    right = {part for part, passage in stored.items() if part in wanted and passage.text == wanted[part].text}
    ours = {part for part in stored if part == episode.kind or turn_place(part) is not None}
    missing, wrong = tuple(text for part, text in wanted.items() if part not in right), frozenset(ours - right)
    return _Gap(episode=episode, missing=missing, wrong=wrong) if missing or wrong else None


Index: TypeAlias = Literal["sparse", "dense", "all"]


def verify(store: MemoryStore, *, is_moving: bool = False) -> VerificationReport:
    """Check the ledger, and compare both indexes with it; that a move into it has not ended is a problem to others."""
    with store.ledger.snapshots.analyzing():
        report = store.ledger.verify().joined(store.keyword.verify()).joined(store.dense.verify())
    try:
        if not is_moving and store.ledger.notes().get(MOVING):
            return report.joined(VerificationReport(problems=(HALF_MOVED,)))
    except BackendError as error:  # of a damaged file, which the report has named
        if not error.tells_of_store:
            raise
    return report


def rebuild(store: MemoryStore, what: Index) -> None:
    """Rebuild one index, or all, from the ledger."""
    if what not in get_args(Index):
        raise ValidationError(f"unknown index {what!r}; one of: {', '.join(get_args(Index))}")
    if what != "dense":
        store.keyword.rebuild()
    if what != "sparse":
        store.dense.rebuild()


class MissingTokens:
    """Makes the token vectors that a store lacks, as stores of older versions do.

    Nothing is done when a store is opened. Several processes may do it at once: what one has made stays.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def make_soon(self) -> None:
        """Start a thread that makes them all, unless one is running."""
        with self._lock:
            if self._closing.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._make_in_background, name="memory-retrievers-fill", daemon=True)
            self._thread.start()

    def make(self) -> None:
        """Make them all, unless the embedder gives none; if that fails, what was done before stays."""
        ledger, last = self._store.ledger, 0
        while not self._closing.is_set() and self._store.embedder.current().with_tokens:
            page = ledger.without_tokens(after=last, limit=TOKENS_AT_ONCE)
            if not page:
                return
            embedder = self._store.embedder.current()
            texts, scopes = texts_of(self._store, page)
            made = embedder.embed_passages(list(texts.values()))
            with ledger.database.write(*scopes):
                if self._store.embedder.admits(embedder):  # else the store has just moved to another one
                    kept = zip(texts, made, strict=True)
                    ledger.keep_tokens({one: embedded.tokens for one, embedded in kept if embedded.tokens is not None})
            last = page[-1].id

    def close(self) -> None:
        """Stop, after the passages that are being made."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _make_in_background(self) -> None:
        try:
            self.make()
        except MemoryRetrieversError as error:
            _logger.warning("token vectors could not be made and will be later: %s", error)


def texts_of(store: MemoryStore, page: Sequence[UnembeddedPassage]) -> tuple[dict[int, str], set[str]]:
    """Texts to embed, by passage, without those of memories deleted meanwhile; and the scopes they are in."""
    memories = store.ledger.load([passage.memory for passage in page])
    texts = {
        passage.id: passage.text if (known := passage_text(memory, passage.part)) is None else known.embedded
        for passage in page
        if (memory := memories.get(passage.memory)) is not None
    }
    return texts, {memory.scope for memory in memories.values()}
