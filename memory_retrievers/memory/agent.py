"""``AgentMemory``: the one class through which a store is opened, filled, searched and kept."""

from __future__ import annotations

import builtins
import functools
import pickle
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias, Unpack
from urllib.parse import urlsplit
from uuid import uuid4

from memory_retrievers.backends.files import outside, written
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
from memory_retrievers.models.memories import NOT_GIVEN, NotGiven, draft_of, parse_id
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
from memory_retrievers.retrieval.request import RetrievalRequest, check_length, parse_limit
from memory_retrievers.retrieval.results import Profile, RecentResult, RetrievalResult
from memory_retrievers.retrieval.retriever import HybridRetriever, PendingReviewBuffer
from memory_retrievers.scene.events import derived_from, drafts_of, known_to, relevance, updated
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
}
_pickled: Final[weakref.WeakValueDictionary[str, Opener]] = weakref.WeakValueDictionary()


def _opened_again(name: str, opener: Opener) -> AgentMemory:
    """Open a memory that was pickled; where it is still open, by its very options: a copied model equals no other."""
    return _pickled.get(name, opener)()


class AgentMemory(BaseMemory):
    """A long-term memory: what an agent heard, and what it made of it, found again by meaning and by words.

    Open one with :meth:`open` or :meth:`in_memory`; close it with :meth:`close`, or use it in a ``with`` statement.
    All methods may be called from several threads at once.
    """

    def __init__(self, engine: Engine | None = None, release: Callable[..., None] | None = None) -> None:
        if engine is None or release is None:
            raise TypeError("open a memory by AgentMemory.open(path), connect(address) or in_memory()")
        self._shared_engine = engine
        self._adoption_report: AdoptionReport | None = None
        # also when the handle is dropped without being closed, and when the program ends
        self._release = weakref.finalize(self, release, is_dropped=True)
        self._opened_by: Opener | None = None
        self._name = uuid4().hex

    def __deepcopy__(self, _memo: object) -> Self:
        """The same handle: what is copied around a memory goes on with the store that it had."""
        return self

    __copy__ = functools.partialmethod(__deepcopy__, None)

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
                "only an open memory has an address to be opened at again, and only if AgentMemory.open or connect "
                "has opened it, without a password in the address"
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
        """Open the store in the directory ``path``, or make it.

        Any number of processes of one machine may have a store open and write it at once. Opened twice in a process,
        both handles share it, and it is closed with the last of them.

        Args:
            path: The directory.
            keyword: The BM25 engine, see ``KeywordEngine``; under the default fusion both give the same.
            read_only: Only look, also beside a process that writes, or on a read-only file system; nothing is noted
                for review.
            shared_group: Make files and directories (0660, 2770) for all users of the directory's group, and not for
                their owner alone (0600, 0700), whatever the umask; what is there keeps its modes.
            **options: Embedder, language model, settings and the like, by name: see ``StoreOptions``.

        Raises:
            TypeError: There is no option of such a name.
            ConfigurationError: An option cannot be used, the path is not a directory, a newer version of the package
                wrote the store, this process has it open with other settings, there is none to look into, or an
                environment variable is wrong.
            StoreLockedError: A process of an older version of the package has the store open, or nothing can be written
                there.
            EmbeddingMismatchError: The store was filled with another embedder.
            BackendError: The store cannot be read or written.
        """
        if isinstance(path, str) and is_server(path):
            raise ConfigurationError("this is the address of a database: AgentMemory.connect(url) uses it")
        parts = ResolvedOptions.chosen(options, keyword=keyword, shared_group=shared_group)
        directory = written(path)
        memory = cls(*open_engine(parts, directory, read_only=read_only))
        memory._opened_by = functools.partial(
            cls.open, directory.absolute(), keyword=keyword, read_only=read_only, shared_group=shared_group, **options
        )
        return memory

    @classmethod
    def in_memory(cls, *, keyword: KeywordEngine = "rank_bm25", **options: Unpack[StoreOptions]) -> Self:
        """Make a memory that leaves nothing on disk and ends with the process; the arguments are those of :meth:`open`.

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
        """Use the store in a PostgreSQL database with pgvector, whose tables are made if they are missing.

        Any number of processes may write and read it at once, each with a connection of its own. It behaves as a
        store of :meth:`open` does; what is said of arguments there holds here.

        Args:
            url: How to reach the database, for example ``postgresql://user@host/agents``; further parameters go to
                libpq. Several stores in one database take a schema each, before the one that pgvector is in:
                ``?options=-csearch_path%3Dstore,public``.
            pool_size: How many connections this process keeps at most; two are always open.
            within: Confine every connection to this scope and those below it. Where its role does not own the tables,
                PostgreSQL's row-level security shows it no row of any other scope, whatever is asked.
            read_only: Only look, also into a standby; nothing is noted for review, no index is made, and Chroma is
                left alone.
            **options: As for :meth:`open`; ``dense`` may be ``exact``, or the client of a Chroma server.

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
        dense = options.get("dense")
        if dense == "chroma":
            raise ConfigurationError("with PostgreSQL a Chroma client does what dense='chroma' asks for: pass one")
        if within is not None and not (dense is None or isinstance(dense, str)):
            raise ConfigurationError("a memory that is confined by within= cannot feed Chroma, which holds all scopes")
        parts = ResolvedOptions.chosen(options, keyword="sqlite_bm25")
        confined = None if within is None else scopes.parse(within)
        memory = cls(*open_engine(parts, url, read_only=read_only, pool_size=pool_size, within=confined))
        if "password" not in url and urlsplit(url).password is None:  # a secret does not belong into a pickle
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
        """Make a store from a file that :meth:`export` wrote, and open it.

        Records and vectors are taken as they are. The directory is there once everything is in it.

        Args:
            path: The file.
            into: The new store's directory: missing, or empty.
            keyword: As for :meth:`open`.
            shared_group: As for :meth:`open`.
            progress: Called from time to time with how many memories are in, and of how many.
            **options: As for :meth:`open`. The embedder must be the one the export's vectors are from; ``before_store``
                does not see what is imported, which was stored once already.

        Raises:
            ValidationError: The file is no export, or not whole; the message names the line.
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
        """Copy a Chroma collection into a store, with its vectors, and serve from there.

        Every row becomes a fact under its own id. The copy goes on where it stopped if it is called again, and takes
        in what is new or has changed; what is gone from the collection is left to :meth:`sync_chroma`. The collection
        is only read, unless changes are written through. :attr:`adoption` tells what became of the rows.

        Args:
            collection: What ``client.get_collection(...)`` returns, of any synchronous Chroma client; or a LangChain
                ``Chroma``, or a LlamaIndex ``ChromaVectorStore``.
            path: The store's directory, or the address of a PostgreSQL database; None keeps the store in memory.
            scope: The scope of all memories; or
            scope_key: the metadata key under which each row names its own, as text or a whole number.
            text_key: The metadata key of the text; None takes the document.
            category: The category of all facts.
            where: A filter as Chroma's ``get`` takes it, for example ``{"team": "a"}``: only rows that it selects are
                adopted, now and by :meth:`sync_chroma`. None takes all.
            write_through: Also write to the collection what is remembered, updated or forgotten here from now on. Only
                rows that were adopted or made here are touched. What cannot be written waits in the store until the
                next change, :meth:`sync_chroma` or :meth:`close`.
            keyword: As for :meth:`open`; None is the default there, or of :meth:`in_memory`.
            shared_group: As for :meth:`open`.
            progress: Called after every page with how many rows have been read, and of how many.
            **options: As for :meth:`open`. The embedder must be the one the collection was filled with; up to five of
                its texts are embedded again to see that it is; None takes the one of a LangChain ``Chroma``, else the
                bundled one. ``before_store`` sees every row as a fact, and a text it has changed is embedded anew.

        Raises:
            ConfigurationError: The arguments do not fit together, or the store has adopted another collection, or this
                one in another way.
            ValidationError: The scope is malformed, there is no such category, or Chroma does not take the filter.
            EmbeddingMismatchError: The embedder is not the collection's; nothing was made.
            StoreLockedError: As for :meth:`open`.
            BackendError: The collection or the store failed; what is in stays, and a further call goes on.
        """
        from memory_retrievers.storage.chroma_sync import collection as source
        from memory_retrievers.storage.chroma_sync import rows

        # 1. nothing is made before all this is sure
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
        # 2. open the store
        memory = cls(*open_engine(parts, path))
        # 3. fill it
        try:
            memory._take_in(found, adopted, progress)
        except BaseException:
            memory.close()
            raise
        return memory

    def close(self) -> None:
        """Write what is waiting and release everything; a second call does nothing.

        A memory that is dropped instead is closed too, but with a worker in the background: close one before its
        directory is moved or deleted.
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

        A fact that is known in its scope is not stored again, as :meth:`remember_fact` says.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``, or mappings of their fields: one
                with a ``fact`` is a fact, one with a ``summary`` an episode.
            replace: Forget the memories whose scope and id the drafts have; otherwise an id must not be taken.
            allow_duplicates: Also store facts that are known.
            replacing: For each draft the id of the fact that it holds instead of, or None.

        Returns:
            The memories, complete, in the order given; ``duplicate_of`` marks a fact that was known.

        Raises:
            NotFoundError: There is no fact to be replaced; nothing was stored.
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
        """What the memory tools use: finding, changing, moving and associating memories as they do."""
        return self._engine.manager

    @property
    def items(self) -> StoredItems:
        """What a LangGraph store uses: values under keys, stored as facts."""
        return self._engine.items

    @property
    def overview(self) -> SQLOverview:
        """What a person looks through: the tree of scopes, and pages of a scope in either order and at any moment."""
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
        """Change the fields that are given, each as a whole, and give the memory as it is now.

        A new text is found from then on. What a fact said until now is kept as a former version of it, under the same
        id: :meth:`history` lists it, and ``retrieve(..., as_of=...)`` finds it. ``updated_at`` moves unless nothing is
        different.

        Args:
            id: The memory.
            scope: Its scope.
            summary: What happened, of an episode.
            fact: What a fact says from now on.
            title: The headline of an episode.
            category: What a fact is about.
            keywords: What helps to find a fact.
            tags: Labels.
            metadata: Any JSON object.
            importance: 0 to 1.
            expires_at: From when on it is invisible; None keeps it for good.
            correct: The new text of a fact mends a slip: it is as if the fact had never said anything else.

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
        """Remove a memory for good, with every trace of it; :meth:`invalidate` is the soft form.

        Its text, vector and index entries go, and its id leaves the memories, characters and reviews that name it, but
        for memories of a scope that it was moved from. What was made of it stays: facts, and what characters feel. Of
        an open episode the queued messages are removed, also if an episode is just being made of them. :meth:`purge`
        clears the bytes that are left in the files.

        Raises:
            NotFoundError: There is no such memory in this scope.
            ValidationError: The scope is malformed.
        """
        self._pending.flush()  # or what was asked a moment ago would be filed behind it
        self._store.forget(id, scope=scope)

    @observed("delete_memory")
    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Remove everything that a scope and the scopes below it hold, and give the number of memories.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._pending.flush()
        return self._store.forget_scope(scope, include_child_scopes=include_child_scopes)

    @observed("delete_memory")
    def forget_conversation(self, scope: str, conversation: str | None = None) -> int:
        """Remove what was said in a conversation, queued or in episodes, and give the number of episodes.

        What was made of it stays, as for :meth:`forget`. What waits for review in the scope goes, since it tells what
        was asked in the conversation, and so does what waits above if anything was said in it.

        Args:
            scope: Whose conversation.
            conversation: Which of the scope's conversations; None is the one without a name. Where
                ``IngestionSettings.by_conversation`` is off, a scope has but one, and what was kept by this name before
                goes with it.

        Raises:
            ValidationError: The scope or the conversation is malformed.
        """
        asked = parse_conversation(conversation)
        self._pending.flush()
        return self._store.forget_conversations(scopes.parse(scope), {asked, self._engine.pipeline.queue.named(asked)})

    @observed("delete_memory")
    def forget_messages(self, scope: str, messages: Iterable[Message | str]) -> ForgottenMessages:
        """Remove single messages of conversations, queued or in episodes, and leave the rest as if they were not said.

        Title and summary of an episode are made anew by rules from the messages that are left, whoever wrote them,
        since they may tell it; an episode of which none is left is forgotten. Memories that were made of the episode
        stay, and are named in the answer. What waits for review in the scope, and in those above it, goes.
        :meth:`purge` clears the bytes that are left in the files.

        Args:
            scope: Whose conversations; exactly this scope.
            messages: Which, at most 100: a message of a result, or the words of one, whole or with ``…`` for what a
                block has left out. All messages of the scope that are named go; one without a time is named at all.

        Returns:
            How many were removed, none if nobody said that, and what may still tell it.

        Raises:
            ValidationError: An argument breaks a rule, the messages are in more than 100 episodes, or ``before_store``
                has held back what is left of one; nothing was changed.
            EmbeddingError: The embedder failed; nothing was changed.
        """
        parsed, named = scopes.parse(scope), named_messages(messages)
        self._pending.flush()
        return self.manager.forget_messages(parsed, named)

    # --- reading

    @property
    def query_characters(self) -> int:
        """How many characters a query may have: ``RetrievalSettings.query_characters``."""
        return self._retriever.query_characters

    @observed("search_memory")
    def retrieve(
        self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]
    ) -> RetrievalResult:
        """The memories that answer a question, facts and episodes, best first.

        Args:
            query: What to look for, in plain words: at most ``RetrievalSettings.query_characters``.
            scope: Whose memories; exactly this scope, unless ``include_child_scopes`` is given.
            record: File the returned episodes for review, so that useful ones fade slower.
            **options: Limits, category, moment and filters, by name: see ``SearchOptions``.

        Raises:
            TypeError: There is no option of such a name.
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        request, engine = self._request(query, scope, options), self._engine
        return engine.retriever.retrieve(request, record=record and not engine.read_only)

    def recent(
        self, scope: str, *, limit: int = 10, days_limit: float | None = None, facts: bool = False
    ) -> RecentResult:
        """The scope's newest episodes by ``created_at``, those that are still open among them, and if asked its facts.

        Args:
            scope: Whose memories.
            limit: At most this many of either kind; brought into 1 to 100.
            days_limit: Only those made in the last so many days.
            facts: Also the facts that hold.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        return self._retriever.recent(scope, limit=limit, days_limit=days_limit, facts=facts)

    def profile(self, scope: str) -> Profile:
        """What a model should always know of a scope, for its instructions: the same until one of these facts changes.

        That is its facts of the categories guideline, identity and preference, and those that are pinned: whose
        importance was set by hand to 0.5 or more, by the tool ``memory_set_score``, in the window, or as
        ``importance_pinned`` of a draft. Nothing is recorded.

        Args:
            scope: Whose profile; exactly this scope.

        Raises:
            ValidationError: The scope is malformed.
        """
        return self._retriever.profile(scope)

    def get(self, id: str, *, scope: str) -> AnyMemory:
        """The memory of this id in this scope, invalidated facts and open episodes included.

        Raises:
            NotFoundError: There is none; what other scopes hold makes no difference.
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
        tags: Iterable[str] = (),
        metadata: JsonObject | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        where: JsonObject | None = None,
    ) -> Page:
        """The memories of a scope, newest first, page by page; invalidated facts are among them.

        What is still queued is listed by :meth:`waiting`.

        Args:
            scope: Whose memories.
            kind: Only episodes, or only facts.
            cursor: The ``cursor`` of the page before. What is stored meanwhile neither repeats nor hides a memory.
            limit: At most this many, 1 to 1000.
            tags: Only memories that have all of these; the filters are the same for every page.
            metadata: Only memories that have each of these values under its key.
            since: Only facts made, and episodes begun, at that moment or later.
            until: Only facts made, and episodes begun, at that moment or earlier.
            where: A filter with operators: see ``FilterOptions``.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        filters = Filters.parse({"tags": tags, "metadata": metadata, "since": since, "until": until, "where": where})
        size = parse_page_size(limit)
        listing = Listing(scope=scopes.parse(scope), kinds=parse_kinds(kind), now=self.now(), filters=filters)
        return page_of(self._store.ledger.page(listing, after=parse_cursor(cursor), limit=size + 1), limit=size)

    def pending_reviews(self, scope: str) -> builtins.list[PendingReview]:
        """The retrievals in this scope whose use has not been judged yet, oldest first."""
        self._pending.flush()
        return self._store.ledger.pending_reviews(scopes.parse(scope))

    def now(self) -> datetime:
        """The current moment in UTC, by the clock of this memory."""
        return self._store.now()

    def scopes(self, within: str | None = None) -> builtins.list[str]:
        """The scopes that hold a memory that has not expired, sorted: all, or ``within`` and those below it.

        Where messages wait that are no memory yet, :meth:`waiting_scopes` tells; who looks for every user takes both.

        Raises:
            ValidationError: The scope is malformed.
        """
        return _those_within(within, self._store.ledger.scopes(now=self._store.now()))

    def stats(self, scope: str | None = None) -> ScopeStatistics:
        """How much a scope holds, or the whole store, without what has expired.

        Raises:
            ValidationError: The scope is malformed.
        """
        self._pending.flush()
        return self._store.ledger.statistics(None if scope is None else scopes.parse(scope), now=self._store.now())

    # --- explaining

    def explain(self, query: str, *, scope: str, **options: Unpack[SearchOptions]) -> ExplainedRetrieval:
        """Why :meth:`retrieve` returns what it returns: the place and score of each memory by every stage.

        Nothing is filed for review.

        Args:
            query: What is looked for.
            scope: The scope that is searched.
            **options: As for :meth:`retrieve`.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self._retriever.explain(self._request(query, scope, options))

    def explain_missing(self, id: str, *, query: str, scope: str, **options: Unpack[SearchOptions]) -> ExplainedAbsence:
        """Why :meth:`retrieve` does not return a memory: the stage that drops it; or that it does return it.

        The arguments after ``id`` are those of :meth:`retrieve`. Nothing is filed for review.

        Args:
            id: Which memory.
            query: What is looked for.
            scope: The scope that is searched; the memory's own, unless ``include_child_scopes`` is given. If several of
                the scopes hold a memory of this id, that of ``scope`` is meant, or else the first by the name of its
                scope.
            **options: As for :meth:`retrieve`.

        Raises:
            NotFoundError: There is no such memory in this scope; what other scopes hold makes no difference.
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self._retriever.explain_missing(parse_id(id), self._request(query, scope, options))

    # --- conversations

    @observed("upsert_memory")
    def add_messages(self, scope: str, messages: Iterable[MessageLike], *, conversation: str | None = None) -> Queued:
        """Queue messages of a conversation; cheap, since no model is called and nothing is embedded.

        They are kept from here on, and found by every search as turns of an open episode. They become part of one when
        :meth:`process_due` finds a border behind them, or with :meth:`flush`.

        Args:
            scope: Whose conversation.
            messages: What was said, in order.
            conversation: Which of the scope's conversations it is, for example the id of a thread; no episode has
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
        """Turn what is due into episodes, review what was retrieved, and turn episodes into facts.

        The messages of a conversation are due when there are 20 of them, or 5 of which the first is older than two
        hours, or when nothing has been added for half an hour (``IngestionSettings``). Facts need a language model.

        Args:
            scope: Only this scope; None is every scope in which something waits.
            include_child_scopes: Also every scope below ``scope``.

        Raises:
            ValidationError: The scope is malformed, or a judge of the application's gave a rating that there is not.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
            ConfigurationError: A segmenter of the application's gave segments that do not take all messages; likewise.
        """
        self._pending.flush()
        if scope is None or include_child_scopes:
            return self._engine.pipeline.process_all(within=None if scope is None else scopes.parse(scope))
        return self._engine.pipeline.process(scopes.parse(scope))

    def flush(self, scope: str, conversation: str | None = None) -> Report:
        """Make episodes of everything that is queued, the last message included, as at the end of a session.

        Args:
            scope: Whose messages.
            conversation: Only those of this conversation; one that has none, or is unknown, gives an empty report.
                None is all conversations of the scope.

        Raises:
            ValidationError: The scope or the conversation is malformed, or a judge of the application's gave a rating
                that there is not.
            LanguageModelError: A language model failed; what was not done is still due.
            EmbeddingError: The embedder failed; likewise.
            ConfigurationError: A segmenter of the application's gave segments that do not take all messages; likewise.
        """
        self._pending.flush()
        return self._engine.pipeline.flush(scopes.parse(scope), conversation=parse_conversation(conversation))

    def start_worker(self) -> None:
        """Let a thread do what is due, when messages arrive and when they have waited long enough, until :meth:`close`.

        What it cannot do is tried again later, and a warning is logged. A second call does nothing.

        Raises:
            ConfigurationError: The memory was opened read-only.
        """
        self._engine.start_worker()

    def review(self, id: str, *, scope: str, rating: Rating | str) -> EpisodicMemory:
        """Say how an episode served, so that it fades slower or faster from now on (FSRS-6).

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
        """What a fact says and has said, what it has replaced and what has replaced it, in the order of validity.

        What has expired is left out. A former version of a fact has its id, its own text, category, keywords,
        ``valid_at`` and ``invalid_at``, and everything else as the fact has it now; ``replaced_by`` is the id itself.

        Raises:
            NotFoundError: There is no such fact in this scope.
            ValidationError: The scope is malformed.
        """
        versions = self._store.ledger.facts.history(scope=scopes.parse(scope), id=parse_id(fact_id))
        now = self._store.now()
        visible = tuple(version for version in versions if not version.has_expired(now))
        if fact_id not in {version.id for version in visible}:
            raise NotFoundError(f"Memory not found: {fact_id}")
        return visible

    def events(self, scope: str, *, id: str | None = None, limit: int = 100) -> tuple[MemoryEvent, ...]:
        """What happened to a memory, or to all of a scope, newest first: what, when, by which way, and by whom.

        No text is in it: what a fact has said tells :meth:`history`. It moves with a memory and is gone with it; of one
        that is forgotten stays when and by whom, without its id, as long as its scope holds anything. A memory keeps
        the last 20 entries of a kind, a store a million.

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
        """What a scope knows at one moment and did not know, or knew otherwise, at another.

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
        selection = Selection(
            scope=scopes.parse(scope), kind=Kind.SEMANTIC, now=now, include_child_scopes=include_child_scopes
        )
        return self._store.ledger.facts.between(
            selection, since=moments.since or now, until=moments.until or now, limit=parse_page_size(limit)
        )

    def waiting(self, scope: str, *, limit: int = 100) -> builtins.list[Message]:
        """The queued messages of a scope that no episode has been made of yet, in the order they came.

        Args:
            scope: Whose messages.
            limit: At most this many, from the first on; ``stats(scope).queued_messages`` counts all.

        Raises:
            ValidationError: The scope is malformed, or the limit is negative or no whole number.
        """
        at_most = parse_limit("limit", limit)
        queued = self._store.ledger.conversations.waiting(scopes.parse(scope), limit=at_most)
        return [waiting.message for waiting in queued]

    def transcript(self, scope: str, conversation: str | None = None, *, limit: int = 1_000) -> builtins.list[Message]:
        """What was said in a conversation, in the order it came: the messages of its episodes, and those queued.

        Args:
            scope: Whose conversation.
            conversation: Which of the scope's conversations, as :meth:`add_messages` named it; None is the one without
                a name. Where ``IngestionSettings.by_conversation`` is off, a scope has but one.
            limit: At most this many, the last, 1 to 1000.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        named = self._engine.pipeline.queue.named(parse_conversation(conversation))
        return self._store.ledger.conversations.said(
            scopes.parse(scope), conversation=named, now=self.now(), limit=parse_page_size(limit)
        )

    def waiting_scopes(self, within: str | None = None) -> builtins.list[str]:
        """The scopes in which messages wait to become episodes, or reviews to be made, sorted; as for :meth:`scopes`.

        Raises:
            ValidationError: The scope is malformed.
        """
        return _those_within(within, self._store.ledger.conversations.scopes())

    # --- stories

    @observed("upsert_memory")
    def add_scene_events(self, scope: str, events: Sequence[SceneEvent]) -> builtins.list[EpisodicMemory]:
        """Store what happened in a story, in its order, and how its characters stand after it: all or nothing.

        Each event becomes an episode: one star is a surprise and an importance of 0, five are 1. It is found as any
        episode is; facts are never made of it. What ``before_store`` holds back does not reach the characters.

        Args:
            scope: Whose story.
            events: Made by hand, also as mappings of their fields, or by ``memory_retrievers.scene.extraction``.

        Returns:
            The stored episodes, in the order given.

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
        """The characters of a scope's story, each as of its last event, in the order in which they appeared.

        Args:
            scope: Whose story; exactly this scope.
            pov: From whose point of view: as the events tell of them that these characters know. Nobody is everybody.

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
        """The ``<scene_memory>`` block: the story so far, what led up to this moment, and the current scene.

        Args:
            scope: Whose story; exactly this scope.
            chat_length: How many messages the chat has, counted as the events' ``message_ids`` are.
            present: The names of who is there.
            pov: From whose point of view: only what these characters know, as far as they know anything,
                and how others feel since what they know; they are not named as present. Nobody is everybody.
            budget: So many tokens at most; the frame is rendered in any case.
            query: What the chat is about now; the events that bear on it come first if not all fit. None, or a
                blank one, leaves it to ``settings.budget_policy``.
            settings: What is shown, and what gives way; None is ``SceneSettings()``.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        # 1. what is asked
        parsed, length = scopes.parse(scope), parse_limit("chat_length", chat_length)
        room, there, viewers = parse_limit("budget", budget), _names("present", present), _names("pov", pov)
        # 2. what happened, as far as it is known to whoever looks on, who neither know what others feel since then
        scenes = self._store.ledger.scenes(parsed, now=self._store.now())
        known = known_to(viewers, scenes, characters=self._store.ledger.characters.all(parsed))
        episodes = known or scenes  # a story without a past helps nobody
        states = self.characters(parsed, pov=viewers)
        # 3. what of it matters now
        scores = None
        if query is not None and query.strip():
            check_length(query, most=self._retriever.query_characters)
            scores = relevance(self._store, episodes, scope=parsed, query=query, chat_length=length)
        # 4. render
        return scene_block(
            episodes,
            chat_length=length,
            present=there,
            characters=states,
            pov=viewers,
            budget=room,
            settings=settings or SceneSettings(),
            scores=scores,
        )

    # --- maintenance

    def verify(self) -> VerificationReport:
        """Look whether the store is whole: the file, every memory with its passages and vectors, the postings.

        Raises:
            BackendError: The server of a database could not be asked, or not to the end.
        """
        return maintenance.verify(self._store)

    def rebuild(self, what: Index = "all") -> None:
        """Make indexes anew from the stored memories, which stay as they are.

        Args:
            what: ``sparse`` makes postings and word statistics anew from the passages, in one transaction. ``dense``
                only drops the vectors remembered in memory, which are read from the store again: the stored vectors
                are the index, and mending them would take embedding again. ``all`` does both.

        Raises:
            ValidationError: There is no such index.
        """
        maintenance.rebuild(self._store, what)

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
            progress: Called after every page with how many memories have a new vector, and of how many.

        Raises:
            ConfigurationError: The embedder embeds in no known way, another thread is re-embedding this store, or it
                was opened read-only.
            EmbeddingError: The embedder failed; the old one goes on serving.
            BackendError: The store cannot be written; the old embedder goes on serving.
        """
        maintenance.reembed(self._store, chosen_embedder(embedder, embedder_id=embedder_id), progress=progress)

    def reindex(self, *, progress: Progress | None = None) -> int:
        """Bring what is stored of episodes to ``RetrievalSettings.passages``, after that was changed.

        With ``turns``, the messages of every episode are embedded and indexed, where they are not yet; with
        ``summary``, those of all episodes are given up. Episodes themselves stay as they are. Opening a store never
        does this, and new episodes follow the settings without it.

        The store may be searched and written meanwhile. What is done is kept: after a crash, or when the embedder
        failed, another call goes on where it was.

        Args:
            progress: Called from time to time with how many episodes are done, and of how many.

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
        """Remove what has expired, and leave no byte of what was forgotten in the directory of the store.

        The file is written anew, which takes time and, for that long, as much space again.

        Raises:
            BackendError: It could not be done now, since somebody was reading; nothing is lost.
        """
        self._pending.flush()
        self._store.purge()

    def backup(self, path: str | Path) -> None:
        """Copy the store to a new directory, whatever is written meanwhile; :meth:`open` opens the copy.

        Raises:
            ConfigurationError: The directory is in use, in that of the store, or cannot be made, or a move into the
                store has not ended.
            BackendError: The copy failed, and nothing was left of it.
        """
        self._pending.flush()
        transfer.require_moved(self._store.ledger.notes())
        database = self._store.ledger.database
        database.copy_to(outside(database.home, path) / STORE_FILE)

    def export(
        self, path: str | Path, *, scope: str | None = None, incomplete: bool = False, progress: Progress | None = None
    ) -> int:
        """Write memories of every kind, their vectors, queued messages and reviews into a new file, losing nothing.

        The file has JSON lines, is of one moment, and appears under its name only when it is whole. :meth:`import_`
        reads it.

        Args:
            path: The file; it must not exist yet.
            scope: This scope and all below it; None is everything.
            incomplete: Also what a move that has not ended has brought into this store so far.
            progress: Called from time to time with how many memories are written, and of how many.

        Returns:
            How many memories were written.

        Raises:
            ConfigurationError: The file exists, is in the store's directory, or cannot be written, or a move into the
                store has not ended.
            ValidationError: The scope is malformed.
            BackendError: A memory is damaged; :meth:`verify` tells more.
            DiskFullError: There is no space left for the file; nothing was left of it.
        """
        asked = None if scope is None else scopes.parse(scope)
        if not self._engine.read_only:
            self._pending.flush()
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
        """Follow a collection that was adopted: take in what is new, update what has changed, forget what is gone.

        A memory follows its row in text, vector and metadata; what else was changed here stays. Everything is read
        before anything is written, and what was written through and still waits goes out first.

        Args:
            collection: The one that was given to :meth:`from_chroma`, or a LangChain or LlamaIndex store that holds it.
            where: Narrows this call to the rows that this filter of Chroma's selects as well: others are neither
                taken in nor updated. The filter of the adoption always holds; a row that was changed and is no longer
                selected by it is forgotten, as one that was deleted is.
            confirm: Also go on if more than half of the adopted memories would be forgotten, or if another collection
                has taken the place of the one adopted.
            progress: Called after every page with how many rows have been read, and of how many.

        Raises:
            ConfigurationError: This store has adopted no collection, or another one.
            ValidationError: More than half would be forgotten, or Chroma does not take the filter; nothing was changed.
            EmbeddingMismatchError: The collection's vectors are not from the store's embedder; nothing was changed.
            BackendError: The collection failed; what is done stays, and a further call goes on.
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

    def _take_in(self, collection: Collection, adopted: Adoption, progress: Progress | None) -> None:
        """Do the part of :meth:`from_chroma` that follows the opening."""
        from memory_retrievers.storage.chroma_sync import adopt

        adopted.refuse_other(adopted.noted(self._store.ledger))
        adopted.note(self._store.ledger)
        self._write_through(collection, adopted)
        with acting_as(Channel.IMPORT, "chroma"):
            self._adoption_report = adopt(self._store, collection, adopted, progress=progress)

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

    @property
    def _pending(self) -> PendingReviewBuffer:
        return self._engine.pending

    @property
    def _retriever(self) -> HybridRetriever:
        return self._engine.retriever


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
