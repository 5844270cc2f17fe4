"""A survey: what is shown of a memory, read through its public methods and bounded however large the store is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memory_retrievers import scopes
from memory_retrievers.memory import AgentMemory
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, ScopeStatistics
from memory_retrievers.paging import parse_page_size
from memory_retrievers.retrieval.explained import ExplainedRetrieval
from memory_retrievers.retrieved import PendingReview
from memory_retrievers.scene_records import CharacterState

DEFAULT_LIMIT: Final = 200
"""So many memories of a scope are shown, the newest."""

MOST_MEMORIES: Final = 5_000
"""So many in all: a browser still scrolls through them."""

MOST_SCOPES: Final = 500
"""So many scopes are shown, the first by name."""

MOST_WAITING: Final = 50
"""So many queued messages and pending reviews of a scope are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to explain the answer of.

    Attributes:
        text: The question.
        scope: The scope that is searched.
        include_child_scopes: Also search every scope below it.
        episodic_limit: At most this many episodes.
        semantic_limit: At most this many facts.
    """

    text: str
    scope: str
    include_child_scopes: bool = False
    episodic_limit: int = 5
    semantic_limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeSurvey:
    """What is shown of one scope.

    Attributes:
        scope: Its path.
        counts: How much it holds.
        memories: Its newest memories, newest first.
        more: Whether it holds others.
        reviews: Its newest pending reviews, newest first.
        queue: The first of its queued messages, in the order they came.
        characters: The characters of its story, in the order in which they appeared.
    """

    scope: str
    counts: ScopeStatistics
    memories: tuple[AnyMemory, ...]
    more: bool
    reviews: tuple[PendingReview, ...]
    queue: tuple[Message, ...]
    characters: tuple[CharacterState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is shown of a memory.

    Attributes:
        now: When.
        within: Only this scope and those below it; None is everything.
        counts: How much there is in all, shown or not.
        scopes: The scopes that are shown, by name.
        hidden_scopes: How many more there are.
        explained: Why a question is answered as it is, if one was asked.
    """

    now: datetime
    within: str | None
    counts: ScopeStatistics
    scopes: tuple[ScopeSurvey, ...]
    hidden_scopes: int
    explained: ExplainedRetrieval | None


def survey_of(
    memory: AgentMemory, *, within: str | None = None, limit: int = DEFAULT_LIMIT, question: Question | None = None
) -> Survey:
    """Look through a memory. Nothing is filed for review, and nothing counts as a use.

    Args:
        memory: What to look through; read-only is enough.
        within: Only this scope and those below it; None is everything.
        limit: At most this many memories of each scope, 1 to 1000; 5,000 in all.
        question: Also explain the answer to this.

    Raises:
        ValidationError: A scope is malformed, the question breaks a rule, or the limit is not from 1 to 1000.
        EmbeddingError: The embedder failed.
    """
    inside, size = None if within is None else scopes.parse(within), parse_page_size(limit)
    # 1. where there is anything
    counted = dict(_counted(memory, inside))
    shown = list(counted)[:MOST_SCOPES]
    # 2. what is there
    surveys, room = [], MOST_MEMORIES
    for scope in shown:
        surveys.append(_scope(memory, scope, counted[scope], limit=size, room=room))
        room -= len(surveys[-1].memories)
    # 3. why a question is answered as it is
    return Survey(
        now=memory.now(),
        within=inside,
        counts=_sum(counted.values()),
        scopes=tuple(surveys),
        hidden_scopes=len(counted) - len(shown),
        explained=None if question is None else _explained(memory, question),
    )


def _counted(memory: AgentMemory, within: str | None) -> Iterator[tuple[str, ScopeStatistics]]:
    """Every scope that holds something, by name, with how much. Reviews may wait where no memory is: above one."""
    holding = {*memory.scopes(), *memory.waiting_scopes()}
    for scope in sorted({path for each in holding for path in _with_ancestors(each)}):
        if within is None or scopes.is_within(within, scope):
            counts = memory.stats(scope)
            if any(count for _, count in counts):
                yield scope, counts


def _with_ancestors(scope: str) -> Iterator[str]:
    segments = scope.split("/")
    return ("/".join(segments[:length]) for length in range(1, len(segments) + 1))


def _scope(memory: AgentMemory, scope: str, counts: ScopeStatistics, *, limit: int, room: int) -> ScopeSurvey:
    page = memory.list(scope, limit=min(limit, room)) if room else None
    return ScopeSurvey(
        scope=scope,
        counts=counts,
        memories=() if page is None else page.memories,
        more=bool(counts.episodes or counts.facts) if page is None else page.cursor is not None,
        reviews=tuple(reversed(memory.pending_reviews(scope)[-MOST_WAITING:])),
        queue=tuple(memory.waiting(scope, limit=MOST_WAITING)),
        characters=tuple(memory.characters(scope)),
    )


def _explained(memory: AgentMemory, question: Question) -> ExplainedRetrieval:
    return memory.explain(
        question.text,
        scope=question.scope,
        include_child_scopes=question.include_child_scopes,
        episodic_limit=question.episodic_limit,
        semantic_limit=question.semantic_limit,
    )


def _sum(counts: Iterable[ScopeStatistics]) -> ScopeStatistics:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(dict(each))
    return ScopeStatistics(**total)
