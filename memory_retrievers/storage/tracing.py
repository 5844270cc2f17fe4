"""Tracing: the named stages of a piece of work, its progress, and OpenTelemetry spans.

Stages are watched only in the thread, or the task, that asks. Each search and change is a span with a duration, by the
conventions for memories of GenAI. Only the API is used, and only where the program has imported it already: whoever
traces has. Attributes: ``gen_ai.operation.name``, ``gen_ai.memory.store.id`` (the scope), ``gen_ai.memory.record.id``
where one memory is named, ``gen_ai.conversation.id``, ``error.type``; and the question and what was found or written
(``gen_ai.memory.query.text``, ``gen_ai.memory.records``) only if the environment asks for content.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from memory_retrievers.models import EpisodicMemory, SemanticMemory

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")

EMBED: Final = "embed"  # the question becomes a vector
DENSE: Final = "dense"  # the nearest vectors, of one kind of memory
BM25: Final = "bm25"  # the best by words, of one kind of memory
RANK: Final = "rank"  # the lists become one, and forgetting is taken into account
HYDRATE: Final = "hydrate"  # the memories themselves are read

Observer: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Takes the name of a stage and gives the context manager that is entered while it lasts."""

observer_of_stages: ContextVar[Observer] = ContextVar("memory_retrievers_stages", default=nullcontext)
"""Gives, for the name of a stage, the context manager to enter while it lasts; without an observer it does nothing."""

Watcher: TypeAlias = Callable[[int, int], None]
"""Hears how much of how much is done, both 0 where that is not known; raises an exception to end the work."""

_watcher: ContextVar[Watcher | None] = ContextVar("memory_retrievers_watcher", default=None)


@contextmanager
def _having(variable: ContextVar[ValueT], value: ValueT) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


traced = functools.partial(_having, observer_of_stages)
"""Let an observer trace every stage of what is done inside."""

watched = functools.partial(_having, _watcher)
"""Let a watcher follow, and end, what is done inside: nothing of a transaction that it ends is kept."""


def advance(done: int = 0, total: int = 0) -> None:
    """Report progress to the watcher, if there is one; called also where none is known, so that it can end the work."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher(done, total)


CAPTURES_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the environment that asks for content in spans: ``true``."""

DURATION: Final = "gen_ai.client.operation.duration"  # the histogram of durations, in seconds

Operation: TypeAlias = Literal["search_memory", "upsert_memory", "update_memory", "delete_memory"]

_NAME: Final = "memory_retrievers"
_NAMED: Final[Mapping[str, str]] = {
    "scope": "gen_ai.memory.store.id",
    "id": "gen_ai.memory.record.id",
    "fact_id": "gen_ai.memory.record.id",
    "conversation": "gen_ai.conversation.id",
}
"""Arguments that are attributes of the span."""


def observed(operation: Operation) -> Callable[[Callable[P, ResultT]], Callable[P, ResultT]]:
    """Tell OpenTelemetry of every call of a method, by its arguments ``scope``, ``id``, ``query`` and the like."""

    def decorate(method: Callable[P, ResultT]) -> Callable[P, ResultT]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def run(*args: P.args, **kwargs: P.kwargs) -> ResultT:
            if not _is_used():
                return method(*args, **kwargs)
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:  # it says itself what is wrong
                return method(*args, **kwargs)
            return observe(operation, lambda: method(*args, **kwargs), given)

        return run

    return decorate


def observe(operation: Operation, work: Callable[[], ResultT], given: Mapping[str, Any]) -> ResultT:
    """Do some work inside a span, and tell how long it took.

    Args:
        operation: What it is.
        work: Does it.
        given: The arguments, by name.
    """
    if not _is_used():
        return work()
    from opentelemetry import trace

    attributes: dict[str, str] = {"gen_ai.operation.name": operation}
    named = {attribute: given[name] for name, attribute in _NAMED.items() if isinstance(given.get(name), str)}
    begun = time.perf_counter()
    tracer = trace.get_tracer(_NAME)
    with tracer.start_as_current_span(operation, kind=trace.SpanKind.CLIENT, attributes=attributes | named) as span:
        try:
            result = work()
            scopes = {each.scope for each in _memories(result)} if "drafts" in given else set[str]()
            if len(scopes) == 1:
                span.set_attribute(_NAMED["scope"], *scopes)
            if span.is_recording() and os.environ.get(CAPTURES_CONTENT, "").lower() == "true":
                span.set_attributes(_content(given.get("query"), result))
        except BaseException as error:
            attributes["error.type"] = type(error).__name__
            span.set_attribute("error.type", attributes["error.type"])
            raise
        else:
            return result
        finally:
            _duration().record(time.perf_counter() - begun, attributes)


def _is_used() -> bool:
    return "opentelemetry.trace" in sys.modules


def _duration() -> Any:  # noqa: ANN401 - a Histogram, whose module may not be there
    from opentelemetry import metrics

    return metrics.get_meter(_NAME).create_histogram(
        DURATION, unit="s", description="How long a search or a change of a memory takes."
    )


def _content(query: object, result: object) -> dict[str, str]:
    found = [
        {"id": each.id, "content": each.fact if isinstance(each, SemanticMemory) else each.summary}
        for each in _memories(result)
    ]
    attributes = {"gen_ai.memory.records": json.dumps(found, ensure_ascii=False)} if found else {}
    return attributes | ({"gen_ai.memory.query.text": query} if isinstance(query, str) else {})


def _memories(result: object) -> Iterable[SemanticMemory | EpisodicMemory]:
    hits = [*getattr(result, "semantic", ()), *getattr(result, "episodic", ())]
    given = hits or (result if isinstance(result, list) else [result])
    each = [getattr(one, "memory", one) for one in given]
    return [one for one in each if isinstance(one, SemanticMemory | EpisodicMemory)]
