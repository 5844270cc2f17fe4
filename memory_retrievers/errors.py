"""Every error the package raises, in one tree.

::

    MemoryRetrieversError
    ├── ConfigurationError (ValueError)    the objects or settings given do not fit together
    ├── ValidationError (ValueError)       an argument or a record breaks a rule; nothing was changed
    ├── NotFoundError (LookupError)        no such memory in this scope
    ├── BatchOperationError                a batch failed as a whole; everything was rolled back
    ├── MissingExtraError (ImportError)    an optional dependency is not installed
    ├── StoreLockedError                   the store cannot be written from here, only looked into
    ├── EmbeddingMismatchError             the embedder is not the one the store was filled with
    └── BackendError                       a third party failed underneath
        ├── IndexOutOfStepError            an index does not match the records
        ├── EmbeddingError                 an embedder failed or gave unusable vectors
        └── LanguageModelError             a language model failed or gave an unusable answer

Exceptions of third parties are wrapped once, where they arise, with ``from``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import pydantic
from pydantic_core import ErrorDetails

__all__ = [
    "BackendError",
    "BatchOperationError",
    "ConfigurationError",
    "EmbeddingError",
    "EmbeddingMismatchError",
    "IndexOutOfStepError",
    "LanguageModelError",
    "MemoryRetrieversError",
    "MissingExtraError",
    "NotFoundError",
    "StoreLockedError",
    "ValidationError",
]


READ_ONLY: Final = "this memory was opened read-only: open it without read_only=True to change it"
"""What a store that is only looked into says to a change, on whichever backend."""


class MemoryRetrieversError(Exception):
    """The root: catch it to catch everything this package raises.

    Args:
        *args: The message.
        details: See below.

    Attributes:
        details: What a program may want to know beyond the message, as JSON; the tools show it to a model.
    """

    def __init__(self, *args: object, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(*args)
        self.details = details


class ConfigurationError(MemoryRetrieversError, ValueError):
    """The objects or settings given do not fit together."""


class ValidationError(MemoryRetrieversError, ValueError):
    """An argument or a record breaks a rule; nothing was changed."""

    @classmethod
    def from_pydantic(cls, error: pydantic.ValidationError) -> Self:
        """The same complaint in one line: each field with what is wrong about it, never the value itself.

        What one of our own errors says is a whole sentence already, and stands as it is.
        """
        return cls.of_complaints(error.errors(include_url=False))

    @classmethod
    def of_complaints(cls, complaints: Iterable[ErrorDetails], *, without: str | None = None) -> Self:
        """The same of complaints in pydantic's form.

        Args:
            complaints: What is wrong.
            without: What the path of every field begins with, and is left out.
        """
        return cls("; ".join(_complaint(complaint, without) for complaint in complaints))


class NotFoundError(MemoryRetrieversError, LookupError):
    """No such memory in this scope; what other scopes hold makes no difference."""


class BatchOperationError(MemoryRetrieversError):
    """A batch failed as a whole; everything in it was rolled back."""


class MissingExtraError(MemoryRetrieversError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: The package that could not be imported.
        extra: The extra of ``memory-retrievers`` that installs it.
    """

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(f'{package} is not installed; run: pip install "memory-retrievers[{extra}]"')


class StoreLockedError(MemoryRetrieversError):
    """The store can only be looked into from here: another process writes it, or its server is a standby."""


class EmbeddingMismatchError(MemoryRetrieversError):
    """The embedder is not the one the store was filled with; mixing vectors of two models finds nothing."""


class BackendError(MemoryRetrieversError):
    """A third party failed underneath."""


class IndexOutOfStepError(BackendError):
    """An index does not match the records."""


class EmbeddingError(BackendError):
    """An embedder failed, or gave vectors that cannot be used."""


class LanguageModelError(BackendError):
    """A language model failed, or gave an answer that cannot be used.

    Args:
        message: What went wrong, without a word of the answer.
        raw: See below.

    Attributes:
        raw: What the model said, if it said something that cannot be used. It may tell what is in memories, so it is
            for whoever looks into the failure, and is never logged.
    """

    def __init__(self, message: str, *, raw: str | None = None) -> None:
        super().__init__(message)
        self.raw = raw


def _complaint(complaint: ErrorDetails, without: str | None) -> str:
    cause = complaint.get("ctx", {}).get("error")
    if isinstance(cause, MemoryRetrieversError):
        return str(cause)
    place = complaint["loc"][1:] if complaint["loc"][:1] == (without,) else complaint["loc"]
    field = ".".join(map(str, place))
    problem = complaint["msg"].removeprefix("Value error, ")
    return f"{field}: {problem}" if field else problem
