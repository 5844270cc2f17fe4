"""Settings of the servers: addresses, limits on connections, bodies and rates, and tokens with their permissions."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.settings import Checked

if TYPE_CHECKING:
    from starlette.types import Scope

    from memory_retrievers.server.responses import HTTPError


EVERYTHING: Final = "*"  # the root of a token that reaches every scope, and may read the metrics
MIN_SECRET_LENGTH: Final = 16


class Right(StrEnum):
    """Permission of a token."""

    READ = "read"
    READ_WRITE = "read-write"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A bearer token: its secret, its permission, and the scope it is bound to.

    Attributes:
        secret: At least 16 printable ASCII characters without a space.
        right: Reading records nothing: no review is filed, and no access is counted.
        root: The scope it cannot leave; ``*`` is no bound.

    Raises:
        ConfigurationError: The secret is too short or not printable ASCII, or the root is malformed.
    """

    secret: str = field(repr=False)
    right: Right = Right.READ_WRITE
    root: str = EVERYTHING

    def __post_init__(self) -> None:
        ascii_only = self.secret.isascii() and self.secret.isprintable() and " " not in self.secret
        if not ascii_only or len(self.secret) < MIN_SECRET_LENGTH:
            raise ConfigurationError(
                f"a token's secret is at least {MIN_SECRET_LENGTH} printable ASCII characters without a space"
            )
        try:
            _ = self.root == EVERYTHING or scopes.parse(self.root)
        except ValidationError as error:
            raise ConfigurationError(f"the root of a token: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Permissions of the sender of a request."""

    name: str  # distinguishes senders without revealing their secrets
    root: str | None = None  # the scope that no request can leave; None is no bound
    writes: bool = True  # whether it may change and record anything

    def scope(self, conversation_id: str, *, writes: bool = False) -> str:
        """Check the scope that a request names, and return it.

        Raises:
            ValidationError: The scope is malformed.
            HTTPError: The scope is outside the root, whether or not it exists; or the sender may only read.
        """
        scope = scopes.parse(conversation_id)
        if self.root is not None and not scopes.is_within(self.root, scope):
            raise _forbidden("this token does not reach that conversation_id")
        if writes:
            self.require_writing()
        return scope

    def require_writing(self) -> None:
        """Refuse a sender that may only read."""
        if not self.writes:
            raise _forbidden("this token may only read")

    def require_everything(self) -> None:
        """Refuse a sender whose token is bound to a root."""
        if self.root is not None:
            raise _forbidden(f"only a token whose root is {EVERYTHING} may see this")


def _forbidden(why: str) -> HTTPError:
    from memory_retrievers.server.responses import HTTPError  # here, so that tokens and addresses need no extra

    return HTTPError(403, "Forbidden", why)


OPEN: Final = Access(name="anyone")
"""Permissions of every sender where no tokens are required."""


def access_in(scope: Scope) -> Access:
    """Return the permissions of the sender of an authenticated request."""
    access: Access = scope["state"]["access"]
    return access


def put_access(scope: Scope, access: Access) -> None:
    """Store the permissions of the sender in the ASGI scope of a request."""
    scope["state"] = {**scope.get("state", {}), "access": access}


class TokenAuth:
    """Identifies the sender of a request by the ``Authorization`` header; without any tokens, everybody is let in."""

    def __init__(self, tokens: Sequence[AccessToken]) -> None:
        self._known = [
            (
                digest := _digest(token.secret.encode("ascii")),
                Access(
                    name=digest.hex(),
                    root=None if token.root == EVERYTHING else token.root,
                    writes=token.right is Right.READ_WRITE,
                ),
            )
            for token in tokens
        ]

    def admit(self, authorization: bytes) -> Access | None:
        """Return the permissions of the sender, or None if refused; secrets are compared in constant time."""
        if not self._known:
            return OPEN
        scheme, _, secret = authorization.partition(b" ")
        shown = _digest(secret.strip())
        found = None
        for digest, access in self._known:  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, shown):
                found = access
        return found if scheme.lower() == b"bearer" else None


