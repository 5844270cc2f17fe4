"""``AgentMemory``: the one class through which a store is opened, filled, searched and kept."""

from __future__ import annotations

import builtins
import functools
import pickle
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack
from uuid import uuid4

from memory_retrievers.backends.files import outside, written
from memory_retrievers.backends.sql.characters import updated
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.memory.base import BaseMemory, awaited, check_replacing
from memory_retrievers.memory.engine import Engine, open_engine
from memory_retrievers.models import (
    AnyMemory,
    Category,
    Draft,
    EpisodicMemory,
    JsonObject,
    Kind,
    Rating,
    ScopeStatistics,
    SemanticMemory,
    scopes,
)
from memory_retrievers.models.contents import AdoptionReport, Progress, VerificationReport
from memory_retrievers.models.filters import Filters, SearchOptions
from memory_retrievers.models.management import Channel, MemoryEvent, acting_as, require_category
from memory_retrievers.models.memories import NOT_GIVEN, NotGiven, draft_of, in_our_words, parse_id
from memory_retrievers.models.messages import Message, MessageLike, messages_of, named_messages, parse_conversation
from memory_retrievers.models.results import (
    ForgottenMessages,
    MemoryDiff,
    Page,
    PendingReview,
    Queued,
    Report,
    page_of,
    parse_cursor,
    parse_kinds,
    parse_page_size,
)
from memory_retrievers.models.scenes import CharacterState, SceneEvent
from memory_retrievers.models.selection import Listing, Selection
from memory_retrievers.retrieval.explanations import ExplainedAbsence, ExplainedRetrieval
from memory_retrievers.retrieval.request import RetrievalRequest, parse_limit, parse_query
from memory_retrievers.retrieval.results import Profile, RecentResult, RetrievalResult
from memory_retrievers.scene.events import derived_from, drafts_of, known_to, relevance
from memory_retrievers.scene.render import scene_block
from memory_retrievers.settings import POOL_SIZE, SCENE_BUDGET, SceneSettings
from memory_retrievers.storage import export as transfer
from memory_retrievers.storage import maintenance
from memory_retrievers.storage.maintenance import Index
from memory_retrievers.storage.open import STORE_FILE, in_file, is_server, require_local
from memory_retrievers.storage.options import KeywordEngine, ResolvedOptions, StoreOptions, chosen_embedder
from memory_retrievers.storage.store import MemoryStore
from memory_retrievers.storage.tracing import observed

if TYPE_CHECKING:
    from memory_retrievers.backends.embeddings import AnyEmbedder
    from memory_retrievers.backends.sql.overview import SQLOverview
    from memory_retrievers.storage.chroma_sync.collection import AnyCollection, Collection, Where
    from memory_retrievers.storage.chroma_sync.rows import Adoption
    from memory_retrievers.storage.items import StoredItems
    from memory_retrievers.tools.manager import MemoryManager

Opener: TypeAlias = "Callable[[], AgentMemory]"
_MEM0: Final = {"search": "retrieve", "get_all": "list", "delete": "forget", "delete_all": "forget_scope"} | {
    "add": "add_messages or remember_fact",
    "reset": "forget_scope for each of scopes(), and purge()",
    "users": "scopes",
}
_pickled: Final[weakref.WeakValueDictionary[str, Opener]] = weakref.WeakValueDictionary()


def _opened_again(name: str, opener: Opener) -> AgentMemory:
    """Open a memory that was pickled; where it is still open, by its very options: a copied model equals no other."""
    return _pickled.get(name, opener)()


