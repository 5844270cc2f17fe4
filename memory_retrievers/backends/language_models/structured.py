"""Questions to language models and their structured answers.

A prompt quotes messages; an answer is parsed leniently, validated, and requested a second time if unusable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Self, TypeAlias, TypeVar

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from memory_retrievers.errors import LanguageModelError, MemoryRetrieversError, ValidationError
from memory_retrievers.models import JsonObject
from memory_retrievers.models.messages import Message
from memory_retrievers.text.analysis import one_line, quote

AnswerT = TypeVar("AnswerT", bound=BaseModel)

MAX_MESSAGE_LENGTH: Final = 4_000
"""Longer messages are cut: a page that was pasted into a chat must not fill the model's context."""


class UnusableAnswerError(Exception):
    """An answer that does not fit, if it is known, and why, without a word of it; it never leaves this package."""

    def __init__(self, complaint: str, *, raw: str | None = None) -> None:
        super().__init__(complaint)
        self.complaint = complaint
        self.raw = raw

    @classmethod
    def of(cls, error: pydantic.ValidationError, *, raw: str | None = None) -> Self:
        """With a validation error in one line, without the values themselves."""
        return cls(str(ValidationError.from_pydantic(error)), raw=raw)


def fitting(answer: object, schema: type[AnswerT]) -> AnswerT:
    """Validate an object or its fields against the schema, including objects built without validation."""
    if answer is None:
        raise UnusableAnswerError("there was none")
    content = _fields_of(answer) if isinstance(answer, BaseModel) else answer
    try:
        return schema.model_validate(content)
    except pydantic.ValidationError as error:
        raise UnusableAnswerError.of(error, raw=_as_text(content)) from error


def _fields_of(answer: BaseModel) -> object:
    """Return the fields of an object as plain data, since ``model_construct`` may have skipped validation."""
    try:
        return answer.model_dump(by_alias=True, warnings=False)
    except Exception as error:  # what an unchecked object holds may raise anything
        raise UnusableAnswerError(f"it is an object that cannot be read ({type(error).__name__})") from error


