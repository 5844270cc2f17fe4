"""Showing: records become the JSON that the page draws, with long texts cut and figures rounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from memory_retrievers.inspection.curves import ForgettingCurve, curve_of
from memory_retrievers.inspection.survey import ScopeSurvey, Survey
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.rendering.raw import iso
from memory_retrievers.rendering.relative_time import relative_time
from memory_retrievers.retrieval.explained import ExplainedMemory, ExplainedRetrieval

MOST_CHARACTERS: Final = 2_000
"""So much of a text is shown; the memory itself may hold a million."""

MOST_MESSAGES: Final = 40
"""So many messages of an episode are shown, the first."""

_SHOWN_ELSEWHERE: Final = {"scope", "fact", "title", "summary", "category", "messages", "scene"}
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [], {})
_DECIMALS: Final = 4


def shown(survey: Survey) -> JsonObject:
    """All that the page shows, as a JSON-ready object."""
    return {
        "now": iso(survey.now),
        "within": survey.within,
        "counts": survey.counts.model_dump(),
        "scopes": [_scope(scope, survey.now) for scope in survey.scopes],
        "hidden_scopes": survey.hidden_scopes,
        "explained": None if survey.explained is None else _explained(survey.explained),
    }


def _scope(scope: ScopeSurvey, now: datetime) -> JsonObject:
    return {
        "scope": scope.scope,
        "counts": scope.counts.model_dump(),
        "memories": [_memory(memory, now) for memory in scope.memories],
        "more": scope.more,
        "reviews": [
            {
                "query": _cut(review.query),
                "at": iso(review.created_at),
                "ago": relative_time(review.created_at, now=now),
                "memories": [
                    key.id if key.scope == scope.scope else f"{key.scope}: {key.id}" for key in review.memories
                ],
            }
            for review in scope.reviews
        ],
        "queue": [_message(message) for message in scope.queue],
        "characters": [
            {
                "name": state.name,
                "emotion": state.current_emotion,
                "intensity": state.emotion_intensity,
                "knows": len(state.known_events),
                "shifts": [shift.emotion for shift in state.shifts],
            }
            for state in scope.characters
        ],
    }


def _memory(memory: AnyMemory, now: datetime) -> JsonObject:
    return {
        "id": memory.id,
        "kind": str(memory.kind),
        "at": iso(memory.created_at),
        "ago": relative_time(memory.created_at, now=now),
        "marks": list(_marks(memory)),
        "fields": [[name.replace("_", " "), _cut(value)] for name, value in _fields(memory)],
    } | (_episode(memory, now) if isinstance(memory, EpisodicMemory) else _fact(memory))


def _episode(episode: EpisodicMemory, now: datetime) -> JsonObject:
    return {
        "label": "episode" if episode.scene is None else "scene",
        "headline": _cut(episode.title or episode.summary),
        "text": _cut(episode.summary) if episode.title else "",
        "messages": [_message(message) for message in episode.messages[:MOST_MESSAGES]],
        "hidden_messages": max(len(episode.messages) - MOST_MESSAGES, 0),
        "curve": _curve(curve_of(episode, now=now)),
        "fades": not episode.is_flashbulb,
    }


def _fact(fact: SemanticMemory) -> JsonObject:
    return {"label": str(fact.category), "headline": _cut(fact.fact), "text": "", "messages": [], "hidden_messages": 0}


def _marks(memory: AnyMemory) -> Iterator[str]:
    if isinstance(memory, SemanticMemory):
        if memory.invalid_at is not None:
            yield "no longer valid"
    else:
        if memory.is_key_moment:
            yield "key moment"
        if memory.is_flashbulb:
            yield "never fades"


def _fields(memory: AnyMemory) -> Iterator[tuple[str, str]]:
    """Every field that says something: that is not empty, and not what any memory has if nothing is said of it."""
    usual = {name: field.default for name, field in type(memory).model_fields.items() if not field.is_required()}
    for name, value in memory.model_dump(mode="json", exclude=_SHOWN_ELSEWHERE).items():
        if value not in _EMPTY and value != usual.get(name):
            yield name, _text(value)
    if isinstance(memory, EpisodicMemory) and memory.scene is not None:
        for name, value in memory.scene.model_dump(mode="json").items():
            if value not in _EMPTY:
                yield f"scene {name}", _text(value)


def _text(value: JsonValue) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.{_DECIMALS}g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _message(message: Message) -> JsonObject:
    at = None if message.timestamp is None else iso(message.timestamp)
    return {"role": message.role, "content": _cut(message.content), "at": at}


def _curve(curve: ForgettingCurve) -> JsonObject:
    points = [[round(day, _DECIMALS), round(value, _DECIMALS)] for day, value in curve.points]
    return asdict(curve) | {"points": points}


def _explained(explained: ExplainedRetrieval) -> JsonObject:
    return {
        "query": _cut(explained.query),
        "embedded": _cut(explained.embedded),
        "scope": explained.scope,
        "semantic": [_place(memory) for memory in explained.semantic],
        "episodic": [_place(memory) for memory in explained.episodic],
    }


def _place(memory: ExplainedMemory) -> JsonObject:
    """A place in the ranking; the shares of its stages add up to its score before forgetting."""
    given = sum(stage.score for stage in memory.stages)
    scale = memory.score_before_forgetting / given if given else 0.0
    stages: list[Mapping[str, JsonValue]] = [
        {"name": stage.name.replace("_", " "), "rank": stage.rank, "score": stage.score, "share": stage.score * scale}
        for stage in memory.stages
    ]
    return memory.to_dict() | {"text": _cut(memory.text), "stages": stages}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters in all)"
