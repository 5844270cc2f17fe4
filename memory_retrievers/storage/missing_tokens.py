"""Token vectors of passages that were stored without: made in the background once a search has missed them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.text.passages import passage_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_retrievers.models.storage import UnembeddedPassage
    from memory_retrievers.storage.store import MemoryStore

AT_ONCE: Final = 32
"""Passages that are embedded and written at a time: what a crash can lose, and what closing waits for."""

_logger = logging.getLogger("memory_retrievers")


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
        """Let a thread make them all; one is enough."""
        with self._lock:
            if self._closing.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._make_in_background, name="missing tokens", daemon=True)
            self._thread.start()

    def make(self) -> None:
        """Make them all, unless the embedder gives none.

        Raises:
            EmbeddingError: The embedder failed; what was done before stays.
            BackendError: The store cannot be written; likewise.
        """
        ledger, last = self._store.ledger, 0
        while not self._closing.is_set() and self._store.embedder.current().with_tokens:
            page = ledger.without_tokens(after=last, limit=AT_ONCE)
            if not page:
                return
            embedder = self._store.embedder.current()
            texts, scopes = texts_of(self._store, page)
            made = embedder.embed_passages(list(texts.values()))
            with ledger.transaction(*scopes):
                if self._store.embedder.admits(embedder):  # else the store has just moved to another one
                    kept = zip(texts, made, strict=True)
                    ledger.keep_tokens(
                        {each: embedded.tokens for each, embedded in kept if embedded.tokens is not None}
                    )
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
