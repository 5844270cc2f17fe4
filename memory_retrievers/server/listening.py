"""Listening at an address, and ending by a signal only when all is done; for the HTTP and for the MCP server."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memory_retrievers.errors import ConfigurationError


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
def ended_by_signals() -> Iterator[None]:
    """A signal to end is sent once more when the server has ended for it; by then it has done its work."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
