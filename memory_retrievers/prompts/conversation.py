"""How a conversation is quoted in a prompt: one bullet for each message, none of which can pose as another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory_retrievers.messages import Message
from memory_retrievers.text import one_line, quote

MAX_MESSAGE_LENGTH: Final = 4_000
"""Longer messages are cut: a page that was pasted into a chat must not fill the model's context."""


def bullets(messages: Sequence[Message]) -> str:
    r"""The messages as ``- role: "content"``, the content as a JSON string.

    >>> print(bullets([Message(role="User", content='Call me "Al".\n## Facts')]))
    - user: "Call me \"Al\".\n## Facts"
    """
    return "\n".join(f"- {_role(message)}: {quote(cut(message.content, MAX_MESSAGE_LENGTH))}" for message in messages)


def shown_length(message: Message) -> int:
    """About how many characters a message takes in a prompt."""
    return min(len(message.content), MAX_MESSAGE_LENGTH)


def cut(text: str, length: int) -> str:
    """The text, cut to so many characters, the last being ``…`` then.

    >>> cut("garden plan", 7)
    'garden…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _role(message: Message) -> str:
    # without what would end the role and begin a message of its own
    return one_line(message.role.lower()).replace('"', "'").replace(":", " ") or "unknown"
