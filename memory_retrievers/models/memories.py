"""The records of a memory, as immutable values independent of storage and ranking, and changes of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, TypeVar

import pydantic
from pydantic import Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import (
    Category,
    DistinctTexts,
    Metadata,
    NewId,
    NonBlankText,
    ShortText,
    Text,
    UnitInterval,
    UTCDateTime,
    ValidatedModel,
    Value,
    storable,
)
from memory_retrievers.models.messages import Message, Said
from memory_retrievers.models.scenes import SceneDetails

KEY_MOMENT_SURPRISE = 0.7  # from this surprise on an episode is a key moment (specification §2.6)


class Kind(StrEnum):
    """The two kinds of memory."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"


class Rating(StrEnum):
    """Usefulness of a retrieved memory, on the scale of FSRS."""

    AGAIN = "again"
    HARD = "hard"
    GOOD = "good"
    EASY = "easy"


class DetailLevel(StrEnum):
    """Amount of detail with which each episode is rendered in markdown."""

    AUTO = "auto"
    NONE = "none"
    LOW = "low"
    HIGH = "high"
    EXCERPTS = "excerpts"


class SummaryBy(StrEnum):
    """Author of an episode's title and summary."""

    MODEL = "model"
    RULES = "rules"
    CALLER = "caller"


class ResponseLevel(StrEnum):
    """Amount of detail in a tool's answer; each level includes the one before."""

    MINIMAL = "minimal"
    STANDARD = "standard"
    FULL = "full"


class Tier(StrEnum):
    """Intended lifetime of a memory."""

    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"
    WORKING = "working"


class ContentType(StrEnum):
    """Type of a memory's text."""

    TEXT = "text"
    IMAGE = "image"
    CODE = "code"
    JSON = "json"
    YAML = "yaml"


class Origin(StrEnum):
    """Source of a memory."""

    TOOL = "tool"
    API = "api"
    CONVERSATION = "conversation"
    CONSOLIDATION = "consolidation"
    IMPORT = "import"
    STORE = "store"


PINNED_IMPORTANCE: Final = 0.5  # set by hand, from here on a memory counts as pinned: the importance of a new one


class MemoryDraft(ValidatedModel, Value):
    """Base of both kinds of memory: the fields that the memory tools use.

    Attributes:
        scope: The scope this memory belongs to, for example ``user/alice``.
        id: Unique within the scope; None lets the store make a UUIDv7.
        created_at: When the memory was created; None means now.
        updated_at: When its content last changed; None means ``created_at``.
        expires_at: The moment from which it is no longer found; None means never.
        tier: How long the memory is meant to live.
        tags: Labels, stripped and distinct, in the order given.
        metadata: Any JSON object; never interpreted.
        content_type: What the text is.
        agent_id: The agent that wrote it.
        origin: Where it came from.
        importance: 0 to 1.
        importance_pinned: Whether the importance was set by hand, so that accesses no longer change it.
        access_count: How often the tools have returned it.
        last_accessed_at: When they last did.
        consolidated_from: The ids this memory was merged from.
    """

    scope: str
    id: NewId | None = None
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
    def is_pinned(self) -> bool:
        """True if its importance was set by hand to that of a new memory or more: a model should always know it."""
        return self.importance_pinned and self.importance >= PINNED_IMPORTANCE

    @property
    def is_searchable(self) -> bool:
        """True if searches find it: all but JSON values that a LangGraph store was asked not to index."""
        return not (self.origin is Origin.STORE and self.content_type is ContentType.JSON)

    def has_expired(self, now: datetime) -> bool:
        """Return True if the memory is invisible at this moment, since it has expired."""
        return self.expires_at is not None and self.expires_at <= now


