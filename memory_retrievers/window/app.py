"""The web application of a window: who may come in, its routes, the files of its page, and ``serve``."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.errors import BackendError, MemoryRetrieversError, StoreLockedError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable
from memory_retrievers.server.connections import configuration, ended_by_signals, listening
from memory_retrievers.server.intake import BodyLimiter, check_shape, origin_of
from memory_retrievers.server.responses import HTTPError, UTF8JSONResponse, failure, log_place_of
from memory_retrievers.tools.arguments import storable_throughout
from memory_retrievers.window import changes, search, views
from memory_retrievers.window.state import Window, WindowSettings
from memory_retrievers.window.views import Query

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
_CLOSED: Final = "You are not signed in to this window: open the address that memory-retrievers ui has printed.\n"


class Sessions:
    """The token that opens a window once, and the cookie of the browser that has used it."""

    def __init__(self, port: int) -> None:
        self.cookie = f"memory_window_{port}"  # browsers keep cookies of all ports together
        self.token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._is_used = False

    def begin(self, token: str) -> str | None:
        """Consume the token and return the value of the cookie; None for a wrong or used token."""
        if self._is_used or not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return None
        self._is_used = True
        return self._session

    def admits(self, cookies: str | None) -> bool:
        """Return True for the cookies of the browser that has used the token, whatever other programs' look like."""
        pairs = (each.strip().partition("=") for each in (cookies or "").split(";"))
        shown = [value.encode("utf-8", "replace") for name, _, value in pairs if name == self.cookie]
        return any(hmac.compare_digest(each, self._session.encode()) for each in shown)


class Gate:
    """Checks that every request has to pass, and headers that every answer gets."""

    def __init__(self, app: ASGIApp, *, settings: WindowSettings, sessions: Sessions) -> None:
        self._app = app
        self._traffic = settings.traffic
        self._bodies = BodyLimiter(self._traffic)
        self._sessions = sessions
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = frozenset(f"{name}:{settings.port}" for name in names)
        if settings.port == _HTTP:
            self._hosts |= frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
        """Return None for a request that may pass, otherwise the refusal."""
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
            raise HTTPError(403, "Forbidden", "this Host is not allowed")
        origin = origin_of(headers)
        if origin is not None and origin.lower() != f"http://{host}":
            raise HTTPError(403, "Forbidden", "this Origin is not allowed")

    def _begun(self, token: str, *, is_known: bool) -> Response:
        session = self._sessions.begin(token)
        if session is None and not is_known:
            return PlainTextResponse(_CLOSED, status_code=401)
        response = RedirectResponse("/", status_code=303)
        if session is not None:
            response.set_cookie(self._sessions.cookie, session, path="/", httponly=True, samesite="strict")
        return response

    async def _body(self, headers: Headers, receive: Receive) -> dict[str, object]:
        """Return the JSON object in the body of a request."""
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPError(400, "BadRequest", "send Content-Type: application/json")
        text = await self._bodies.read(headers, receive)
        check_shape(text, max_depth=self._traffic.max_json_depth, max_elements=self._traffic.max_json_elements)
        try:
            given = json.loads(text.decode("utf-8"), parse_constant=int)  # refuses NaN and Infinity
        except (ValueError, RecursionError) as error:
            raise HTTPError(400, "BadRequest", "the body is not JSON in UTF-8") from error
        if not isinstance(given, dict):
            raise HTTPError(400, "BadRequest", "the body must be a JSON object")
        return given


def refusal(error: Exception) -> Response:
    """Convert an error to a response; internal errors are not described."""
    if isinstance(error, BackendError) and _LOCKED in str(error):
        error = StoreLockedError("another program keeps the store locked: nothing was changed; try again in a moment")
    if isinstance(error, HTTPError | MemoryRetrieversError):
        return failure(error)
    log_place_of(error)
    message = "the window has failed; the terminal it was started in says where"
    return HTTPError(500, "InternalError", message).response()


_HOST: Final = "127.0.0.1"
_SHUTDOWN_SECONDS: Final = 5
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

Answer = Callable[[Window, Any], JsonObject]

GETS: Final[Mapping[str, tuple[type[Query], Answer]]] = {
    "/api/about": (Query, views.about),
    "/api/scopes": (views.ScopesQuery, views.children),
    "/api/memories": (views.MemoriesQuery, views.memories),
    "/api/memory": (views.MemoryQuery, views.memory),
    "/api/diff": (views.DiffQuery, views.diff),
    "/api/health": (Query, views.health),
    "/api/duplicates": (views.ScopeQuery, search.duplicates),
    "/api/pulse": (views.PulseQuery, views.pulse),
    "/api/changes": (changes.ChangesQuery, changes.changes),
}

