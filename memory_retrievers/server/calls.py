"""A call: who asks, the memory it is answered from, and a thread to do it in, so that no event loop is held up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeAlias, TypeVar

import pydantic
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.server.access import Access
from memory_retrievers.server.guard import access_in
from memory_retrievers.server.metrics import Metrics
from memory_retrievers.server.settings import ServerSettings
from memory_retrievers.stages import observed

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What all requests share."""

    memory: AgentMemory
    settings: ServerSettings
    metrics: Metrics


class Call:
    """One request."""

    def __init__(self, request: Request) -> None:
        self._scope = request.scope
        self._desk: Desk = request.app.state.desk

    @property
    def memory(self) -> AgentMemory:
        """What it is answered from."""
        return self._desk.memory

    @property
    def settings(self) -> ServerSettings:
        """What holds for every request."""
        return self._desk.settings

    @property
    def metrics(self) -> Metrics:
        """What has been seen."""
        return self._desk.metrics

    @property
    def access(self) -> Access:
        """What its sender may do."""
        return access_in(self._scope)

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """Do it in a thread; it is finished also when the sender has left or the server is to end."""
        asked = time.perf_counter()

        def measured() -> ResultT:
            self.metrics.note_stage(self._scope, "waiting", time.perf_counter() - asked)
            with self.metrics.timed(self._scope, "memory"), observed(partial(self.metrics.timed, self._scope)):
                return _in_our_words(work)

        return await run_in_threadpool(measured)

    def make(self, answer: Callable[[], ResultT]) -> ResultT:
        """Make the answer of what the memory gave."""
        with self.metrics.timed(self._scope, "answer"):
            return answer()


OneCall: TypeAlias = Annotated[Call, Depends(Call)]


def _in_our_words(work: Callable[[], ResultT]) -> ResultT:
    try:
        return work()
    except pydantic.ValidationError as error:  # of a record that the request describes
        raise ValidationError.from_pydantic(error) from error
