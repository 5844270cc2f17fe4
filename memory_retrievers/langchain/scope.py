"""Resolution of the scope of a LangChain call: the scope of the object, or else of the run's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Literal, Self, TypeAlias

from langchain_core.callbacks import BaseCallbackManager
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from pydantic import AfterValidator, Field, model_validator

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models import scopes
from memory_retrievers.models.fields import ValidatedModel
from memory_retrievers.models.messages import Message, parse_conversation

ScopeSource: TypeAlias = Callable[[RunnableConfig], str] | Literal["thread"]
"""Replacement of the chain: a function of the configuration, or ``"thread"`` for one memory per ``thread_id``."""

CONFIGURABLE_KEYS = ("scope", "user_id", "langgraph_user_id", "conversation_id")
"""Keys of ``config["configurable"]``, or else of ``config["metadata"]``, that may hold a scope, in order of precedence;
None counts as absent."""

CONTEXT_KEYS = ("scope", "user_id")
"""Fields of LangGraph's ``runtime.context`` that may hold a scope where no key of the configuration does."""

# where LangGraph keeps the runtime of a run in its configuration; importing LangGraph for it would cost a second
_RUNTIME_KEY = "__pregel_runtime"
_READ_KEY = "__pregel_read"  # where it keeps what reads the state of the graph that a call is made in
_THREAD_KEYS = ("thread_id",)
_ZONE_KEY = "time_zone"


class ScopedByConfig(ValidatedModel):
    """The fields of everything whose scope may come from the configuration.

    Attributes:
        scope: The scope to work in; no configuration overrides it. None takes the scope from the configuration.
        scope_from: Replaces the chain of :data:`CONFIGURABLE_KEYS` and :data:`CONTEXT_KEYS`.
    """

    scope: Annotated[str, AfterValidator(scopes.parse)] | None = None
    scope_from: ScopeSource | None = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.scope is not None and self.scope_from is not None:
            raise ValueError("give scope or scope_from, not both")
        return self

    def scope_of(self, config: RunnableConfig | None) -> str:
        """The scope of one call; without a configuration, that of the run it happens in.

        Raises:
            ConfigurationError: Nothing names a scope.
            ValidationError: The scope is malformed.
        """
        return self.scope or resolve_scope(config, scope_from=self.scope_from)


def conversation_of() -> str | None:
    """The thread of the run it is called in, which is the conversation of its messages; None without one."""
    thread = ensure_config().get("configurable", {}).get("thread_id")
    return None if thread is None or not str(thread).strip() else parse_conversation(str(thread))


def zone_of(config: RunnableConfig | None = None) -> str | None:
    """The ``time_zone`` of a call, or of the run it happens in: of ``configurable``, or else of the context, if any."""
    configurable = ensure_config(config).get("configurable", {})
    zone = configurable.get(_ZONE_KEY, _context(configurable, (_ZONE_KEY,))[_ZONE_KEY])
    return None if zone is None else str(zone)


def is_by_user(message: BaseMessage) -> bool:
    """True for what a user says, also where it is a ``ChatMessage`` with that role."""
    return isinstance(message, HumanMessage) or str(getattr(message, "role", "")).casefold() in {"user", "human"}


def asked_in_run() -> tuple[Message, ...]:
    """What the user has said last to the agent whose run it is called in; nothing where that is not known."""
    with suppress(Exception):  # where there is no graph, or one without messages
        said = [m for m in ensure_config()["configurable"][_READ_KEY]("messages") if is_by_user(m)]
        return tuple(filter(None, [Message.from_langchain(said[-1])]))
    return ()


def resolve_scope(config: RunnableConfig | None, *, scope_from: ScopeSource | None = None) -> str:
    """The scope that a configuration names: the first of these places that names one decides.

    1. ``configurable`` of the configuration, and of the run that the call happens in where the configuration says
       nothing (:data:`CONFIGURABLE_KEYS`).
    2. The context of the LangGraph run that it belongs to (:data:`CONTEXT_KEYS`): a mapping, a dataclass or a pydantic
       model.
    3. ``metadata`` of the configuration or of the run it happens in, and what its callbacks have of the runs around it:
       the same keys. A retriever that is invoked and calls another hands on these alone.

    Args:
        config: The configuration of the call; None takes that of the run it happens in.
        scope_from: Replaces this chain.

    Raises:
        ConfigurationError: It names none; the message names every place.
        ValidationError: The scope it names is malformed.
    """
    complete = ensure_config(config)
    if callable(scope_from):
        return scopes.parse(scope_from(complete))
    keys = _THREAD_KEYS if scope_from == "thread" else CONFIGURABLE_KEYS
    configurable = complete.get("configurable", {})
    callbacks = complete.get("callbacks")
    places: list[Mapping[str, object]] = [
        configurable,
        {} if scope_from == "thread" else _context(configurable, CONTEXT_KEYS),
        complete.get("metadata", {}),
        callbacks.metadata if isinstance(callbacks, BaseCallbackManager) else {},
    ]
    named = ((key, value) for place in places for key in keys if (value := place.get(key)) is not None)
    for key, value in named:
        if not isinstance(value, str):
            raise ValidationError(f"{key} must be a string such as 'user/alice', not {type(value).__name__}")
        return scopes.parse(value)
    key = keys[-1] if scope_from == "thread" else "user_id"
    beside = "" if scope_from == "thread" else f"{' and '.join(CONTEXT_KEYS)} of LangGraph's context=, "
    raise ConfigurationError(
        "whose memory is this? Give the object a scope (scope='user/alice'), or invoke it with "
        f"config={{'configurable': {{'{key}': ...}}}} (looked for: {', '.join(keys)} in 'configurable' of the call and "
        f"of the run around it, {beside}and in 'metadata' of both and of its callbacks). A retriever that calls this "
        "one passes on only 'metadata': name it there. A thread_id needs scope_from='thread': a memory for each thread."
    )


def _context(configurable: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    context: object = getattr(configurable.get(_RUNTIME_KEY), "context", None)
    return {key: context.get(key) if isinstance(context, Mapping) else getattr(context, key, None) for key in keys}
