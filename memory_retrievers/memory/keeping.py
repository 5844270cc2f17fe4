"""What keeps a store whole over the years: verify, rebuild, purge, backup, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory_retrievers import reembedding, reindexing, scopes, transfer, upkeep
from memory_retrievers.contents import Progress, VerificationReport
from memory_retrievers.memory.handle import Handle
from memory_retrievers.parts import chosen_embedder
from memory_retrievers.storage import STORE_FILE
from memory_retrievers.upkeep import Index

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder


class Keeping(Handle):
    """The part of ``AgentMemory`` that looks after the store as a whole."""

    def verify(self) -> VerificationReport:
        """Look whether the store is whole: the file, every memory with its passages and vectors, the postings."""
        return upkeep.verify(self._store)

    def rebuild(self, what: Index = "all") -> None:
        """Make indexes anew from the stored memories, which stay as they are.

        Args:
            what: ``sparse`` makes postings and word statistics anew from the passages, in one transaction. ``dense``
                only drops the vectors remembered in memory, which are read from the store again: the stored vectors
                are the index, and mending them would take embedding again. ``all`` does both.

        Raises:
            ValidationError: There is no such index.
        """
        upkeep.rebuild(self._store, what)

    def reembed(
        self, embedder: AnyEmbedder | None, *, embedder_id: str | None = None, progress: Progress | None = None
    ) -> None:
        """Move the store to another embedder: the vector of every memory is made anew, and the records stay.

        The store may be searched and written meanwhile: the old vectors serve until all new ones are there, and then
        the change is made at once, for every handle. What is done is kept: after a crash, or when the embedder failed,
        a call with the same embedder goes on where it was, and one with another starts over.

        When the old embedder is not at hand, open the store under its name and move it before anything else:
        ``AgentMemory.open(path, embedder=new, embedder_id=<the old one's id>)``, then ``memory.reembed(new)``.

        Args:
            embedder: The new one, as for :meth:`open`; None is the bundled one.
            embedder_id: The name the store remembers the new one by, as for :meth:`open`.
            progress: Told after every page how many memories have a new vector, and of how many.

        Raises:
            ConfigurationError: The embedder embeds in no known way, another thread is re-embedding this store, or it
                was opened read-only.
            EmbeddingError: The embedder failed; the old one goes on serving.
            BackendError: The store cannot be written; the old embedder goes on serving.
        """
        reembedding.reembed(self._store, chosen_embedder(embedder, embedder_id=embedder_id), progress=progress)

    def reindex(self, *, progress: Progress | None = None) -> int:
        """Bring what is stored of episodes to ``RetrievalSettings.passages``, after that was changed.

        With ``turns``, the messages of every episode are embedded and indexed, where they are not yet; with
        ``summary``, those of all episodes are given up. Episodes themselves stay as they are. Opening a store never
        does this, and new episodes follow the settings without it.

        The store may be searched and written meanwhile. What is done is kept: after a crash, or when the embedder
        failed, another call goes on where it was.

        Args:
            progress: Told now and then how many episodes are done, and of how many.

        Returns:
            How many episodes were changed.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The embedder is not the store's.
            ConfigurationError: The store was opened read-only.
            BackendError: The store cannot be written.
        """
        with self._written() as store:
            return reindexing.reindex(store, progress=progress)

    def purge(self) -> None:
        """Remove what has expired, and leave no byte of what was forgotten in the directory of the store.

        The file is written anew, which takes time and, for that long, as much space again.

        Raises:
            BackendError: It could not be done now, since somebody was reading; nothing is lost.
        """
        self._pending.flush()
        with self._written() as store:
            store.purge()

    def backup(self, path: str | Path) -> None:
        """Copy the store to a new directory, whatever is written meanwhile; :meth:`open` opens the copy.

        Raises:
            ConfigurationError: The directory is in use, or cannot be made.
            BackendError: The copy failed, and nothing was left of it.
        """
        self._pending.flush()
        self._store.ledger.backup(Path(path) / STORE_FILE)

    def export(self, path: str | Path, *, scope: str | None = None, progress: Progress | None = None) -> int:
        """Write memories, their vectors and what waits for review into a new file of JSON lines, losing nothing.

        The file is of one moment, and appears under its name only when it is whole. :meth:`import_` reads it.

        Args:
            path: The file; it must not exist yet.
            scope: This scope and all below it; None is everything.
            progress: Told now and then how many memories are written, and of how many.

        Returns:
            How many memories were written.

        Raises:
            ConfigurationError: The file exists, or cannot be written.
            ValidationError: The scope is malformed.
            BackendError: A memory is damaged; :meth:`verify` tells more.
        """
        asked = None if scope is None else scopes.parse(scope)
        if not self._engine.read_only:
            self._pending.flush()
        return transfer.export(self._store.ledger, Path(path), scope=asked, progress=progress)
