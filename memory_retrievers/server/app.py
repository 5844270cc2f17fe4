"""The FastAPI application: routes, guard, idempotency, error handlers, the lifespan of the memory, and ``serve``."""

from __future__ import annotations

import asyncio
import ipaddress
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from urllib.parse import SplitResult, urlsplit

import uvicorn
from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_retrievers import __version__
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.server import routes
from memory_retrievers.server.connections import configuration, ended_by_signals, listening
from memory_retrievers.server.intake import BodyLimiter, RateLimit, SharedCheck, noting_statuses, origin_of
from memory_retrievers.server.methods import tell_attributes
from memory_retrievers.server.requests import KEY_HEADER, CurrentRequest, Idempotency, Metrics, requests_of
from memory_retrievers.server.responses import ERRORS, ErrorObject, HTTPError, UTF8JSONResponse, failure, log_place_of
from memory_retrievers.server.settings import OPEN, Access, ServerSettings, TokenAuth, access_in, put_access
from memory_retrievers.tools.arguments import offering
from memory_retrievers.tools.tool import FAILURES, own_categories

# FastAPI compiles a model anew for every route and status that names it: one route does, the others refer.
watching = APIRouter(tags=["Watch"], responses={500: ERRORS[500] | {"model": ErrorObject}})
_making_document: Final = threading.Lock()
_PROCESSING_THREADS: Final = 40  # as many as all other requests have together


class Health(BaseModel):
    """Whether all is well."""

    status: str


def create_app(memory: AgentMemory, *, settings: ServerSettings | None = None) -> FastAPI:
    """Create the ASGI application that serves a memory.

    The application owns the memory: it starts the worker at start-up and closes the memory at shutdown.

    Args:
        memory: The memory to serve.
        settings: Settings of the server; None takes the defaults.

    Raises:
        ConfigurationError: Other machines could reach it without a token.
    """
    chosen = settings or ServerSettings()
    chosen.require_safe_address()
    metrics = Metrics()
    app = FastAPI(
        title="memory-retrievers",
        version=__version__,
        description="Long-term memory for agents. Scopes are called conversation_id here.",
        responses=ERRORS,
        openapi_url=None,  # it is made in the event loop; see below
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # behind TLS it would lead to http, with the token
        lifespan=partial(_lifespan, worker=chosen.worker),
    )
    app.state.memory, app.state.metrics, app.state.document = memory, metrics, None
    app.state.processing, app.state.running, app.state.is_ending = None, set(), False
    app.state.readiness = SharedCheck(seconds=1.0, clock=time.monotonic)
    routers = (routes.read_routes, routes.write_routes, routes.tool_routes(allow_scopes=chosen.allow_scopes), watching)
    for router in routers:
        app.include_router(router)
    takes_body = frozenset(
        route.path for router in routers for route in router.routes if isinstance(route, APIRoute) and route.body_field
    ).__contains__
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _no_such_route)
    for kind in (*FAILURES, HTTPError):
        app.add_exception_handler(kind, _failed)
    # the last one added stands outermost
    app.add_middleware(
        Idempotency,
        is_write=routes.is_write,
        requests=requests_of(memory),
        make_anew=partial(routes.made_anew, memory),
        now=memory.now,
    )
    app.add_middleware(Guard, settings=chosen, metrics=metrics, takes_body=takes_body)
    if chosen.allowed_origins:  # a browser asks first whether their pages may, without the token
        app.add_middleware(
            CORSMiddleware,
            allow_origins=chosen.allowed_origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", KEY_HEADER),
            expose_headers=("Retry-After",),
        )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI, *, worker: bool) -> AsyncIterator[None]:
    memory: AgentMemory = app.state.memory
    app.state.processing = CapacityLimiter(_PROCESSING_THREADS)  # of the event loop, which runs only now
    if worker:
        await run_in_threadpool(memory.start_worker)
    try:
        yield
    finally:
        app.state.is_ending = True
        own = [each for each in app.state.running if each.get_loop() is asyncio.get_running_loop()]
        try:
            await asyncio.gather(*own, return_exceptions=True)  # also what nobody waits for any more
        finally:
            await run_in_threadpool(memory.close)  # the worker ends its piece of work first


