"""Limits on request bodies and rates: size, nesting, time of arrival, total memory, and requests a minute."""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Send

from memory_retrievers.models.fields import json_extent
from memory_retrievers.server.responses import HTTPError
from memory_retrievers.server.settings import TrafficSettings

_MAX_SENDERS: Final = 10_000  # that are remembered; the one idle longest is forgotten first, and may ask anew
_MAX_DIGITS: Final = 18  # of a ``Content-Length``: Python itself refuses to read a number of thousands of digits


class RateLimit:
    """Token buckets that limit the rate of requests, one for each sender.

    Args:
        per_minute: Requests a minute with which a bucket is refilled; None sets no limit.
        burst: Capacity of a bucket, in requests.
        clock: Returns monotonic seconds.
    """

    def __init__(self, *, per_minute: float | None, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = None if per_minute is None else per_minute / 60
        self._burst = burst
        self._clock = clock
        self._senders: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, sender: str) -> None:
        """Count one request; called from the event loop only.

        Raises:
            HTTPError: The limit is exceeded (429); ``Retry-After`` has the seconds to wait.
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
            raise HTTPError(429, "RateLimited", f"too many requests: wait {wait} s", headers={"Retry-After": str(wait)})


class SharedCheck:
    """A check whose outcome is cached for some seconds and shared by all callers."""

    def __init__(self, *, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._turn = asyncio.Lock()
        self._made: float | None = None
        self._failure: Exception | None = None

    async def ask(self, check: Callable[[], Awaitable[object]]) -> None:
        """Run the check unless its outcome is still fresh, and raise the error it raised, if any."""
        async with self._turn:
            if self._made is None or self._clock() - self._made >= self._seconds:
                self._failure = None
                try:
                    await check()
                except Exception as error:  # noqa: BLE001 - whatever it is, the others get it as well
                    self._failure = error
                self._made = self._clock()
        if self._failure is not None:
            raise self._failure


def origin_of(headers: Headers) -> str | None:
    """Return the ``Origin`` of a request, if it has one; two are refused (400)."""
    if len(given := headers.getlist("origin")) > 1:
        raise HTTPError(400, "BadRequest", "the Origin is given twice")
    return given[0] if given else None


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that replays a body, and then receives as before."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def noting_statuses(send: Send) -> tuple[Send, list[int]]:
    """Return a send function that records the status of each response, and the list of these statuses."""
    statuses: list[int] = []

    async def noting_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        await send(message)

    return noting_send, statuses


_QUOTES_OF_AN_ELEMENT: Final = 4  # at most, in what is JSON: a name and a string


def check_shape(text: bytes, *, max_depth: int, max_elements: int) -> None:
    """Refuse JSON that would take too much memory or time to parse.

    Args:
        text: The body, in UTF-8.
        max_depth: Maximum nesting of objects and lists.
        max_elements: Maximum number of values, objects and lists.

    Raises:
        HTTPError: It is deeper, holds more, or is in another encoding (422).
    """
    if b"\0" in text:  # in UTF-16 and UTF-32 every sign of JSON has one; in UTF-8 it is allowed nowhere
        raise _refusal("the body is not JSON in UTF-8")
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    has_quotes = bare.count(b'"') > _QUOTES_OF_AN_ELEMENT * (max_elements + 1)
    if has_quotes or (extent := json_extent(text)).values > max_elements:
        raise _refusal(f"the body holds more than {max_elements} values: send less at once")
    if extent.depth > max_depth:
        raise _refusal(f"the body holds objects or lists more than {max_depth} deep: nest it less")


def _refusal(message: str) -> HTTPError:
    return HTTPError(422, "ValidationError", message)


SMALL_BODY: Final = 65_536
"""Bytes. Bodies up to this are taken however much is held of others, so that large ones keep nobody else out: those of
all connections together are 32 MB at most."""

_WIDE: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")  # the beginning of an emoji, say, in UTF-8 or escaped


class BodyLimiter:
    """Reads the bodies of all requests of one event loop, within limits on size, time and memory."""

    def __init__(self, settings: TrafficSettings) -> None:
        self._settings = settings
        self._held = 0

    @asynccontextmanager
    async def body(self, headers: Headers, receive: Receive) -> AsyncIterator[Receive]:
        """Read a body, and yield a receive function that replays it; its memory counts as used until the block ends.

        Raises:
            HTTPError: The body is too large (413), too slow (408), has too many values, is compressed or not UTF-8
                (422), or other bodies use up the memory (503).
        """
        own = 0
        if (headers.get("content-encoding") or "identity").lower() != "identity":
            raise _refusal("compressed bodies are not accepted: send it without Content-Encoding")

        def grown(size: int) -> None:
            nonlocal own
            if size <= SMALL_BODY:
                return
            others = self._held - own
            if others and others + size > self._settings.max_bodies_bytes:
                message = "too many large bodies are being read: try again later, or send less at once"
                raise HTTPError(503, "Busy", message, headers={"Retry-After": "1"})
            self._held, own = others + size, size

        try:
            body = await self.read(headers, receive, grown)
            # one character beyond U+FFFF makes the whole text take four bytes a character
            if len(body) > self._settings.max_body_bytes // 2 and _WIDE.search(body):
                wide = "has characters beyond U+FFFF, such as emoji: send less at once"
                raise HTTPError(
                    413, "TooLarge", f"the body is larger than {self._settings.max_body_bytes // 2} bytes and {wide}"
                )
            check_shape(body, max_depth=self._settings.max_json_depth, max_elements=self._settings.max_json_elements)
            once_more = replaying(body, receive)
            del body  # whoever reads it keeps a copy: it is not held twice for as long as the work takes
            yield once_more
        finally:
            self._held -= own

    async def read(
        self, headers: Headers, receive: Receive, grown: Callable[[int], None] = lambda _size: None
    ) -> bytes:
        """Read the whole body.

        Args:
            headers: Headers of the request.
            receive: The ASGI receive function.
            grown: Called after each chunk with the bytes read so far; may raise HTTPError.

        Raises:
            HTTPError: It is too large (413), or too slow (408).
        """
        most, seconds = self._settings.max_body_bytes, self._settings.body_seconds
        too_large = HTTPError(413, "TooLarge", f"the body is larger than {most} bytes: send less at once")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > _MAX_DIGITS or int(announced) > most):
            raise too_large
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HTTPError(400, "BadRequest", "the connection ended before the body did")
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > most:
                        raise too_large
                    grown(len(body))
        except TimeoutError as error:
            raise HTTPError(408, "Timeout", f"the body took longer than {seconds:g} s") from error
        return bytes(body)
