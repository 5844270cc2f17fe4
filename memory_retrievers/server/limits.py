"""Limits: how large a body may be, how long it may take, how often somebody may ask."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive

from memory_retrievers.server.answers import Refusal

_MAX_SENDERS: Final = 10_000
"""Who is remembered; whoever asked longest ago is forgotten first, and has a full allowance again."""


class RateLimit:
    """A bucket for each sender: it holds ``burst`` requests, and fills up steadily.

    Args:
        per_minute: How many requests a minute it is filled with; None is no limit.
        burst: How many it holds.
        clock: Seconds that only rise.
    """

    def __init__(self, *, per_minute: float | None, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = None if per_minute is None else per_minute / 60
        self._burst = burst
        self._clock = clock
        self._senders: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, sender: str) -> None:
        """Count one request; called from the event loop only.

        Raises:
            Refusal: It is one too many (429); ``Retry-After`` says in how many seconds there is room.
        """
        if self._per_second is None:
            return
        now = self._clock()
        left, since = self._senders.pop(sender, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._senders[sender] = (left - 1 if left >= 1 else left, now)
        if len(self._senders) > _MAX_SENDERS:
            self._senders.popitem(last=False)
        if left < 1:
            wait = max(1, math.ceil((1 - left) / self._per_second))
            raise Refusal(429, "RateLimited", f"too many requests: wait {wait} s", headers={"Retry-After": str(wait)})


async def read_body(receive: Receive, *, announced: bytes | None, most: int, seconds: float) -> bytes:
    """The whole body, if it is neither too large nor too slow.

    Raises:
        Refusal: It is larger than ``most`` bytes (413), or took longer than ``seconds`` (408).
    """
    too_large = Refusal(413, "TooLarge", f"the body is larger than {most} bytes: send less at once")
    if announced is not None and announced.isdigit() and int(announced) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "BadRequest", "the connection ended before the body did")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > most:
                    raise too_large
    except TimeoutError as error:
        raise Refusal(408, "Timeout", f"the body took longer than {seconds:g} s") from error
    return bytes(body)


def replaying(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, once more; what comes after it is received as before."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
