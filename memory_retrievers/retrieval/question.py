"""A query and what it tells without any model: its terms, the dates it names, whether it asks for anything."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple

from memory_retrievers.retrieval.day_questions import asked_days, asks_for_plans, asks_what_was_done, asks_what_was_said
from memory_retrievers.text.analysis import SMALL_PHRASES, SMALL_TALK, STOP_WORDS, UNMARKED, analyze, without_accents
from memory_retrievers.text.dates import MONTHS as ENGLISH_MONTHS
from memory_retrievers.text.languages import COMMON_WORDS, LOCAL_STOP_WORDS, language_of, relatives_in
from memory_retrievers.text.periods import MONTHS, Period, month_of, periods, plain
from memory_retrievers.text.plans import days_behind

_ENGLISH: Final = {
    name: number for number, month in enumerate(map(str.lower, ENGLISH_MONTHS), 1) for name in (month, month[:3])
}
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
_DATE_WORD: Final = re.compile(r"[a-z]+|\d")
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
_VERB: Final = "(?:am|are|is|was|were|do|does|did|has|have|had|can|could|will|would|might|should|this|his|its)"
_PLURAL: Final = rf"(?!kind |type |sort )(?:(?!{_VERB}\b)[\w'’]+ ){{0,2}}?(?!{_VERB}\b)\w+(?<![sui])s"
_ASKS_FOR_LIST: Final = re.compile(
    rf"^\W*(?:\w+ )?(?:what|which)(?: all)? (?:(?:are|were) |{_PLURAL} (?:{_VERB}|and|that|in|on|of|to|for|from)\b)"
    r"|^\W*(?:how (?:many|often)|list|name|who (?:are|were)|what (?:else|all))\b"
    r"|^\W*(?:\w+ )?(?:welchen? (?:\w+(?:n|er|s)|\w*[äöü]\w*e)|wie (?:viele|oft)|nenne?|was alles|(?:was|wer) sind)\b"
    r"|^\W*(?:\w+ )?(?:quel(?:le)?s|lesquel(?:le)?s|combien d(?:e\b|['’])|cite[sz]?\b|énumère|qui sont\b)"
    r"|^\W*(?:\w+ )?(?:(?:qué|que) \w+[aeo]s|cu[aá]les|cu[aá]nt[oa]s|enumera|quiénes)\b"
    r"|哪些|哪几|哪幾|多少|几[次个本]|幾[次個本]|列出|所有|何[回度冊人個]|いくつ|すべて|全部|列挙|どれだけ",
    re.IGNORECASE,
)
_FIRST_PERSON: Final = re.compile(
    r"(?i)\b(?:i|my|mine|myself|we|ours?|ourselves|ich|mein\w{0,2}|wir|unser\w{0,2}|je|mon|ma|mes|notre|nos|yo|mis?|mí[oa]?s?"
    r"|nuestr[oa]s?)\b|\bj['’]|(?<![给給帮幫诉訴教让讓替为為对對])我|私|わたし|僕|ぼく|俺|うちの"
)
_RECOMMENDATION: Final = re.compile(  # but for what somebody else has recommended: "What did Anna recommend to Tom?"
    r"(?is)^(?!.*\b(?-i:(?:[Dd]id|[Dd]oes|[Hh]a[sd]) [A-ZÀ-Þ]\w(?:[^.?!:\n]|(?<=[DM]r)\.){0,80}(?:recommend|suggest)"
    r"|(?:empfiehlt|recommande|recomienda) [A-ZÀ-Þ]\w"
    r"|[A-ZÀ-Þ]\w+['’]s (?:recommend|suggest))).*\b(?:(?:recommend|suggest)(?!s\b)|empfiehl|recommande|recomiend)"
)
_HOW_TO: Final = re.compile(r"(?i)\b(?:how (?:do|can|could|should|would)|wie (?:kann|soll)) (?:i|we|ich|wir)\b")
"""Who asks like this mostly asks for what everybody may know."""

_OF_SELF: Final = re.compile(
    r"(?i)^\W*(?:(?:what|where|who|which|when|how old)(?:['’]?s| is| are| was) my (?!(?:[\w'’]+ )?(?:mistake|error|bug"
    r"|typo|code|fault|problem|issue|option|ip|file|screen|clipboard)s?\b)[\w'’]+(?: \w+)?"
    r"|where (?:do|did) i (?:live|work|study|teach|train|come from|grow up)"
    r"|what do i (?:do for|study|teach|drive|own|collect)\b.*|how old am i|where (?:am i from|was i born)"
    r"|what am i (?:called|allergic to|afraid of)|was (?:ist|sind) mein\w{0,2} (?!fehler|problem)\w+"
    r"|wo (?:wohne|arbeite|lebe|studiere) ich|wie (?:alt bin|hei(?:ß|ss)e) ich"
    r"|quel(?:le)?s? (?:est|sont) (?:mon|ma|mes) (?!erreur|probl)\w+|comment je m['’]appelle|quel âge ai-je"
    r"|où (?:(?:est-ce que )?(?:je |j['’])(?:travaille|habite|vis)|(?:travaill|habit)[eé]-je)"
    r"|cu[aá]l(?:es)? (?:es|son) mis? (?!error|probl)\w+|d[oó]nde (?:trabajo|vivo|estudio)(?: yo)?"
    r"|c[oó]mo me llamo|cu[aá]ntos años tengo)\W*$"
    r"|^我(?:在哪[里儿]?(?:工作|上班|住)|住在?哪|叫什么|是做什么|多大|几岁|的(?:名字|工作|职业|生日|年龄))"
    r"|^(?:私|わたし|僕|ぼく|俺)の(?:名前|仕事|職業|誕生日|年齢)"
)
"""What asks for something that whoever asks is or has, in the commonest words."""

_IN_THE_PAST: Final = re.compile(r"\b(?:did|happened)\b", re.IGNORECASE)
_ASKS_FOR_ALL: Final = re.compile(
    r"\b(?:(?:know|remember|recall|stor|sav|learn|note|tell|told|memor|summar)\w*\b[^.?!\n]{0,40} "
    r"(?:about|of|on) (?:me|myself|us)\b|you (?:still )?(?:know|remember|recall)(?: (?:me|us))?\W*$"
    r"|(?:weißt|weisst|erinnerst|wei(?:ss|ß)|gespeichert|gemerkt)\b[^.?!\n]{0,40} (?:über mich|von mir|an mich)\b"
    r"|(?:über mich|von mir|an mich)\b[^.?!\n]{0,40} (?:weißt|weisst|gespeichert|gemerkt)\b"
    r"|(?:sais|sait|souviens|retenu|rappelles)\b[^.?!\n]{0,40} (?:(?:de|sur) moi|à mon sujet)\b"
    r"|(?:sabes|sabe|recuerdas|acuerdas|guardado)\b[^.?!\n]{0,40} (?:de|sobre) m[ií]\b)"
    r"|^\W*(?:who (?:am i|are we)|wer bin ich|qui suis-je|¿?qui[eé]n soy)\W*$"
    r"|(?:知道|记得|記得|了解)(?:关于|關於)?我(?:吗|嗎|什么|什麼|哪些|多少|的)?[^。？?]{0,6}[。？?]?$|我是[谁誰]"
    r"|(?:私|わたし|僕|ぼく|俺)(?:のこと|について)[^。？?]{0,12}(?:知|覚え)",
    re.IGNORECASE,
)
"""A question for whatever is known of whoever asks, such as "What do you know about me?": no memory is nearer to it."""

_SMALL_TALK_CHARACTERS: Final = 60
_EDGES: Final = re.compile(r"^\W+|(?<!\W)\W+$")  # looked for from the first of many marks alone
_CONTRACTED: Final = re.compile(r"['’](?:s|d|m|ll|re|ve)$")
_TYPED: Final = "|".join(UNMARKED.keys() - {"arent", "cant", "hes", "ive", "theres", "wont"})  # these may be names
_UNMARKED: Final = re.compile(
    rf"(?<![\w'’./@:#-])(?:{_TYPED}|(?:^|(?<=[!?,] )|(?<=[\"“]))(?:{_TYPED.title()}))(?![\w'’@/:#-]|\.\w)", re.MULTILINE
)
"""Contractions without their apostrophe, which begin with a capital letter at the beginning of a sentence or a line."""

_DRAWN_OUT: Final = re.compile(r"([aeiouy])\1+$|([^\W\d_])\2{2,}")  # "heyy", "sooo"
_CHAT_WORDS: Final = """
aww bcp bravo brb hahaha impressive jaja jajaja k kk lmao lovely mdr noted np omg oof ouch so that there thx ty tysm yay
yup
"""
_CHAT: Final = (SMALL_TALK - {"today", "tomorrow", "tonight", "morgen"}) | frozenset(_CHAT_WORDS.split())

_A_MONTH: Final = timedelta(days=31)  # what was done in a longer time is more than the last days of it
_ANY_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""Where nobody tells the day, a question still asks for plans or does not."""


