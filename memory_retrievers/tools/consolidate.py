"""The tool that merges memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, JsonObject, Origin, SemanticDraft, SemanticMemory, Tier
from memory_retrievers.text.dates import iso
from memory_retrievers.text.summaries import summarize
from memory_retrievers.tools.arguments import Ids, ManagementArguments, Metadata, Tags, check_limits
from memory_retrievers.tools.responses import complete, respond, text_of
from memory_retrievers.tools.tool import ToolContext, ToolOutput

SEPARATOR: Final = "\n\n---\n\n"
"""Separator of the originals where they are kept as they are."""

SUMMARY_LENGTH: Final = 4_000
"""The most characters of a consolidated memory."""

_EXTRACTIVE: Final = "extractive"
_STRATEGIES: Final = (_EXTRACTIVE, "auto")
_UNAVAILABLE: Final = "abstractive"
_ECHOED: Final = 80


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


def memory_consolidate(context: ToolContext, arguments: MemoryConsolidateArguments) -> ToolOutput:
    """Make one memory of several (specification §3.7); all of it happens, or nothing.

    Raises:
        ValidationError: There are too few ids or too many, the strategy is unknown, or a limit is broken.
        NotFoundError: One of the memories does not exist; nothing was written.
        NotImplementedError: The strategy needs a language model.
    """
    manager = context.manager
    # 1. check
    _check_strategy(arguments.summary_strategy)
    ids = _checked_ids(context, arguments.memory_ids)
    check_limits(manager.settings, tags=arguments.tags, metadata=arguments.metadata)
    with manager.transaction_for(
        lambda: [context.find_seen(each) for each in ids], scope=context.scope, removes=not arguments.preserve_originals
    ) as originals:
        draft = _merged(context, arguments, originals)
        check_limits(manager.settings, tags=draft.tags, metadata=draft.metadata)
        # 2. the originals go first: what is removed also leaves what was made of it before
        if not arguments.preserve_originals:
            manager.delete(originals)
        # 3. store
        (memory,) = manager.add([draft])
    # 4. answer
    return _response(context, arguments, memory, originals)


def _check_strategy(strategy: str) -> None:
    if strategy == _UNAVAILABLE:
        raise NotImplementedError("summary_strategy abstractive is not implemented: use extractive")
    if strategy not in _STRATEGIES:
        raise ValidationError(
            f"Invalid summary_strategy: {strategy[:_ECHOED]}. Must be one of: {', '.join(_STRATEGIES)}"
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
    tags = arguments.tags
    if tags is None:
        tags = tuple(sorted({tag for memory in originals for tag in memory.tags}))
    return SemanticDraft(
        scope=first.scope,
        fact=summarize(SEPARATOR.join(map(text_of, originals)), SUMMARY_LENGTH, weights="frequency"),
        tier=Tier.LONG_TERM,
        content_type=first.content_type,
        agent_id=first.agent_id,
        tags=tags,
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
) -> ToolOutput:
    answer: JsonObject = {
        "success": True,
        "consolidated_memory_id": memory.id,
        "original_count": len(originals),
        "preserved": arguments.preserve_originals,
        "summary_length": len(text_of(memory)),
    }
    return respond(
        context,
        arguments,
        {name: answer[name] for name in ("success", "consolidated_memory_id", "original_count")},
        answer,
        lambda: {"memory_object": complete(context, memory)},
        plain=answer,
    )
