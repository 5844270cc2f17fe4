"""Shared options of a store: its embedder, language model and profile, and a file of settings."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

import pydantic
import typer
from pydantic import BaseModel

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings
from memory_retrievers.storage.options import StoreOptions

if TYPE_CHECKING:
    from memory_retrievers.backends.embeddings import AnyEmbedder
    from memory_retrievers.backends.language_models import AnyLanguageModel

KEY: Final = "MEMORY_RETRIEVERS_LANGUAGE_MODEL_KEY"
"""Environment variable with the key of a language model server: all users can see a command line."""

MAX_FILE_BYTES: Final = 1_000_000

PROFILES: Final[Mapping[str, Callable[[], RetrievalSettings]]] = {
    "default": RetrievalSettings,
    "light": RetrievalSettings.light,
    "reference": RetrievalSettings.reference,
}
"""Ranking profiles by their names on the command line."""

PROFILE_NAMES: Final = " or ".join(", ".join(PROFILES).rsplit(", ", 1))  # for help texts


def profile_named(name: str) -> RetrievalSettings:
    """Return the retrieval settings of a profile."""
    if name not in PROFILES:
        raise ValidationError(f"unknown profile {name!r}; one of: {', '.join(PROFILES)}")
    return PROFILES[name]()


RankingProfile: TypeAlias = Annotated[
    str, typer.Option("--profile", help=f"Ranking and ingestion: {PROFILE_NAMES} (as in the specification).")
]
SettingsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="MEMORY_RETRIEVERS_SETTINGS",
        metavar="FILE",
        help="TOML or JSON with tables retrieval, ingestion, review and tools, each with fields of its settings class; "
        "the profile sets the rest.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """Options for the embedder of a store; the default is the bundled model."""

    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            envvar="MEMORY_RETRIEVERS_EMBEDDER",
            metavar="MODULE:NAME",
            help="Embedder, or a class or function without arguments that makes one; the default is the bundled model.",
        ),
    ] = None
    embedder_id: Annotated[
        str | None,
        typer.Option(
            "--embedder-id",
            envvar="MEMORY_RETRIEVERS_EMBEDDER_ID",
            metavar="ID",
            help="Name by which the store knows the embedder, if it is not the embedder's own.",
        ),
    ] = None

    def load(self) -> AnyEmbedder | None:
        """Load the embedder; None is the bundled model."""
        return None if self.embedder is None else cast("AnyEmbedder", _made_at(self.embedder, option="--embedder"))

    def options(self) -> StoreOptions:
        """Return the options of a store that these are."""
        return {"embedder": self.load(), "embedder_id": self.embedder_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(EmbedderOptions):
    """Options for ingestion and retrieval; a file of settings takes precedence."""

    language_model: Annotated[
        str | None,
        typer.Option(
            "--language-model",
            envvar="MEMORY_RETRIEVERS_LANGUAGE_MODEL",
            metavar="URL#NAME|MODULE:NAME",
            help="Language model that makes episodes and facts: the address of an OpenAI-compatible server with the "
            f"model's name, such as http://127.0.0.1:11434/v1#llama3.2 ({KEY} holds its key), or an object of yours. "
            "Without one, rules make episodes.",
        ),
    ] = None
    profile: RankingProfile = "default"
    settings: SettingsFile = None

    def options(self) -> StoreOptions:
        """Return the options of a store that these are.

        Raises:
            ConfigurationError: The language model, the file or the embedder cannot be used.
            ValidationError: There is no such profile, or a setting breaks a rule.
        """
        chosen: dict[str, Any] = {
            "retrieval": profile_named(self.profile),
            "ingestion": IngestionSettings.reference() if self.profile == "reference" else IngestionSettings(),
            "review": ReviewSettings(),
            "tools": ToolSettings.from_environment(),
        }
        if self.settings is not None:
            chosen |= _changed_by(self.settings, chosen)
        chosen["language_model"] = _language_model_at(self.language_model)
        return cast("StoreOptions", chosen | EmbedderOptions.options(self))


BUNDLED: Final = EmbedderOptions()
DEFAULTS: Final = ModelOptions()


def _language_model_at(given: str | None) -> AnyLanguageModel | None:
    """The language model at ``URL#NAME`` or ``MODULE:NAME``; None for None, which is rules."""
    if given is None:
        return None
    if given.startswith(("http://", "https://")):
        from memory_retrievers.backends.language_models import openai_compatible

        address, _, name = given.partition("#")
        return openai_compatible(address, model=name, key=os.environ.get(KEY) or None)
    return cast("AnyLanguageModel", _made_at(given, option="--language-model"))


