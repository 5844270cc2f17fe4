"""The records, and the small words they are made of: plain frozen values that know nothing of storage or ranking.

A *draft* is what a caller hands in: ids, times and forgetting state may still be missing. A *memory* is what the
store hands out: everything is there. ``EpisodicMemory.new(...)`` and ``SemanticMemory.new(...)`` make drafts.
Constructors raise pydantic's own error; the methods of the package turn it into its ``ValidationError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import Field

from memory_retrievers.fields import (
    DistinctTexts,
    Metadata,
    NonBlankText,
    ShortText,
    Text,
    UnitInterval,
    UTCDateTime,
    Value,
)
from memory_retrievers.messages import Message
from memory_retrievers.scene_records import SceneDetails

KEY_MOMENT_SURPRISE = 0.7
"""From this surprise on an episode counts as a key moment (specification §2.6)."""


class Kind(StrEnum):
    """The two kinds of memory."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"


class Category(StrEnum):
    """What a fact is about."""

    IDENTITY = "identity"
    PREFERENCE = "preference"
    INTEREST = "interest"
    PERSONALITY = "personality"
    RELATIONSHIP = "relationship"
    EXPERIENCE = "experience"
    GOAL = "goal"
    GUIDELINE = "guideline"
    NOTE = "note"


class Rating(StrEnum):
    """How much a retrieved memory helped, in the words of FSRS."""

    AGAIN = "again"
    HARD = "hard"
    GOOD = "good"
    EASY = "easy"


class DetailLevel(StrEnum):
    """How deep each episode is told in markdown."""

    AUTO = "auto"
    NONE = "none"
    LOW = "low"
    HIGH = "high"
    EXCERPTS = "excerpts"


class ResponseLevel(StrEnum):
    """How much a tool answers; each level holds what the one before holds."""

    MINIMAL = "minimal"
    STANDARD = "standard"
    FULL = "full"


class Tier(StrEnum):
    """How long a memory is meant to live."""

    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"
    WORKING = "working"


class ContentType(StrEnum):
    """What the text of a memory is."""

    TEXT = "text"
    IMAGE = "image"
    CODE = "code"
    JSON = "json"
    YAML = "yaml"


class Origin(StrEnum):
    """Where a memory came from."""

    TOOL = "tool"
    API = "api"
    CONVERSATION = "conversation"
    CONSOLIDATION = "consolidation"
    IMPORT = "import"
    STORE = "store"


class MemoryDraft(Value):
    """What both kinds of memory share; the part the memory tools work on.

    Attributes:
        scope: The path of isolation this memory belongs to, for example ``user/alice``.
        id: Unique within the scope; None lets the store make a UUIDv7.
        created_at: When the memory was made; None means now.
        updated_at: When its content last changed; None means ``created_at``.
        expires_at: From this moment on the memory is invisible; None means never.
        tier: How long the memory is meant to live.
        tags: Labels, stripped and distinct, in the order given.
        metadata: Any JSON object; never interpreted.
        content_type: What the text is.
        agent_id: The agent that wrote it.
        origin: Where it came from.
        importance: 0 to 1.
        importance_pinned: Set by hand, so accesses no longer change it.
        access_count: How often the tools have handed it out.
        last_accessed_at: When they last did.
        consolidated_from: The ids this memory was merged from.
    """

    scope: str
    id: ShortText | None = None
    created_at: UTCDateTime | None = None
    updated_at: UTCDateTime | None = None
    expires_at: UTCDateTime | None = None
    tier: Tier = Tier.LONG_TERM
    tags: DistinctTexts = ()
    metadata: Metadata = Field(default_factory=dict)
    content_type: ContentType = ContentType.TEXT
    agent_id: ShortText | None = None
    origin: Origin = Origin.API
    importance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    importance_pinned: bool = False
    access_count: Annotated[int, Field(ge=0)] = 0
    last_accessed_at: UTCDateTime | None = None
    consolidated_from: tuple[ShortText, ...] = ()

    @property
    def is_searchable(self) -> bool:
        """Whether searches find it: all but the JSON values that a LangGraph store was told not to index."""
        return not (self.origin is Origin.STORE and self.content_type is ContentType.JSON)


