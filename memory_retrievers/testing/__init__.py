"""Test doubles, and a look inside a memory, for those who build on the package."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from memory_retrievers.errors import LanguageModelError
from memory_retrievers.text.analysis import analyze

if TYPE_CHECKING:
    from memory_retrievers.backends.sql.keyword import PostingsKeywordIndex
    from memory_retrievers.backends.sql.ledger import SQLLedger
    from memory_retrievers.backends.vectors import ExactVectorIndex


__all__ = ["FixedClock", "HashEmbedder", "Inside", "ScriptedLanguageModel", "inside"]

AnswerT = TypeVar("AnswerT", bound=BaseModel)


class FixedClock:
    """A clock that stands still until it is advanced.

    >>> clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    >>> clock.advance(days=2)
    >>> clock.now().isoformat()
    '2026-03-03T00:00:00+00:00'
    """

    def __init__(self, now: datetime) -> None:
        self._now = now if now.tzinfo else now.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time the clock stands at."""
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the clock forward, or back if the sum is negative.

        Args:
            days: Days to add.
            hours: Hours to add.
            minutes: Minutes to add.
            seconds: Seconds to add.
        """
        self._now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


class HashEmbedder:
    """Embeds text as hashed words: texts that share words are near each other, and no model is loaded.

    The shape is that of LangChain's ``Embeddings``. Vectors are the same in every process and have unit length.

    Args:
        dimension: Length of the vectors.
    """

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts, one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text."""
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
    """A ``protocols.LanguageModel`` that gives prepared answers in turn and records the prompts.

    Args:
        answers: What to answer: objects or plain dictionaries that fit the schema asked for, or an exception to raise.

    Attributes:
        prompts: The (system, user) pairs it was given, oldest first.
    """

    def __init__(self, answers: Iterable[BaseModel | dict[str, object] | Exception]) -> None:
        self._answers = list(answers)
        self.prompts: list[tuple[str, str]] = []

    def generate(self, system: str, user: str, schema: type[AnswerT]) -> AnswerT:
        """Return the next answer as an instance of ``schema``.

        Args:
            system: The system prompt, which is recorded.
            user: The user prompt, which is recorded.
            schema: Pydantic model that the answer must fit.

        Raises:
            LanguageModelError: The script is over, or the answer does not fit the schema.
        """
        self.prompts.append((system, user))
        if not self._answers:
            raise LanguageModelError("this scripted language model has no answer left")
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        try:
            return schema.model_validate(answer if isinstance(answer, dict) else answer.model_dump())
        except ValidationError as error:
            raise LanguageModelError(f"the scripted answer does not fit {schema.__name__}: {error}") from error


def inside(memory: Any) -> Inside:  # noqa: ANN401 - an AgentMemory, which lies above this room
    """Return the parts of an open memory, for tests only.

    Nothing here is kept stable between versions: a test that looks inside may have to change when the package does.

    Raises:
        ConfigurationError: The memory is closed.
    """
    return Inside(memory._engine)  # noqa: SLF001 - this is the one place


class Inside:
    """The parts that a memory is made of; they are its own, not copies.

    Args:
        engine: What all handles of the memory share.

    Attributes:
        store: The ``MemoryStore``: the ledger, both indexes, the embedder and the clock.
        ledger: Where the records are.
        keyword: The keyword engine.
        dense: The vector index.
        embedder: The ``StoreEmbedder``, which knows which embedder the store was filled with.
    """

    def __init__(self, engine: Any) -> None:  # noqa: ANN401 - it lies above this room
        self._engine = engine
        self.store: Any = engine.store
        self.ledger: SQLLedger = engine.store.ledger
        self.keyword: PostingsKeywordIndex = engine.store.keyword
        self.dense: ExactVectorIndex = engine.store.dense
        self.embedder: Any = engine.store.embedder

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a write transaction, for whose end all other writers wait."""
        return self.ledger.database.is_writing

    @property
    def pipeline(self) -> Any:  # noqa: ANN401 - it lies above this room
        """The write path: queue, segmenter, consolidation and reviews."""
        return self._engine.pipeline

    @property
    def adopted(self) -> Any:  # noqa: ANN401 - of a room above this one
        """What is known of a foreign collection that the memory has adopted; None if it has not."""
        return self.store.ledger.adopted
