"""From what a model answered to an object that fits a schema, whatever form the answer has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import pydantic
from pydantic import BaseModel

from memory_retrievers.errors import ValidationError

AnswerT = TypeVar("AnswerT", bound=BaseModel)

MAX_FALSE_STARTS = 100
"""So many braces that open no JSON object are passed over in an answer, which keeps the search for one quick."""


class UnusableAnswerError(Exception):
    """An answer that does not fit; it never leaves this package.

    Args:
        complaint: Why, without a word of the answer.
        raw: The answer, if it is known.
    """

    def __init__(self, complaint: str, *, raw: str | None = None) -> None:
        super().__init__(complaint)
        self.complaint = complaint
        self.raw = raw


def complaint_of(error: pydantic.ValidationError) -> str:
    """What does not fit, in one line, without the values themselves."""
    return str(ValidationError.from_pydantic(error))


def checked(answer: object, schema: type[AnswerT]) -> AnswerT:
    """The answer as an instance of the schema.

    Raises:
        UnusableAnswerError: There is none, or it does not fit.
    """
    if answer is None:
        raise UnusableAnswerError("there was none")
    if isinstance(answer, str):
        return _found_in(answer, schema)
    content = answer.model_dump() if isinstance(answer, BaseModel) and not isinstance(answer, schema) else answer
    try:
        return schema.model_validate(content)
    except pydantic.ValidationError as error:
        raw = json.dumps(content, ensure_ascii=False, default=repr)
        raise UnusableAnswerError(complaint_of(error), raw=raw) from error


def _found_in(text: str, schema: type[AnswerT]) -> AnswerT:
    """The last JSON object in the text that fits: a model that thinks aloud gives its answer at the end."""
    complaint = "it holds no JSON object"
    for content in reversed(list(_json_objects(text))):
        try:
            return schema.model_validate(content)
        except pydantic.ValidationError as error:
            complaint = complaint_of(error)
    raise UnusableAnswerError(complaint, raw=text)


def _json_objects(text: str) -> Iterator[object]:
    """The JSON objects in a text, in order, whatever stands around them, but not those within others."""
    decoder = json.JSONDecoder(strict=False)  # small models break lines within strings
    start, false_starts = text.find("{"), 0
    while start >= 0 and false_starts < MAX_FALSE_STARTS:
        try:
            content, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            false_starts += 1
            end = start + 1
        else:
            yield content
        start = text.find("{", end)
