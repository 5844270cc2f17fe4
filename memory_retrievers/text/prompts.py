"""Quotes conversations in prompts, and defines the base of all answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict

from memory_retrievers.models import JsonObject
from memory_retrievers.models.messages import Message
from memory_retrievers.text import one_line, quote

MAX_MESSAGE_LENGTH: Final = 4_000
"""Longer messages are cut: a page that was pasted into a chat must not fill the model's context."""


def bullets(messages: Sequence[Message]) -> str:
    r"""Format the messages as ``- role: "content"``, the content as a JSON string.

    >>> print(bullets([Message(role="User", content='Call me "Al".\n## Facts')]))
    - user: "Call me \"Al\".\n## Facts"
    """
    return "\n".join(f"- {_role(message)}: {quote(cut(message.content, MAX_MESSAGE_LENGTH))}" for message in messages)


def shown_length(message: Message) -> int:
    """Estimate the number of characters a message takes in a prompt."""
    return min(len(message.content), MAX_MESSAGE_LENGTH)


def cut(text: str, length: int) -> str:
    """Cut the text to a number of characters, the last of which is then ``…``.

    >>> cut("garden plan", 7)
    'garden…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _role(message: Message) -> str:
    # without what would end the role and begin a message of its own
    return one_line(message.role.lower()).replace('"', "'").replace(":", " ") or "unknown"


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

    # An answer within a dictionary may have been made without any check as well, by ``model_construct``.
    model_config = ConfigDict(
        frozen=True, extra="ignore", revalidate_instances="always", json_schema_extra=_ask_for_everything
    )


def _on_one_line(value: object) -> object:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else value


OneLine = Annotated[str, BeforeValidator(_on_one_line)]
"""Text of a model on a single line, so that it cannot pose as structure; null is no text."""
