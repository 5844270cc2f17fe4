"""``AgentMemory``: opens a store, wires the parts and passes calls on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from memory_retrievers import transfer
from memory_retrievers.contents import Progress
from memory_retrievers.engine import STORE_FILE, Engine, KeywordEngine, Parts
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory.keeping import Keeping
from memory_retrievers.memory.recalling import Recalling
from memory_retrievers.memory.remembering import Remembering
from memory_retrievers.ownership import share
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.protocols import Clock


class AgentMemory(Remembering, Recalling, Keeping):
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
            read_only: Only look, also beside a process that writes; nothing is noted for review.

        Raises:
            ConfigurationError: The path is not a directory, a newer version of the package wrote the store, this
                process has it open with other settings, or there is none to look into.
            StoreLockedError: Another process writes this store.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
        """
        parts = Parts.chosen(
            embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
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
    ) -> Self:
        """A memory that leaves nothing on disk and ends with the process; the arguments are those of :meth:`open`.

        Raises:
            ConfigurationError: The arguments do not fit together.
        """
        engine = Engine(
            Parts.chosen(embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword),
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
            progress: Told now and then how many memories are in, and of how many.

        Raises:
            ValidationError: The file is no export, or not whole; the message names the line.
            ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is not empty.
            EmbeddingMismatchError: The vectors are from another embedder.
        """
        parts = Parts.chosen(
            embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
        )
        transfer.import_(
            Path(path),
            into=Path(into),
            build=lambda directory: Engine(parts, file=directory / STORE_FILE).store,
            progress=progress,
        )
        return cls.open(
            into, embedder=embedder, embedder_id=embedder_id, retrieval=retrieval, clock=clock, keyword=keyword
        )
