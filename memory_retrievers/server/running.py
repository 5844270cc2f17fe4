"""Running: listens, serves until it is told to end, finishes what is under way and closes the store."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.server.http import create_app
from memory_retrievers.server.settings import ServerSettings


def serve(
    memory: AgentMemory, *, settings: ServerSettings | None = None, announce: Callable[[str], None] | None = None
) -> None:
    """Serve a memory until SIGTERM or Ctrl-C, then close it.

    Args:
        memory: What to serve; it is closed in any case.
        settings: Where, to whom and how much.
        announce: Told the address once it is listened at.

    Raises:
        ConfigurationError: The address cannot be had, or other machines could reach it without a token.
    """
    chosen = settings or ServerSettings()
    with memory:
        app = create_app(memory, settings=chosen)
        with _listening(chosen) as listener, _ended_by_signals():
            if announce is not None:
                announce(_address(chosen.host, listener))
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # anybody could say to come from anywhere
                timeout_graceful_shutdown=chosen.shutdown_seconds,
                lifespan="on",
            )
            uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _listening(settings: ServerSettings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"{settings.host} port {settings.port} cannot be listened at: {error.strerror or error}"
        ) from error
    with listener:
        yield listener


@contextmanager
def _ended_by_signals() -> Iterator[None]:
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


def _address(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
