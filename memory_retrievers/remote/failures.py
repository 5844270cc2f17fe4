"""A server's error object as the error it was on the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import httpx

from memory_retrievers import errors
from memory_retrievers.errors import (
    BackendError,
    ConfigurationError,
    MemoryRetrieversError,
    MissingExtraError,
    NotFoundError,
    ValidationError,
)

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
"""Where the server's own kind of error has no name here; everything else is a BackendError."""


def failure_of(answer: httpx.Response) -> MemoryRetrieversError:
    """The error that an answer tells of, by its ``error_type``, or else by its status."""
    try:
        told = answer.json()
    except ValueError:
        told = None
    if not isinstance(told, dict) or told.get("error") is not True:
        return BackendError(f"the memory server answered with status {answer.status_code} and no word of ours")
    kind = _BY_NAME.get(str(told.get("error_type"))) or _BY_STATUS.get(answer.status_code, BackendError)
    message = str(told.get("message", ""))
    error = kind(message)
    details = told.get("details")
    error.details = details if isinstance(details, dict) else None
    return error
