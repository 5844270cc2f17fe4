"""Messages of conversations and episodes, and their conversion from LangChain and LlamaIndex."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import pydantic

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import (
    MAX_ID_LENGTH,
    NonBlankText,
    ShortText,
    UTCDateTime,
    ValidatedModel,
    Value,
    short,
    storable,
)

MessageT = TypeVar("MessageT")

MEDIA: Final = re.compile(r"\[(?:image|audio|file|video)\]")  # what is told of a part that is no text
_MOST_OF_FILE: Final = 500_000  # characters of a text file of LangChain; what is said beside a longer one is kept alone
_ROLES = {"human": "user", "ai": "assistant", "function": "tool", "chatbot": "assistant", "model": "assistant"}
_TIME_KEYS = ("timestamp", "created_at")
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
# what an open model thinks before its answer, where its server does not take it out of the text
_THOUGHT: Final = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_CODE_RESULT: Final = "Result of executing the code given:"
_KINDS: Final = {"image_url": "image", "document": "file", "text-plain": "file", "video_url": "video"} | {
    form + kind: kind for kind in ("image", "audio", "file", "video") for form in ("", "input_")
}

_NOT_USERS: Final = frozenset({"assistant", "tool", "system", "developer"})
_NO_NAMES: Final = _NOT_USERS | {"user", *_ROLES}
_NAME_LENGTH: Final = 64
_ENDS_NAME: Final = str.maketrans(dict.fromkeys(':"<>', " "))


def is_of_user(role: str) -> bool:
    """Whether a role is a user's, ``user`` or a name; all others answer, are tools, or instruct a model."""
    return role.casefold() not in _NOT_USERS


def speaker_of(role: str, name: object) -> str:
    """The name of a user, where one is given and is no role; else the role.

    Names are texts of strangers: one is on one line, of 64 characters at most, and has nothing that would end it in a
    list of who says what.

    >>> speaker_of("user", "Anna"), speaker_of("user", "Assistant: "), speaker_of("assistant", "Anna")
    ('Anna', 'user', 'assistant')
    """
    if role.casefold() != "user" or not isinstance(name, str):
        return role
    words = " ".join(name[:MAX_ID_LENGTH].translate(_ENDS_NAME).split())
    said = unicodedata.normalize("NFC", "".join(filter(str.isprintable, words)))[:_NAME_LENGTH].strip()
    bare = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", said).casefold()))
    return role if not said or bare in _NO_NAMES else said


def parse_conversation(conversation: object) -> str | None:
    """Check the name of a conversation, for which the rules of an id hold; None is the one without a name.

    Raises:
        ValidationError: It is no text, blank, or too long.
    """
    if conversation is None:
        return None
    if not isinstance(conversation, str):
        raise ValidationError(f"conversation must be a text such as 'thread-7', not {type(conversation).__name__}")
    if not conversation.strip():
        raise ValidationError("conversation must not be blank: name it, or leave it out")
    if (size := len(conversation)) > (most := MAX_ID_LENGTH):
        raise ValidationError(f"conversation has {size} characters, at most {most} are allowed: use a shorter id")
    try:
        return short(storable(conversation))
    except ValueError as error:
        raise ValidationError(f"conversation {error}") from None


class LangChainMessage(Protocol):
    """Structural type of ``langchain_core.messages.BaseMessage``."""

    @property
    def type(self) -> str:
        """The kind of message: ``human``, ``ai``, ``system``, ``tool`` …; ``chat`` has a ``role`` of its own."""

    @property
    def content_blocks(self) -> Sequence[Mapping[str, object]]:
        """The content in standard blocks, tool calls included."""

    @property
    def additional_kwargs(self) -> Mapping[str, object]:
        """Further fields."""

    @property
    def response_metadata(self) -> Mapping[str, object]:
        """The provider's metadata of its answer."""


class LlamaIndexMessage(Protocol):
    """Structural type of ``llama_index.core.llms.ChatMessage``."""

    @property
    def role(self) -> str:
        """Role of the speaker."""

    @property
    def blocks(self) -> Sequence[object]:
        """The content, as blocks with a ``block_type``."""

    @property
    def additional_kwargs(self) -> Mapping[str, object]:
        """Further fields."""


class Reading(NamedTuple):
    """What is kept of a foreign message: who speaks, what was said, which is not blank, and when, if it says so."""

    role: str
    content: str
    timestamp: datetime | None


