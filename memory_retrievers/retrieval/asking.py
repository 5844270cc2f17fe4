"""Asking: what a request means for a store, that is which memories may answer, and what of the question is embedded."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memory_retrievers.models import AnyMemory, Category, Kind, SemanticMemory
from memory_retrievers.passages import Selection, TermStatistics
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.store import MemoryStore


def limits(request: RetrievalRequest) -> tuple[tuple[Kind, int], tuple[Kind, int]]:
    """Both kinds, facts first, with how many of each are asked for at most."""
    return (Kind.SEMANTIC, request.semantic_limit), (Kind.EPISODIC, request.episodic_limit)


def selection_of(request: RetrievalRequest, kind: Kind, *, now: datetime, settings: RetrievalSettings) -> Selection:
    """Which passages of one kind may answer."""
    return Selection(
        scope=request.scope,
        kind=kind,
        now=now,
        include_child_scopes=request.include_child_scopes,
        every_passage=settings.passages == "turns",
        category=_category_for(kind, request.category),
        as_of=request.as_of,
    )


class Asked(NamedTuple):
    """What a request asks of a store.

    Attributes:
        question: The question, taken apart.
        selections: Which passages of each kind that is asked for may answer.
        statistics: How common the question's terms are among those of each kind; none where ranks are fused.
        embedded: What is embedded of the question: without the words that nearly every passage in sight has.
    """

    question: Question
    selections: dict[Kind, Selection]
    statistics: dict[Kind, TermStatistics]
    embedded: str

    @classmethod
    def of(cls, request: RetrievalRequest, *, store: MemoryStore, now: datetime, settings: RetrievalSettings) -> Asked:
        """Find out what a request asks."""
        question = Question.parse(request.query)
        selections = {
            kind: selection_of(request, kind, now=now, settings=settings) for kind, limit in limits(request) if limit
        }
        if settings.fusion == "rrf" and settings.common_share >= 1:
            return cls(question, selections, {}, question.text)
        terms = list(dict.fromkeys(question.terms))
        with store.ledger.reading():
            known = {kind: store.keyword.statistics(terms, selection) for kind, selection in selections.items()}
        frequencies = {term: sum(each.frequencies[term] for each in known.values()) for term in terms}
        passages = sum(each.passages for each in known.values())
        embedded = question.without_common(frequencies, passages=passages, share=settings.common_share)
        return cls(question, selections, known, embedded)


def is_visible(memory: AnyMemory, request: RetrievalRequest, *, now: datetime) -> bool:
    """The last word, on the record itself: whatever an index says, nothing of another scope or time gets out."""
    in_scope = memory.scope == request.scope or (
        request.include_child_scopes and memory.scope.startswith(f"{request.scope}/")
    )
    return in_scope and holds(memory, as_of=request.as_of) and not has_expired(memory, now=now)


def has_expired(memory: AnyMemory, *, now: datetime) -> bool:
    """Whether it is invisible by now."""
    return memory.expires_at is not None and memory.expires_at <= now


def holds(memory: AnyMemory, *, as_of: datetime | None) -> bool:
    """Whether a fact was true, or an episode had begun, at that moment; None is now."""
    invalid_at = memory.invalid_at if isinstance(memory, SemanticMemory) else None
    if as_of is None:
        return invalid_at is None
    since = memory.valid_at if isinstance(memory, SemanticMemory) else memory.start_at
    return since <= as_of and (invalid_at is None or invalid_at > as_of)


def _category_for(kind: Kind, category: Category | None) -> Category | None:
    return category if kind is Kind.SEMANTIC else None  # episodes have no category
