"""Metrics in the form of Prometheus: answers, latencies per stage, the queue, memories per kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

from memory_retrievers.models import ScopeStatistics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OTHER: Final = "other"


class Metrics:
    """What one server has seen. It tells numbers only, and no scope."""

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
        """Count an answer and the whole time it took, from ``started`` on the performance counter."""
        route = route_of(scope)
        self._answers.labels(route, str(status)).inc()
        self._stages.labels(route, "whole").observe(time.perf_counter() - started)

    def note_stage(self, scope: Scope, stage: str, seconds: float) -> None:
        """Note how long a stage took."""
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
        """All of it as Prometheus reads it.

        Args:
            held: What the store holds now.
        """
        self._memories.labels("episodic").set(held.episodes)
        self._memories.labels("semantic").set(held.facts)
        self._queue.set(held.queued_messages)
        self._reviews.set(held.pending_reviews)
        return generate_latest(self._registry)


def route_of(scope: Scope) -> str:
    """The route's own path, never what a caller made up: that would be a time series for each."""
    return getattr(scope.get("route"), "path", _OTHER)
