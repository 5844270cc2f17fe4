"""The web application of a window: its routes, the files of its page, and ``serve``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable
from memory_retrievers.server.connections import configuration, ended_by_signals, listening
from memory_retrievers.server.responses import HTTPError, UTF8JSONResponse
from memory_retrievers.tools.arguments import storable_throughout
from memory_retrievers.window import changes, search, views
from memory_retrievers.window.gate import Gate, Sessions, refusal
from memory_retrievers.window.journal import Journal
from memory_retrievers.window.state import Doctor, Window, WindowSettings
from memory_retrievers.window.views import Query

_HOST: Final = "127.0.0.1"
_SHUTDOWN_SECONDS: Final = 5
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

Answer = Callable[[Window, Any], JsonObject]

GETS: Final[Mapping[str, tuple[type[Query], Answer]]] = {
    "/api/about": (views.NoQuery, views.about),
    "/api/scopes": (views.ScopesQuery, views.children),
    "/api/memories": (views.MemoriesQuery, views.memories),
    "/api/memory": (views.MemoryQuery, views.memory),
    "/api/diff": (views.DiffQuery, views.diff),
    "/api/health": (views.NoQuery, views.health),
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
    """The web application of a window; it owns the memory, and closes it when it has shut down.

    Args:
        memory: What is shown.
        settings: Of what, and whether it may be changed.
        sessions: Who may come in.
    """
    window = Window(memory=memory, settings=settings, journal=Journal(settings.journal))
    if settings.address is not None:
        window.doctor = Doctor(settings.address)

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
    """Paths of the files of the page, with their contents and types, read once."""
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
    return await _answered(window, answer, lambda: query.model_validate(given))


async def _asked(window: Window, body: type[Query], answer: Answer, request: Request) -> Response:
    given = request.scope["window.body"]
    return await _answered(window, answer, lambda: body.model_validate(storable_throughout(given)))


async def _changed(window: Window, body: type[Query], answer: Answer, request: Request) -> Response:
    if window.settings.read_only:
        raise HTTPError(403, "ReadOnly", "this window only looks: start it without --read-only to change anything")
    return await _asked(window, body, answer, request)


async def _answered(window: Window, answer: Answer, asked: Callable[[], Query]) -> Response:
    """The answer, made in a thread; what is begun is finished, whether or not somebody waits for it."""

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
        memory: What is shown; it is closed in any case.
        settings: Of what, and at which port.
        announce: Called with the address that opens the window, once, as soon as it is listened at.

    Raises:
        ConfigurationError: The port cannot be had.
    """
    with memory, listening(_HOST, settings.port) as listener:
        port: int = listener.getsockname()[1]
        sessions = Sessions(port)
        app = create_app(memory, settings=settings.model_copy(update={"port": port}), sessions=sessions)
        server = uvicorn.Server(configuration(app, settings.traffic, shutdown_seconds=_SHUTDOWN_SECONDS))
        with ended_by_signals(server):
            announce(f"http://{_HOST}:{port}/?token={sessions.token}")
            server.run(sockets=[listener])
