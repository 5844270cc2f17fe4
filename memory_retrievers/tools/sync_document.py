"""The document format of ``memory_sync``: how it is written, parsed and validated."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Self, TypeAlias

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    ContentType,
    Draft,
    EpisodicDraft,
    JsonObject,
    MemoryKey,
    Origin,
    SemanticDraft,
    SemanticMemory,
    SummaryBy,
    Tier,
    scopes,
)
from memory_retrievers.models.fields import (
    DistinctTexts,
    Metadata,
    NonBlankText,
    ShortText,
    Text,
    UnitInterval,
    UTCDateTime,
    iso,
    json_extent,
)
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.models.messages import Message, Said
from memory_retrievers.models.scenes import SceneDetails
from memory_retrievers.settings import ToolSettings
from memory_retrievers.tools.tool import ROOT

FORMAT_VERSION: Final = "1.0"


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if value is not None}
        return given


class _StoredLine(_Line):
    """What a fact and an episode have in common; ``content`` is what a search finds: the fact, or the summary."""

    draft_type: ClassVar[type[Draft]]
    text_field: ClassVar[str]

    memory_id: ShortText | None = None
    content: NonBlankText
    scope: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    tags: DistinctTexts = ()
    created_at: UTCDateTime | None = None
    updated_at: UTCDateTime | None = None
    associations: tuple[str, ...] = ()
    content_type: ContentType = ContentType.TEXT
    memory_tier: Tier = Tier.LONG_TERM
    agent_id: ShortText | None = None
    expires_at: UTCDateTime | None = None
    importance_score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    importance_pinned: bool = False
    access_count: Annotated[int, Field(ge=0, lt=2**53)] = 0  # leaves room to count on
    last_accessed_at: UTCDateTime | None = None
    consolidated_from: tuple[ShortText, ...] = ()

    def id_in(self, scope: str) -> str:
        """Its id; without one, one that the same content always gets, so that reading twice stores once."""
        return self.memory_id or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{scope}\n{self.content}"))

    def draft(self, *, scope: str, id: str, origin: Origin = Origin.TOOL) -> Draft:
        """The memory to be stored, with every time the line came with.

        Args:
            scope: Where to store it.
            id: Under which id.
            origin: How it came to be.
        """
        fields: dict[str, object] = {name: getattr(self, name) for name in self.same_names()}
        fields |= {"scope": scope, "id": id, "origin": origin, self.text_field: self.content}
        fields |= {"tier": self.memory_tier, "importance": self.importance_score}
        return self.draft_type.model_validate(fields)

    @classmethod
    def parse(cls, line: object) -> Self:
        with in_our_words():
            return cls.model_validate(line)

    @classmethod
    def same_names(cls) -> list[str]:
        """Fields that have the same name in a memory."""
        return [name for name in cls.model_fields if name in cls.draft_type.model_fields and name != "scope"]


class MemoryLine(_StoredLine):
    """One fact. The keys in ``_FORMAT`` are the format; the others keep what is left of a memory."""

    draft_type: ClassVar[type[Draft]] = SemanticDraft
    text_field: ClassVar[str] = "fact"

    category: Category = Category.NOTE
    keywords: DistinctTexts = ()
    source_episodic_ids: DistinctTexts = ()
    valid_at: UTCDateTime | None = None
    invalid_at: UTCDateTime | None = None
    replaced_by: ShortText | None = None


class EpisodeLine(_StoredLine):
    """One episode; ``content`` is its summary, and its messages stand in order, as they were said."""

    draft_type: ClassVar[type[Draft]] = EpisodicDraft
    text_field: ClassVar[str] = "summary"

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


AnyLine: TypeAlias = MemoryLine | EpisodeLine

_WRITTEN = "memory_id content scope metadata tags category created_at updated_at associations"
_FORMAT: Final = frozenset(_WRITTEN.split())  # keys that are written also where they are the default


class AssociationLine(_Line):
    """One association; a scope that is left out is that of the only memory with that id in the document."""

    source_id: ShortText
    source_scope: str | None = None
    target_id: ShortText
    target_scope: str | None = None
    association_type: AssociationType = AssociationType.SEMANTIC
    strength: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    auto_generated: bool = False
    created_at: UTCDateTime | None = None


def memory_line(memory: AnyMemory, *, scope: str, associated: list[str]) -> JsonObject:
    """A memory as the document has it; defaults are left out, except in the keys of the format.

    Args:
        memory: The memory.
        scope: Its scope relative to the root.
        associated: The ids of the memories that it is associated with.
    """
    model: type[AnyLine] = MemoryLine if isinstance(memory, SemanticMemory) else EpisodeLine
    content = getattr(memory, model.text_field)
    fields: dict[str, object] = {name: getattr(memory, name) for name in model.same_names()}
    fields |= {"content": content, "memory_tier": memory.tier, "importance_score": memory.importance}
    line: AnyLine = model.model_validate(fields)
    written = {name: value for name, value in line.model_dump(exclude_defaults=True).items() if name not in _FORMAT}
    if isinstance(memory, SemanticMemory):
        category = {"category": str(memory.category)}
        if memory.valid_at == memory.created_at:
            written.pop("valid_at")
    else:
        category = {}
        written["messages"] = [message.model_dump(mode="json") for message in memory.messages]
    return {
        "memory_id": memory.id,
        "content": content,
        "scope": scope,
        "metadata": memory.metadata,
        "tags": list(memory.tags),
        **category,
        "created_at": iso(memory.created_at),
        "updated_at": iso(memory.updated_at),
        "associations": associated,
    } | {name: iso(value) if name.endswith("_at") else value for name, value in written.items()}


def is_line_of(line: AnyLine, memory: AnyMemory) -> bool:
    """True if a line tells what a memory says already; where both are, and how often it was read, tells nothing."""
    known = type(line).parse(memory_line(memory, scope="", associated=[]))
    besides = {"memory_id", "scope", "associations", "access_count", "last_accessed_at"}
    return line.model_dump(exclude=besides) == known.model_dump(exclude=besides)


def association_line(association: Association, *, scope_of: Mapping[MemoryKey, str]) -> JsonObject:
    """An association as the document has it."""
    return {
        "source_id": association.source.id,
        "source_scope": scope_of[association.source],
        "target_id": association.target.id,
        "target_scope": scope_of[association.target],
        "association_type": str(association.type),
        "strength": association.strength,
        "auto_generated": association.auto_generated,
        "created_at": iso(association.created_at),
    }


def parse(text: str, *, validate: bool, settings: ToolSettings) -> JsonObject:
    """The document, with its lists of facts and episodes, which are not looked into unless ``validate`` is set.

    Args:
        text: The document.
        validate: Whether each memory has to have content.
        settings: How much may be in it; that is known before it is read.

    Raises:
        ValidationError: It is no such document, of another version, beyond a limit, or a memory has no content.
    """
    extent = json_extent(text.encode("utf-8", "replace"))
    if extent.values > settings.import_max_values:
        raise _beyond(f"it has {extent.values} values", settings.import_max_values, "import_max_values")
    if extent.depth > settings.import_max_depth:
        raise _beyond(f"it is nested {extent.depth} deep", settings.import_max_depth, "import_max_depth")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError("Invalid import data: this is not JSON") from error
    if not isinstance(document, dict) or not isinstance(document.get("memories"), list):
        raise ValidationError("Invalid import data: it must be an object with a list of memories")
    for name in ("episodes", "associations"):
        if not isinstance(document.get(name, []), list):
            raise ValidationError(f"Invalid import data: {name} must be a list")
    memories, episodes = document["memories"], document.get("episodes", [])
    messages = sum(map(_messages_of, episodes))
    if (count := len(memories) + len(episodes) + messages) > settings.import_max_memories:
        found = f"{count} memories" + (" and messages" if messages else "")
        raise _beyond(f"it has {found}", settings.import_max_memories, "import_max_memories")
    if validate:
        _check_contents(document)
    return document


def _check_contents(document: JsonObject) -> None:
    if document.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        raise ValidationError(f"Invalid import data: format_version must be {FORMAT_VERSION}")
    for name, lines in (("memory", document["memories"]), ("episode", document.get("episodes", []))):
        for index, line in enumerate(lines):
            content = line.get("content") if isinstance(line, dict) else None
            if not isinstance(content, str) or not content.strip():
                raise ValidationError(f"Invalid import data: {name} {index} has no content")


def _messages_of(line: object) -> int:
    """The number of messages of an episode, each of which is embedded."""
    messages = line.get("messages") if isinstance(line, dict) else None
    return len(messages) if isinstance(messages, list) else 0


def _beyond(found: str, most: int, setting: str) -> ValidationError:
    return ValidationError(
        f"Invalid import data: {found}, at most {most} are allowed: import it in parts, or let the host raise "
        f"{setting} of ToolSettings"
    )


def parse_association(line: object) -> AssociationLine | None:
    """One association of the document; None if it is none."""
    try:
        return AssociationLine.model_validate(line)
    except pydantic.ValidationError:
        return None


def under(prefix: str | None, scope: str) -> str:
    """A scope of a document below the one it is taken into, both relative to the root.

    >>> under("imported", "work"), under(None, "work"), under("imported", ".")
    ('imported/work', 'work', 'imported')
    """
    return scope if prefix is None or prefix == ROOT else scopes.join(prefix, scope)
