"""Stand-ins that behave the same every time: a clock, an embedder and a language model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from memory_retrievers.errors import LanguageModelError
from memory_retrievers.text import analyze

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class FixedClock:
    """A clock that stands still until it is told to move.

    >>> clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    >>> clock.advance(days=2)
    >>> clock.now().isoformat()
    '2026-03-03T00:00:00+00:00'
    """

    def __init__(self, now: datetime) -> None:
        self._now = now if now.tzinfo else now.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """The moment it stands at."""
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move on, or back if the sum is negative."""
        self._now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


class HashEmbedder:
    """Embeds text as hashed words: texts that share words are near each other, and nothing has to be loaded.

    The shape is that of LangChain's ``Embeddings``. Vectors are the same in every process and have unit length.

    Args:
        dimension: Length of the vectors.
    """

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text."""
        vector = [0.0] * self.dimension
        for term in analyze(text) or [text]:
            digest = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest()
            position = int.from_bytes(digest, "little")
            vector[position % self.dimension] += 1.0 if digest[-1] & 1 else -1.0
        length = math.hypot(*vector)
        if length == 0.0:  # two words cancelled each other out
            vector[0] = length = 1.0
        return [component / length for component in vector]


class ScriptedLanguageModel:
    """A ``protocols.LanguageModel`` that gives prepared answers in turn and keeps what it was asked.

    Args:
        answers: What to answer: objects or plain dictionaries that fit the schema asked for, or an exception to raise.

    Attributes:
        prompts: The (system, user) pairs it was given, oldest first.
    """

    def __init__(self, answers: Iterable[BaseModel | dict[str, object] | Exception]) -> None:
        self._answers = list(answers)
        self.prompts: list[tuple[str, str]] = []

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """The next answer, as an instance of ``schema``.

        Raises:
            LanguageModelError: The script is over, or the answer does not fit the schema.
        """
        self.prompts.append((system, user))
        if not self._answers:
            raise LanguageModelError("the script of this language model is over")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        try:
            return schema.model_validate(answer if isinstance(answer, dict) else answer.model_dump())
        except ValidationError as error:
            raise LanguageModelError(f"the scripted answer does not fit {schema.__name__}: {error}") from error
