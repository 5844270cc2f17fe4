"""``AgentMemory``: opens a store, wires the parts and passes calls on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_retrievers import transfer
from memory_retrievers.contents import Progress
from memory_retrievers.engine import STORE_FILE, Engine
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory.adopting import Adopting
from memory_retrievers.memory.conversing import Conversing
from memory_retrievers.memory.keeping import Keeping
from memory_retrievers.memory.recalling import Recalling
from memory_retrievers.memory.remembering import Remembering
from memory_retrievers.models import Category
from memory_retrievers.ownership import share
from memory_retrievers.parts import BeforeStore, DenseEngine, KeywordEngine, Parts, chosen_embedder
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings

if TYPE_CHECKING:
    from memory_retrievers.adoption import Collection
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.language_models import AnyLanguageModel
    from memory_retrievers.protocols import Clock


class AgentMemory(Remembering, Recalling, Conversing, Keeping, Adopting):
    """A long-term memory: what an agent was told, and what it made of it, found again by meaning and by words.

    Open one with :meth:`open` or :meth:`in_memory`; close it with :meth:`close`, or use it in a ``with`` statement.
    All methods may be called from several threads at once.
    """

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
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
        read_only: bool = False,
    ) -> Self:
        """Open the store in the directory ``path``, or make it.

        One process at a time writes a store. Opened twice in a process, both handles share it, and it is closed with
        the last of them.

        Args:
            path: The directory.
            embedder: What turns text into vectors: a LangChain, LlamaIndex or Chroma embedder, or a function from a
                list of texts to a list of vectors. None is the bundled all-MiniLM-L6-v2, which needs no network.
            embedder_id: The name the store remembers the embedder by; None derives it from the embedder.
            retrieval: How to rank and show; None is the default, ``RetrievalSettings.seed()`` the specification.
            clock: What tells the time; None is the system's clock.
            keyword: The BM25 engine.
            dense: How vectors are searched: ``auto`` exactly in small scopes and by Chroma in wide ones (see
                ``RetrievalSettings.exact_limit``), ``exact``, ``chroma``, or the client of a Chroma server.
            language_model: What cuts conversations into episodes, learns facts from them and judges what was used: a
                LangChain chat model, a LlamaIndex LLM, or an object with ``generate(system, user, schema)``. Without
                one, episodes and reviews are made by rules, and no facts are learned.
            ingestion: How messages become episodes, and episodes facts.
            review: How retrieved memories are reviewed.
            before_store: Sees every message before it is queued and every memory before it is stored; gives it back,
                changed or not, or None to keep it out. For redaction and consent.
            tools: What the memory tools keep to; ``ToolSettings.from_environment()`` reads environment variables.
            read_only: Only look, also beside a process that writes; nothing is noted for review.

        Raises:
            ConfigurationError: The path is not a directory, a newer version of the package wrote the store, this
                process has it open with other settings, or there is none to look into.
            StoreLockedError: Another process writes this store.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
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
        file = Path(path) / STORE_FILE
        if read_only:
            if not file.is_file():
                raise ConfigurationError(f"there is no memory store at {path} to look into")
            engine = Engine(parts, file=file, read_only=True)
            return cls(engine, let_go=engine.close)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be used as a store directory: {error.strerror}") from error
        engine, let_go = share(file.parent, settings=parts.settings, build=lambda: Engine(parts, file=file))
        return cls(engine, let_go=let_go)

    @classmethod
    def in_memory(
        cls,
        *,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        keyword: KeywordEngine = "rank_bm25",
        dense: DenseEngine = "auto",
        language_model: AnyLanguageModel | None = None,
        ingestion: IngestionSettings | None = None,
        review: ReviewSettings | None = None,
        before_store: BeforeStore | None = None,
        tools: ToolSettings | None = None,
    ) -> Self:
        """A memory that leaves nothing on disk and ends with the process; the arguments are those of :meth:`open`.

        Raises:
            ConfigurationError: The arguments do not fit together.
        """
        engine = Engine(
            Parts.chosen(
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
            ),
            file=None,
        )
        return cls(engine, let_go=engine.close)

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
        progress: Progress | None = None,
    ) -> Self:
        """Make a store from a file that :meth:`export` wrote, and open it.

        Records and vectors are taken as they are; nothing is embedded again. The directory is there once everything
        is in it.

        Args:
            path: The file.
            into: The new store's directory: missing, or empty.
            embedder: Must be the one the export's vectors are from; this and the rest as for :meth:`open`.
            embedder_id: As for :meth:`open`.
            retrieval: As for :meth:`open`.
            clock: As for :meth:`open`.
            keyword: As for :meth:`open`.
            dense: As for :meth:`open`.
            progress: Told now and then how many memories are in, and of how many.

        Raises:
            ValidationError: The file is no export, or not whole; the message names the line.
            ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is not empty.
            EmbeddingMismatchError: The vectors are from another embedder.
        """
        parts = Parts.chosen(
            embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword, dense=dense
        )
        transfer.import_(
            Path(path),
            into=Path(into),
            build=lambda directory: Engine(parts, file=directory / STORE_FILE).store,
            progress=progress,
        )
        return cls.open(
            into,
            embedder=embedder,
            embedder_id=embedder_id,
            retrieval=retrieval,
            clock=clock,
            keyword=keyword,
            dense=dense,
        )

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
        progress: Progress | None = None,
    ) -> Self:
        """Copy a Chroma collection into a store, with its vectors, and serve from there.

        Every row becomes a fact under its own id. The copy goes on where it stopped if it is called again, and takes
        in what is new or has changed; what is gone from the collection is left to :meth:`sync_chroma`. The collection
        is only read, unless changes are written through. :attr:`adoption` tells what became of the rows.

        Args:
            collection: What ``client.get_collection(...)`` returns, of any synchronous Chroma client.
            path: The store's directory; None keeps the store in memory.
            embedder: Must be the one the collection was filled with, see :meth:`open`; up to five of its texts are
                embedded again to see that it is.
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
        model = chosen_embedder(embedder, embedder_id=embedder_id)
        adoption.check_embedder(collection, adopted, model.embed_documents)
        # 2. open the store
        if path is None:
            memory = cls.in_memory(
                embedder=model, retrieval=retrieval, clock=clock, keyword=keyword or "rank_bm25", dense=dense
            )
        else:
            memory = cls.open(
                path, embedder=model, retrieval=retrieval, clock=clock, keyword=keyword or "sqlite_bm25", dense=dense
            )
        # 3. fill it
        try:
            memory._take_in(collection, adopted, progress)  # noqa: SLF001 - a new one of this class
        except BaseException:
            memory.close()
            raise
        return memory
