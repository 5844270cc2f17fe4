"""The official MCP SDK, 1.24 to 2.x: serves an offer over stdio, or over streamable HTTP.

The two major versions differ in how handlers are registered and in how errors are raised; the messages are the same.
"""

from __future__ import annotations

import asyncio
import errno
import importlib
import inspect
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from memory_retrievers import __version__
from memory_retrievers.errors import BackendError, Extra, MemoryRetrieversError, NotFoundError, required
from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import storable_json
from memory_retrievers.server.mcp import McpOffer
from memory_retrievers.server.settings import McpSettings, is_loopback
from memory_retrievers.storage.tracing import watched

if TYPE_CHECKING:
    from starlette.applications import Starlette

PATH: Final = "/mcp"
_NAME: Final = "memory-retrievers"
_INVALID_PARAMETERS: Final = -32602
_INTERNAL_ERROR: Final = -32603
_RESOURCE_NOT_FOUND: Final = -32002
_SHUTDOWN_SECONDS: Final = 5  # that clients that stay may keep it from ending; what is written is finished anyway

_Answer: TypeAlias = Callable[[McpOffer, Any], JsonObject]
_ANSWERS: Final[tuple[tuple[str, str, _Answer], ...]] = (
    ("tools/list", "ListTools", lambda offer, _: offer.tools()),
    ("tools/call", "CallTool", lambda offer, asked: offer.call(asked.name, asked.arguments or {})),
    ("resources/list", "ListResources", lambda offer, _: offer.resources()),
    ("resources/templates/list", "ListResourceTemplates", lambda offer, _: offer.resource_templates()),
    ("resources/read", "ReadResource", lambda offer, asked: offer.read(str(asked.uri))),
    ("prompts/list", "ListPrompts", lambda offer, _: offer.prompts()),
    ("prompts/get", "GetPrompt", lambda offer, asked: offer.prompt(asked.name)),
)
"""Each request: its method, the name of its types in the SDK, and what is answered."""


def require_sdk() -> None:
    """Check that the MCP SDK is installed.

    Raises:
        MissingExtraError: It is not installed.
    """
    with required(Extra("mcp", "mcp", "mcp")):
        importlib.import_module("mcp.server.lowlevel")


def serve_stdio(offer: McpOffer) -> None:
    """Serve one client over standard input and output until it leaves."""
    server = _server(offer)
    import anyio
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage
    from pydantic import RootModel

    from memory_retrievers.server.mcp_sessions import InvalidMessageError, check_message

    async def serve() -> None:
        async def lines() -> AsyncIterator[str]:
            # the SDK answers nothing to a message with half of an emoji in it, as clients in JavaScript send it
            async for line in anyio.wrap_file(sys.stdin.buffer):
                message = storable_json(line)
                try:
                    check_message(message)
                except InvalidMessageError as error:
                    if message.strip():
                        await outgoing.send(SessionMessage(cast("Any", RootModel(error.answer))))
                else:
                    yield message.decode(errors="replace")

        # which begins to read only after this: what is sent out is known by then
        async with stdio_server(stdin=cast("Any", lines())) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    try:
        asyncio.run(serve())
    except ExceptionGroup as failures:
        if failures.split(BrokenPipeError)[1] is None:  # the client has left
            raise BrokenPipeError(errno.EPIPE, "the client does not read") from failures
        raise