class QueryDate(NamedTuple):
    """A date a question names: a month, with or without its year, or a year alone."""

    year: int | None
    month: int | None


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its features that need no model."""

    text: str  # as it was asked, "whats" as "what's"
    terms: list[str]  # its search terms, repetitions kept
    dates: tuple[QueryDate, ...]  # the dates it names
    periods: tuple[Period, ...]  # the periods it names by the clock, such as "last week"
    asks_when: bool  # whether it asks for a time
    is_small_talk: bool  # whether it is a greeting, thanks or the like, which no memory bears on
    language: str | None = None  # its language other than English, if that is certain
    relatives: tuple[str, ...] = ()  # words for people and animals of whoever asks, in lower case: "wife" of "my wife"
    # whether it asks for what was talked about or done, last or at a time, with no words of the answer: "What did we
    # talk about yesterday?"
    asks_what_was_said: bool = False
    behind: tuple[Period, ...] = ()  # if it asks for what was done, its times up to now
    ahead: tuple[Period, ...] = ()  # the periods from today on that it names by the clock
    asks_for_plans: bool = False  # whether it asks for what there is then, and nothing else: "What do I have tomorrow?"

    @property
    def is_by_time(self) -> bool:
        """Whether times tell what answers it, and its words do not."""
        return self.asks_what_was_said or self.asks_for_plans

    @property
    def described_periods(self) -> tuple[Period, ...]:
        """The periods of which a passage may tell though it was said at another time."""
        return self.behind if self.asks_what_was_said else self.ahead

    @property
    def is_personal(self) -> bool:
        """Whether it asks for a recommendation, or is in the first person, but for "How do I …?"."""
        if _FIRST_PERSON.search(self.text) and _FIRST_PERSON.search(_HOW_TO.sub("", self.text)):
            return True
        folded = self.text.casefold()  # the expression is a slow one, and nearly never fits
        return any(each in folded for each in ("recom", "sugg", "empf")) and bool(_RECOMMENDATION.search(self.text))

    @property
    def asks_for_all(self) -> bool:
        """Whether it asks for whatever is known of whoever asks."""
        return _ASKS_FOR_ALL.search(self.text) is not None

    @property
    def asks_about_self(self) -> bool:
        """Whether it asks for one thing of whoever asks, which a memory may well tell in other words.

        >>> [Question.parse(text).asks_about_self for text in ("Where do I work?", "What should I cook?")]
        [True, False]
        """
        names_time = self.is_by_time or self.dates or self.periods or self.ahead
        return not names_time and _OF_SELF.search(self.text) is not None

    @property
    def own_terms(self) -> frozenset[str]:
        """The search terms that say something in whatever language."""
        return frozenset(t for t in self.terms if t not in STOP_WORDS and without_accents(t) not in COMMON_WORDS)

    @property
    def says_little(self) -> bool:
        """Whether it is about what was said before, as "And when?" and "What's her job?": it has one term of its own.

        >>> [Question.parse(text).says_little for text in ("Which garage?", "Y cuánto?", "Where do I live?", "Thanks!")]
        [True, True, False, False]
        """
        is_whole = self.is_small_talk or self.is_personal or self.asks_for_all or self.asks_for_plans
        if len(self.own_terms) > 1 or is_whole:
            return False
        return not (asks_what_was_done(self.text, says_little=_SAYS_LITTLE) and days_behind(self.text, today=_ANY_DAY))

    @property
    def date_terms(self) -> frozenset[str]:
        """The search terms of the dates that it names."""
        forms = (_WRITTEN_DATE, _NAMED_MONTH, _MONTH_BY_NUMBER, _BARE_YEAR) if self.dates else ()
        texts = {plain(self.text), self.text.casefold()}  # with and without whole names of months
        named = (each[0] for form in forms for text in texts for each in form.finditer(text))
        return frozenset(term for words in named for term in analyze(words))

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
        >>> Question.parse("What must I avoid?").is_personal, Question.parse("How do I boil eggs?").is_personal
        (True, False)
        """
        language, asked = (None, text) if as_specified else _without_local_stop_words(text)
        text = asked if language is None else text
        named, dates = () if now is None else periods(text, now=now), _dates(plain(text))
        ahead = () if as_specified else asked_days(text, today=now or _ANY_DAY)
        question = cls(
            text=text,
            terms=analyze(asked),
            dates=tuple(_resolved(dates, named, now, is_past=_IN_THE_PAST.search(text) is not None)) if dates else (),
            periods=named,
            # what may stand further on is in other scripts
            asks_when=(_ASKS_WHEN.match if text.isascii() else _ASKS_WHEN.search)(text) is not None,
            is_small_talk=_is_small_talk(text) and _ASKS_FOR_ALL.search(text) is None,
            language=language,
            relatives=relatives_in(text),
            ahead=() if now is None else ahead,
        )
        names_time = bool(question.periods or question.dates)
        if asks_what_was_said(text, names_time=names_time, says_little=_SAYS_LITTLE) and not question.asks_for_all:
            return replace(question, asks_what_was_said=True)
        if not (as_specified or now is None) and asks_what_was_done(text, says_little=_SAYS_LITTLE):
            months = (month_of(each.month, now, year=each.year) for each in question.dates if each.month)
            behind = days_behind(text, today=now) or tuple(months)
            if behind and all(each.until - each.since <= _A_MONTH for each in behind):
                return replace(question, asks_what_was_said=True, dates=(), periods=behind, behind=behind)
        if ahead and asks_for_plans(text, says_little=_SAYS_LITTLE):
            return replace(question, asks_for_plans=True, is_small_talk=False)
        return question


