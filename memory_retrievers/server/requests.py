"""Requests: the memory, the settings and the permissions with which a route answers, and metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeAlias, TypeVar

from fastapi import Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import ScopeStatistics
from memory_retrievers.models.management import Channel, acting_as
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.server.intake import SharedCheck
from memory_retrievers.server.settings import ServerSettings, access_in
from memory_retrievers.storage.tracing import traced

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OTHER: Final = "other"


class Metrics:
    """Counters and histograms of one server. They hold numbers only, and no scope."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "memory_retrievers_answers", "Answers, by route and status.", ["route", "status"], registry=self._registry
        )
        self._stages = Histogram(
            "memory_retrievers_stage_seconds",
            "How long each stage takes: waiting for a thread, memory (embed, dense, bm25, rank and hydrate are "
            "the parts of a retrieval in it), making the answer; and the whole.",
            ["route", "stage"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._memories = Gauge("memory_retrievers_memories", "Memories, by kind.", ["kind"], registry=self._registry)
        self._queue = Gauge(
            "memory_retrievers_queued_messages", "Messages that wait to become memories.", registry=self._registry
        )
        self._reviews = Gauge(
            "memory_retrievers_pending_reviews", "Retrievals that wait for their review.", registry=self._registry
        )

    def note_answer(self, scope: Scope, *, status: int, started: float) -> None:
        """Count an answer and the whole time it took.

        Args:
            scope: The ASGI scope of the request, which names its route.
            status: The HTTP status of the answer.
            started: The value of the performance counter, in seconds, when the request came.
        """
        route = route_of(scope)
        self._answers.labels(route, str(status)).inc()
        self._stages.labels(route, "whole").observe(time.perf_counter() - started)

    def note_stage(self, scope: Scope, stage: str, seconds: float) -> None:
        """Note how long a stage took.

        Args:
            scope: The ASGI scope of the request, which names its route.
            stage: The name of the stage.
            seconds: How long it took.
        """
        self._stages.labels(route_of(scope), stage).observe(seconds)

    @contextmanager
    def timed(self, scope: Scope, stage: str) -> Iterator[None]:
        """Measure a stage, also one that fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.note_stage(scope, stage, time.perf_counter() - started)

    def exposition(self, held: ScopeStatistics) -> bytes:
        """All of it, and what the store holds now, as Prometheus reads it."""
        self._memories.labels("episodic").set(held.episodes)
        self._memories.labels("semantic").set(held.facts)
        self._queue.set(held.queued_messages)
        self._reviews.set(held.pending_reviews)
        return generate_latest(self._registry)


def route_of(scope: Scope) -> str:
    """The route's own path, never what a caller made up: that would be a time series for each."""
    return getattr(scope.get("route"), "path", _OTHER)


ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """Objects that all requests share."""

    memory: AgentMemory
    settings: ServerSettings
    metrics: Metrics
    readiness: SharedCheck


class RequestContext:
    """One request: the memory that answers it, and what its sender may do.

    Attributes:
        memory: The memory that answers it.
        metrics: The metrics of the server.
        readiness: The last result of reading the store to see whether the server is ready.
        access: The permissions of its sender.
    """

    def __init__(self, request: Request) -> None:
        shared: AppState = request.app.state.shared
        self._scope = request.scope
        self.memory, self.metrics, self.readiness = shared.memory, shared.metrics, shared.readiness
        self.access = access_in(request.scope)

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Run work on the memory in a thread; it is finished also when the sender has left or the server is to end."""
        asked = time.perf_counter()

        def measured() -> ResultT:
            self.metrics.note_stage(self._scope, "waiting", time.perf_counter() - asked)
            timed = partial(self.metrics.timed, self._scope)
            # in our words: of a record that the request describes
            with timed("memory"), traced(timed), acting_as(Channel.HTTP), in_our_words():
                return work()

        return await run_in_threadpool(measured)

    def make(self, answer: Callable[[], ResultT]) -> ResultT:
        """Make the answer from the result of the memory, and measure it."""
        with self.metrics.timed(self._scope, "answer"):
            return answer()


CurrentRequest: TypeAlias = Annotated[RequestContext, Depends(RequestContext)]
