"""Turns of a LlamaIndex chat: their scope and messages, one recall for each, and the recent ones that fit."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from sys import getsizeof
from typing import Final, Generic, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import pydantic
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion.worker import going_on, recording, without_repeats
from memory_retrievers.models import scopes
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.models.messages import (
    CHAT_FIELDS,
    MEDIA,
    PLAIN_ROLES,
    IfSaid,
    Message,
    is_of_user,
    listed_messages,
    read_llama_index,
)
from memory_retrievers.retrieval.memory import Memory
from memory_retrievers.retrieval.request import parse_zone
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.text.analysis import estimate_tokens

INSTRUCTIONS: Final = frozenset({MessageRole.SYSTEM, MessageRole.DEVELOPER})
"""Roles of instructions to a model, which say nothing about the user."""

KEPT: Final = 256  # maximum number of chats whose last recall is kept; others recall again
KEPT_BYTES: Final = 32 * 2**20  # approximate maximum of all kept recalls; the last one stays, however large it is
_ENTRY_BYTES: Final = 1_000

TURN_SECONDS: Final = 600.0
"""A recall is reused only within this time: the same question tomorrow, or after a failed model call, is a new turn,
even if the chat looks the same."""

Scope: TypeAlias = str | Callable[[], str]
"""A path such as ``user/alice``, or a function that returns one, for example from a context variable."""

Zone: TypeAlias = str | Callable[[], str | None] | None
"""Name of a time zone such as ``America/Lima``, or a function that returns one; None is that of the settings."""

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_MESSAGE: Final = pydantic.TypeAdapter[Message | None](IfSaid[Message])

_logger = logging.getLogger("memory_retrievers")

_shared: Final[WeakValueDictionary[str, Memory]] = WeakValueDictionary()
_sharing = threading.Lock()


def checked_scope(scope: Scope) -> Scope:
    """Return the scope unchanged; a fixed one is checked."""
    return scope if callable(scope) else scopes.parse(scope)


def scope_of(scope: Scope) -> str:
    """Return the scope of a call; errors as for :func:`checked_scope`, or if a context variable is not set."""
    try:
        return scopes.parse(scope() if callable(scope) else scope)
    except LookupError as error:
        if type(error) is not LookupError:  # a KeyError is not of a context variable
            raise
        raise ConfigurationError(f"{error}, which names the scope, is not set: set it before the call") from error


def checked_zone(zone: Zone) -> Zone:
    """Return the time zone unchanged; a fixed one is checked, as :func:`parse_zone` does."""
    return zone if callable(zone) else parse_zone(zone)


def zone_of(zone: Zone) -> str | None:
    """Return the time zone of a call."""
    return zone() if callable(zone) else zone


def spoken(messages: Sequence[ChatMessage | Message]) -> list[Message]:
    """Convert messages, without tool messages, instructions and empty messages; a ``Message`` keeps its time."""
    said: list[Message] = []
    for message in messages:
        try:
            converted = None if message.role in INSTRUCTIONS else Message.from_llama_index(_as_chat(message))
            if converted is not None and isinstance(message, Message):
                converted = converted.model_copy(update={"timestamp": message.timestamp})
        except ValidationError:
            _logger.warning("a message is left out, since it is too long to be stored")
        else:
            said += [] if converted is None else [converted]
    return said


AnyMessage: TypeAlias = ChatMessage | Message | Mapping[str, object]
"""A message as a caller may have it: a mapping has a role and a content, as from a browser, or OpenAI's form."""


def as_chat(messages: Iterable[AnyMessage], *, name: str = "chat_history") -> list[ChatMessage]:
    """Convert messages for LlamaIndex, in which the name of a person is not a role.

    A cut transcript may begin with an answer without its question. Such answers are left out, since some models reject
    a chat that does not begin with a user. Instructions stay.
    """
    chat = read_messages(messages, name=name)
    cut = list(takewhile(lambda each: isinstance(each, Message) and not is_of_user(each.role), chat))
    whole = [*(each for each in cut if each.role.casefold() in {"system", "developer"}), *chat[len(cut) :]]
    return [_as_chat(each) for each in whole]


def copies(messages: Iterable[ChatMessage | Message]) -> list[ChatMessage]:
    """Copy messages: agents write their state into the ones they are given."""
    return [_as_chat(message).model_copy(deep=True) for message in messages]