def parse_tokens(lines: Iterable[str], *, origin: str) -> tuple[AccessToken, ...]:
    """Parse tokens, one a line, such as ``5f0c…e1 read-write user/alice``; ``#`` begins a comment line.

    A root of ``*`` reaches everything. ``origin`` names their source, for error messages.

    Raises:
        ConfigurationError: A line is malformed, or two have the same secret; the message never contains a secret.
    """
    tokens: list[AccessToken] = []
    for number, line in enumerate(lines, start=1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        parts = text.split(maxsplit=2)
        if len(parts) != 3 or parts[1] not in set(Right):  # noqa: PLR2004 - the three named in the message
            raise ConfigurationError(f"{origin}, line {number}: write SECRET, then read or read-write, then the root")
        try:
            tokens.append(AccessToken(secret=parts[0], right=Right(parts[1]), root=parts[2]))
        except ConfigurationError as error:
            raise ConfigurationError(f"{origin}, line {number}: {error}") from error
    if len({token.secret for token in tokens}) < len(tokens):
        raise ConfigurationError(f"{origin}: two lines have the same secret; give each its own")
    return tuple(tokens)


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


class TrafficSettings(Checked):
    """Limits on connections and request bodies, over all senders.

    Attributes:
        max_connections: Maximum number of open connections. A further one replaces the connection that has been idle
            longest, or else the one whose response has waited longest to be read; if there is none, it is refused. Each
            takes a file handle, and most systems give a process 1,024.
        header_seconds: Seconds in which the headers of a request must arrive.
        keep_alive_seconds: Seconds for which a connection is kept open for a further request. Clients should keep an
            idle one for less: a request that meets its end is lost. httpx keeps it for 5 s, aiohttp for 15.
        max_body_bytes: Maximum size of a body.
        body_seconds: Seconds in which a body must arrive, and for which a response may wait to be taken.
        max_bodies_bytes: Maximum total size of bodies above 64 KB that are in memory at once; a single one is always
            accepted. Parsing takes several times the size of a body, so this bounds the growth of the process.
        max_json_depth: Maximum nesting of objects and lists in a body.
        max_json_elements: Maximum number of values, objects and lists in a body. Each takes 50 to 200 bytes of memory.
    """

    max_connections: Annotated[int, Field(ge=1)] = 512
    header_seconds: Annotated[float, Field(gt=0)] = 10
    keep_alive_seconds: Annotated[int, Field(ge=1)] = 20
    max_body_bytes: Annotated[int, Field(ge=1)] = 8_000_000
    body_seconds: Annotated[float, Field(gt=0)] = 30
    max_bodies_bytes: Annotated[int, Field(ge=1)] = 8_000_000
    max_json_depth: Annotated[int, Field(ge=1, le=200)] = 64
    max_json_elements: Annotated[int, Field(ge=1)] = 50_000


class McpSettings(TrafficSettings):
    """Limits on clients of MCP over HTTP.

    Attributes:
        max_sessions: Maximum number of sessions. A further one replaces the least recently used one; if all have a
            running request, it is refused (503). Each takes some 100 KB.
        session_seconds: Seconds after which a session without a running request ends; its client begins a new one.
    """

    max_sessions: Annotated[int, Field(ge=1)] = 128
    session_seconds: Annotated[float, Field(gt=0)] = 1_800


class ServerSettings(TrafficSettings):
    """Settings of the HTTP server.

    Attributes:
        host: The address to listen at.
        port: The port; 0 is any that is free.
        tokens: The tokens that are accepted. Without any, every program on this machine is served, and the server
            listens to this machine only.
        allowed_hosts: Names in ``Host`` that are this server's, beside ``localhost``, ``host`` and addresses in
            figures, which no foreign page can put there.
        allowed_origins: Web pages that may ask, for example ``https://app.example.com``, beside this server's own.
        requests_per_minute: Maximum rate for each token, or for each address without tokens; None sets no limit.
        burst: Number of requests that may come at once.
        allow_scopes: Whether tools take arguments that name scopes within the conversation.
        worker: Whether to turn messages into memories in the background.
        shutdown_seconds: Seconds that the server waits for running requests when it ends; a write is finished in any
            case.
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
        """Refuse to serve other machines without a token, and refuse malformed origins.

        Raises:
            ConfigurationError: The address is no loopback address and there are no tokens, or an origin is malformed.
        """
        for each in self.allowed_origins:
            if not re.fullmatch(r"[a-z][a-z\d+.-]*://[^/?#*\sA-Z]+", each):
                raise ConfigurationError(f"{each} is not an origin: write it like https://app.example.com")
        if not self.tokens and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached from other machines: give tokens, or listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
