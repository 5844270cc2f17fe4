"""Methods that a memory in this process and one on a server share: one memory by its fields, facts for a prompt."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, Category, Draft, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.models.fields import storable
from memory_retrievers.models.filters import FilterOptions, MinRelevance, SearchOptions
from memory_retrievers.models.messages import MessageLike, messages_of
from memory_retrievers.retrieval.results import RetrievalResult

MemoryKindT = TypeVar("MemoryKindT", bound="BaseMemory")
ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")


def awaited(
    method: Callable[Concatenate[MemoryKindT, ArgumentsT], ResultT],
) -> Callable[Concatenate[MemoryKindT, ArgumentsT], Coroutine[Any, Any, ResultT]]:
    """The form of a method that is awaited: it runs in a thread, so that an event loop is not held up.

    A call that is cancelled is not waited for any more; what it has begun is finished, whole.
    """
    name = method.__name__

    @wraps(method)
    async def call(memory: MemoryKindT, /, *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        there: Callable[..., ResultT] = getattr(memory, name)  # where a class has one of its own, that
        return await asyncio.to_thread(there, *args, **kwargs)

    call.__dict__.pop("__isabstractmethod__", None)  # of what it calls
    call.__name__, call.__qualname__ = f"a{name}", call.__qualname__.replace(name, f"a{name}")
    return call


class BaseMemory(ABC):
    """A memory that stores drafts and answers questions, wherever it is."""

    @abstractmethod
    def remember_many(
        self,
        drafts: Sequence[Draft | Mapping[str, object]],
        *,
        replace: bool = False,
        allow_duplicates: bool = False,
        replacing: Sequence[str | None] = (),
    ) -> list[AnyMemory]:
        """Store drafts, and return the memories, without those that ``before_store`` rejects.

        Args:
            drafts: From ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)``, or mappings of their fields.
            replace: Forget memories with the scope and id of a draft; otherwise such an id is refused.
            allow_duplicates: Also store facts that are known.
            replacing: For each draft the id of the fact that it replaces, or None.
        """

    @abstractmethod
    def retrieve(
        self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]
    ) -> RetrievalResult:
        """Find the memories that answer a question, facts and episodes, best first.

        Args:
            query: The question, in plain words.
            scope: The scope to search.
            record: Record the returned episodes for review.
            **options: See ``SearchOptions``.
        """

    @abstractmethod
    def close(self) -> None:
        """Release everything; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def remember_episode(
        self,
        *,
        scope: str,
        summary: str,
        messages: Iterable[MessageLike] = (),
        title: str = "",
        surprise: float = 0.0,
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        created_at: datetime | None = None,
        last_reviewed_at: datetime | None = None,
        stability: float | None = None,
        difficulty: float | None = None,
        conversation_id: str | None = None,
    ) -> EpisodicMemory:
        """Store one episode; fields that are left out are filled in. See ``EpisodicMemory`` for the fields.

        Raises:
            ValidationError: A field breaks a rule, or the id is taken in this scope; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        draft = EpisodicMemory.new(
            scope=scope,
            summary=summary,
            messages=messages_of(messages),
            title=title,
            surprise=surprise,
            id=id,
            tags=tags,
            metadata=metadata or {},
            importance=importance,
            expires_at=expires_at,
            start_at=start_at,
            end_at=end_at,
            created_at=created_at,
            last_reviewed_at=last_reviewed_at,
            stability=stability,
            difficulty=difficulty,
            conversation_id=conversation_id,
        )
        memory = _only(self.remember_many([draft]))
        assert isinstance(memory, EpisodicMemory)  # noqa: S101 - an episode's draft becomes an episode
        return memory

    def remember_fact(
        self,
        *,
        scope: str,
        fact: str,
        category: Category | str = Category.NOTE,
        keywords: Sequence[str] = (),
        source_episodic_ids: Sequence[str] = (),
        id: str | None = None,
        tags: Sequence[str] = (),
        metadata: JsonObject | None = None,
        importance: float = 0.5,
        expires_at: datetime | None = None,
        created_at: datetime | None = None,
        valid_at: datetime | None = None,
        invalid_at: datetime | None = None,
        replaces: str | None = None,
        allow_duplicates: bool = False,
    ) -> SemanticMemory:
        """Store one fact, unless it is already known. See ``SemanticMemory`` for the fields.

        A fact that is valid in this scope is not stored again; spaces, the case of the first letter and a final full
        stop make no difference. The known fact is returned with ``duplicate_of``; its sources, tags and metadata are
        merged with the new ones, and ``last_confirmed_at`` is set. This needs the same category, expiry and, if given,
        ``valid_at``; a fact with an ``id`` of its own is always stored. ``near`` lists facts that it may contradict.

        Args:
            scope: Whose memory.
            fact: One sentence.
            category: What it is about.
            keywords: Words that help to find it.
            source_episodic_ids: The episodes it was learned from.
            id: Its id; None makes one.
            tags: Labels.
            metadata: Any JSON object.
            importance: 0 to 1.
            expires_at: The moment from which it is no longer found; None is never.
            created_at: When it was created; None is now.
            valid_at: Since when it is valid; None is ``created_at``.
            invalid_at: When it stopped being valid: only ``as_of`` finds it, from now on; None means it is valid. For a
                fact that is valid until a moment to come, give ``expires_at``.
            replaces: The id of a fact that this one replaces: that one is invalid from then on, and both are in the
                ``history`` of each.
            allow_duplicates: Store it even if it is known.

        Raises:
            NotFoundError: The fact to replace does not exist; nothing was stored.
            ValidationError: A field breaks a rule, the id is taken in this scope, or what is to be replaced is not a
                fact, or was replaced already; nothing was stored.
            EmbeddingError: The embedder failed; nothing was stored.
        """
        draft = SemanticMemory.new(
            scope=scope,
            fact=fact,
            category=category,
            keywords=keywords,
            source_episodic_ids=source_episodic_ids,
            id=id,
            tags=tags,
            metadata=metadata or {},
            importance=importance,
            expires_at=expires_at,
            created_at=created_at,
            valid_at=valid_at,
            invalid_at=invalid_at,
        )
        replacing = [] if replaces is None else [replaces]
        memory = _only(self.remember_many([draft], allow_duplicates=allow_duplicates, replacing=replacing))
        assert isinstance(memory, SemanticMemory)  # noqa: S101 - a fact's draft becomes a fact
        return memory

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        min_relevance: MinRelevance = "auto",
        **filters: Unpack[FilterOptions],
    ) -> RetrievalResult:
        """Find the facts that answer a question, for the system prompt before a model is called; nothing is recorded.

        Args:
            query: The question, in plain words.
            scope: The scope to search.
            semantic_limit: The most facts to return, 0 to 1,000.
            category: Only facts of this category; None means all.
            include_child_scopes: Also search every scope below ``scope``.
            min_relevance: Leave out facts of less relevance; by default what is fitted for the embedder, so that a
                greeting finds nothing.
            **filters: See ``FilterOptions``.

        Raises:
            ValidationError: An argument breaks a rule.
            EmbeddingError: The embedder failed.
        """
        return self.retrieve(
            query,
            scope=scope,
            episodic_limit=0,
            semantic_limit=semantic_limit,
            category=category,
            include_child_scopes=include_child_scopes,
            min_relevance=min_relevance,
            record=False,
            **filters,
        )

    aretrieve = awaited(retrieve)
    acontext = awaited(context)
    aremember_many = awaited(remember_many)
    aremember_fact = awaited(remember_fact)
    aremember_episode = awaited(remember_episode)


def check_replacing(drafts: Sequence[Draft], replacing: Sequence[str | None]) -> Sequence[str | None]:
    """The ids of facts to replace, none or one for each draft."""
    if isinstance(replacing, str) or (replacing and len(replacing) != len(drafts)):
        raise ValidationError(f"replacing must have an id or None for each of the {len(drafts)} drafts, or be left out")
    if any(not isinstance(each, str | None) for each in replacing):
        raise ValidationError("the id of a fact to replace must be text")
    return [None if each is None else storable(each) for each in replacing]


def _only(stored: list[AnyMemory]) -> AnyMemory:
    if not stored:
        raise ValidationError("before_store rejected this; nothing was stored")
    return stored[0]