@watching.head("/healthz", include_in_schema=False)
@watching.get("/healthz")
async def healthz() -> Health:
    """Whether the server runs."""
    return Health(status="ok")


@watching.get("/openapi.json", include_in_schema=False)
async def document(request: Request) -> Response:
    """The description of all routes: made once, in a thread, for it takes a second or so."""
    # No token is asked for: who asks for it again and again must not take the threads in which the memory answers.
    made = request.app.state.document or await run_in_threadpool(_document, request.app)
    return Response(made, media_type="application/json")


def _document(app: FastAPI) -> bytes:
    with _making_document:
        if app.state.document is None:
            described = offering(app.openapi(), own_categories(app.state.memory) or ())
            for schema in described["components"]["schemas"].values():
                tell_attributes(schema)
            app.state.document = (
                bytes(UTF8JSONResponse(described).body).replace(b":meth:", b"").replace(b":class:", b"")
            )
        return bytes(app.state.document)


@watching.head("/readyz", include_in_schema=False)
@watching.get("/readyz")
async def readyz(request: CurrentRequest) -> Health:
    """Whether the store can be read, as of at most a second ago."""
    # No token is asked for, so it must cost next to nothing: one memory of a scope, and no count of anything.
    await request.readiness.ask(lambda: request.run(lambda: request.memory.list("readiness", limit=1)))
    return Health(status="ready")


@watching.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus."}},
)
async def metrics(request: CurrentRequest) -> Response:
    """Numbers for Prometheus about the whole store, so only for a token that reaches all of it."""
    request.access.require_everything()
    held = await request.run(request.memory.stats)
    return request.make(lambda: Response(request.metrics.exposition(held), media_type=CONTENT_TYPE_LATEST))


async def _failed(_request: Request, error: Exception) -> Response:
    return failure(error)


async def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
    if isinstance(error.body, bytes):  # nothing was parsed
        return failure(ValidationError("the body is not sent as JSON: add the header Content-Type: application/json"))
    named = error.body if isinstance(error.body, Mapping) else request.query_params
    if isinstance(scope := named.get("conversation_id"), str):
        try:  # who may not go there learns nothing of what is wrong with the rest
            access_in(request.scope).scope(scope, writes=routes.is_write(request.scope["path"]))
        except HTTPError as refusal:
            return refusal.response()
        except ValidationError:
            pass  # it is among what is reported
    return failure(ValidationError.of_complaints(error.errors(), without="body"))


async def _no_such_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    headers = error.headers or {}
    if "Allow" in headers:  # Starlette names the methods of one route
        scopes = {method: dict(request.scope, method=method) for method in ("GET", "HEAD", "POST")}
        routes = request.app.routes
        taken = [each for each in scopes if any(route.matches(scopes[each])[0] is Match.FULL for route in routes)]
        headers = {"Allow": ", ".join(taken)}
    answers = {
        404: ("NotFoundError", "there is no such route: /openapi.json has all of them"),
        405: ("MethodNotAllowed", f"this route only takes {headers.get('Allow')}"),
    }
    name, message = answers.get(error.status_code, ("BadRequest", error.detail))
    return HTTPError(error.status_code, name, message, headers=headers).response()


def serve(
    memory: AgentMemory, *, settings: ServerSettings | None = None, announce: Callable[[str], None] | None = None
) -> None:
    """Serve a memory until SIGTERM or Ctrl-C, then close it.

    Args:
        memory: The memory to serve; it is closed in any case.
        settings: Settings of the server; None takes the defaults.
        announce: Called with the URL of the server when it listens.

    Raises:
        ConfigurationError: The address cannot be used, or other machines could reach it without a token.
    """
    chosen = settings or ServerSettings()
    with memory:
        app = create_app(memory, settings=chosen)
        server = uvicorn.Server(configuration(app, chosen, shutdown_seconds=chosen.shutdown_seconds))
        with ended_by_signals(server), listening(chosen.host, chosen.port, announce=announce) as listener:
            server.run(sockets=[listener])


def _ending(scope: Scope) -> HTTPError:
    ends = "the server is shutting down: send the request again"
    if routes.is_write(scope["path"]):
        ends = "the server shuts down when this is done: send it again with its Idempotency-Key"
    return HTTPError(503, "Busy", ends, headers={"Retry-After": "1"})


