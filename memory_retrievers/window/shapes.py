"""The shapes in which a window tells of memories, their versions, messages and curves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from memory_retrievers.backends.sql.overview import TEXT_SHOWN
from memory_retrievers.fsrs import curve_of, retrievability
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import held
from memory_retrievers.retrieval.explanations import ExplainedMemory
from memory_retrievers.text.dates import iso

MOST_MESSAGES: Final = 400
MESSAGE_SHOWN: Final = 20_000
"""Characters of a message that are shown."""

_DECIMALS: Final = 6
_DAY: Final = timedelta(days=1)


def memory_shape(
    memory: AnyMemory, *, now: datetime, as_of: datetime | None = None, versions: int = 1, whole: bool = False
) -> JsonObject:
    """A memory as the page shows it.

    Args:
        memory: The memory.
        now: When it is shown.
        as_of: The moment whose words these are; None is now.
        versions: How many versions it has.
        whole: Tell long texts and metadata whole.
    """
    text = _text_of(memory)
    shape: JsonObject = {
        "id": memory.id,
        "scope": memory.scope,
        "kind": _kind(memory),
        "text": text if whole else text[:TEXT_SHOWN],
        "is_cut": not whole and len(text) > TEXT_SHOWN,
        "tags": list(memory.tags),
        "metadata": memory.metadata if whole or len(str(memory.metadata)) <= TEXT_SHOWN else {},
        "pinned": memory.is_pinned,
        "importance": round(memory.importance, _DECIMALS),
        "origin": str(memory.origin),
        "created_at": iso(memory.created_at),
        "updated_at": iso(memory.updated_at),
        "versions": versions,
    }
    if memory.agent_id is not None:
        shape["agent_id"] = memory.agent_id
    if memory.expires_at is not None:
        shape["expires_at"] = iso(memory.expires_at)
    is_there = not memory.has_expired(now)
    if isinstance(memory, SemanticMemory):
        return shape | _fact(memory) | {"active": is_there and held(memory, as_of or now)}
    return shape | _episode(memory, now) | {"active": is_there}


def _text_of(memory: AnyMemory) -> str:
    """What a memory says; of an open conversation the last message."""
    if isinstance(memory, SemanticMemory):
        return memory.fact
    return memory.messages[-1].content if memory.is_open and memory.messages else memory.summary


def _kind(memory: AnyMemory) -> str:
    if isinstance(memory, SemanticMemory):
        return "fact"
    return "open" if memory.is_open else "episode"


def _fact(fact: SemanticMemory) -> JsonObject:
    return {
        "category": str(fact.category),
        "keywords": list(fact.keywords),
        "valid_from": iso(fact.valid_at),
        "valid_until": None if fact.invalid_at is None else iso(fact.invalid_at),
        "replaced_by": None if fact.replaced_by == fact.id else fact.replaced_by,
        "retrievability": 1.0,
        "stability_days": None,
    }


def _episode(episode: EpisodicMemory, now: datetime) -> JsonObject:
    days = (now - episode.last_reviewed_at) / _DAY
    fades = not (episode.is_flashbulb or episode.is_open)
    return {
        "title": episode.title[:TEXT_SHOWN],
        "valid_from": iso(episode.start_at),
        "valid_until": None if episode.is_open else iso(episode.end_at),
        "conversation": episode.conversation_id,
        "summary_by": str(episode.summary_by),
        "surprise": round(episode.surprise, _DECIMALS),
        "retrievability": round(retrievability(max(days, 0.0), episode.stability), _DECIMALS) if fades else 1.0,
        "stability_days": round(episode.stability, _DECIMALS),
        "last_reviewed_at": iso(episode.last_reviewed_at),
        "fades": fades,
    }


def messages_shape(memory: AnyMemory) -> list[JsonObject]:
    """The first messages of an episode."""
    messages = memory.messages if isinstance(memory, EpisodicMemory) else ()
    return [_message(message) for message in messages[:MOST_MESSAGES]]


def _message(message: Message) -> JsonObject:
    return {
        "role": message.role,
        "text": message.content[:MESSAGE_SHOWN],
        "at": None if message.timestamp is None else iso(message.timestamp),
    }


def version_shape(version: SemanticMemory, *, of: str) -> JsonObject:
    """A version of a fact, or of one that it has replaced or that has replaced it."""
    return {
        "id": version.id,
        "text": version.fact,
        "valid_from": iso(version.valid_at),
        "valid_until": None if version.invalid_at is None else iso(version.invalid_at),
        "current": version.id == of and version.replaced_by != of,
    }


def curve_shape(memory: AnyMemory, *, now: datetime) -> list[list[float]]:
    """The forgetting curve of an episode as pairs of days from now and retrievability; empty for what does not fade."""
    if isinstance(memory, SemanticMemory) or memory.is_open:
        return []
    points = curve_of(memory, now=now).points
    return [[round(day, _DECIMALS), round(value, _DECIMALS)] for day, value in points]


def stages_shape(memory: ExplainedMemory | None) -> list[JsonObject]:
    """What each stage of a search gave a memory, in the order of the stages."""
    if memory is None:
        return []
    words = ", ".join(memory.words)
    stages: list[tuple[str, float, str]] = [("cosine", memory.cosine, _place(memory.dense_rank))]
    stages += [(stage.name, stage.score, _place(stage.rank)) for stage in memory.stages]
    stages += [
        ("fused", memory.fused_score, f"words in common: {words}" if words else "no word in common"),
        ("before forgetting", memory.score_before_forgetting, _place(memory.rank_before_forgetting)),
        ("retrievability", memory.retrievability, ""),
        ("score", memory.score, _place(memory.rank)),
    ]
    return [{"name": name, "value": round(value, _DECIMALS), "note": note} for name, value, note in stages]


def _place(rank: int | None) -> str:
    return "not among the candidates" if rank is None else f"place {rank}"
