"""The interface of a memory, as the adapters and tools use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, Unpack

from pydantic import AfterValidator, SkipValidation

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.models.fields import Category
from memory_retrievers.models.filters import MinRelevance, SearchOptions
from memory_retrievers.models.messages import Message, MessageLike
from memory_retrievers.models.results import Queued, Report
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.settings import SCENE_BUDGET, SceneSettings

if TYPE_CHECKING:
    from memory_retrievers.retrieval.results import Profile, RecentResult, RetrievalResult


class Memory(Protocol):
    """The methods of a memory that the adapters and tools call; ``AgentMemory`` implements it."""

    def retrieve(
        self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]
    ) -> RetrievalResult:
        """Search episodes and facts for the memories that answer a query.

        Args:
            query: Text to search for.
            scope: Path of the scope to search.
            record: Record the returned episodes for review, so that useful ones fade more slowly.
            **options: See ``SearchOptions``.
        """

    def context(
        self,
        query: str,
        *,
        scope: str,
        semantic_limit: int = 20,
        category: Category | str | None = None,
        include_child_scopes: bool = False,
        min_relevance: MinRelevance = "auto",
    ) -> RetrievalResult:
        """Search the facts that answer a query, without side effects.

        Args:
            query: Text to search for.
            scope: Path of the scope to search.
            semantic_limit: Maximum number of facts.
            category: Return only facts of this category; None returns all.
            include_child_scopes: Also search the scopes below ``scope``.
            min_relevance: Return no fact of less relevance, as for :meth:`retrieve`.
        """

    def add_messages(self, scope: str, messages: Iterable[MessageLike], *, conversation: str | None = None) -> Queued:
        """Queue messages of a conversation. Fast: no model is called.

        Args:
            scope: Path of the scope.
            messages: What was said, in order.
            conversation: Name of the conversation within the scope; None is the one without a name.
        """

    def transcript(self, scope: str, conversation: str | None = None, *, limit: int = 1_000) -> list[Message]:
        """Return the last messages of a conversation, in order, those of its episodes and those that are queued.

        Args:
            scope: Path of the scope.
            conversation: Name of the conversation; None is the one without a name.
            limit: Maximum number of messages, 1 to 1,000.
        """

    def forget_conversation(self, scope: str, conversation: str | None = None) -> int:
        """Delete the episodes and queued messages of a conversation; returns the number of episodes."""

    def start_worker(self) -> None:
        """Turn messages that are due into memories in the background from now on; a second call does nothing."""

    def process_due(self, scope: str | None = None) -> Report:
        """Turn queued messages that are due into memories, in one scope or in all."""

    def flush(self, scope: str, conversation: str | None = None) -> Report:
        """Turn all queued messages of a scope, or of one conversation, into episodes."""

    def forget_scope(self, scope: str, *, include_child_scopes: bool = True) -> int:
        """Delete everything in a scope and the scopes below it; returns the number of memories."""

    def recent(
        self, scope: str, *, limit: int = 10, days_limit: float | None = None, facts: bool = False
    ) -> RecentResult:
        """Return the newest memories of a scope.

        Args:
            scope: Path of the scope.
            limit: Maximum number of episodes, and of facts.
            days_limit: Maximum age in days; None sets no limit.
            facts: Also return facts; otherwise only episodes.
        """

    def profile(self, scope: str) -> Profile:
        """Return what a model should always know of a scope; it depends on its facts alone."""

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
        """Render the ``<scene_memory>`` block of a story.

        Args:
            scope: Path of the story's scope.
            chat_length: Number of messages in the chat, counted like the ``message_ids`` of its events.
            present: Names of the characters who are there.
            pov: Names of the characters whose knowledge limits the block; empty sets no limit.
            budget: Maximum length of the block in tokens; its frame is always rendered.
            query: Current topic of the chat, which decides what is kept if not all fits; None leaves it to the
                settings.
            settings: What to show and what to leave out first; None uses the defaults.
        """

    def characters(self, scope: str, *, pov: Sequence[str] = ()) -> list[CharacterState]:
        """List the characters of the story as of their last event, or as far as a point of view knows."""


def checked_memory(memory: Memory) -> Memory:
    """Return the memory itself; what is none, such as the address of one, raises a ``TypeError``."""
    if isinstance(memory, str | PathLike | type) or not hasattr(memory, "retrieve"):
        given = "a class" if isinstance(memory, type) else f"a {type(memory).__name__}"
        raise TypeError(f"memory must be what AgentMemory.open(...) returns, not {given}")
    return memory


GivenMemory: TypeAlias = Annotated[Memory, SkipValidation, AfterValidator(checked_memory)]
"""The field of an object that works on a memory."""


def require_scenes(memory: Memory) -> None:
    """Raise a ``ConfigurationError`` if a memory cannot render scenes."""
    if not callable(getattr(memory, "scene", None)):
        raise ConfigurationError(f"{type(memory).__name__} has no scenes: give an AgentMemory or a RemoteMemory")
