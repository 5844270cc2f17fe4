"""Plans: the days ahead that a text names, as "next Friday" or "on the 25th".

English, German, French, Spanish, Chinese and Japanese, as :mod:`memory_retrievers.text.periods`, which has what lies
behind. Days are those of the time zone of the moment when it is said.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import MINYEAR, UTC, datetime, timedelta
from functools import partial
from typing import Final

from memory_retrievers.text.periods import (
    CJK_NUMBER,
    CJK_UNIT,
    CJK_WEEKDAYS,
    DAY,
    LAST_YEAR,
    MONTH,
    MONTHS,
    NUMBER,
    NUMBERS,
    SEASONS,
    THING,
    THIS,
    UNIT,
    UNITS,
    WEEK,
    WEEKDAYS,
    WEEKEND,
    WRITTEN_YEAR,
    YEAR,
    Expression,
    Period,
    any_of,
    back,
    count_of,
    days_of,
    given,
    midnight,
    months_on,
    named,
    periods,
    plain,
    season_of,
)
from memory_retrievers.text.tense import is_past, is_past_by_what_follows, with_preterites

_LOOKED_AT: Final = 1_000  # characters of a text; who plans says so at once
_LESS_THAN_A_YEAR: Final = timedelta(days=364)  # the last time of a date is the next one from then on
_FROM_SATURDAY: Final = timedelta(days=5)  # so many days before, the weekend is the last that has begun

DAYS_ON: Final = {
    **dict.fromkeys(("today", "tonight", "this morning", "this afternoon", "this evening", "heute"), 0),
    **dict.fromkeys(("aujourd'hui", "ce soir", "cet apres-midi", "hoy", "esta noche", "esta tarde"), 0),
    **dict.fromkeys(("du jour", "今天", "今日", "今晚", "本日", "今夜"), 0),
    **dict.fromkeys(("tomorrow", "morgen", "demain", "manana", "明天", "明日", "あした", "明晚"), 1),
    **dict.fromkeys(("day after tomorrow", "ubermorgen", "apres-demain", "pasado manana"), 2),
    **dict.fromkeys(("后天", "後天", "明後日", "あさって"), 2),
    **dict.fromkeys(("大后天", "大後天", "明々後日", "しあさって"), 3),
}
_NO_TOMORROW: Final = "".join(
    rf"(?<!\b{word} )" for word in ("guten", "heute", "am", "jeden", "gestern", "la", "esta", "cada")
)
"""What stands before "morgen" and "mañana" where they are the morning."""

_NEXT: Final = r"(?:next|coming|upcoming|nachste[nrsm]?|kommende[nrsm]?|proxim[oa])"
_NOT_AHEAD: Final = (
    r"last|past|since|(?<=on )one|(?<=on )that(?: \w+)?"
    r"|(?:every|each)(?: other| second)?|an?(?= [mtwfs]\w+day)|any|eine[mn]|une?|le"
    r"|letzte[nrsm]?|vorige[nrsm]?|seit|jede[nrsm]?(?: zweite[nrsm]?)?|chaque|depuis|desde|cada(?: dos)?|los"
)
_HABIT: Final = re.compile(
    r"\b(?:(?:every|each) (?:week|month|year)|weekly|(?:month|year|annual)ly(?= (?:on|in)\b)|always"
    r"|usually|favou?rite (?:week)?days?|jede[ns]? (?:woche|monat|jahr)|immer(?! noch)|meistens"
    r"|chaque (?:semaine|mois|annee)|(?<!\best )toujours|cada (?:semana|mes|ano)"
    r"|siempre)\b|[每毎](?:周|週|月|年)"
)
_CLAUSE_END: Final = re.compile(
    rf"([,;.!?] (?!(?:and |und |et |y )?(?:{any_of(WEEKDAYS)})\b)| (?:but|that|aber|dass|mais|que|pero) )"
)
_WORKING_WEEK: Final = (
    r"\b(?:monday (?:to|through|till?)|montag bis|lundi au|lunes a) (?:friday|saturday|freitag|vendredi|viernes)"
)
_NO_DAYS: Final = re.compile(
    rf"\b(?:{any_of(WEEKDAYS)}) (?:mornings|afternoons|evenings|nights)\b"
    r"|\b\d{1,2}(?:st|nd|rd|th) (?:of (?:each|every|the) month|try|attempt|time|floor|grade|place|century)\b"
    r"|\b(?<!off )(?:works?|hours|stand-?up|at school|arbeitet|travaille|trabaja|[ap]\.?m\.?)(?= )"
    rf"(?:(?! (?:and|und|et|y) )[^,;]){{1,31}}{_WORKING_WEEK}|\bopen (?:[^a-z;]|from|to|till){{0,15}}{_WORKING_WEEK}"
    rf"|{_WORKING_WEEK}\b[^;]{{0,9}}\b\d(?!\d* ?(?:days|nights|tage|nachte|jours|nuits|dias|noches))"
    r"|[周週]一[到至-][周週]?五[^不]?上班|月曜日?から金曜日?まで働"
    r"|(?<![a-z])(?!(?:am|vom|den|dem|der|zum|bis|ab|und|seit|nach|vor|\w+tag) )[a-z]+ \d{1,2}\.\d{1,2}\.(?!\d)"
)
"""Office hours, turns and versions. Who is in Rome from Monday to Friday may be there another week as well."""

_OTHER_DAYS: Final = datetime(1901, 1, 1, tzinfo=UTC), datetime(1902, 6, 20, tzinfo=UTC)
"""Two days before all dates that texts tell: what these name is the same on both."""

_LASTING: Final = re.compile(
    rf"\b(?:(?:has|have|hasn't|haven't|'ve|'s been)\b[^.;]* for|seit|depuis|desde hace) {NUMBER} {UNIT}\b"
    rf"|\b{NUMBER} {UNIT} (?:old|pregnant|alt|schwanger|de edad)\b|\b(?:enceinte|embarazada) de {NUMBER} {UNIT}\b"
)
_ROUGHLY: Final = re.compile(
    r"\b(?:currently|recently|lately|right now|at (?:the moment|present)|the other day|derzeit|zur ?zeit|momentan"
    r"|aktuell|neulich|kurzlich|(?:vor|seit) kurzem|actuellement|recemment|en ce moment|il y a peu|depuis peu"
    r"|l'autre jour|actualmente|ahora mismo|recientemente|ultimamente|el otro dia"
    r"|(?<!usuari[oa] )hace poco|hace poco(?= se| que)"
    rf"|(?:a few|a couple of|several|half an?) {UNIT} ago|(?:vor|seit) (?:ein paar|einigen|wenigen|einem halben) {UNIT}"
    rf"|(?:il y a|depuis) (?:quelques|plusieurs) {UNIT}|hace (?:un[oa]s|varios|varias|un par de) {UNIT}"
    rf"|(?:has|have|hasn't|haven't|'ve|'s been)\b[^.;]* for {NUMBER} {UNIT}|(?:seit|depuis) {NUMBER} {UNIT}"
    r"|(?:weeks|months) (?:old|pregnant)|(?:wochen|monate) alt|monat schwanger|(?:semanas|meses) de edad"
    rf"|enceinte de {NUMBER}|embarazada de {NUMBER})\b"
    r"|最近|目前|刚刚(?!好)|剛剛(?!好)|前几天|这几天|近来|[几幾数](?:个|個|か)?[天日周週月年]間?(?:之|以)?前|先日|この前|この間|今朝|現在|ここ数"
)
"""What counts from a day without naming it."""

MONTHS_AHEAD: Final = 8  # a month that is named alone is no further off

_ENDING: Final = r"(?:st|nd|rd|th|er|\.)?"
_ORDINAL: Final = rf"(\d{{1,2}}){_ENDING}"
_OF_MONTH: Final = rf"(?:of |de )?(?P<month>{any_of(MONTHS)})"
_UNTIL_THEN: Final = re.compile("bis|until|till|hasta")
_PART_OF_MONTH: Final = (
    r"(?:in|for|im|en|para|until|till|(?:end|beginning|start|middle) of|early|late|mid|ende|anfang|mitte|ab|bis"
    r"|fin|debut|mi|(?:finales|fines|principios|mediados|partir) de|hasta|a partir d(?=')|au mois de)[ '-]"
)
_PART: Final = re.compile(
    r"\b(beginning|start|early|anfang|debut|principios)\b|\b(middle|mid|mitte|mi|mediados)\b"
    r"|(\b(?:end|late|fin|finales|fines)\b|ende\b|[底末])"
)
_DAYS_OF_HABITS: Final = re.compile(
    rf"\b(?:{any_of(WEEKDAYS)})\b|\b{_PART_OF_MONTH}(?:{any_of(MONTHS)})\b|\bthe \d+(?:st|nd|rd|th)\b"
)
_SOME: Final = r"(?:a |ein |un )?(few|couple of|paar|einigen|wenigen|quelques|unos|unas|par de)"
_CJK_MONTH: Final = r"(?:\d{1,2}|十[一二]?|[一二三四五六七八九])"
_NEXT_YEAR: Final = (
    r"(?:of )?next year|nachsten jahres|(?:de )?l'an(?:nee)? prochaine?|del (?:ano que viene|proximo ano)"
)
_IN_YEAR: Final = rf"(?:(?:,| of| de| del)? (?P<year>{WRITTEN_YEAR}))?"
_TO: Final = r" ?(?:to|through|until|till|bis|a|au|al|hasta|-|–|and|und|et|y) ?(?:the |dem |el |le )?"

BEYOND_LATIN: Final = re.compile(r"[\u3040-\u9fff]")  # characters of Chinese and Japanese
_DIGITS_OF_DAYS: Final = re.compile(r"\d{4}-\d\d-|\d(?:st|nd|rd|th|\.)|\b(?:le|el|dia) \d")
NAMES_OF_DAYS: Final = re.compile(
    rf"\b(?:{any_of(UNITS, WEEKDAYS, MONTHS, SEASONS, {w: 0 for w in DAYS_ON if w.isascii()})}"
    r"|(?:monats|jahres)ende|coming|upcoming|soon)\b"
)


def days_ahead(text: str, *, today: datetime, by_clock: bool = True) -> tuple[Period, ...]:
    """The periods from a day on that a text names.

    Args:
        text: The text.
        today: Any moment of the day when it is said; its time zone is that of the days.
        by_clock: Also those that are reckoned from that day, such as "next Friday"; else only dates.

    >>> from datetime import UTC
    >>> said = datetime(2026, 3, 4, 9, tzinfo=UTC)
    >>> [f"{each.since:%A, %d %B}" for each in days_ahead("The plumber comes on Friday", today=said)]
    ['Friday, 06 March']
    >>> days_ahead("Work was hard yesterday", today=said)
    ()
    """
    left = plain(with_preterites(text[:_LOOKED_AT]))
    if not any(sign.search(left) for sign in (NAMES_OF_DAYS, _DIGITS_OF_DAYS, BEYOND_LATIN)):  # as nearly always
        return ()
    day = midnight(today)
    expressions = _EXPRESSIONS if by_clock else _DATES
    return tuple(period for period in named(left, expressions, day) if period.until > day)


def days_behind(text: str, *, today: datetime) -> tuple[Period, ...]:
    """The periods up to a day that a text names, "at the weekend" for the last that has begun.

    Args:
        text: The text.
        today: Any moment of the day when it is said; its time zone is that of the days.
    """
    if today.year == MINYEAR:  # of whoever knows no time: nothing lies behind the first day there is
        return ()
    day, left = midnight(today), plain(text[:_LOOKED_AT])
    dates = named(left, _DATES, day - _LESS_THAN_A_YEAR)
    weekend = [back(WEEKEND, 0, day - _FROM_SATURDAY)] if _AT_THE_WEEKEND.search(left) else ()
    return *_behind(left, day), *(each for each in dates if each.since <= day), *weekend


def names_relative_day(text: str) -> bool:
    """True if a text says something else on another day: "tomorrow", "last year", "on Friday", "recently".

    >>> names_relative_day("User sees the dentist next Friday"), names_relative_day("User was born on 4 May 1980")
    (True, False)
    """
    if _ROUGHLY.search(plain(text[:_LOOKED_AT])):
        return True
    one, other = _OTHER_DAYS
    left = _without_habits(text)
    ahead = days_ahead(left, today=one)
    if ahead and ahead != days_ahead(left, today=other):
        return True
    behind = _behind(left, one)
    return behind != () and behind != _behind(left, other)


def names_same_days(text: str, one: datetime, other: datetime) -> bool:
    """True if a text means the same days on two days: "next Friday" in one week, "4 May" until that day has come.

    Args:
        text: The text.
        one: Any moment of the one day.
        other: Any moment of the other, in the same time zone.
    """
    left = _without_habits(text)
    if days_ahead(left, today=one) != days_ahead(left, today=other):
        return False
    if (lasted := _LASTING.search(left)) and abs(other - one).days >= days_of("one", given(lasted)[-1]):
        return False
    # what has lasted since March is told until today
    since = ([each.since for each in _behind(left, day)] for day in (one, other))
    return next(since) == next(since)


def _behind(text: str, day: datetime) -> tuple[Period, ...]:
    """The periods behind a day that a text names, but for the day of the week of a date: "Friday, 27 March 2026"."""
    if not periods(text, now=day):  # as nearly always
        return ()
    for date, _ in _DATES:
        text = date.sub(" ; ", text)
    return periods(text, now=day)


def _without_habits(text: str) -> str:
    """A text without what is no day though it is written as one: office hours, what is done each month, versions."""
    clauses = _CLAUSE_END.split(_NO_DAYS.sub(" ; ", plain(text[:_LOOKED_AT])))
    return "".join(_DAYS_OF_HABITS.sub(" ; ", each) if _HABIT.search(each) else each for each in clauses)


def _on(days: int, today: datetime) -> Period:
    return back(DAY, -days, today)


def _weekday(number: int, today: datetime, *, week: int | None = None) -> Period:
    """The next such day, today included; or that of the week so many on."""
    if week is not None:
        return _on(number - 1 - today.weekday() + 7 * week, today)
    return _on((number - 1 - today.weekday()) % 7, today)


def _thing(word: str, today: datetime, *, is_next: bool) -> Period | list[Period]:
    """This or the next day of the week, weekend, week, month or year; both that may be meant."""
    if word in WEEKDAYS:
        first = _weekday(WEEKDAYS[word], today + timedelta(days=int(is_next)))
        is_soon = is_next and first.since < today + timedelta(days=7)  # on a Friday "next Friday" is the one in a week
        return [first, _on(7, first.since)] if is_soon else first
    if word in MONTHS:
        return _month(MONTHS[word], today)
    if word in SEASONS:
        found = [season_of(SEASONS[word], today, year=today.year + more) for more in range(-1, 1 + is_next)]
        return [each for each in found if (each.since if is_next else each.until) > today][:1]
    unit = UNITS[word]
    if unit == DAY:
        return []  # "this day"
    if unit == WEEKEND and is_next:
        return [back(unit, 0, today), back(unit, -1, today)]
    return back(unit, -int(is_next), today)


def _this(match: re.Match[str], today: datetime) -> Period | list[Period] | None:
    """This month or Friday; of a time that has begun something may be told in the past."""
    is_ahead = match[1] in WEEKDAYS or UNITS.get(match[1]) == WEEKEND
    return _thing(match[1], today, is_next=False) if is_ahead or not is_past(match) else None


def _in_so_many(match: re.Match[str], today: datetime) -> Period:
    """A day in so many days; some days around it in so many weeks, since nobody counts them; "a few" are 2 to 5."""
    number, unit = given(match)
    if not (number.isdecimal() or number in NUMBERS):
        return Period(back(UNITS[unit], -2, today).since, back(UNITS[unit], -5, today).until)
    count, of = count_of(number), UNITS[unit]
    if of in {WEEK, WEEKEND}:
        return Period(_on(7 * count - 3, today).since, _on(7 * count + 3, today).until)
    return back(of, -count, today) if of in {MONTH, YEAR} else _on(count, today)


def _groups_of(match: re.Match[str]) -> dict[str, str]:
    """What the named groups of a match tell, ``day_`` as ``day``."""
    return {name.rstrip("_"): word for name, word in match.groupdict().items() if word}


def _days_from(match: re.Match[str], today: datetime) -> Period | None:
    """A day so many days or weeks from another one; all of them, where something lasts for so long."""
    named = _groups_of(match)
    if ("lasts" in named or " on " in match[0]) and is_past(match):
        return None
    first = _on(DAYS_ON[base], today) if (base := named["base"]) in DAYS_ON else _weekday(WEEKDAYS[base], today)
    days = days_of(named["count"], named["unit"]) if "count" in named else 14 if "quinze" in match[0] else 7
    last = _on(days, first.since)
    return Period(first.since, last.since) if "lasts" in named else last


def _part_of(words: str, whole: Period) -> Period:
    """The third of a period, of 31 days at most, that words name, such as "early" and "end of"; else all of it."""
    third = timedelta(days=min(-((whole.since - whole.until).days // 3), 31))
    bounds = whole.since, whole.since + third, whole.until - third, whole.until
    place = part.lastindex or 1 if (part := _PART.search(words)) else 0
    return Period(*bounds[place - 1 : place + 1]) if place else whole


def _month(number: int, today: datetime) -> Period:
    since = datetime(today.year + int(number < today.month), number, 1, tzinfo=today.tzinfo)
    return Period(since, months_on(since, 1))


def _months_soon(match: re.Match[str], today: datetime) -> list[Period]:
    """Months without a year, or a part of one, unless they are so far that the last ones may be meant."""
    if _UNTIL_THEN.match(match[0]) and is_past(match):
        return []
    months = (_month(MONTHS[word] if word in MONTHS else count_of(word), today) for word in given(match))
    first_too_far = months_on(today.replace(day=1), MONTHS_AHEAD)
    return [_part_of(match[0], month) for month in months if month.since < first_too_far]


def _of_next_year(match: re.Match[str], today: datetime) -> Period | None:
    """A month or a day of the next year; what was in the last one is no plan."""
    named = _groups_of(match)
    if "last" in named:
        return None
    month = MONTHS.get(named["month"]) or count_of(named["month"])
    since = datetime(today.year + 1, month, int(named.get("day", 1)), tzinfo=today.tzinfo)
    return _on(0, since) if "day" in named else Period(since, months_on(since, 1))


def _date(day: str, month: int, year: str | None, today: datetime) -> Period:
    """The day of a year, or the next of this date."""
    since = datetime(int(year or today.year), month, int(day), tzinfo=today.tzinfo)
    return _on(0, since if year or since >= today else since.replace(year=today.year + 1))


def _day_of_month(match: re.Match[str], today: datetime) -> Period:
    """The next day of a number; all from it to another, as "25th to 28th"."""
    first = since = today
    for number in given(match):
        month = since.replace(day=1)
        this = month.replace(day=int(number))
        since = this if this >= since else months_on(month, 1).replace(day=int(number))
        first = since if first is today else first
    return Period(first, _on(0, since).until)


def _weekday_of_date(match: re.Match[str], today: datetime) -> Period | None:
    """The day of "Friday 20th"; if that is no Friday, as in "Friday 2nd interview", the next Friday."""
    number, day = WEEKDAYS[match[1]], int(match[2])
    for month in (months_on(today.replace(day=1), more) for more in (0, 1)):
        with suppress(ValueError):  # it may have no such day
            if (date := month.replace(day=day)) >= today and date.isoweekday() == number:
                return _on(0, date)
    return None if is_past(match) else _weekday(number, today)


def _day_of_that_month(match: re.Match[str], today: datetime) -> Period | None:
    *which, number = given(match)
    count = _WHICH_ONE[which[0]] if which else 1
    return None if count is None else _on(0, months_on(today.replace(day=1), count).replace(day=int(number)))


def _weekdays(match: re.Match[str], today: datetime) -> Period:
    first = _weekday(WEEKDAYS[match[1]], today)
    return Period(first.since, _weekday(WEEKDAYS[match[2]], first.since).until)


def _dates(match: re.Match[str], today: datetime) -> Period:
    first, last, month, year = match["first"], match["last"], MONTHS[match["month"]], match["year"]
    end = _date(last, month, year, today)  # what has begun is not next year's
    return Period(end.since.replace(day=int(first)), end.until)


def _bare_weekday(match: re.Match[str], today: datetime) -> Period | None:
    before, word = match.groups()
    return None if before or is_past(match) else _weekday(WEEKDAYS[word], today)


def _cjk_weekday(match: re.Match[str], today: datetime) -> Period | None:
    which, word = match.groups()
    if not which and is_past_by_what_follows(match):
        return None
    week = _WHICH_ONE.get(which)
    return None if which and week is None else _weekday(CJK_WEEKDAYS[word], today, week=week)


def _cjk_unit(unit: int, match: re.Match[str], today: datetime) -> Period | None:
    count = _WHICH_ONE.get(match[1], 0)
    return None if count is None else back(unit, -count, today)


_WHICH_ONE: Final[dict[str | None, int | None]] = {
    **dict.fromkeys(("下下个", "下下個", "下下", "再来"), 2),
    **dict.fromkeys(("下个", "下個", "下", "来"), 1),
    **dict.fromkeys(("今", "这个", "這個", "这", "這", "本"), 0),
    **dict.fromkeys(("上个", "上個", "上", "先", "每个", "每個", "每", "毎", "隔周", "隔"), None),
}
_WHICH: Final = (
    "(下下个|下下個|下下|下个|下個|下|再来|来|今|这个|這個|这|這|本|上个|上個|上|先|每个|每個|每|毎|隔周|隔)"
)
_BASE: Final = any_of(WEEKDAYS, {word: 0 for word in DAYS_ON if word.isascii()})
_COUNTED: Final = f"{NUMBER.replace('(', '(?P<count>', 1)} {UNIT.replace('(', '(?P<unit>', 1)}"
_NEXT_WEEK: Final = r"(?:next week|nachste[rn]? woche|(?:de )?la (?:semaine prochaine|semana que viene|proxima semana))"
_LATIN_DAYS: Final = {word: 0 for word in DAYS_ON if word.isascii() and word not in {"morgen", "manana"}}
_WITH_DAY: Final = rf"(?:\b(?:{any_of(WEEKDAYS)}),? (?:the |den |dem )?)?"
_DATES: Final[tuple[Expression, ...]] = (
    (
        re.compile(rf"{_WITH_DAY}\b({WRITTEN_YEAR})-(\d\d)-(\d\d)\b"),
        lambda match, today: _date(match[3], int(match[2]), match[1], today),
    ),
    (
        re.compile(rf"{_WITH_DAY}(?<![\d.])(\d{{1,2}})\.(\d{{1,2}})\.({WRITTEN_YEAR})?(?!\d)"),
        lambda match, today: _date(match[1], int(match[2]), match[3], today),
    ),
    (
        re.compile(rf"(?:({WRITTEN_YEAR})年)?(?<!\d)(\d{{1,2}})月(\d{{1,2}})[日号號](?: ?\(?(?:周|週|星期|.曜).\)?)?"),
        lambda match, today: _date(match[3], int(match[2]), match[1], today),
    ),
    (
        re.compile(
            rf"{_WITH_DAY}\b(?P<first>\d{{1,2}}){_ENDING}{_TO}(?P<last>\d{{1,2}}){_ENDING} {_OF_MONTH}\b{_IN_YEAR}"
        ),
        _dates,
    ),
    (
        re.compile(
            rf"{_WITH_DAY}\b{_OF_MONTH} (?P<first>\d{{1,2}}){_ENDING}{_TO}(?P<last>\d{{1,2}}){_ENDING}\b{_IN_YEAR}"
        ),
        _dates,
    ),
    (
        re.compile(rf"{_WITH_DAY}\b{_ORDINAL} (?:of |de )?({any_of(MONTHS)})\b{_IN_YEAR}"),
        lambda match, today: _date(match[1], MONTHS[match[2]], match[3], today),
    ),
    (
        re.compile(rf"{_WITH_DAY}\b({any_of(MONTHS)}) (?:the )?{_ORDINAL}(?![\d:]){_IN_YEAR}"),
        lambda match, today: _date(match[2], MONTHS[match[1]], match[3], today),
    ),
)
"""What names dates, the closer expressions first, and the periods by the day when it is said."""

_AT_THE_WEEKEND: Final = re.compile(
    rf"\b(?:the|my|our|on|over|am|das|mein|unser|{THIS}|le|mon|el|mi) (?:weekend|wochenende|week-end|fin de semana)\b"
    r"(?! (?:pasad|dernier))|(?<![上下每毎个個])[周週]末"
)
_EXPRESSIONS: Final[tuple[Expression, ...]] = (
    (
        re.compile(
            rf"(?:\b(?P<day>\d{{1,2}}){_ENDING} |\b{_PART_OF_MONTH})?\b{_OF_MONTH}(?: (?P<day_>\d{{1,2}}){_ENDING})?,? "
            rf"(?:{_NEXT_YEAR}|(?P<last>{LAST_YEAR}))\b"
        ),
        _of_next_year,
    ),
    (re.compile(rf"[明来]年の?(?P<month>{_CJK_MONTH})月(?:(?P<day>\d{{1,2}})[日号號])?"), _of_next_year),
    *_DATES,
    (
        re.compile(
            rf"(?<!once )(?<!twice )(?<!times )(?<!days )(?<!hours )(?<!every )\b(?P<lasts>for )?{_COUNTED} "
            rf"(?:from|(?<=week )on|(?<=weeks )on) (?P<base>{_BASE})\b"
            rf"|\b(?P<base_>{_BASE}) (?:in|dentro de) {_COUNTED.replace('>', '_>')}\b"
            rf"|(?<!last )\b(?P<base__>{_BASE}) (?:week(?! \d)|en (?:huit|quinze))\b"
        ),
        _days_from,
    ),
    (
        re.compile(
            rf"\b({any_of(WEEKDAYS)}),? (?:of |in |der )?{_NEXT_WEEK}\b"
            rf"|\b{_NEXT_WEEK},? (?:on |am |el )?({any_of(WEEKDAYS)})\b"
        ),
        lambda match, today: _weekday(WEEKDAYS[given(match)[0]], today, week=1),
    ),
    (
        re.compile(
            rf"\b(?:{_NEXT}s?|prochaine?s|(?<!ed )within) {NUMBER} {UNIT}\b(?! (?:\w+ )?(?:was|were|went|had|did)\b)"
            rf"|\b{NUMBER} prochaine?s {UNIT}\b"
        ),
        lambda match, today: Period(today, _on(days_of(*given(match)), today).until),
    ),
    (
        re.compile(rf"\b(?:in|dans|en|dentro de) (?:{NUMBER}|{_SOME}) {UNIT}\b|\b{NUMBER} {UNIT} from (?:now|today)\b"),
        _in_so_many,
    ),
    (re.compile(rf"(?:{CJK_NUMBER}|([几幾数]))(?:个|個)?{CJK_UNIT}(?:之|以)?[后後]"), _in_so_many),
    (
        re.compile(
            rf"{_WHICH}个?月の?(\d{{1,2}})[日号號]|\b(\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |du |del )?"
            r"(?:next month|nachsten monats|mois prochain|mes que viene|proximo mes)\b"
        ),
        _day_of_that_month,
    ),
    (
        re.compile(rf"\b(?:ubernachste[nrsm]? {UNIT}|{UNIT} after next)\b"),
        lambda match, today: back(UNITS[given(match)[0]], -2, today),
    ),
    (
        re.compile(rf"\b(?:{_NEXT} {THING}|{THING} (?:prochaine?|proxim[oa]|que viene|qui vient))\b"),
        lambda match, today: _thing(given(match)[0], today, is_next=True),
    ),
    (re.compile(rf"\b{THIS} {THING}\b"), _this),
    (
        re.compile(rf"\b(?:{any_of(_LATIN_DAYS)})\b|{_NO_TOMORROW}\b(?:morgen|manana)\b"),
        lambda match, today: _on(DAYS_ON[match[0]], today),
    ),
    (
        re.compile(any_of({word: 0 for word in DAYS_ON if not word.isascii()})),
        lambda match, today: _on(DAYS_ON[match[0]], today),
    ),
    (
        re.compile(
            r"\b(\d{1,2})(?:st|nd|rd|th|\.) ?(?:to|until|till|bis|-|–) ?(?:the |zum )?(\d{1,2})(?:st|nd|rd|th|\.)"
            r"(?!\d| (?:place|floor|grade|gear|base|century|class|row|street|avenue|round|platz|klasse|stock|rang)\b)"
        ),
        _day_of_month,
    ),
    (
        re.compile(
            rf"{_WITH_DAY}\b(?:on|by|until|before|the|am|zum|bis|den|dem|le|el|el dia) (?:the )?(\d{{1,2}})"
            r"(?:st|nd|rd|th|\.)(?!\d)"
            rf"|\b(?:le|el|el dia) (?:(?:{any_of(WEEKDAYS)}) )?(\d{{1,2}})\b(?! ?(?:h|:|%|euro))"
            r"|(?<![\d月])(?<!あと)(\d{1,2})[日号號](?!間)"
        ),
        _day_of_month,
    ),
    (re.compile(rf"\b({any_of(WEEKDAYS)}),? (\d{{1,2}})(?:st|nd|rd|th|\.)(?!\d)"), _weekday_of_date),
    (re.compile(rf"\b({any_of(WEEKDAYS)}){_TO}({any_of(WEEKDAYS)})\b"), _weekdays),
    (re.compile(rf"\b(?:({_NOT_AHEAD}) )?({any_of(WEEKDAYS)})\b(?! (?:dernier|passe|pasado))"), _bare_weekday),
    (
        re.compile(r"\b(?:the|am|ce|el|on|over) (?:weekend|wochenende|week-end|fin de semana)\b(?! (?:pasad|dernier))"),
        lambda match, today: None if is_past(match) else back(WEEKEND, 0, today),
    ),
    (re.compile(rf"{_WHICH}?(?:[周週]|星期|礼拜|禮拜)([一二三四五六日天])"), _cjk_weekday),
    (re.compile(rf"(?:{_WHICH}週の?)?([月火水木金土日])曜"), _cjk_weekday),
    (re.compile(rf"{_WHICH}?(?:週の)?[周週]末"), partial(_cjk_unit, WEEKEND)),
    (re.compile(rf"{_WHICH}(?:[周週]|星期)"), partial(_cjk_unit, WEEK)),
    (re.compile(rf"{_WHICH}月"), partial(_cjk_unit, MONTH)),
    (re.compile("[明来]年(?:年?[底末])?"), lambda _, today: back(YEAR, -1, today)),
    (
        re.compile(
            rf"\b(?:end of|ende) (?:the |this |des |der )?(?!day|ans?\b){UNIT}\b|\b(monats|jahres)ende\b"
            r"|\b(?:fin d[eu]|fin(?:al)?es de) (?:l')?(mois|annee|mes|ano)\b"
            r"|(?<![\d一二三四五六七八九十去昨每毎])(?<![去昨明每毎]年)([月年])[底末]"
        ),
        lambda match, today: _part_of(match[0], back(UNITS[given(match)[0]], 0, today)),
    ),
    (
        re.compile(
            rf"\b{_PART_OF_MONTH}({any_of(MONTHS)})(?: (?:and|or|und|oder|et|ou|y|o) ({any_of(MONTHS)}))?\b"
            rf"(?!(?:,| of| de| del)? {WRITTEN_YEAR})"
            rf"|(?<!\d)(?<![\d去昨前每毎]年)({_CJK_MONTH})月(?!\d)[底末]?"
        ),
        _months_soon,
    ),
)
"""The same, and what names days by the clock."""
