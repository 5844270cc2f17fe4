"""The conversation memory: a chat memory that stores every message permanently, and recalls for every question."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypedDict, Unpack
from weakref import WeakValueDictionary

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemory
from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, field_serializer, model_validator

from memory_retrievers.backends.files import written
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion.worker import Process, going_on, process_queue
from memory_retrievers.llama_index import turns
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import DetailLevel, JsonObject, scopes
from memory_retrievers.models.fields import ValidatedModel
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.models.messages import Message, is_of_user, parse_conversation
from memory_retrievers.models.results import Report
from memory_retrievers.retrieval.documents import profile_block
from memory_retrievers.retrieval.markdown import TAG, between_tags
from memory_retrievers.retrieval.memory import GivenMemory, Memory
from memory_retrievers.retrieval.request import asked_by, parse_relevance, parse_zone
from memory_retrievers.retrieval.results import RetrievalResult, parse_detail
from memory_retrievers.settings import MAX_TOKENS
from memory_retrievers.storage.open import is_made, noted_embedder
from memory_retrievers.storage.options import chosen_embedder
from memory_retrievers.text.analysis import estimate_tokens

DEFAULT_TOKEN_LIMIT: Final = 20_000
"""Default number of tokens of recent turns: about what LlamaIndex's own ``Memory`` leaves to the chat."""


class ChatOptions(TypedDict, total=False):
    """Options of :meth:`ConversationMemory.from_defaults`, which are attributes of that class."""

    episodic_limit: int
    semantic_limit: int
    detail: DetailLevel | str
    min_relevance: MinRelevance
    max_tokens: int | None
    token_limit: int
    message_limit: int | None
    process: Process
    placement: Literal["tail", "system"]
    session_id: str | None
    token_counter: Callable[[str], int]
    time_zone: str | None


