"""Opening a store: a directory's, or one in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_retrievers.engine import STORE_FILE, Engine
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory.handle import Handle
from memory_retrievers.ownership import share
from memory_retrievers.parts import BeforeStore, DenseEngine, KeywordEngine, Parts
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings

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
            return cls(engine := Engine(parts, file=file, read_only=True), let_go=engine.close)
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
    def _of(cls, parts: Parts, directory: Path | None) -> Self:
        """The store of a directory, made if it is missing, or one in memory."""
        if directory is None:
            return cls(engine := Engine(parts, file=None), let_go=engine.close)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{directory} cannot be used as a store directory: {error.strerror}") from error
        engine, let_go = share(
            directory, settings=parts.settings, build=lambda: Engine(parts, file=directory / STORE_FILE)
        )
        return cls(engine, let_go=let_go)
