"""The guard before every route: asked by which name, by whom, how often, how much; and no failure gets out bare."""

from __future__ import annotations

import ipaddress
import logging
import time
import traceback
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_retrievers.server.access import OPEN, Access, Doorkeeper
from memory_retrievers.server.answers import Refusal, unexpected
from memory_retrievers.server.limits import RateLimit, read_body, replaying
from memory_retrievers.server.metrics import Metrics
from memory_retrievers.server.settings import ServerSettings

_logger = logging.getLogger("memory_retrievers")

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Asked by machines that watch over this one, by whatever name they know it; they tell nothing of a memory."""

OPEN_PATHS: Final = PROBES | {"/openapi.json"}


class Guard:
    """What every request has to pass before a route sees it.

    Args:
        app: What is behind it.
        settings: The rules.
        metrics: Where answers are counted.
    """

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._doorkeeper = Doorkeeper(settings.tokens)
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
            await self._app(scope, await self._checked(scope, receive), noting_send)
        except Refusal as refusal:
            await refusal.response()(scope, receive, noting_send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            _log(error)
            if not answered:
                await unexpected()(scope, receive, noting_send)
        finally:
            self._metrics.note_answer(scope, status=answered[0] if answered else 500, started=started)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """Pass a request, or raise Refusal; gives how its body is received from here on."""
        headers, path = Headers(scope=scope), scope["path"]
        if path in PROBES:
            _put(scope, OPEN)
            return receive
        # 1. by a name of this server, from a page of this server
        self._check_host(headers)
        # 2. by somebody who is let in, and not too often
        access = self._admitted(headers, scope) if path not in OPEN_PATHS else OPEN
        _put(scope, access)
        # 3. with no more than can be taken
        body = await read_body(
            receive,
            announced=headers.get("content-length", "").encode() or None,
            most=self._settings.max_body_bytes,
            seconds=self._settings.body_seconds,
        )
        return replaying(body, receive)

    def _admitted(self, headers: Headers, scope: Scope) -> Access:
        authorization = headers.get("authorization")
        access = self._doorkeeper.admit(None if authorization is None else authorization.encode("latin-1"))
        if access is None or access is OPEN:
            self._rate.take(f"address {(scope.get('client') or ('unknown',))[0]}")
        else:
            self._rate.take(access.name)
        if access is None:
            raise Refusal(
                401,
                "Unauthorized",
                "send a token this server knows: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return access

    def _check_host(self, headers: Headers) -> None:
        """Against DNS rebinding: a foreign page reaches this server only under the page's own name.

        Raises:
            Refusal: The host or the origin is not one of this server's.
        """
        host = headers.get("host", "")
        if not self._is_ours(_name(f"//{host}")):
            raise Refusal(403, "Forbidden", "this Host is not served here: start the server with it as an allowed host")
        origin = headers.get("origin")
        if origin is None or origin in self._settings.allowed_origins:
            return
        if urlsplit(origin).netloc.lower() != host.lower() or not host:
            raise Refusal(403, "Forbidden", "this Origin may not ask here: start the server with it as allowed")

    def _is_ours(self, name: str) -> bool:
        if name in {"localhost", self._settings.host.lower(), *map(str.lower, self._settings.allowed_hosts)}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True  # a page of another server has a name, or that server's address


def access_in(scope: Scope) -> Access:
    """What the sender of a request that has passed may do."""
    access: Access = scope["state"]["access"]
    return access


def _put(scope: Scope, access: Access) -> None:
    scope["state"] = {**scope.get("state", {}), "access": access}


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _log(error: Exception) -> None:
    """Where it happened, and not what was said: messages of errors may quote a memory."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-5:]))
    _logger.error("a request failed: %s at %s", type(error).__name__, where)
