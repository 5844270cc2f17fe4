"""MCP over HTTP: checks the token, and limits bodies and sessions; idle sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable_json
from memory_retrievers.server.intake import BodyLimiter, noting_statuses, origin_of, replaying
from memory_retrievers.server.responses import HTTPError, UTF8JSONResponse
from memory_retrievers.server.settings import AccessToken, McpSettings, TokenAuth

_INVALID_REQUEST: Final = -32600
_PARSE_ERROR: Final = -32700


class InvalidMessageError(HTTPError):
    """Error for text that is no message of the protocol, in the form of JSON-RPC."""

    def __init__(self, message: str, *, code: int = _INVALID_REQUEST, id: object = None) -> None:
        super().__init__(400, "ValidationError", message)
        self.answer: JsonObject = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}

    def response(self) -> Response:
        """Return the response."""
        return UTF8JSONResponse(self.answer, status_code=self.status)


class McpEndpoint:
    """Lets requests through that have the token and one message within the limits.

    Args:
        app: The wrapped application.
        settings: Limits on bodies.
        token: The token that is required; None accepts every request.
    """

    def __init__(self, app: ASGIApp, *, settings: McpSettings, token: str | None) -> None:
        self._app = app
        self._bodies = BodyLimiter(settings)
        self._tokens = TokenAuth([] if token is None else [AccessToken(secret=token)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        noting_send, answered = noting_statuses(send)
        try:
            await self._let_through(scope, receive, noting_send)
        except HTTPError as refusal:
            if not answered:
                await refusal.response()(scope, receive, send)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        for name, value in {"Host": headers.get("host", ""), "Origin": origin_of(headers) or ""}.items():
            if not (value.isascii() and value.isprintable()):  # the SDK logs one that is foreign
                raise HTTPError(400, "BadRequest", f"the {name} cannot be read: it is not an address")
        if self._tokens.admit(headers.get("authorization", "").encode("latin-1")) is None:
            message = "send the bearer token of this server"
            raise HTTPError(401, "Unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
        if scope["method"] != "POST":
            await self._app(scope, _empty(receive), send)
            return
        async with self._bodies.body(headers, receive) as read:
            body = storable_json((await read())["body"])
            check_message(body)
            once_more = replaying(body, receive)
            del body  # as in the limiter: who reads it keeps a copy
            await self._app(scope, once_more, send)


def check_message(body: bytes) -> None:
    """Refuse what is no single message of the protocol.

    The SDK accepts a request whose id has a wrong type as a notification and does nothing. Over standard input it does
    not answer what it cannot read.
    """
    try:
        message = from_json(body)
    except ValueError as error:
        raise InvalidMessageError(f"this is not JSON: {error}", code=_PARSE_ERROR) from error
    if not isinstance(message, dict):
        raise InvalidMessageError("send one message, a JSON object, in each request: batches are not supported")
    if not isinstance(message.get("method"), str) and message.keys() & {"result", "error"}:
        return  # an answer of the client
    id_ = message.get("id")
    if "id" in message and (isinstance(id_, bool) or not isinstance(id_, str | int)):
        raise InvalidMessageError("the id of a request must be a text or a whole number; nothing was done")
    if not isinstance(message.get("method"), str):
        raise InvalidMessageError("a message needs a method, such as tools/call", id=id_)
    if message.get("jsonrpc") != "2.0" or not isinstance(message.get("params"), dict | None):
        raise InvalidMessageError('a message has "jsonrpc": "2.0", and params are an object', id=id_)


def _empty(receive: Receive) -> Receive:
    """Return a receive function with an empty body that still reports a disconnect."""

    async def receive_rest() -> Message:
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return replaying(b"", receive_rest)


HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
LAST_WITH_SESSIONS: Final = "2025-11-25"  # the last version of the protocol in which clients begin a session

_LOOKS_PER_PERIOD: Final = 4
_RETRY_AFTER_SECONDS: Final = 60


@dataclass(slots=True)
class _Session:
    """State of a session; ``scope`` is that of an accepted request. Listening streams count as under way."""

    scope: Scope
    used: float
    under_way: int = 0
    listening: int = 0


class Sessions:
    """Limits the number of sessions, and ends idle ones.

    A session beyond the limit replaces the least recently used one; those without a listener go first.

    Args:
        app: The application of the SDK.
        settings: Limits on sessions.
        clock: Returns monotonic seconds.
        kept: The sessions of the SDK, whose first major version leaves ended ones there.
    """

    def __init__(
        self, app: ASGIApp, *, settings: McpSettings, clock: Callable[[], float], kept: MutableMapping[str, Any]
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._kept = kept
        self._sessions: dict[str, _Session] = {}
        self._beginning = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its session, or begin one.

        Raises:
            HTTPError: The limit is reached and all sessions have a request under way (503).
        """
        headers = Headers(scope=scope)
        id_ = headers.get(HEADER)
        if id_ is None and headers.get(VERSION_HEADER, LAST_WITH_SESSIONS) <= LAST_WITH_SESSIONS:
            await self._begin(scope, receive, send)
        elif id_ is not None and id_ in self._sessions:
            await self._go_on(id_, scope, receive, send)
        else:
            await self._app(scope, receive, send)  # which begins no session, or says that it knows none of that name

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """End idle sessions in the background."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def end_idle(self) -> None:
        """End sessions that have been idle for too long."""
        latest = self._clock() - self._settings.session_seconds
        for id_, session in list(self._sessions.items()):
            if not session.under_way and session.used <= latest:
                await self._end(id_)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.session_seconds / _LOOKS_PER_PERIOD)
            await self.end_idle()

    async def _begin(self, scope: Scope, receive: Receive, send: Send) -> None:
        outlived = None
        if len(self._sessions) + self._beginning >= self._settings.max_sessions:
            free = {id_: each for id_, each in self._sessions.items() if each.under_way == each.listening}
            outlived = min(free, key=lambda id_: (free[id_].listening > 0, free[id_].used), default=None)
            if outlived is None:
                message = f"all {self._settings.max_sessions} sessions, the most allowed, are busy: try again later"
                raise HTTPError(503, "Busy", message, headers={"Retry-After": str(_RETRY_AFTER_SECONDS)})
        begun: list[tuple[str, int]] = []

        async def noting_send(message: Message) -> None:
            if message["type"] == "http.response.start" and not begun:
                id_ = MutableHeaders(raw=list(message["headers"])).get(HEADER)
                if id_ is not None:
                    begun.append((id_, message["status"]))
                    self._beginning -= 1
                    self._sessions[id_] = _Session(scope, self._clock(), under_way=1)
            await send(message)

        self._beginning += 1
        try:
            if outlived is not None:
                await self._end(outlived)
            await self._app(scope, receive, noting_send)
        finally:
            self._beginning -= not begun
            for id_, status in begun:
                self._used(id_)
                if status >= 400:  # noqa: PLR2004 - no success, as HTTP has it
                    await self._end(id_)

    async def _go_on(self, id_: str, scope: Scope, receive: Receive, send: Send) -> None:
        noting_send, statuses = noting_statuses(send)
        with self._in_use(id_, listens=scope["method"] == "GET"):
            await self._app(scope, receive, noting_send)
        if statuses[:1] == [404] or (scope["method"] == "DELETE" and statuses[:1] == [200]):
            self._forget(id_)

    @contextmanager
    def _in_use(self, id_: str, *, listens: bool) -> Iterator[None]:
        session = self._sessions[id_]
        session.under_way += 1
        session.listening += listens
        try:
            yield
        finally:
            session.listening -= listens
            self._used(id_)

    def _used(self, id_: str) -> None:
        if (session := self._sessions.get(id_)) is not None:
            session.under_way -= 1
            session.used = self._clock()

    def _forget(self, id_: str) -> None:
        self._sessions.pop(id_, None)
        self._kept.pop(id_, None)

    async def _end(self, id_: str) -> None:
        """End a session as its client would; it is forgotten whatever the answer."""
        session = self._sessions.pop(id_, None)  # at once: nobody else ends it, or goes on with it
        if session is None:
            return
        begun = session.scope
        named = [(name, value) for name, value in begun["headers"] if name in {b"host", b"authorization"}]
        headers = [*named, (HEADER.encode("ascii"), id_.encode("latin-1"))]
        try:
            await self._app({**begun, "method": "DELETE", "headers": headers}, _nothing_more, _unheard)
        finally:
            self._forget(id_)


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: Message) -> None:
    pass
