"""The interfaces: what the package asks of parts that a user may bring.

An :class:`Embedder`, a :class:`LanguageModel`, a :class:`Segmenter`, a :class:`Judge` and a :class:`Clock` may be
brought, and the adapters take any :class:`Memory`; the others are what these are given and give. All are structural:
any object with these methods fits. Every implementation must be safe to use from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias, TypeVar, Unpack, cast, runtime_checkable

from pydantic import AfterValidator, BaseModel, SkipValidation

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, JsonObject, Rating, SemanticMemory, SummaryBy
from memory_retrievers.models.fields import Category
from memory_retrievers.models.filters import MinRelevance, SearchOptions
from memory_retrievers.models.messages import Message, MessageLike
from memory_retrievers.models.results import Queued, Report, RetrievedMemory
from memory_retrievers.models.scenes import CharacterState
from memory_retrievers.settings import SceneSettings

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.models.selection import Embedded, Vector, Vectors


__all__ = [
    "Clock",
    "Embedder",
    "Judge",
    "LanguageModel",
    "Memory",
    "Recent",
    "Retrieved",
    "ReviewedMemory",
    "Segment",
    "SegmentationContext",
    "Segmenter",
    "TokenEmbedder",
]

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Clock(Protocol):
    """Source of the current time."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""


class Embedder(Protocol):
    """Turns text into unit vectors of one dimension.

    This is the shape inside the package; ``embeddings.adapt`` brings LangChain, LlamaIndex and Chroma embedders, and
    plain functions, into it and checks what they give.
    """

    @property
    def id(self) -> str:
        """Name of the model. A store remembers it and rejects any other."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as L2-normalised rows: shape (number of texts, dimension).

        Raises:
            EmbeddingError: The model failed, or gave another number of rows, another length, NaN or infinity.
        """

    def embed_query(self, text: str) -> Vector:
        """Embed a question as an L2-normalised vector: shape (dimension,).

        Raises:
            EmbeddingError: As above.
        """


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also gives a vector for each token, of its own way of meaning: the bundled one does."""

    def embed_tokens(self, texts: Sequence[str], *, is_query: bool = False) -> list[Embedded]:
        """Embed texts, each as a whole and by its tokens, in one pass of the model.

        Args:
            texts: The texts.
            is_query: They are questions: of each token the word is given too.

        Raises:
            EmbeddingError: As above.
        """


class LanguageModel(Protocol):
    """Answers a prompt with an object of a given schema."""

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """Ask the model and return its answer as an instance of ``schema``.

        Args:
            system: The system prompt.
            user: The user prompt.
            schema: Pydantic model that the answer must fit.

        Raises:
            LanguageModelError: The model failed, or its answer does not fit the schema.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a conversation that becomes one episode.

    Attributes:
        messages: How many messages it takes, from where the segment before ended; at least 1.
        title: A headline; may be empty, and is made from the messages then.
        summary: What happened, in a sentence or two; may be empty, and is made from the messages then.
        surprise: How unexpected it was, 0 to 1.
        summary_by: Who wrote the summary; one that is empty is made by rules in any case.
    """

    messages: int
    title: str
    summary: str
    surprise: float
    summary_by: SummaryBy = SummaryBy.MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentationContext:
    """Context that a segmenter may use beside the messages.

    Attributes:
        previous_summary: The summary of the episode before, if it belongs to the same run of messages.
        recent: The scope's newest episodes, newest first; what is far from them is surprising.
        embed: Unit vectors of texts, by the store's embedder: shape (number of texts, dimension).
    """

    previous_summary: str | None
    recent: Sequence[EpisodicMemory]
    embed: Callable[[Sequence[str]], Vectors]


class Segmenter(Protocol):
    """Cuts a run of messages into segments."""

    def segment(self, messages: Sequence[Message], context: SegmentationContext) -> list[Segment]:
        """Split the messages into segments, in order, that together cover every message exactly once.

        A single segment means that no topic boundary was found.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedMemory:
    """A retrieved episode that is to be rated.

    Attributes:
        id: How the judge names it in the answer; any text, unique within a call.
        memory: The episode.
        queries: What it was found by, in order, repeats included.
    """

    id: str
    memory: EpisodicMemory
    queries: tuple[str, ...]


