"""Every error the package raises, in one tree.

::

    MemoryRetrieversError
    ├── ConfigurationError (ValueError)    the objects or settings given do not fit together
    ├── ValidationError (ValueError)       an argument or a record breaks a rule; nothing was changed
    ├── NotFoundError (LookupError)        no such memory in this scope
    ├── BatchOperationError                a batch failed as a whole; everything was rolled back
    ├── MissingExtraError (ImportError)    an optional dependency is not installed
    ├── StoreLockedError                   the store cannot be written from here, or not now
    ├── EmbeddingMismatchError             the embedder is not the one the store was filled with
    └── BackendError                       a third party failed underneath
        ├── DiskFullError                  there is no space left for what is written
        ├── IndexOutOfStepError            an index does not match the records
        ├── EmbeddingError                 an embedder failed or gave unusable vectors
        └── LanguageModelError             a language model failed or gave an unusable answer

Exceptions of third parties are wrapped once, where they arise, with ``from``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any, Final, Self

import pydantic
from pydantic_core import ErrorDetails

__all__ = [
    "BackendError",
    "BatchOperationError",
    "ConfigurationError",
    "DiskFullError",
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

_MOST_CHARACTERS: Final = 2_000  # of a message
_AT_THE_END: Final = 500  # how many of a longer one are its end, where it says what to do


def _shortened(message: str) -> str:
    if len(message) <= _MOST_CHARACTERS:
        return message
    return f"{message[: _MOST_CHARACTERS - 3 - _AT_THE_END]} … {message[-_AT_THE_END:]}"


class MemoryRetrieversError(Exception):
    """Base class of all exceptions this package raises.

    Args:
        *args: The message; the middle of a long one, which quotes what was given, is left out.

    Attributes:
        details: What a program may want to know beyond the message, as JSON; the tools show it to a model.
    """

    def __init__(self, *args: object, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(*(_shortened(each) if isinstance(each, str) else each for each in args))
        self.details = details


class ConfigurationError(MemoryRetrieversError, ValueError):
    """The objects or settings given do not fit together."""


class ValidationError(MemoryRetrieversError, ValueError):
    """An argument or a record breaks a rule; nothing was changed."""

    @classmethod
    def from_pydantic(cls, error: pydantic.ValidationError, *, within: str | None = None) -> Self:
        """Convert an error of pydantic to one line: each field with its problem, never the value.

        The message of one of our own errors stands as it is. ``within`` is the argument that was checked, if it was
        checked alone: the path of every field begins with it.
        """
        complaints = error.errors(include_url=False)
        if within is not None:
            for complaint in complaints:
                complaint["loc"] = (within, *complaint["loc"])
        return cls.of_complaints(complaints)

    @classmethod
    def of_complaints(cls, complaints: Iterable[ErrorDetails], *, without: str | None = None) -> Self:
        """Convert errors in pydantic's form as :meth:`from_pydantic` does; paths leave out ``without`` at the front."""
        return cls("; ".join(_complaint(complaint, without) for complaint in complaints))


class NotFoundError(MemoryRetrieversError, LookupError):
    """The scope has no such memory, whatever other scopes contain."""


class BatchOperationError(MemoryRetrieversError):
    """A batch failed as a whole; everything in it was rolled back."""


