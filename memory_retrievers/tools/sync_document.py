"""The document format of ``memory_sync``: how it is written, parsed and validated."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Annotated, Final

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import (
    Category,
    ContentType,
    JsonObject,
    MemoryKey,
    Origin,
    SemanticDraft,
    SemanticMemory,
    Tier,
    scopes,
)
from memory_retrievers.models.fields import (
    DistinctTexts,
    JsonExtent,
    Metadata,
    NonBlankText,
    ShortText,
    UTCDateTime,
    json_extent,
)
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.settings import ToolSettings
from memory_retrievers.text.dates import iso
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


class MemoryLine(_Line):
    """One memory. The first nine keys are the format; the others keep what is left of a memory."""

    memory_id: ShortText | None = None
    content: NonBlankText
    scope: str | None = None
    metadata: Metadata = Field(default_factory=dict)
    tags: DistinctTexts = ()
    category: Category = Category.NOTE
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
    keywords: DistinctTexts = ()
    source_episodic_ids: DistinctTexts = ()
    valid_at: UTCDateTime | None = None
    invalid_at: UTCDateTime | None = None
    replaced_by: ShortText | None = None

    def draft(self, *, scope: str, id: str, origin: Origin = Origin.TOOL) -> SemanticDraft:
        """The memory to be stored, with every time it came with.

        Args:
            scope: The scope to store it in, as the store knows it.
            id: The id to store it under.
            origin: The origin to record.

        Raises:
            pydantic.ValidationError: A field breaks a rule of drafts.
        """
        fields: dict[str, object] = {name: getattr(self, name) for name in _SAME_NAME}
        fields |= {"scope": scope, "id": id, "fact": self.content, "origin": origin}
        return SemanticDraft.model_validate(fields | {"tier": self.memory_tier, "importance": self.importance_score})

    def id_in(self, scope: str) -> str:
        """Its id; without one, one that the same content always gets, so that reading twice stores once."""
        return self.memory_id or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{scope}\n{self.content}"))


_SAME_NAME: Final = (
    "metadata",
    "tags",
    "category",
    "created_at",
    "updated_at",
    "content_type",
    "agent_id",
    "expires_at",
    "importance_pinned",
    "access_count",
    "last_accessed_at",
    "consolidated_from",
    "keywords",
    "source_episodic_ids",
    "valid_at",
    "invalid_at",
    "replaced_by",
)


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


def memory_line(memory: SemanticMemory, *, scope: str, associated: list[str]) -> JsonObject:
    """A memory as the document has it; defaults are left out, except in the keys of the format.

    Args:
        memory: The memory.
        scope: Its scope relative to the root.
        associated: The ids of the memories that it is associated with.
    """
    fields: dict[str, object] = {name: getattr(memory, name) for name in _SAME_NAME}
    fields |= {"content": memory.fact, "memory_tier": memory.tier, "importance_score": memory.importance}
    line = MemoryLine.model_validate(fields)
    kept = {name: value for name, value in line.model_dump(exclude_defaults=True).items() if name not in _FORMAT}
    if memory.valid_at == memory.created_at:
        kept.pop("valid_at")
    return {
        "memory_id": memory.id,
        "content": memory.fact,
        "scope": scope,
        "metadata": memory.metadata,
        "tags": list(memory.tags),
        "category": str(memory.category),
        "created_at": iso(memory.created_at),
        "updated_at": iso(memory.updated_at),
        "associations": associated,
    } | {name: iso(value) if name.endswith("_at") else value for name, value in kept.items()}


_FORMAT: Final = frozenset(list(MemoryLine.model_fields)[:9])


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
    """The document, with its list of memories, which are not looked into unless ``validate`` is set.

    Args:
        text: The document.
        validate: Whether each memory has to have content.
        settings: How much may be in it; that is known before it is read.

    Raises:
        ValidationError: It is no such document, of another version, beyond a limit, or a memory has no content.
    """
    _check_extent(json_extent(text.encode("utf-8", "replace")), settings)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError("Invalid import data: this is not JSON") from error
    if not isinstance(document, dict) or not isinstance(document.get("memories"), list):
        raise ValidationError("Invalid import data: it must be an object with a list of memories")
    if not isinstance(document.get("associations", []), list):
        raise ValidationError("Invalid import data: associations must be a list")
    if (count := len(document["memories"])) > settings.import_max_memories:
        raise _beyond(f"it has {count} memories", settings.import_max_memories, "import_max_memories")
    if validate:
        if document.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
            raise ValidationError(f"Invalid import data: format_version must be {FORMAT_VERSION}")
        for index, memory in enumerate(document["memories"]):
            content = memory.get("content") if isinstance(memory, dict) else None
            if not isinstance(content, str) or not content.strip():
                raise ValidationError(f"Invalid import data: memory {index} has no content")
    return document


def _check_extent(extent: JsonExtent, settings: ToolSettings) -> None:
    if extent.values > settings.import_max_values:
        raise _beyond(f"it has {extent.values} values", settings.import_max_values, "import_max_values")
    if extent.depth > settings.import_max_depth:
        raise _beyond(f"it is nested {extent.depth} deep", settings.import_max_depth, "import_max_depth")


def _beyond(found: str, most: int, setting: str) -> ValidationError:
    return ValidationError(
        f"Invalid import data: {found}, at most {most} are allowed: import it in parts, or let the host raise "
        f"{setting} of ToolSettings"
    )


def parse_memory(line: object) -> MemoryLine:
    """One memory of the document.

    Raises:
        ValidationError: It breaks a rule.
    """
    with in_our_words():
        return MemoryLine.model_validate(line)


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

    Raises:
        ValidationError: One of them is malformed.
    """
    return scope if prefix is None or prefix == ROOT else scopes.join(prefix, scope)