def queue_messages(
    memory: Memory, scope: str, messages: Sequence[ChatMessage | Message], *, conversation: str | None
) -> bool:
    """Queue messages without tool messages, instructions and empty messages; return True if any were queued.

    A message that the user repeats before an answer, as after a failed model call, is queued once.

    Args:
        memory: The memory.
        scope: The scope of the conversation.
        messages: Its new messages, oldest first.
        conversation: The conversation within the scope.
    """
    said = spoken(messages)
    with recording(scope, conversation):
        new = without_repeats(memory, scope, said, conversation=conversation)
        return bool(new and memory.add_messages(scope, new, conversation=conversation))


def handle_of(memory: Memory) -> str | None:
    """Return the name by which :func:`shared_memory` finds a memory in this process; None if it cannot have one."""
    with _sharing, suppress(TypeError):  # of an object without weak references
        name = next((name for name, each in _shared.items() if each is memory), None) or uuid4().hex
        _shared[name] = memory
        return name
    return None


def shared_memory(handle: str | None) -> Memory | None:
    """Return the memory with this name; None if this process has none, or has closed it."""
    memory = None if handle is None else _shared.get(handle)
    with suppress(ConfigurationError):  # so says whatever is asked of a closed one
        getattr(memory, "query_characters", None)
        return memory
    return None


@dataclass(frozen=True, slots=True)
class Turn:
    """The last turn of a chat."""

    query: str  # what the user said
    number: int  # how many turns the chat shows, this one included
    answered: bool  # whether the assistant has said its last word on it

    @property
    def asks(self) -> str:
        """What to search for; empty where the user has but shown something."""
        return MEDIA.sub("", self.query).strip()

    def continues(self, earlier: Turn) -> bool:
        """True if this may be the turn that was seen before; the same words a second time are another turn.

        A chat may have lost its oldest turns meanwhile, so a smaller number says nothing.
        """
        return self.query == earlier.query and self.number <= earlier.number and not (earlier.answered > self.answered)


def last_turn(messages: Sequence[ChatMessage]) -> Turn | None:
    """Return the last turn; None if the user has said nothing.

    After a tool call, LlamaIndex shows the question a second time as plain text. It counts once until it is answered,
    or another person asks it.
    """
    query, text, by, number, answered = "", "", "", 0, True
    for message in messages:
        said = read_llama_index(message, include_tools=False)
        if said is None:
            continue
        if message.role == MessageRole.USER:
            if answered or (message.content or "") != text or said.role not in {"user", by}:
                number, query, text, by = number + 1, said.content, message.content or "", said.role
            answered = False
        elif said.role == "assistant":
            calls = any(block.block_type == "tool_call" for block in message.blocks)
            answered = answered or not (calls or message.additional_kwargs.get("tool_calls"))
    return Turn(query, number, answered) if number else None


def place_of(asked: Turn, messages: Sequence[ChatMessage]) -> int | None:
    """Return the index of the user's last message; None if it is not the question of the turn."""
    places = [place for place, message in enumerate(messages) if message.role == MessageRole.USER]
    if not places:
        return None
    said = read_llama_index(messages[places[-1]], include_tools=False)
    return places[-1] if said is not None and said.content == asked.query else None


def with_text(message: ChatMessage, text: str) -> ChatMessage:
    """Copy a message and append a text to its last block of text.

    LlamaIndex takes the last block of text for the user's new message if an agent has a state.
    """
    blocks = [*message.blocks]
    for place in reversed(range(len(blocks))):
        block = blocks[place]
        if isinstance(block, TextBlock):
            blocks[place] = TextBlock(text=f"{block.text}\n\n{text}")
            return message.model_copy(update={"blocks": blocks})
    return message.model_copy(update={"blocks": [*blocks, TextBlock(text=text)]})


