"""How a memory is served: where, to whom, and how much at once."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server.access import AccessToken


class ServerSettings(BaseModel):
    """What holds for every request.

    Attributes:
        host: The address to listen at.
        port: The port; 0 is any that is free.
        tokens: Who is let in. Without tokens everybody on this machine is, and only this machine is listened to.
        allowed_hosts: Names in ``Host`` that are this server's, beside ``localhost``, ``host`` and addresses in
            figures, which no foreign page can put there.
        allowed_origins: Web pages that may ask, for example ``https://app.example.com``, beside this server's own.
        max_body_bytes: Larger bodies are refused.
        body_seconds: How long a body may take to arrive.
        requests_per_minute: Of each token, or of each address where there are no tokens; None is any number.
        burst: How many of them may come at once.
        allow_scopes: Whether tools take arguments that name scopes within the conversation.
        worker: Whether to turn messages into memories in the background.
        shutdown_seconds: How long requests that are under way may keep the server from ending; a write is finished
            in any case.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8_000
    tokens: tuple[AccessToken, ...] = Field(default=(), repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: Annotated[int, Field(ge=1)] = 8_000_000
    body_seconds: Annotated[float, Field(gt=0)] = 30
    requests_per_minute: Annotated[float, Field(gt=0)] | None = 6_000
    burst: Annotated[int, Field(ge=1)] = 200
    allow_scopes: bool = False
    worker: bool = True
    shutdown_seconds: Annotated[int, Field(ge=1)] = 30

    def require_safe_address(self) -> None:
        """Refuse to let other machines in without a token.

        Raises:
            ConfigurationError: The address is not this machine's own, and there are no tokens.
        """
        if not self.tokens and not _is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached from other machines: give tokens, or listen at 127.0.0.1"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
