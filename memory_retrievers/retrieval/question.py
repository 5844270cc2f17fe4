"""A query and what it tells without any model: its terms, the dates it names, whether it asks for anything."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from memory_retrievers.text import SMALL_TALK, STOP_WORDS, analyze
from memory_retrievers.text.dates import MONTHS as ENGLISH_MONTHS
from memory_retrievers.text.dates import tells_time
from memory_retrievers.text.languages import LOCAL_STOP_WORDS, language_of, without_accents
from memory_retrievers.text.periods import MONTHS, Period, periods, plain


def _names(month: str) -> tuple[str, str]:
    return month, month[:3]


_ENGLISH: Final = {name: number for number, month in enumerate(ENGLISH_MONTHS, 1) for name in _names(month.lower())}
_MONTHS: Final = {**MONTHS, **_ENGLISH, "sept": 9}
_MONTH: Final = f"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_DAY: Final = r"(?:\d{1,2}(?:st|nd|rd|th|er|\.)?)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_NAMED_MONTH: Final = re.compile(
    rf"\b(?:(?P<day>{_DAY})(?: of| de)? )?{_MONTH}\b\.?(?: (?P<later_day>{_DAY})\b)?(?:(?:,| of| de| del)? {_YEAR})?\b"
)
_MONTH_BY_NUMBER: Final = re.compile(r"(?:(?P<year>(?:19|20)\d\d)年)?(?<!\d)(?P<month>1[0-2]|0?[1-9])月")
_WRITTEN_DATE: Final = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?:-\d\d)?\b")
_BARE_YEAR: Final = re.compile(rf"\b{_YEAR}\b")
_WORDS: Final = frozenset({"may", "mar", "march", "sun", "dec", "jan"} | (MONTHS.keys() - _ENGLISH.keys()))
"""Months that are words or names as well, as "mars" and "Julio": alone they are not taken for a month."""

_PREPOSITIONS: Final = (
    *(" in", " of", " during", " since", " until", " by", " last", " this", " im", " seit", " bis", " ende", " anfang"),
    *(" en", " de", " du", " depuis", " desde", " del"),
)

_ASKS_WHEN: Final = re.compile(
    r"^\W*(?:when|since when|(?:on |in )?(?:what|which) (?:day|date|week|month|year)|how long ago)\b"
    r"|^\W*(?:(?:seit |bis )?wann|(?:an |in )?welche[mnrs]? (?:tag|datum|woche|monat|jahr)|wie lange ist es her)\b"
    r"|^\W*(?:(?:depuis )?quand|(?:en |à )?quel(?:le)? (?:jour|date|semaine|mois|année)|il y a combien de temps)\b"
    r"|^\W*(?:(?:desde )?cu[aá]ndo|(?:en )?qué (?:día|fecha|semana|mes|año)|hace cuánto|quando)\b"
    r"|什么时候|什麼時候|何时|哪一?[天年]|几[月号]|多久以?前|いつ(?!も)|何[年月]|何日|何曜日|언제",
    re.IGNORECASE,
)
_SMALL_TALK_CHARACTERS: Final = 60
_EDGES: Final = re.compile(r"^\W+|\W+$")
_CONTRACTED: Final = re.compile(r"['’](?:s|d|m|ll|re|ve)$")


class QueryDate(NamedTuple):
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
        periods: The periods it names by the clock, such as "last week".
        asks_when: Whether it asks for a time.
        is_small_talk: Whether it is a greeting, thanks or the like, which no memory bears on.
        language: Its language other than English, if that is certain.
        relatives: Words for people and animals of whoever asks, in lower case: "wife" of "my wife".
    """

    text: str
    terms: list[str]
    dates: tuple[QueryDate, ...]
    periods: tuple[Period, ...]
    asks_when: bool
    is_small_talk: bool
    language: str | None = None
    relatives: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, *, now: datetime | None = None, as_specified: bool = False) -> Question:
        """Parse a query.

        Args:
            text: The query.
            now: What "last week" is before, and "in March" the latest of; None leaves periods and years open.
            as_specified: Keep stop words of other languages than English among the terms.

        >>> Question.parse("What did Ruth plant in May 2023?").dates
        (QueryDate(year=2023, month=5),)
        >>> Question.parse("When may I call?").dates, Question.parse("When may I call?").asks_when
        ((), True)
        >>> Question.parse("Good morning, how are you?").is_small_talk
        True
        """
        named = () if now is None else periods(text, now=now)
        language, asked = (None, text) if as_specified else _without_local_stop_words(text)
        return cls(
            text=text,
            terms=analyze(asked),
            dates=tuple(_resolved(_dates(plain(text)), named, now)),
            periods=named,
            asks_when=_ASKS_WHEN.search(text) is not None,
            is_small_talk=_is_small_talk(text),
            language=language,
            relatives=tuple(dict.fromkeys(each.lower() for each in _RELATIVE.findall(text))),
        )


REMEMBERED_CHARACTERS: Final = 2_000
"""A longer question is parsed each time that it is asked: so all that are remembered are half a million characters."""

remembered = functools.lru_cache(maxsize=256)(Question.parse)
"""Question.parse of the last questions, by text and day. They are queries and no memories, and written nowhere: they go
when a memory is closed, or when enough others are asked."""


