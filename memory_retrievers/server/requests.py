"""Context of a request (memory and permissions), metrics for Prometheus, and idempotency.

A write that is sent again under the same key is done once, and answered as the first time. The process that has done it
keeps its answer. The store keeps which requests are done, so that every other process, and this one after a restart,
knows of it too: there the answer is made anew from the memories, or says that it is done.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Final, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.backends.sql.requests import (
    KEEP_SECONDS,
    DoneRequest,
    RepeatedRequestError,
    RequestUnderWay,
    SQLRequests,
    under_way,
)
from memory_retrievers.errors import BackendError, MemoryRetrieversError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import ScopeStatistics
from memory_retrievers.models.fields import storable
from memory_retrievers.models.management import Channel, acting_as
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.server.intake import SharedCheck, replaying
from memory_retrievers.server.responses import HTTPError
from memory_retrievers.server.settings import Access, access_in
from memory_retrievers.storage.tracing import traced, watched

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ResultT = TypeVar("ResultT")


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
        self._answers.labels(route_of(scope), str(status)).inc()
        self.note_stage(scope, "whole", started=started)

    def note_stage(self, scope: Scope, stage: str, *, started: float) -> None:
        """Record the duration of a stage.

        Args:
            scope: The ASGI scope of the request, which names its route.
            stage: The name of the stage.
            started: The value of the performance counter, in seconds, when it began.
        """
        self._stages.labels(route_of(scope), stage).observe(time.perf_counter() - started)

    def timed(self, scope: Scope, stage: str) -> AbstractContextManager[object]:
        """Measure a stage, also one that fails."""
        return self._stages.labels(route_of(scope), stage).time()

    def exposition(self, held: ScopeStatistics) -> bytes:
        """Return all metrics, with the current counts of the store, in the Prometheus text format."""
        self._memories.labels("episodic").set(held.episodes)
        self._memories.labels("semantic").set(held.facts)
        self._queue.set(held.queued_messages)
        self._reviews.set(held.pending_reviews)
        return generate_latest(self._registry)


def route_of(scope: Scope) -> str:
    """Return the path template of the route: a label per requested path would make a time series for each."""
    return getattr(scope.get("route"), "path", "other")


class RequestContext:
    """A request with the memory that answers it and the permissions of its sender."""

    def __init__(self, request: Request) -> None:
        shared = request.app.state
        self._scope, self._running, self._shared = request.scope, shared.running, shared
        self.memory: AgentMemory = shared.memory
        self.metrics: Metrics = shared.metrics
        self.readiness: SharedCheck = shared.readiness
        self.access = access_in(request.scope)
        self.processing: CapacityLimiter | None = shared.processing

    async def run(self, work: Callable[[], ResultT], *, among: CapacityLimiter | None = None) -> ResultT:
        """Run work in a thread of all requests, or ``among`` others; its sender or server may end before it does."""
        asked, started = time.perf_counter(), threading.Event()

        def measured() -> ResultT:
            started.set()
            self.metrics.note_stage(self._scope, "waiting", started=asked)
            timed = partial(self.metrics.timed, self._scope)
            watcher = None if among is None else self._end_with_server  # what may take long ends between two pieces
            # in our words: of a record that the request describes
            with timed("memory"), traced(timed), acting_as(Channel.HTTP), in_our_words(), watched(watcher):
                try:
                    return work()
                except MemoryRetrieversError:
                    if (noted := under_way.get()) is not None and noted.is_noted:
                        under_way.set(None)  # in this thread, and forgotten here: its sender may be answered already
                        with suppress(MemoryRetrieversError):  # the first error is what is told
                            requests_of(self.memory).forget(noted)
                        noted.is_noted = False  # and not tried again
                    raise

        begun = asyncio.ensure_future(to_thread.run_sync(measured, limiter=among))
        self._running.add(begun)
        begun.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(begun)
        except RepeatedRequestError as error:
            raise _is_under_way(" in another process") from error
        except asyncio.CancelledError:
            if not started.is_set():  # it waits for a thread yet, for which no end of a server waits
                begun.cancel()
            raise

    def _end_with_server(self, _done: int, _total: int) -> None:
        if self._shared.is_ending:
            raise BackendError("the server ends: what is left stays queued; ask again once it is back")

    def make(self, answer: Callable[[], ResultT]) -> ResultT:
        """Make the answer from the result of the memory, and measure it."""
        with self.metrics.timed(self._scope, "answer"):
            return answer()


async def check_query(request: Request) -> None:
    """Refuse a query parameter that is unknown to the route, or given twice."""
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise ValidationError(f"there is no parameter {storable(name)}: there are {', '.join(known) or 'none'}")
        if given.count(name) > 1:
            raise ValidationError(f"query.{name} is given twice")


CurrentRequest: TypeAlias = Annotated[RequestContext, Depends(RequestContext)]

KEY_HEADER: Final = "idempotency-key"
MAX_KEY_LENGTH: Final = 255
KEEP_BYTES: Final = 8_000_000  # of all answers together; the oldest go first
MAX_ANSWER_BYTES: Final = 4_000_000  # of one answer: a longer one is not kept, only that the request was done
_ENTRY_BYTES: Final = 1_000  # that a key takes beside its answer, roughly: many small ones are bounded too


@dataclass(slots=True)
class _Kept:
    """Stored response of an idempotency key; while the request is running it has no status."""

    request: bytes
    at: float
    status: int | None = None
    media_type: str = ""
    body: bytes = b""
    too_long: bool = False
    is_noted: bool = False  # the store knows of the request, or did, and of memories that the answer may quote

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + len(self.body)

    def answer(self) -> Response:
        assert self.status is not None  # noqa: S101 - it is not under way
        return Response(self.body, status_code=self.status, media_type=self.media_type)

    def add(self, piece: bytes) -> None:
        """Append a chunk of the response, unless the response has become too long to store."""
        self.too_long = self.too_long or len(self.body) + len(piece) > MAX_ANSWER_BYTES
        self.body = b"" if self.too_long else self.body + piece


class Idempotency:
    """Remembers the answers of writes that carry an ``Idempotency-Key``: per sender, at most a day.

    A failure is not remembered: it changed nothing, or says what is still to be done, and may be tried again.

    Args:
        app: The wrapped application; the guard has read the body before.
        is_write: Returns True for a path that writes.
        requests: The record of completed requests that all processes of the store share.
        make_anew: Rebuilds the response of a path from the memories of its request; None where that is impossible.
        now: Returns the time by which memories expire.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        is_write: Callable[[str], bool],
        requests: SQLRequests,
        make_anew: Callable[[str, DoneRequest], Response | None],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._is_write = is_write
        self._requests = requests
        self._make_anew = make_anew
        self._now = now
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or repeat the response to the first request with its key."""
        given = Headers(scope=scope).get(KEY_HEADER) if scope["type"] == "http" else None
        if given is None or scope["method"] != "POST" or not self._is_write(scope["path"]):
            await self._app(scope, receive, send)
            return
        if not 0 < len(given) <= MAX_KEY_LENGTH:
            raise HTTPError(422, "ValidationError", f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} characters")
        body = (await receive()).get("body", b"")
        key, request = (access_in(scope).name, given), _fingerprint(scope, body)
        while (kept := self._answered(key, request)) is not None:
            done = await run_in_threadpool(self._requests.find, _hashed(*key))
            if done is None and kept.is_noted:  # no longer, so that nobody can tell what is forgotten since
                raise _not_kept()
            if done is None or not done.is_outdated(now=self._now()):
                await kept.answer()(scope, receive, send)
                return
            # Words do not outlive in it what said them: it is made anew, by this request or by one at the same moment.
            if self._kept.get(key) is kept:
                self._drop(key)
        once_more = replaying(body, receive)
        del body  # not held twice for as long as the work takes
        await self._first(key, request, scope, once_more, send)

    def _answered(self, key: tuple[str, str], request: bytes) -> _Kept | None:
        """What is kept of the answer to the first request of this key; None if this is the first."""
        self._forget_old()
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.request != request:
            raise _other_request()
        if kept.status is None:
            raise _is_under_way()
        if kept.too_long:
            raise _not_kept()
        return kept

    async def _first(self, key: tuple[str, str], request: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        kept = self._kept[key] = _Kept(request, self._clock())
        statuses: list[int] = []
        context = under_way.set(noted := RequestUnderWay(_hashed(*key), request.hex()))

        async def keeping_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                if _is_success(message["status"]):
                    try:
                        await run_in_threadpool(self._requests.note_quoted, noted)
                    except (MemoryRetrieversError, RepeatedRequestError):  # what is done is told, but once
                        kept.too_long = True
                statuses.append(message["status"])
                kept.media_type = Headers(raw=message["headers"]).get("content-type", "")
            elif message["type"] == "http.response.body":
                kept.add(message.get("body", b""))
            await send(message)

        try:
            answer = await run_in_threadpool(self._done_elsewhere, noted, scope["path"], access_in(scope))
            kept.is_noted = answer is not None
            await (answer or self._app)(scope, receive, keeping_send)
        finally:
            kept.is_noted |= noted.is_noted and bool(noted.told)
            under_way.reset(context)
            self._bytes += kept.size
            kept.status = statuses[0] if statuses else None  # only now: until here it is under way
            if kept.status is None or not _is_success(kept.status):
                self._drop(key)
                if noted.is_noted and sys.exc_info()[0] is not asyncio.CancelledError:  # the work of that one goes on
                    await run_in_threadpool(self._requests.forget, noted)
            self._forget_old()

    def _done_elsewhere(self, noted: RequestUnderWay, path: str, access: Access) -> Response | None:
        """The answer to a request that another process has done, or this one before it was started again.

        Its sender may have other permissions than when it was done.
        """
        done = self._requests.find(noted.key)
        if done is None:
            return None
        if done.request != noted.request:
            raise _other_request()
        for each in done.made or ():
            access.scope(each.key.scope, writes=True)
        answer = self._make_anew(path, done)
        if answer is not None:
            return answer
        raise _not_kept(each.key.id for each in done.made or ())

    def _forget_old(self) -> None:
        """Drop the answers that are too old, and then the oldest while all take too much; requests under way stay."""
        now, excess, old = self._clock(), self._bytes - KEEP_BYTES, []
        for key, kept in self._kept.items():
            if now - kept.at < KEEP_SECONDS and excess <= 0:
                break
            if kept.status is not None:
                old.append(key)
                excess -= kept.size
        for key in old:
            self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= self._kept.pop(key).size


def _is_success(status: int) -> bool:
    return 200 <= status < 300  # noqa: PLR2004 - as HTTP has it


def _other_request() -> HTTPError:
    return HTTPError(422, "ValidationError", "this Idempotency-Key was used for another request: use a new one")


def _not_kept(made: Iterable[str] = ()) -> HTTPError:
    ids = ", ".join(made)
    note = f"; it has created {ids}" if ids else ""
    return HTTPError(409, "Conflict", f"the request with this Idempotency-Key is done; its answer was not kept{note}")


def _is_under_way(where: str = "") -> HTTPError:
    message = f"a request with this Idempotency-Key is under way{where}"
    return HTTPError(409, "Conflict", message, headers={"Retry-After": "1"})


def _hashed(sender: str, key: str) -> str:
    return hashlib.sha256(f"{len(sender)} {sender}{key}".encode("utf-8", "surrogatepass")).hexdigest()


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in (scope["path"].encode("utf-8", "surrogatepass"), scope["query_string"], body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


def requests_of(memory: AgentMemory) -> SQLRequests:
    """Return the record of completed requests in the store of a memory."""
    return memory._store.ledger.requests  # noqa: SLF001 - no method of its own, since every face would have it
