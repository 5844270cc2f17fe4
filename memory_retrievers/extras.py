"""Optional dependencies: names that load when first used, and a clear word when what they need is not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

from memory_retrievers.errors import MissingExtraError


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional dependency and how to get it.

    Attributes:
        package: What to install, for example ``langchain-core``.
        module: What is imported of it, for example ``langchain_core``.
        name: The extra of ``memory-retrievers`` that installs it.
    """

    package: str
    module: str
    name: str


@contextmanager
def required(*extras: Extra) -> Iterator[None]:
    """Around an import that needs optional dependencies.

    Raises:
        MissingExtraError: One of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = next((extra for extra in extras if extra.module == (error.name or "").partition(".")[0]), None)
        if missing is None:
            raise
        raise MissingExtraError(missing.package, extra=missing.name) from error


def lazy_names(package: str, homes: Mapping[str, str], *extras: Extra) -> Callable[[str], object]:
    """A module's ``__getattr__`` that imports each name from its home when it is first asked for.

    Args:
        package: The module it is for: its ``__name__``.
        homes: Name → the full name of the module that defines it.
        extras: What those modules need.

    Returns:
        A function that raises MissingExtraError where one of ``extras`` is not installed, and AttributeError for other
        names.
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with required(*extras):
            return getattr(import_module(homes[name]), name)

    return load
