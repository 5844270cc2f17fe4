"""What the answers of the memory tools are made of: memories and associations as objects a model may see.

Scopes are shown relative to the root of the context, and nothing that lies outside of it is ever named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_retrievers import associations
from memory_retrievers.managed import Association
from memory_retrievers.management.reading import key_of
from memory_retrievers.models import AnyMemory, JsonObject, SemanticMemory
from memory_retrievers.rendering.levels import preview
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.spec import ToolContext

__all__ = ["MOST_ASSOCIATIONS", "association_object", "complete", "glance", "key_of", "rounded", "text_of"]

MOST_ASSOCIATIONS: Final = 100
"""So many associations of one memory are shown, the strongest: one that many others are near to has thousands."""

_DECIMALS: Final = 6


def text_of(memory: AnyMemory) -> str:
    """The content of a memory as the tools understand it: a fact's sentence, or an episode's summary."""
    return memory.fact if isinstance(memory, SemanticMemory) else memory.summary


def rounded(score: float) -> float:
    """A score as answers show it: six decimals tell scores apart, more are noise of 32-bit vectors."""
    return round(score, _DECIMALS)


def complete(
    context: ToolContext,
    memory: AnyMemory,
    *,
    similarity: float | None = None,
    linked: Sequence[Association] = (),
) -> JsonObject:
    """All that a model may see of a memory.

    Args:
        context: Says from where scopes are seen.
        memory: The memory.
        similarity: How near it is to what was asked, if something was.
        linked: Its associations, strongest first; they must lie within the root.
    """
    shown: JsonObject = {
        "id": memory.id,
        "content": text_of(memory),
        "scope": context.shown(memory.scope),
        "similarity_score": None if similarity is None else rounded(similarity),
        "tags": list(memory.tags),
        "category": str(memory.category) if isinstance(memory, SemanticMemory) else None,
        "created_at": iso(memory.created_at),
        "metadata": memory.metadata,
        "associations": [association_object(context, each, of=memory) for each in linked],
        "content_type": str(memory.content_type),
        "memory_tier": str(memory.tier),
        "agent_id": memory.agent_id,
        "updated_at": iso(memory.updated_at),
        "expires_at": None if memory.expires_at is None else iso(memory.expires_at),
        "importance_score": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": None if memory.last_accessed_at is None else iso(memory.last_accessed_at),
        "consolidated_from": list(memory.consolidated_from) or None,
    }
    return {key: value for key, value in shown.items() if value is not None}


def association_object(context: ToolContext, association: Association, *, of: AnyMemory) -> JsonObject:
    """All that a model may see of an association, from the side of one of its two memories."""
    other = association.target if association.source == key_of(of) else association.source
    return {
        "source_id": association.source.id,
        "target_id": association.target.id,
        "associated_id": other.id,
        "scope": context.shown(other.scope),
        "association_type": str(association.type),
        "strength": rounded(association.strength),
        "level": str(associations.level(association.strength)),
        "auto_generated": association.auto_generated,
        "created_at": iso(association.created_at),
    }


def glance(context: ToolContext, memory: AnyMemory, *, length: int, key: str = "content_preview") -> JsonObject:
    """A memory in three keys: id, scope, and the beginning of its content."""
    return {"id": memory.id, "scope": context.shown(memory.scope), key: preview(text_of(memory), length)}
