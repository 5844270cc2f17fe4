"""Find the embedder that a caller names by its Python path."""

from __future__ import annotations

import functools
import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from memory_retrievers.errors import ConfigurationError

if TYPE_CHECKING:
    from memory_retrievers.embeddings.adapt import AnyEmbedder


def embedder_at(path: str | None) -> AnyEmbedder | None:
    """The embedder at ``MODULE:NAME``; None for None, which is the bundled one.

    A class, or a function that can be called without arguments, is called to make the embedder. Modules are also
    looked for in the working directory, as ``python -m`` does.

    Raises:
        ConfigurationError: There is no such module or name, or making the embedder failed.
    """
    if path is None:
        return None
    module, separator, name = path.partition(":")
    if not (module and separator and name):
        raise ConfigurationError(f"--embedder is MODULE:NAME, for example my_models:embedder, not {path!r}")
    found = _attribute(_imported(module, path), name, path)
    if not _makes_an_embedder(found):
        return cast("AnyEmbedder", found)  # whatever it is: the store refuses what embeds in no known way
    try:
        return cast("AnyEmbedder", found())  # type: ignore[operator]  # it can be called without arguments
    except Exception as error:
        raise ConfigurationError(f"--embedder {path}: making it failed: {type(error).__name__}: {error}") from error


def _imported(module: str, path: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except Exception as error:  # what a module does when it is imported is its own affair
        raise ConfigurationError(
            f"--embedder {path}: the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _attribute(module: ModuleType, name: str, path: str) -> object:
    try:
        return functools.reduce(getattr, name.split("."), cast("object", module))
    except AttributeError as error:
        raise ConfigurationError(f"--embedder {path}: the module {module.__name__!r} has no name {name!r}") from error


def _makes_an_embedder(found: object) -> bool:
    """Whether it is no embedder yet: a class, or a function that asks for no texts."""
    if isinstance(found, type):
        return True
    if not inspect.isroutine(found):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):  # it needs the texts, or does not tell what it needs
        return False
    return True
