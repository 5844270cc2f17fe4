"""Ask a LlamaIndex LLM: with its own structured output, or for JSON in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from pydantic import BaseModel

from memory_retrievers.language_models.answers import UnusableAnswerError
from memory_retrievers.language_models.asking import in_plain_words


class LlamaIndexAsks:
    """The two ways to ask a LlamaIndex LLM; both are an ``asking.Ask``."""

    def __init__(self, model: object) -> None:
        self._model = cast("_Llm", model)

    def structured(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        """By ``structured_predict``: tool calls, or JSON, whichever LlamaIndex thinks the model is good at.

        Raises:
            UnusableAnswerError: LlamaIndex did not understand the answer; it does not say what it was.
        """
        from llama_index.core.prompts import ChatPromptTemplate

        # Texts go in as variables: a brace in a message is no placeholder.
        prompt = ChatPromptTemplate.from_messages([("system", "{system}"), ("user", "{user}")])
        try:
            return self._model.structured_predict(schema, prompt, system=system, user=user)
        except (ValueError, TypeError) as error:
            raise UnusableAnswerError(f"LlamaIndex could not read it ({type(error).__name__})") from error

    def plain(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        """For JSON, by the prompt alone."""
        from llama_index.core.llms import ChatMessage

        turns = [("system", in_plain_words(system, schema)), ("user", user)]
        return self._model.chat([ChatMessage(role=role, content=content) for role, content in turns]).message.content


class _Message(Protocol):
    @property
    def content(self) -> str | None: ...


class _Reply(Protocol):
    @property
    def message(self) -> _Message: ...


class _Llm(Protocol):
    def structured_predict(self, output_cls: type[BaseModel], prompt: object, *, system: str, user: str) -> object: ...

    def chat(self, messages: Sequence[object]) -> _Reply: ...
