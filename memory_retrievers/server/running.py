"""Running: listens, serves until it is told to end, finishes what is under way and closes the store."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from memory_retrievers.memory import AgentMemory
from memory_retrievers.server.http import create_app
from memory_retrievers.server.listening import ended_by_signals, listening
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
        config = uvicorn.Config(
            create_app(memory, settings=chosen),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody could say to come from anywhere
            timeout_graceful_shutdown=chosen.shutdown_seconds,
            lifespan="on",
        )
        server = uvicorn.Server(config)
        with listening(chosen.host, chosen.port) as listener, ended_by_signals(server):
            if announce is not None:
                announce(_address(chosen.host, listener))
            server.run(sockets=[listener])


def _address(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