def read_llama_index(message: LlamaIndexMessage, *, include_tools: bool) -> Reading | None:
    """Read a LlamaIndex message; None if it has no content.

    A ``ReActAgent`` writes its steps down as one message, with all that tools have answered: without tools it is read
    as what it says in the end. What a ``CodeActAgent`` runs, and notes the result of as words of the user, is a tool.
    """
    role = str(getattr(message.role, "value", message.role))
    names = {"type": "block_type", "text": "text", "name": "tool_name", "args": "tool_kwargs"}
    blocks = ({key: getattr(block, name, "") for key, name in names.items()} for block in message.blocks)
    parts = [_block_text(block, include_tools=include_tools) for block in blocks]
    if role == "assistant" and not include_tools:
        parts = [_last_words(_without_code(_THOUGHT.sub("", part))) for part in parts]
    elif role == "user" and not include_tools:
        parts = [part for part in parts if not part.startswith(_CODE_RESULT)]
    further = message.additional_kwargs
    return _reading(role, parts, _times(further), further, include_tools=include_tools)


def _reading(
    role: str, parts: Iterable[str], times: Iterable[datetime], further: Mapping[str, object], *, include_tools: bool
) -> Reading | None:
    ours, audio = _ROLES.get(role, role), further.get("audio")
    if ours == "assistant":
        parts = [_THOUGHT.sub("", part) for part in parts]
    content = "\n".join(part for part in parts if part.strip())
    if not content and isinstance(audio, Mapping):  # a spoken answer
        content = str(audio.get("transcript") or "").strip()
    if not content or not ours.strip() or (ours == "tool" and not include_tools):
        return None
    return Reading(role=speaker_of(ours, further.get("name")), content=content, timestamp=next(iter(times), None))


def _block_text(block: Mapping[str, object], *, include_tools: bool) -> str:
    kind = block.get("type")
    text = str(block.get("text") or "")
    if kind in _TEXTS or (kind == "text-plain" and 0 < len(text) <= _MOST_OF_FILE):
        return text
    if kind == "tool_call" and include_tools:
        given = block.get("args")
        arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
        return f"[tool call: {block.get('name')} {arguments}]"
    medium = (
        _KINDS.get(str(block.get("mime_type")).partition("/")[0], "file") if kind == "media" else _KINDS.get(str(kind))
    )
    return f"[{medium}]" if medium else ""


def _block_texts(blocks: Iterable[Mapping[str, object]], *, include_tools: bool) -> list[str]:
    """What blocks tell, each by itself; an answer that is in blocks for its citations goes on without a break."""
    texts: list[str] = []
    before: Mapping[str, object] = {}
    for block in blocks:
        text = _block_text(block, include_tools=include_tools)
        are_texts = before.get("type") in _TEXTS and block.get("type") in _TEXTS
        if are_texts and any(each.get(key) for each in (before, block) for key in ("annotations", "citations")):
            texts[-1] += text
        else:
            texts.append(text)
        before = block
    return texts


def _standard(block: Mapping[str, object]) -> Mapping[str, object]:
    """A block as its provider has it, where LangChain knows no standard form for it."""
    value = block.get("value")
    return value if block.get("type") == "non_standard" and isinstance(value, Mapping) else block


def _last_words(steps: str) -> str:
    start = f"\n{steps}".rfind("\nThought: ")
    answer = steps[start:].partition("\nAnswer: ")[2]
    return answer if answer and steps.startswith("Thought: ") else steps


def _without_code(text: str) -> str:
    said, *others = text.split("<execute>")
    if not others:
        return text
    ends = (each.partition("</execute>") for each in others)
    return "".join([said, *(after if closed else f"<execute>{begun}" for begun, closed, after in ends)]).strip()


def _times(*sources: Mapping[str, object]) -> list[datetime]:
    """The moments that are plainly given, as a datetime or as ISO-8601 text."""
    given = [source.get(key) for source in sources for key in _TIME_KEYS]
    return [moment for value in given if (moment := _time(value)) is not None]


