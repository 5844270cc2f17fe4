"""Raw: memories as JSON-ready objects (specification §2.8). Vectors never leave the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from memory_retrievers.messages import Message
from memory_retrievers.models import EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.retrieved import RetrievedMemory

_DECIMALS = 6


def raw_memories(
    facts: Sequence[RetrievedMemory[SemanticMemory]], episodes: Sequence[RetrievedMemory[EpisodicMemory]]
) -> JsonObject:
    """What was retrieved, in rank order, messages always complete.

    A fact's score is the fused score as it is, at most 0.0328 with two lists; an episode's is the final one, up to 1.
    """
    return {
        "semantic": [_fact(fact.memory) | {"score": _rounded(fact.explanation.fused_score)} for fact in facts],
        "episodic": [_episode(episode.memory) | {"score": _rounded(episode.score)} for episode in episodes],
    }


def explained_memories(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    now: datetime,
    fact_display_length: int | None,
) -> JsonObject:
    """The same with all that a program elsewhere needs to go on.

    That is why each stands where it stands, and which of its messages match, in full precision.
    """
    raw = raw_memories(facts, episodes)
    return {
        "semantic": [_explained(*pair) for pair in zip(raw["semantic"], facts, strict=True)],
        "episodic": [_explained(*pair) for pair in zip(raw["episodic"], episodes, strict=True)],
        "now": iso(now),
        "fact_display_length": fact_display_length,
    }


def explained_recent(episodes: Sequence[EpisodicMemory], *, now: datetime) -> JsonObject:
    """The newest episodes with what belongs to each beside its content, and when they were asked for."""
    return {"episodic": [_episode(episode) | _belongings(episode) for episode in episodes], "now": iso(now)}


def raw_recent(episodes: Sequence[EpisodicMemory]) -> JsonObject:
    """Episodes in the order given, without scores."""
    return {"episodic": [_episode(episode) for episode in episodes]}


def iso(moment: datetime) -> str:
    """The moment in UTC as ISO-8601; without a zone it is taken as UTC (specification §1.2).

    >>> iso(datetime(2026, 3, 1, 9))
    '2026-03-01T09:00:00Z'
    >>> iso(datetime(2026, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC))
    '2026-03-01T09:00:00.250000Z'
    """
    in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return f"{in_utc.replace(tzinfo=None).isoformat()}Z"


def _explained(raw: JsonObject, hit: RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory]) -> JsonObject:
    matches = [{"part": match.part, "messages": list(match.messages), "score": match.score} for match in hit.matches]
    return raw | _belongings(hit.memory) | {"explanation": asdict(hit.explanation), "matches": matches}


def _belongings(memory: SemanticMemory | EpisodicMemory) -> JsonObject:
    return {"scope": memory.scope, "metadata": memory.metadata, "tags": list(memory.tags)}


def _fact(memory: SemanticMemory) -> JsonObject:
    return {
        "id": memory.id,
        "conversation_id": memory.scope,
        "category": str(memory.category),
        "fact": memory.fact,
        "keywords": list(memory.keywords),
        "source_episodic_ids": list(memory.source_episodic_ids),
        "valid_at": iso(memory.valid_at),
        "invalid_at": _iso_or_none(memory.invalid_at),
    }


def _episode(memory: EpisodicMemory) -> JsonObject:
    return {
        "id": memory.id,
        "conversation_id": memory.scope,
        "messages": [_message(message) for message in memory.messages],
        "title": memory.title,
        "summary": memory.summary,
        "stability": _rounded(memory.stability),
        "difficulty": _rounded(memory.difficulty),
        "surprise": _rounded(memory.surprise),
        "start_at": iso(memory.start_at),
        "end_at": iso(memory.end_at),
        "created_at": iso(memory.created_at),
        "last_reviewed_at": iso(memory.last_reviewed_at),
        "consolidated_at": _iso_or_none(memory.consolidated_at),
    }


def _message(message: Message) -> JsonObject:
    when = {} if message.timestamp is None else {"timestamp": iso(message.timestamp)}
    return {"role": message.role, "content": message.content} | when


def _iso_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


def _rounded(number: float) -> float:
    return round(number, _DECIMALS)
