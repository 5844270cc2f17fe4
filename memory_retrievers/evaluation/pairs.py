"""Reads a user's own questions: each with the memories that answer it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.fields import NonBlankText
from memory_retrievers.memory import AgentMemory


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    scope: str
    query: NonBlankText
    memory_ids: Annotated[list[str], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A question, and the memories that answer it.

    Attributes:
        line: Where in the file it stands, from 1.
        scope: Whose memories are searched.
        query: The question.
        memory_ids: The ids of the right memories; at least one.
    """

    line: int
    scope: str
    query: str
    memory_ids: frozenset[str]

    def is_held_out(self, seed: int) -> bool:
        """Whether it is kept for the test; about every second one is, and the same ones for the same seed."""
        told = f"{seed}\n{self.scope}\n{self.query}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(told, digest_size=1).digest()[0] % 2 == 1


def load(path: Path) -> list[Pair]:
    """The pairs of a file, one JSON object a line; blank lines are passed over.

    Raises:
        ConfigurationError: The file cannot be read.
        ValidationError: A line is no pair, which the message names, or there is none.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValidationError(f"{path} is no UTF-8 text: {error}") from error
    pairs = [_pair(line, number) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]
    if not pairs:
        raise ValidationError(
            f'{path} holds no question: give each a line {{"scope": "…", "query": "…", "memory_ids": ["…"]}}'
        )
    return pairs


def check(pairs: Sequence[Pair], memory: AgentMemory) -> None:
    """Refuse pairs whose memories are not there: what cannot be found would count as not found.

    Raises:
        ValidationError: A memory is not in the scope of its question, or the scope is malformed; the line is named.
    """
    for pair in pairs:
        for right in sorted(pair.memory_ids):
            try:
                memory.get(right, scope=pair.scope)
            except NotFoundError:
                raise ValidationError(
                    f"line {pair.line}: there is no memory {right!r} in the scope {pair.scope!r}"
                ) from None
            except ValidationError as error:
                raise ValidationError(f"line {pair.line}: {error}") from error


def _pair(line: str, number: int) -> Pair:
    try:
        told = _Line.model_validate_json(line)
    except pydantic.ValidationError as error:
        raise ValidationError(f"line {number}: {ValidationError.from_pydantic(error)}") from error
    return Pair(line=number, scope=told.scope, query=told.query, memory_ids=frozenset(told.memory_ids))
