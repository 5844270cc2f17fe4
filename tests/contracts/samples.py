"""What the suites store and ask: memories and selections of which a test names only what it is about."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, Kind, MemoryKey, SemanticMemory
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.scenes import SceneDetails
from memory_retrievers.models.selection import Hits, NewPassage, Passage, Selection

if TYPE_CHECKING:
    from memory_retrievers.models.selection import Vectors

Result = TypeVar("Result")

NOW: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCOPE: Final = "user/1"
THREADS: Final = 8

BELOW: Final = (
    "user/1/work",
    "user/1/work/deep",
    "user/1/!",
    "user/1/0",
    "user/1/~",
    "user/1/ß",
    "user/1/%",
    "user/1/😀",
)
"""Scopes below ``SCOPE``."""

BESIDE: Final = (
    "user",
    "user/10",
    "user/10/work",
    "user/1-a",
    "user/1.5",
    "user/1:work",
    "user/1_",
    "user/2",
    "User/1",
    "User/1/work",
    "USER/1",
    "a/user/1",
)
"""Scopes that are neither ``SCOPE`` nor below it, though some sort next to it."""

ALIKE: Final = (
    *(SCOPE, *BELOW, *BESIDE),
    *("100%", "1000", "100%/a"),
    *("a_b", "aXb"),
    *("a*", "ab", "[ab]", "a"),
    *("straße", "strasse"),
    *("ж", "Ж"),
    *("caf\u00e9", "cafe\u0301"),
    *("1", "01"),
    *("null", "NULL"),
)
"""Scopes of which one or the other database would take some for the same, or for a pattern of each other."""

exploring = settings(
    deadline=None,
    derandomize=True,
    max_examples=50,
    # Each example keeps to a scope of its own, so all may share the fixtures, and heirs the test.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
"""How hypothesis runs in the suites: the same examples every time, however slow the machine."""

_numbers = itertools.count()


def fresh_scope() -> str:
    """A scope that nobody has used."""
    return f"fresh/{next(_numbers)}x"  # with a 0 behind it, which nothing below it has, it is none that comes later


def fact(
    id: str,
    text: str = "The user likes tea",
    *,
    scope: str = SCOPE,
    category: Category = Category.NOTE,
    expires_at: datetime | None = None,
    invalid_at: datetime | None = None,
) -> SemanticMemory:
    """A fact."""
    return SemanticMemory(
        id=id,
        scope=scope,
        fact=text,
        category=category,
        created_at=NOW,
        updated_at=NOW,
        valid_at=NOW,
        expires_at=expires_at,
        invalid_at=invalid_at,
    )


def episode(
    id: str,
    text: str = "They talked about tea",
    *,
    scope: str = SCOPE,
    created_at: datetime = NOW,
    expires_at: datetime | None = None,
) -> EpisodicMemory:
    """An episode."""
    return EpisodicMemory(
        id=id,
        scope=scope,
        summary=text,
        created_at=created_at,
        updated_at=created_at,
        start_at=created_at,
        end_at=created_at,
        last_reviewed_at=created_at,
        stability=2.5,
        difficulty=5.0,
        expires_at=expires_at,
    )


def scene(
    id: str,
    text: str = "Goblin stole the amulet",
    *,
    scope: str = SCOPE,
    details: SceneDetails | None = None,
    created_at: datetime = NOW,
    expires_at: datetime | None = None,
) -> EpisodicMemory:
    """An episode that is a scene of a story."""
    told = episode(id, text, scope=scope, created_at=created_at, expires_at=expires_at)
    return told.model_copy(update={"scene": details or SceneDetails(sequence=0), "consolidated_at": created_at})


def review(
    query: str = "Which tea?", *, scope: str = SCOPE, ids: Sequence[str] = ("e1",), created_at: datetime = NOW
) -> PendingReview:
    """A retrieval that waits to be reviewed."""
    keys = tuple(MemoryKey(scope=scope, id=its_id) for its_id in ids)
    return PendingReview(scope=scope, query=query, memories=keys, created_at=created_at)


def facts_in(
    scope: str = SCOPE, *, include_child_scopes: bool = False, category: Category | None = None, now: datetime = NOW
) -> Selection:
    """The facts of a scope."""
    return Selection(
        scope=scope, kind=Kind.SEMANTIC, now=now, include_child_scopes=include_child_scopes, category=category
    )


def episodes_in(scope: str = SCOPE, *, include_child_scopes: bool = False, now: datetime = NOW) -> Selection:
    """The episodes of a scope."""
    return Selection(scope=scope, kind=Kind.EPISODIC, now=now, include_child_scopes=include_child_scopes)


def indexed(ledger: SQLLedger, selection: Selection) -> list[int]:
    """The ids of all passages of the selection's scope and fields, whatever their state, ascending."""
    ids: list[int] = ledger.columns(selection).columns["ids"].tolist()
    return ids


def add(ledger: SQLLedger, memories: Sequence[AnyMemory], vectors: Vectors | None = None) -> list[Passage]:
    """Store memories, each with its search text as its one passage."""
    if vectors is None:
        vectors = np.zeros((len(memories), 4), np.float32)
    passages = [
        [NewPassage(part=memory.kind, text=memory.search_text, vector=vector)]
        for memory, vector in zip(memories, vectors, strict=True)
    ]
    return ledger.add(memories, passages)


def ranking(hits: Hits) -> dict[int, float]:
    """The scores of the passages that were found, best first."""
    assert len(hits.memories) == len(hits.passages)
    return dict(zip(hits.passages, hits.scores, strict=True))


def at_once(work: Callable[[int], Result]) -> list[Result]:
    """What ``work`` gives in each of eight threads that start together; the first exception is raised again."""
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> Result:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as executor:
        return list(executor.map(run, range(THREADS)))


@contextmanager
def without_snapshots(ledger: SQLLedger) -> Iterator[None]:
    """No scope is small enough for a snapshot within this: every search goes by the tables."""
    most, ledger.snapshots.most = ledger.snapshots.most, -1
    ledger.snapshots.forget(None)
    try:
        yield
    finally:
        ledger.snapshots.most = most


def columns_read(ledger: SQLLedger, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What this thread asks for from now on where it reads passages, by the names of the arguments.

    Another one looks every two seconds what others have deleted, and then reads too, whatever a test does meanwhile.
    """
    asked: list[dict[str, Any]] = []
    read, here = ledger.columns, threading.get_ident()

    def columns(*given: Any, **more: Any) -> Any:
        if threading.get_ident() == here:
            asked.append(more)
        return read(*given, **more)

    monkeypatch.setattr(ledger, "columns", columns)
    return asked
