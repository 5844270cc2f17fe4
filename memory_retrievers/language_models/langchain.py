"""Ask a LangChain chat model: with its own structured output, or for JSON in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from pydantic import BaseModel

from memory_retrievers.language_models.answers import UnusableAnswerError
from memory_retrievers.language_models.asking import in_plain_words

if TYPE_CHECKING:
    from memory_retrievers.models import JsonObject


class LangChainAsks:
    """The two ways to ask a LangChain chat model; both are an ``asking.Ask``."""

    def __init__(self, model: object) -> None:
        self._model = cast("_Runnable", model)

    def structured(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        """By ``with_structured_output``, or in plain words where the model has none.

        Raises:
            UnusableAnswerError: A parser within LangChain did not understand the answer.
        """
        try:
            runnable = self._model.with_structured_output(schema, include_raw=True)
        except NotImplementedError:
            return self.plain(system, user, schema)
        try:
            reply = _invoked(runnable, system, user)
        except ValueError as error:  # that of pydantic, of json, or LangChain's own
            raise UnusableAnswerError(f"LangChain could not read it ({type(error).__name__})") from error
        if not (isinstance(reply, dict) and {"raw", "parsed"} <= reply.keys()):
            return reply
        return _said(reply["raw"]) if reply["parsed"] is None else reply["parsed"]

    def plain(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        """For JSON, by the prompt alone."""
        return _said(_invoked(self._model, in_plain_words(system, schema), user))


class _Runnable(Protocol):
    def with_structured_output(self, schema: type[BaseModel], *, include_raw: bool) -> _Runnable: ...

    def invoke(self, input: list[tuple[str, str]], config: JsonObject) -> object: ...


def _invoked(runnable: _Runnable, system: str, user: str) -> object:
    # The tag keeps the answer out of the token stream of a LangGraph agent within which it is asked for.
    return runnable.invoke([("system", system), ("human", user)], {"tags": ["nostream"]})


def _said(message: object) -> object:
    """What a message holds: the arguments of its first tool call, whole or broken, or else its text."""
    if isinstance(message, str):
        return message
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    return calls[0]["args"] if calls else str(getattr(message, "text", ""))
