"""The sockets of the write path: who cuts conversations into segments, and who judges how memories served."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memory_retrievers.messages import Message
from memory_retrievers.models import EpisodicMemory, Rating

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a conversation that becomes one episode.

    Attributes:
        messages: How many messages it takes, from where the segment before ended; at least 1.
        title: A headline; may be empty.
        summary: What happened, in a sentence or two; may be empty, and is made from the messages then.
        surprise: How unexpected it was, 0 to 1.
    """

    messages: int
    title: str
    summary: str
    surprise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What a segmenter may know beside the messages.

    Attributes:
        previous_summary: The summary of the episode before, if it belongs to the same run of messages.
        recent: The scope's newest episodes, newest first; what is far from them is surprising.
        embed: Unit vectors of texts, by the store's embedder: shape (number of texts, dimension).
    """

    previous_summary: str | None
    recent: Sequence[EpisodicMemory]
    embed: Callable[[Sequence[str]], Vectors]


class Segmenter(Protocol):
    """Cuts a run of messages into segments."""

    def segment(self, messages: Sequence[Message], background: Background) -> list[Segment]:
        """The segments, in order; together they take exactly all messages. One segment means: no border seen.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedMemory:
    """An episode that was retrieved, and is to be judged.

    Attributes:
        id: How the judge names it in the answer; any text, unique within a call.
        memory: The episode.
        queries: What it was found by, in order, repeats included.
    """

    id: str
    memory: EpisodicMemory
    queries: tuple[str, ...]


class Judge(Protocol):
    """Says how retrieved memories served a conversation (specification §2.14)."""

    def rate(
        self,
        conversation: Sequence[Message],
        memories: Sequence[ReviewedMemory],
        *,
        embed: Callable[[Sequence[str]], Vectors],
    ) -> Mapping[str, Rating]:
        """A rating by id for those it has an opinion on; others keep their state.

        Raises:
            LanguageModelError: A language model failed, or its answer cannot be used.
            EmbeddingError: The embedder failed.
        """
        ...
