"""``memory_store``: keep one memory, with what it is associated with, unless it is there already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pydantic
from pydantic import Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.managed import Association
from memory_retrievers.models import (
    Category,
    ContentType,
    JsonObject,
    Origin,
    SemanticDraft,
    SemanticMemory,
    Tier,
)
from memory_retrievers.rendering.levels import levels, preview
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.arguments import ManagementArguments, ToolArguments
from memory_retrievers.tools.associating import DuplicateAnalysis, auto_associate, duplicate_analysis
from memory_retrievers.tools.limits import check_limits, expiry
from memory_retrievers.tools.objects import association_object, complete, text_of
from memory_retrievers.tools.parameters import (
    Bounds,
    CategoryName,
    Content,
    ContentTypeName,
    MemoryTier,
    Metadata,
    Tags,
    fraction,
)
from memory_retrievers.tools.spec import ToolContext, ToolOutput

CONTENT_PREVIEW = 50
"""Characters of the content that ``standard`` answers show."""


class StoreItem(ToolArguments):
    """What can be said of one memory that is to be stored."""

    content: Annotated[Content, Field(description="What to remember: one thing, understandable by itself.")]
    content_type: ContentTypeName = ContentType.TEXT
    memory_tier: MemoryTier = Tier.LONG_TERM
    tags: Annotated[Tags, Field(description="Labels to find it by later.")] = ()
    metadata: Annotated[Metadata, Field(description="Anything else to keep with it, as a JSON object.")] = Field(
        default_factory=dict
    )
    agent_id: Annotated[
        str | None, Field(min_length=1, max_length=1_000, description="Which agent stores it, if that matters.")
    ] = None
    ttl_seconds: Annotated[
        Annotated[int, Bounds(name="ttl_seconds", low=0)] | None,
        Field(description="After so many seconds it is gone; leave it out, or 0, for never."),
    ] = None
    category: CategoryName = Category.NOTE
    scope: Annotated[str | None, Field(description="Where to keep it; leave it out for the usual place.")] = None
    auto_associate: Annotated[bool, Field(description="Whether to associate it with similar memories.")] = True
    allow_duplicates: Annotated[
        bool, Field(description="Whether to store it even if the same is there already; if not, that one is given.")
    ] = True
    duplicate_threshold: Annotated[
        float | None,
        *fraction("duplicate_threshold", "Refuse to store it if a memory is this similar, 0 to 1."),
    ] = None

    @property
    def looks_for_duplicates(self) -> bool:
        """Whether what is there already has a say in whether it is stored."""
        return not self.allow_duplicates or self.duplicate_threshold is not None


class MemoryStoreArguments(StoreItem, ManagementArguments):
    """Arguments of ``memory_store``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What became of an item.

    Attributes:
        memory: The memory, new or found.
        is_new: Whether it was stored now.
        associations: Those that were made.
        duplicates: What was looked for beforehand.
    """

    memory: SemanticMemory
    is_new: bool = True
    associations: tuple[Association, ...] = ()
    duplicates: DuplicateAnalysis = field(default_factory=DuplicateAnalysis)


def memory_store(context: ToolContext, arguments: MemoryStoreArguments) -> ToolOutput:
    """Store one memory (specification §3.3, §4.4), or give the one that is there already.

    Raises:
        ValidationError: The content, the tags, the metadata or the time to live break a limit, or the threshold finds
            a duplicate; nothing was stored.
    """
    draft = draft_of(context, arguments)
    with context.manager.transaction(draft.scope):
        stored = store_one(context, arguments, draft)
    return ToolOutput.of(_told(context, arguments, stored))


def draft_of(context: ToolContext, item: StoreItem) -> SemanticDraft:
    """The memory that an item asks for, not stored yet.

    Raises:
        ValidationError: It breaks a limit, or its scope is malformed.
    """
    settings, now = context.manager.settings, context.manager.now()
    check_limits(settings, content=item.content, tags=item.tags, metadata=item.metadata)
    try:
        return SemanticDraft(
            scope=context.scope_named(item.scope),
            fact=item.content,
            category=item.category,
            content_type=item.content_type,
            tier=item.memory_tier,
            tags=item.tags,
            metadata=item.metadata,
            agent_id=item.agent_id,
            origin=Origin.TOOL,
            created_at=now,
            expires_at=expiry(now, ttl_seconds=item.ttl_seconds),
        )
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error) from error


def store_one(context: ToolContext, item: StoreItem, draft: SemanticDraft) -> Stored:
    """Look for duplicates, store and associate; inside a transaction, so that all of it is kept or none.

    Raises:
        ValidationError: The threshold finds a duplicate.
    """
    analysis = duplicate_analysis(
        context,
        content=draft.fact,
        category=draft.category,
        scope=draft.scope,
        allow_duplicates=item.allow_duplicates,
        duplicate_threshold=item.duplicate_threshold,
    )
    if analysis.refusal is not None:
        raise ValidationError(analysis.refusal, details={"duplicate_analysis": analysis.to_object(context)})
    if analysis.existing is not None:
        return Stored(memory=analysis.existing, is_new=False, duplicates=analysis)
    (memory,) = context.manager.add([draft])
    return Stored(memory=memory, associations=associated(context, item, memory), duplicates=analysis)


def associated(context: ToolContext, item: StoreItem, memory: SemanticMemory) -> tuple[Association, ...]:
    """The associations made for a memory that was just stored, if its item wants any."""
    return tuple(auto_associate(context, memory)) if item.auto_associate else ()


def _told(context: ToolContext, arguments: MemoryStoreArguments, stored: Stored) -> JsonObject:
    memory = stored.memory
    duplicate_of = None if stored.is_new else memory.id
    if context.response_format == "seed004":
        told = {
            "id": memory.id,
            "content": text_of(memory),
            "memory_tier": str(memory.tier),
            "created_at": iso(memory.created_at),
        }
        return told if duplicate_of is None else told | {"duplicate_of": duplicate_of}
    return levels(
        {"success": True, "memory_id": memory.id, "duplicate_of": duplicate_of},
        {
            "id": memory.id,
            "memory_tier": str(memory.tier),
            "created_at": iso(memory.created_at),
            "content": preview(text_of(memory), CONTENT_PREVIEW),
            "scope": context.shown(memory.scope),
            "associations_count": len(stored.associations),
        },
        {
            "memory_object": complete(context, memory, linked=stored.associations),
            "associations_details": [association_object(context, each, of=memory) for each in stored.associations],
            "duplicate_analysis": stored.duplicates.to_object(context),
        },
        level=arguments.response_level,
    )
