"""Options of a store that several commands take: its language model, its profile, and a file of settings."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, cast

import pydantic
import typer
from pydantic import BaseModel

from memory_retrievers.cli.stores import PROFILE_NAMES, made_at, profile_named
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings
from memory_retrievers.storage.options import StoreOptions

if TYPE_CHECKING:
    from memory_retrievers.backends.language_models import AnyLanguageModel

KEY: Final = "MEMORY_RETRIEVERS_LANGUAGE_MODEL_KEY"
"""The variable that holds the key of a language model on a server: a command line is seen by all users."""

MAX_FILE_BYTES: Final = 1_000_000

LanguageModelAt: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--language-model",
        envvar="MEMORY_RETRIEVERS_LANGUAGE_MODEL",
        metavar="URL#NAME|MODULE:NAME",
        help=f"What makes episodes and facts of messages: the address of an OpenAI-compatible server with the model's "
        f"name, as http://127.0.0.1:11434/v1#llama3.2 ({KEY} holds its key), or an object of yours. Rules if left out.",
    ),
]
RankingProfile: TypeAlias = Annotated[
    str,
    typer.Option("--profile", help=f"How to rank and what becomes an episode: {PROFILE_NAMES}, as specified."),
]
SettingsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        envvar="MEMORY_RETRIEVERS_SETTINGS",
        metavar="FILE",
        help="TOML or JSON with tables retrieval, ingestion, review and tools, each with fields of its settings class; "
        "what is left out is as the profile has it.",
    ),
]


def language_model_at(given: str | None) -> AnyLanguageModel | None:
    """The language model at ``URL#NAME`` or ``MODULE:NAME``; None for None, which is rules.

    Raises:
        ConfigurationError: There is none there, or making it failed.
    """
    if given is None:
        return None
    if given.startswith(("http://", "https://")):
        from memory_retrievers.backends.language_models.openai_compatible import openai_compatible

        address, _, name = given.partition("#")
        return openai_compatible(address, model=name, key=os.environ.get(KEY) or None)
    return cast("AnyLanguageModel", made_at(given, option="--language-model"))


def store_options(*, language_model: str | None, profile: str, settings: Path | None) -> StoreOptions:
    """The options of a store that these name.

    Args:
        language_model: As for :func:`language_model_at`.
        profile: Name of a profile of ranking; ``reference`` is that of ingestion too.
        settings: File of settings, which goes before the profile; None leaves it to that.

    Raises:
        ConfigurationError: The language model or the file cannot be used.
        ValidationError: There is no such profile, or a setting breaks a rule.
    """
    ranking = profile_named(profile)
    ingestion = IngestionSettings.reference() if profile == "reference" else IngestionSettings()
    tables = {} if settings is None else _tables(settings)
    return {
        "language_model": language_model_at(language_model),
        "retrieval": _with(ranking, tables, "retrieval", settings),
        "ingestion": _with(ingestion, tables, "ingestion", settings),
        "review": _with(ReviewSettings(), tables, "review", settings),
        "tools": _with(ToolSettings.from_environment(), tables, "tools", settings),
    }


def json_object(option: str, written: str) -> JsonObject:
    """The JSON object that an option is given.

    Raises:
        ValidationError: It is none.
    """
    try:
        given = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{option} takes a JSON object: {error}") from error
    if not isinstance(given, dict):
        raise ValidationError(f"{option} takes a JSON object, not {type(given).__name__}")
    return given


_TABLES: Final[Mapping[str, type[BaseModel]]] = {
    "retrieval": RetrievalSettings,
    "ingestion": IngestionSettings,
    "review": ReviewSettings,
    "tools": ToolSettings,
}


def _tables(file: Path) -> Mapping[str, Any]:
    try:
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise ConfigurationError(f"{file} has {size} bytes: a file of settings has at most {MAX_FILE_BYTES}")
        text = file.read_text(encoding="utf-8")
        tables = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        kind = "JSON" if file.suffix == ".json" else "TOML"
        raise ConfigurationError(f"the settings {file} cannot be read as {kind}: {error}") from error
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigurationError(f"{file} has settings that stand in no table: write [retrieval], and then them")
    if unknown := sorted(tables.keys() - _TABLES):
        raise ConfigurationError(f"{file} has a table {unknown[0]!r}; there are {', '.join(_TABLES)}")
    return tables


def _with(settings: Any, tables: Mapping[str, Any], table: str, file: Path | None) -> Any:  # noqa: ANN401 - of any kind
    """Settings with those of a table of the file in place of their own."""
    if not (given := tables.get(table)):
        return settings
    try:
        return type(settings).model_validate(settings.model_dump() | given)
    except pydantic.ValidationError as error:
        raise ValidationError(f"{file}, [{table}]: {ValidationError.from_pydantic(error)}") from error
