"""A query and what it tells without any model: its terms, the dates it names, whether it asks for anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from memory_retrievers.text import SMALL_TALK, STOP_WORDS, analyze
from memory_retrievers.text.dates import MONTHS

_MONTHS: Final = tuple(month.lower() for month in MONTHS)
_MONTH: Final = f"(?P<month>{'|'.join(f'{month}|{month[:3]}' for month in _MONTHS)}|sept)"
_DAY: Final = r"(?:\d{1,2}(?:st|nd|rd|th)?)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_NAMED_MONTH: Final = re.compile(
    rf"\b(?:(?P<day>{_DAY})(?: of)? )?{_MONTH}\b\.?(?: (?P<later_day>{_DAY})\b)?(?:(?:,| of)? {_YEAR})?\b"
)
_WRITTEN_DATE: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?:-\d\d)?\b")
_BARE_YEAR: Final = re.compile(rf"\b{_YEAR}\b")
_VERBS: Final = frozenset({"may", "mar", "march", "sun", "dec", "jan"})
"""Months that are words or names as well: alone they are not taken for a month."""

_PREPOSITIONS: Final = (" in", " of", " during", " since", " until", " by", " last", " this")

_ASKS_WHEN: Final = re.compile(
    r"^\W*(?:when|since when|(?:on |in )?(?:what|which) (?:day|date|week|month|year)|how long ago)\b"
    r"|^\W*(?:wann|quand|cuándo|quando)\b"
    r"|什么时候|什麼時候|何时|いつ|언제",
    re.IGNORECASE,
)
_SMALL_TALK_CHARACTERS: Final = 60
_COMMON_FROM: Final = 10
"""A word that at most so many passages have is never common: among few passages shares mean little."""

_CONTRACTED: Final = re.compile(r"['’](?:s|d|m|ll|re|ve)$")


class AskedDate(NamedTuple):
    """A date a question names: a month, with or without its year, or a year alone."""

    year: int | None
    month: int | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its features that need no model.

    Attributes:
        text: As it was asked.
        terms: Its search terms, repetitions kept.
        dates: The dates it names.
        asks_when: Whether it asks for a time.
        is_small_talk: Whether it is a greeting, thanks or the like, which no memory bears on.
    """

    text: str
    terms: list[str]
    dates: tuple[AskedDate, ...]
    asks_when: bool
    is_small_talk: bool

    @classmethod
    def parse(cls, text: str) -> Question:
        """Parse a query.

        >>> Question.parse("What did Ruth plant in May 2023?").dates
        (AskedDate(year=2023, month=5),)
        >>> Question.parse("When may I call?").dates, Question.parse("When may I call?").asks_when
        ((), True)
        >>> Question.parse("Good morning, how are you?").is_small_talk
        True
        """
        return cls(
            text=text,
            terms=analyze(text),
            dates=tuple(_dates(text.lower())),
            asks_when=_ASKS_WHEN.search(text) is not None,
            is_small_talk=_is_small_talk(text),
        )

    def without_common(self, frequencies: Mapping[str, int], *, passages: int, share: float) -> str:
        """Drop the words that more than a share of the passages have, such as a speaker's name.

        An embedder takes them for the subject, and puts every greeting first that names them. Stop words stay, since
        they hold the sentence together; a question of nothing else but common words stays whole. Among few passages
        no word is common.

        Args:
            frequencies: In how many passages each term stands.
            passages: How many passages there are.
            share: The share, 0 to 1.
        """
        most = max(share * passages, _COMMON_FROM)
        if share >= 1 or not any(frequency > most for frequency in frequencies.values()):
            return self.text
        words = self.text.split()
        kept = [word for word in words if not _is_common(word, frequencies, most)]
        return " ".join(kept) if any(_says_something(word) for word in kept) else self.text

    def names(self, speaker: str) -> bool:
        """True if the query contains the speaker's name as whole words, regardless of case."""
        return re.search(rf"(?<!\w){re.escape(speaker.casefold())}(?!\w)", self.text.casefold()) is not None


_PARTS: Final = re.compile(r"[,.;:!?…\n]+")
_QUESTION_WORDS: Final = frozenset(
    ["how", "what", "what's", "when", "where", "which", "who", "who's", "whom", "whose", "why"]
)
_SMALL_QUESTIONS: Final = frozenset(
    {
        *(
            "how are you",
            "how are you doing",
            "how are you today",
            "how do you do",
            "how's it going",
            "how is it going",
        ),
        *("what's up", "who are you", "what can you do", "how can you help", "how can you help me"),
    }
)
"""Questions about nothing that was ever told; any other question is one."""


def _is_small_talk(text: str) -> bool:
    if len(text) > _SMALL_TALK_CHARACTERS:
        return False
    parts = (" ".join(part.casefold().replace("’", "'").split()) for part in _PARTS.split(text))
    return all(part in _SMALL_QUESTIONS or _is_filler(part.split()) for part in parts)


def _is_filler(words: list[str]) -> bool:
    bare = [_CONTRACTED.sub("", re.sub(r"^\W+|\W+$", "", word)) for word in words]
    if not _QUESTION_WORDS.isdisjoint(words):
        return False
    return all(not word or word in SMALL_TALK or word in STOP_WORDS for word in bare)


def _is_common(word: str, frequencies: Mapping[str, int], most: float) -> bool:
    terms = analyze(_CONTRACTED.sub("", word.strip("?.!,;:'\"()…"))) if _says_something(word) else []
    return bool(terms) and all(frequencies.get(term, 0) > most for term in terms)


def _says_something(word: str) -> bool:
    bare = _CONTRACTED.sub("", re.sub(r"^\W+|\W+$", "", word.casefold()))
    return bool(bare) and bare not in STOP_WORDS


def _dates(text: str) -> Iterable[AskedDate]:
    found: list[AskedDate] = [AskedDate(int(each["year"]), int(each["month"])) for each in _WRITTEN_DATE.finditer(text)]
    for each in _NAMED_MONTH.finditer(text):
        is_dated = each["year"] or each["day"] or each["later_day"]
        if is_dated or each["month"] not in _VERBS or _follows_preposition(text, each.start()):
            month = next(number for number, name in enumerate(_MONTHS, start=1) if name.startswith(each["month"][:3]))
            found.append(AskedDate(None if each["year"] is None else int(each["year"]), month))
    return dict.fromkeys(found or [AskedDate(int(each["year"]), None) for each in _BARE_YEAR.finditer(text)])


def _follows_preposition(text: str, position: int) -> bool:
    return f" {text[:position]}".rstrip().endswith(_PREPOSITIONS)