def asks_for_list(text: str) -> bool:
    """Whether a question asks for several things, or for a number of them.

    >>> asks_for_list("What books has Ruth read?"), asks_for_list("What does James read?")
    (True, False)
    """
    return _ASKS_FOR_LIST.search(text) is not None


REMEMBERED_CHARACTERS: Final = 2_000
"""A longer question is parsed each time that it is asked: so all that are remembered are half a million characters."""


@functools.lru_cache(maxsize=256)
def remembered(text: str, day: datetime, zone: tzinfo | None, *, as_specified: bool) -> Question:
    """Parse each of the last questions once; kept in memory alone, until others come or something is forgotten.

    Args:
        text: The query.
        day: The beginning of the day, without its time zone: midnights of two zones may be one moment.
        zone: The time zone.
        as_specified: As for :meth:`Question.parse`.
    """
    return Question.parse(text, now=day.replace(tzinfo=zone), as_specified=as_specified)


@functools.lru_cache(maxsize=256)
def without_common(text: str, common: frozenset[str]) -> str:
    """Drop the words of which all terms are common, such as a speaker's name, which an embedder takes for the subject.

    Stop words stay, since they hold the sentence together; a question of nothing but common words stays whole.
    """
    bare = {word: said if (said := _bare(word)).isalnum() else _CONTRACTED.sub("", said) for word in text.split()}
    terms = {word: analyze(word) for word, said in bare.items() if said and said not in STOP_WORDS}
    kept = [word for word in text.split() if not (terms.get(word) and common.issuperset(terms[word]))]
    return " ".join(kept) if not terms.keys().isdisjoint(kept) else text


