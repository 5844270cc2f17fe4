"""Joining of what concurrent tasks ask of a LangGraph store into batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from langgraph.store.base import Op, Result

MOST: Final = 1_000
"""Operations that are joined at most, so that no write holds up others for long."""


class _Asked(NamedTuple):
    ops: list[Op]
    answer: asyncio.Future[list[Result]]


class JoinedBatches:
    """Does the batches of the tasks of an event loop in a thread: while one is done, those that come are joined.

    A batch that fails with others is done again by itself, so that nobody hears of another's mistake.
    """

    def __init__(self, batch: Callable[[Iterable[Op]], list[Result]]) -> None:
        self._batch = batch
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Asked]] = WeakKeyDictionary()
        self._workers: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    async def do(self, ops: list[Op]) -> list[Result]:
        """The results of a batch of this task."""
        loop = asyncio.get_running_loop()
        asked = _Asked(ops, loop.create_future())
        waiting = self._waiting.setdefault(loop, [])
        waiting.append(asked)
        worker = self._workers.get(loop)
        if worker is None or worker.done():
            self._workers[loop] = loop.create_task(self._work(waiting))
        return await asked.answer

    async def _work(self, waiting: list[_Asked]) -> None:
        while waiting:
            joined = _taken(waiting)
            answers = await asyncio.to_thread(self._answers, [asked.ops for asked in joined])
            for asked, answer in zip(joined, answers, strict=True):
                if asked.answer.done():  # nobody waits for it any more
                    continue
                if isinstance(answer, Exception):
                    asked.answer.set_exception(answer)
                else:
                    asked.answer.set_result(answer)

    def _answers(self, batches: list[list[Op]]) -> list[list[Result] | Exception]:
        try:
            together = iter(self._batch([op for ops in batches for op in ops]))
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked gets it
            return [error] if len(batches) == 1 else [self._answers([ops])[0] for ops in batches]
        return [[next(together) for _ in ops] for ops in batches]


def _taken(waiting: list[_Asked]) -> list[_Asked]:
    """Take the first batches that are no more than :data:`MOST` operations together, at least one."""
    number = taken = 0
    for asked in waiting:
        number += len(asked.ops)
        if taken and number > MOST:
            break
        taken += 1
    joined = waiting[:taken]
    del waiting[:taken]
    return joined
