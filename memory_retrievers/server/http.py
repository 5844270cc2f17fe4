"""HTTP: a memory as a web application, every route behind one guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from memory_retrievers import __version__
from memory_retrievers.errors import ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.server import calling, reading, writing
from memory_retrievers.server.answers import ERRORS, Refusal, failure
from memory_retrievers.server.calls import Desk, OneCall
from memory_retrievers.server.guard import Guard
from memory_retrievers.server.idempotency import Idempotency
from memory_retrievers.server.metrics import CONTENT_TYPE, Metrics
from memory_retrievers.server.settings import ServerSettings
from memory_retrievers.tools.toolbox import FAILURES

watching = APIRouter(tags=["Watch"])


class Health(BaseModel):
    """Whether all is well."""

    status: str


def create_app(memory: AgentMemory, *, settings: ServerSettings | None = None) -> FastAPI:
    """The web application that serves a memory.

    It owns the memory: it starts the worker when it starts up, and closes the memory when it has shut down.

    Args:
        memory: What to serve.
        settings: To whom and how much; None is everybody on this machine.

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
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.desk = Desk(memory=memory, settings=chosen, metrics=metrics)
    for router in (reading.router, writing.router, calling.tool_routes(allow_scopes=chosen.allow_scopes), watching):
        app.include_router(router)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _no_such_route)
    for kind in FAILURES:
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(Refusal, _refused)
    # the last one added stands outermost
    app.add_middleware(Idempotency, is_write=lambda path: path in writing.PATHS or calling.is_write(path))
    app.add_middleware(Guard, settings=chosen, metrics=metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    if desk.settings.worker:
        await run_in_threadpool(desk.memory.start_worker)
    try:
        yield
    finally:
        await run_in_threadpool(desk.memory.close)  # the worker ends its piece of work first


@watching.get("/healthz")
async def healthz() -> Health:
    """Whether the server runs."""
    return Health(status="ok")


@watching.get("/readyz")
async def readyz(call: OneCall) -> Health:
    """Whether the store can be read."""
    await call.run(call.memory.stats)
    return Health(status="ready")


@watching.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus."}},
)
async def metrics(call: OneCall) -> Response:
    """Numbers for Prometheus about the whole store, so only for a token that reaches all of it."""
    call.access.require_everything()
    held = await call.run(call.memory.stats)
    return call.make(lambda: Response(call.metrics.exposition(held), media_type=CONTENT_TYPE))


async def _failed(_request: Request, error: Exception) -> Response:
    return failure(error)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - registered for nothing else
    return error.response()


async def _malformed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
    return failure(ValidationError.of_complaints(error.errors(), without="body"))


async def _no_such_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    names = {404: "NotFoundError", 405: "MethodNotAllowed"}
    refusal = Refusal(
        error.status_code, names.get(error.status_code, "BadRequest"), error.detail, headers=error.headers
    )
    return refusal.response()