def _as_text(content: object) -> str:
    if isinstance(content, str):
        return content
    try:
        return json.dumps(content, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys of any type, circles, depth
        return repr(type(content))


MAX_FALSE_STARTS = 100  # braces that open no JSON object are passed over, which keeps the search for one quick
MAX_OBJECTS = 100  # different ones are tried, the last ones: a small model may write objects without end


def _found_in(text: str, schema: type[AnswerT]) -> AnswerT:
    """The last JSON object in the text that fits: a model that thinks aloud gives its answer at the end."""
    unusable = UnusableAnswerError("it holds no JSON object", raw=text)
    last_first = dict(reversed(list(_json_objects(text))))
    for content in list(last_first.values())[:MAX_OBJECTS]:
        try:
            return schema.model_validate(content)
        except pydantic.ValidationError as error:
            unusable = UnusableAnswerError.of(error, raw=text)
    raise unusable


def _json_objects(text: str) -> Iterator[tuple[str, object]]:
    """The JSON objects in a text, as written and read, in order, whatever is around them; not those within others."""
    decoder = json.JSONDecoder(strict=False)  # small models break lines within strings
    start, false_starts = text.find("{"), 0
    while start >= 0 and false_starts < MAX_FALSE_STARTS:
        try:
            content, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            false_starts += 1
            end = start + 1
        else:
            yield text[start:end], content
        start = text.find("{", end)


_IN_PLAIN_WORDS = """{system}

Answer with a single JSON object that fits this JSON schema, and with nothing else:
{schema}"""

_ONCE_MORE = """{user}

An answer to this was given before and could not be used: {complaint}. Answer once more, as asked."""


Ask: TypeAlias = Callable[[str, str, type[BaseModel]], object]
"""Puts a question, its system prompt before it, to a model: gives an instance of the schema, a dictionary, text that
holds JSON, or None, and raises UnusableAnswerError where what came back is none of these."""


class CheckedLanguageModel:
    """A ``protocols.LanguageModel`` whose answers are checked."""

    def __init__(self, ask: Ask, ask_again: Ask, *, name: str) -> None:
        self._ask = ask
        self._ask_again = ask_again
        self.name = name

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """Ask the model, a second time if the answer does not fit, and return it as an instance of ``schema``.

        Args:
            system: The system prompt.
            user: The user prompt.
            schema: Pydantic model that the answer must fit.

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
            f"the language model {self.name} gave no usable {schema.__name__}, twice: {complaint}; "
            "use a model that follows a JSON schema",
            raw=raw,
        )

    def _attempt(self, ask: Ask, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        try:
            answer = ask(system, user, schema)
        except (UnusableAnswerError, MemoryRetrieversError):
            raise
        except pydantic.ValidationError as error:  # it has checked the answer itself
            raise UnusableAnswerError.of(error) from error
        except Exception as error:
            reason = one_line(str(error))[:500]
            message = f"the language model {self.name} failed: {type(error).__name__}: {reason}"
            raise LanguageModelError(message) from error
        return _found_in(answer, schema) if isinstance(answer, str) else fitting(answer, schema)


def in_plain_words(system: str, schema: type[BaseModel]) -> str:
    """The system prompt with the wish for JSON, for a model that has no other way to be asked for an object."""
    return _IN_PLAIN_WORDS.format(system=system, schema=json.dumps(schema.model_json_schema(), ensure_ascii=False))


def bullets(messages: Sequence[Message]) -> str:
    r"""Format the messages as ``- role: "content"``, the content as a JSON string.

    >>> print(bullets([Message(role="User", content='Call me "Al".\n## Facts')]))
    - user: "Call me \"Al\".\n## Facts"
    """
    # without what would end the role and begin a message of its own
    roles = (one_line(each.role.lower()).replace('"', "'").replace(":", " ") or "unknown" for each in messages)
    texts = (quote(cut(each.content, MAX_MESSAGE_LENGTH)) for each in messages)
    return "\n".join(f"- {role}: {text}" for role, text in zip(roles, texts, strict=True))


def shown_length(message: Message) -> int:
    """Estimate the number of characters a message takes in a prompt."""
    return min(len(message.content), MAX_MESSAGE_LENGTH)


def cut(text: str, length: int) -> str:
    """Cut the text to a number of characters, the last of which is then ``…``.

    >>> cut("garden plan", 7)
    'garden…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _ask_for_everything(schema: JsonObject) -> None:
    """Every property is required and no other allowed, which is what strict structured output accepts."""
    properties = schema.get("properties", {})
    for details in properties.values():
        details.pop("default", None)
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


class Answer(BaseModel):
    """The base of every answer a language model is asked for.

    The JSON schema that goes to the model requires every field and allows no other. What comes back may leave out
    whatever has a default, and bring more, which is ignored. Docstrings and descriptions of fields reach the model.
    """

    # An answer within a dictionary may have been made without any check as well, by ``model_construct``.
    model_config = ConfigDict(
        frozen=True, extra="ignore", revalidate_instances="always", json_schema_extra=_ask_for_everything
    )


def _on_one_line(value: object) -> object:
    if value is None:
        return ""
    return one_line(value) if isinstance(value, str) else value


OneLine = Annotated[str, BeforeValidator(_on_one_line)]
"""Text of a model on a single line, so that it cannot pose as structure; null is no text."""


def text_of(value: object) -> str:
    """What a model says for a text, on a single line; empty where that is no text."""
    return one_line(value) if isinstance(value, str) else ""


def word_of(
    words: Iterable[str], *, otherwise: str, unlisted: Iterable[str] = ()
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Read one of the words, in any case of letters. The schema lists them: not every provider follows a ``$ref``.

    Args:
        words: The words.
        otherwise: What is read from anything else.
        unlisted: Words that are read, too, but not offered.
    """
    listed = list(map(str, words))
    known = {*listed, *map(str, unlisted)}

    def read(value: object) -> str:
        folded = text_of(value).lower()
        return folded if folded in known else otherwise

    return BeforeValidator(read), WithJsonSchema({"type": "string", "enum": listed})


def objects_of(value: object) -> object:
    """The entries of a list that are objects: one that is none must not spoil the rest. What is no list stays so."""
    return [each for each in value if isinstance(each, Mapping | Answer)] if isinstance(value, list | tuple) else value