told_days: Final[dict[tuple[object, ...], Any]] = {}
"""What texts told for questions for a day, by hashes of the texts; in this room, since what forgets loads no numpy."""


def forget_questions() -> None:
    """Remember none of the questions that were asked, and nothing of what texts told for them."""
    told_days.clear()
    remembered.cache_clear()
    without_common.cache_clear()


_SAYS_LITTLE: Final = STOP_WORDS | COMMON_WORDS.keys()
_PARTS: Final = re.compile(r"[,.;:!?…\n，。！？、]+")
_QUESTION_WORDS: Final = frozenset(
    ["how", "what", "what's", "when", "when's", "where", "where's", "which", "who", "who's", "whom", "whose", "why"]
)
_ASKING = """
was wer wen wem wessen wie wo woher wohin wann warum wieso weshalb welche welchem welchen welcher welches
que quien quienes cual cuales como cuando cuanto cuantos donde
qui quoi quand ou comment combien pourquoi quel quelle quels quelles
"""
_LOCAL_QUESTION_WORDS: Final = frozenset(_ASKING.split())
_SMALL: Final = """
how are you, how are you doing, how are you today, how do you do, how's it going, how is it going, what's up,
who are you, what can you do, how can you help, how can you help me
"""
_SMALL_QUESTIONS: Final = frozenset(map(str.strip, _SMALL.split(",")))
"""Questions about nothing that was ever said; any other question is one."""