MAX_HEADER_BYTES: Final = 16_384
PROBES: Final = frozenset({"/healthz", "/readyz"})  # of monitoring, by any host name; they reveal nothing of a memory
OPEN_PATHS: Final = PROBES | {"/openapi.json"}


class Guard:
    """Checks that every request has to pass before a route sees it.

    Args:
        app: The wrapped application.
        settings: Settings of the server.
        metrics: Counts the responses.
        takes_body: Returns True for the path of a route that takes a body; otherwise no body is read.
    """

    def __init__(
        self, app: ASGIApp, *, settings: ServerSettings, metrics: Metrics, takes_body: Callable[[str], bool]
    ) -> None:
        self._app = app
        self._takes_body = takes_body
        self._bodies = BodyLimiter(settings)
        self._settings = settings
        self._metrics = metrics
        self._auth = TokenAuth(settings.tokens)
        self._rate = RateLimit(per_minute=settings.requests_per_minute, burst=settings.burst, clock=time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        noting_send, answered = noting_statuses(send)
        started = time.perf_counter()
        try:
            await self._let_through(scope, receive, noting_send)
        except (*FAILURES, HTTPError) as error:  # of the store too, which is asked for keys here
            if answered:
                log_place_of(error)
            else:
                await failure(error)(scope, receive, noting_send)
        except asyncio.CancelledError:  # only a server that ends does that, and the work goes on
            if not answered:
                await _ending(scope).response()(scope, receive, noting_send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            log_place_of(error)
            if not answered:
                unexpected = HTTPError(500, "InternalError", "the server has failed; its log says where")
                await unexpected.response()(scope, receive, noting_send)
        finally:
            self._metrics.note_answer(scope, status=answered[0] if answered else 500, started=started)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise HTTPError."""
        headers, path = Headers(scope=scope), scope["path"]
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            raise HTTPError(400, "BadRequest", f"a request has at most {MAX_HEADER_BYTES:,} bytes of headers")
        if path in PROBES:
            put_access(scope, OPEN)
            await self._app(scope, receive, send)
            return
        # 1. by a name of this server, from a page of this server
        self._check_host(headers)
        # 2. by somebody who is let in, and not too often
        put_access(scope, self._admitted(headers, scope))
        # 3. with no more than can be taken, and only where it is wanted
        if scope["method"] != "POST" or not self._takes_body(path):
            await self._app(scope, receive, send)
            return
        async with self._bodies.body(headers, receive) as read:
            await self._app(scope, read, send)

    def _admitted(self, headers: Headers, scope: Scope) -> Access:
        shown = headers.get("authorization", "").encode("latin-1")
        access = OPEN if scope["path"] in OPEN_PATHS else self._auth.admit(shown)
        if access is None or access is OPEN:
            self._rate.take(f"address {(scope.get('client') or ('unknown',))[0]}")
        else:
            self._rate.take(access.name)
        if access is None:
            message = "send a token this server knows: Authorization: Bearer TOKEN"
            raise HTTPError(401, "Unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
        return access

    def _check_host(self, headers: Headers) -> None:
        """Refuse foreign hosts and origins: by DNS rebinding a page reaches this server under its own name alone."""
        host = headers.get("host", "")
        if not self._is_ours(_parsed("Host", f"//{host}").hostname or ""):
            message = "this Host is not allowed: start the server with it as an allowed host"
            raise HTTPError(403, "Forbidden", message)
        origin = origin_of(headers)
        if origin is None or origin in self._settings.allowed_origins:
            return
        if _parsed("Origin", origin).netloc.lower() != host.lower() or not host:
            raise HTTPError(403, "Forbidden", "this Origin is not allowed: add it to those that the server allows")

    def _is_ours(self, name: str) -> bool:
        if name in {"localhost", self._settings.host.lower(), *map(str.lower, self._settings.allowed_hosts)}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # a page of another server has a name, or that server's address


def _parsed(header: str, address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:  # of brackets that hold no address
        raise HTTPError(400, "BadRequest", f"the {header} cannot be read: it is not an address") from error