class Judge(Protocol):
    """Rates how useful retrieved memories were for a conversation."""

    def rate(
        self,
        conversation: Sequence[Message],
        memories: Sequence[ReviewedMemory],
        *,
        embed: Callable[[Sequence[str]], Vectors],
    ) -> Mapping[str, Rating]:
        """Rate memories by the conversation in which they were retrieved.

        Args:
            conversation: Messages after the retrieval, oldest first.
            memories: The memories to rate.
            embed: Returns the unit vectors of n texts, shape (n, d).

        Returns:
            Ratings by memory id. Memories without a rating keep their state.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """


class Memory(Protocol):
    """The methods of a memory that the adapters and tools call; ``AgentMemory`` implements it."""

    def retrieve(self, query: str, *, scope: str, record: bool = True, **options: Unpack[SearchOptions]) -> Retrieved:
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
    ) -> Retrieved:
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

    def recent(self, scope: str, *, limit: int = 10, days_limit: float | None = None, facts: bool = False) -> Recent:
        """Return the newest memories of a scope.

        Args:
            scope: Path of the scope.
            limit: Maximum number of episodes, and of facts.
            days_limit: Maximum age in days; None sets no limit.
            facts: Also return facts; otherwise only episodes.
        """

    def profile(self, scope: str) -> ProfileFacts:
        """Return what a model should always know of a scope; it depends on its facts alone."""


def checked_memory(memory: Memory) -> Memory:
    """Return the memory itself; what is none, such as the address of one, raises a ``TypeError``."""
    if isinstance(memory, str | PathLike | type) or not hasattr(memory, "retrieve"):
        given = "a class" if isinstance(memory, type) else f"a {type(memory).__name__}"
        raise TypeError(f"memory must be what AgentMemory.open(...) returns, not {given}")
    return memory


GivenMemory: TypeAlias = Annotated[Memory, SkipValidation, AfterValidator(checked_memory)]
"""The field of an object that works on a memory."""


class Retrieved(Protocol):
    """The result of a search."""

    @property
    def semantic(self) -> tuple[RetrievedMemory[SemanticMemory], ...]:
        """The facts, best first."""

    @property
    def episodic(self) -> tuple[RetrievedMemory[EpisodicMemory], ...]:
        """The episodes, best first."""

    def to_markdown(
        self,
        detail: DetailLevel | str = DetailLevel.AUTO,
        *,
        max_tokens: int | None = None,
        token_counter: Callable[[str], int] = ...,
    ) -> str:
        """Render a markdown block for a model's prompt; an empty string if nothing was found.

        Args:
            detail: How much of each episode to show.
            max_tokens: Maximum length of the block in tokens; None sets no limit.
            token_counter: Counts the tokens of a text.
        """

    def to_dict(self) -> JsonObject:
        """Return the result as a JSON-ready dictionary."""


class ProfileFacts(Protocol):
    """The facts of a scope that a model should always know."""

    def fitting(self, *, max_tokens: int | None = 300, token_counter: Callable[[str], int] = ...) -> ProfileFacts:
        """Return the profile with only those facts that fit.

        Args:
            max_tokens: Maximum length of the block in tokens; None sets no limit.
            token_counter: Counts the tokens of a text.
        """

    @property
    def facts(self) -> tuple[SemanticMemory, ...]:
        """The facts, in a fixed order."""

    def to_markdown(self, *, max_tokens: int | None = 300, token_counter: Callable[[str], int] = ...) -> str:
        """Render a markdown block for a model's instructions; an empty string if there are no such facts.

        Args:
            max_tokens: Maximum length of the block in tokens; None sets no limit.
            token_counter: Counts the tokens of a text.
        """


class Recent(Protocol):
    """The newest memories of a scope."""

    def to_markdown(self, *, messages: bool = False) -> str:
        """Render a markdown block for a model's prompt, optionally with the messages of each episode."""

    def to_dict(self) -> JsonObject:
        """Return the memories as a JSON-ready dictionary."""


class SceneMemory(Protocol):
    """The methods of a memory that stores a story, as ``AgentMemory`` and ``RemoteMemory`` have them."""

    def scene(
        self,
        scope: str,
        *,
        chat_length: int,
        present: Sequence[str] = (),
        pov: Sequence[str] = (),
        budget: int = 10_000,
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


def scene_memory_of(memory: Memory) -> SceneMemory:
    """Return the memory itself if it has the methods of :class:`SceneMemory`."""
    if not callable(getattr(memory, "scene", None)):
        raise ConfigurationError(f"{type(memory).__name__} does not tell scenes: give an AgentMemory or a RemoteMemory")
    return cast("SceneMemory", memory)
