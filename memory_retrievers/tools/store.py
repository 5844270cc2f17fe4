"""The tool that stores a memory, unless it is there already, and associates it with similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import (
    AnyMemory,
    Category,
    ContentType,
    JsonObject,
    Origin,
    SemanticDraft,
    SemanticMemory,
    Tier,
)
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import Association, AssociationType, FoundMemory, MemoryFilter
from memory_retrievers.storage.drafts import means_same_day, says_again
from memory_retrievers.text.duplicates import COSINE_TOLERANCE, is_duplicate
from memory_retrievers.tools.arguments import (
    CategoryName,
    Content,
    ContentTypeName,
    ManagementArguments,
    MemoryId,
    MemoryTier,
    Metadata,
    Tags,
    ToolArguments,
    check_limits,
    within,
)
from memory_retrievers.tools.responses import CONTENT_PREVIEW, association_object, complete, preview, rounded, text_of
from memory_retrievers.tools.tool import Answer, ToolContext

MIN_SEMANTIC_COSINE: Final = 0.7
AUTO_ASSOCIATIONS: Final = 10
DUPLICATE_CANDIDATES: Final = 5
DUPLICATE_FLOOR: Final = 0.1
DUPLICATE_PREVIEW: Final = 100
NEAR_HINT: Final = "If one of near no longer holds, store this again with replaces=its id."
UPDATE_HINT: Final = "If one of near no longer holds, put it right by memory_update with its id, and delete this one."
"""What ``memory_store`` says of memories that differ from the new one in a number, a name, a negation, a word or order;
the second where it takes no ``replaces``."""


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
        Annotated[int, *within(0, None)] | None,
        Field(description="Seconds until it expires; leave it out, or 0, for never."),
    ] = None
    category: CategoryName = Category.NOTE
    scope: Annotated[str | None, Field(description="Scope to store it in; leave it out for the default.")] = None
    auto_associate: Annotated[bool, Field(description="Whether to associate it with similar memories.")] = True
    allow_duplicates: Annotated[
        bool, Field(description="Whether to store it even if it is known; if not, the known memory is returned.")
    ] = False
    duplicate_threshold: Annotated[
        float | None, *within(0.0, 1.0, "Refuse to store it if a memory is this similar, 0 to 1.")
    ] = None

    replaces: Annotated[
        MemoryId | None, Field(description="The id of a memory that is no longer true and that this one replaces.")
    ] = None

    @property
    def looks_for_similar(self) -> bool:
        """True if the caller wants that memories like it decide whether it is stored."""
        return self.duplicate_threshold is not None or (
            "allow_duplicates" in self.model_fields_set and not self.allow_duplicates
        )

    def keeps_duplicates(self, context: ToolContext) -> bool:
        """Whether it is stored even if it is known: where nothing is said, in the plain form alone."""
        if "allow_duplicates" in self.model_fields_set:
            return self.allow_duplicates
        return context.response_format == "plain"


class MemoryStoreArguments(StoreItem, ManagementArguments):
    """Arguments of ``memory_store``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateAnalysis:
    """Result of the search for duplicates of a memory that is to be stored."""

    threshold: float | None = None  # from which similarity on something counts; None if nothing was looked at
    best: FoundMemory | None = None  # the nearest memory that was looked at, if any
    refusal: str | None = None  # why nothing must be stored; None if it may
    existing: SemanticMemory | None = None  # the memory to give back instead of storing another; None if there is none
    nearest: Sequence[FoundMemory] | None = None  # what its scope held that is nearest; None if that was not looked for

    def to_object(self, context: ToolContext) -> JsonObject:
        """The analysis as the answer of ``memory_store`` shows it (specification §4.2)."""
        shown: JsonObject = {
            "duplicate_check_performed": self.threshold is not None,
            "threshold_used": self.threshold,
            "duplicate_found": self.refusal is not None or self.existing is not None,
        }
        if self.best is not None:
            candidate = self.best.memory
            shown["duplicate_candidate"] = {
                "memory_id": candidate.id,
                "similarity_score": rounded(self.best.similarity),
                "content_preview": preview(text_of(candidate), DUPLICATE_PREVIEW),
                "scope": context.shown(candidate.scope),
                "created_at": iso(candidate.created_at),
            }
        return {key: value for key, value in shown.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Outcome of storing an item."""

    memory: SemanticMemory  # the memory, new, or with its id as ``duplicate_of`` if it was known
    associations: Sequence[Association] = ()  # those that were made
    duplicates: DuplicateAnalysis = field(default_factory=DuplicateAnalysis)  # what was looked for beforehand


def memory_store(context: ToolContext, arguments: MemoryStoreArguments) -> Answer:
    """Store one memory (specification §3.3, §4.4), or give the one that is there already.

    Raises:
        NotFoundError: There is no memory to be replaced; nothing was stored.
        ValidationError: The content, the tags, the metadata or the time to live break a limit, the threshold finds a
            duplicate, or what is to be replaced cannot be; nothing was stored.
    """
    draft, manager = draft_of(context, arguments), context.manager
    manager.prepare([draft])
    with manager.transaction(draft.scope):
        stored = store_one(context, arguments, draft)
    return _response(context, arguments, stored)


def draft_of(context: ToolContext, item: StoreItem) -> SemanticDraft:
    """The memory that an item asks for, not stored yet."""
    manager = context.manager
    settings, now = manager.settings, manager.now()
    check_limits(settings, content=item.content, tags=item.tags, metadata=item.metadata)
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


def store_one(context: ToolContext, item: StoreItem, draft: SemanticDraft) -> Stored:
    """Look for duplicates, then store and associate; inside a transaction, so that all of it is kept or none.

    Args:
        context: The memory to store in, and the scope of the call.
        item: The arguments, which say how duplicates and associations are handled.
        draft: The memory that :func:`draft_of` made of the item.

    Raises:
        ValidationError: The threshold finds a duplicate, a known memory would break a limit with what is added to it,
            or what is to be replaced cannot be.
    """
    replaces = None if item.replaces is None else _replaced_id(context, item.replaces, draft)
    allow_duplicates = item.keeps_duplicates(context)
    analysis = DuplicateAnalysis()
    if item.duplicate_threshold is not None:
        analysis = above_threshold(context, draft, threshold=item.duplicate_threshold)
    if analysis.refusal is not None:
        raise ValidationError(analysis.refusal, details={"duplicate_analysis": analysis.to_object(context)})
    if not allow_duplicates and replaces is None:
        analysis = same_in_scope(context, draft)
    if analysis.existing is not None and says_again(analysis.existing, draft):
        known = analysis.existing
        tags = tuple(dict.fromkeys((*known.tags, *draft.tags)))
        check_limits(context.manager.settings, tags=tags, metadata={**known.metadata, **draft.metadata})
        if (confirmed := context.manager.confirm(known, draft)) is not None:
            return Stored(memory=confirmed, duplicates=analysis)
    (memory,) = context.manager.add([draft], allow_duplicates=allow_duplicates, replacing=[replaces])
    check_known(context, [memory])
    made: list[Association] = []
    if item.auto_associate and memory.duplicate_of is None:
        is_as_compared = memory.embedding_text == draft.embedding_text  # the host may have changed it
        made = auto_associate(context, memory, nearest=analysis.nearest if is_as_compared else None)
    return Stored(memory=memory, associations=made, duplicates=analysis)


def _replaced_id(context: ToolContext, given: str, draft: SemanticDraft) -> str:
    """The id of the memory that a draft is to replace, as the store knows it."""
    memory = context.find(given)
    if memory.scope != draft.scope:
        raise ValidationError(
            f"{given} is kept in {context.shown(memory.scope)!r}, and what replaces it has to be kept there too"
        )
    return memory.id


def check_known(context: ToolContext, memories: Sequence[SemanticMemory]) -> None:
    """Refuse to have added to known memories what they have no room for; inside the transaction that did."""
    for memory in memories:
        if memory.duplicate_of is not None:
            check_limits(context.manager.settings, tags=memory.tags, metadata=memory.metadata)


def _response(context: ToolContext, arguments: MemoryStoreArguments, stored: Stored) -> Answer:
    memory, duplicate_of = stored.memory, stored.memory.duplicate_of
    hint = UPDATE_HINT if "replaces" in arguments.hidden else NEAR_HINT
    brief: JsonObject = {
        "id": memory.id,
        "content": text_of(memory),
        "memory_tier": str(memory.tier),
        "created_at": iso(memory.created_at),
    }
    return Answer(
        {
            "success": True,
            "memory_id": memory.id,
            "duplicate_of": duplicate_of,
            "near": [{"id": each.id} for each in memory.near] or None,
        },
        {
            "id": memory.id,
            "memory_tier": str(memory.tier),
            "created_at": iso(memory.created_at),
            "content": preview(text_of(memory), CONTENT_PREVIEW),
            "scope": context.shown(memory.scope),
            "associations_count": len(stored.associations),
            "near": [{"id": each.id, "content": preview(each.fact, CONTENT_PREVIEW)} for each in memory.near] or None,
            "hint": hint if memory.near else None,
        },
        lambda: {
            "memory_object": complete(context, memory),
            "associations_details": [association_object(context, each, of=memory) for each in stored.associations],
            "duplicate_analysis": stored.duplicates.to_object(context),
        },
        plain=brief if duplicate_of is None else brief | {"duplicate_of": duplicate_of},
    )


def auto_associate(
    context: ToolContext, memory: AnyMemory, *, nearest: Sequence[FoundMemory] | None = None
) -> list[Association]:
    """Associate a memory with the nearest of its scope: at most ten, of cosine 0.7 or more, itself excluded.

    Args:
        context: The memory to write to, and the scope of the call.
        memory: The stored memory.
        nearest: What its scope holds that is nearest, where that was looked for; None searches.

    Returns:
        What was written, strongest first; nothing if nothing is near enough.
    """
    manager = context.manager
    if not memory.is_searchable:  # and so has no vector
        return []
    if nearest is None:
        nearest = manager.like(
            memory.embedding_text,
            MemoryFilter(scope=memory.scope, kinds=context.seen),
            top_k=AUTO_ASSOCIATIONS + 1,  # it finds itself
            min_similarity=MIN_SEMANTIC_COSINE,
        )
    own, now = memory.key, manager.now()
    found = [
        Association(
            source=own,
            target=hit.memory.key,
            type=AssociationType.SEMANTIC,
            strength=cosine,
            auto_generated=True,
            created_at=now,
        )
        for hit in nearest
        if (cosine := manager.cosine(hit)) >= MIN_SEMANTIC_COSINE and hit.memory.key != own
    ][:AUTO_ASSOCIATIONS]
    if found:
        manager.associate(found)
    return found


def above_threshold(context: ToolContext, draft: SemanticDraft, *, threshold: float) -> DuplicateAnalysis:
    """Refuse a draft if any memory within the root is as similar as this; numbers and names do not count here.

    Args:
        context: What the tool works on.
        draft: What is to be stored.
        threshold: The similarity, 0 to 1.
    """
    everywhere = MemoryFilter(scope=context.root, include_child_scopes=True, kinds=context.seen)
    found = context.manager.like(
        draft.embedding_text, everywhere, top_k=DUPLICATE_CANDIDATES, min_similarity=min(DUPLICATE_FLOOR, threshold)
    )
    best = max(found, key=lambda hit: hit.similarity, default=None)
    refusal = None
    if best is not None and best.similarity >= threshold - COSINE_TOLERANCE:
        refusal = f"Duplicate content detected (similarity: {best.similarity:.3f} >= {threshold})"
    return DuplicateAnalysis(threshold=threshold, best=best, refusal=refusal)


def same_in_scope(context: ToolContext, draft: SemanticDraft) -> DuplicateAnalysis:
    """Look for the same memory (numbers, negations and names compared too) in the scope of a draft."""
    manager = context.manager
    settings, now = manager.ingestion, manager.now()
    nearest = manager.like(
        draft.embedding_text, MemoryFilter(scope=draft.scope, kinds=context.seen), top_k=AUTO_ASSOCIATIONS + 1
    )
    found = nearest[:DUPLICATE_CANDIDATES]
    same = [
        (hit, hit.memory)
        for hit in found
        if isinstance(hit.memory, SemanticMemory)
        and is_duplicate(draft.fact, hit.memory.fact, cosine=manager.cosine(hit), settings=settings)
        and (not settings.compare_details or means_same_day(hit.memory, draft.fact, day=now))
    ]
    best, existing = same[0] if same else (next(iter(found), None), None)
    return DuplicateAnalysis(threshold=settings.same_cosine, best=best, existing=existing, nearest=nearest)


def expiry(created_at: datetime, *, ttl_seconds: int | None) -> datetime | None:
    """The moment at which a memory expires; None if none is given, as with 0 seconds (specification §3.2)."""
    if not ttl_seconds:
        return None
    try:
        return created_at + timedelta(seconds=ttl_seconds)
    except OverflowError:
        raise ValidationError("ttl_seconds is too large: leave it out for a memory that never expires") from None
