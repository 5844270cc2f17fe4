"""The gate of a window: who may come in, from where, with how much, and what every answer forbids a browser."""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import traceback
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

import pydantic
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.errors import BackendError, MemoryRetrieversError, StoreLockedError, ValidationError
from memory_retrievers.server.intake import check_shape, read_body
from memory_retrievers.server.responses import HTTPError, UTF8JSONResponse, status_of
from memory_retrievers.window.state import WindowSettings

_logger = logging.getLogger("memory_retrievers")

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

_LOCKED: Final = "database is locked"
"""What SQLite says when a program that knows nothing of this package holds the file."""

_HTTP: Final = 80
_BODY_SECONDS: Final = 10.0
_CLOSED: Final = "This window is closed to you: open the address that memory-retrievers ui has printed.\n"


class Sessions:
    """The token that opens a window once, and the cookie of the browser that has used it.

    Args:
        port: Port of the window: browsers keep cookies of all ports together.
    """

    def __init__(self, port: int) -> None:
        self.cookie = f"memory_window_{port}"
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._is_used = False

    def begin(self, token: str) -> str | None:
        """Use the token up; gives the value of the cookie, or None if it is not the token or was used before."""
        if self._is_used or not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return None
        self._is_used = True
        return self._session

    def admits(self, cookies: str | None) -> bool:
        """True for the cookies of the browser that has used the token."""
        try:
            shown = SimpleCookie(cookies or "").get(self.cookie)
        except CookieError:
            return False
        return shown is not None and hmac.compare_digest(shown.value.encode("utf-8", "replace"), self._session.encode())


class Gate:
    """Checks that every request has to pass, and headers that every answer gets.

    Args:
        app: What is behind it.
        settings: Port of the window, and its limits.
        sessions: Who may come in.
    """

    def __init__(self, app: ASGIApp, *, settings: WindowSettings, sessions: Sessions) -> None:
        self._app = app
        self._traffic = settings.traffic
        self._sessions = sessions
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = frozenset(f"{name}:{settings.port}" for name in names)
        if settings.port == _HTTP:
            self._hosts |= frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = False

        async def guarded_send(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        try:
            response = await self._admitted(scope, receive)
            if response is not None:
                await response(scope, receive, guarded_send)
            else:
                await self._app(scope, receive, guarded_send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the browser gets an answer
            if not answered:
                await refusal(error)(scope, receive, guarded_send)

    async def _admitted(self, scope: Scope, receive: Receive) -> Response | None:
        """None for a request that may go on; otherwise its answer."""
        headers = Headers(scope=scope)
        # 1. by a name of this window, from a page of this window
        self._check_origin(headers)
        # 2. by the browser that was given the token
        is_known = self._sessions.admits(headers.get("cookie"))
        if scope["method"] == "GET" and scope["path"] == "/":
            token = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"))).get("token")
            if token is not None:
                return self._begun(token, is_known=is_known)
        if not is_known:
            if scope["path"].startswith("/api/"):
                raise HTTPError(401, "Unauthorized", _CLOSED.strip())
            return PlainTextResponse(_CLOSED, status_code=401)
        # 3. with no more than can be taken
        if scope["method"] == "POST":
            scope["window.body"] = await self._body(headers, receive)
        return None

    def _check_origin(self, headers: Headers) -> None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            raise HTTPError(403, "Forbidden", "this Host is not served here")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{host}":
            raise HTTPError(403, "Forbidden", "this Origin may not ask here")

    def _begun(self, token: str, *, is_known: bool) -> Response:
        session = self._sessions.begin(token)
        if session is None and not is_known:
            return PlainTextResponse(_CLOSED, status_code=401)
        response = RedirectResponse("/", status_code=303)
        if session is not None:
            response.set_cookie(self._sessions.cookie, session, path="/", httponly=True, samesite="strict")
        return response

    async def _body(self, headers: Headers, receive: Receive) -> dict[str, object]:
        """The JSON object that a request carries."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(400, "BadRequest", "send Content-Type: application/json")
        announced = headers.get("content-length", "").encode() or None
        text = await read_body(receive, announced=announced, most=self._traffic.max_body_bytes, seconds=_BODY_SECONDS)
        check_shape(text, max_depth=self._traffic.max_json_depth, max_elements=self._traffic.max_json_elements)
        try:
            given = json.loads(text.decode("utf-8"), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise HTTPError(400, "BadRequest", "the body is not JSON in UTF-8") from error
        if not isinstance(given, dict):
            raise HTTPError(400, "BadRequest", "the body must be a JSON object")
        return given


def _no_number(name: str) -> object:
    raise ValueError(name)


def refusal(error: Exception) -> Response:
    """The answer to a request that failed; of a mistake of this server it tells nothing."""
    if isinstance(error, HTTPError):
        return _answer(error.status, error.error_type, str(error), error.headers)
    if isinstance(error, pydantic.ValidationError):
        error = ValidationError.from_pydantic(error)
    if isinstance(error, BackendError) and _LOCKED in str(error):
        error = StoreLockedError("another program keeps the store locked: nothing was changed; try again in a moment")
    if isinstance(error, MemoryRetrieversError):
        return _answer(status_of(error), type(error).__name__, str(error))
    frames = traceback.extract_tb(error.__traceback__)  # not the message, which may quote a memory
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-5:]))
    _logger.error("a request failed: %s at %s", type(error).__name__, where)
    return _answer(500, "InternalError", "the window made a mistake; the terminal it was started in says where")


def _answer(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    content = {"error": {"code": code, "message": message}}
    return UTF8JSONResponse(content, status_code=status, headers=None if headers is None else dict(headers))
