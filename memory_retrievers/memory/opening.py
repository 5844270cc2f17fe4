"""Opening a store: a directory's, or one in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_retrievers import scopes
from memory_retrievers.engine import Engine
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory.handle import Handle
from memory_retrievers.ownership import share
from memory_retrievers.parts import BeforeStore, DenseEngine, KeywordEngine, Parts
from memory_retrievers.settings import POOL_SIZE, IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings
from memory_retrievers.storage import STORE_FILE, in_file, is_server, on_server

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.language_models import AnyLanguageModel
    from memory_retrievers.protocols import Clock


class Opening(Handle):
    """The part of ``AgentMemory`` that opens stores."""

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
        if isinstance(path, str) and is_server(path):
            raise ConfigurationError("this is the address of a database: AgentMemory.connect(url) uses it")
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
        if read_only:
            file = Path(path) / STORE_FILE
            if not file.is_file():
                raise ConfigurationError(f"there is no memory store at {path} to look into")
            return cls(
                engine := Engine(parts, in_file(parts, file, read_only=True), read_only=True), let_go=engine.close
            )
        return cls._of(parts, Path(path))

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
        return cls._of(parts, None)

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        embedder: AnyEmbedder | None = None,
        embedder_id: str | None = None,
        retrieval: RetrievalSettings | None = None,
        clock: Clock | None = None,
        dense: DenseEngine | None = None,
        language_model: AnyLanguageModel | None = None,
        ingestion: IngestionSettings | None = None,
        review: ReviewSettings | None = None,
        before_store: BeforeStore | None = None,
        tools: ToolSettings | None = None,
        pool_size: int = POOL_SIZE,
        within: str | None = None,
        read_only: bool = False,
    ) -> Self:
        """Use the store in a PostgreSQL database with pgvector, whose tables are made if they are missing.

        Any number of processes may write and read it at once, each with a connection of its own. It behaves as a
        store of :meth:`open` does; what is said of arguments there holds here.

        Args:
            url: How to reach the database, for example ``postgresql://user@host/agents``; further parameters go to
                libpq. Several stores in one database take a schema each, before the one that pgvector is in:
                ``?options=-csearch_path=store,public``.
            embedder: As for :meth:`open`.
            embedder_id: As for :meth:`open`.
            retrieval: As for :meth:`open`.
            clock: As for :meth:`open`.
            dense: None: exactly in small scopes and by pgvector's HNSW in wide ones. ``exact``. Or the client of a
                Chroma server or of Chroma Cloud, which then answers in wide scopes.
            language_model: As for :meth:`open`.
            ingestion: As for :meth:`open`.
            review: As for :meth:`open`.
            before_store: As for :meth:`open`.
            tools: As for :meth:`open`.
            pool_size: How many connections this process keeps at most; two are always open.
            within: Confine every connection to this scope and those below it. Where its role does not own the tables,
                PostgreSQL's row-level security shows it no row of any other scope, whatever is asked.
            read_only: Only look, also into a standby; nothing is noted for review, no index is made, and Chroma is
                left alone.

        Raises:
            MissingExtraError: psycopg is not installed.
            ConfigurationError: The arguments do not fit together, a newer version of the package made the tables, the
                server is older than PostgreSQL 15 or has no pgvector, Chroma's own folder was asked for, or there is no
                store to look into.
            ValidationError: ``within`` is malformed.
            StoreLockedError: The server takes no writes, as a standby does, and ``read_only`` was not asked for.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The database cannot be reached.
        """
        if not is_server(url):
            raise ConfigurationError("this is no address of a PostgreSQL database: postgresql://user@host/database")
        if dense == "chroma":
            raise ConfigurationError("with PostgreSQL a Chroma client does what dense='chroma' asks for: pass one")
        if within is not None and not (dense is None or isinstance(dense, str)):
            raise ConfigurationError("a memory that is confined by within= cannot feed Chroma, which holds all scopes")
        parts = Parts.chosen(
            embedder=embedder,
            embedder_id=embedder_id,
            retrieval=retrieval,
            clock=clock,
            keyword="sqlite_bm25",
            dense=dense or "auto",
            language_model=language_model,
            ingestion=ingestion,
            review=review,
            before_store=before_store,
            tools=tools,
        )
        confined = None if within is None else scopes.parse(within)
        storage = on_server(parts, url, pool_size=pool_size, within=confined, read_only=read_only)
        return cls(engine := Engine(parts, storage, read_only=read_only), let_go=engine.close)

    @classmethod
    def _of(cls, parts: Parts, place: str | Path | None) -> Self:
        """The store of a directory, made if it is missing, of a PostgreSQL database, or one in memory."""
        if place is None:
            return cls(engine := Engine(parts, in_file(parts, None)), let_go=engine.close)
        if isinstance(place, str) and is_server(place):
            storage = on_server(parts, place)
            return cls(engine := Engine(parts, storage), let_go=engine.close)
        directory = Path(place)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{directory} cannot be used as a store directory: {error.strerror}") from error
        engine, let_go = share(
            directory, settings=parts.settings, build=lambda: Engine(parts, in_file(parts, directory / STORE_FILE))
        )
        return cls(engine, let_go=let_go)
