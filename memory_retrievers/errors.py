"""Every error the package raises, in one tree.

::

    MemoryRetrieversError
    ├── ConfigurationError (ValueError)    the objects or settings given do not fit together
    ├── ValidationError (ValueError)       an argument or a record breaks a rule; nothing was changed
    ├── NotFoundError (LookupError)        no such memory in this scope
    ├── BatchOperationError                a batch failed as a whole; everything was rolled back
    ├── MissingExtraError (ImportError)    an optional dependency is not installed
    ├── StoreLockedError                   another process writes this store
    ├── EmbeddingMismatchError             the embedder is not the one the store was filled with
    └── BackendError                       a third party failed underneath
        ├── IndexOutOfStepError            an index does not match the records
        ├── EmbeddingError                 an embedder failed or gave unusable vectors
        └── LanguageModelError             a language model failed or gave an unusable answer

Exceptions of third parties are wrapped once, where they arise, with ``from``.
"""

from __future__ import annotations

from typing import Self

import pydantic

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


class MemoryRetrieversError(Exception):
    """The root: catch it to catch everything this package raises."""


class ConfigurationError(MemoryRetrieversError, ValueError):
    """The objects or settings given do not fit together."""


class ValidationError(MemoryRetrieversError, ValueError):
    """An argument or a record breaks a rule; nothing was changed."""

    @classmethod
    def from_pydantic(cls, error: pydantic.ValidationError) -> Self:
        """The same complaint in one line: each field with what is wrong about it, never the value itself."""
        return cls("; ".join(_complaint(details["loc"], details["msg"]) for details in error.errors(include_url=False)))


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
    """Another process writes this store."""


class EmbeddingMismatchError(MemoryRetrieversError):
    """The embedder is not the one the store was filled with; mixing vectors of two models finds nothing."""


class BackendError(MemoryRetrieversError):
    """A third party failed underneath."""


class IndexOutOfStepError(BackendError):
    """An index does not match the records."""


class EmbeddingError(BackendError):
    """An embedder failed, or gave vectors that cannot be used."""


class LanguageModelError(BackendError):
    """A language model failed, or gave an answer that cannot be used."""


def _complaint(location: tuple[int | str, ...], message: str) -> str:
    field = ".".join(str(part) for part in location)
    problem = message.removeprefix("Value error, ")
    return f"{field}: {problem}" if field else problem
