"""A language model behind an address that speaks OpenAI's chat completions, as most servers of local models do."""

from __future__ import annotations

from typing import Any, Final

import httpx
from pydantic import BaseModel

from memory_retrievers.backends.language_models.structured import (
    CheckedLanguageModel,
    UnusableAnswerError,
    in_plain_words,
)
from memory_retrievers.errors import ConfigurationError

TIMEOUT: Final = 300.0
"""Seconds to wait for an answer: a small machine takes minutes for a long conversation."""

_NO_SCHEMA: Final = frozenset({400, 404, 422, 501})
"""Statuses with which a server refuses ``response_format``."""


class _ChatCompletions:
    """The two ways to ask; both are an ``structured.Ask``."""

    def __init__(self, address: str, *, model: str, key: str | None) -> None:
        self._url = f"{address.rstrip('/')}/chat/completions"
        self._model = model
        self._client = httpx.Client(
            headers={} if key is None else {"Authorization": f"Bearer {key}"}, timeout=TIMEOUT, follow_redirects=False
        )

    def structured(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        wanted = {"name": schema.__name__, "schema": schema.model_json_schema()}
        answer = self._post(system, user, schema, response_format={"type": "json_schema", "json_schema": wanted})
        return self.plain(system, user, schema) if answer.status_code in _NO_SCHEMA else _said(answer)

    def plain(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        return _said(self._post(system, user, schema))

    def _post(self, system: str, user: str, schema: type[BaseModel], **more: object) -> httpx.Response:
        turns = [("system", in_plain_words(system, schema)), ("user", user)]
        messages = [{"role": role, "content": content} for role, content in turns]
        body = {"model": self._model, "messages": messages, "temperature": 0, **more}
        return self._client.post(self._url, json=body)


def _said(answer: httpx.Response) -> object:
    answer.raise_for_status()
    try:
        sent: Any = answer.json()
        return sent["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise UnusableAnswerError("the server sent no chat completion") from error


def openai_compatible(address: str, *, model: str, key: str | None = None) -> CheckedLanguageModel:
    """A language model on a server, asked for JSON by its schema, or by words where the server takes no schema.

    Args:
        address: What stands before ``/chat/completions``, for example ``http://127.0.0.1:11434/v1``.
        model: The name that the server knows the model by.
        key: The bearer token; None sends none.

    Raises:
        ConfigurationError: The address is none of a web server, or there is no name.
    """
    if not address.startswith(("http://", "https://")) or not model:
        raise ConfigurationError(
            "a language model on a server is an address and a name: http://127.0.0.1:11434/v1#name"
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("the key of a language model is printable ASCII")
    asks = _ChatCompletions(address, model=model, key=key)
    return CheckedLanguageModel(asks.structured, asks.plain, name=model)
