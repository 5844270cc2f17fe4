"""Responses of the HTTP server: markdown, JSON and errors, with the status of each kind of error."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from memory_retrievers import errors
from memory_retrievers.models import JsonObject

_logger = logging.getLogger("memory_retrievers")

_STATUS: Final[Mapping[type[Exception], int]] = {
    errors.ValidationError: 422,
    errors.BatchOperationError: 422,
    errors.NotFoundError: 404,
    errors.ConfigurationError: 409,
    errors.StoreLockedError: 503,
    errors.LanguageModelError: 502,
    errors.EmbeddingError: 502,
    errors.EmbeddingMismatchError: 503,
    errors.BackendError: 503,
    errors.MissingExtraError: 501,
    NotImplementedError: 501,
    errors.MemoryRetrieversError: 500,
}

_MEANING: Final[Mapping[int, str]] = {
    400: "The request cannot be read.",
    401: "No token, or an unknown one.",
    403: "The token has no access to this, or the Host or Origin is not allowed.",
    404: "No such memory, tool or address.",
    405: "The route does not take this method.",
    408: "The body did not arrive in time.",
    409: "A request with this Idempotency-Key is under way, or this server is not set up for what was asked.",
    413: "The body is too large.",
    422: "The request is not valid; nothing was changed.",
    429: "Too many requests; Retry-After says when to try again.",
    500: "An internal error of this server.",
    501: "Not available here.",
    502: "A language model or an embedder failed.",
    503: "The store is locked or busy; Retry-After says when to try again.",
}


class ErrorObject(BaseModel):
    """Body of every error response."""

    error: Literal[True] = True
    error_type: str
    message: str
    success: bool | None = None
    details: dict[str, Any] | None = None


_SHAPE: Final = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorObject"}}}}
ERRORS: Final[dict[int | str, dict[str, Any]]] = {k: {"description": v, **_SHAPE} for k, v in _MEANING.items()}
"""Every status that is not a success, for OpenAPI."""


class HTTPError(Exception):
    """Error for a request that is refused before it reaches the memory."""

    def __init__(self, status: int, error_type: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """Return the response."""
        content = {"error": True, "error_type": self.error_type, "message": str(self)}
        return UTF8JSONResponse(content, status_code=self.status, headers=self.headers)


class UTF8JSONResponse(JSONResponse):
    """JSON in UTF-8 without escapes; lone surrogates become question marks."""

    def render(self, content: object) -> bytes:
        """Return the encoded body."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def markdown(text: str) -> Response:
    """Return markdown as a response; an empty block has an empty body."""
    return Response(text.encode("utf-8", "replace"), media_type="text/markdown; charset=utf-8")


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error of the package."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def failure(error: Exception, content: JsonObject | None = None) -> Response:
    """Convert an error of the package to a response."""
    if isinstance(error, HTTPError):
        return error.response()
    status = status_of(error)
    headers = {"Retry-After": "1"} if status == 503 else {}  # noqa: PLR2004 - as HTTP has it
    return UTF8JSONResponse(content or errors.error_object(error), status_code=status, headers=headers)


def log_place_of(error: Exception) -> None:
    """Log where an error happened without its message, which may quote a memory."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames[-5:]))
    _logger.error("a request failed: %s at %s", type(error).__name__, where)