def _time(value: object) -> datetime | None:
    """Read a time of a framework; one without a zone is in UTC, since its message must not be lost for it."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    return (value if value.tzinfo else value.replace(tzinfo=UTC)) if isinstance(value, datetime) else None


class Message(ValidatedModel, Value):
    """One turn of a conversation.

    Attributes:
        role: Who speaks: ``user``, ``assistant``, or any other name, such as that of one of several users; kept as
            given, shown in lower case.
        content: What was said; not blank.
        timestamp: When; None is filled with the current time where the message is stored.

    Raises:
        ValidationError: A field is missing, unknown, or breaks a rule.
    """

    role: ShortText
    content: NonBlankText
    timestamp: UTCDateTime | None = None

    @classmethod
    def from_langchain(
        cls, message: LangChainMessage, *, include_tools: bool = False, without: Container[object] = ()
    ) -> Self | None:
        """Convert a LangChain message: texts, ``[image]`` for an image and so on, no thoughts; None if empty.

        Args:
            message: Any ``BaseMessage``; ``human`` becomes its ``name`` or else ``user``, ``ai`` becomes ``assistant``.
                Its time is ``timestamp`` or ``created_at`` in its metadata, if that is a datetime or ISO-8601 text.
            include_tools: Also tell the tools that are called, and what they answer.
            without: Names of tools that are not told.
        """
        name = getattr(message, "name", None)
        kind = message.type.removesuffix("MessageChunk").lower()
        role = str(getattr(message, "role", kind)) if kind == "chat" else kind
        if kind == "tool" and name in without:
            return None
        blocks = (
            each for each in message.content_blocks if each["type"] != "tool_call" or each.get("name") not in without
        )
        parts = _block_texts(map(_standard, blocks), include_tools=include_tools)
        times = _times(message.additional_kwargs, message.response_metadata)
        further = {**message.additional_kwargs, "name": name}
        said = _reading(role, parts, times, further, include_tools=include_tools)
        return None if said is None else cls(**said._asdict())

    @classmethod
    def from_llama_index(cls, message: LlamaIndexMessage, *, include_tools: bool = False) -> Self | None:
        """Convert a LlamaIndex ``ChatMessage``, as :meth:`from_langchain` does; None if it is empty.

        The ``name`` is that in ``additional_kwargs``.
        """
        said = read_llama_index(message, include_tools=include_tools)
        return None if said is None else cls(**said._asdict())


MessageLike: TypeAlias = Message | Mapping[str, object] | pydantic.BaseModel
"""A message, or one as ``{"role": …, "content": …}``, with a ``timestamp`` if it has one, or in OpenAI's form: a
mapping, or what a client answers with, such as ``completion.choices[0].message``; or one of LangChain or LlamaIndex."""

PLAIN_ROLES: Final = {"human": "user", "ai": "assistant"}
_CALLS: Final = frozenset({"tool_calls", "function_call"})
_THOUGHTS: Final = frozenset({"reasoning", "reasoning_content", "reasoning_details", "thinking"})  # of other servers
CHAT_FIELDS: Final = _CALLS | _THOUGHTS | {"name", "tool_call_id", "refusal", "audio", "annotations"}


def plain_message(given: object) -> object:
    """Read the roles ``human`` and ``ai`` as ``user`` and ``assistant``; what is no message stays as it is.

    One of OpenAI's chat API, or of a framework, is read as :meth:`Message.from_langchain` does; None without any text.

    >>> plain_message({"role": "human", "content": "Hello"})
    {'role': 'user', 'content': 'Hello'}
    >>> plain_message({"role": "user", "name": "Al", "content": [{"type": "text", "text": "Hello"}]})
    {'role': 'Al', 'content': 'Hello'}

    Raises:
        ValueError: A part of the content is neither text nor an object with a type, or has another form than it names.
    """
    if (read := _reader_of(given)) is not None:
        try:
            given = read(given)
        except (AttributeError, KeyError, TypeError) as error:  # LangChain reads content of any form, and may stumble
            raise ValueError(f"the content of this {type(given).__name__} cannot be read: {error!r}") from error
    role = given.get("role") if isinstance(given, Mapping) else getattr(given, "role", None)
    plain = PLAIN_ROLES.get(role.strip().lower()) if isinstance(role, str) else None
    if isinstance(given, Mapping):
        return _of_chat(dict(given) if plain is None else {**given, "role": plain})
    return given.model_copy(update={"role": plain}) if plain is not None and isinstance(given, Message) else given


def _reader_of(given: object) -> Callable[[Any], object] | None:
    """What reads a message of another package, told by its fields: each client and framework has its own classes."""
    if not isinstance(given, pydantic.BaseModel) or isinstance(given, Value):
        return None
    fields = type(given).model_fields.keys()
    if {"type", "content", "additional_kwargs"} <= fields and hasattr(type(given), "content_blocks"):
        return Message.from_langchain
    if {"role", "blocks", "additional_kwargs"} <= fields and "content" not in fields:  # it is a property there
        return Message.from_llama_index
    if not {"role", "content"} <= fields:
        return None
    return lambda given: given.model_dump(include={"role", "content", "timestamp", *CHAT_FIELDS}, warnings=False)


def _of_chat(given: dict[str, object]) -> dict[str, object] | None:
    role, content = given.get("role"), given.get("content")
    plain = {name: value for name, value in given.items() if name not in CHAT_FIELDS}
    if content is None and (any(map(given.get, _CALLS)) or (role == "assistant" and "content" in given)):
        content = []
    elif isinstance(content, str) and (len(plain) < len(given) or (role == "assistant" and _THOUGHT.match(content))):
        content = [content]
    if not isinstance(role, str) or not isinstance(content, list | tuple):
        return plain
    said = _reading(role, map(_part_text, content), (), given, include_tools=False)
    return None if said is None else {**plain, "role": said.role, "content": said.content}


def _part_text(given: object) -> str:
    if isinstance(given, str):
        return given
    text = given.get("text", "") if isinstance(given, Mapping) and isinstance(given.get("type"), str) else None
    if isinstance(given, Mapping) and isinstance(text, str) and ("text" in given or given["type"] not in _TEXTS):
        return _block_text(given, include_tools=False)
    raise ValueError('a part of content is text, or an object such as {"type": "text", "text": ...}')


def _if_said(given: object, check: pydantic.ValidatorFunctionWrapHandler) -> object:
    plain = plain_message(given)
    return None if plain is None and given is not None else check(plain)


IfSaid: TypeAlias = Annotated[MessageT, pydantic.WrapValidator(_if_said)]
"""A message, or None where one of OpenAI's chat API has no text."""