class EpisodicDraft(MemoryDraft):
    """An episode before it is stored.

    Attributes:
        summary: What happened, in a sentence or two; the text that is searched.
        title: A headline; may be empty.
        messages: What was said in it, complete.
        surprise: How unexpected the episode was, 0 to 1 (clamped); from 0.7 on it is a key moment.
        start_at: The first message's time; None takes it from the messages, or ``created_at``.
        end_at: The last message's time; None takes it from the messages, or ``created_at``.
        stability: FSRS stability in days; None is that of a fresh memory, raised by surprise.
        difficulty: FSRS difficulty, 1 to 10; None is that of a fresh memory.
        last_reviewed_at: When it last proved useful; None means ``created_at``.
        consolidated_at: When facts were extracted from it; None means not yet.
        is_flashbulb: It never fades and is not reviewed (specification §2.16).
        scene: What makes it a scene of a story; None for a conversation.
        conversation_id: The name of its conversation, as given to ``add_messages``; None if it has none.
        summary_by: Who wrote the summary: a language model, rules, or who stored the episode.
    """

    kind: ClassVar[Kind] = Kind.EPISODIC

    summary: NonBlankText
    title: Text = ""
    messages: Said[Message] = ()
    surprise: UnitInterval = 0.0
    start_at: UTCDateTime | None = None
    end_at: UTCDateTime | None = None
    stability: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    difficulty: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] | None = None
    last_reviewed_at: UTCDateTime | None = None
    consolidated_at: UTCDateTime | None = None
    is_flashbulb: bool = False
    scene: SceneDetails | None = None
    conversation_id: ShortText | None = None
    summary_by: SummaryBy = SummaryBy.CALLER

    @property
    def embedding_text(self) -> str:
        """The text whose vector is stored: the summary; the title is not indexed (specification §2.1)."""
        return self.summary

    @property
    def search_text(self) -> str:
        """The text BM25 indexes: the summary."""
        return self.summary


class SemanticDraft(MemoryDraft):
    """A fact before it is stored.

    Attributes:
        fact: One sentence in natural language.
        category: What it is about.
        keywords: Names and nouns that help to find it.
        source_episodic_ids: The episodes it was learned from, distinct.
        valid_at: When it was learned; None means ``created_at``.
        invalid_at: When it stops being valid; None means it is valid.
        replaced_by: The id of the fact that replaced it; an earlier version of a fact has the fact's own id.
        last_confirmed_at: When the fact was last stated again; None means never since it became valid.
    """

    kind: ClassVar[Kind] = Kind.SEMANTIC

    fact: NonBlankText
    category: Category = Category.NOTE
    keywords: DistinctTexts = ()
    source_episodic_ids: DistinctTexts = ()
    valid_at: UTCDateTime | None = None
    invalid_at: UTCDateTime | None = None
    replaced_by: ShortText | None = None
    last_confirmed_at: UTCDateTime | None = None

    @property
    def embedding_text(self) -> str:
        """The text whose vector is stored: category, fact and keywords (specification §2.1); of an item its text."""
        return self.search_text if self.origin is Origin.STORE else f"{self.category}: {self.search_text}"

    @property
    def search_text(self) -> str:
        """The text BM25 indexes: fact and keywords (specification §2.1)."""
        return " ".join((self.fact, *self.keywords))


class _Stored(MemoryDraft):
    """What every stored memory has."""

    id: ShortText
    created_at: UTCDateTime
    updated_at: UTCDateTime

    @property
    def key(self) -> MemoryKey:
        """Identity of the memory: its scope and id."""
        return MemoryKey(scope=self.scope, id=self.id)


class EpisodicMemory(_Stored, EpisodicDraft):
    """A stored episode: every id, time and forgetting state is set.

    Attributes:
        is_open: Whether the conversation is still queued: it has no summary yet, and its id will change.
    """

    new: ClassVar[type[EpisodicDraft]] = EpisodicDraft

    messages: tuple[Message, ...] = ()  # roles as they are kept
    summary: Text
    is_open: bool = False
    start_at: UTCDateTime
    end_at: UTCDateTime
    stability: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    difficulty: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]
    last_reviewed_at: UTCDateTime

    @pydantic.model_validator(mode="after")
    def _check_summary(self) -> Self:
        if not self.summary.strip() and not self.is_open:
            raise ValueError("summary must not be blank")
        return self

    @property
    def is_key_moment(self) -> bool:
        """True if the episode was surprising enough to be rendered in detail."""
        return self.surprise >= KEY_MOMENT_SURPRISE


class NearFact(Value):
    """A known fact that is similar to one just stored, and differs in a detail, a word or the order of words."""

    id: ShortText  # its id
    fact: NonBlankText  # what it says
    valid_at: UTCDateTime  # since when it holds


