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
    Draft,
    EpisodicDraft,
    JsonObject,
    MemoryKey,
    Origin,
    SemanticDraft,
    SemanticMemory,
    Tier,
    scopes,
)
from memory_retrievers.models.fields import NonBlankText, ShortText, UTCDateTime, iso, json_extent
from memory_retrievers.models.management import Association, AssociationType
from memory_retrievers.models.memories import MemoryDraft, in_our_words
from memory_retrievers.settings import ToolSettings
from memory_retrievers.tools.tool import ROOT

FORMAT_VERSION: Final = "1.0"
_LEFT_OUT: Final = frozenset({"origin", "last_confirmed_at"})
"""Fields of a draft that no document has; keys of these names are another program's, and passed over."""


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_others(cls, given: object) -> object:
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if value is not None and name not in _LEFT_OUT}
        return given


class _StoredLine(_Line, MemoryDraft):
    """A draft by the names that the document has for its fields; ``content`` is what a search finds."""

    draft_type: ClassVar[type[Draft]]
    text_field: ClassVar[str]

    id: ShortText | None = Field(default=None, alias="memory_id")
    scope: str | None = None  # type: ignore[assignment]  # relative to the root, and may be left out
    tier: Tier = Field(default=Tier.LONG_TERM, alias="memory_tier")
    importance: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(default=0.5, alias="importance_score")
    access_count: Annotated[int, Field(ge=0, lt=2**53)] = 0  # leaves room to count on
    associations: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """The fact, or the summary."""
        return str(getattr(self, self.text_field))

    def id_in(self, scope: str) -> str:
        """Its id; without one, one that the same content always gets, so that reading twice stores once."""
        return self.id or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{scope}\n{self.content}"))

    def draft(self, *, scope: str, id: str, origin: Origin = Origin.TOOL) -> Draft:
        """The memory to be stored, with every time the line came with.

        Args:
            scope: Where to store it.
            id: Under which id.
            origin: How it came to be.
        """
        told = self.draft_type.model_fields.keys() - _LEFT_OUT
        fields: dict[str, object] = {name: getattr(self, name) for name in told}
        return self.draft_type.model_validate(fields | {"scope": scope, "id": id, "origin": origin})

    @classmethod
    def parse(cls, line: object) -> Self:
        with in_our_words():
            return cls.model_validate(line)


class MemoryLine(_StoredLine, SemanticDraft, extra="ignore"):
    """One fact."""

    draft_type: ClassVar[type[Draft]] = SemanticDraft
    text_field: ClassVar[str] = "fact"

    fact: NonBlankText = Field(alias="content")


class EpisodeLine(_StoredLine, EpisodicDraft, extra="ignore"):
    """One episode; its messages stand in order, as they were said."""

    draft_type: ClassVar[type[Draft]] = EpisodicDraft
    text_field: ClassVar[str] = "summary"

    summary: NonBlankText = Field(alias="content")


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
    line = model.trusted({name: getattr(memory, name, ()) for name in model.model_fields})
    written = line.model_dump(by_alias=True, exclude_defaults=True, exclude={"scope", *_LEFT_OUT})
    written = {name: value for name, value in written.items() if name not in _FORMAT}
    if isinstance(memory, SemanticMemory):
        category = {"category": str(memory.category)}
        if memory.valid_at == memory.created_at:
            written.pop("valid_at")
    else:
        category = {}
        written["messages"] = [message.model_dump(mode="json") for message in memory.messages]
    return {
        "memory_id": memory.id,
        "content": line.content,
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
    besides = {"id", "scope", "associations", "access_count", "last_accessed_at", *_LEFT_OUT}
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
    messages = sum(len(m) for e in episodes if isinstance(e, dict) and isinstance(m := e.get("messages"), list))
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