class MissingExtraError(MemoryRetrieversError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: The package that could not be imported.
        extra: The extra of ``memory-retrievers`` that installs it.
        found: The file that was imported in its place, or of a version of it that is too old; None if there is none.
    """

    def __init__(self, package: str, *, extra: str, found: str | None = None) -> None:
        wrong = f"was imported from {found}, which lacks a part: if that file is yours, rename it; if not,"
        problem = wrong if found else "is not installed;"
        super().__init__(f'{package} {problem} run: pip install "memory-retrievers[{extra}]"')


class StoreLockedError(MemoryRetrieversError):
    """The store cannot be written from here, or not now; the message names what is in the way, and what to do."""


class EmbeddingMismatchError(MemoryRetrieversError):
    """The embedder is not the one the store was filled with; mixing vectors of two models finds nothing."""


class BackendError(MemoryRetrieversError):
    """A third-party library or service failed.

    Attributes:
        tells_of_store: False where a server could not be asked, or not to the end, which says nothing of what it keeps.
    """

    tells_of_store = True


class DiskFullError(BackendError):
    """There is no space left where the store is; what was to be written was not, and what is there can be read."""


class IndexOutOfStepError(BackendError):
    """An index does not match the records."""


class EmbeddingError(BackendError):
    """An embedder failed, or gave vectors that cannot be used."""


class ZeroVectorError(EmbeddingError):
    """An embedder gave a vector that points nowhere."""


class LanguageModelError(BackendError):
    """A language model failed, or gave an answer that cannot be used. The message has no word of it.

    Attributes:
        raw: The unusable answer, if there was one. It may quote memories, so it is meant for debugging and is never
            logged.
    """

    def __init__(self, message: str, *, raw: str | None = None) -> None:
        super().__init__(message)
        self.raw = raw


_SEGMENTS: Final = 12  # that are shown of the path of a field: one that is nested too deep has hundreds


def _complaint(complaint: ErrorDetails, without: str | None) -> str:
    cause = complaint.get("ctx", {}).get("error")
    if isinstance(cause, MemoryRetrieversError):
        return str(cause)
    place = complaint["loc"][1:] if complaint["loc"][:1] == (without,) else complaint["loc"]
    if without is not None and complaint["type"] == "json_invalid":  # the place is one in the text
        return f"the {without} is not JSON, at character {place[0] if place else 0}: {cause}"
    if not place and complaint["type"] in {"missing", "model_attributes_type"}:
        return f"the {without} must be a JSON object"
    shown = place if len(place) <= _SEGMENTS else (*place[:_SEGMENTS], "…")
    field = ".".join(map(str, shown))
    problem = complaint["msg"].removeprefix("Value error, ").replace("a valid tuple", "a valid list")
    if complaint["type"] == "invalid-json-value":
        kind = type(complaint["input"]).__name__
        problem = f"{kind} is not JSON: give a date as its isoformat(), a set as a list, a numpy value as its tolist()"
    if complaint["type"].startswith("datetime_"):
        problem += ": give ISO 8601, such as 2026-03-01T09:00:00Z"
    return f"{field}: {problem}" if field else problem


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional dependency and how to install it."""

    package: str  # what to install, for example ``langchain-core``
    module: str  # what is imported of it, for example ``langchain_core``
    name: str  # the extra of ``memory-retrievers`` that installs it


@contextmanager
def required(*extras: Extra) -> Iterator[None]:
    """Raise :class:`MissingExtraError` for an import of optional dependencies that fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = next((extra for extra in extras if extra.module == (error.name or "").partition(".")[0]), None)
        if missing is None:
            raise
        found = getattr(sys.modules.get(missing.module), "__file__", None)
        raise MissingExtraError(missing.package, extra=missing.name, found=found) from error


def lazy_names(package: str, homes: Mapping[str, str], *extras: Extra) -> Callable[[str], object]:
    """Build the ``__getattr__`` of a module that imports each name when it is first used.

    It raises MissingExtraError if one of ``extras`` is not installed, and AttributeError for other names.

    Args:
        package: The module's ``__name__``.
        homes: Full name of the defining module by name.
        extras: What those modules need.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with required(*extras):
            return getattr(import_module(homes[name]), name)

    return load


def only_known(given: Iterable[str], options: Iterable[str], *, of: str | Callable[..., None]) -> None:
    """Raise TypeError for the first name that is no option of ``of``, with all that are and the arguments beside them.

    Args:
        given: The names that were given.
        options: Those that can be.
        of: Words for the options, or the ``__init__`` of a class that takes them after its arguments.
    """
    if unknown := sorted({*given} - {*options}):
        whose, known = of, sorted(options)
        if not isinstance(of, str):
            whose = f"the arguments of {of.__qualname__.removesuffix('.__init__')}"
            known = [*[*signature(of).parameters][1:-1], *known]
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; {whose} are {', '.join(known)}")


def error_object(exception: Exception, *, with_details: bool = False) -> dict[str, Any]:
    """Describe a failure as the tools and the server answer it (specification §1.6), with its details if asked.

    >>> error_object(NotFoundError("Memory not found: m9"))
    {'error': True, 'error_type': 'NotFoundError', 'message': 'Memory not found: m9'}
    """
    answer: dict[str, Any] = {"error": True, "error_type": type(exception).__name__, "message": str(exception)}
    details = exception.details if isinstance(exception, MemoryRetrieversError) else None
    return answer | {"details": dict(details)} if with_details and details else answer
