"""JSON objects that tools answer with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_retrievers.backends.sql.requests import under_way
from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, ResponseLevel, SemanticMemory
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import Association
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.retrieval.request import asked_by
from memory_retrievers.text.analysis import analyze, one_line
from memory_retrievers.text.passages import CUT
from memory_retrievers.tools.tool import ToolContext

MOST_ASSOCIATIONS: Final = 100
"""Associations of one memory that are shown at most, strongest first: one that many are near to has thousands."""

_DECIMALS: Final = 6

CONTENT_PREVIEW: Final = 50  # characters of the content that ``standard`` answers show
MOST_SAID: Final = 2_000  # characters of an open episode that an answer shows at most


def text_of(memory: AnyMemory) -> str:
    """The content of a memory as the tools understand it: a fact's sentence, or an episode's summary.

    An open episode has none yet: its content is what was said, as far as :data:`MOST_SAID` characters go.
    """
    if isinstance(memory, SemanticMemory):
        return memory.fact
    if not memory.is_open:
        return memory.summary
    said = "\n".join(f"{message.role}: {message.content[:MOST_SAID]}" for message in memory.messages)
    return preview(said, MOST_SAID)


def rounded(score: float) -> float:
    """A score as answers show it: six decimals tell scores apart, more are noise of 32-bit vectors."""
    return round(score, _DECIMALS)


def complete(
    context: ToolContext,
    memory: AnyMemory,
    *,
    similarity: float | None = None,
    linked: Sequence[Association] | None = None,
) -> JsonObject:
    """All that a model may see of a memory.

    Args:
        context: Says from where scopes are seen.
        memory: The memory.
        similarity: How near it is to what was asked, if something was.
        linked: Its associations, strongest first; they must lie within the root. None leaves them out, where they are
            shown beside the memory or were not looked up.
    """
    context.manager.quote([memory])
    shown: JsonObject = {
        "id": memory.id,
        "content": text_of(memory),
        "scope": context.shown(memory.scope),
        "similarity_score": None if similarity is None else rounded(similarity),
        "tags": list(memory.tags),
        "category": str(memory.category) if isinstance(memory, SemanticMemory) else None,
        "created_at": iso(memory.created_at),
        "metadata": memory.metadata,
        "associations": None if linked is None else [association_object(context, each, of=memory) for each in linked],
        "content_type": str(memory.content_type),
        "memory_tier": str(memory.tier),
        "agent_id": memory.agent_id,
        "updated_at": iso(memory.updated_at),
        "expires_at": None if memory.expires_at is None else iso(memory.expires_at),
        "importance_score": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": None if memory.last_accessed_at is None else iso(memory.last_accessed_at),
        "consolidated_from": list(memory.consolidated_from) or None,
        "is_open": True if isinstance(memory, EpisodicMemory) and memory.is_open else None,
    }
    return {key: value for key, value in shown.items() if value is not None}


def association_object(context: ToolContext, association: Association, *, of: AnyMemory) -> JsonObject:
    """All that a model may see of an association, from the side of one of its two memories.

    Args:
        context: Says from where scopes are seen.
        association: The association; both of its memories must lie within the root.
        of: The memory from whose side it is shown.
    """
    other = association.target if association.source == of.key else association.source
    return {
        "source_id": association.source.id,
        "target_id": association.target.id,
        "associated_id": other.id,
        "scope": context.shown(other.scope),
        "association_type": str(association.type),
        "strength": rounded(association.strength),
        "level": association_level(association.strength),
        "auto_generated": association.auto_generated,
        "created_at": iso(association.created_at),
    }


def glance(context: ToolContext, memory: AnyMemory, *, length: int, key: str = "content_preview") -> JsonObject:
    """A memory in three keys: id, scope, and the beginning of its content.

    Args:
        context: Says from where scopes are seen.
        memory: The memory.
        length: Characters of the content to show at most; ``...`` follows where it is cut.
        key: The name of the key that holds them.
    """
    context.manager.quote([memory])
    return {"id": memory.id, "scope": context.shown(memory.scope), key: preview(text_of(memory), length)}


MOST_STILL_KNOWN: Final = 2  # messages, and facts, that an answer names beside what was deleted

_SHOWN_OF_MESSAGE: Final = 120
_LIKELY: Final = 0.5
"""Relevance of a message, and share of the terms of a fact, from which on they may tell what was deleted."""

_HINT: Final = (
    "still_known may tell it, too. What does, delete as well by memory_delete: a memory by its id, what was said by "
    "its message."
)


def still_known(context: ToolContext, text: str, *, level: ResponseLevel, is_fact: bool) -> JsonObject:
    """What may still tell something that was deleted: messages by their words, facts by their ids; empty if nothing.

    Of two facts of one person each may tell the other, by half of its few terms: only messages are named for a fact.

    Args:
        context: The memory, and the scope of the call.
        text: What was deleted.
        level: The level of the answer; the least one and the plain form tell nothing of it, nor does one to a model
            that sees only what tools have stored.
        is_fact: Whether it was a fact, and not a message.
    """
    if level is ResponseLevel.MINIMAL or context.response_format == "plain" or context.seen != "all":
        return {}
    try:
        found = context.memory.retrieve(asked_by(context.memory, text), scope=context.scope, record=False)
    except MemoryRetrieversError:  # what was deleted is deleted
        return {}
    said = {
        _as_said(hit.memory.messages[place]): hit.memory
        for hit in found.episodic
        if hit.relevance >= _LIKELY and not (hit.memory.is_open and under_way.get())  # whose end no request can know
        for match in hit.matches
        for place in match.messages
        if place < len(hit.memory.messages)  # all were there when it was searched
        if _shared(text, hit.memory.messages[place].content)
    }
    messages = [*said][:MOST_STILL_KNOWN]
    facts = [hit.memory for hit in found.semantic if not is_fact and _shared(text, hit.memory.fact) >= _LIKELY]
    facts = facts[:MOST_STILL_KNOWN]
    context.manager.quote([*facts, *map(said.__getitem__, messages)])
    known: list[JsonObject] = [
        {"message": each if len(each) <= _SHOWN_OF_MESSAGE else f"{each[:_SHOWN_OF_MESSAGE]}{CUT}"} for each in messages
    ]
    known += [{"id": each.id, "content": preview(each.fact, CONTENT_PREVIEW)} for each in facts]
    return {"still_known": known, "hint": _HINT} if known else {}


def _as_said(message: Message) -> str:
    is_named = is_of_user(message.role) and message.role.casefold() != "user"
    return one_line(f"{message.role}: {message.content}" if is_named else message.content)


def _shared(text: str, other: str) -> float:
    """The share of the terms of the shorter text that are in the other as well."""
    one, two = set(analyze(text)), set(analyze(other))
    return len(one & two) / max(min(len(one), len(two)), 1)


def preview(text: str, length: int) -> str:
    r"""At most ``length`` code points of a text on one line; ``...`` behind them says that there is more.

    >>> preview("Nightly  backups\nrun at 02:00", 15)
    'Nightly backups...'
    """
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."


def association_level(strength: float) -> str:
    """The word for a strength: weak below 0.3, moderate below 0.7, then strong.

    >>> [association_level(strength) for strength in (0.29, 0.3, 0.7)]
    ['weak', 'moderate', 'strong']
    """
    if strength < 0.3:  # noqa: PLR2004 - the bounds are the definition
        return "weak"
    return "moderate" if strength < 0.7 else "strong"  # noqa: PLR2004 - as above
