"""Passages of a memory: one text for the whole of it, one for each message of an episode or further field of an item.

The vector of an item as a whole is that of its first field; the whole stands there for its words.

The words of a message are indexed with speaker and date, but its vector is of speaker and text, which is nearer to a
question than with the date before it. A message has no id: it is named by what a block shows of it.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from memory_retrievers.models import AnyMemory, EpisodicMemory, Origin, SemanticMemory
from memory_retrievers.models.messages import Message
from memory_retrievers.models.selection import ITEM, TOKEN_CHARACTERS, TURN, Embedded, NewPassage
from memory_retrievers.text.analysis import analyze, caseless, indexed_line, one_line
from memory_retrievers.text.dates import long_date, tells_time

Searched: TypeAlias = Literal["summary", "turns"]
"""What of an episode is searched: what stands for it as a whole, or its messages as well."""

ITEM_LENGTHS: Final = "text_lengths"  # metadata key: how long the texts are that newlines join to a store's item
MAX_ITEM_TEXTS: Final = 32  # texts of an item that have vectors of their own

_ITEM_PREFIX: Final = f"{ITEM} "
_PREFIX: Final = f"{TURN} "
_MOST_DIGITS: Final = 9  # so many messages has no episode


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageText:
    """A passage without its vector."""

    part: str  # which text of the memory it is: its kind, or ``turn 3``
    text: str  # what its words are found by
    embedded: str  # what its vector is made of
    speaker: str | None = None  # who says it, if it is a message
    tells_time: bool = False  # whether it is a message that tells when something happens


def passage_texts(memory: AnyMemory, *, searched: Searched) -> list[PassageText]:
    """List all passages of a memory, the whole first, then its messages in order; none if it is not searchable."""
    if not memory.is_searchable:
        return []
    whole = _whole(memory)
    if fields := item_texts(memory):
        others = (PassageText(part=f"{_ITEM_PREFIX}{place}", text=text, embedded=text) for place, text in fields[1:])
        return [whole, *others]
    if searched == "summary" or not isinstance(memory, EpisodicMemory):
        return [whole]
    said = enumerate(memory.messages)
    turns = (message_passage(message, place=place, otherwise=memory.start_at) for place, message in said)
    return [whole, *(turn for turn in turns if turn is not None)]


def _whole(memory: AnyMemory) -> PassageText:
    fields = item_texts(memory)
    return PassageText(
        part=memory.kind, text=memory.search_text, embedded=fields[0][1] if fields else memory.embedding_text
    )


def item_texts(memory: AnyMemory) -> list[tuple[int, str]]:
    """The texts of the fields of a store's item by their places, where it has several and they are as they were put."""
    lengths = memory.metadata.get(ITEM_LENGTHS) if memory.origin is Origin.STORE else None
    if not isinstance(memory, SemanticMemory) or not isinstance(lengths, list):
        return []
    if not all(type(length) is int and length > 0 for length in lengths) or len(lengths) > MAX_ITEM_TEXTS:
        return []
    ends = [*itertools.accumulate(length + 1 for length in lengths if isinstance(length, int))]
    if not ends or ends[-1] - 1 != len(memory.fact):
        return []
    starts = [0, *ends[:-1]]
    return [(place, memory.fact[start : end - 1]) for place, (start, end) in enumerate(zip(starts, ends, strict=True))]


def passage_text(memory: AnyMemory, part: str) -> PassageText | None:
    """Return the passage of this part; None if the memory has none, for example because its messages were erased."""
    if part == memory.kind:
        return _whole(memory)
    if part.startswith(_ITEM_PREFIX):
        return next((text for text in passage_texts(memory, searched="turns") if text.part == part), None)
    place = turn_place(part)
    if place is None or not isinstance(memory, EpisodicMemory) or place >= len(memory.messages):
        return None
    return message_passage(memory.messages[place], place=place, otherwise=memory.start_at)


def message_passage(message: Message, *, place: int = 0, otherwise: datetime | None = None) -> PassageText | None:
    """Build the passage of a message, said at ``otherwise`` if it tells no time; None if it has no visible text."""
    moment = message.timestamp or otherwise
    if moment is None or not (line := indexed_line(message.content)):
        return None
    said = f"{message.role}: {line}"
    return PassageText(
        part=f"{_PREFIX}{place}",
        text=f"{long_date(moment)} {said}",
        embedded=said,
        speaker=message.role,
        tells_time=tells_time(message.content),
    )


