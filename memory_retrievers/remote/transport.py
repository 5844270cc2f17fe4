"""How a server is asked: one connection pool, bounded waiting, and retries that a server does not do twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Final

import httpx
import uuid_utils

from memory_retrievers.errors import BackendError, ConfigurationError, ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.remote.failures import failure_of

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds to connect, to send, and between two pieces of an answer."""

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

_PREFIX: Final = "/api/v0"
_PASSING: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request may succeed."""

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0


class Transport:
    """Asks a server, and asks again where that is safe.

    Every request carries an idempotency key of its own, the same in each attempt, unless it only reads: a server that
    has done the work already gives the answer it gave then. It knows the keys as long as it lives: one that is killed
    after the work and before the answer, and started again between two attempts, does it again.

    Args:
        url: Where the server is, for example ``http://127.0.0.1:8000``; a path in it stands before ``/api/v0``.
        token: The bearer token; None sends none.
        timeout: Seconds to connect, to send, and between two pieces of an answer.
        retries: How often a request is tried again at most.
        sleep: Waits between attempts.
        client: What sends; None makes one, which :meth:`close` closes.

    Raises:
        ConfigurationError: The URL is not one, or a number is not positive.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = 3,
        sleep: Callable[[float], None] = time.sleep,
        client: httpx.Client | None = None,
    ) -> None:
        if not _is_address(url):
            raise ConfigurationError(
                f"{url!r} is no address of a server: it begins with http:// or https://, as http://127.0.0.1:8000"
            )
        if not timeout > 0 or retries < 0:  # a NaN is not more than 0 either
            raise ConfigurationError("timeout must be more than 0 seconds, and retries 0 or more")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigurationError("a token is printable ASCII")
        self.url = url.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._retries = retries
        self._sleep = sleep
        self._client = client or httpx.Client()

    def close(self) -> None:
        """Let go of the connections; a second call does nothing."""
        self._client.close()

    def read(self, path: str, body: JsonObject, *, parameters: Mapping[str, str] | None = None) -> JsonObject:
        """Ask for something that changes nothing that matters if it is done twice.

        Raises:
            MemoryRetrieversError: The server's error, or BackendError if there is no answer.
        """
        return self._send(path, body, parameters=parameters or {}, headers={}, timeout=self._timeout)

    def write(
        self,
        path: str,
        body: JsonObject,
        *,
        parameters: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> JsonObject:
        """Ask for a change, under a new idempotency key; ``timeout`` stands in for the usual one.

        Raises:
            MemoryRetrieversError: The server's error, or BackendError if there is no answer.
        """
        return self._send(
            path,
            body,
            parameters=parameters or {},
            headers={IDEMPOTENCY_KEY: str(uuid_utils.uuid7())},
            timeout=timeout or self._timeout,
        )

    def _send(
        self, path: str, body: JsonObject, *, parameters: Mapping[str, str], headers: Mapping[str, str], timeout: float
    ) -> JsonObject:
        if self._client.is_closed:
            raise ConfigurationError("this connection to a memory server has been closed: make a new one")
        content = _encoded(body)
        sent_along = {**self._headers, **headers, "Content-Type": "application/json", "Accept": "application/json"}
        attempt = 0
        while True:
            last = attempt >= self._retries
            try:
                answer = self._client.post(
                    f"{self.url}{_PREFIX}{path}",
                    content=content,
                    params=dict(parameters),
                    headers=sent_along,
                    timeout=timeout,
                )
            except httpx.HTTPError as error:
                if last or not isinstance(error, httpx.TransportError):
                    raise BackendError(f"the memory server at {self.url} does not answer: {_kind(error)}") from error
                asked_to_wait = 0.0
            else:
                if answer.is_success:
                    return self._decoded(answer)
                if last or not _is_passing(answer, has_key=IDEMPOTENCY_KEY in headers):
                    raise failure_of(answer)
                asked_to_wait = _retry_after(answer)
            self._sleep(min(_LONGEST_PAUSE, max(asked_to_wait, _FIRST_PAUSE * 2**attempt)))
            attempt += 1

    def _decoded(self, answer: httpx.Response) -> JsonObject:
        try:
            decoded = answer.json()
        except ValueError as error:
            raise BackendError(f"what answers at {self.url} is no memory server: it did not send JSON") from error
        if not isinstance(decoded, dict):
            raise BackendError(f"what answers at {self.url} is no memory server: it did not send a JSON object")
        return decoded


def _is_address(url: str) -> bool:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return address.scheme in {"http", "https"} and bool(address.host)


def _encoded(body: JsonObject) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()  # escapes whatever is not ASCII, lone surrogates too
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"this cannot be sent as JSON: {error}") from error


def _kind(error: httpx.HTTPError) -> str:
    return "timed out" if isinstance(error, httpx.TimeoutException) else type(error).__name__


def _is_passing(answer: httpx.Response, *, has_key: bool) -> bool:
    """Whether to try again: the server is busy, or still at the same request of an earlier attempt."""
    under_way = answer.status_code == httpx.codes.CONFLICT and "retry-after" in answer.headers
    return answer.status_code in _PASSING or (has_key and under_way)


def _retry_after(answer: httpx.Response) -> float:
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isdecimal() else 0.0
