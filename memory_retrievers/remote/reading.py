"""What a server sends, as the records it was made of there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pydantic

from memory_retrievers.errors import BackendError
from memory_retrievers.fields import UTCDateTime
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, MemoryKey, MemoryT, Rating, SemanticMemory
from memory_retrievers.reports import Queued, Report
from memory_retrievers.retrieval.result import RecentResult, RetrievalResult
from memory_retrievers.retrieved import Explanation, Match, RetrievedMemory

_MOMENT: pydantic.TypeAdapter[datetime] = pydantic.TypeAdapter(UTCDateTime)


@contextmanager
def understood() -> Iterator[None]:
    """Turn what an answer lacks into one error.

    Raises:
        BackendError: The answer is not what a server of this package sends.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackendError(
            "the server's answer is not understood: it may be of another version of memory-retrievers"
        ) from error


def read_retrieved(answer: JsonObject, *, query: str, scope: str) -> RetrievalResult:
    """The raw form with explanations (specification §2.8) as the result it was made of."""
    with understood():
        return RetrievalResult(
            query=query,
            scope=scope,
            now=_MOMENT.validate_python(answer["now"]),
            semantic=_hits(answer["semantic"], read_fact),
            episodic=_hits(answer["episodic"], read_episode),
            fact_display_length=answer.get("fact_display_length"),
        )


def read_recent(answer: JsonObject) -> RecentResult:
    """The newest episodes."""
    with understood():
        episodes = tuple(map(read_episode, answer["episodic"]))
        return RecentResult(now=_MOMENT.validate_python(answer["now"]), episodic=episodes)


def read_queued(answer: JsonObject) -> Queued:
    """What became of messages."""
    with understood():
        return Queued(accepted=answer["accepted"], queued=answer["queued"], due=answer["due"])


def read_report(answer: JsonObject) -> Report:
    """What was made of what was due."""
    with understood():
        return Report(
            episodes=tuple(map(read_episode, answer["episodes"])),
            facts=tuple(map(read_fact, answer["facts"])),
            reinforced=tuple(map(read_fact, answer["reinforced"])),
            invalidated=tuple(map(read_fact, answer["invalidated"])),
            reviews=tuple(map(_review, answer["reviews"])),
            waiting=answer["waiting"],
        )


def read_fact(sent: JsonObject) -> SemanticMemory:
    """A fact: of the raw form, which leaves out what only the store needs, or whole."""
    return SemanticMemory(**_fields(sent, SemanticMemory, made=str(sent.get("created_at", sent["valid_at"]))))


def read_episode(sent: JsonObject) -> EpisodicMemory:
    """An episode, likewise."""
    return EpisodicMemory(**_fields(sent, EpisodicMemory, made=sent["created_at"]))


def _fields(sent: JsonObject, kind: type[AnyMemory], *, made: str) -> dict[str, Any]:
    filled = {"scope": sent.get("conversation_id"), "created_at": made, "updated_at": made} | sent
    return {name: value for name, value in filled.items() if name in kind.model_fields}


def _hits(sent: list[JsonObject], read: Callable[[JsonObject], MemoryT]) -> tuple[RetrievedMemory[MemoryT], ...]:
    return tuple(_hit(item, read(item), rank=rank) for rank, item in enumerate(sent, start=1))


def _hit(item: JsonObject, memory: MemoryT, *, rank: int) -> RetrievedMemory[MemoryT]:
    why = item["explanation"]
    explanation = Explanation(
        dense_rank=why["dense_rank"],
        bm25_rank=why["bm25_rank"],
        fused_score=why["fused_score"],
        retrievability=why["retrievability"],
        score=why["score"],
        stages=why.get("stages", {}),  # a server of an older version tells none, and no matches
    )
    matches = tuple(_match(match) for match in item.get("matches", ()))
    return RetrievedMemory(memory=memory, rank=rank, score=explanation.score, explanation=explanation, matches=matches)


def _match(sent: JsonObject) -> Match:
    return Match(part=sent["part"], messages=tuple(sent["messages"]), score=sent["score"])


def _review(sent: JsonObject) -> tuple[MemoryKey, Rating]:
    return MemoryKey(scope=sent["scope"], id=sent["id"]), Rating(sent["rating"])
