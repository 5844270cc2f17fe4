"""The guard before every route: checks host, origin, token, rate and size of a request, and hides internal errors."""

from __future__ import annotations

import ipaddress
import logging
import time
import traceback
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.server.access import OPEN, Access, TokenAuth, put_access
from memory_retrievers.server.intake import BodyLimiter, RateLimit
from memory_retrievers.server.requests import Metrics
from memory_retrievers.server.responses import HTTPError, unexpected
from memory_retrievers.server.settings import ServerSettings

_logger = logging.getLogger("memory_retrievers")

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Probes of monitoring, which may use any host name; they reveal nothing of a memory."""

OPEN_PATHS: Final = PROBES | {"/openapi.json"}


class Guard:
    """Checks that every request has to pass before a route sees it.

    Args:
        app: What is behind it.
        settings: The rules.
        metrics: Where answers are counted.
        takes_body: Whether a route of this path reads a body; of all others none is read.
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
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered: list[int] = []

        async def noting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])
            await send(message)

        started = time.perf_counter()
        try:
            await self._let_through(scope, receive, noting_send)
        except HTTPError as refusal:
            await refusal.response()(scope, receive, noting_send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            _log(error)
            if not answered:
                await unexpected()(scope, receive, noting_send)
        finally:
            self._metrics.note_answer(scope, status=answered[0] if answered else 500, started=started)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or raise HTTPError."""
        headers, path = Headers(scope=scope), scope["path"]
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
        authorization = headers.get("authorization")
        shown = None if authorization is None else authorization.encode("latin-1")
        access = OPEN if scope["path"] in OPEN_PATHS else self._auth.admit(shown)
        if access is None or access is OPEN:
            self._rate.take(f"address {(scope.get('client') or ('unknown',))[0]}")
        else:
            self._rate.take(access.name)
        if access is None:
            raise HTTPError(
                401,
                "Unauthorized",
                "send a token this server knows: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return access

    def _check_host(self, headers: Headers) -> None:
        """Refuse foreign hosts and origins: by DNS rebinding a page reaches this server only under the page's own name.

        Raises:
            HTTPError: The host or the origin is not one of this server's (403), or cannot be read (400).
        """
        host = headers.get("host", "")
        if not self._is_ours(_parsed("Host", f"//{host}").hostname or ""):
            raise HTTPError(
                403, "Forbidden", "this Host is not served here: start the server with it as an allowed host"
            )
        origin = headers.get("origin")
        if origin is None or origin in self._settings.allowed_origins:
            return
        if _parsed("Origin", origin).netloc.lower() != host.lower() or not host:
            raise HTTPError(403, "Forbidden", "this Origin may not ask here: start the server with it as allowed")

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
        raise HTTPError(400, "BadRequest", f"the {header} cannot be read: it is no address") from error


def _log(error: Exception) -> None:
    """Log where an error happened without its message, which may quote a memory."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-5:]))
    _logger.error("a request failed: %s at %s", type(error).__name__, where)