class AgentMemory(BaseMemory):
    """A long-term memory: it stores what an agent has heard and learned, and finds it again by meaning and by words.

    Open one with :meth:`open`, :meth:`connect` or :meth:`in_memory`. Close it with :meth:`close`, or use it in a
    ``with`` statement. All methods may be called from several threads at once.
    """

    _opened_by: functools.partial[Any] | None = None  # what opens it again; None where the address tells a secret

    def __init__(self, engine: Engine | None = None, release: Callable[..., None] | None = None) -> None:
        if engine is None or release is None:
            raise TypeError("open a memory by AgentMemory.open(path), connect(address) or in_memory()")
        self._shared_engine = engine
        self._adoption_report: AdoptionReport | None = None
        # also when the handle is dropped without being closed, and when the program ends
        self._release = weakref.finalize(self, release, is_dropped=True)
        self._name = uuid4().hex

    def __deepcopy__(self, _memo: object) -> Self:
        """The same handle: what is copied around a memory goes on with the store that it had."""
        return self

    __copy__ = functools.partialmethod(__deepcopy__, None)

    def __repr__(self) -> str:
        by = self._opened_by
        return super().__repr__() if by is None else f"{by.func.__qualname__}({str(by.args[0])!r})"

    if not TYPE_CHECKING:  # a type checker would take any name for one that is there

        def __getattr__(self, name: str) -> object:
            if name not in _MEM0:
                return self.__getattribute__(name)  # which says what is missing, also within a property
            meant = f"'AgentMemory' object has no attribute {name!r}: call {_MEM0[name]}"
            raise AttributeError(meant, name=name, obj=self)

    def __reduce__(self) -> tuple[Callable[[str, Opener], AgentMemory], tuple[str, Opener]]:
        """The address and the options; unpickled, the store is opened again, and must be closed like any other handle.

        Raises:
            PicklingError: The store is in memory, closed, or was not opened by its address, or there is a password in
                that; or an option cannot be pickled.
        """
        if self._opened_by is None:
            raise pickle.PicklingError(
                "a memory is pickled by its address, so only while it is open and if AgentMemory.open or connect has "
                "opened it, without a password in the address: open one where you unpickle"
            )
        _pickled[self._name] = self._opened_by
        return _opened_again, (self._name, self._opened_by)

    # --- opening and closing

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        keyword: KeywordEngine = "sqlite_bm25",
        read_only: bool = False,
        shared_group: bool = False,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Open the store in the directory ``path``, or create it.

        Any number of processes on one machine may have a store open and write to it at once. If a process opens a store
        twice, both handles share it, and it is closed with the last of them.

        Args:
            path: The directory.
            keyword: The BM25 engine, see ``KeywordEngine``; under the default fusion both give the same results.
            read_only: Only read, also next to a process that writes, or on a read-only file system; no retrieval is
                recorded for review.
            shared_group: Create files and directories for all users of the directory's group (0660, 2770) instead of
                their owner alone (0600, 0700), whatever the umask; existing files keep their modes.
            **options: Embedder, language model, settings and more, by name: see ``StoreOptions``.

        Raises:
            TypeError: There is no option of this name.
            ConfigurationError: An option cannot be used, the path is not a directory, a newer version of the package
                wrote the store, this process has it open with other settings, ``read_only`` found no store, or an
                environment variable is wrong.
            StoreLockedError: A process with an older version of the package has the store open, or the directory cannot
                be written.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
        """
        if isinstance(path, str) and is_server(path):
            raise ConfigurationError("this is the address of a database: use AgentMemory.connect(url)")
        parts = ResolvedOptions.chosen(options, keyword=keyword, shared_group=shared_group)
        directory = written(path)
        memory = cls(*open_engine(parts, directory, read_only=read_only))
        memory._opened_by = functools.partial(
            cls.open, directory.absolute(), keyword=keyword, read_only=read_only, shared_group=shared_group, **options
        )
        return memory

    @classmethod
    def in_memory(cls, *, keyword: KeywordEngine = "rank_bm25", **options: Unpack[StoreOptions]) -> Self:
        """Create a memory that leaves nothing on disk and ends with the process; arguments as for :meth:`open`.

        Raises:
            ConfigurationError: The arguments do not fit together.
        """
        return cls(*open_engine(ResolvedOptions.chosen(options, keyword=keyword), None))

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        pool_size: int = POOL_SIZE,
        within: str | None = None,
        read_only: bool = False,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Use the store in a PostgreSQL database with pgvector; its tables are created if they are missing.

        Any number of processes may read and write it at once, each with its own connections. It behaves like a store of
        :meth:`open`, and arguments of the same name mean the same.

        Args:
            url: The address, for example ``postgresql://user@host/agents``; its parameters are passed to libpq. For
                several stores in one database give each its own schema, before that of pgvector:
                ``?options=-csearch_path%3Dstore,public``.
            pool_size: The most connections that this process keeps; two are always open.
            within: Confine every connection to this scope and those below it. If its role does not own the tables,
                PostgreSQL's row-level security hides the rows of all other scopes from it, whatever is asked.
            read_only: Only read, also from a standby; no retrieval is recorded for review, no index is built, and
                Chroma is not touched.
            **options: As for :meth:`open`; ``dense`` may be ``exact``, or the client of a Chroma server.

        Raises:
            MissingExtraError: psycopg is not installed.
            ConfigurationError: The arguments do not fit together, a newer version of the package created the tables,
                the server is older than PostgreSQL 15 or has no pgvector, ``dense`` is ``chroma``, or ``read_only``
                found no store.
            ValidationError: ``within`` is malformed.
            StoreLockedError: The server takes no writes, as a standby does, and ``read_only`` was not given.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The database cannot be reached.
        """
        if not is_server(url):
            raise ConfigurationError(
                "this is not a PostgreSQL address such as postgresql://user@host/database; "
                "memory_retrievers.remote.RemoteMemory opens the http://... of a server"
            )
        dense = options.get("dense")
        if dense == "chroma":
            raise ConfigurationError("with PostgreSQL a Chroma client does what dense='chroma' asks for: pass one")
        if within is not None and not (dense is None or isinstance(dense, str)):
            raise ConfigurationError("a memory confined by within= cannot use Chroma, which has vectors of all scopes")
        parts = ResolvedOptions.chosen(options, keyword="sqlite_bm25")
        confined = None if within is None else scopes.parse(within)
        memory = cls(*open_engine(parts, url, read_only=read_only, pool_size=pool_size, within=confined))
        from memory_retrievers.backends.postgres.connection import tells_secret

        if not tells_secret(url):  # which does not belong into a pickle
            memory._opened_by = functools.partial(
                cls.connect, url, pool_size=pool_size, within=within, read_only=read_only, **options
            )
        return memory

    @classmethod
    def import_(
        cls,
        path: str | Path,
        *,
        into: str | Path,
        keyword: KeywordEngine = "sqlite_bm25",
        shared_group: bool = False,
        progress: Progress | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Create a store from a file that :meth:`export` wrote, and open it.

        Records and vectors are copied as they are. The directory appears only when it is complete.

        Args:
            path: The file.
            into: The new store's directory: missing, or empty.
            keyword: As for :meth:`open`.
            shared_group: As for :meth:`open`.
            progress: Called from time to time with the number of imported memories, and of all.
            **options: As for :meth:`open`. The embedder must be the one that made the vectors; ``before_store`` does
                not see what is imported, since it was stored once already.

        Raises:
            ValidationError: The file is not an export, was damaged or edited since, or is not complete.
            ConfigurationError: The file cannot be read, a newer version wrote it, or the directory is not empty.
            EmbeddingMismatchError: The vectors are from another embedder.
        """
        parts = ResolvedOptions.chosen(options, keyword=keyword, shared_group=shared_group)
        require_local(target := written(into).absolute())  # the directory that is here now may be the one replaced
        transfer.import_(
            written(path),
            into=target,
            build=lambda directory: Engine(parts, in_file(parts, directory / STORE_FILE)).store,
            progress=progress,
            access=parts.access,
        )
        return cls(*open_engine(parts, target))

    @classmethod
    def from_chroma(
        cls,
        collection: AnyCollection,
        *,
        path: str | Path | None = None,
        scope: str | None = None,
        scope_key: str | None = None,
        text_key: str | None = None,
        category: Category | str = Category.NOTE,
        where: Where | None = None,
        write_through: bool = False,
        keyword: KeywordEngine | None = None,
        shared_group: bool = False,
        progress: Progress | None = None,
        **options: Unpack[StoreOptions],
    ) -> Self:
        """Copy a Chroma collection into a store, with its vectors, and serve it from there.

        Every row becomes a fact with the row's id. Called again, it continues where it stopped, and takes in what is
        new or has changed; what was deleted from the collection is left to :meth:`sync_chroma`. The collection is only
        read, unless ``write_through`` is given. :attr:`adoption` tells what became of the rows.

        Args:
            collection: What ``client.get_collection(...)`` returns, of any synchronous Chroma client; or a LangChain
                ``Chroma``, or a LlamaIndex ``ChromaVectorStore``.
            path: The store's directory, or the address of a PostgreSQL database; None keeps the store in memory.
            scope: The scope of all memories; or
            scope_key: the metadata key under which each row names its scope, as text or a whole number.
            text_key: The metadata key of the text; None takes the document.
            category: The category of all facts.
            where: A filter as Chroma's ``get`` takes it, for example ``{"team": "a"}``: only rows that match are
                adopted, now and by :meth:`sync_chroma`. None takes all.
            write_through: Also write to the collection what is remembered, updated or forgotten here from now on. Only
                rows that were adopted or created here are touched. What cannot be written waits in the store until the
                next change, :meth:`sync_chroma` or :meth:`close`.
            keyword: As for :meth:`open`; None is the default there, or of :meth:`in_memory`.
            shared_group: As for :meth:`open`.
            progress: Called after every page with the number of rows read, and of all.
            **options: As for :meth:`open`. The embedder must be the one that filled the collection; up to five of its
                texts are embedded again to check this. None takes that of a LangChain ``Chroma``, otherwise the bundled
                one. ``before_store`` sees every row as a fact, and a text that it changes is embedded anew.

        Raises:
            ConfigurationError: The arguments do not fit together, or the store has adopted another collection, or this
                one with other arguments.
            ValidationError: The scope is malformed, there is no such category, or Chroma does not accept the filter.
            EmbeddingMismatchError: The embedder is not the collection's; nothing was created.
            StoreLockedError: As for :meth:`open`.
            BackendError: The collection or the store failed; what was copied stays, and another call continues.
        """
        from memory_retrievers.storage.chroma_sync import adopt, rows
        from memory_retrievers.storage.chroma_sync import collection as source

        # nothing is made before all this is sure
        found = source.collection_in(collection)
        source.check_collection(found, writable=write_through)
        adopted = rows.Adoption.chosen(
            found,
            scope=scope,
            scope_key=scope_key,
            text_key=text_key,
            category=category,
            where=where,
            write_through=write_through,
        )
        if options.get("embedder") is None:
            options["embedder"] = source.embedder_in(collection)
        engine = keyword or ("rank_bm25" if path is None else "sqlite_bm25")
        parts = ResolvedOptions.chosen(options, keyword=engine, shared_group=shared_group)
        require_category(adopted.category, parts.ingestion.categories)
        rows.check_embedder(found, adopted, parts.embedder.embed_documents)
        memory = cls(*open_engine(parts, path))
        try:
            adopted.refuse_other(adopted.noted(memory._store.ledger))
            adopted.note(memory._store.ledger)
            memory._write_through(found, adopted)
            with acting_as(Channel.IMPORT, "chroma"):
                memory._adoption_report = adopt(memory._store, found, adopted, progress=progress)
        except BaseException:
            memory.close()
            raise
        return memory

    def close(self) -> None:
        """Write what is pending and release everything; a second call does nothing.

        A memory that is dropped without it is closed too, in a background thread if it has a worker: close it before
        you move or delete its directory.
        """
        if (held := self._release.detach()) is not None:
            held[1]()
        self._opened_by = None  # it holds the embedder

    # --- remembering

    @observed("upsert_memory")
    def remember_many(
        self,
        drafts: Sequence[Draft | Mapping[str, object]],
        *,
        replace: bool = False,
        allow_duplicates: bool = False,
        replacing: Sequence[str | None] = (),
    ) -> list[AnyMemory]:
        """Store many memories in one transaction: all of them or none; their texts are embedded in batches before it.

        A fact that is already known in its scope is not stored again, as :meth:`remember_fact` says.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``, or mappings of their fields: one
                with a ``fact`` is a fact, one with a ``summary`` an episode.
            replace: Forget memories with the scope and id of a draft; otherwise such an id is refused.
            allow_duplicates: Also store facts that are known.
            replacing: For each draft the id of the fact that it replaces, or None.

        Returns:
            The memories, complete, in the given order; ``duplicate_of`` marks a fact that was known.

        Raises:
            NotFoundError: A fact to be replaced does not exist; nothing was stored.
            ValidationError: A field breaks a rule, a scope is malformed, an id is taken, or a fact was replaced
                already; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        checked = [draft_of(draft) for draft in drafts]
        return self._store.put(
            checked,
            replace=replace,
            allow_duplicates=allow_duplicates,
            replacing=check_replacing(checked, replacing),
            near=self._engine.ingestion,
        )

    @property
    def manager(self) -> MemoryManager:
        """What the memory tools use to find, change, move and link memories."""
        return self._engine.manager

    @property
    def items(self) -> StoredItems:
        """What the LangGraph store uses: values under keys, stored as facts."""
        return self._engine.items

    @property
    def overview(self) -> SQLOverview:
        """What the window uses: the tree of scopes, and pages of a scope in either order and at any moment."""
        return self._store.ledger.overview

    @observed("update_memory")
    def invalidate(self, fact_id: str, *, scope: str) -> SemanticMemory:
        """Mark a fact as no longer true: it is kept, and no longer found.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is an episode, or the scope is malformed.
        """
        return self._store.invalidate(fact_id, scope=scope)

    @observed("update_memory")
    def update(
        self,
        id: str,
        *,
        scope: str,
        summary: str | NotGiven = NOT_GIVEN,
        fact: str | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        category: Category | str | NotGiven = NOT_GIVEN,
        keywords: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        metadata: JsonObject | NotGiven = NOT_GIVEN,
        importance: float | NotGiven = NOT_GIVEN,
        expires_at: datetime | NotGiven | None = NOT_GIVEN,
        correct: bool = False,
    ) -> AnyMemory:
        """Replace the given fields of a memory, and return the memory as it is now.

        A new text is found from now on. The former text of a fact is kept as an earlier version under the same id:
        :meth:`history` lists it, and ``retrieve(..., as_of=...)`` finds it. ``updated_at`` changes if anything else
        does.

        Args:
            id: The memory.
            scope: Its scope.
            summary: New summary of an episode.
            fact: New text of a fact.
            title: New title of an episode.
            category: New category of a fact.
            keywords: New keywords of a fact, which help to find it.
            tags: New labels.
            metadata: Any JSON object.
            importance: 0 to 1.
            expires_at: The moment from which it is no longer found; None keeps it for good.
            correct: The new text corrects a mistake: the old text is not kept.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: A field breaks a rule, or belongs to the other kind of memory; nothing was changed.
            EmbeddingError: The embedder failed; nothing was changed.
        """
        fields = {
            "summary": summary,
            "fact": fact,
            "title": title,
            "category": category,
            "keywords": keywords,
            "tags": tags,
            "metadata": metadata,
            "importance": importance,
            "expires_at": expires_at,
        }
        return self._store.update(id, scope=scope, fields=fields, correct=correct)

    @observed("delete_memory")
    def forget(self, id: str, *, scope: str) -> None:
        """Delete a memory for good, with every trace of it; :meth:`invalidate` keeps a fact that is no longer true.

        Its text, vector and index entries are deleted, and its id is removed from the memories, characters and reviews
        that name it, except for memories of a scope that it was moved from. What an event of a story made characters
        feel goes with it; facts that were made from it stay. For an open episode the queued messages are deleted, even
        while an episode is being made from them. :meth:`purge` erases the bytes that are left in the files.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        self._engine.pending.flush()  # or what was asked a moment ago would be filed behind it
        self._store.forget(id, scope=scope)

    @observed("delete_memory")
    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Delete everything in a scope and the scopes below it, and return the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._engine.pending.flush()
        return self._store.forget_scope(scope, include_child_scopes=include_child_scopes)

    @observed("delete_memory")
    def forget_conversation(self, scope: str, conversation: str | None = None) -> int:
        """Delete what was said in a conversation, queued or in episodes, and return the number of episodes.

        What was made from it stays, as for :meth:`forget`. Pending reviews of the scope are deleted, since they show
        what was asked in the conversation, and so are those of the scopes above it if the conversation had any message.

        Args:
            scope: The scope of the conversation.
            conversation: Its name in the scope; None is the conversation without a name. If
                ``IngestionSettings.by_conversation`` is off, a scope has only one, and what was stored under this name
                earlier is deleted with it.

        Raises:
            ValidationError: The scope or the conversation is malformed.
        """
        asked = parse_conversation(conversation)
        self._engine.pending.flush()
        return self._store.forget_conversations(scopes.parse(scope), {asked, self._engine.pipeline.queue.named(asked)})

    @observed("delete_memory")
    def forget_messages(self, scope: str, messages: Iterable[Message | str]) -> ForgottenMessages:
        """Delete single messages of conversations, queued or in episodes, as if they had not been said.

        Rules write the title and summary of an episode anew from the messages that are left, whoever wrote the old
        ones, since these may repeat what is deleted; an episode without any message left is forgotten. Memories made
        from the episode stay, and the result names them. Pending reviews of the scope, and of those above it, are
        deleted. :meth:`purge` erases the bytes that are left in the files.

        Args:
            scope: Whose conversations; exactly this scope.
            messages: At most 100: messages of a result, or the words of messages, complete or with ``…`` for what a
                block leaves out. Every message of the scope that matches is deleted; words, and messages
                without a time, match at any time.

        Returns:
            How many were deleted, 0 if nobody said this, and which memories may still repeat it.

        Raises:
            ValidationError: An argument breaks a rule, the messages are in more than 100 episodes, or ``before_store``
                rejects what is left of one; nothing was changed.
            EmbeddingError: The embedder failed; nothing was changed.
        """
        parsed, named = scopes.parse(scope), named_messages(messages)
        self._engine.pending.flush()
        return self.manager.forget_messages(parsed, named)

    # --- reading

    @property
    def query_characters(self) -> int:
        """The maximum length of a query in characters: ``RetrievalSettings.query_characters``."""
        return self._engine.retriever.query_characters

    @observed("search_memory")
    def retrieve(
        self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]
    ) -> RetrievalResult:
        """Find the memories that answer a question, facts and episodes, best first.

        Args:
            query: What to look for, in plain words: at most ``RetrievalSettings.query_characters``.
            scope: Whose memories; exactly this scope, unless ``include_child_scopes`` is given.
            record: Record the returned episodes for review, so that useful ones fade more slowly.
            **options: Limits, category, moment and filters, by name: see ``SearchOptions``.

        Raises:
            TypeError: There is no option of this name.
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        request, engine = self._request(query, scope, options), self._engine
        return engine.retriever.retrieve(request, record=record and not engine.read_only)

    def recent(
        self, scope: str, *, limit: int = 10, days_limit: float | None = None, facts: bool = False
    ) -> RecentResult:
        """Return the scope's newest episodes by ``created_at``, including open ones, and on request its newest facts.

        Args:
            scope: Whose memories.
            limit: The most of either kind; a number outside 1 to 100 becomes the nearest within.
            days_limit: Only memories created in this many last days.
            facts: Also return facts that are valid.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        return self._engine.retriever.recent(scope, limit=limit, days_limit=days_limit, facts=facts)

    def profile(self, scope: str) -> Profile:
        """Return what a model should always know of a scope, for its instructions; it is the same until a fact changes.

        These are the facts of the categories guideline, identity and preference, and pinned facts: those whose
        importance was set by hand to 0.5 or more, with the tool ``memory_set_score``, in the window, or with
        ``importance_pinned`` of a draft. Nothing is recorded.

        Args:
            scope: Whose profile; exactly this scope.

        Raises:
            ValidationError: The scope is malformed.
        """
        return self._engine.retriever.profile(scope)

    def get(self, id: str, *, scope: str) -> AnyMemory:
        """Return the memory with this id in this scope, also an invalidated fact or an open episode.

        Raises:
            NotFoundError: There is none in this scope, whatever other scopes contain.
            ValidationError: The scope is malformed.
        """
        try:
            return self._store.get(id, scope=scope)
        except NotFoundError:
            return self._store.open_episodes.get(id, scope=scopes.parse(scope))

    def list(
        self,
        scope: str,
        *,
        kind: Kind | str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        tags: Iterable[str] | None = (),
        metadata: JsonObject | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        where: JsonObject | None = None,
    ) -> Page:
        """Return the memories of a scope, newest first, page by page; invalidated facts are among them.

        :meth:`waiting` lists queued messages.

        Args:
            scope: Whose memories.
            kind: Only episodes, or only facts.
            cursor: The ``cursor`` of the page before. Memories stored meanwhile neither repeat nor hide another.
            limit: At most this many, 1 to 1000.
            tags: Only memories that have all of these; use the same filters for every page.
            metadata: Only memories that have each of these values under its key.
            since: Only facts created, and episodes begun, at that moment or later.
            until: Only facts created, and episodes begun, at that moment or earlier.
            where: A filter with operators: see ``FilterOptions``.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        filters = Filters.parse({"tags": tags, "metadata": metadata, "since": since, "until": until, "where": where})
        size = parse_page_size(limit)
        listing = Listing(scope=scopes.parse(scope), kinds=parse_kinds(kind), now=self.now(), filters=filters)
        return page_of(self._store.ledger.page(listing, after=parse_cursor(cursor), limit=size + 1), limit=size)

    def pending_reviews(self, scope: str) -> builtins.list[PendingReview]:
        """Return the retrievals in this scope whose usefulness has not been judged yet, oldest first."""
        self._engine.pending.flush()
        return self._store.ledger.pending_reviews(scopes.parse(scope))

    def now(self) -> datetime:
        """Return the current moment in UTC, by the clock of this memory."""
        return self._store.now()

    def scopes(self, within: str | None = None) -> builtins.list[str]:
        """Return the scopes that contain unexpired memories, sorted: all, or ``within`` and those below it.

        :meth:`waiting_scopes` returns those with queued messages; use both to find every user.

        Raises:
            ValidationError: The scope is malformed.
        """
        return _those_within(within, self._store.ledger.scopes(now=self._store.now()))

    def stats(self, scope: str | None = None) -> ScopeStatistics:
        """Count what a scope contains, or the whole store, without what has expired.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._engine.pending.flush()
        return self._store.ledger.statistics(None if scope is None else scopes.parse(scope), now=self._store.now())

    # --- explaining

    def explain(self, query: str, *, scope: str, **options: Unpack[SearchOptions]) -> ExplainedRetrieval:
        """Explain why :meth:`retrieve` returns what it returns: the rank and score of each memory at every stage.

        Nothing is recorded for review.

        Args:
            query: The question.
            scope: The scope to search.
            **options: As for :meth:`retrieve`.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self._engine.retriever.explain(self._request(query, scope, options))

    def explain_missing(self, id: str, *, query: str, scope: str, **options: Unpack[SearchOptions]) -> ExplainedAbsence:
        """Explain why :meth:`retrieve` does not return a memory: the stage that drops it, or that none does.

        The arguments after ``id`` are those of :meth:`retrieve`. Nothing is recorded for review.

        Args:
            id: The memory.
            query: The question.
            scope: The scope to search; the memory's own, unless ``include_child_scopes`` is given. If several of the
                searched scopes contain a memory with this id, the one in ``scope`` is meant, otherwise the first by the
                name of its scope.
            **options: As for :meth:`retrieve`.

        Raises:
            NotFoundError: There is no such memory in this scope, whatever other scopes contain.
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self._engine.retriever.explain_missing(parse_id(id), self._request(query, scope, options))

    # --- conversations

    @observed("upsert_memory")
    def add_messages(self, scope: str, messages: Iterable[MessageLike], *, conversation: str | None = None) -> Queued:
        """Queue messages of a conversation; this is cheap, since no model is called and nothing is embedded.

        From now on they are kept, and every search finds them as an open episode. They become part of a finished one
        when they are due and :meth:`process_due` finds a border behind them, or with :meth:`flush`.

        Args:
            scope: Whose conversation.
            messages: What was said, in order.
            conversation: The name of the conversation in the scope, for example the id of a thread; no episode has
                messages of two. None is a conversation of its own.

        Returns:
            How many were accepted, how many wait in this conversation, and whether something is due.

        Raises:
            ValidationError: The scope or the conversation is malformed, or a message breaks a rule; nothing was queued.
        """
        queued = self._engine.pipeline.push(
            scopes.parse(scope), messages_of(messages), conversation=parse_conversation(conversation)
        )
        if queued.due:
            self._engine.wake_worker()
        return queued

    def process_due(self, scope: str | None = None, *, include_child_scopes: bool = False) -> Report:
        """Turn what is due into episodes, review what was retrieved, and extract facts from episodes.

        The messages of a conversation are due when there are 20 of them, or 5 of which the first is older than two
        hours, or when nothing has been added for half an hour (``IngestionSettings``). Facts need a language model.

        Args:
            scope: Only this scope; None is every scope in which something waits.
            include_child_scopes: Also every scope below ``scope``.

        Raises:
            ValidationError: The scope is malformed, or your own judge gave a rating that does not exist.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; what was not done is still due.
            ConfigurationError: Your own segmenter gave segments that do not take all messages; these are still due.
        """
        self._engine.pending.flush()
        if scope is None or include_child_scopes:
            return self._engine.pipeline.process_all(within=None if scope is None else scopes.parse(scope))
        return self._engine.pipeline.process(scopes.parse(scope))

    def flush(self, scope: str, conversation: str | None = None) -> Report:
        """Turn everything that is queued into episodes, the last message included, as at the end of a session.

        Args:
            scope: Whose messages.
            conversation: Only those of this conversation; if it has none, or is unknown, the report is empty.
                None is all conversations of the scope.

        Raises:
            ValidationError: The scope or the conversation is malformed, or your own judge gave a rating that does not
                exist.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; what was not done is still due.
            ConfigurationError: Your own segmenter gave segments that do not take all messages; these are still due.
        """
        self._engine.pending.flush()
        return self._engine.pipeline.flush(scopes.parse(scope), conversation=parse_conversation(conversation))

    def start_worker(self) -> None:
        """Start a thread that does what is due, when messages arrive or have waited long enough, until :meth:`close`.

        What fails is tried again later, and a warning is logged. A second call does nothing.

        Raises:
            ConfigurationError: The memory was opened read-only.
        """
        self._engine.start_worker()

    def review(self, id: str, *, scope: str, rating: Rating | str) -> EpisodicMemory:
        """Rate how useful an episode was, so that it fades more slowly or faster from now on (FSRS-6).

        Args:
            id: The episode.
            scope: Its scope.
            rating: ``again``, ``hard``, ``good`` or ``easy``.

        Returns:
            The episode with its new forgetting state.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: It is a fact, or there is no such rating.
        """
        from memory_retrievers.ingestion.reviews import review_one

        return review_one(self._store, parse_id(id), scope=scopes.parse(scope), rating=rating, now=self.now())

    def history(self, fact_id: str, *, scope: str) -> tuple[SemanticMemory, ...]:
        """Return the versions of a fact, and the facts that it replaced or was replaced by, in the order of validity.

        What has expired is left out. An earlier version has the fact's id, its own text, category, keywords,
        ``valid_at`` and ``invalid_at``, and otherwise the fact's present fields; its ``replaced_by`` is that id.

        Raises:
            NotFoundError: There is no such fact in this scope.
            ValidationError: The scope is malformed.
        """
        asked, now = parse_id(fact_id), self._store.now()
        versions = self._store.ledger.facts.history(scope=scopes.parse(scope), id=asked)
        visible = tuple(version for version in versions if not version.has_expired(now))
        if asked not in {version.id for version in visible}:
            raise NotFoundError(f"Memory not found: {fact_id}")
        return visible

    def events(self, scope: str, *, id: str | None = None, limit: int = 100) -> tuple[MemoryEvent, ...]:
        """Return the log of a memory, or of a scope, newest first: what happened, when, by which channel and by whom.

        It contains no text: :meth:`history` returns earlier texts. The log moves with a memory and is deleted with it;
        when one is forgotten, an entry without its id stays as long as its scope contains anything. A memory keeps the
        last 20 entries of a kind, a store a million.

        Args:
            scope: Whose memories.
            id: Only of this memory; None is all of the scope, and those that are forgotten.
            limit: At most this many, 1 to 1000.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed, or the limit is not within 1 to 1000.
        """
        known = None if id is None else self._store.get(id, scope=scope).id
        at_most = parse_page_size(limit)
        return tuple(
            self._store.ledger.events.events(scopes.parse(scope), id=known, now=self._store.now(), limit=at_most)
        )

    def diff(
        self,
        scope: str,
        *,
        since: datetime | str,
        until: datetime | str | None = None,
        include_child_scopes: bool = False,
        limit: int = 1000,
    ) -> MemoryDiff:
        """Return what changed in a scope between two moments: what is new, changed, or no longer valid.

        Args:
            scope: Whose memories.
            since: The earlier moment.
            until: The later one; None is now.
            include_child_scopes: The scopes below as well.
            limit: At most this many memories, 1 to 1000, those first that changed first.

        Raises:
            ValidationError: An argument breaks a rule, or ``until`` is before ``since``.
        """
        now = self._store.now()
        moments = Filters.parse({"since": since, "until": now if until is None else until})
        if moments.since is None:
            raise ValidationError("since must not be None: give the earlier moment")
        selection = Selection(
            scope=scopes.parse(scope), kind=Kind.SEMANTIC, now=now, include_child_scopes=include_child_scopes
        )
        return self._store.ledger.facts.between(
            selection, since=moments.since, until=moments.until or now, limit=parse_page_size(limit)
        )

    def waiting(self, scope: str, *, limit: int = 100) -> builtins.list[Message]:
        """Return the queued messages of a scope that are not part of a finished episode yet, in their order.

        Args:
            scope: Whose messages.
            limit: At most this many, the oldest; ``stats(scope).queued_messages`` counts all.

        Raises:
            ValidationError: The scope is malformed, or the limit is negative or not a whole number.
        """
        at_most = parse_limit("limit", limit)
        queued = self._store.ledger.conversations.waiting(scopes.parse(scope), limit=at_most)
        return [waiting.message for waiting in queued]

    def transcript(self, scope: str, conversation: str | None = None, *, limit: int = 1_000) -> builtins.list[Message]:
        """Return what was said in a conversation, in order: the messages of its episodes, and queued ones.

        Args:
            scope: Whose conversation.
            conversation: Its name in the scope, as given to :meth:`add_messages`; None is the one without a name. If
                ``IngestionSettings.by_conversation`` is off, a scope has only one.
            limit: At most this many, the last ones, 1 to 1000.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        named = self._engine.pipeline.queue.named(parse_conversation(conversation))
        return self._store.ledger.conversations.said(
            scopes.parse(scope), conversation=named, now=self.now(), limit=parse_page_size(limit)
        )

    def waiting_scopes(self, within: str | None = None) -> builtins.list[str]:
        """Return the scopes in which messages or reviews are still to be processed, sorted; as for :meth:`scopes`.

        Raises:
            ValidationError: The scope is malformed.
        """
        return _those_within(within, self._store.ledger.conversations.scopes())

    # --- stories

    @observed("upsert_memory")
    def add_scene_events(self, scope: str, events: Sequence[SceneEvent]) -> builtins.list[EpisodicMemory]:
        """Store what happened in a story, in order, and the state of its characters after it: all or nothing.

        Each event becomes an episode: one star is a surprise and an importance of 0, five are 1. It is found like any
        episode; facts are never extracted from it. What ``before_store`` rejects does not affect the characters.

        Args:
            scope: Whose story.
            events: Made by hand, also as mappings of their fields, or by ``memory_retrievers.scene.extraction``.

        Returns:
            The stored episodes, in the given order.

        Raises:
            ValidationError: The scope or an event is malformed, or an id is taken; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        parsed = scopes.parse(scope)
        characters = self._store.ledger.characters

        def update_characters(stored: builtins.list[AnyMemory]) -> None:
            before = characters.all(parsed)
            known = {state.name: state for state in before}
            after = updated(before, _episodes(stored))
            characters.put(parsed, [state for state in after if state != known.get(state.name)])

        return _episodes(self._store.put(drafts_of(parsed, events), together=update_characters))

    def characters(self, scope: str, *, pov: Sequence[str] = ()) -> builtins.list[CharacterState]:
        """Return the characters of a scope's story, each as of its last event, in the order in which they appeared.

        Args:
            scope: Whose story; exactly this scope.
            pov: The point of view: only events that these characters know are used. Nobody means everybody.

        Raises:
            ValidationError: The scope or a name is malformed.
        """
        parsed, viewers = scopes.parse(scope), _names("pov", pov)
        states = self._store.ledger.characters.all(parsed)
        if not viewers:
            return states
        scenes = self._store.ledger.scenes(parsed, now=self._store.now())
        return derived_from(known_to(viewers, scenes, characters=states))

    def scene(
        self,
        scope: str,
        *,
        chat_length: int,
        present: Sequence[str] = (),
        pov: Sequence[str] = (),
        budget: int = SCENE_BUDGET,
        query: str | None = None,
        settings: SceneSettings | None = None,
    ) -> str:
        """Return the ``<scene_memory>`` block: the story so far, what led up to this moment, and the current scene.

        Args:
            scope: Whose story; exactly this scope.
            chat_length: How many messages the chat has, counted as in the events' ``message_ids``.
            present: The names of those who are there.
            pov: The point of view: only what these characters know, and others as they know them; they themselves are
                not listed as present. Nobody means everybody, as does who knows nothing at all.
            budget: The most tokens; the frame is rendered in any case.
            query: What the chat is about now; if not all events fit, those related to it come first. None, or a
                blank one, leaves this to ``settings.budget_policy``.
            settings: What is shown, and what is left out first; None is ``SceneSettings()``.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        parsed, length = scopes.parse(scope), parse_limit("chat_length", chat_length)
        room, there, viewers = parse_limit("budget", budget), _names("present", present), _names("pov", pov)
        with in_our_words("settings"):
            rules = SceneSettings.model_validate({} if settings is None else settings)
        # what happened, as far as it is known to whoever looks on, who neither know what others feel since then
        scenes = self._store.ledger.scenes(parsed, now=self._store.now())
        known = known_to(viewers, scenes, characters=self._store.ledger.characters.all(parsed))
        episodes = known or scenes  # a story without a past helps nobody
        states = self.characters(parsed, pov=viewers)
        scores = None
        if query is not None and (not isinstance(query, str) or query.strip()):
            query = parse_query(query, most=self._engine.retriever.query_characters)
            scores = relevance(self._store, episodes, scope=parsed, query=query, chat_length=length)
        return scene_block(
            episodes,
            chat_length=length,
            present=there,
            characters=states,
            pov=viewers,
            budget=room,
            settings=rules,
            scores=scores,
        )

    # --- maintenance

    def verify(self) -> VerificationReport:
        """Check whether the store is intact: the file, every memory with its passages and vectors, the postings.

        Raises:
            BackendError: The server of a database could not be asked, or not to the end.
        """
        return maintenance.verify(self._store)

    def rebuild(self, what: Index = "all") -> None:
        """Rebuild indexes from the stored memories, which stay as they are.

        Args:
            what: ``sparse`` rebuilds postings and word statistics from the passages, in one transaction. ``dense``
                drops the vectors held in memory, which are then read from the store again, and the index of wide
                searches, if there is one; to repair stored vectors, use :meth:`reembed`. ``all`` does both.

        Raises:
            ValidationError: There is no such index.
        """
        maintenance.rebuild(self._store, what)

    def reembed(
        self, embedder: AnyEmbedder | None, *, embedder_id: str | None = None, progress: Progress | None = None
    ) -> None:
        """Move the store to another embedder: every memory gets a new vector, and the records stay.

        The store may be searched and written meanwhile: the old vectors are used until all new ones exist, and then all
        handles change over at once. Progress is kept: after a crash, or when the embedder failed, a call with the same
        embedder continues, and one with another starts over.

        If the old embedder is not available, open the store under its name and move it before anything else:
        ``AgentMemory.open(path, embedder=new, embedder_id=<the old one's id>)``, then ``memory.reembed(new)``.

        Args:
            embedder: The new one, as for :meth:`open`; None is the bundled one.
            embedder_id: The name under which the store knows the new one, as for :meth:`open`.
            progress: Called after every page with the number of memories that have a new vector, and of all.

        Raises:
            ConfigurationError: The object is not an embedder, another thread is re-embedding this store, or it was
                opened read-only.
            EmbeddingError: The embedder failed; the old one stays in use.
            BackendError: The store cannot be written; the old embedder stays in use.
        """
        maintenance.reembed(self._store, chosen_embedder(embedder, embedder_id=embedder_id), progress=progress)

    def reindex(self, *, progress: Progress | None = None) -> int:
        """Adapt the index of all stored episodes to ``RetrievalSettings.passages``, after that was changed.

        With ``turns``, the messages of every episode are embedded and indexed, where they are not yet; with
        ``summary``, those of all episodes are removed from the index. Episodes themselves stay as they are. Opening a
        store never does this, and new episodes follow the settings without it.

        The store may be searched and written meanwhile. Progress is kept: after a crash, or when the embedder failed,
        another call continues.

        Args:
            progress: Called from time to time with the number of episodes done, and of all.

        Returns:
            How many episodes were changed.

        Raises:
            EmbeddingError: The embedder failed.
            EmbeddingMismatchError: The embedder is not the store's.
            ConfigurationError: The store was opened read-only.
            BackendError: The store cannot be written.
        """
        changed = maintenance.reindex(self._store, progress=progress)
        self._engine.missing_tokens.make()
        return changed

    def purge(self) -> None:
        """Delete what has expired, and erase every byte of what was forgotten from the store's directory.

        The file is written anew, which takes time and, meanwhile, as much space again.

        Raises:
            BackendError: It could not be done now, since the store was being read; nothing is lost.
        """
        self._engine.pending.flush()
        self._store.purge()

    def backup(self, path: str | Path) -> None:
        """Copy the store to a new directory, also while it is written; :meth:`open` opens the copy.

        Raises:
            ConfigurationError: The directory is in use, inside the store's, or cannot be created, or a move into the
                store is not complete.
            BackendError: The copy failed, and nothing of it was left.
        """
        self._engine.pending.flush()
        transfer.require_moved(self._store.ledger.notes())
        database = self._store.ledger.database
        database.copy_to(outside(database.home, path) / STORE_FILE)

    def export(
        self, path: str | Path, *, scope: str | None = None, incomplete: bool = False, progress: Progress | None = None
    ) -> int:
        """Write all memories, their vectors, queued messages and reviews to a new file, losing nothing.

        The file has JSON lines, a checksum last, shows the store at one moment, and appears under its name only when
        it is complete. :meth:`import_` reads it.

        Args:
            path: The file; it must not exist yet.
            scope: This scope and all below it; None is everything.
            incomplete: Also export what a move that is not complete has brought into this store so far.
            progress: Called from time to time with the number of memories written, and of all.

        Returns:
            How many memories were written.

        Raises:
            ConfigurationError: The file exists, is in the store's directory, or cannot be written, or a move into the
                store is not complete.
            ValidationError: The scope is malformed.
            BackendError: A memory is damaged; :meth:`verify` shows more.
            DiskFullError: There is no space left for the file; nothing of it was left.
        """
        asked = None if scope is None else scopes.parse(scope)
        if not self._engine.read_only:
            self._engine.pending.flush()
        return transfer.export(
            self._store.ledger,
            outside(self._store.ledger.database.home, path),
            scope=asked,
            incomplete=incomplete,
            progress=progress,
            access=self._engine.access,
        )

    # --- a Chroma collection of the user's

    @property
    def adoption(self) -> AdoptionReport | None:
        """What became of the rows, if :meth:`from_chroma` made this memory; None otherwise."""
        return self._adoption_report

    def sync_chroma(
        self,
        collection: AnyCollection,
        *,
        where: Where | None = None,
        confirm: bool = False,
        progress: Progress | None = None,
    ) -> AdoptionReport:
        """Follow a collection that was adopted: import what is new, update what has changed, forget what was deleted.

        A memory follows its row in text, vector and metadata; other changes made here stay. Everything is read before
        anything is written, and pending writes to the collection are done first.

        Args:
            collection: The one that was given to :meth:`from_chroma`, or a LangChain or LlamaIndex store that has it.
            where: Narrows this call to rows that also match this filter of Chroma's: others are neither imported nor
                updated. The filter of the adoption always holds; a row that was changed and no longer matches it is
                forgotten like a deleted one.
            confirm: Also continue if more than half of the adopted memories would be forgotten, or if another
                collection has taken the place of the adopted one.
            progress: Called after every page with the number of rows read, and of all.

        Raises:
            ConfigurationError: This store has adopted no collection, or another one.
            ValidationError: More than half would be forgotten, or Chroma refuses the filter; nothing was changed.
            EmbeddingMismatchError: The collection's vectors are not from the store's embedder; nothing was changed.
            BackendError: The collection failed; what is done stays, and another call continues.
        """
        from memory_retrievers.storage.chroma_sync import collection as source
        from memory_retrievers.storage.chroma_sync import rows, sync

        adopted = rows.Adoption.noted(self._store.ledger)
        if adopted is None:
            raise ConfigurationError("this store has adopted no collection: make it with AgentMemory.from_chroma(...)")
        found = source.collection_in(collection)
        source.check_collection(found, writable=adopted.write_through)
        if not confirm:
            adopted.refuse_other_collection(found)
        source.check_where(found, where)
        self._write_through(found, adopted)
        with acting_as(Channel.IMPORT, "chroma"):
            return sync(self._store, found, adopted, where=where, confirm=confirm, progress=progress)

    # --- the same in a thread

    arecent = awaited(recent)
    aprofile = awaited(profile)
    aget = awaited(get)
    alist = awaited(list)  # noqa: A003 - the method
    ahistory = awaited(history)
    aevents = awaited(events)
    atranscript = awaited(transcript)
    aupdate = awaited(update)
    ainvalidate = awaited(invalidate)
    aforget = awaited(forget)
    aforget_messages = awaited(forget_messages)
    aforget_scope = awaited(forget_scope)
    aforget_conversation = awaited(forget_conversation)
    areview = awaited(review)
    aadd_messages = awaited(add_messages)
    aprocess_due = awaited(process_due)
    aflush = awaited(flush)

    # --- what the methods share

    def _request(self, query: str, scope: str, options: SearchOptions) -> RetrievalRequest:
        engine = self._engine
        request = RetrievalRequest.parse(
            query, scope=scope, query_characters=engine.retriever.query_characters, **options
        )
        engine.store.check_category(request.category)
        return request

    def _write_through(self, collection: Collection, adopted: Adoption) -> None:
        """Write what is waiting, and from now on every change; or none, if that was not asked for."""
        from memory_retrievers.storage.chroma_sync import WriteThrough

        if not adopted.write_through:
            self._store.after_write = lambda: None
            return
        through = WriteThrough(self._store, collection, adopted)
        through.flush()
        self._store.after_write = through.attempt

    @property
    def _engine(self) -> Engine:
        if not self._release.alive:
            raise ConfigurationError("this memory is closed; open it again")
        return self._shared_engine

    @property
    def _store(self) -> MemoryStore:
        return self._engine.store


def _those_within(scope: str | None, names: list[str]) -> list[str]:
    if scope is None:
        return names
    scopes.parse(scope)
    return [name for name in names if scopes.is_within(scope, name)]


def _episodes(memories: Sequence[AnyMemory]) -> list[EpisodicMemory]:
    return [memory for memory in memories if isinstance(memory, EpisodicMemory)]


def _names(argument: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ValidationError(f"{argument} must be a list of names")
    return tuple(names)