Said: TypeAlias = Annotated[
    tuple[IfSaid[MessageT], ...], pydantic.FailFast(), pydantic.AfterValidator(lambda said: tuple(filter(None, said)))
]
"""Messages, of which those without any text are left out."""

_MESSAGES: Final = pydantic.TypeAdapter(Said[Message])


def messages_of(given: Iterable[MessageLike], *, name: str = "messages") -> tuple[Message, ...]:
    """Check messages that may be given as mappings; a complaint begins with the name of the argument.

    Raises:
        ValidationError: One is neither a message nor a mapping with role and content, or a field breaks a rule.
    """
    listed = tuple(listed_messages(given, name=name, of='{"role": ..., "content": ...}'))
    for place, each in enumerate(listed):
        if not isinstance(each, Message | Mapping) and _reader_of(each) is None:
            raise ValidationError(
                f'{name}.{place}: Input should be a Message, {{"role": ..., "content": ...}}, or one of LangChain or '
                f"LlamaIndex, not {type(each).__name__}"
            )
    try:
        return _MESSAGES.validate_python(listed)
    except pydantic.ValidationError as error:
        raise ValidationError.from_pydantic(error, within=name) from error


def listed_messages(given: Iterable[MessageT], *, name: str, of: str) -> Iterable[MessageT]:
    """Refuse what is no list of messages ``of`` this form: a text, None, a single message with its fields."""
    is_record = getattr(type(given), "__iter__", None) is pydantic.BaseModel.__iter__  # which gives names and values
    if is_record or isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ValidationError(f"{name} must be a list of messages or of {of}, not {type(given).__name__}")
    return given


MOST_NAMED: Final = 100  # messages that are named in one call


def named_messages(given: Iterable[MessageLike | str]) -> tuple[Message | str, ...]:
    """Check what names messages: their words alone, or messages.

    Raises:
        ValidationError: It is neither, is blank, or names too many.
    """
    listed = [*islice(listed_messages(given, name="messages", of="their words"), MOST_NAMED + 1)]
    messages_of([{"role": "user", "content": each} if isinstance(each, str) else each for each in listed])
    if len(listed) > MOST_NAMED:
        raise ValidationError(f"messages has more than {MOST_NAMED} items: forget the others with further calls")
    texts = [storable(each) for each in listed if isinstance(each, str)]
    return (*texts, *messages_of([each for each in listed if not isinstance(each, str)]))