def serve_http(
    offer: McpOffer,
    *,
    host: str,
    port: int,
    token: str | None = None,
    settings: McpSettings | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Serve clients at ``http://host:port/mcp`` until the process is asked to end.

    Args:
        offer: What to serve.
        host: The address to listen at.
        port: The port; 0 is any that is free.
        token: The bearer token that a request has to carry; None accepts every request.
        settings: Limits on clients and requests; None takes the defaults.
        announce: Called with the URL of the server, without its path, when it listens.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        ConfigurationError: The address or the port cannot be used, or the token is malformed.
    """
    chosen = settings or McpSettings()
    app = http_app(offer, host=host, token=token, settings=chosen)
    import uvicorn

    from memory_retrievers.server.connections import configuration, ended_by_signals, listening

    server = uvicorn.Server(configuration(app, chosen, shutdown_seconds=_SHUTDOWN_SECONDS))
    with ended_by_signals(server), listening(host, port, announce=announce) as listener:
        server.run(sockets=[listener])


def http_app(
    offer: McpOffer, *, host: str = "127.0.0.1", token: str | None = None, settings: McpSettings | None = None
) -> Starlette:
    """The same as an ASGI application.

    Args:
        offer: What to serve.
        host: The address it will be reached at. On a loopback address requests that name another host are refused, so
            that no web page can reach it under a name of its own.
        token: The bearer token that a request has to carry; None accepts every request.
        settings: How many sessions and how much in each request; None is the defaults.

    Raises:
        ConfigurationError: The token is shorter than 16 characters, or not printable ASCII.
    """
    server = _server(offer)
    chosen = settings or McpSettings()
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Route

    from memory_retrievers.server.mcp_sessions import McpEndpoint, Sessions

    names = {"127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host}
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_loopback(host),
        allowed_hosts=[f"{name}:*" for name in names],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
    manager = StreamableHTTPSessionManager(app=server, security_settings=security, **_bounds(chosen))
    kept = manager._server_instances  # noqa: SLF001 - nothing else forgets what has ended, in the first version
    sessions = Sessions(manager.handle_request, settings=chosen, clock=time.monotonic, kept=kept)

    @asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with manager.run(), sessions.ending():
            yield

    app = Starlette(routes=[Route(PATH, McpEndpoint(sessions, settings=chosen, token=token))], lifespan=running)
    app.router.redirect_slashes = False  # it would lead to whatever Host says, before the token is asked for
    return app


def _bounds(settings: McpSettings) -> dict[str, Any]:
    """Options for the limits that the installed SDK has itself, set so that those of this package apply first."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    known = inspect.signature(StreamableHTTPSessionManager).parameters
    ours = {
        "session_idle_timeout": settings.session_seconds * 2,  # only what is not ended here
        "max_sessions": settings.max_sessions + 1,  # so that it is refused here, and said alike
        "max_request_body_size": settings.max_body_bytes,
    }
    return {name: bound for name, bound in ours.items() if name in known}


def _server(offer: McpOffer) -> Any:  # noqa: ANN401 - the class has other type parameters in each major version
    require_sdk()
    lowlevel = importlib.import_module("mcp.server.lowlevel")
    types = importlib.import_module("mcp.types")
    exceptions = importlib.import_module("mcp.shared.exceptions")
    server = lowlevel.Server(_NAME, version=__version__, instructions=offer.guide)
    first_version = version("mcp").startswith("1.")

    def failed(code: int, message: str) -> Exception:
        if first_version:
            return exceptions.McpError(types.ErrorData(code=code, message=message))  # type: ignore[no-any-return]
        return exceptions.MCPError(code=code, message=message)  # type: ignore[no-any-return]

    for method, name, answer in _ANSWERS:
        result = getattr(types, f"{name}Result")
        request = getattr(types, f"{name}Request")
        handle = _handler(offer, answer, result, failed=failed)
        if first_version:
            server.request_handlers[request] = _of_first_version(server, handle, types.ServerResult)
        else:
            parameters = getattr(types, f"{name}RequestParams", types.PaginatedRequestParams)
            server.add_request_handler(method, parameters, _of_second_version(handle))
    return server


_Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
_Tell: TypeAlias = Callable[[int, int], Coroutine[Any, Any, None]]


def _handler(offer: McpOffer, answer: _Answer, result: Any, *, failed: Callable[[int, str], Exception]) -> _Handler:  # noqa: ANN401
    import anyio.to_thread  # it comes with the SDK

    async def handle(asked: object, tell: _Tell | None) -> object:
        if getattr(asked, "cursor", None) is not None:
            raise failed(_INVALID_PARAMETERS, "Invalid cursor: each list is one page, and none was given")
        course = _Course(tell)
        try:
            # not in the few threads of asyncio: some long imports of one client must not hold up all others
            work = anyio.to_thread.run_sync(course.follow, answer, offer, asked, abandon_on_cancel=True)
            return result.model_validate(await work)
        except asyncio.CancelledError:
            course.is_ended = True
            raise
        except BackendError as error:
            raise failed(_INTERNAL_ERROR, str(error)) from error
        except NotFoundError as error:
            is_resource = hasattr(asked, "uri")
            raise failed(_RESOURCE_NOT_FOUND if is_resource else _INVALID_PARAMETERS, str(error)) from error
        except MemoryRetrieversError as error:
            raise failed(_INVALID_PARAMETERS, str(error)) from error

    return handle


class _Course:
    """The work on one request, in a thread: its progress goes to the client, and the client can end it."""

    def __init__(self, tell: _Tell | None) -> None:
        self._tell = tell
        self._last_done = 0
        self._loop = asyncio.get_running_loop()
        self.is_ended = False

    def follow(self, answer: _Answer, offer: McpOffer, asked: object) -> JsonObject:
        with watched(self._watch):
            return answer(offer, asked)

    def _watch(self, done: int, total: int) -> None:
        if self.is_ended:
            raise asyncio.CancelledError
        if self._tell is not None and done > self._last_done:  # the protocol wants it to rise
            self._last_done = done
            # not waited for: a client that is slow to read must not hold up a transaction
            asyncio.run_coroutine_threadsafe(self._tell(done, total), self._loop)


def _of_first_version(server: Any, handle: _Handler, wrapped: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:  # noqa: ANN401
    async def handle_request(request: Any) -> object:  # noqa: ANN401
        context = server.request_context
        token = getattr(context.meta, "progressToken", None)

        async def tell(done: int, total: int) -> None:
            await context.session.send_progress_notification(
                token, done, total=total, related_request_id=str(context.request_id)
            )

        return wrapped(await handle(request.params, None if token is None else tell))

    return handle_request


def _of_second_version(handle: _Handler) -> Callable[[Any, Any], Awaitable[Any]]:
    async def handle_request(context: Any, parameters: object) -> object:  # noqa: ANN401
        async def tell(done: int, total: int) -> None:
            await context.session.report_progress(done, total)

        return await handle(parameters, tell)

    return handle_request