ASKS: Final[Mapping[str, tuple[type[Query], Answer]]] = {
    "/api/search": (search.SearchBody, search.search),
    "/api/why": (search.WhyBody, search.why),
}
"""Questions that take a body, and change nothing."""

CHANGES: Final[Mapping[str, tuple[type[Query], Answer]]] = {
    "/api/preview": (changes.PreviewBody, changes.preview),
    "/api/act": (changes.ActBody, changes.act),
    "/api/undo": (changes.UndoBody, changes.undo),
}


def create_app(memory: AgentMemory, *, settings: WindowSettings, sessions: Sessions) -> ASGIApp:
    """Create the ASGI application of a window; it owns the memory and closes it at shutdown.

    Args:
        memory: The memory to show.
        settings: Settings of the window.
        sessions: Authenticates browsers.
    """
    window = Window(memory=memory, settings=settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await run_in_threadpool(window.close)

    routes = [
        *(Route(path, partial(_looked, window, *way), methods=["GET"]) for path, way in GETS.items()),
        *(Route(path, partial(_asked, window, *way), methods=["POST"]) for path, way in ASKS.items()),
        *(Route(path, partial(_changed, window, *way), methods=["POST"]) for path, way in CHANGES.items()),
        *(Route(path, partial(_file, content, kind), methods=["GET"]) for path, content, kind in _page()),
    ]
    app = Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _no_such_route, HTTPError: _refused}
    )
    return Gate(app, settings=settings, sessions=sessions)


def _page() -> list[tuple[str, bytes, str]]:
    """Return the files of the page by path, with their media types; they are read once."""
    folder = resources.files("memory_retrievers.window") / "page"
    found = [("/", (folder / "index.html").read_bytes(), "text/html; charset=utf-8")]
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        kind = next((kind for suffix, kind in _TYPES.items() if file.name.endswith(suffix)), None)
        if kind is not None:
            found.append((f"/page/{file.name}", file.read_bytes(), kind))
    return found


async def _file(content: bytes, kind: str, _request: Request) -> Response:
    return Response(content, headers={"Content-Type": kind})


async def _looked(window: Window, query: type[Query], answer: Answer, request: Request) -> Response:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise HTTPError(400, "BadRequest", "a parameter is given twice")
        if value:  # an empty one is none
            given[name] = storable(value)
    return await _answered(window, answer, partial(query, **given))


async def _asked(window: Window, body: type[Query], answer: Answer, request: Request) -> Response:
    given = request.scope["window.body"]
    return await _answered(window, answer, lambda: body(**cast("Any", storable_throughout(given))))


async def _changed(window: Window, body: type[Query], answer: Answer, request: Request) -> Response:
    if window.settings.read_only:
        raise HTTPError(403, "ReadOnly", "this window is read-only: start it without --read-only to change anything")
    return await _asked(window, body, answer, request)


async def _answered(window: Window, answer: Answer, asked: Callable[[], Query]) -> Response:
    """Compute the response in a thread, which finishes even if the client leaves."""

    def made() -> Response:
        try:
            if answer is not views.health:  # which tells more of it
                window.require_its_schema()
            return UTF8JSONResponse(answer(window, asked()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the page gets it
            return refusal(error)

    return await run_in_threadpool(made)


async def _refused(_request: Request, error: Exception) -> Response:
    return refusal(error)


async def _no_such_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    code = {404: "NotFoundError", 405: "MethodNotAllowed"}.get(error.status_code, "BadRequest")
    return refusal(HTTPError(error.status_code, code, error.detail, headers=error.headers))


def serve(memory: AgentMemory, *, settings: WindowSettings, announce: Callable[[str], None] = lambda _: None) -> None:
    """Serve a window until SIGTERM or Ctrl-C, then close the memory.

    Args:
        memory: The memory to show; it is closed in any case.
        settings: Settings of the window.
        announce: Called with the URL that opens the window, which works once, when the server listens.
    """
    with memory, listening(_HOST, settings.port) as listener:
        port: int = listener.getsockname()[1]
        sessions = Sessions(port)
        app = create_app(memory, settings=settings.model_copy(update={"port": port}), sessions=sessions)
        server = uvicorn.Server(configuration(app, settings.traffic, shutdown_seconds=_SHUTDOWN_SECONDS))
        with ended_by_signals(server):
            announce(f"http://{_HOST}:{port}/?token={sessions.token}")
            server.run(sockets=[listener])
