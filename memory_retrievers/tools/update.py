"""Tools that change memories: update one or many, merge several, move them to another scope, rate their importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from memory_retrievers.errors import MemoryRetrieversError, NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, JsonObject, Origin, SemanticDraft, SemanticMemory, Tier
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import Change
from memory_retrievers.text.summaries import summarize
from memory_retrievers.tools.arguments import (
    ECHOED,
    Content,
    Ids,
    ManagementArguments,
    MemoryId,
    MemoryTier,
    Metadata,
    Tags,
    ToolArguments,
    check_limits,
    within,
)
from memory_retrievers.tools.records import MemoryGetArguments, ended, findable
from memory_retrievers.tools.responses import complete, text_of
from memory_retrievers.tools.tool import Answer, ToolContext

SEPARATOR: Final = "\n\n---\n\n"  # separator of the originals where they are kept as they are
SUMMARY_LENGTH: Final = 4_000  # the most characters of a consolidated memory

_EXTRACTIVE: Final = "extractive"
_STRATEGIES: Final = (_EXTRACTIVE, "auto")
_UNAVAILABLE: Final = "abstractive"


class UpdateItem(ToolArguments):
    """What can be changed of a memory; what is left out stays as it is."""

    id: MemoryId
    content: Annotated[Content | None, Field(description="New text, replacing the old one.")] = None
    tags: Annotated[Tags | None, Field(description="New tags, replacing the old ones.")] = None
    metadata: Annotated[Metadata | None, Field(description="Metadata keys to add or overwrite; others stay.")] = None
    memory_tier: Annotated[MemoryTier | None, Field(description="New tier; what becomes long_term stays.")] = None
    correct: Annotated[
        bool, Field(description="Whether the new text corrects a mistake; if not, the old text stays in its history.")
    ] = False

    @property
    def changes_nothing(self) -> bool:
        """True if no field is given."""
        return not self.model_fields_set & {"content", "tags", "metadata", "memory_tier"}


class MemoryUpdateArguments(UpdateItem, ManagementArguments):
    """Arguments of ``memory_update``."""


ENDED_HINT: Final = "This fact does not hold any more and is not recalled: store what holds now by memory_store."


def memory_update(context: ToolContext, arguments: MemoryUpdateArguments) -> Answer:
    """Change a memory (specification §3.3); metadata is merged, and what becomes long_term no longer expires.

    Raises:
        ValidationError: A field breaks a limit, or an episode's content is to be changed; nothing was changed.
    """
    before = context.find(arguments.id)
    after = context.manager.update(change_of(context, arguments, before))
    answer = {"id": after.id, "updated": not arguments.changes_nothing, "updated_at": iso(after.updated_at)}
    return Answer(
        {"success": True, "id": after.id},
        answer | ({} if ended(after) is None else {"invalid_at": ended(after), "hint": ENDED_HINT}),
        lambda: {"memory_object": complete(context, after)},
        plain=answer,
    )


def change_of(context: ToolContext, item: UpdateItem, memory: AnyMemory) -> Change:
    """The change that an item asks for.

    Args:
        context: The memory, and the scope of the call.
        item: The arguments.
        memory: What is to be changed.
    """
    merged = None if item.metadata is None else {**memory.metadata, **item.metadata}
    check_limits(context.manager.settings, content=item.content, tags=item.tags, metadata=merged)
    given = item.model_dump(include={"content", "tags", "metadata", "correct"})
    return Change(memory, tier=item.memory_tier, **given)


class MemorySetScoreArguments(ManagementArguments):
    """Arguments of ``memory_set_score``."""

    id: MemoryId
    score: Annotated[float, *within(0.0, 1.0, "New importance: 0 for none, 1 for the most.")]
    reason: Annotated[str, Field(max_length=1_000, description="Why.")] = "Manual override"


def memory_get_score(context: ToolContext, arguments: MemoryGetArguments) -> Answer:
    """The importance of a memory now, and its access count (specification §3.5); this is no access."""
    memory = context.manager.importance.current(context.find(arguments.id))
    answer = {
        "importance_score": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": None if memory.last_accessed_at is None else iso(memory.last_accessed_at),
    }
    return _rated(context, memory, answer)


def memory_set_score(context: ToolContext, arguments: MemorySetScoreArguments) -> Answer:
    """Set the importance of a memory; accesses no longer change it (specification §3.5)."""
    found = context.find(arguments.id)
    memory = context.manager.importance.set(found, score=arguments.score, reason=arguments.reason)
    return _rated(context, memory, {"previous_score": found.importance, "new_score": memory.importance})


def _rated(context: ToolContext, memory: AnyMemory, answer: JsonObject) -> Answer:
    identity: JsonObject = {"success": True, "memory_id": memory.id}
    return Answer(identity, answer, lambda: {"memory_object": complete(context, memory)}, plain=identity | answer)


class MoveArguments(ManagementArguments):
    """Arguments of ``memory_move``."""

    memory_ids: Annotated[Ids, Field(description="The ids of the memories to move.")]
    target_scope: Annotated[str, Field(description="New scope, for example work/projects; . is the topmost scope.")]


def memory_move(context: ToolContext, arguments: MoveArguments) -> Answer:
    """Move what can be moved; it fails only if nothing can (specification §4.3)."""
    target = context.scope_named(arguments.target_scope)
    found, failed = findable(context, arguments.memory_ids)
    moved = _move(context, found, failed, target=target)
    if failed and not moved:
        raise _nothing_moved(failed)
    sources = sorted({context.shown(memory.scope) for memory in moved})
    left = _failed_items(failed) or None
    return Answer(
        {"success": True},
        {"moved_count": len(moved), "target_scope": context.shown(target), "failed_items": left},
        lambda: {
            "moved_items": [memory.id for memory in moved],
            "source_scope": sources[0] if len(sources) == 1 else sources,
        },
    )


def _move(
    context: ToolContext, found: list[AnyMemory], failed: dict[str, MemoryRetrieversError], *, target: str
) -> list[AnyMemory]:
    """Move the memories and return them as they were before; an id that is taken in the target joins the failed."""
    if not found:
        return []
    try:
        context.manager.move(found, target_scope=target)
    except (NotFoundError, ValidationError):
        pass  # one of them spoils it for all, so one by one
    else:
        return found
    moved: list[AnyMemory] = []
    for memory in found:
        try:
            context.manager.move([memory], target_scope=target)
        except (NotFoundError, ValidationError) as error:
            failed[memory.id] = error
        else:
            moved.append(memory)
    return moved


def _nothing_moved(failed: dict[str, MemoryRetrieversError]) -> MemoryRetrieversError:
    details: JsonObject = {"failed_items": _failed_items(failed)}
    message = "; ".join(map(str, failed.values()))
    unknown = all(isinstance(error, NotFoundError) for error in failed.values())
    return NotFoundError(message, details=details) if unknown else ValidationError(message, details=details)


def _failed_items(failed: dict[str, MemoryRetrieversError]) -> list[JsonObject]:
    return [{"memory_id": given, "message": str(error)} for given, error in failed.items()]


class MemoryConsolidateArguments(ManagementArguments):
    """Arguments of ``memory_consolidate``."""

    memory_ids: Annotated[Ids, Field(description="The ids of the memories to merge, in order.")]
    summary_strategy: Annotated[
        str,
        WithJsonSchema({"type": "string", "enum": list(_STRATEGIES)}),
        Field(description="How to shorten what is too long: extractive keeps the sentences that say most."),
    ] = _EXTRACTIVE
    preserve_originals: Annotated[bool, Field(description="Whether the merged memories stay, too.")] = True
    tags: Annotated[Tags | None, Field(description="Labels of the new memory; leave it out for all of theirs.")] = None
    metadata: Annotated[Metadata | None, Field(description="Anything else to keep with it, as a JSON object.")] = None


def memory_consolidate(context: ToolContext, arguments: MemoryConsolidateArguments) -> Answer:
    """Make one memory of several (specification §3.7); all of it happens, or nothing.

    Raises:
        ValidationError: There are too few ids or too many, the strategy is unknown, or a limit is broken.
        NotFoundError: One of the memories does not exist; nothing was written.
        NotImplementedError: The strategy needs a language model.
    """
    manager = context.manager
    _check_strategy(arguments.summary_strategy)
    ids = _checked_ids(context, arguments.memory_ids)
    check_limits(manager.settings, tags=arguments.tags, metadata=arguments.metadata)
    with manager.transaction_for(
        lambda: [context.find_seen(each) for each in ids], scope=context.scope, removes=not arguments.preserve_originals
    ) as originals:
        draft = _merged(context, arguments, originals)
        check_limits(manager.settings, tags=draft.tags, metadata=draft.metadata)
        # the originals go first: what is removed also leaves what was made of it before
        if not arguments.preserve_originals:
            manager.delete(originals)
        (memory,) = manager.add([draft])
    return _response(context, arguments, memory, originals)


def _check_strategy(strategy: str) -> None:
    if strategy == _UNAVAILABLE:
        raise NotImplementedError("summary_strategy abstractive is not implemented: use extractive")
    if strategy not in _STRATEGIES:
        raise ValidationError(
            f"Invalid summary_strategy: {strategy[:ECHOED]}. Must be one of: {', '.join(_STRATEGIES)}"
        )


def _checked_ids(context: ToolContext, given: Sequence[str]) -> list[str]:
    settings = context.manager.settings
    ids = list(dict.fromkeys(given))
    if len(ids) < settings.consolidation_min_memories:
        raise ValidationError(f"At least {settings.consolidation_min_memories} memories required, not {len(ids)}")
    if len(ids) > settings.consolidation_max_memories:
        raise ValidationError(f"Maximum {settings.consolidation_max_memories} memories, not {len(ids)}")
    return ids


def _merged(
    context: ToolContext, arguments: MemoryConsolidateArguments, originals: Sequence[AnyMemory]
) -> SemanticDraft:
    first, now = originals[0], context.manager.now()
    ids = [memory.id for memory in originals]
    theirs = tuple(sorted({tag for memory in originals for tag in memory.tags}))
    return SemanticDraft(
        scope=first.scope,
        fact=summarize(SEPARATOR.join(map(text_of, originals)), SUMMARY_LENGTH),
        tier=Tier.LONG_TERM,
        content_type=first.content_type,
        agent_id=first.agent_id,
        tags=theirs if arguments.tags is None else arguments.tags,
        metadata={
            **(arguments.metadata or {}),
            "consolidated_from": list(ids),
            "source_count": len(ids),
            "consolidation_strategy": _EXTRACTIVE,
            "consolidated_at": iso(now),
        },
        origin=Origin.TOOL,
        created_at=now,
        consolidated_from=tuple(ids),
    )


def _response(
    context: ToolContext, arguments: MemoryConsolidateArguments, memory: SemanticMemory, originals: Sequence[AnyMemory]
) -> Answer:
    answer: JsonObject = {
        "success": True,
        "consolidated_memory_id": memory.id,
        "original_count": len(originals),
        "preserved": arguments.preserve_originals,
        "summary_length": len(text_of(memory)),
    }
    return Answer(
        {name: answer[name] for name in ("success", "consolidated_memory_id", "original_count")},
        answer,
        lambda: {"memory_object": complete(context, memory)},
        plain=answer,
    )
