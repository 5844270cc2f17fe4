"""Results: retrieved memories with explanations, pages, what differs between two moments, reports of the write path."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar, cast, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import microseconds
from memory_retrievers.models.memories import (
    AnyMemory,
    EpisodicMemory,
    JsonObject,
    Kind,
    MemoryKey,
    MemoryT,
    Rating,
    SemanticMemory,
)

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What speaks for a memory's bearing on a query, in numbers that compare across queries and scopes.

    Attributes:
        cosine: Cosine of the query and that passage of the memory which matches best by meaning and words together.
        coverage: Share of the query's terms, weighed by their rarity in the scope, that this passage has; 0 to 1.
        deviations: How far the memory's nearest passage stands out from the scope: its cosine above the median of all
            passages, in median absolute deviations; 15 at most.
        passages: Number of passages of its kind in the scope.
        dated: Whether it is an episode of a time that the query names.
        tokens: How near the words of the query are to the best passages of the memory, each by its nearest token, as a
            mean weighed by rarity (MaxSim); None where late interaction did not measure it.
        personal: Whether the query is in the first person: whoever asks about themselves asks for what they told.
    """

    cosine: float
    coverage: float
    deviations: float
    passages: int
    dated: bool = False
    tokens: float | None = None
    personal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Reasons for the rank of a memory.

    Attributes:
        dense_rank: Its rank among the nearest vectors, from 1; None if it was not among the candidates.
        bm25_rank: Its rank by BM25, from 1; None if it was not among the candidates.
        fused_score: The sum of what each list gave it (specification §2.3), with every boost.
        retrievability: How well it is remembered, 0 to 1 (FSRS); 1 for facts.
        score: The final score, 0 to 1.
        stages: What each list and each boost gave its best passage, by name; their sum is the score before
            forgetting. Empty with rank fusion.
        evidence: What its relevance was estimated from; None with rank fusion.
    """

    dense_rank: int | None
    bm25_rank: int | None
    fused_score: float
    retrievability: float
    score: float
    stages: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A matching passage of a memory, and its messages.

    Attributes:
        part: Which passage: ``turn`` for a message of an episode.
        messages: The indexes of its messages in ``EpisodicMemory.messages``, from 0.
        score: How well it answers, 0 to 1, on one scale for all memories of a result.
    """

    part: str
    messages: tuple[int, ...]
    score: float


class OnDemand(Generic[ValueT]):
    """A field of a dataclass that may be given as a function, which is called when the field is first read."""

    def __init__(self, *default: ValueT) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> ValueT:
        if instance is None:  # what a dataclass takes for the default of the field
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        value = instance.__dict__[self._name]
        if callable(value):
            value = instance.__dict__[self._name] = value()
        return cast("ValueT", value)

    def __set__(self, instance: object, value: ValueT | Callable[[], ValueT]) -> None:
        instance.__dict__[self._name] = value

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(get_args(source)[0])


@dataclass(frozen=True, kw_only=True)
class RetrievedMemory(Generic[MemoryT]):
    """A retrieved memory.

    Attributes:
        memory: The memory.
        rank: Its rank among memories of its kind, from 1.
        score: Above 0 and at most 1, relative to the best of the result.
        relevance: Estimated probability that the memory has to do with the query, 0 to 1, comparable across queries;
            it falls with rank. With rank fusion it is the score. Computed when it is first read.
        explanation: Why it has this rank; computed when it is first read.
        matches: Its passages by how well they answer, best first; empty if only summaries are searched. Computed
            when they are first read.
    """

    memory: MemoryT
    rank: int
    score: float
    relevance: OnDemand[float] = OnDemand()
    explanation: OnDemand[Explanation] = OnDemand()
    matches: OnDemand[tuple[Match, ...]] = OnDemand(())

    @property
    def is_judged(self) -> bool:
        """Whether relevance was estimated; where ranks are fused it is the score."""
        return self.relevance != self.score

    def __getstate__(self) -> dict[str, object]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # a copy is taken of values


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReview:
    """A retrieval that has not been rated yet.

    Attributes:
        scope: The scope that was searched.
        query: What was asked.
        memories: The episodes that were returned, in rank order.
        created_at: When it was asked.
    """

    scope: str
    query: str
    memories: tuple[MemoryKey, ...]
    created_at: datetime


MAX_PAGE: Final = 1_000

_LARGEST: Final = 2**63


class Position(NamedTuple):
    """End of a page: the last memory's ``created_at`` in microseconds since 1970, and its id."""

    created_at: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a scope's memories: iterates over them in order, and is false if it is empty.

    Attributes:
        memories: Newest first by ``created_at``, then by id.
        cursor: Pass it as ``cursor`` to get the next page; None if there is none.
    """

    memories: tuple[AnyMemory, ...]
    cursor: str | None

    def __len__(self) -> int:
        return len(self.memories)

    def __iter__(self) -> Iterator[AnyMemory]:
        return iter(self.memories)


def page_of(memories: Sequence[AnyMemory], *, limit: int) -> Page:
    """Build a page of the first ``limit`` memories; one more shows that there is a next page."""
    shown = tuple(memories[:limit])
    return Page(memories=shown, cursor=None if len(memories) <= limit else position_cursor(shown[-1]))


def position_cursor(memory: AnyMemory) -> str:
    """Encode the position behind a memory as a cursor."""
    literal = json.dumps((microseconds(memory.created_at), memory.id), separators=(",", ":"))
    return base64.urlsafe_b64encode(literal.encode()).decode()


def parse_cursor(cursor: object) -> Position | None:
    """Decode a cursor to a position; None is the beginning."""
    if cursor is None:
        return None
    try:
        match json.loads(base64.b64decode(str(cursor), altchars="-_", validate=True)):
            case [int(created_at), str(id)] if not isinstance(created_at, bool) and abs(created_at) < _LARGEST:
                id.encode()
                return Position(created_at, id)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise ValidationError("cursor must be that of an earlier page, unchanged; leave it out for the first page")


def parse_page_size(limit: object) -> int:
    """Check that the size of a page is an integer from 1 to 1000."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE:
        raise ValidationError(f"limit must be an integer from 1 to {MAX_PAGE}, not {limit!r}")
    return limit


