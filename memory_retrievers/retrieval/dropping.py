"""Dropping: the stage of a retrieval that drops a memory, and why, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from memory_retrievers.models import AnyMemory, Kind, SemanticMemory
from memory_retrievers.rendering.raw import iso
from memory_retrievers.retrieval.asking import has_expired, holds
from memory_retrievers.retrieval.explained import ExplainedMemory, Outcome
from memory_retrievers.retrieval.request import RetrievalRequest


class Fate(NamedTuple):
    """What became of a memory, and why."""

    outcome: Outcome
    reason: str


class Bounds(NamedTuple):
    """What bounded a memory that competed.

    Attributes:
        competing: How many of its kind competed.
        limit: How many of its kind were asked for.
        last: The final score of the last of them.
        joint_limit: How many of both kinds together were asked for.
    """

    competing: int
    limit: int
    last: float
    joint_limit: int | None


def before_search(memory: AnyMemory, request: RetrievalRequest, *, now: datetime) -> Fate | None:
    """What keeps a memory out by its record alone; None if nothing does."""
    if has_expired(memory, now=now):
        assert memory.expires_at is not None  # noqa: S101 - else it had not
        return Fate(Outcome.EXPIRED, f"It expired at {iso(memory.expires_at)}.")
    if not holds(memory, as_of=request.as_of):
        return _invalid(memory, request.as_of)
    if isinstance(memory, SemanticMemory) and request.category not in {None, memory.category}:
        return Fate(
            Outcome.OTHER_CATEGORY, f"It is of category {memory.category}; only {request.category} was asked for."
        )
    is_fact = memory.kind is Kind.SEMANTIC
    if not (request.semantic_limit if is_fact else request.episodic_limit):
        asked = "No facts were asked for" if is_fact else "No episodes were asked for"
        return Fate(Outcome.NOT_ASKED_FOR, f"{asked}: the limit is 0.")
    return None


def unindexed(memory: AnyMemory) -> Fate:
    """Why a memory has no passages that could be found."""
    if memory.is_searchable:
        return Fate(Outcome.NOT_INDEXED, "It has no searchable text in the store; verify() tells what is wrong.")
    return Fate(Outcome.NOT_INDEXED, "It was stored as a value that is not to be indexed.")


def not_a_candidate(*, cosine: float, words: Sequence[str], depth: int) -> Fate:
    """Why a memory did not compete, though it could be found."""
    shared = f"shares {', '.join(words)}" if words else "shares no word"
    return Fate(
        Outcome.NOT_A_CANDIDATE,
        f"It is not among the candidates, which are the {depth} nearest and the {depth} best by words: "
        f"its cosine is {cosine:.3f}, and it {shared}.",
    )


def after_search(memory: ExplainedMemory, bounds: Bounds, *, is_returned: bool) -> Fate:
    """What became of a memory that competed."""
    place = f"place {memory.rank} of {bounds.competing}"
    if is_returned:
        return Fate(Outcome.RETURNED, f"It is returned, at place {memory.rank} of its kind.")
    if memory.rank <= bounds.limit:
        return Fate(
            Outcome.JOINT_LIMIT,
            f"It comes to {place} of its kind, with {memory.score:.4f}; "
            f"the best {bounds.joint_limit} of both kinds together were asked for.",
        )
    wanted = f"the best {bounds.limit} were asked for, and the last of them has {bounds.last:.4f}"
    if memory.rank_before_forgetting <= bounds.limit:
        return Fate(
            Outcome.FORGOTTEN,
            f"It is half forgotten: its retrievability of {memory.retrievability:.4f} brings it from place "
            f"{memory.rank_before_forgetting} to {place}, with {memory.score:.4f}; {wanted}.",
        )
    return Fate(Outcome.RANKED_TOO_LOW, f"It comes to {place}, with {memory.score:.4f}; {wanted}.")


def _invalid(memory: AnyMemory, as_of: datetime | None) -> Fate:
    if not isinstance(memory, SemanticMemory):
        return Fate(Outcome.NOT_VALID_THEN, f"It only began at {iso(memory.start_at)}.")
    instead = f"; {memory.replaced_by} holds instead" if memory.replaced_by else ""
    until = "" if memory.invalid_at is None else f" until {iso(memory.invalid_at)}"
    if as_of is None:
        return Fate(Outcome.INVALIDATED, f"It held{until}{instead}.")
    return Fate(Outcome.NOT_VALID_THEN, f"It did not hold at {iso(as_of)}, but from {iso(memory.valid_at)}{until}.")
