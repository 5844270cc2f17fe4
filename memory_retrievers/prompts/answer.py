"""What the answers of all prompts have in common: strict in what is asked for, lenient in what is taken."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from memory_retrievers.models import JsonObject
from memory_retrievers.text import one_line


def _ask_for_everything(schema: JsonObject) -> None:
    """Every property is required and no other allowed, which is what strict structured output accepts."""
    properties = schema.get("properties", {})
    for details in properties.values():
        details.pop("default", None)
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


class Answer(BaseModel):
    """The base of every answer a language model is asked for.

    The JSON schema that goes to the model requires every field and allows no other. What comes back may leave out
    whatever has a default, and bring more, which is ignored. Docstrings and descriptions of fields reach the model.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", json_schema_extra=_ask_for_everything)


def _on_one_line(value: object) -> object:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else value


OneLine = Annotated[str, BeforeValidator(_on_one_line)]
"""Text of a model on a single line, so that it cannot pose as structure; null is no text."""
