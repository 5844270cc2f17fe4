"""The engine: the parts of a memory, wired together, over a store in a directory, on a server or in memory."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memory_retrievers.backends.files import make_directories, refusal, written
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.retrieval.question import forget_questions
from memory_retrievers.retrieval.retriever import HybridRetriever, PendingReviewBuffer
from memory_retrievers.settings import POOL_SIZE
from memory_retrievers.storage.embedder import LetGoEmbedder
from memory_retrievers.storage.maintenance import MissingTokens
from memory_retrievers.storage.open import STORE_FILE, Storage, in_file, is_server, on_server, require_local
from memory_retrievers.storage.options import ResolvedOptions
from memory_retrievers.storage.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.ingestion.pipeline import IngestionPipeline
    from memory_retrievers.ingestion.worker import Worker
    from memory_retrievers.storage.items import StoredItems
    from memory_retrievers.tools.manager import MemoryManager


class Engine:
    """A store, the reading of it, and what waits to be reviewed.

    Raises:
        ConfigurationError: The store cannot be opened in this way.
        EmbeddingMismatchError: The store was filled with another embedder.
        BackendError: The store cannot be read or written.
    """

    def __init__(self, parts: ResolvedOptions, storage: Storage, *, read_only: bool = False) -> None:
        try:
            self.store = MemoryStore(storage, parts, read_only=read_only)
        except BaseException:
            storage.ledger.close()
            raise
        self.store.ledger.snapshots.forgetting.append(forget_questions)
        self._parts = parts
        self.read_only = read_only
        self.access = parts.access  # the modes of the files that are made
        self.ingestion = parts.ingestion  # what counts as the same fact, and as one that is near
        self.pending = PendingReviewBuffer(self.store)
        self.retriever = HybridRetriever(self.store, settings=parts.retrieval, pending=self.pending)
        self.missing_tokens = MissingTokens(self.store)
        if not read_only:
            self.store.on_missing_tokens = self.missing_tokens.make_soon
        self._worker: Worker | None = None
        self._worker_lock = threading.Lock()

    @functools.cached_property
    def pipeline(self) -> IngestionPipeline:
        """The write path; made at its first use."""
        from memory_retrievers.ingestion.pipeline import IngestionPipeline

        return IngestionPipeline(self.store, self.retriever, self._parts)

    @functools.cached_property
    def manager(self) -> MemoryManager:
        """What the memory tools use; made at its first use."""
        from memory_retrievers.ingestion.extractive import retold
        from memory_retrievers.tools.manager import MemoryManager

        return MemoryManager(self.store, self._parts, retold=retold, read_only=self.read_only)

    @functools.cached_property
    def items(self) -> StoredItems:
        """What a LangGraph store uses; made at its first use."""
        from memory_retrievers.storage.items import StoredItems

        return StoredItems(self.store)

    def start_worker(self) -> None:
        """Let a thread do what is due from now on; one is enough.

        Raises:
            ConfigurationError: The store is only looked into.
        """
        from memory_retrievers.ingestion.worker import Worker

        if self.read_only:
            raise ConfigurationError("this memory was opened read-only: open it without read_only=True to process it")
        with self._worker_lock:
            if self._worker is None:
                self._worker = Worker(self.pipeline, conversations=self.store.ledger.conversations, clock=self.store)
                self._worker.start()

    def wake_worker(self) -> None:
        """Tell the worker, if there is one, that something has arrived."""
        if self._worker is not None:
            self._worker.wake()

    @property
    def settings(self) -> dict[str, object]:
        """What another holder of this store must ask for, see :meth:`ResolvedOptions.settings_with`."""
        return self._parts.settings_with(self.store.embedder.id)

    def close(self, closed: Callable[[], None] = lambda: None, *, is_dropped: bool = False) -> None:
        """Write what is waiting, release everything even if that fails, and call ``closed``.

        Where it is called in a thread that it waits for, from a hook or by the garbage collector, another one does it;
        and where a handle is dropped, in a thread that may hold whatever lock a hook of the worker waits for.
        """
        may_be_awaited = is_dropped and self._worker is not None and threading.main_thread().is_alive()

        def work() -> None:
            try:
                self._close()
            finally:
                closed()

        if may_be_awaited or self.waits_for_this_thread():
            with suppress(RuntimeError):  # there is no room for a thread, or the program ends
                threading.Thread(target=work, daemon=False).start()
                return
        work()

    def waits_for_this_thread(self) -> bool:
        """Whether closing waits for it: it is the worker, or by its name one of the package that runs no hooks."""
        thread, worker = threading.current_thread(), self._worker
        runs_no_hooks = thread.name.startswith("memory-retrievers") and thread.name != "memory-retrievers-worker"
        return runs_no_hooks or (worker is not None and worker.thread is thread)

    def _close(self) -> None:
        try:
            if self._worker is not None:
                self._worker.stop()
            self.pending.flush()
            self.store.after_write()
        finally:
            forget_questions()
            self.missing_tokens.close()
            self.store.close()
            self._parts = replace(self._parts, embedder=LetGoEmbedder(self.store.embedder.id))


def open_engine(
    parts: ResolvedOptions,
    place: str | Path | None,
    *,
    read_only: bool = False,
    pool_size: int = POOL_SIZE,
    within: str | None = None,
) -> tuple[Engine, Callable[..., None]]:
    """Open a store, made if it is missing; returns its engine, and what lets go of it.

    Args:
        parts: What the engine is made of.
        place: The directory, whose engine all its holders in this process share; the address of a PostgreSQL database;
            None keeps the store in memory.
        read_only: Only look: nothing is made or written.
        pool_size: How many connections to a database are kept at most.
        within: Confine these to this scope and those below it.

    Raises:
        ConfigurationError: The store cannot be opened in this way, or there is none to look into.
        StoreLockedError: Nothing can be written there, or a process of an older version has it open.
    """
    on_a_server = isinstance(place, str) and is_server(place)
    if parts.shared_group and (place is None or on_a_server):
        raise ConfigurationError("shared_group is for a store in a directory: this one makes no files")
    if place is None:
        storage = in_file(parts, None)
    elif on_a_server:
        storage = on_server(parts, str(place), pool_size=pool_size, within=within, read_only=read_only)
    elif not read_only:
        return _shared_engine(parts, written(place))
    elif (file := written(place) / STORE_FILE).is_file():
        storage = in_file(parts, file, read_only=True)
    else:
        raise ConfigurationError(f"there is no memory store at {place}: check the path; read_only=True creates none")
    engine = Engine(parts, storage, read_only=read_only)
    return engine, engine.close


@dataclass(eq=False)
class _Live:
    engine: Engine
    process: int = field(default_factory=os.getpid)
    # Who takes the True is the last; without a lock, since garbage is collected in threads that hold any.
    holders: list[bool] = field(default_factory=lambda: [True])
    closed: threading.Event = field(default_factory=threading.Event)


_live: dict[Path, _Live] = {}
_registry = threading.RLock()  # reentrant, since a fork holds it while its other hooks run


@functools.cache
def _register_hook_of_forks() -> None:
    """Let a fork wait for the registry, which a child must not inherit from a thread that it does not have.

    Hooks go newest first: a fork takes it before the locks of files, as whoever opens a store does.
    """
    import memory_retrievers.backends.sqlite.attachment  # noqa: F401 - whose hooks are registered before this one

    if hasattr(os, "register_at_fork"):
        release = _registry.release
        os.register_at_fork(before=_registry.acquire, after_in_parent=release, after_in_child=release)


def _shared_engine(parts: ResolvedOptions, directory: Path) -> tuple[Engine, Callable[..., None]]:
    """The engine of a directory, which all its holders in this process have; the last that lets go of it closes it."""
    _register_hook_of_forks()
    require_local(directory)
    try:
        make_directories(directory, parts.access)
    except OSError as error:
        raise refusal(directory, error) from error
    place = directory.resolve()
    while True:
        with _registry:
            live = _live.get(place)
            if live is None or live.process != os.getpid():
                live = _live[place] = _Live(Engine(parts, in_file(parts, directory / STORE_FILE)))
                break
        has, wanted = live.engine.settings, parts.settings_with(parts.embedder.id)
        if has != wanted and live.holders[:1] == [True]:
            which = ", ".join(name for name in wanted if not (has[name] is wanted[name] or has[name] == wanted[name]))
            raise ConfigurationError(
                f"{directory} is open in this process with other settings ({which}): close it first, or open it the "
                "same way, with the same objects"
            )
        live.holders.append(False)
        if live.holders[0]:
            break
        if live.engine.waits_for_this_thread():
            raise ConfigurationError(f"{directory} is being closed, and waits for this thread to end its work")
        live.closed.wait()  # its last holder is letting go of it
    return live.engine, functools.partial(_let_go, place, live)


def _let_go(place: Path, live: _Live, *, is_dropped: bool = False) -> None:
    def closed() -> None:
        del _live[place]
        live.closed.set()

    # a forked child holds nothing: the store is its parent's
    if live.process == os.getpid() and live.holders.pop():
        live.engine.close(closed, is_dropped=is_dropped)