def name_of(relative: str, texts: Iterable[str]) -> str | None:
    """What texts of a user call somebody of theirs, if it is one name alone: anything else is not certain.

    >>> name_of("wife", ["My wife Anna sings.", "User's wife is called Anna", "My wife is German"])
    'Anna'
    """
    named = "'s name is| is called| is named| named"
    called = re.compile(rf"(\b{_GIVING} )?\b(?:my|user's) {relative}(?:{named})? ([^\W\d_]\w+)", re.IGNORECASE)
    names = {
        name
        for text in texts
        for giving, name in called.findall(text)
        if not giving and name[0].isupper() and not name.isupper() and not tells_time(name)
    }
    return names.pop() if len(names) == 1 else None


_RELATIVE: Final = re.compile(
    r"\bmy (wife|husband|partner|girlfriend|boyfriend|fiancée?|mother|mom|mum|father|dad|son|daughter|brother|sister"
    r"|grandmother|grandma|grandfather|grandpa|aunt|uncle|niece|nephew|cousin|boss|roommate|flatmate|dog|cat|horse)\b",
    re.IGNORECASE,
)
_GIVING: Final = (
    r"(?:tells?|told|telling|asks?|asked|gives?|gave|sends?|sent|shows?|showed|buy|bought|hopes?|wish(?:es)?)"
)
"""Behind "I told my wife" a name may be that of somebody else."""


@functools.lru_cache(maxsize=256)
def without_common(text: str, common: frozenset[str]) -> str:
    """Drop the words of which all terms are common, such as a speaker's name.

    An embedder takes them for the subject, and puts every greeting first that names them. Stop words stay, since they
    hold the sentence together; a question of nothing else but common words stays whole.
    """
    kept = [word for word in text.split() if not _is_common(word, common)]
    return " ".join(kept) if any(_says_something(word) for word in kept) else text


def forget_questions() -> None:
    """Remember none of the questions that were asked."""
    remembered.cache_clear()
    without_common.cache_clear()


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
"""Questions about nothing that was ever said; any other question is one."""


def _is_small_talk(text: str) -> bool:
    if len(text) > _SMALL_TALK_CHARACTERS:
        return False
    parts = (" ".join(part.casefold().replace("’", "'").split()) for part in _PARTS.split(text))
    return all(part in _SMALL_QUESTIONS or _is_filler(part.split()) for part in parts)


def _is_filler(words: list[str]) -> bool:
    bare = [_CONTRACTED.sub("", _EDGES.sub("", word)) for word in words]
    if not _QUESTION_WORDS.isdisjoint(words):
        return False
    return all(not word or word in SMALL_TALK or word in STOP_WORDS for word in bare)


def _without_local_stop_words(text: str) -> tuple[str | None, str]:
    """The language of a text, and it without its stop words; whole where it is English, or of nothing else."""
    words = {word: _bare(word) for word in text.split()}
    language = language_of(words.values(), english=STOP_WORDS)
    if language is None:
        return None, text
    kept = (word for word in text.split() if without_accents(words[word]) not in LOCAL_STOP_WORDS[language])
    return language, " ".join(kept) or text


def _bare(word: str) -> str:
    folded = word.casefold()
    return folded if folded.isalnum() else _EDGES.sub("", folded)


def _is_common(word: str, common: frozenset[str]) -> bool:
    terms = analyze(_CONTRACTED.sub("", word.strip("?.!,;:'\"()…"))) if _says_something(word) else []
    return bool(terms) and common.issuperset(terms)


def _says_something(word: str) -> bool:
    bare = _CONTRACTED.sub("", _bare(word))
    return bool(bare) and bare not in STOP_WORDS


def _dates(text: str) -> Iterable[QueryDate]:
    found: list[QueryDate] = [QueryDate(int(each["year"]), int(each["month"])) for each in _WRITTEN_DATE.finditer(text)]
    for each in _NAMED_MONTH.finditer(text):
        is_dated = each["year"] or each["day"] or each["later_day"]
        if is_dated or each["month"] not in _WORDS or _follows_preposition(text, each.start()):
            found.append(QueryDate(None if each["year"] is None else int(each["year"]), _MONTHS[each["month"]]))
    numbered = _MONTH_BY_NUMBER.finditer(text)
    found += [QueryDate(None if each["year"] is None else int(each["year"]), int(each["month"])) for each in numbered]
    return dict.fromkeys(found or [QueryDate(int(each["year"]), None) for each in _BARE_YEAR.finditer(text)])


def _resolved(dates: Iterable[QueryDate], named: Iterable[Period], now: datetime | None) -> Iterable[QueryDate]:
    """The dates with the years of months that have none: the latest that has begun, and of this month the last too.

    Months at the ends of a period belong to it: in "from March to May", and in "March last year".
    """
    taken = {moment.month for period in named for moment in (period.since, period.until - timedelta(days=1))}
    for date in dates:
        if now is None or date.year is not None or date.month is None:
            yield date
        elif date.month not in taken:
            yield date._replace(year=now.year if date.month <= now.month else now.year - 1)
            if date.month == now.month:
                yield date._replace(year=now.year - 1)


def _follows_preposition(text: str, position: int) -> bool:
    return f" {text[:position]}".rstrip().endswith(_PREPOSITIONS)