class ConversationMemory(ValidatedModel, BaseMemory):
    """A chat memory for agents and chat engines that remembers beyond the chat.

    ::

        memory = ConversationMemory.from_defaults(path="./agent-memory", scope="user/alice")
        await agent.run("Where did we stop?", memory=memory)
        memory.flush()  # at the end of the session

    Every message that is put is queued in the long-term memory at once. Tool messages, instructions (``system``,
    ``developer``) and empty messages are kept in the chat only, and so are repeated messages of the user that got no
    answer, as after a failed model call. :meth:`get` returns the profile as a system message, then the recent turns of
    the chat, with the memories for the user's last message appended to it; the chat itself never contains them. A turn
    is recalled once and recorded once, however many tools are called in it.

    A chat continues if a model or the store fails, or a function of yours while it recalls: a warning without any text
    is logged, nothing is recalled, and messages that could not be processed stay queued. Only wrong configuration and a
    failure to queue raise.

    A dump, such as that of a workflow's ``Context`` between two runs, contains the chat, the scope, the limits and the
    path. Restored in the same process, it continues with the same memory, as long as that is open. In another process
    the store is opened from the path when it is first needed. A path alone cannot restore a store that was filled with
    an embedder of your own; for such a store, set ``memory`` before the restored object is used.

    Attributes:
        memory: An AgentMemory, or an object with its methods; not part of a dump. None opens ``path``.
        path: Directory of the store to open if there is no ``memory``.
        scope: Scope of the memory: a path such as ``user/alice``.
        episodic_limit: Maximum number of episodes.
        semantic_limit: Maximum number of facts.
        detail: Which episodes include their messages (specification §2.6).
        min_relevance: Recall nothing below this relevance, 0 to 1. The default is fitted to the embedder, so that a
            greeting recalls nothing.
        max_tokens: Maximum number of tokens recalled for a turn; None sets no limit. The profile has at most 300.
        token_limit: Maximum number of tokens of the recent turns, with what tools are called with, without memories.
        message_limit: Maximum number of messages of the recent turns; None sets no limit.
        process: When queued messages become memories: ``background`` leaves it to the memory's worker, ``due`` delays
            the chat for as long as it takes, ``never`` leaves it to the caller of ``process_due``.
        placement: Position of recalled memories: ``tail``, after the user's last message, or ``system``, at the end of
            a system message, which then changes with every turn, so that no prompt cache holds.
        session_id: Name of the conversation within the scope; None is the one without a name.
        messages: The chat so far.
        token_counter: Counts the tokens of a text; by default a token is four characters. Not part of a dump.
        time_zone: Time zone of "today" and of the days in blocks: a name such as ``America/Lima``. None uses that of
            the memory's settings.
        handle: Name of the memory in this process, for a dump.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: GivenMemory | None = Field(default=None, exclude=True, repr=False)
    path: str | None = None
    scope: Annotated[str, BeforeValidator(scopes.parse)]
    episodic_limit: Annotated[int, Field(ge=0)] = 5
    semantic_limit: Annotated[int, Field(ge=0)] = 20
    detail: Annotated[DetailLevel | str, BeforeValidator(parse_detail)] = DetailLevel.AUTO
    min_relevance: Annotated[MinRelevance, BeforeValidator(parse_relevance)] = "auto"
    max_tokens: Annotated[int, Field(ge=0)] | None = MAX_TOKENS
    token_limit: Annotated[int, Field(ge=1)] = DEFAULT_TOKEN_LIMIT
    message_limit: Annotated[int, Field(ge=1)] | None = None
    process: Process = "background"
    placement: Literal["tail", "system"] = "tail"
    session_id: Annotated[str | None, BeforeValidator(parse_conversation)] = None
    messages: list[ChatMessage] = Field(default_factory=list, repr=False)
    token_counter: Callable[[str], int] = Field(default=estimate_tokens, exclude=True, repr=False)
    time_zone: Annotated[str | None, BeforeValidator(parse_zone)] = None
    handle: str | None = Field(default=None, repr=False)

    _recall: turns.TurnRecall[RetrievalResult] = PrivateAttr(default_factory=lambda: turns.TurnRecall(turns.size_of))
    _own: AgentMemory | None = PrivateAttr(default=None)
    _asked: list[ChatMessage] = PrivateAttr(default_factory=list)
    _lock: threading.RLock = PrivateAttr(default_factory=threading.RLock)

    @model_validator(mode="before")
    @classmethod
    def _without_class_name(cls, given: object) -> object:
        # LlamaIndex notes it in each dump, and takes it out again only where the object is not part of another
        return {name: given[name] for name in given if name != "class_name"} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _find_memory(self) -> Self:
        if self.memory is None:
            self.memory = turns.shared_memory(self.handle)
        return self

    @classmethod
    def class_name(cls) -> str:
        """The name in LlamaIndex's dumps."""
        return "ConversationMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # LlamaIndex's own classes name their arguments, too
        cls,
        memory: Memory | None = None,
        *,
        scope: str,
        path: str | Path | None = None,
        chat_history: Sequence[turns.AnyMessage] | None = None,
        **attributes: Unpack[ChatOptions],
    ) -> Self:
        """Create a conversation memory; the arguments are its attributes.

        Args:
            memory: As the attribute.
            scope: As the attribute.
            path: As the attribute; together with ``memory`` it only tells a restored object where the store is.
            chat_history: The chat so far, such as the result of ``memory.transcript``, or mappings
                ``{"role": …, "content": …}``; it is not stored permanently, see :meth:`set`.
            **attributes: Others, by name: see ``ChatOptions``.

        Raises:
            ConfigurationError: Neither a memory nor a path was given.
            ValidationError: An argument breaks a rule.
        """
        if memory is None and path is None:
            raise ConfigurationError("a ConversationMemory needs memory= or path=: say where it remembers")
        with in_our_words():
            return cls(
                memory=memory,
                path=None if path is None else str(path),
                scope=scope,
                messages=turns.copies(turns.as_chat(chat_history or ())),
                **attributes,
            )

    def __deepcopy__(self, _memo: object = None) -> Self:
        """A separate chat that shares the memory."""
        chat = self.__reduce__()[0]()
        chat._asked = turns.copies(self._asked)  # noqa: SLF001 - of its own class
        return chat

    def __reduce__(self) -> tuple[Callable[[], Self], tuple[()]]:
        """All attributes, with the address of the memory, from which it is opened again."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return partial(type(self), **fields | {"messages": self.get_all()}), ()

    def to_string(self) -> str:
        """Return a dump as JSON, as ``ChatMemoryBuffer`` does."""
        return self.to_json()

    @classmethod
    def from_string(cls, string: str, **attributes: Any) -> Self:  # noqa: ANN401 - any of the attributes
        """Restore the chat from a dump; ``memory=`` and other attributes replace those in it."""
        return cls.from_json(string, **attributes)

    def get(
        self, input: str | ChatMessage | None = None, *, initial_token_count: int = 0, **_: object
    ) -> list[ChatMessage]:
        """Return the recent turns of the chat, with the profile and the memories for the user's last message.

        Args:
            input: The user's new message, if it is not in the chat yet.
            initial_token_count: Tokens of the limit that are used already; if all are, no turn is returned.

        Raises:
            ValidationError: More tokens are used than the limit allows.
            ConfigurationError: The store cannot be opened from the path.
        """
        if initial_token_count > self.token_limit:
            raise ValidationError(
                f"initial_token_count {initial_token_count} exceeds token_limit {self.token_limit}: raise the limit, "
                "or shorten what comes before the chat"
            )
        chat = self.get_all()
        asks = ChatMessage(role=MessageRole.USER, content=input) if isinstance(input, str) else input
        question = [] if asks is None else turns.as_chat([asks], name="input")
        asked = turns.last_turn([*chat, *question])
        recent = turns.recent_turns(
            chat if initial_token_count < self.token_limit else [],
            token_limit=self.token_limit - initial_token_count,
            message_limit=self.message_limit,
            count_tokens=self.token_counter,
        )
        return self._informed(recent, asked, in_prompt=turns.spoken([*recent, *question]))

    def get_all(self) -> list[ChatMessage]:
        """Return the whole chat, without memories."""
        with self._lock:
            return turns.copies(self.messages)

    def put(self, message: turns.AnyMessage) -> None:
        """Add a message as :meth:`put_messages` does."""
        self.put_messages([message])

    def put_messages(self, messages: Iterable[turns.AnyMessage]) -> None:
        """Add messages to the chat and to the long-term memory, and have due messages processed.

        A ``Message`` keeps its time; all others are said now.

        Raises:
            ValidationError: One is no message; the chat is unchanged.
            ConfigurationError: The store cannot be opened from the path, or is read-only; the chat is unchanged.
            BackendError: The messages could not be stored; the chat is unchanged.
        """
        memory, given = self._long_term(), turns.read_messages(messages)
        messages = turns.copies(given)
        with _registering:
            _chats[id(self)] = self
        with self._lock:
            queued = turns.queue_messages(memory, self.scope, [*self._asked, *given], conversation=self.session_id)
            self.messages, self._asked = [*self.messages, *messages], []
        if any(message.role == MessageRole.USER for message in messages):
            self._recall.forget(self.scope)  # the same words once more are another turn
        if queued:
            process_queue(memory, self.scope, process=self.process)

    def set(self, messages: Iterable[turns.AnyMessage]) -> None:
        """Replace the chat, but not the long-term memory: callers that keep the chat set it again and again.

        Messages of the user at its end are stored with the next messages that are put, such as the answer. Answers with
        which a list of ``Message`` begins, as a cut transcript may, are left out.
        """
        with self._lock:
            self.messages = turns.copies(turns.as_chat(messages, name="messages"))
            self._asked = [*takewhile(lambda each: each.role == MessageRole.USER, reversed(self.messages))][::-1]
        self._recall.forget(self.scope)  # engines and agents set it before each turn

    def reset(self) -> None:
        """Clear the chat, but not the long-term memory; ``AgentMemory.forget_scope`` clears that."""
        self.set([])

    def flush(self) -> Report:
        """Process all queued messages of this chat, or of the scope without a ``session_id``: the end of a session.

        Raises:
            ConfigurationError: The store cannot be opened from the path, or is read-only.
            LanguageModelError: A language model failed; messages that were not processed stay queued.
            EmbeddingError: The embedder failed, likewise.
        """
        return self._long_term().flush(self.scope, self.session_id)

    def close(self) -> None:
        """Close the store if it was opened from the path; the next use opens it again."""
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None

    def _informed(
        self, recent: Sequence[ChatMessage], asked: turns.Turn | None, *, in_prompt: Sequence[Message]
    ) -> list[ChatMessage]:
        """Return the recent turns with profile and memories."""
        if asked is None:
            return [*recent]
        profile, known = "", frozenset[str]()
        with going_on("no profile was read"):
            profile, known = profile_block(self._long_term(), self.scope, token_counter=self.token_counter)
        block = ""
        with going_on("nothing was recalled"):
            if asked.asks:
                found = self._recall(self.scope, asked, partial(self._retrieved, in_prompt=in_prompt))
                shown = found.without_facts(known)  # they are in the prompt anyway
                text = shown.to_markdown(self.detail, max_tokens=self.max_tokens, token_counter=self.token_counter)
                block = between_tags(text, tag=TAG)
        place = turns.place_of(asked, recent) if self.placement == "tail" else None
        messages = [*recent]
        if block and place is not None:
            messages[place] = turns.with_text(messages[place], block)
        in_system = "\n\n".join(filter(None, (profile, "" if place is not None else block)))
        return [ChatMessage(role=MessageRole.SYSTEM, content=in_system), *messages] if in_system else messages

    def _retrieved(self, query: str, *, in_prompt: Sequence[Message]) -> RetrievalResult:
        memory = self._long_term()
        return memory.retrieve(
            asked_by(memory, query, said=in_prompt),
            scope=self.scope,
            episodic_limit=self.episodic_limit,
            semantic_limit=self.semantic_limit,
            in_prompt=in_prompt,
            min_relevance=self.min_relevance,
            time_zone=self.time_zone,
        )

    def _long_term(self) -> Memory:
        if self.memory is not None:
            return self.memory
        with self._lock:
            if self._own is None:
                self._own = _reopened(self.path)
            return self._own

    @field_serializer("handle")
    def _named(self, handle: str | None) -> str | None:
        return handle if self.memory is None else turns.handle_of(self.memory)

    @field_serializer("messages")
    def _dumped(self, messages: list[ChatMessage]) -> list[JsonObject]:
        return [message.model_dump(mode="json") for message in messages]


_chats: Final[WeakValueDictionary[int, ConversationMemory]] = WeakValueDictionary()
_registering: Final = threading.Lock()
_LATEST: Final = 16  # messages at the end of a chat in which one that nobody has answered is looked for


def asked_last(memory: Memory, scope: str) -> tuple[Message, ...]:
    """Return the latest unanswered messages of users in the chats of a scope in this process."""
    with _registering:
        of_scope = [chat for chat in _chats.values() if chat.scope == scope]
    chats = [chat for chat in of_scope if (chat._own or chat.memory) is memory]  # noqa: SLF001
    latest = [turns.spoken(chat.messages[-_LATEST:]) for chat in chats]
    return tuple(each for said in latest for each in takewhile(lambda each: is_of_user(each.role), reversed(said)))


def _reopened(path: str | None) -> AgentMemory:
    """The store at ``path`` with the bundled embedder and every other setting at its default; made if it is missing."""
    if path is None:
        raise ConfigurationError(
            "this ConversationMemory has no long-term memory and no path to open one from: set its `memory`, or make "
            "it with path="
        )
    place = written(path)
    filled_with = noted_embedder(place) if is_made(place) else None
    if filled_with not in {None, chosen_embedder(None, embedder_id=None).id}:
        raise ConfigurationError(
            f"the store at {path} was filled with the embedder {filled_with!r}, which its path alone cannot bring "
            "back: open it with AgentMemory.open(path, embedder=...) and pass it as memory="
        )
    try:
        return AgentMemory.open(path)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; or pass the open one as memory=, to a restored chat by `chat.memory = memory`"
        ) from error
