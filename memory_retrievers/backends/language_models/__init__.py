"""Adapts language models of LangChain, LlamaIndex and servers, and objects with ``generate``, to one interface.

A prompt goes in, a checked object comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel

from memory_retrievers.backends.language_models.structured import (
    CheckedLanguageModel,
    UnusableAnswerError,
    in_plain_words,
)
from memory_retrievers.backends.processes import per_process
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.protocols import LanguageModel

if TYPE_CHECKING:
    import httpx


LARGEST_ANSWER: Final = 8 * 2**20  # bytes, unpacked: of a server that does not end
SERVER_TIMEOUT: Final = 300.0
"""Seconds to wait for the answer of a server: a small machine takes minutes for a long conversation."""

_NO_SCHEMA: Final = frozenset({400, 404, 422, 501})  # statuses with which a server refuses ``response_format``


@runtime_checkable
class LangChainChatModel(Protocol):
    """Structural type of LangChain's ``BaseChatModel``."""

    @property
    def with_structured_output(self) -> Callable[..., object]:
        """Makes a runnable that answers with an object."""


@runtime_checkable
class LlamaIndexLLM(Protocol):
    """Structural type of LlamaIndex's ``LLM``."""

    @property
    def structured_predict(self) -> Callable[..., object]:
        """Answers a prompt with an object."""


AnyLanguageModel: TypeAlias = LanguageModel | LangChainChatModel | LlamaIndexLLM
"""A LangChain chat model, a LlamaIndex LLM, or any object with ``generate(system, user, schema)``."""


def _ask_langchain(model: LangChainChatModel, system: str, user: str, schema: type[BaseModel], /) -> object:
    """Ask a LangChain chat model by its own tools."""
    try:
        runnable = model.with_structured_output(schema, include_raw=True)
    except NotImplementedError:
        return _ask_langchain_plainly(model, system, user, schema)
    try:
        reply = _invoked(runnable, system, user)
    except ValueError as error:  # that of pydantic, of json, or LangChain's own
        raise UnusableAnswerError(f"LangChain could not read it ({type(error).__name__})") from error
    if not (isinstance(reply, dict) and {"raw", "parsed"} <= reply.keys()):
        return reply
    return _said(reply["raw"]) if reply["parsed"] is None else reply["parsed"]


def _ask_langchain_plainly(model: LangChainChatModel, system: str, user: str, schema: type[BaseModel], /) -> object:
    return _said(_invoked(model, in_plain_words(system, schema), user))


def _invoked(runnable: Any, system: str, user: str) -> object:  # noqa: ANN401 - of LangChain
    # The tag keeps the answer out of the token stream of a LangGraph agent within which it is asked for.
    return runnable.invoke([("system", system), ("human", user)], {"tags": ["nostream"]})


def _said(message: object) -> object:
    """Return the content of a message: the arguments of its first tool call, valid or not, or else its text."""
    if isinstance(message, str):
        return message
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    return calls[0]["args"] if calls else str(getattr(message, "text", ""))


def _ask_llama_index(model: LlamaIndexLLM, system: str, user: str, schema: type[BaseModel], /) -> object:
    """Ask a LlamaIndex LLM by tool calls or JSON, as LlamaIndex chooses for the model."""
    from llama_index.core.prompts import ChatPromptTemplate

    # Texts go in as variables: a brace in a message is no placeholder.
    prompt = ChatPromptTemplate.from_messages([("system", "{system}"), ("user", "{user}")])
    try:
        return model.structured_predict(schema, prompt, system=system, user=user)
    except (ValueError, TypeError) as error:
        raise UnusableAnswerError(f"LlamaIndex could not read it ({type(error).__name__})") from error


def _ask_llama_index_plainly(model: Any, system: str, user: str, schema: type[BaseModel], /) -> object:  # noqa: ANN401
    from llama_index.core.llms import ChatMessage

    turns = [("system", in_plain_words(system, schema)), ("user", user)]
    return model.chat([ChatMessage(role=role, content=content) for role, content in turns]).message.content


