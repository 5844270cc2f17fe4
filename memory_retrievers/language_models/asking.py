"""Ask, check the answer, and ask once more if it does not fit."""

from __future__ import annotations

import json
from typing import Protocol, TypeVar

from pydantic import BaseModel

from memory_retrievers.errors import LanguageModelError, MemoryRetrieversError
from memory_retrievers.language_models.answers import UnusableAnswerError, checked
from memory_retrievers.text import one_line

AnswerT = TypeVar("AnswerT", bound=BaseModel)

_IN_PLAIN_WORDS = """{system}

Answer with a single JSON object that fits this JSON schema, and with nothing else:
{schema}"""

_ONCE_MORE = """{user}

An answer to this was given before and could not be used: {complaint}. Answer once more, as asked."""


class Ask(Protocol):
    """Puts a question to a model."""

    def __call__(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        """An instance of the schema, a dictionary, text that holds JSON, or None.

        Raises:
            UnusableAnswerError: What came back is none of these.
        """
        ...


class CheckedLanguageModel:
    """A ``protocols.LanguageModel`` whose answers are checked.

    Args:
        ask: How to ask.
        ask_again: How to ask after an answer that could not be used.
        name: What errors call the model.
    """

    def __init__(self, ask: Ask, ask_again: Ask, *, name: str) -> None:
        self._ask = ask
        self._ask_again = ask_again
        self._name = name

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """The model's answer as an instance of ``schema``.

        Raises:
            LanguageModelError: The model failed, or twice gave an answer that does not fit the schema; ``raw`` is the
                second of them.
        """
        try:
            return self._attempt(self._ask, system, user, schema)
        except UnusableAnswerError as unusable:
            complaint = unusable.complaint
        try:
            user = _ONCE_MORE.format(user=user, complaint=complaint)
            return self._attempt(self._ask_again, system, user, schema)
        except UnusableAnswerError as unusable:
            complaint, raw = unusable.complaint, unusable.raw
        # Raised here and not above: what was caught may quote the answer, and tracebacks are logged.
        raise LanguageModelError(
            f"the language model {self._name} gave no usable {schema.__name__}, twice: {complaint}; "
            "use a model that follows a JSON schema",
            raw=raw,
        )

    def _attempt(self, ask: Ask, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        try:
            answer = ask(system, user, schema)
        except (UnusableAnswerError, MemoryRetrieversError):
            raise
        except Exception as error:
            reason = one_line(str(error))[:500]
            raise LanguageModelError(
                f"the language model {self._name} failed: {type(error).__name__}: {reason}"
            ) from error
        return checked(answer, schema)


def in_plain_words(system: str, schema: type[BaseModel]) -> str:
    """The system prompt with the wish for JSON, for a model that has no other way to be asked for an object."""
    return _IN_PLAIN_WORDS.format(system=system, schema=json.dumps(schema.model_json_schema(), ensure_ascii=False))