def turn_place(part: str) -> int | None:
    """Index of the message that a passage stands for, from 0; None if it is no message."""
    place = part.removeprefix(_PREFIX)
    is_number = place != part and len(place) <= _MOST_DIGITS and place.isascii() and place.isdecimal()
    return int(place) if is_number else None


def with_vectors(
    texts: Sequence[Sequence[PassageText]],
    embed: Callable[[list[str]], Sequence[Embedded]],
    *,
    known: Mapping[str, Embedded] | None = None,
) -> list[list[NewPassage]]:
    """Embed the passages of several memories in one call, and equal texts once.

    Args:
        texts: Passages of each memory; the results are in the same order.
        embed: Embeds n texts; not called without texts.
        known: What is known by the text it was made of, which is not embedded again.
    """
    given = known or {}
    asked = (text.embedded for its_texts in texts for text in its_texts if text.embedded not in given)
    wanted = [*dict.fromkeys(asked)]
    made = dict(zip(wanted, embed(wanted) if wanted else (), strict=True))
    return [
        [
            NewPassage(
                part=text.part,
                text=text.text,
                vector=embedded.vector,
                speaker=text.speaker,
                tells_time=text.tells_time,
                tokens=embedded.tokens,
                terms=tuple(analyze(text.text)),  # here: whoever stores it is waited for
            )
            for text in its_texts
            for embedded in [given.get(text.embedded) or made[text.embedded]]
        ]
        for its_texts in texts
    ]


def said_text(message: Message) -> str:
    """The text that the vector of a message is made of: who says what, without the day."""
    return f"{message.role}: {indexed_line(message.content)}"


def said_terms(text: str, terms: Sequence[str] | None = None) -> array[int]:
    """Hashes of the search terms of what a message says, in order, as far as its token vectors may be of it.

    ``text`` is that of its passage, which begins with the day and who says it; without its ``terms`` it is analyzed.
    """
    if terms is None or len(text) > TOKEN_CHARACTERS:
        terms = analyze(text[:TOKEN_CHARACTERS])
    return array("q", map(hash, terms[len(analyze(text.partition(": ")[0])) :]))


CUT: Final = "…"  # what stands in a block for the parts of a text that are left out
LEAST_SHOWN: Final = 20  # characters that must be given of a text with others left out: else any text were meant


def naming(named: Sequence[Message | str], *, by: str | None = None) -> Callable[[Message], bool]:
    """Return what tells whether a message is one of those that are named.

    A text names each message of these words, also as a block shows it: on one line, with ``…`` for what it leaves out;
    with ``by``, the name of a speaker as a block shows it, theirs alone. A message names those of its speaker and
    words, and of its time if it has one.
    """
    asked = [(one_line(each.content if isinstance(each, Message) else each), each) for each in named]
    only = None if by is None else _as_shown(by)

    def is_named(message: Message) -> bool:
        said, role = one_line(message.content), _as_shown(message.role)
        return any(
            _is_shown(said, text) and only in (None, role)
            if isinstance(each, str)
            else (said, role) == (text, _as_shown(each.role)) and each.timestamp in (None, message.timestamp)
            for text, each in asked
        )

    return is_named


def _as_shown(role: str) -> str:
    return caseless(role).replace("\\", "")  # with which a block keeps a name from being a list or a heading


def _is_shown(text: str, shown: str) -> bool:
    if text == shown or CUT not in shown:
        return text == shown
    first, *between, last = map(str.strip, shown.split(CUT))
    if sum(map(len, (first, *between, last))) < LEAST_SHOWN or not text.startswith(first):
        return False
    place = len(first)
    for part in between:
        place = text.find(part, place) + len(part)
        if place < len(part):
            return False
    return text.endswith(last) and place <= len(text) - len(last)


def longest_words(named: Sequence[Message | str]) -> list[str]:
    """The longest word of each text that is named, which is in each message that is meant as it is; or an empty one."""
    texts = (each.content if isinstance(each, Message) else each.replace(CUT, " ") for each in named)
    words = ([word for word in text.split() if "&" not in word] for text in texts)  # as &lt; stands in a block
    return sorted({max(each, key=len, default="") for each in words})


def said_by(shown: str) -> Iterator[tuple[str, str | None]]:
    """What a message may say that is shown so, and who: the text itself, that behind a speaker, that within quotes."""
    yield shown, None
    line, by = shown.strip().removeprefix("- "), None
    speaker, _, words = line.partition(": ")
    if words.strip() and not line.startswith('"'):
        line, by = words, speaker
        yield line, by
    if line.startswith('"'):
        with suppress(ValueError):
            if (told := str(json.loads(line, strict=False))).strip():
                yield told, by
