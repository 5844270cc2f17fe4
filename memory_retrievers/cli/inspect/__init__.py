"""Inspection: one HTML file that shows what a memory holds, how it fades, and why a question is answered as it is.

The file needs nothing else: no script, font or style is loaded from anywhere, and a policy in its head has the browser
refuse whatever tries. Texts of memories are data in it and never become markup. Looking changes nothing in the store.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from importlib import resources
from string import Template
from typing import Final

from pydantic import JsonValue

import memory_retrievers
from memory_retrievers.fsrs import curve_of
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, ScopeStatistics, SemanticMemory, scopes
from memory_retrievers.models.fields import iso, storable
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import parse_page_size
from memory_retrievers.retrieval.explanations import ExplainedMemory, ExplainedRetrieval
from memory_retrievers.retrieval.markdown import relative_time

DEFAULT_LIMIT: Final = 200  # number of memories of a scope that are shown, the newest
MOST_MEMORIES: Final = 5_000  # largest number of memories in all: a browser still scrolls through them
MOST_SCOPES: Final = 500  # number of scopes that are shown, the first by name
MOST_WAITING: Final = 50  # number of queued messages and of pending reviews of a scope that are shown

_SCRIPTS: Final = ("elements.js", "curves.js", "ranking.js", "page.js")
_MARKUP: Final = re.compile("[<>&\u2028\u2029]")


def survey_of(
    memory: AgentMemory,
    *,
    within: str | None = None,
    limit: int = DEFAULT_LIMIT,
    explained: ExplainedRetrieval | None = None,
) -> JsonObject:
    """All that is shown of a memory, as a JSON-ready object. Nothing is filed for review, and nothing counts as a use.

    Args:
        memory: What to look through; read-only is enough.
        within: Only this scope and those below it; None is everything.
        limit: At most this many memories of each scope, 1 to 1000; 5,000 in all.
        explained: Why a question is answered as it is; None shows no answer.

    Raises:
        ValidationError: The scope is malformed, or the limit is not from 1 to 1000.
    """
    inside, size, now = None if within is None else scopes.parse(within), parse_page_size(limit), memory.now()
    counted = dict(_counted(memory, inside))
    surveys: list[JsonObject] = []
    room = MOST_MEMORIES
    for scope in list(counted)[:MOST_SCOPES]:
        surveys.append(_scope(memory, scope, counted[scope], now=now, limit=min(size, room)))
        room -= len(surveys[-1]["memories"])
    return {
        "now": iso(now),
        "within": inside,
        "counts": _sum(counted.values()).model_dump(),
        "scopes": surveys,
        "hidden_scopes": len(counted) - len(surveys),
        "explained": None if explained is None else _shown_explanation(explained),
    }


def _counted(memory: AgentMemory, within: str | None) -> Iterator[tuple[str, ScopeStatistics]]:
    """Every scope that holds something, by name, with how much. Reviews may wait where no memory is: above one."""
    holding = {*memory.scopes(), *memory.waiting_scopes()}
    for scope in sorted({path for each in holding for path in scopes.lineage(each)}):
        if within is None or scopes.is_within(within, scope):
            counts = memory.stats(scope)
            if any(count for _, count in counts):
                yield scope, counts


def _sum(counts: Iterable[ScopeStatistics]) -> ScopeStatistics:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(dict(each))
    return ScopeStatistics(**total)


MOST_CHARACTERS: Final = 2_000  # number of characters of a text that are shown; the memory itself may hold a million
MOST_MESSAGES: Final = 40  # number of messages of an episode that are shown, the first

_SHOWN_ELSEWHERE: Final = {"scope", "fact", "title", "summary", "category", "messages", "scene"}
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [], {})
_DECIMALS: Final = 4


def _scope(memory: AgentMemory, scope: str, counts: ScopeStatistics, *, now: datetime, limit: int) -> JsonObject:
    """What is shown of a scope: its newest memories and reviews, newest first, and the first messages that wait."""
    page = memory.list(scope, limit=limit) if limit else None
    return {
        "scope": scope,
        "counts": counts.model_dump(),
        "memories": [] if page is None else [_memory(each, now) for each in page.memories],
        "more": bool(counts.episodes or counts.facts) if page is None else page.cursor is not None,
        "reviews": [
            {
                "query": _cut(review.query),
                "at": iso(review.created_at),
                "ago": relative_time(review.created_at, now=now),
                "memories": [key.id if key.scope == scope else f"{key.scope}: {key.id}" for key in review.memories],
            }
            for review in reversed(memory.pending_reviews(scope)[-MOST_WAITING:])
        ],
        "queue": [_message(message) for message in memory.waiting(scope, limit=MOST_WAITING)],
        "characters": [
            {
                "name": state.name,
                "emotion": state.current_emotion,
                "intensity": state.emotion_intensity,
                "knows": len(state.known_events),
                "shifts": [shift.emotion for shift in state.shifts],
            }
            for state in memory.characters(scope)
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
    } | _content(memory, now)


def _content(memory: AnyMemory, now: datetime) -> JsonObject:
    if isinstance(memory, SemanticMemory):
        shown = {"label": str(memory.category), "headline": _cut(memory.fact), "text": ""}
        return {**shown, "messages": [], "hidden_messages": 0}
    curve = curve_of(memory, now=now)
    return {
        "label": "episode" if memory.scene is None else "scene",
        "headline": _cut(memory.title or memory.summary),
        "text": _cut(memory.summary) if memory.title else "",
        "messages": [_message(message) for message in memory.messages[:MOST_MESSAGES]],
        "hidden_messages": max(len(memory.messages) - MOST_MESSAGES, 0),
        "curve": asdict(curve) | {"points": [[round(value, _DECIMALS) for value in point] for point in curve.points]},
        "fades": not memory.is_flashbulb,
    }


def _marks(memory: AnyMemory) -> Iterator[str]:
    if isinstance(memory, SemanticMemory) and memory.invalid_at is not None:
        yield "no longer valid"
    if isinstance(memory, EpisodicMemory) and memory.is_key_moment:
        yield "key moment"
    if isinstance(memory, EpisodicMemory) and memory.is_flashbulb:
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


def _shown_explanation(explained: ExplainedRetrieval) -> JsonObject:
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


def page_of(survey: JsonObject, *, title: str) -> str:
    """Build the whole file of what :func:`survey_of` gave."""
    style, script = _file("page.css"), "\n".join(map(_file, _SCRIPTS))
    data = survey | {
        "title": title,
        "version": memory_retrievers.__version__,
        "most_characters": MOST_CHARACTERS,
        "most_messages": MOST_MESSAGES,
    }
    return Template(_file("page.html")).substitute(
        policy=html.escape(_policy(style=style, script=script)),
        title=html.escape(storable(title)),
        style=style,
        data=_inert(data),
        script=script,
    )


def _policy(*, style: str, script: str) -> str:
    """Content security policy: this style and this script, by their hashes, and nothing from anywhere."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",  # the empty icon
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",  # text cannot become markup by the script either
        )
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _inert(value: JsonObject) -> str:
    """JSON that cannot close the element that contains it, whatever texts it holds."""
    literal = storable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return _MARKUP.sub(lambda match: f"\\u{ord(match[0]):04x}", literal)


def _file(name: str) -> str:
    return (resources.files("memory_retrievers.cli.inspect") / "template" / name).read_text(encoding="utf-8")