class SemanticMemory(_Stored, SemanticDraft):
    """A stored fact: every id and time is set. Facts do not decay.

    Attributes:
        duplicate_of: The fact's own id, if the call stored nothing because this fact was already known. Not kept.
        near: In the answer to a call that stored this fact alone: known facts that it may contradict.
            Not kept.
    """

    new: ClassVar[type[SemanticDraft]] = SemanticDraft

    valid_at: UTCDateTime
    duplicate_of: ShortText | None = None
    near: tuple[NearFact, ...] = ()


ANSWER_FIELDS: Final = frozenset({"duplicate_of", "near"})  # fields of a fact that only answers have

Draft: TypeAlias = EpisodicDraft | SemanticDraft
AnyMemory: TypeAlias = EpisodicMemory | SemanticMemory
MemoryT = TypeVar("MemoryT", EpisodicMemory, SemanticMemory)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKey:
    """The identity of a memory: the same id in two scopes is two memories."""

    __pydantic_config__: ClassVar = pydantic.ConfigDict(extra="forbid")  # where a record that is read holds one

    scope: str
    id: str


def parse_id(id: object) -> str:
    """Return an id as it is stored; it must be text: a database would take a number for the text of it."""
    if not isinstance(id, str):
        raise ValidationError(f"an id must be text, not {type(id).__name__}")
    return storable(id)


class ScopeStatistics(Value):
    """Counts of the contents of a scope, or of a whole store."""

    episodes: int = 0
    facts: int = 0
    invalidated_facts: int = 0
    pending_reviews: int = 0
    queued_messages: int = 0


def draft_of(given: Draft | Mapping[str, object]) -> Draft:
    """Check a draft that may be given as a mapping of its fields: with a ``fact`` it is one, else an episode.

    Raises:
        ValidationError: It is neither a draft nor a mapping, or a field breaks a rule.
    """
    if isinstance(given, EpisodicDraft) and given.start_at and given.end_at and given.start_at > given.end_at:
        raise ValidationError(f"start_at {given.start_at.isoformat()} is after end_at {given.end_at.isoformat()}")
    if isinstance(given, EpisodicDraft | SemanticDraft):
        return given
    if not isinstance(given, Mapping):
        raise ValidationError(
            f'a memory is a draft, or a mapping such as {{"scope": ..., "fact": ...}}, not {type(given).__name__}'
        )
    if ("fact" in given) == ("summary" in given):
        raise ValidationError("a memory needs a fact or a summary, and not both: a fact or an episode")
    with in_our_words():
        return draft_of((SemanticDraft if "fact" in given else EpisodicDraft).model_validate(dict(given)))


JsonObject: TypeAlias = dict[str, Any]
"""A JSON-ready object on its way out: raw results, tool answers."""


class NotGiven(Enum):
    """Type of a field that is left as it is; None is a value."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN


@contextmanager
def in_our_words(within: str | None = None) -> Iterator[None]:
    """Raise what pydantic complains of as a ``ValidationError``; ``within`` names the argument that is checked."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error, within=within) from error


def changed(memory: AnyMemory, fields: Mapping[str, object], *, now: datetime) -> AnyMemory:
    """Return the memory with some fields changed and validated; ``memory`` itself if nothing differs.

    Args:
        memory: The memory.
        fields: New values by field; ``NOT_GIVEN`` leaves a field as it is.
        now: Time to set as ``updated_at``, unless a clock that has been set back since was ahead of it.

    Raises:
        ValidationError: A field is not one of this kind of memory, or breaks a rule.
    """
    given = {name: value for name, value in fields.items() if value is not NOT_GIVEN}
    if foreign := sorted(given.keys() - type(memory).model_fields.keys()):
        kind = "an episode" if isinstance(memory, EpisodicMemory) else "a fact"
        raise ValidationError(f"{memory.id} is {kind}, which has no {' and no '.join(foreign)}")
    if not given:
        return memory
    if given.get("tier") == Tier.LONG_TERM and memory.tier is not Tier.LONG_TERM:
        given.setdefault("expires_at", None)  # what is promoted stays
    kept = {name: getattr(memory, name) for name in type(memory).model_fields}
    candidate = type(memory)(**kept | given)
    return memory if candidate == memory else candidate.model_copy(update={"updated_at": max(now, memory.updated_at)})
