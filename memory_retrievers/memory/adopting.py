"""Taking in a Chroma collection that exists already, and following its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.contents import AdoptionReport, Progress
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory.handle import Handle

if TYPE_CHECKING:
    from memory_retrievers.adoption import Adoption, Collection


class Adopting(Handle):
    """The part of ``AgentMemory`` that knows of a collection of the user's."""

    _adoption_report: AdoptionReport | None = None

    @property
    def adoption(self) -> AdoptionReport | None:
        """What became of the rows, if :meth:`from_chroma` made this memory; None otherwise."""
        return self._adoption_report

    def sync_chroma(
        self, collection: Collection, *, confirm: bool = False, progress: Progress | None = None
    ) -> AdoptionReport:
        """Follow a collection that was adopted: take in what is new, update what has changed, forget what is gone.

        A memory follows its row in text, vector and metadata; what else was changed here stays. Everything is read
        before anything is written, and what was written through and still waits goes out first.

        Args:
            collection: The one that was given to :meth:`from_chroma`.
            confirm: Also go on if more than half of the adopted memories would be forgotten, or if another collection
                has taken the place of the one adopted.
            progress: Told after every page how many rows have been read, and of how many.

        Raises:
            ConfigurationError: This store has adopted no collection, or another one.
            ValidationError: More than half would be forgotten; nothing was changed.
            EmbeddingMismatchError: The collection's vectors are not from the store's embedder; nothing was changed.
            BackendError: The collection failed; what is done stays, and a further call goes on.
        """
        from memory_retrievers import adoption

        adopted = adoption.Adoption.noted(self._store.ledger)
        if adopted is None:
            raise ConfigurationError("this store has adopted no collection: make it with AgentMemory.from_chroma(...)")
        adoption.check_collection(collection, writable=adopted.write_through)
        if not confirm:
            adopted.refuse_other_collection(collection)
        self._write_through(collection, adopted)
        return adoption.sync(self._store, self._engine.adopted, collection, adopted, confirm=confirm, progress=progress)

    def _take_in(self, collection: Collection, adopted: Adoption, progress: Progress | None) -> None:
        """The part of :meth:`AgentMemory.from_chroma` that follows the opening."""
        from memory_retrievers import adoption

        adopted.refuse_other(adoption.Adoption.noted(self._store.ledger))
        adopted.note(self._store.ledger)
        self._write_through(collection, adopted)
        self._adoption_report = adoption.adopt(
            self._store, self._engine.adopted, collection, adopted, progress=progress
        )

    def _write_through(self, collection: Collection, adopted: Adoption) -> None:
        """Write what is waiting, and from now on every change; or none, if that was not asked for."""
        from memory_retrievers import adoption

        if not adopted.write_through:
            self._engine.after_write = None
            return
        through = adoption.WriteThrough(self._store, self._engine.adopted, collection, adopted)
        through.flush()
        self._engine.after_write = through.attempt
