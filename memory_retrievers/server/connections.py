"""Connections of a server: its listening socket, the signals that end it, and bounds on number and time of each.

uvicorn bounds neither: it waits for ever for the rest of a request's headers, for the rest of a body whose request is
answered already, and for a receiver that does not take its answer. It is also set to read with h11, which bounds the
size of headers, and to speak no web sockets, to which none of this would apply.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import ClassVar, Final

import h11
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server.settings import TrafficSettings


@contextmanager
def listening(host: str, port: int, *, announce: Callable[[str], None] | None = None) -> Iterator[socket.socket]:
    """Open a socket that listens, and close it at the end.

    Args:
        host: The address to listen at.
        port: The port; 0 is any that is free.
        announce: Called with the URL of the server when the socket listens.

    Raises:
        ConfigurationError: The address or the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    with listener:
        if announce is not None:
            announce(f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}")
        yield listener


@contextmanager
def ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """End the server on SIGTERM and SIGINT from here on, also before uvicorn installs its own handlers.

    uvicorn raises each signal again after it has shut down; that has no effect here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def configuration(app: ASGIApp, settings: TrafficSettings, *, shutdown_seconds: int) -> uvicorn.Config:
    """Return the uvicorn configuration of an application.

    Args:
        app: The application.
        settings: Limits on connections.
        shutdown_seconds: Seconds to wait for running requests at shutdown.
    """
    return uvicorn.Config(
        app,
        http=type("_Chosen", (_Bounded,), {"settings": settings}),
        ws="none",
        timeout_keep_alive=settings.keep_alive_seconds,
        log_level="warning",
        access_log=False,
        use_colors=False,  # uvicorn would ask standard output, which may be closed
        server_header=False,
        proxy_headers=False,  # anybody could say to come from anywhere
        timeout_graceful_shutdown=shutdown_seconds,
        lifespan="on",
    )


_CLOSE: Final = (b"connection", b"close")
_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})  # of a body: a request may have one of them


class _Bounded(H11Protocol):
    settings: ClassVar[TrafficSettings]

    waiting_since: float = 0

    _begun: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """True if no request is under way: none has come, or the last one is answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.app = self._closing(self.app)
        self.waiting_since = time.monotonic()  # the loop's own may count milliseconds, and two come in one
        if len(self.connections) > self.settings.max_connections and not self._make_room():
            self._refuse(503, b"too many connections: try again later")
            return
        self._begun = self.loop.call_later(self.settings.header_seconds, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Take what has come; what is not yet a request has to become one in time."""
        super().data_received(data)
        if not self.waits:
            self._stop_waiting()
        elif self._begun is None and not self.transport.is_closing():
            self._begun = self.loop.call_later(self.settings.header_seconds, self._too_slow)

    def on_response_complete(self) -> None:
        self.waiting_since = time.monotonic()
        super().on_response_complete()
        if isinstance(self.cycle.transport, _LeftOpen) and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._stop_waiting()
            _Drain(self).begin()

    def pause_writing(self) -> None:
        """Give a receiver that does not take its answer so long and no longer."""
        super().pause_writing()
        self._stop_stalling()
        self._stalled = self.loop.call_later(self.settings.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_stalling()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_stalling()
        super().connection_lost(exc)

    def _closing(self, app: ASGIApp) -> ASGIApp:
        """The application, whose answer says that nothing follows where it comes before the end of the body.

        The rest is dropped and the connection ended (:class:`_Drain`): a client that does not know would send its next
        request there, and lose it.
        """

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            # what is in front of the server may read the other one, and take what follows for another's (RFC 9112, 6.1)
            has_two_lengths = {name for name, _ in scope["headers"]} >= _LENGTHS

            async def noting_send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    goes_on = self.conn.their_state is h11.SEND_BODY
                    if goes_on or has_two_lengths:
                        message = {**message, "headers": [*message.get("headers", ()), _CLOSE]}
                    if goes_on:
                        self.cycle.transport = _LeftOpen(self.transport)
                await send(message)

            await app(scope, receive, noting_send)

        return answer

    def _stop_waiting(self) -> None:
        if self._begun is not None:
            self._begun.cancel()
            self._begun = None

    def _stop_stalling(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _make_room(self) -> bool:
        """End the connection that has waited longest for a request, or else for its answers to be taken; true if any.

        Who sends requests and takes no answer has one under way at any time, also without a token.
        """
        known = (each for each in self.connections if isinstance(each, _Bounded) and each is not self)
        others = [each for each in known if each.waits or each._stalled is not None]  # noqa: SLF001 - its own class
        if not others:
            return False
        longest = min(others, key=lambda each: (each._stalled is not None, each.waiting_since))  # noqa: SLF001
        self.connections.discard(longest)
        longest.transport.abort()
        return True

    def _too_slow(self) -> None:
        self._begun = None
        if self.cycle is None:
            self._refuse(408, b"the request did not arrive in time")
        else:  # an answer has gone out already: no second one may
            self.transport.abort()

    def _refuse(self, status: int, message: bytes) -> None:
        """Say why, and end; nothing is waited for."""
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        self.transport.write(f"{head}Content-Length: {len(message)}\r\n\r\n".encode("ascii") + message)
        self.transport.close()


class _LeftOpen(asyncio.Transport):
    """A connection that uvicorn would close at the end of an answer, with what is still being sent: it is drained."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Leave it open."""


class _Drain(asyncio.Protocol):
    """Drops the rest of a body whose request is answered already, unread, for a while.

    To close at once would take the answer from a sender that is still sending; to read the rest takes far more than to
    send it.
    """

    def __init__(self, connection: _Bounded) -> None:
        self._connection = connection
        self._dropped = 0

    def begin(self) -> None:
        """Take the place of what has read the connection."""
        transport, settings = self._connection.transport, self._connection.settings
        transport.set_protocol(self)
        if transport.can_write_eof():
            transport.write_eof()
        self._end = self._connection.loop.call_later(settings.keep_alive_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > self._connection.settings.max_body_bytes:
            self._connection.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        self._connection.connection_lost(exc)
