"""Idempotency: a write that is sent again under the same key is done once, and answered as the first time."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.server.answers import Refusal
from memory_retrievers.server.guard import access_in
from memory_retrievers.server.limits import replaying

HEADER: Final = "idempotency-key"
MAX_KEY_LENGTH: Final = 255
KEEP_SECONDS: Final = 24 * 3600
KEEP_BYTES: Final = 64_000_000

_ENTRY_BYTES: Final = 1_000
"""What a key takes beside the answer, roughly, so that many small answers are bounded too."""


@dataclass(slots=True)
class _Kept:
    """What became of a key; without a status the request is under way."""

    request: bytes
    at: float
    status: int | None = None
    media_type: str = ""
    body: bytes = b""

    @property
    def size(self) -> int:
        """How many bytes it takes, roughly."""
        return _ENTRY_BYTES + len(self.body)


class Idempotency:
    """Remembers the answers of writes that carry an ``Idempotency-Key``: per sender, at most a day, in this process.

    A failure is not remembered: it changed nothing, or says what is still to be done, and may be tried again.

    Args:
        app: What is behind it; the body is there at once, since the guard has read it.
        is_write: Whether the path of a request writes.
        clock: Seconds that only rise.
    """

    def __init__(
        self, app: ASGIApp, *, is_write: Callable[[str], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._is_write = is_write
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it as the first of its key was answered."""
        given = Headers(scope=scope).get(HEADER) if scope["type"] == "http" else None
        if given is None or scope["method"] != "POST" or not self._is_write(scope["path"]):
            await self._app(scope, receive, send)
            return
        if not 0 < len(given) <= MAX_KEY_LENGTH:
            raise Refusal(422, "ValidationError", f"an Idempotency-Key has 1 to {MAX_KEY_LENGTH} characters")
        body = (await receive()).get("body", b"")
        key, request = (access_in(scope).name, given), _fingerprint(scope, body)
        if (answer := self._answered(key, request)) is not None:
            await answer(scope, receive, send)
            return
        await self._first(key, request, scope, replaying(body, receive), send)

    def _answered(self, key: tuple[str, str], request: bytes) -> Response | None:
        """The answer of the first request of this key; None if this is the first.

        Raises:
            Refusal: The first was another request (422), or is under way (409).
        """
        self._forget_old()
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.request != request:
            raise Refusal(422, "ValidationError", "this Idempotency-Key was used for another request: take a new one")
        if kept.status is None:
            raise Refusal(
                409, "Conflict", "a request with this Idempotency-Key is under way", headers={"Retry-After": "1"}
            )
        return Response(kept.body, status_code=kept.status, media_type=kept.media_type)

    async def _first(self, key: tuple[str, str], request: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        kept = self._kept[key] = _Kept(request, self._clock())
        statuses: list[int] = []

        async def keeping_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                kept.media_type = Headers(raw=message["headers"]).get("content-type", "")
            elif message["type"] == "http.response.body":
                kept.body += message.get("body", b"")
            await send(message)

        try:
            await self._app(scope, receive, keeping_send)
        finally:
            self._bytes += kept.size
            kept.status = statuses[0] if statuses else None  # only now: until here it is under way
            if kept.status is None or not 200 <= kept.status < 300:  # noqa: PLR2004 - successes, as HTTP has it
                self._drop(key)

    def _forget_old(self) -> None:
        """What is too old, and then the oldest while all is too much; what is under way stays."""
        now = self._clock()
        for key, kept in list(self._kept.items()):
            if now - kept.at < KEEP_SECONDS and self._bytes <= KEEP_BYTES:
                return
            if kept.status is not None:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        self._bytes -= self._kept.pop(key).size


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in (scope["path"].encode("utf-8", "surrogatepass"), scope["query_string"], body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()