_SAYS_WHO: Final = re.compile(
    r", (?:(?:this is|it['’]s|hier ist) )?[A-ZÀ-Þ][^\W\d_]+ (?:here|speaking|hier|ici|aquí)[.! ]*$"
)
"""Who greets and says who it is: "Hello, Jonah here!"; a question for somebody is none."""


def _is_small_talk(text: str) -> bool:
    if len(text) > _SMALL_TALK_CHARACTERS:
        return False
    text = _SAYS_WHO.sub("", text)
    parts = (" ".join(part.casefold().replace("’", "'").split()) for part in _PARTS.split(text))
    return all(
        part in _SMALL_QUESTIONS
        or part in SMALL_PHRASES
        or _is_filler(part.split())
        or ("?" not in text and _is_chat(part.split()))
        for part in parts
    )


def _is_chat(words: list[str]) -> bool:
    """True of "heyyy there", "lol ok thx"; not of "Did I see Ty?": beside other stop words these may be names."""
    bare = [_CONTRACTED.sub("", word) for word in words]
    return all(word in _CHAT or _DRAWN_OUT.sub(r"\1\2", word) in _CHAT for word in bare)


def _is_filler(words: list[str]) -> bool:
    if not _QUESTION_WORDS.isdisjoint(words):
        return False
    bare = [_CONTRACTED.sub("", _EDGES.sub("", word)) for word in words]
    if all(not word or word in SMALL_TALK or word in STOP_WORDS for word in bare):
        return True
    others = {without_accents(word) for word in bare if word not in SMALL_TALK}  # such as "para" in "para ti también"
    return len(others) < len(bare) and others <= COMMON_WORDS.keys() - _LOCAL_QUESTION_WORDS


def _without_local_stop_words(text: str) -> tuple[str | None, str]:
    """The language of a text, and it without its stop words; where it is English, or of nothing else, as "what's"."""
    words = {word: _bare(word) for word in text.split()}
    language = language_of(words.values(), english=STOP_WORDS)
    if language is None:
        return None, _UNMARKED.sub(lambda found: found[0][0] + UNMARKED[found[0].lower()][1:], text)
    kept = (word for word in text.split() if without_accents(words[word]) not in LOCAL_STOP_WORDS[language])
    return language, " ".join(kept) or text


def _bare(word: str) -> str:
    folded = word.casefold()
    return folded if folded.isalnum() else _EDGES.sub("", folded)


def _dates(text: str) -> Iterable[QueryDate]:
    words = _DATE_WORD.findall(text)
    if _MONTHS.keys().isdisjoint(words) and not any(map(str.isdigit, words)):  # as nearly always
        return ()
    found = [QueryDate(int(each["year"]), int(each["month"])) for each in _WRITTEN_DATE.finditer(text)]
    for each in _NAMED_MONTH.finditer(text):
        is_dated = each["year"] or each["day"] or each["later_day"]
        before = f" {text[: each.start()]}".rstrip()
        if is_dated or each["month"] not in _WORDS or before.endswith(_PREPOSITIONS):
            found.append(QueryDate(None if each["year"] is None else int(each["year"]), _MONTHS[each["month"]]))
    numbered = _MONTH_BY_NUMBER.finditer(text) if "月" in text else ()
    found += [QueryDate(None if each["year"] is None else int(each["year"]), int(each["month"])) for each in numbered]
    return dict.fromkeys(found or [QueryDate(int(each["year"]), None) for each in _BARE_YEAR.finditer(text)])


def _resolved(
    dates: Iterable[QueryDate], named: Iterable[Period], now: datetime | None, *, is_past: bool
) -> Iterable[QueryDate]:
    """The dates with the years of months that have none: the latest that has begun, and of this month the last too.

    Months at the ends of a period belong to it, as in "from March to May". A later month behind this one is of the same
    year: "What did I do in March and April?" is about last year, as long as it is March.
    """
    dates = list(dates)
    months = [date.month or 0 for date in dates if date.year is None]
    taken = {moment.month for period in named for moment in (period.since, period.until - timedelta(days=1))}
    for date in dates:
        if now is None or date.year is not None or date.month is None:
            yield date
        elif date.month not in taken:
            is_this = date.month == now.month
            has_begun = not (is_this and is_past) or max(months[months.index(now.month) :]) == now.month
            if has_begun:
                yield date._replace(year=now.year if date.month <= now.month else now.year - 1)
            if is_this:
                yield date._replace(year=now.year - 1)
