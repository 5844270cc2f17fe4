"""Tell language models apart, by their methods alone: no framework is imported for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import pydantic
from pydantic import BaseModel

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.language_models.answers import UnusableAnswerError, complaint_of
from memory_retrievers.language_models.asking import Ask, CheckedLanguageModel
from memory_retrievers.language_models.langchain import LangChainAsks
from memory_retrievers.language_models.llama_index import LlamaIndexAsks
from memory_retrievers.protocols import LanguageModel


@runtime_checkable
class LangChainChatModel(Protocol):
    """What gives away LangChain's ``BaseChatModel``."""

    @property
    def with_structured_output(self) -> Callable[..., object]:
        """Makes a runnable that answers with an object."""
        ...


@runtime_checkable
class LlamaIndexLLM(Protocol):
    """What gives away LlamaIndex's ``LLM``."""

    @property
    def structured_predict(self) -> Callable[..., object]:
        """Answers a prompt with an object."""
        ...


AnyLanguageModel: TypeAlias = LanguageModel | LangChainChatModel | LlamaIndexLLM
"""A LangChain chat model, a LlamaIndex LLM, or any object with ``generate(system, user, schema)``."""


def adapt(model: AnyLanguageModel) -> LanguageModel:
    """The model in the package's shape: it answers with an object that fits, or raises LanguageModelError.

    An answer that does not fit is asked for once more; a model of the frameworks is then asked for JSON in plain
    words. JSON in a code fence or within prose is taken too. What has been adapted already is given back as it is.

    Args:
        model: See :data:`AnyLanguageModel`.

    Raises:
        ConfigurationError: The object is no language model of a known shape.
    """
    if isinstance(model, CheckedLanguageModel):
        return model
    return CheckedLanguageModel(*_asks(model), name=type(model).__qualname__)


def _asks(model: object) -> tuple[Ask, Ask]:
    """How to ask a model, and how to ask it once more."""
    if isinstance(model, type):
        raise ConfigurationError(f"{model.__qualname__} is a class: give an instance of it")
    if isinstance(model, LangChainChatModel):  # first: it has a generate method too, of another kind
        return LangChainAsks(model).structured, LangChainAsks(model).plain
    if isinstance(model, LlamaIndexLLM):
        return LlamaIndexAsks(model).structured, LlamaIndexAsks(model).plain
    if callable(generate := getattr(model, "generate", None)):
        ask = _ask_of(generate)
        return ask, ask
    raise ConfigurationError(
        f"{type(model).__qualname__} is no language model: give a LangChain chat model, a LlamaIndex LLM, or an object "
        "with generate(system, user, schema)"
    )


def _ask_of(generate: Callable[[str, str, type[BaseModel]], object]) -> Ask:
    def ask(system: str, user: str, schema: type[BaseModel], /) -> object:
        try:
            return generate(system, user, schema)
        except pydantic.ValidationError as error:  # it has checked the answer itself
            raise UnusableAnswerError(complaint_of(error)) from error

    return ask
