"""Periods that a text names by the clock: "last week", "three days ago", "between March and May", "last summer".

English, German, French, Spanish, Chinese and Japanese. Days are those of the time zone of the
moment that is counted from, seasons those of the northern hemisphere.
What lies ahead is left out: nothing has been said of it then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import MAXYEAR, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from memory_retrievers.text.analysis import without_accents

_LOOKED_AT: Final = 1_000  # characters of a text; a question is no longer


def _numbered(lines: str) -> dict[str, int]:
    """Number of the line of each word, from 1."""
    return {word: number for number, line in enumerate(lines.strip().split("\n"), start=1) for word in line.split()}


def any_of(*words: Iterable[str]) -> str:
    """One of the words, the longest that fits."""
    return "|".join(
        re.escape(word) for word in sorted({word for each in words for word in each}, key=len, reverse=True)
    )


MONTHS: Final[Mapping[str, int]] = _numbered("""
january januar janner janvier enero\nfebruary februar fevrier febrero\nmarch marz mars marzo\napril avril abril
may mai mayo\njune juni juin junio\njuly juli juillet julio\naugust aout agosto\nseptember septembre septiembre
october oktober octobre octubre\nnovember novembre noviembre\ndecember dezember decembre diciembre
""")
"""The months, 1 to 12, as :func:`plain` writes them in English, German, French and Spanish."""

WEEKDAYS: Final = _numbered("""
monday montag lundi lunes\ntuesday dienstag mardi martes\nwednesday mittwoch mercredi miercoles
thursday donnerstag jeudi jueves\nfriday freitag vendredi viernes\nsaturday samstag sonnabend samedi sabado
sunday sonntag dimanche domingo
""")
SEASONS: Final = _numbered("""
spring fruhling fruhjahr printemps primavera\nsummer sommer ete verano\nautumn fall herbst automne otono
winter hiver invierno
""")
NUMBERS: Final = _numbered("""
a an one ein eine einem einer un une una 一\ntwo zwei deux dos 二 两 兩\nthree drei trois tres 三
four vier quatre cuatro 四
five funf cinq cinco 五\nsix sechs seis 六\nseven sieben sept siete 七\neight acht huit ocho 八\nnine neun neuf nueve 九
ten zehn dix diez 十\neleven elf onze once 十一\ntwelve zwolf douze doce 十二\nthirteen dreizehn treize trece
fourteen vierzehn quatorze catorce\nfifteen funfzehn quinze quince
""")
DAY, WEEK, MONTH, YEAR, WEEKEND = range(1, 6)
_SUNDAY: Final = 6
UNITS: Final = {"fin de semana": WEEKEND} | _numbered("""
day days tag tage tagen jour jours dia dias 天 日 日間
week weeks woche wochen semaine semaines semana semanas 周 週 星期 週間
month months monat monats monate monaten mois mes meses 月
year years jahr jahres jahre jahren an ans annee annees ano anos 年
weekend weekends wochenende wochenenden week-end week-ends
""")
_PART_OF_DAY: Final = re.compile(
    r"\b((?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend) ?(?:fruh|(?:vor|nach)?mittag|morgen|abend|nacht)\b"
)
_SHORT_MONTH: Final = r"(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|okt|nov|dec|dez)\b\.?"
_SHORT_DAY: Final = "(?:mon|tues?|weds?|thu|sat|sun)"
_DAY_OF_LIST: Final = r"\b(?:mon|tue|wed|thu|fri|sat|sun)"
_HAS_SHORT: Final = re.compile(rf"\b(?:{_SHORT_MONTH}|(?:{_SHORT_DAY}|thurs?|fri)\b)")  # as few texts do
_OTHER_WORDS: Final = (  # with a short name among them that is none
    r"(?:rel(?:y|ie[sd]|ying)|based|depend(?:s|ed|ing)?|built) on sun|(?:j'ai|ont|y a|avons|(?:il|elle|on) a) sept"
    r"|sun(?: and|,) sat|sat and sat|(?:[mtsl][ea]|qui|il|elle|ca|[nv]ous) tue|t[eu] tues"
    r"|(?:(?:ich|er|sie|man) (?:[^\W\d]+ ){0,4}|(?:l[ea] |l'|cet?(?:te)? )\w+ )tue|(?:hey|yeah|problem,?|worries,?) mon"
    r"|s?he weds|(?:i|we|s?he|they) (?:sat|wed)(?:,| and| -) (?:sat|sun|mon|wed)"
    r"|(?:i|we|they|s?he|who) wed (?:at (?:1[3-9]|[2-9]\d)|(?:between|from|after|before) \d+)(?![\d:h])"
    r"|mon \d+ (?:pieces|portes|roues|etoiles|places|tonnes|litres|euros)"
)
_SHORT: Final = re.compile(
    rf"\b(?:{_OTHER_WORDS})\b"
    rf"|(?:(?<=\d )|(?<=\d[snrt][tdh] )|(?<=\d[snrt][tdh] of )){_SHORT_MONTH}|\b(?:thurs?|fri|tues)\b"
    rf"|\b{_SHORT_MONTH}(?= (?:\d{{1,2}}(?:st|nd|rd|th)?|(?:19|20)\d\d)\b"
    r"(?![:.]\d| ?(?:%|€|\$|euros?|percent|times|mal|veces|dias|grados)))"
    rf"|(?m:^){_SHORT_DAY}(?=:| (?:we|i)\b| \d{{1,2}}\b(?! ?(?:h(?:ou)?rs?|h|min\w*|days?|weeks?|years?|people|of)\b))"
    rf"|(?<=[,;:] ){_SHORT_DAY}(?=:| off\b)|(?m:^){_SHORT_DAY}(?= off\b)"
    rf"|{_DAY_OF_LIST}(?= ?(?:and|or|to|[/&,-]) ?{_DAY_OF_LIST}\b)"
    rf"|{_DAY_OF_LIST}\b(?:(?<={_DAY_OF_LIST} and ...)|(?<={_DAY_OF_LIST} (?:or|to) ...)|(?<={_DAY_OF_LIST} & ...)"
    rf"|(?<={_DAY_OF_LIST}, ...)|(?<={_DAY_OF_LIST} - ...)|(?<={_DAY_OF_LIST}[/,&-]...))"
    r"|\b(?:mon|tue|weds)(?=\s*(?:$|[,;.!?)]))"
    rf"|(?:(?<=\b(?:on|by) )|(?<=\b(?:next|this|last) )|(?<=\b(?:until|every) )){_SHORT_DAY}\b"
    r"(?=[^\w ]|\s*$| (?:\d|(?:at|to|and|or|i|we|for|with|from|morning|afternoon|evening|night|lunch|my|his|our|so|but"
    r"|cuz|because|if|when)\b))"
    rf"|\b{_SHORT_DAY}(?= (?:\d{{1,2}}(?::\d\d)? ?[ap]m|\d{{1,2}}:\d\d|(?:morning|afternoon|evening|night))\b)"
    r"|\b(?:mon|tues?|wed|thu)(?= (?:at|between|from|after|before) \d)"
)
"""Other words, which stay, or short names of months and English days: "wed 6am", not "they wed in 1950"."""
_NAMES: Final = {name[:3]: name for name in reversed([*MONTHS, *WEEKDAYS])}  # the first ones are English
_FORTNIGHT: Final = re.compile(r"\b(?:(?:an?|one) )?fortnight\b")
_DAYS_BACK: Final = {
    **dict.fromkeys(("today", "tonight", "heute", "aujourd'hui", "hoy"), 0),
    **dict.fromkeys(("yesterday", "last night", "gestern", "hier", "ayer", "anoche"), 1),
    **dict.fromkeys(("the day before yesterday", "vorgestern", "avant-hier", "anteayer", "antes de ayer", "antier"), 2),
}
DAYS_ON: Final = {
    **dict.fromkeys(("2day", "2nite", "tonite"), 0),
    **dict.fromkeys(("today", "tonight", "this morning", "this afternoon", "this evening", "heute"), 0),
    **dict.fromkeys(("aujourd'hui", "ce soir", "cet apres-midi", "hoy", "esta noche", "esta tarde"), 0),
    **dict.fromkeys(("du jour", "今天", "今日", "今晚", "本日", "今夜"), 0),
    **dict.fromkeys(("tmrw", "tmr", "tmw", "2moro", "2morrow", "tomoz", "tommorow", "tomorow", "tommorrow"), 1),
    **dict.fromkeys(("tomorrow", "morgen", "demain", "manana", "明天", "明日", "あした", "明晚"), 1),
    **dict.fromkeys(("day after tmrw", "day after tmr", "day after tomorow", "day after tommorow"), 2),
    **dict.fromkeys(("day after tomorrow", "ubermorgen", "apres-demain", "pasado manana"), 2),
    **dict.fromkeys(("后天", "後天", "明後日", "あさって"), 2),
    **dict.fromkeys(("大后天", "大後天", "明々後日", "しあさって"), 3),
}
_GERMAN: Final = re.compile(r"\b(?:ist|sind|war|hat|haben|habe|ich|wir|der|die|das|was|wer|wo|wie|wann|und)\b")
"""Among such words "hier" is no yesterday."""

_CJK: Final = {
    **dict.fromkeys(("今天", "今日", "今晚"), (DAY, 0)),
    **dict.fromkeys(("昨天", "昨日", "昨晚", "昨夜"), (DAY, 1)),
    **dict.fromkeys(("前天", "一昨日", "おととい"), (DAY, 2)),
    **dict.fromkeys(("上周末", "上週末", "上个周末", "上個週末", "先週末", "先週の週末"), (WEEKEND, 1)),
    **dict.fromkeys(("这周", "這週", "本周", "今週"), (WEEK, 0)),
    **dict.fromkeys(("上周", "上週", "上星期", "上个星期", "先週"), (WEEK, 1)),
    **dict.fromkeys(("上上周", "上上週", "先々週"), (WEEK, 2)),
    **dict.fromkeys(("这个月", "這個月", "本月", "今月"), (MONTH, 0)),
    **dict.fromkeys(("上个月", "上個月", "上月", "先月"), (MONTH, 1)),
    **dict.fromkeys(("先々月", "上上个月"), (MONTH, 2)),
    "今年": (YEAR, 0),
    **dict.fromkeys(("去年", "昨年"), (YEAR, 1)),
    **dict.fromkeys(("前年", "一昨年"), (YEAR, 2)),
}
CJK_WEEKDAYS: Final = _numbered("一 月\n二 火\n三 水\n四 木\n五 金\n六 土\n日 天")
_CJK_SEASONS: Final = "春夏秋冬"

WRITTEN_YEAR: Final = r"(?:19|20)\d\d"
_LATIN: Final = frozenset(filter(str.isascii, UNITS))
NUMBER: Final = rf"(\d{{1,3}}|{any_of(filter(str.isascii, NUMBERS))})"
CJK_NUMBER: Final = rf"(\d{{1,3}}|{any_of({word: 0 for word in NUMBERS if not word.isascii()})})"
CJK_UNIT: Final = r"(?:个|個|か|ヶ|カ|ヵ)?(日間|週間|星期|天|日|周|週|月|年)"
UNIT: Final = f"({any_of(_LATIN)})"
THING: Final = f"({any_of(_LATIN, WEEKDAYS, MONTHS, SEASONS)})"
_LAST: Final = r"(?:last|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?|ultim[oa])"
LAST_YEAR: Final = r"(?:of )?last year|letzte[ns] jahr(?:e?s)?|(?:de )?l'an(?:nee)? derniere?|del ano pasado"
_ANY_OF_THEM: Final = r"every|each|that|a|one|jede[nr]|chaque|le|cada|los"
THIS: Final = r"(?:this|diese[nrsm]?|cet|cette|ce|est[ea])"
_DATED_MONTH: Final = rf"({any_of(MONTHS)})(?:(?:,| of| de| del)? ({WRITTEN_YEAR}))?"
_CJK_DATED_MONTH: Final = rf"(?:({WRITTEN_YEAR})年)?(?<!\d)(\d{{1,2}}|十[一二]?|[一二三四五六七八九])月"
_TO: Final = r" ?(to|until|till|through|bis|a|au|hasta|-|–|and|und|et|y) ?"
_BETWEEN: Final = r"(?:\b(between|zwischen|entre) )?(?:the )?"
_SINCE: Final = r"\b(?:since|seit|depuis|desde)(?: dem)?"

_WORD: Final = re.compile(r"[a-z]+")
PERIOD_WORDS: Final = frozenset(
    part for words in (UNITS, WEEKDAYS, MONTHS, SEASONS, _DAYS_BACK) for word in words for part in _WORD.findall(word)
) - {"a", "an", "the", "before", "last", "fin", "de"} | {"dernier"}
_BEYOND_WORDS: Final = re.compile(rf"{WRITTEN_YEAR}|[\u3040-\u9fff]")
"""Without one of these words or signs there is no period."""


class Period(NamedTuple):
    """A period from ``since`` to before ``until``."""

    since: datetime
    until: datetime


Resolve: TypeAlias = "Callable[[re.Match[str], datetime], Period | list[Period] | None]"
Expression: TypeAlias = "tuple[re.Pattern[str], Resolve]"
"""What names a period, and the periods by the beginning of the day that it is; several where it is ambiguous."""


def compiled(expressions: Mapping[str, Resolve]) -> tuple[Expression, ...]:
    """Expressions by their patterns."""
    return tuple((re.compile(pattern), resolve) for pattern, resolve in expressions.items())


def periods(text: str, *, now: datetime) -> tuple[Period, ...]:
    """The periods up to now that a text names.

    >>> from datetime import UTC
    >>> now = datetime(2026, 3, 4, 9, tzinfo=UTC)
    >>> [f"{each.since:%d %B} to {each.until:%d %B}" for each in periods("What did I buy last week?", now=now)]
    ['23 February to 02 March']
    """
    left = plain(text[:_LOOKED_AT])
    if PERIOD_WORDS.isdisjoint(_WORD.findall(left)) and _BEYOND_WORDS.search(left) is None:  # as nearly always
        return ()
    today = midnight(now)
    return tuple(period for period in named(left, _EXPRESSIONS, today) if period.since <= today)


def midnight(moment: datetime) -> datetime:
    """The beginning of its day, in its own time zone."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def named(text: str, expressions: Sequence[Expression], today: datetime) -> dict[Period, None]:
    """The periods that expressions find in a text, which :func:`plain` has written.

    Args:
        text: The text; what is taken by one expression is none of the next: "last summer" is no "last year".
        expressions: Expressions, the closer ones first.
        today: Beginning of the day that is counted from.
    """
    left, found = text, dict[Period, None]()
    for pattern, resolve in expressions:
        matches = list(pattern.finditer(left))
        for match in matches:
            try:
                resolved = resolve(match, today)
            except (ValueError, OverflowError):  # before the first year, or beyond the last
                continue
            found.update(dict.fromkeys([resolved] if isinstance(resolved, Period) else resolved or ()))
        left = pattern.sub(" ; ", left) if matches else left  # which takes as long as to look for them
    return found


