"""The official MCP SDK, 1.24 to 2.x: serves an offer over stdio, or over streamable HTTP.

The two major versions differ in how handlers are registered and in how errors are raised; the messages are the same.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memory_retrievers import __version__
from memory_retrievers.errors import MemoryRetrieversError, MissingExtraError
from memory_retrievers.models import JsonObject
from memory_retrievers.server.listening import ended_by_signals, listening
from memory_retrievers.server.mcp import McpOffer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH: Final = "/mcp"
_NAME: Final = "memory-retrievers"
_INVALID_PARAMETERS: Final = -32602
_SHUTDOWN_SECONDS: Final = 5
"""How long clients that stay may keep the server from ending; what is being written is finished in any case."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

_Answer: TypeAlias = Callable[[McpOffer, Any], JsonObject]
_ANSWERS: Final[tuple[tuple[str, str, _Answer], ...]] = (
    ("tools/list", "ListTools", lambda offer, _: offer.tools()),
    ("tools/call", "CallTool", lambda offer, asked: offer.call(asked.name, asked.arguments or {})),
    ("resources/list", "ListResources", lambda offer, _: offer.resources()),
    ("resources/read", "ReadResource", lambda offer, asked: offer.read(str(asked.uri))),
    ("prompts/list", "ListPrompts", lambda offer, _: offer.prompts()),
    ("prompts/get", "GetPrompt", lambda offer, asked: offer.prompt(asked.name)),
)
"""Each request: its method, the name of its types in the SDK, and what is answered."""


def serve_stdio(offer: McpOffer) -> None:
    """Serve one client over standard input and output until it leaves.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    server = _server(offer)
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(serve())


def serve_http(offer: McpOffer, *, host: str, port: int, token: str | None = None) -> None:
    """Serve any number of clients at ``http://host:port/mcp`` until the process is told to end.

    Raises:
        MissingExtraError: The SDK is not installed.
        ConfigurationError: The address cannot be had.
    """
    app = http_app(offer, host=host, token=token)
    import uvicorn

    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    server = uvicorn.Server(config)
    with listening(host, port) as listener, ended_by_signals(server):
        server.run(sockets=[listener])


def http_app(offer: McpOffer, *, host: str = "127.0.0.1", token: str | None = None) -> Starlette:
    """The same as an ASGI application.

    Args:
        offer: What to serve.
        host: The address it will be reached at. On a loopback address requests that name another host are refused, so
            that no web page can reach it under a name of its own.
        token: Who does not send it as a bearer token is refused; None lets everybody in.

    Raises:
        MissingExtraError: The SDK is not installed.
    """
    server = _server(offer)
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.applications import Starlette
    from starlette.routing import Route

    local = host in {"127.0.0.1", "localhost", "::1"}
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=local,
        allowed_hosts=[f"{name}:*" for name in _LOOPBACK],
        allowed_origins=[f"http://{name}:*" for name in _LOOPBACK],
    )
    sessions = StreamableHTTPSessionManager(app=server, security_settings=security)

    @asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    endpoint: ASGIApp = _Endpoint(sessions.handle_request)
    return Starlette(routes=[Route(PATH, endpoint if token is None else _Door(endpoint, token))], lifespan=running)


class _Endpoint:
    """A route takes an object for an ASGI application, and a method for a function of a request."""

    def __init__(self, handle: ASGIApp) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handle(scope, receive, send)


class _Door:
    """Lets in only requests that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from memory_retrievers.server.answers import Refusal

        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        refusal = Refusal(
            401,
            "AuthenticationError",
            "send the bearer token of this server",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal.response()(scope, receive, send)


def _server(offer: McpOffer) -> Any:  # noqa: ANN401 - the class has other type parameters in each major version
    try:
        lowlevel = importlib.import_module("mcp.server.lowlevel")
        types = importlib.import_module("mcp.types")
        exceptions = importlib.import_module("mcp.shared.exceptions")
    except ModuleNotFoundError as error:
        raise MissingExtraError("mcp", extra="mcp") from error
    server = lowlevel.Server(_NAME, version=__version__, instructions=offer.guide)
    first_version = version("mcp").startswith("1.")
    for method, name, answer in _ANSWERS:
        result = getattr(types, f"{name}Result")
        request = getattr(types, f"{name}Request")
        if first_version:
            handle = _handler(offer, answer, result, failed=_first_error(types, exceptions))
            server.request_handlers[request] = _of_first_version(handle, types.ServerResult)
        else:
            handle = _handler(offer, answer, result, failed=_second_error(exceptions))
            server.add_request_handler(method, _parameters(types, name), _of_second_version(handle))
    return server


_Handler: TypeAlias = Callable[[Any], Awaitable[Any]]


def _handler(offer: McpOffer, answer: _Answer, result: Any, *, failed: Callable[[str], Exception]) -> _Handler:  # noqa: ANN401
    async def handle(asked: object) -> object:
        try:
            return result.model_validate(await asyncio.to_thread(answer, offer, asked))
        except MemoryRetrieversError as error:
            raise failed(str(error)) from error

    return handle


def _of_first_version(handle: _Handler, wrapped: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    async def handle_request(request: Any) -> object:  # noqa: ANN401
        return wrapped(await handle(request.params))

    return handle_request


def _of_second_version(handle: _Handler) -> Callable[[Any, Any], Awaitable[Any]]:
    async def handle_request(_context: object, parameters: object) -> object:
        return await handle(parameters)

    return handle_request


def _parameters(types: Any, name: str) -> Any:  # noqa: ANN401
    return getattr(types, f"{name}RequestParams", types.PaginatedRequestParams)


def _first_error(types: Any, exceptions: Any) -> Callable[[str], Exception]:  # noqa: ANN401
    return lambda message: exceptions.McpError(types.ErrorData(code=_INVALID_PARAMETERS, message=message))


def _second_error(exceptions: Any) -> Callable[[str], Exception]:  # noqa: ANN401
    return lambda message: exceptions.MCPError(code=_INVALID_PARAMETERS, message=message)
