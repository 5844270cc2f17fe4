"""Requests to a server, retried where that is safe; failures become errors of the package."""

from __future__ import annotations

import json
import pickle
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NoReturn

import httpx
import uuid_utils

from memory_retrievers import errors
from memory_retrievers.backends.processes import per_process
from memory_retrievers.errors import (
    BackendError,
    ConfigurationError,
    MemoryRetrieversError,
    MissingExtraError,
    NotFoundError,
    ValidationError,
)
from memory_retrievers.models import JsonObject

_TOKEN: Final = re.compile(r"[!-~]+")
_LONGEST_WAIT: Final = 86_400  # seconds; what is much longer no clock of the system takes

_BY_NAME: Final[Mapping[str, type[MemoryRetrieversError]]] = {
    name: getattr(errors, name) for name in errors.__all__ if name != MissingExtraError.__name__
}
_BY_STATUS: Final[Mapping[int, type[MemoryRetrieversError]]] = {
    400: ValidationError,
    401: ConfigurationError,
    403: ConfigurationError,
    404: NotFoundError,
    413: ValidationError,
    422: ValidationError,
    501: ConfigurationError,
}
"""Errors by status, for an ``error_type`` that the package does not have; any other status is a BackendError."""


def failure_of(answer: httpx.Response) -> MemoryRetrieversError:
    """Return the error that a response reports, by its ``error_type`` or else by its status."""
    try:
        sent = answer.json()
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict) or sent.get("error") is not True:
        return BackendError(f"what answers there is not a memory server, perhaps a proxy: status {answer.status_code}")
    kind = _BY_NAME.get(str(sent.get("error_type"))) or _BY_STATUS.get(answer.status_code, BackendError)
    error = kind(str(sent.get("message", "")))
    details = sent.get("details")
    error.details = details if isinstance(details, dict) else None
    return error


DEFAULT_TIMEOUT: Final = 10.0  # seconds to connect, to send, and between two pieces of an answer

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

LARGEST_ANSWER: Final = 128 * 2**20  # bytes, unpacked

_PREFIX: Final = "/api/v0"
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "gzip"}
_ENCODINGS: Final = frozenset({"identity", "gzip"})  # of one layer, and a piece is not more than 1,000 times its bytes
_PASSING: Final = frozenset({408, 429, 502, 503, 504})  # statuses after which the same request may succeed

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_sleep = time.sleep  # between two attempts


