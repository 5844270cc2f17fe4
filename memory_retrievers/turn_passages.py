"""What a memory is searched by: a text that stands for it as a whole, and one for each message of an episode.

A message is found by its words with speaker and date, and by the vector of what was said alone, which is nearer to a
question than with the date before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, EpisodicMemory
from memory_retrievers.passages import TURN, NewPassage
from memory_retrievers.text import one_line
from memory_retrievers.time_expressions import long_date, tells_time

if TYPE_CHECKING:  # importing the package loads no numpy
    from memory_retrievers.passages import Vector, Vectors

Searched: TypeAlias = Literal["summary", "turns"]
"""What of an episode is searched: what stands for it as a whole, or its messages as well."""

_PREFIX: Final = f"{TURN} "


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageText:
    """A passage without its vector.

    Attributes:
        part: Which text of the memory it is: its kind, or ``turn 3``.
        text: What its words are found by.
        embedded: What its vector is made of.
        speaker: Who says it, if it is a message.
        tells_time: Whether it is a message that tells when something happens.
    """

    part: str
    text: str
    embedded: str
    speaker: str | None = None
    tells_time: bool = False


def passage_texts(memory: AnyMemory, *, searched: Searched) -> list[PassageText]:
    """All passages of a memory: the whole of it first, then its messages in their order; none if it is not searched."""
    if not memory.is_searchable:
        return []
    whole = PassageText(part=memory.kind, text=memory.search_text, embedded=memory.embedding_text)
    if searched == "summary" or not isinstance(memory, EpisodicMemory):
        return [whole]
    turns = (turn_text(memory, place) for place in range(len(memory.messages)))
    return [whole, *(turn for turn in turns if turn is not None)]


def passage_text(memory: AnyMemory, part: str) -> PassageText | None:
    """The passage of this part; None if the memory has none, since its messages were erased, say."""
    if part == memory.kind:
        return PassageText(part=part, text=memory.search_text, embedded=memory.embedding_text)
    place = turn_place(part)
    if place is None or not isinstance(memory, EpisodicMemory) or place >= len(memory.messages):
        return None
    return turn_text(memory, place)


def turn_text(episode: EpisodicMemory, place: int) -> PassageText | None:
    """The passage of a message; None if nothing of it can be seen.

    Args:
        episode: Whose message.
        place: Which, from 0.
    """
    message = episode.messages[place]
    if not one_line(message.content):
        return None
    said = _said(message)
    return PassageText(
        part=f"{_PREFIX}{place}",
        text=f"{long_date(message.timestamp or episode.start_at)} {said}",
        embedded=said,
        speaker=message.role,
        tells_time=tells_time(message.content),
    )


def turn_place(part: str) -> int | None:
    """The place of the message that a passage is, from 0; None for one that is no message."""
    place = part.removeprefix(_PREFIX)
    return int(place) if place != part and place.isascii() and place.isdecimal() else None


def with_vectors(
    texts: Sequence[Sequence[PassageText]], embed: Callable[[list[str]], Vectors]
) -> list[list[NewPassage]]:
    """The passages of several memories, embedded in one batch.

    Args:
        texts: Those of each memory; the passages come in the same order.
        embed: Gives the unit vectors of texts; it is not called for none.
    """
    wanted = [text.embedded for its_texts in texts for text in its_texts]
    vectors = iter(embed(wanted) if wanted else ())
    return [[_with_vector(text, next(vectors)) for text in its_texts] for its_texts in texts]


def _with_vector(text: PassageText, vector: Vector) -> NewPassage:
    return NewPassage(part=text.part, text=text.text, vector=vector, speaker=text.speaker, tells_time=text.tells_time)


def _said(message: Message) -> str:
    return f"{message.role}: {one_line(message.content)}"