def parse_kinds(kind: object) -> tuple[Kind, ...]:
    """Check the requested kinds; None requests both."""
    if kind is None:
        return tuple(Kind)
    try:
        return (Kind(str(kind)),)
    except ValueError:
        raise ValidationError(f"unknown kind {kind!r}; one of: {', '.join(Kind)}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Outcome of adding messages to a queue.

    Attributes:
        accepted: How many were queued, without those that ``before_store`` rejected.
        queued: How many messages wait in this conversation now.
        due: Whether ``process_due`` would do something for this scope.
    """

    accepted: int
    queued: int
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenMessages:
    """Outcome of forgetting messages.

    Attributes:
        messages: How many were deleted.
        episodes: The ids of the episodes that are kept with the messages that are left.
        memories: The ids of memories made from these episodes, or from deleted ones: they stay, and may repeat what
            was deleted.
    """

    messages: int
    episodes: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Outcome of processing: new episodes, facts and reviews, oldest first.

    Attributes:
        episodes: The new episodes.
        facts: The new facts, including those that replace another.
        reinforced: The facts that were learned again.
        invalidated: The facts that are no longer valid, replaced or not, as they were before.
        reviews: The episodes whose forgetting state was reviewed, with the rating of each.
        waiting: How many messages are still queued in the scopes that were processed.
    """

    episodes: tuple[EpisodicMemory, ...] = ()
    facts: tuple[SemanticMemory, ...] = ()
    reinforced: tuple[SemanticMemory, ...] = ()
    invalidated: tuple[SemanticMemory, ...] = ()
    reviews: tuple[tuple[MemoryKey, Rating], ...] = ()
    waiting: int = 0

    def to_dict(self) -> JsonObject:
        """The report as JSON: complete records, and the scope, id and rating of each review."""
        parts = ("episodes", "facts", "reinforced", "invalidated")
        return {
            **{part: [each.model_dump(mode="json") for each in getattr(self, part)] for part in parts},
            "reviews": [{"scope": key.scope, "id": key.id, "rating": str(rating)} for key, rating in self.reviews],
            "waiting": self.waiting,
        }

    def joined(self, other: Self) -> Self:
        """Combine two reports."""
        return type(self)(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


class FactChange(NamedTuple):
    """A fact whose text has changed, or that was replaced: as it was, and as it is."""

    before: SemanticMemory
    after: SemanticMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """What changed in a scope between two moments; each part in the order of time.

    It is false if nothing has changed.

    It contains nothing of what was forgotten.

    Attributes:
        since: The earlier moment.
        until: The later one.
        added: Facts that are valid at the later moment and were not at the earlier, and episodes begun in between.
        changed: Facts with another text, each as it was and as it is.
        ended: Facts that were valid at the earlier moment and are not at the later one.
        is_complete: False if more changed than the limit allows; this is then the part that changed first.
    """

    since: datetime
    until: datetime
    added: tuple[AnyMemory, ...] = ()
    changed: tuple[FactChange, ...] = ()
    ended: tuple[SemanticMemory, ...] = ()
    is_complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.ended)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "added": [memory.model_dump(mode="json") for memory in self.added],
            "changed": [
                {"before": before.model_dump(mode="json"), "after": after.model_dump(mode="json")}
                for before, after in self.changed
            ],
            "ended": [fact.model_dump(mode="json") for fact in self.ended],
            "is_complete": self.is_complete,
        }


def held(fact: SemanticMemory, moment: datetime) -> bool:
    """True if a fact, or a version of it, was valid at a moment."""
    return fact.valid_at <= moment and (fact.invalid_at is None or fact.invalid_at > moment)


def difference(
    versions: Iterable[SemanticMemory],
    episodes: Sequence[EpisodicMemory],
    *,
    since: datetime,
    until: datetime,
    is_complete: bool,
) -> MemoryDiff:
    """Compare what held at two moments.

    Args:
        versions: Facts that began or ceased to hold in between, with all former versions of each.
        episodes: Episodes begun in between.
        since: The first moment.
        until: The later one.
        is_complete: Whether these are all.
    """
    facts = list(versions)
    then, now = ({fact.key: fact for fact in facts if held(fact, moment)} for moment in (since, until))
    gone = {key: fact for key, fact in then.items() if key not in now}
    come = {key: fact for key, fact in now.items() if key not in then}
    changed = [FactChange(then[key], now[key]) for key in then.keys() & now.keys() if then[key].fact != now[key].fact]
    for key, fact in list(gone.items()):
        successor = MemoryKey(scope=fact.scope, id=fact.replaced_by or "")
        if successor in come:
            changed.append(FactChange(gone.pop(key), come.pop(successor)))
    return MemoryDiff(
        since=since,
        until=until,
        added=tuple(sorted((*come.values(), *episodes), key=_began)),
        changed=tuple(sorted(changed, key=lambda change: _began(change.after))),
        ended=tuple(sorted(gone.values(), key=lambda fact: (fact.invalid_at or until, fact.id, fact.scope))),
        is_complete=is_complete,
    )


def _began(memory: AnyMemory) -> tuple[datetime, str, str]:
    return (memory.start_at if isinstance(memory, EpisodicMemory) else memory.valid_at, memory.id, memory.scope)
