"""The lines of an export that tell of memories' associations and of their audit, and what all lines have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from memory_retrievers import scopes
from memory_retrievers.fields import Text, UTCDateTime
from memory_retrievers.managed import Association, AssociationType, AuditEntry, AuditType
from memory_retrievers.models import JsonObject, MemoryKey


class Line(BaseModel):
    """A line, which has the fields it is known to have and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Key(Line):
    """Which memory is meant."""

    scope: str
    id: str


class _Association(Line):
    source: Key
    target: Key
    association_type: AssociationType
    strength: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    auto_generated: bool
    created_at: UTCDateTime


class _AuditEntry(Line):
    memory: Key
    action: AuditType
    at: UTCDateTime
    old: FiniteFloat
    new: FiniteFloat
    reason: Text | None


def association_line(association: Association) -> JsonObject:
    """An association's line."""
    line = _Association(
        source=named(association.source),
        target=named(association.target),
        association_type=association.type,
        strength=association.strength,
        auto_generated=association.auto_generated,
        created_at=association.created_at,
    )
    return {"type": "association", **line.model_dump(mode="json")}


def audit_line(entry: AuditEntry) -> JsonObject:
    """An audit entry's line."""
    line = _AuditEntry(
        memory=named(entry.memory), action=entry.type, at=entry.at, old=entry.old, new=entry.new, reason=entry.reason
    )
    return {"type": "audit", **line.model_dump(mode="json")}


def named(key: MemoryKey) -> Key:
    """A memory's identity in a line."""
    return Key(scope=key.scope, id=key.id)


def key_of(named: Key) -> MemoryKey:
    """And back.

    Raises:
        ValidationError: The scope is malformed.
    """
    return MemoryKey(scope=scopes.parse(named.scope), id=named.id)


def parse_association(line: JsonObject) -> Association:
    """Read an association's line, without its type.

    Raises:
        ValidationError: A scope is malformed; pydantic's own error where a field is wrong.
    """
    read = _Association.model_validate(line)
    return Association(
        source=key_of(read.source),
        target=key_of(read.target),
        type=read.association_type,
        strength=read.strength,
        auto_generated=read.auto_generated,
        created_at=read.created_at,
    )


def parse_audit(line: JsonObject) -> AuditEntry:
    """Read an audit entry's line, without its type; errors as for :func:`parse_association`."""
    read = _AuditEntry.model_validate(line)
    return AuditEntry(
        memory=key_of(read.memory), type=read.action, at=read.at, old=read.old, new=read.new, reason=read.reason
    )
