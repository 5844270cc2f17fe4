"""Settings of the servers: addresses, tokens, and limits on connections, bodies, sessions and rates."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server.access import AccessToken


class TrafficSettings(BaseModel):
    """Limits on the requests of all senders together, and on the time each may take.

    Attributes:
        max_connections: At most so many at once. One more takes the place of the one that has gone longest without a
            request under way; where all of them have one, it is refused. Each takes a file handle, and most systems
            give a process 1,024.
        header_seconds: How long the headers of a request may take to arrive, from the first byte to the last.
        keep_alive_seconds: How long a connection is kept for a next request.
        max_body_bytes: Larger bodies are refused.
        body_seconds: How long a body may take to arrive, and how long an answer may wait for its receiver.
        max_bodies_bytes: So much may be held at once of bodies above 64 KB; one alone is always taken. A body is held
            several times while it is read and understood, so this bounds what the process grows by.
        max_json_depth: Objects and lists within each other in a body.
        max_json_elements: Values, objects and lists in a body, together. Each takes 50 to 200 bytes when it is read,
            however short it is in the body.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_connections: Annotated[int, Field(ge=1)] = 512
    header_seconds: Annotated[float, Field(gt=0)] = 10
    keep_alive_seconds: Annotated[int, Field(ge=1)] = 5
    max_body_bytes: Annotated[int, Field(ge=1)] = 8_000_000
    body_seconds: Annotated[float, Field(gt=0)] = 30
    max_bodies_bytes: Annotated[int, Field(ge=1)] = 8_000_000
    max_json_depth: Annotated[int, Field(ge=1, le=200)] = 64
    max_json_elements: Annotated[int, Field(ge=1)] = 50_000


class McpSettings(TrafficSettings):
    """Limits on clients of MCP over HTTP.

    Attributes:
        max_sessions: At most so many at once. One more takes the place of the one that was used longest ago; where all
            of them have a request under way, it is refused (503). Each takes some 100 KB.
        session_seconds: A session without a request under way for so long is ended; its client begins a new one.
    """

    max_sessions: Annotated[int, Field(ge=1)] = 128
    session_seconds: Annotated[float, Field(gt=0)] = 1_800


class ServerSettings(TrafficSettings):
    """Settings of the HTTP server, which hold for every request.

    Attributes:
        host: The address to listen at.
        port: The port; 0 is any that is free.
        tokens: The tokens that are accepted. Without any, every program on this machine is served, and the server
            listens to this machine only.
        allowed_hosts: Names in ``Host`` that are this server's, beside ``localhost``, ``host`` and addresses in
            figures, which no foreign page can put there.
        allowed_origins: Web pages that may ask, for example ``https://app.example.com``, beside this server's own.
        requests_per_minute: Of each token, or of each address where there are no tokens; None is any number.
        burst: How many of them may come at once.
        allow_scopes: Whether tools take arguments that name scopes within the conversation.
        worker: Whether to turn messages into memories in the background.
        shutdown_seconds: How long requests that are under way may keep the server from ending; a write is finished
            in any case.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8_000
    tokens: tuple[AccessToken, ...] = Field(default=(), repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    requests_per_minute: Annotated[float, Field(gt=0)] | None = 6_000
    burst: Annotated[int, Field(ge=1)] = 200
    allow_scopes: bool = False
    worker: bool = True
    shutdown_seconds: Annotated[int, Field(ge=1)] = 30

    def require_safe_address(self) -> None:
        """Refuse to serve other machines without a token.

        Raises:
            ConfigurationError: The address is not this machine's own, and there are no tokens.
        """
        if not self.tokens and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached from other machines: give tokens, or listen at 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