class Transport:
    """Asks a server, and asks again where that is safe.

    Every request carries an idempotency key of its own, the same in each attempt, unless it only reads: a server that
    has done the work already gives the answer it gave then. Its store knows the keys for a day: a server that is killed
    after the work, and started again between two attempts, makes the answer of ``/remember`` anew, and says of any
    other request that it is done, which is a BackendError here.

    The arguments are those of ``RemoteMemory``; a path in the URL stands before ``/api/v0``, which it may end with.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT, retries: int = 3
    ) -> None:
        if not _is_address(url):
            shown = "this" if any(mark in str(url) for mark in "@?#") else repr(url)  # a secret may stand beside them
            raise ConfigurationError(
                f"{shown} is not the address of a server: write it like http://127.0.0.1:8000 or https://..., "
                "without a query"
            )
        if not is_seconds(timeout) or isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigurationError("timeout must be more than 0 seconds, a day at most, and retries 0 or more")
        if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            raise ConfigurationError("a token must be printable ASCII without a space; None sends none")
        address = httpx.URL(url)
        if token is not None and address.userinfo:
            raise ConfigurationError("give a token, or a name and a password in the address: they share one header")
        self.url = str(address.copy_with(userinfo=b"")).rstrip("/").removesuffix(_PREFIX)  # told, and logged by httpx
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._retries = retries
        auth = (address.username, address.password) if address.userinfo else None
        self._client = per_process(partial(httpx.Client, auth=auth))
        self._closed = False

    def __deepcopy__(self, _: object) -> Transport:
        """Return itself: a copy would use the same connections without knowing that they are closed."""
        return self

    def __reduce__(self) -> NoReturn:
        raise pickle.PicklingError("a RemoteMemory has a token and is not pickled: make one where you unpickle")

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        self._closed = True
        self._client().close()

    def ask(self, path: str, body: JsonObject, *, writes: bool = False, timeout: float | None = None) -> JsonObject:
        """Send a request and return the response.

        Args:
            path: The path below ``/api/v0``.
            body: The JSON object to send.
            writes: Whether the request changes anything; if so, it carries an idempotency key.
            timeout: Seconds to connect, to send, and between two chunks of a response; None takes the defaults.
        """
        if self._closed:
            raise ConfigurationError("this connection to a memory server has been closed: make a new one")
        content = _encoded(body)
        sent_along = {**self._headers, **_JSON}
        if writes:
            sent_along[IDEMPOTENCY_KEY] = str(uuid_utils.uuid7())
        address, wait, attempt = f"{self.url}{_PREFIX}{path}", timeout or self._timeout, 0
        while True:
            last, client = attempt >= self._retries, self._client()
            try:
                with client.stream("POST", address, content=content, headers=sent_along, timeout=wait) as begun:
                    answer = self._whole(begun)
            except httpx.HTTPError as error:
                if last or not isinstance(error, httpx.TransportError):
                    kind = "timed out" if isinstance(error, httpx.TimeoutException) else type(error).__name__
                    raise BackendError(f"the memory server at {self.url} does not answer: {kind}") from error
                asked_to_wait = 0.0
            else:
                if answer.is_success:
                    return self._decoded(answer)
                is_under_way = writes and answer.status_code == httpx.codes.CONFLICT and "retry-after" in answer.headers
                if last or not (is_under_way or answer.status_code in _PASSING):
                    raise failure_of(answer)
                given = answer.headers.get("retry-after", "")
                asked_to_wait = float(given) if given.isdecimal() else 0.0
            _sleep(min(_LONGEST_PAUSE, max(asked_to_wait, _FIRST_PAUSE * 2**attempt)))
            attempt += 1

    def _whole(self, begun: httpx.Response) -> httpx.Response:
        """The answer with its body, read no further than any that is awaited: packed, a gigabyte takes a megabyte."""
        if begun.headers.get("content-encoding", "identity").lower() not in _ENCODINGS:
            raise BackendError(f"what answers at {self.url} is not a memory server: its compression is not gzip")
        body = bytearray()
        for piece in begun.iter_bytes():
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise BackendError(
                    f"the memory server at {self.url} sends more than {LARGEST_ANSWER >> 20} MB in one answer, which "
                    "is not read further: ask for less at once, for example with limit"
                )
        passed_on = {name: value for name, value in begun.headers.items() if name == "retry-after"}
        return httpx.Response(begun.status_code, headers=passed_on, content=bytes(body))

    def _decoded(self, answer: httpx.Response) -> JsonObject:
        try:
            decoded = answer.json()
        except (ValueError, RecursionError) as error:
            raise BackendError(f"what answers at {self.url} is not a memory server: it did not send JSON") from error
        if not isinstance(decoded, dict):
            raise BackendError(f"what answers at {self.url} is not a memory server: it did not send a JSON object")
        return decoded


def is_seconds(value: object) -> bool:
    """Return True for a finite number of seconds above 0."""
    return isinstance(value, int | float) and 0 < value <= _LONGEST_WAIT  # a NaN is not more than 0 either


def _is_address(url: str) -> bool:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        return False
    is_whole = not (address.query or address.fragment or "@" in address.path)  # what is sent goes behind it
    return address.scheme in {"http", "https"} and bool(address.host) and is_whole


def _encoded(body: JsonObject) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()  # escapes whatever is not ASCII, lone surrogates too
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"this cannot be sent as JSON: {error}") from error


@contextmanager
def understood() -> Iterator[None]:
    """Raise BackendError for missing or malformed parts of a response."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackendError(
            "the server's answer cannot be read: it may have another version of memory-retrievers"
        ) from error
