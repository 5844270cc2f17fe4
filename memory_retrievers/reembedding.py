"""Move a store to another embedder: every passage's vector is made anew, while the old ones serve all searches."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from memory_retrievers.contents import Progress
from memory_retrievers.errors import BackendError, ConfigurationError
from memory_retrievers.fingerprint import Fingerprint, ProbedEmbedder
from memory_retrievers.protocols import Embedder, UnembeddedPassage
from memory_retrievers.store import MemoryStore
from memory_retrievers.turn_passages import passage_text

_logger = logging.getLogger("memory_retrievers")

PAGE: Final = 256
"""Passages that are embedded and kept at a time: what a crash can lose."""

LAST: Final = 32
"""So many passages may be embedded while nobody else can write; twice as many with every further attempt."""

_ALREADY: Final = "this store is being re-embedded already: wait until that is done"


def reembed(store: MemoryStore, embedder: Embedder, *, progress: Progress | None = None) -> None:
    """Make the vector of every passage anew, then let them take the place of the old ones, all at once.

    What is done is kept: after a crash or an error, the same embedder goes on where it was, and another starts over.

    Args:
        store: What to move; it may be written and searched meanwhile.
        embedder: Makes the vectors, and is the store's from then on.
        progress: Told of every page.

    Raises:
        ConfigurationError: Another thread or process is re-embedding this store, or it is read-only.
        EmbeddingError: The embedder failed; the store is as it was.
    """
    if not store.embedder.being_replaced.acquire(blocking=False):
        raise ConfigurationError(_ALREADY)
    try:
        with store.ledger.new_vectors.moving() as is_alone:
            if not is_alone:
                raise ConfigurationError(_ALREADY)
            _move(store, ProbedEmbedder.probed(embedder), progress)
        _rebuild(store)
    finally:
        store.embedder.being_replaced.release()


def _move(store: MemoryStore, new: ProbedEmbedder, progress: Progress | None) -> None:
    _begin_or_go_on(store, new)
    for most in (LAST << attempt for attempt in itertools.count()):  # so that it ends, however much is written
        _embed_missing(store, new, progress)
        if store.embedder.replace(new, partial(_take_over, store, new, most=most)):
            return


def _begin_or_go_on(store: MemoryStore, new: ProbedEmbedder) -> None:
    new_vectors = store.ledger.new_vectors
    with store.ledger.transaction():
        label = new_vectors.label()
        before = None if label is None else Fingerprint.noted(json.loads(label))
        if before is None or before.embedder_id != new.embedder.id or not before.has_vectors_like(new.fingerprint):
            new_vectors.begin(json.dumps(new.fingerprint.notes()))


def _embed_missing(store: MemoryStore, new: ProbedEmbedder, progress: Progress | None) -> None:
    new_vectors, last = store.ledger.new_vectors, 0
    while page := new_vectors.missing(after=last, limit=PAGE):
        if texts := _texts(store, page):
            new_vectors.keep(list(texts), new.embed_documents(list(texts.values())))
        last = page[-1].id
        if progress is not None:
            progress(*new_vectors.counts())
        if len(page) < PAGE:
            return  # what is missing now was stored meanwhile, and there may always be more of it


def _texts(store: MemoryStore, page: Sequence[UnembeddedPassage]) -> dict[int, str]:
    """What to embed, by passage; nothing of a memory that was forgotten just now."""
    memories = store.ledger.load([passage.memory for passage in page])
    return {
        passage.id: passage.text if (known := passage_text(memory, passage.part)) is None else known.embedded
        for passage in page
        if (memory := memories.get(passage.memory)) is not None
    }


def _take_over(store: MemoryStore, new: ProbedEmbedder, *, most: int) -> bool:
    """Inside a transaction: whether the new vectors are in use, which they are unless more than ``most`` are missing.

    What was stored while the last page was embedded is embedded while everybody waits: writers that never rest would
    otherwise always be ahead.
    """
    if len(store.ledger.new_vectors.missing(limit=most + 1)) > most:
        return False
    _embed_missing(store, new, None)
    store.ledger.new_vectors.take_over()
    store.ledger.outbox.begin(None)  # an index outside the ledger has to be fed anew
    return True


def _rebuild(store: MemoryStore) -> None:
    """The store has moved: an index outside the ledger that fails now comes back by itself, later."""
    try:
        store.dense.rebuild()
    except BackendError as error:
        _logger.warning("the vector index could not be made anew and will be later: %s", error)