def adapt(model: AnyLanguageModel) -> LanguageModel:
    """The model in the package's shape: it answers with an object that fits, or raises LanguageModelError.

    An answer that does not fit is asked for once more; a model of the frameworks is then asked for JSON in plain
    words. JSON in a code fence or within prose is taken too. What has been adapted already is given back as it is.

    Raises:
        ConfigurationError: The object is no language model of a known shape.
    """
    if isinstance(model, CheckedLanguageModel):
        return model
    name = type(model).__qualname__
    if isinstance(model, type):
        raise ConfigurationError(f"{model.__qualname__} is a class: give an instance of it")
    if isinstance(model, LangChainChatModel):  # first: it has a generate method too, of another kind
        return CheckedLanguageModel(partial(_ask_langchain, model), partial(_ask_langchain_plainly, model), name=name)
    if isinstance(model, LlamaIndexLLM):
        ask, ask_again = partial(_ask_llama_index, model), partial(_ask_llama_index_plainly, model)
        return CheckedLanguageModel(ask, ask_again, name=name)
    if callable(generate := getattr(model, "generate", None)):
        return CheckedLanguageModel(generate, generate, name=name)
    raise ConfigurationError(
        f"{name} is not a language model: give a LangChain chat model, a LlamaIndex LLM, or an object "
        "with generate(system, user, schema)"
    )


class _ChatCompletions:
    """The two ways to ask a server that speaks OpenAI's chat completions; both are an ``structured.Ask``."""

    def __init__(self, address: str, *, model: str, key: str | None) -> None:
        import httpx

        try:
            given = httpx.URL(address)
        except httpx.InvalidURL:  # its message may tell a part of a password
            given = None
        if given is None or "@" in given.path:
            raise ConfigurationError(
                "the address of the language model cannot be read: write it as http://name:password@host:port/v1, "
                "with @ and / of a password as %40 and %2F, and no space"
            )
        if key is not None and given.userinfo:
            raise ConfigurationError("give either a key or a name and a password in the address: they share one header")
        # what messages and the log of httpx show has no password
        self._url = f"{str(given.copy_with(userinfo=b'')).rstrip('/')}/chat/completions"
        self._model = model
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        auth = (given.username, given.password) if given.userinfo else None
        self._client = per_process(
            partial(httpx.Client, headers=headers, auth=auth, timeout=SERVER_TIMEOUT, follow_redirects=False)
        )

    def structured(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        wanted = {"name": schema.__name__, "schema": schema.model_json_schema()}
        answer = self._post(system, user, schema, response_format={"type": "json_schema", "json_schema": wanted})
        return self.plain(system, user, schema) if answer.status_code in _NO_SCHEMA else _completion(answer)

    def plain(self, system: str, user: str, schema: type[BaseModel], /) -> object:
        return _completion(self._post(system, user, schema))

    def _post(self, system: str, user: str, schema: type[BaseModel], **more: object) -> httpx.Response:
        messages = [{"role": "system", "content": in_plain_words(system, schema)}, {"role": "user", "content": user}]
        body = {"model": self._model, "messages": messages, "temperature": 0, **more}
        content = bytearray()
        with self._client().stream("POST", self._url, json=body) as answer:
            if answer.status_code not in _NO_SCHEMA:
                answer.raise_for_status()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > LARGEST_ANSWER:
                    raise UnusableAnswerError(f"the server sent more than {LARGEST_ANSWER >> 20} MB")
        return type(answer)(answer.status_code, content=bytes(content), request=answer.request)


def _completion(answer: httpx.Response) -> object:
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
            "give a language model on a server as its address, # and its name: http://127.0.0.1:11434/v1#name"
        )
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("the key of a language model must be printable ASCII")
    asks = _ChatCompletions(address, model=model, key=key)
    return CheckedLanguageModel(asks.structured, asks.plain, name=model)
