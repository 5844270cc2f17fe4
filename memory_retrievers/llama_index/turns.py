"""Turns of a LlamaIndex chat: what was asked last, and one recall for all that an agent reads while it answers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Generic, TypeVar

from llama_index.core.base.llms.types import ChatMessage, MessageRole

from memory_retrievers.foreign_messages import read_llama_index

INSTRUCTIONS: Final = frozenset({MessageRole.SYSTEM, MessageRole.DEVELOPER})
"""The roles that instruct a model: they say nothing about the user, and the same in every conversation."""

KEPT: Final = 256
"""Of so many chats the recall of the last turn is kept; one that was let go is made again when it is needed."""

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Turn:
    """The last turn of a chat.

    Attributes:
        query: What the user said.
        number: How many turns the chat shows, this one included.
        answered: Whether the assistant has said its last word on it.
    """

    query: str
    number: int
    answered: bool

    def continues(self, earlier: Turn) -> bool:
        """Whether this may be the turn that was seen before; the same words a second time are another turn.

        A chat may have lost its oldest turns meanwhile, so a smaller number says nothing.
        """
        return self.query == earlier.query and self.number <= earlier.number and not (earlier.answered > self.answered)


def last_turn(messages: Sequence[ChatMessage]) -> Turn | None:
    """The last turn, or None while the user has said nothing.

    After a tool was called, LlamaIndex shows the question a second time: it counts once until it is answered.
    """
    query, number, answered = "", 0, True
    for message in messages:
        said = read_llama_index(message, include_tools=False)
        if said is None:
            continue
        if said.role == "user":
            number += answered or said.content != query
            query, answered = said.content, False
        elif said.role == "assistant" and not _calls_tools(message):
            answered = True
    return Turn(query, number, answered) if number else None


class Latest(Generic[KeyT, ValueT]):
    """The values that were kept last, by key; used by several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[KeyT, ValueT] = OrderedDict()

    def get(self, key: KeyT) -> ValueT | None:
        """What was kept last under this key, or None."""
        with self._lock:
            return self._values.get(key)

    def keep(self, key: KeyT, value: ValueT) -> None:
        """Keep a value, and let go of the oldest if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > KEPT:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Keep nothing any more."""
        with self._lock:
            self._values.clear()


class TurnRecall(Generic[ValueT]):
    """Recalls once per turn, so that a turn is also recorded once, however often an agent asks."""

    def __init__(self) -> None:
        self._recalled: Latest[Hashable, tuple[Turn, ValueT]] = Latest()

    def __call__(self, chat: Hashable, turn: Turn, recall: Callable[[str], ValueT]) -> ValueT:
        """What was recalled for this turn of a chat, or what ``recall`` finds for it now."""
        earlier = self._recalled.get(chat)
        found = earlier[1] if earlier is not None and turn.continues(earlier[0]) else recall(turn.query)
        self._recalled.keep(chat, (turn, found))
        return found

    def clear(self) -> None:
        """Forget the turns that were seen."""
        self._recalled.clear()


def recent_turns(
    messages: Sequence[ChatMessage], *, token_limit: int, message_limit: int | None, count_tokens: Callable[[str], int]
) -> list[ChatMessage]:
    """The newest turns of a chat that fit, whole, so that no answer comes without its question; at least the last.

    What instructs the model at the beginning of the chat always stays.
    """
    front = list(takewhile(lambda message: message.role in INSTRUCTIONS, messages))
    turns: list[list[ChatMessage]] = []
    for message in messages[len(front) :]:
        if message.role == MessageRole.USER or not turns:
            turns.append([])
        turns[-1].append(message)
    tokens, kept = _tokens(front, count_tokens), list[ChatMessage]()
    for turn in reversed(turns):
        tokens += _tokens(turn, count_tokens)
        too_many = message_limit is not None and len(front) + len(turn) + len(kept) > message_limit
        if kept and (tokens > token_limit or too_many):
            break
        kept = [*turn, *kept]
    return [*front, *kept]


def _tokens(messages: Sequence[ChatMessage], count_tokens: Callable[[str], int]) -> int:
    return sum(count_tokens(message.content or "") for message in messages)


def _calls_tools(message: ChatMessage) -> bool:
    return bool(message.additional_kwargs.get("tool_calls")) or any(
        block.block_type == "tool_call" for block in message.blocks
    )