class Latest(Generic[KeyT, ValueT]):
    """A bounded, thread-safe cache of the latest values; ``size`` estimates the bytes of a value."""

    def __init__(self, size: Callable[[ValueT], int]) -> None:
        self._size_of = size
        self._lock = threading.Lock()
        self._values: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value of a key, or None."""
        with self._lock:
            kept = self._values.get(key)
            return None if kept is None else kept[0]

    def keep(self, key: KeyT, value: ValueT) -> None:
        """Store a value, and drop the oldest ones beyond the bounds."""
        kept = value, _ENTRY_BYTES + self._size_of(value)
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = kept
            size = sum(each for _, each in self._values.values())
            while len(self._values) > KEPT or (size > KEPT_BYTES and len(self._values) > 1):
                size -= self._values.popitem(last=False)[1][1]

    def drop(self, key: KeyT) -> None:
        """Remove the value of a key."""
        with self._lock:
            self._values.pop(key, None)


class TurnRecall(Generic[ValueT]):
    """Recalls once per turn, so that a turn is recorded once, however often an agent reads it."""

    def __init__(self, size: Callable[[ValueT], int]) -> None:
        self._recalled: Latest[Hashable, tuple[Turn, ValueT, float]] = Latest(
            lambda kept: getsizeof(kept[0].query) + size(kept[1])
        )

    def __call__(self, chat: Hashable, turn: Turn, recall: Callable[[str], ValueT]) -> ValueT:
        """Return the memories recalled for this turn before, or the result of ``recall``."""
        earlier, now = self._recalled.get(chat), time.monotonic()
        goes_on = earlier is not None and turn.continues(earlier[0]) and now - earlier[2] <= TURN_SECONDS
        found = earlier[1] if earlier is not None and goes_on else recall(turn.asks)
        self._recalled.keep(chat, (turn, found, now))
        return found

    def forget(self, chat: Hashable) -> None:
        """Treat the next turn of a chat as a new one."""
        self._recalled.drop(chat)


def size_of(found: RetrievalResult) -> int:
    """Estimate the size of a result in bytes: its memories as JSON, and half as much again for objects."""
    facts = sum(len(hit.memory.model_dump_json()) for hit in found.semantic)
    return (facts + sum(len(hit.memory.model_dump_json()) for hit in found.episodic)) * 3 // 2


def recent_turns(
    messages: Sequence[ChatMessage], *, token_limit: int, message_limit: int | None, count_tokens: Callable[[str], int]
) -> list[ChatMessage]:
    """The newest turns of a chat that fit, whole, so that no answer comes without its question; at least the last.

    Messages that instruct the model at the beginning of the chat always stay, and the arguments of tool calls count.

    Args:
        messages: The chat, oldest message first.
        token_limit: The most tokens of all messages that are kept.
        message_limit: The most messages that are kept; None sets no limit.
        count_tokens: Counts the tokens of a text.
    """
    front = list(takewhile(lambda message: message.role in INSTRUCTIONS, messages))
    turns: list[list[ChatMessage]] = []
    for message in messages[len(front) :]:
        if message.role == MessageRole.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    failures: list[Exception] = []
    tokens, kept = _tokens(front, count_tokens, failures), list[ChatMessage]()
    for turn in reversed(turns):
        tokens += _tokens(turn, count_tokens, failures)
        too_many = message_limit is not None and len(front) + len(turn) + len(kept) > message_limit
        if kept and (tokens > token_limit or too_many):
            break
        kept = [*turn, *kept]
    return [*front, *kept]


def _tokens(messages: Sequence[ChatMessage], count_tokens: Callable[[str], int], failures: list[Exception]) -> int:
    """The tokens of messages; a counter that fails is replaced, and the first of the failures is logged."""
    called = [str(block.tool_kwargs) for each in messages for block in each.blocks if isinstance(block, ToolCallBlock)]
    texts = [*(message.content or "" for message in messages), *called]
    with going_on("the tokens of the chat were estimated", failures):
        return sum(map(count_tokens, texts))
    return sum(map(estimate_tokens, texts))


def read_messages(messages: Iterable[AnyMessage], *, name: str = "messages") -> list[ChatMessage | Message]:
    """Check messages and read the mappings among them; a complaint begins with the name of the argument."""
    listed = enumerate(listed_messages(messages, name=name, of='{"role": ..., "content": ...}'))
    with in_our_words():
        return [each for each in (_read_one(each, f"{name}.{at}") for at, each in listed) if each]


def _read_one(given: AnyMessage, place: str) -> ChatMessage | Message | None:
    """A message as LlamaIndex has it; one in another form, such as OpenAI's, is read as ``add_messages`` reads it."""
    if not isinstance(given, ChatMessage | Message | Mapping):
        raise ValidationError(
            f'{place}: Input should be a ChatMessage, a Message or {{"role": ..., "content": ...}}, not '
            f"{type(given).__name__}"
        )
    if not isinstance(given, Mapping):
        return given
    if not given.keys() & {"blocks", "additional_kwargs"}:
        role = given.get("role")
        is_text = isinstance(given.get("content"), str) and not (isinstance(role, str) and role in PLAIN_ROLES)
        if not is_text or given.keys() & CHAT_FIELDS:
            said = _MESSAGE.validate_python(given)
            return None if said is None else _as_chat(said)
    return ChatMessage.model_validate(given)


def _as_chat(message: ChatMessage | Message) -> ChatMessage:
    if isinstance(message, ChatMessage):
        return message
    role = message.role.casefold()
    if not is_of_user(role):
        return ChatMessage(role=role, content=message.content)
    names = {} if role == "user" else {"name": message.role}
    return ChatMessage(role=MessageRole.USER, content=message.content, additional_kwargs=names)