class EpisodicDraft(MemoryDraft):
    """An episode on its way into the store.

    Attributes:
        summary: What happened, in a sentence or two; the text that is searched.
        title: A headline; may be empty.
        messages: The source excerpt, kept whole.
        surprise: How unexpected the episode was, 0 to 1 (clamped); from 0.7 on it is a key moment.
        start_at: The first message's time; None takes it from the messages, or ``created_at``.
        end_at: The last message's time; None takes it from the messages, or ``created_at``.
        stability: FSRS stability in days; None takes the state of a fresh memory, raised by surprise.
        difficulty: FSRS difficulty, 1 to 10; None likewise.
        last_reviewed_at: When it last proved useful; None means ``created_at``.
        consolidated_at: When it was turned into facts; None means not yet.
        is_flashbulb: It never fades and is not reviewed (specification §2.16).
        scene: What makes it a scene of a story; None for a conversation.
    """

    kind: ClassVar[Kind] = Kind.EPISODIC

    summary: NonBlankText
    title: Text = ""
    messages: tuple[Message, ...] = ()
    surprise: UnitInterval = 0.0
    start_at: UTCDateTime | None = None
    end_at: UTCDateTime | None = None
    stability: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    difficulty: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] | None = None
    last_reviewed_at: UTCDateTime | None = None
    consolidated_at: UTCDateTime | None = None
    is_flashbulb: bool = False
    scene: SceneDetails | None = None

    @property
    def embedding_text(self) -> str:
        """The text whose vector is stored: the summary; the title is not indexed (specification §2.1)."""
        return self.summary

    @property
    def search_text(self) -> str:
        """The text BM25 indexes: the summary."""
        return self.summary


class SemanticDraft(MemoryDraft):
    """A fact on its way into the store.

    Attributes:
        fact: One sentence in natural language.
        category: What it is about.
        keywords: Names and nouns that help to find it.
        source_episodic_ids: The episodes it was learned from, distinct.
        valid_at: When it was learned; None means ``created_at``.
        invalid_at: From when it no longer holds; None means it still does.
        replaced_by: The id of the fact that holds instead.
    """

    kind: ClassVar[Kind] = Kind.SEMANTIC

    fact: NonBlankText
    category: Category = Category.NOTE
    keywords: DistinctTexts = ()
    source_episodic_ids: DistinctTexts = ()
    valid_at: UTCDateTime | None = None
    invalid_at: UTCDateTime | None = None
    replaced_by: ShortText | None = None

    @property
    def embedding_text(self) -> str:
        """The text whose vector is stored: category, fact and keywords (specification §2.1)."""
        return f"{self.category}: {self.search_text}"

    @property
    def search_text(self) -> str:
        """The text BM25 indexes: fact and keywords (specification §2.1)."""
        return " ".join((self.fact, *self.keywords))


class EpisodicMemory(EpisodicDraft):
    """An episode as the store hands it out: every id, time and forgetting state is there."""

    new: ClassVar[type[EpisodicDraft]] = EpisodicDraft

    id: ShortText
    created_at: UTCDateTime
    updated_at: UTCDateTime
    start_at: UTCDateTime
    end_at: UTCDateTime
    stability: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    difficulty: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]
    last_reviewed_at: UTCDateTime

    @property
    def is_key_moment(self) -> bool:
        """Whether the episode was surprising enough to be told in detail."""
        return self.surprise >= KEY_MOMENT_SURPRISE


class SemanticMemory(SemanticDraft):
    """A fact as the store hands it out: every id and time is there. Facts do not decay."""

    new: ClassVar[type[SemanticDraft]] = SemanticDraft

    id: ShortText
    created_at: UTCDateTime
    updated_at: UTCDateTime
    valid_at: UTCDateTime


Draft: TypeAlias = EpisodicDraft | SemanticDraft
AnyMemory: TypeAlias = EpisodicMemory | SemanticMemory
MemoryT = TypeVar("MemoryT", EpisodicMemory, SemanticMemory)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKey:
    """The identity of a memory: the same id in two scopes is two memories."""

    scope: str
    id: str


class ScopeStatistics(Value):
    """What a scope, or a whole store, holds."""

    episodes: int = 0
    facts: int = 0
    invalidated_facts: int = 0
    pending_reviews: int = 0
    queued_messages: int = 0


JsonObject: TypeAlias = dict[str, Any]
"""A JSON-ready object on its way out: raw results, tool answers."""
