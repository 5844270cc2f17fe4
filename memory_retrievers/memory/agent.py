"""``AgentMemory``: all its parts, and how a store is made of an export or a Chroma collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_retrievers import transfer
from memory_retrievers.contents import Progress
from memory_retrievers.engine import Engine
from memory_retrievers.memory.adopting import Adopting
from memory_retrievers.memory.conversing import Conversing
from memory_retrievers.memory.explaining import Explaining
from memory_retrievers.memory.keeping import Keeping
from memory_retrievers.memory.opening import Opening
from memory_retrievers.memory.recalling import Recalling
from memory_retrievers.memory.remembering import Remembering
from memory_retrievers.memory.staging import Staging
from memory_retrievers.models import Category
from memory_retrievers.parts import BeforeStore, DenseEngine, KeywordEngine, Parts
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings
from memory_retrievers.storage import STORE_FILE, in_file

if TYPE_CHECKING:
    from memory_retrievers.adoption import Collection
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.language_models import AnyLanguageModel
    from memory_retrievers.protocols import Clock


class AgentMemory(Opening, Remembering, Recalling, Explaining, Conversing, Staging, Keeping, Adopting):
    """A long-term memory: what an agent was told, and what it made of it, found again by meaning and by words.

    Open one with :meth:`open` or :meth:`in_memory`; close it with :meth:`close`, or use it in a ``with`` statement.
    All methods may be called from several threads at once.
    """

    @classmethod
    def import_(
        cls,
        path: str | Path,
        *,
        into: str | Path,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine = "sqlite_bm25",
        dense: DenseEngine = "auto",
        language_model: AnyLanguageModel | None = None,
        ingestion: IngestionSettings | None = None,
        review: ReviewSettings | None = None,
        before_store: BeforeStore | None = None,
        tools: ToolSettings | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Make a store from a file that :meth:`export` wrote, and open it.

        Records and vectors are taken as they are. The directory is there once everything is in it.

        Args:
            path: The file.
            into: The new store's directory: missing, or empty.
            embedder: Must be the one the export's vectors are from; this and the rest as for :meth:`open`.
            embedder_id: As for :meth:`open`.
            retrieval: As for :meth:`open`.
            clock: As for :meth:`open`.
            keyword: As for :meth:`open`.
            dense: As for :meth:`open`.
            language_model: As for :meth:`open`.
            ingestion: As for :meth:`open`.
            review: As for :meth:`open`.
            before_store: As for :meth:`open`; it does not see what is imported, which was stored once already.
            tools: As for :meth:`open`.
            progress: Told now and then how many memories are in, and of how many.

        Raises:
            ValidationError: The file is no export, or not whole; the message names the line.
            ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is not empty.
            EmbeddingMismatchError: The vectors are from another embedder.
        """
        parts = Parts.chosen(
            embedder=embedder,
            embedder_id=embedder_id,
            retrieval=retrieval,
            clock=clock,
            keyword=keyword,
            dense=dense,
            language_model=language_model,
            ingestion=ingestion,
            review=review,
            before_store=before_store,
            tools=tools,
        )
        transfer.import_(
            Path(path),
            into=Path(into),
            build=lambda directory: Engine(parts, in_file(parts, directory / STORE_FILE)).store,
            progress=progress,
        )
        return cls._of(parts, Path(into))

    @classmethod
    def from_chroma(
        cls,
        collection: Collection,
        *,
        path: str | Path | None = None,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        scope: str | None = None,
        scope_key: str | None = None,
        text_key: str | None = None,
        category: Category | str = Category.NOTE,
        write_through: bool = False,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine | None = None,
        dense: DenseEngine = "auto",
        language_model: AnyLanguageModel | None = None,
        ingestion: IngestionSettings | None = None,
        review: ReviewSettings | None = None,
        before_store: BeforeStore | None = None,
        tools: ToolSettings | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Copy a Chroma collection into a store, with its vectors, and serve from there.

        Every row becomes a fact under its own id. The copy goes on where it stopped if it is called again, and takes
        in what is new or has changed; what is gone from the collection is left to :meth:`sync_chroma`. The collection
        is only read, unless changes are written through. :attr:`adoption` tells what became of the rows.

        Args:
            collection: What ``client.get_collection(...)`` returns, of any synchronous Chroma client.
            path: The store's directory, or the address of a PostgreSQL database; None keeps the store in memory.
            embedder: Must be the one the collection was filled with; up to five of its texts are embedded again to see
                that it is.
            embedder_id: As for :meth:`open`.
            scope: The scope of all memories; or
            scope_key: the metadata key under which each row names its own, as text or a whole number.
            text_key: The metadata key of the text; None takes the document.
            category: The category of all facts.
            write_through: Also write to the collection what is remembered, updated or forgotten here from now on. Only
                rows that were adopted or made here are touched. What cannot be written waits in the store until the
                next change, :meth:`sync_chroma` or :meth:`close`.
            retrieval: As for :meth:`open`.
            clock: As for :meth:`open`.
            keyword: As for :meth:`open`; None is the default there, or of :meth:`in_memory`.
            dense: As for :meth:`open`.
            language_model: As for :meth:`open`.
            ingestion: As for :meth:`open`.
            review: As for :meth:`open`.
            before_store: As for :meth:`open`; it sees every row as a fact, and a text it has changed is embedded anew.
            tools: As for :meth:`open`.
            progress: Told after every page how many rows have been read, and of how many.

        Raises:
            ConfigurationError: The arguments do not fit together, or the store has adopted another collection, or this
                one in another way.
            ValidationError: The scope is malformed, or there is no such category.
            EmbeddingMismatchError: The embedder is not the collection's; nothing was made.
            StoreLockedError: Another process writes this store.
            BackendError: The collection or the store failed; what is in stays, and a further call goes on.
        """
        from memory_retrievers import adoption

        # 1. nothing is made before all this is sure
        adoption.check_collection(collection, writable=write_through)
        adopted = adoption.Adoption.chosen(
            collection,
            scope=scope,
            scope_key=scope_key,
            text_key=text_key,
            category=category,
            write_through=write_through,
        )
        parts = Parts.chosen(
            embedder=embedder,
            embedder_id=embedder_id,
            retrieval=retrieval,
            clock=clock,
            keyword=keyword or ("rank_bm25" if path is None else "sqlite_bm25"),
            dense=dense,
            language_model=language_model,
            ingestion=ingestion,
            review=review,
            before_store=before_store,
            tools=tools,
        )
        adoption.check_embedder(collection, adopted, parts.embedder.embed_documents)
        # 2. open the store
        memory = cls._of(parts, path)
        # 3. fill it
        try:
            memory._take_in(collection, adopted, progress)  # noqa: SLF001 - a new one of this class
        except BaseException:
            memory.close()
            raise
        return memory