def _made_at(path: str, *, option: str) -> object:
    """Load the object at ``MODULE:NAME``, whatever it is: what is made of it refuses what it cannot use.

    A class, or a function that can be called without arguments, is called to make the object. Modules are also
    looked for in the working directory, as ``python -m`` does.
    """
    module, separator, name = path.partition(":")
    if not (module and separator and name):
        example = f"my_models:{option[2:].replace('-', '_')}"
        raise ConfigurationError(f"{option} is MODULE:NAME, for example {example}, not {path!r}")
    where = f"{option} {path}"
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        imported: object = import_module(module)
    except Exception as error:  # what a module does when it is imported is its own affair
        raise ConfigurationError(
            f"{where}: the module {module!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        found = functools.reduce(getattr, name.split("."), imported)
    except AttributeError as error:
        raise ConfigurationError(f"{where}: the module {module!r} has no name {name!r}") from error
    if not _makes_one(found):
        return found
    try:
        made: object = found()  # type: ignore[operator]  # it can be called without arguments
    except Exception as error:
        raise ConfigurationError(f"{where}: it failed when it was called: {type(error).__name__}: {error}") from error
    return made


def _makes_one(found: object) -> bool:
    """True for a class, or a function that takes no arguments: it has yet to make the object."""
    if isinstance(found, type):
        return True
    if not inspect.isroutine(found):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):  # it needs the texts, or does not tell what it needs
        return False
    return True


def json_object(option: str, written: str) -> JsonObject:
    """The JSON object that an option is given."""
    try:
        given = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{option} takes a JSON object: {error}") from error
    if not isinstance(given, dict):
        raise ValidationError(f"{option} takes a JSON object, not {type(given).__name__}")
    return given


PAIRS: Final = "KEY=VALUE|JSON"


def metadata_of(given: Sequence[str] | None) -> JsonObject:
    """Metadata written ``KEY=VALUE``, where a value that is no JSON is text, or as JSON objects; later ones win."""
    pairs: JsonObject = {}
    for pair in given or ():
        key, equals, written = pair.partition("=")
        if pair.lstrip()[:1] == "{":
            pairs |= json_object("--metadata", pair)
        elif not equals:
            raise ValidationError(f"--metadata takes a JSON object or KEY=VALUE, such as team=a, not {pair[:80]!r}")
        else:
            try:
                pairs[key] = json.loads(written)
            except (ValueError, RecursionError):
                pairs[key] = written
    return pairs


def _changed_by(file: Path, settings: Mapping[str, BaseModel]) -> dict[str, BaseModel]:
    """The settings of which a file has a table, by its name, with what the table has in place of their own."""
    try:
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{file} has {size} bytes: a file of settings has at most {MAX_FILE_BYTES}")
        text = file.read_text(encoding="utf-8")
        tables = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise ConfigurationError(f"the settings {file} cannot be read as {kind}: {error}") from error
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigurationError(f"{file} has settings outside a table: write [retrieval] above them")
    if unknown := sorted(tables.keys() - settings):
        raise ConfigurationError(f"{file} has an unknown table {unknown[0]!r}; one of: {', '.join(settings)}")
    changed: dict[str, BaseModel] = {}
    for table, given in tables.items():
        own = settings[table]
        try:
            changed[table] = type(own).model_validate(own.model_dump() | given)
        except pydantic.ValidationError as error:
            raise ValidationError(f"{file}, [{table}]: {ValidationError.from_pydantic(error)}") from error
    return changed