def plain(text: str) -> str:
    """The text in lower case, without accents and what follows a German day; "fortnight" as "2 weeks", "fri" as Friday.

    >>> plain("Février, ÉTÉ"), plain("Am Freitagabend")
    ('fevrier, ete', 'am freitag')
    """
    left = without_accents(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'"))
    if _HAS_SHORT.search(left):
        left = _SHORT.sub(lambda match: match[0] if " " in match[0] else _NAMES[match[0][:3]], left)
    if "fortnight" in left:
        left = _FORTNIGHT.sub("2 weeks", left)
    return _PART_OF_DAY.sub(r"\1", left) if "tag" in left or "mittwoch" in left or "sonnabend" in left else left


def month_of(number: int, today: datetime, *, year: int | None = None, has_ended: bool = False) -> Period:
    """The latest month of this number that has begun.

    Args:
        number: 1 to 12.
        today: Any moment of the day that is counted from.
        year: That of this year instead, whenever it is.
        has_ended: The latest that is over.
    """
    is_there = number < today.month or (number == today.month and not has_ended)
    since = datetime(year or (today.year if is_there else today.year - 1), number, 1, tzinfo=today.tzinfo)
    return Period(since, months_on(since, 1))


def months_on(month: datetime, count: int) -> datetime:
    """The first day of a month, so many months later; the end of time where there is none."""
    years, of_year = divmod(month.month - 1 + count, 12)
    if (year := month.year + years) > MAXYEAR:
        return datetime.max.replace(tzinfo=month.tzinfo)
    return datetime(year, of_year + 1, 1, tzinfo=month.tzinfo)


def back(unit: int, count: int, today: datetime) -> Period:
    """The day, week, weekend, month or year so many before the one that is now.

    Args:
        unit: ``DAY``, ``WEEK``, ``WEEKEND``, ``MONTH`` or ``YEAR``.
        count: How many before; less than 0 is later.
        today: Beginning of the day that is now.
    """
    if unit == DAY:
        return Period(since := today - timedelta(days=count), since + timedelta(days=1))
    if unit in {WEEK, WEEKEND}:
        monday = today - timedelta(days=today.weekday() + 7 * count)
        end = monday + timedelta(days=7)
        return Period(monday if unit == WEEK else monday + timedelta(days=5), end)
    if unit == MONTH:
        return Period(since := months_on(today, -count), months_on(since, 1))
    return _year(today.year - count, today)


def _year(year: int, today: datetime) -> Period:
    first = today.replace(year=year, month=1, day=1)
    return Period(first, first.replace(year=year + 1))


def season_of(number: int, today: datetime, *, year: int | None = None, has_ended: bool = False) -> Period:
    """The latest season of this number that has begun or has ended; or that of a year.

    Args:
        number: From 1 for spring.
        today: Beginning of the day that is counted from.
        year: The year in which it begins; None takes the latest.
        has_ended: Leave out one that goes on.
    """
    since = datetime(year or today.year, 3 * number, 1, tzinfo=today.tzinfo)
    period = Period(since, months_on(since, 3))
    while year is None and (period.until if has_ended else period.since) > today:
        period = Period(months_on(period.since, -12), months_on(period.until, -12))
    return period


def _weekday(number: int, today: datetime, *, has_ended: bool = False) -> Period:
    days = (today.weekday() - (number - 1)) % 7
    return back(DAY, days or (7 if has_ended else 0), today)


def _thing(word: str, today: datetime, *, is_last: bool) -> Period | list[Period] | None:
    """The last, or this, of a unit, a day of the week, a month or a season."""
    if word in UNITS:
        if is_last and UNITS[word] == WEEK and today.weekday() == _SUNDAY:  # it may be the one that ends
            return [back(WEEK, 1, today), back(WEEK, 0, today)]
        return back(UNITS[word], int(is_last), today)
    if word in WEEKDAYS:
        return _weekday(WEEKDAYS[word], today, has_ended=True) if is_last else None  # "this Friday" lies ahead
    if word in SEASONS:
        return season_of(SEASONS[word], today, has_ended=is_last)
    if word == "may" and not is_last:  # "this may be"
        return None
    return month_of(MONTHS[word], today, has_ended=is_last)


def given(match: re.Match[str]) -> list[str]:
    """The groups of a match that matched."""
    return [group for group in match.groups() if group is not None]


def count_of(written: str) -> int:
    """The number that is written in digits or as a word."""
    return int(written) if written.isdecimal() else NUMBERS[written]


def _ago(match: re.Match[str], today: datetime) -> Period:
    number, unit = given(match)
    return back(UNITS[unit], count_of(number), today)


def days_of(number: str, unit: str) -> int:
    """About how many days so many days, weeks, months or years are."""
    return {DAY: 1, MONTH: 30, YEAR: 365}.get(UNITS[unit], 7) * count_of(number)


def _past(match: re.Match[str], today: datetime) -> Period:
    end = today + timedelta(days=1)
    return Period(end - timedelta(days=days_of(*given(match))), end)


def _between_months(first: int, first_year: str | None, last: int, last_year: str | None, today: datetime) -> Period:
    year = int(first_year) if first_year else int(last_year) - (first > last) if last_year else None
    since = month_of(first, today, year=year).since
    return Period(since, month_of(last, today, year=int(last_year or since.year + (first > last))).until)


def _month_range(match: re.Match[str], today: datetime) -> Period | None:
    between, first, first_year, to, last, last_year = match.groups()
    if between is None and to in {"and", "und", "et", "y"}:
        return None
    return _between_months(MONTHS[first], first_year, MONTHS[last], last_year, today)


def _cjk_month_range(match: re.Match[str], today: datetime) -> Period | None:
    first_year, first, last_year, last = match.groups()
    return _between_months(count_of(first), first_year, count_of(last), last_year, today)


def _year_range(match: re.Match[str], today: datetime) -> Period:
    first, last = given(match)
    return Period(_year(int(first), today).since, _year(int(last), today).until)


def _since(match: re.Match[str], today: datetime) -> Period:
    month, year, alone = match.groups()
    whole = month_of(MONTHS[month], today, year=int(year) if year else None) if month else _year(int(alone), today)
    return Period(whole.since, today + timedelta(days=1))


def _day(match: re.Match[str], today: datetime) -> Period | None:
    if match[0] == "hier" and _GERMAN.search(match.string):
        return None
    return back(DAY, _DAYS_BACK[match[0]], today)


def _of_season(match: re.Match[str], today: datetime) -> Period:
    name, *year = given(match)
    return season_of(SEASONS[name], today, year=int(year[0]) if year else None)


def _cjk_of_year(match: re.Match[str], today: datetime) -> Period:
    relative, season, month = match.groups()
    year = today.year - _CJK[relative][1]
    if season is not None:
        return season_of(_CJK_SEASONS.index(season) + 1, today, year=year)
    return month_of(count_of(month), today, year=year)


_EXPRESSIONS: Final = compiled(
    {
        rf"{_BETWEEN}\b{_DATED_MONTH}{_TO}\b{_DATED_MONTH}\b": _month_range,
        rf"{_CJK_DATED_MONTH}(?:から|到|至|和|と|[-~〜])+{_CJK_DATED_MONTH}": _cjk_month_range,
        rf"\b({WRITTEN_YEAR}){_TO.replace('(', '(?:', 1)}({WRITTEN_YEAR})\b": _year_range,
        rf"({WRITTEN_YEAR})年?(?:から|到|至)({WRITTEN_YEAR})年?": _year_range,
        rf"{_SINCE} (?:{_DATED_MONTH}|({WRITTEN_YEAR}))\b": _since,
        rf"\b{NUMBER} {UNIT} (?:ago|back)\b|\b(?:vor|il y a|hace) {NUMBER} {UNIT}\b": _ago,
        rf"{CJK_NUMBER}{CJK_UNIT}(?:之|以)?前": _ago,
        rf"\b(?:last|past|letzten|vergangenen|ultim[oa]s) {NUMBER} {UNIT}\b|\b{NUMBER} dernier(?:e)?s {UNIT}\b": _past,
        rf"(?:最近|过去|過去|この){CJK_NUMBER}{CJK_UNIT}": _past,
        rf"\b({any_of(MONTHS)}) (?:{LAST_YEAR})\b": lambda match, today: month_of(
            MONTHS[match[1]], today, year=today.year - 1
        ),
        rf"\b({any_of(SEASONS)})(?: of| de| del)? ({WRITTEN_YEAR})\b": _of_season,
        (
            r"(去年|昨年|今年|前年)(?:的|の)?(?:([春夏秋冬])[天季]?|(\d{1,2}|十[一二]?|[一二三四五六七八九])月)"
        ): _cjk_of_year,
        rf"\b(?:{_LAST} {THING}|{THING} (?:derniere?|passee?|pasad[oa]))\b": lambda match, today: _thing(
            given(match)[0], today, is_last=True
        ),
        rf"\b{THIS} {THING}\b": lambda match, today: _thing(match[1], today, is_last=False),
        rf"\b(?:{any_of(_DAYS_BACK)})\b": _day,
        rf"\b(?:({_ANY_OF_THEM}) (?:\w+ )?)?({any_of(WEEKDAYS)})\b": lambda match, today: (
            _weekday(WEEKDAYS[match[2]], today) if match[1] is None else None
        ),
        rf"\b(?:in|im|en|au) (?:the |der |el |la )?({any_of(SEASONS)})\b": _of_season,
        (
            r"(?<![每毎])(?<![每毎][个個])(?:星期|礼拜|禮拜|周|週)([一二三四五六日天])"
            r"|(?<!毎週)(?<!毎週の)([月火水木金土日])曜"
        ): lambda match, today: _weekday(CJK_WEEKDAYS[given(match)[0]], today),
        any_of(_CJK): lambda match, today: back(*_CJK[match[0]], today),
        r"([春夏秋冬])[天季]": lambda match, today: season_of(_CJK_SEASONS.index(match[1]) + 1, today),
    }
)
"""What names a period, the closer expressions first, and the period by the day that it is."""
