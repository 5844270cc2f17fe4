"""A sample history: five weeks between Inès, who builds software for a fish trader, and her assistant.

The people, the places they work at and everything that happens were made up for this package. Times are kept as
offsets, so that the history always ends today. It knows drafts only, nothing of stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict

from memory_retrievers.models import (
    Category,
    Draft,
    EpisodicDraft,
    EpisodicMemory,
    Origin,
    SemanticDraft,
    SemanticMemory,
)
from memory_retrievers.models.messages import Message

SCOPE: Final = "user/ines"  # scope of the sample history


QUESTIONS: Final = {
    "What caused E-4071?": (
        "Two searches in one: the words of the question find the number, its meaning finds what is like it."
    ),
    "What went wrong on that expensive Saturday?": (
        "Nobody called it expensive; it is found by what it means. A key moment comes with what was said."
    ),
    "Shall I release the new consumer this Friday?": (
        "Fridays used to be the day. The old rule is kept but no longer given as a fact; the episodes tell why."
    ),
}
"""Questions to ask the history, with what their answers show: hybrid search, a key moment, a fact that has changed."""

NEXT: Final = "What must I not cook for Lou?"  # a question to go on with


def load_history(*, scope: str, now: datetime) -> list[Draft]:
    """The sample history up to a moment, ready for ``remember_many``: the episodes, oldest first, then the facts."""
    history = _History.model_validate_json(resources.files(__name__).joinpath("history.json").read_bytes())
    learned = {fact: now - ago for fact, ago in history.learned_ago().items()}
    episodes = [_episode(record, scope=scope, now=now) for record in history.episodes]
    facts = [_fact(record, scope=scope, learned=learned) for record in history.facts]
    return [*episodes, *facts]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Turn(_Record):
    role: str
    content: str
    after: timedelta


class _Review(_Record):
    ago: timedelta
    stability: float
    difficulty: float


class _Episode(_Record):
    id: str
    began_ago: timedelta
    title: str
    summary: str
    surprise: float
    review: _Review | None = None
    messages: tuple[_Turn, ...]

    @property
    def ended_ago(self) -> timedelta:
        return self.began_ago - self.messages[-1].after


class _Fact(_Record):
    id: str
    category: Category
    fact: str
    keywords: tuple[str, ...]
    sources: tuple[str, ...]
    replaced_by: str | None = None


class _History(_Record):
    episodes: tuple[_Episode, ...]
    facts: tuple[_Fact, ...]

    def learned_ago(self) -> dict[str, timedelta]:
        """Age of each fact: the time since the end of the first of its sources."""
        ended_ago = {episode.id: episode.ended_ago for episode in self.episodes}
        return {fact.id: ended_ago[fact.sources[0]] for fact in self.facts}


def _episode(record: _Episode, *, scope: str, now: datetime) -> EpisodicDraft:
    began, ended, review = now - record.began_ago, now - record.ended_ago, record.review
    return EpisodicMemory.new(
        scope=scope,
        id=record.id,
        title=record.title,
        summary=record.summary,
        surprise=record.surprise,
        messages=tuple(
            Message(role=turn.role, content=turn.content, timestamp=began + turn.after) for turn in record.messages
        ),
        start_at=began,
        end_at=ended,
        created_at=ended,
        consolidated_at=ended,
        last_reviewed_at=review and now - review.ago,
        stability=review and review.stability,
        difficulty=review and review.difficulty,
        origin=Origin.CONVERSATION,
    )


def _fact(record: _Fact, *, scope: str, learned: Mapping[str, datetime]) -> SemanticDraft:
    """A replaced fact holds until its replacement is learned."""
    return SemanticMemory.new(
        scope=scope,
        id=record.id,
        category=record.category,
        fact=record.fact,
        keywords=record.keywords,
        source_episodic_ids=record.sources,
        created_at=learned[record.id],
        valid_at=learned[record.id],
        invalid_at=learned[record.replaced_by] if record.replaced_by else None,
        origin=Origin.CONSOLIDATION,
    )
