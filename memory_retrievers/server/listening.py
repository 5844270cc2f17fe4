"""Listening at an address, and ending by a signal only when all is done; for the HTTP and for the MCP server."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memory_retrievers.errors import ConfigurationError

if TYPE_CHECKING:
    import uvicorn


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens; a port of 0 is any that is free.

    Raises:
        ConfigurationError: The address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(f"{host} port {port} cannot be listened at: {error.strerror or error}") from error
    with listener:
        yield listener


@contextmanager
def ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """A signal to end is heard also before the server listens to signals, and does no more when it has ended for it.

    The server sends every signal that it has ended for once more; by then it has done its work.
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
