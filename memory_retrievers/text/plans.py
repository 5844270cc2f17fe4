"""Plans: the days ahead that a text names, as "next Friday" or "on the 25th".

English, German, French, Spanish, Chinese and Japanese; what lies behind is in :mod:`memory_retrievers.text.periods`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import MINYEAR, UTC, datetime, timedelta
from typing import Final

from memory_retrievers.text.periods import (
    CJK_NUMBER,
    CJK_UNIT,
    CJK_WEEKDAYS,
    DAY,
    DAYS_ON,
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
    Period,
    Resolve,
    any_of,
    back,
    compiled,
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
from memory_retrievers.text.tense import by_spelling, is_past, is_past_by_what_follows

_LOOKED_AT: Final = 1_000  # characters of a text; who plans says so at once
_LESS_THAN_A_YEAR: Final = timedelta(days=364)  # the last time of a date is the next one from then on
_WEEK_DAYS: Final = 7
_FROM_SATURDAY: Final = timedelta(days=5)  # so many days before, the weekend is the last that has begun

_LATIN_DAYS: Final = frozenset(filter(str.isascii, DAYS_ON))
_NO_TOMORROW: Final = r"(?<!\b(?:guten|heute|jeden) )(?<!\bgestern )(?<!\b(?:esta|cada) )(?<!\b(?:am|la) )"
"""What stands before "morgen" and "mañana" where they are the morning."""

_NEXT: Final = r"(?:next|coming|upcoming|nachste[nrsm]?|kommende[nrsm]?|proxim[oa])"
_NOT_AHEAD: Final = (
    r"last|past|since|(?<=on )one|(?<=on )that(?: \w+)?|(?:every|each)(?: other| second)?|an?(?= [mtwfs]\w+day)|any"
    r"|eine[mn]|une?|le|(?:letzt|vorig|jed)e[nrsm]?(?: zweite[nrsm]?)?|seit|chaque|depuis|desde|cada(?: dos)?|los"
)
_EACH: Final = rf"({any_of(WEEKDAYS)})"
_RECURRING: Final = re.compile(
    r"\b(?:(?:every|each)(?: other| second)?|jede[nr]?(?: zweite[nr])?|chaque|tous les|cada|todos los|los) "
    rf"{_EACH}s?(?:,? (?:and|or|und|oder|et|y) {_EACH})?\b|\b{_EACH}s\b"
)
_NO_LONGER: Final = re.compile(r"\bused to\b|\bany ?more\b|\bno longer\b|\bfruher\b|\bnicht mehr\b|\bne \w+ plus\b")
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
    r"|\b\d{1,2}(?:st|nd|rd|th) of (?:each|every|the) month\b"
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

_DAYS_OF_HABITS: Final = re.compile(rf"\b(?:{any_of(WEEKDAYS, MONTHS)})\b|\bthe \d+(?:st|nd|rd|th)\b")

MONTHS_AHEAD: Final = 8  # a month that is named alone is no further off

_ENDING: Final = r"(?:st|nd|rd|th|er|\.)?"
_OF_MONTH: Final = rf"(?:of |de )?(?P<month>{any_of(MONTHS)})"
_PART_OF_MONTH: Final = (
    r"(?:in|for|im|en|para|until|till|(?:end|beginning|start|middle) of|early|late|mid|ende|anfang|mitte|ab|bis"
    r"|fin|debut|mi|(?:finales|fines|principios|mediados|partir) de|hasta|a partir d(?=')|au mois de)[ '-]"
)
_PART: Final = re.compile(
    r"\b(beginning|start|early|anfang|debut|principios)\b|\b(middle|mid|mitte|mi|mediados)\b"
    r"|(\b(?:end|late|fin|finales|fines)\b|ende\b|[底末])"
)
_SOME: Final = r"(?:a |ein |un )?(few|couple of|paar|einigen|wenigen|quelques|unos|unas|par de)"
_CJK_MONTH: Final = r"(?:\d{1,2}|十[一二]?|[一二三四五六七八九])"
_NEXT_YEAR: Final = (
    r"(?:of )?next year|nachsten jahres|(?:de )?l'an(?:nee)? prochaine?|del (?:ano que viene|proximo ano)"
)
_IN_YEAR: Final = rf"(?:(?:,| of| de| del)? (?P<year>{WRITTEN_YEAR}))?"
_TO: Final = r" ?(?:to|through|until|till|bis|a|au|al|hasta|-|–|and|und|et|y) ?(?:the |dem |el |le )?"

BEYOND_LATIN: Final = re.compile(r"[\u3040-\u9fff]")  # characters of Chinese and Japanese
_DIGIT: Final = re.compile(r"\d")
_DIGITS_OF_DAYS: Final = re.compile(r"\d{4}-\d\d-|\d(?:st|nd|rd|th|\.)|\b(?:le|el|dia|au|al) \d")
NAMES_OF_DAYS: Final = re.compile(
    rf"\b(?:{any_of(UNITS, WEEKDAYS, MONTHS, SEASONS, _LATIN_DAYS)}|(?:monats|jahres)ende|coming|upcoming|soon)\b"
)


def days_ahead(text: str, *, today: datetime, by_clock: bool = True, left: str | None = None) -> tuple[Period, ...]:
    """The periods from a day on that a text names.

    Args:
        text: The text.
        today: Any moment of the day when it is said; its time zone is that of the days.
        by_clock: Also those that are reckoned from that day, such as "next Friday"; else only dates.
        left: What :func:`plain` makes of the text, if that is known.

    >>> from datetime import UTC
    >>> said = datetime(2026, 3, 4, 9, tzinfo=UTC)
    >>> [f"{each.since:%A, %d %B}" for each in days_ahead("The plumber comes on Friday", today=said)]
    ['Friday, 06 March']
    >>> days_ahead("Work was hard yesterday", today=said)
    ()
    """
    left = plain(text[:_LOOKED_AT]) if left is None or len(text) > _LOOKED_AT else left
    is_cjk = not left.isascii() and BEYOND_LATIN.search(left) is not None
    if not (is_cjk or NAMES_OF_DAYS.search(left) or (_DIGIT.search(left) and _DIGITS_OF_DAYS.search(left))):
        return ()  # as nearly always
    day, has_digits = midnight(today), _DIGIT.search(left) is not None
    expressions = _EXPRESSIONS[has_digits, is_cjk] if by_clock else _DATES
    return tuple(each for each in named(plain(by_spelling(text[:_LOOKED_AT])), expressions, day) if each.until > day)


def recurring_days(text: str) -> frozenset[int]:
    """The days of the week, 1 to 7, on which a text tells that something is every week."""
    left = plain(text[:_LOOKED_AT])
    found = () if _NO_LONGER.search(left) else _RECURRING.finditer(left)
    return frozenset(WEEKDAYS[day] for match in found if not is_past(match) for day in given(match))


def recurs_on(recurring: Collection[int], asked: Sequence[Period]) -> bool:
    """True if one of the days of the week, as of :func:`recurring_days`, is one of the asked, of a week at most.

    >>> from datetime import UTC
    >>> friday = Period(datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 3, 7, tzinfo=UTC))
    >>> [recurs_on(recurring_days(told), [friday]) for told in ("Choir is every Friday", "Yoga is on Mondays")]
    [True, False]
    """
    days = ((each.since.weekday(), (each.until - each.since).days) for each in asked)
    return any((first + more) % 7 + 1 in recurring for first, n in days if n <= _WEEK_DAYS for more in range(n))


def days_behind(text: str, *, today: datetime) -> tuple[Period, ...]:
    """The periods up to a day that a text names, as :func:`days_ahead`; "at the weekend" is the last that has begun."""
    if today.year == MINYEAR:  # of whoever knows no time: nothing lies behind the first day there is
        return ()
    day, left = midnight(today), plain(text[:_LOOKED_AT])
    dates = named(left, _DATES if _DIGIT.search(left) else (), day - _LESS_THAN_A_YEAR)
    weekend = [back(WEEKEND, 0, day - _FROM_SATURDAY)] if _AT_THE_WEEKEND.search(left) else ()
    behind = periods(left, now=day)
    if behind and dates:  # but for the day of the week of a date: "Friday, 27 March 2026"
        behind = periods(_without_dates(left), now=day)
    return *behind, *(each for each in dates if each.since <= day), *weekend


def names_relative_day(text: str) -> bool:
    """True if a text says something else on another day: "tomorrow", "last year", "on Friday", "recently".

    >>> names_relative_day("User sees the dentist next Friday"), names_relative_day("User was born on 4 May 1980")
    (True, False)
    """
    if _ROUGHLY.search(plain(text[:_LOOKED_AT])):
        return True
    left = _without_habits(text)
    first, other = _OTHER_DAYS
    if not any(one := _named_on(first, left)):  # as nearly always
        return False
    return any(then and then != later for then, later in zip(one, _named_on(other, left), strict=True))


def names_same_days(text: str, one: datetime, other: datetime) -> bool:
    """Whether a text means the same days if written on either of two: "next Friday" in one week, "4 May" until then.

    Args:
        text: The text.
        one: When it was written, in a time zone.
        other: Another time in that zone.
    """
    left = _without_habits(text)
    if (lasted := _LASTING.search(left)) and abs(other - one).days >= days_of("one", given(lasted)[-1]):
        return False
    return _named_on(one, left) == _named_on(other, left)


def _named_on(day: datetime, text: str) -> tuple[tuple[Period, ...], list[datetime]]:
    """The periods ahead, and since when those behind are: what has lasted since March is told until today."""
    # without dates, which are the same behind as ahead
    return days_ahead(text, today=day), [each.since for each in days_behind(_without_dates(text), today=day)]


def _without_dates(text: str) -> str:
    for date, _ in _DATES if _DIGIT.search(text) else ():
        text = date.sub(" ; ", text)
    return text


def _without_habits(text: str) -> str:
    """A text without what is no day though it is written as one: office hours, what is done each month, versions."""
    clauses = _CLAUSE_END.split(_NO_DAYS.sub(" ; ", plain(text[:_LOOKED_AT])))
    return "".join(_DAYS_OF_HABITS.sub(" ; ", each) if _HABIT.search(each) else each for each in clauses)


def _on(days: int, today: datetime) -> Period:
    return back(DAY, -days, today)


def _day_on(match: re.Match[str], today: datetime) -> Period:
    return _on(DAYS_ON[match[0]], today)


def _weekday(number: int, today: datetime, *, week: int | None = None) -> Period:
    """The next such day, today included; or that of the week so many on."""
    if week is not None:
        return _on(number - 1 - today.weekday() + 7 * week, today)
    return _on((number - 1 - today.weekday()) % 7, today)


def _thing(match: re.Match[str], today: datetime, *, is_next: bool = True) -> Period | list[Period]:
    """The next or this day of the week, weekend, week, month or year; both that may be meant."""
    (word,) = given(match)
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
    return _thing(match, today, is_next=False) if is_ahead or not is_past(match) else None


def _in_some(match: re.Match[str], today: datetime) -> Period:
    """A day in so many days; some days around it in so many weeks, since nobody counts them; "a few" are 2 to 5."""
    number, unit = given(match)
    if not (number.isdecimal() or number in NUMBERS):
        return Period(back(UNITS[unit], -2, today).since, back(UNITS[unit], -5, today).until)
    count, of = count_of(number), UNITS[unit]
    if of in {WEEK, WEEKEND}:
        return Period(_on(7 * count - 3, today).since, _on(7 * count + 3, today).until)
    return back(of, -count, today) if of in {MONTH, YEAR} else _on(count, today)


def _groups_of(match: re.Match[str]) -> dict[str, str]:
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


def _end_of(match: re.Match[str], today: datetime) -> Period:
    return _part_of(match[0], back(UNITS[given(match)[0]], 0, today))


def _month(number: int, today: datetime) -> Period:
    since = datetime(today.year + int(number < today.month), number, 1, tzinfo=today.tzinfo)
    return Period(since, months_on(since, 1))


def _months_soon(match: re.Match[str], today: datetime) -> list[Period]:
    """Months without a year, or a part of one, unless they are so far that the last ones may be meant."""
    if match[0].startswith(("bis", "until", "till", "hasta")) and is_past(match):
        return []
    months = (_month(MONTHS[word] if word in MONTHS else count_of(word), today) for word in given(match))
    first_too_far = months_on(today.replace(day=1), MONTHS_AHEAD)
    return [_part_of(match[0], month) for month in months if month.since < first_too_far]


def _dated(match: re.Match[str], today: datetime) -> Period | None:
    """The day of a date, all days from another one to it, or a month of the next year; without a year the next one."""
    named = _groups_of(match)
    if "last" in named:
        return None
    month = MONTHS.get(named["month"]) or count_of(named["month"])
    year = int(named.get("year", today.year + ("next" in named)))
    since = datetime(year, month, int(named.get("day", 1)), tzinfo=today.tzinfo)
    if "day" not in named:
        return Period(since, months_on(since, 1))
    if since < today and "year" not in named:
        since = since.replace(year=year + 1)
    return Period(since.replace(day=int(named.get("first", since.day))), _on(0, since).until)


def _next_of(day: int, today: datetime, *, months: int = 3) -> Iterator[Period]:
    """The next days of a number, in so many months; a month may have none."""
    days = (_on(day - 1, months_on(today.replace(day=1), more)) for more in range(months))
    return (each for each in days if each.since >= today and each.since.day == day)


def _day_of_month(match: re.Match[str], today: datetime) -> Period | None:
    """The next day of a number; all from it to another, as "25th to 28th"; none if it is told in the past."""
    found = list[Period]()
    for number in given(match):
        day, *_ = _next_of(int(number), found[-1].since if found else today)
        found.append(day)
    return None if is_past(match) else Period(found[0].since, found[-1].until)


def _day_of_that_month(match: re.Match[str], today: datetime) -> Period:
    *which, number = given(match)
    return _on(0, months_on(today.replace(day=1), _WHICH_ONE[which[0]] if which else 1).replace(day=int(number)))


def _bare(match: re.Match[str], today: datetime) -> Period | None:
    """The next such day or weekend; of "Friday 20th" that day, if it is a Friday soon: not "Friday 2nd interview"."""
    before, weekday, day, _ = match.groups()
    for date in _next_of(int(day), today, months=2) if day else ():
        if date.since.isoweekday() == WEEKDAYS[weekday]:
            return date
    if before or is_past(match):
        return None
    return _weekday(WEEKDAYS[weekday], today) if weekday else back(WEEKEND, 0, today)


def _cjk_weekday(match: re.Match[str], today: datetime) -> Period | None:
    *which, word = given(match)
    if not which and is_past_by_what_follows(match):
        return None
    return _weekday(CJK_WEEKDAYS[word], today, week=_WHICH_ONE[which[0]] if which else None)


def _cjk_unit(match: re.Match[str], today: datetime) -> Period:
    *which, unit = given(match)
    return back(UNITS.get(unit, WEEKEND), -_WHICH_ONE[which[0]] if which else 0, today)


_WHICH_ONE: Final = {
    **dict.fromkeys(("下下个", "下下個", "下下", "再来"), 2),
    **dict.fromkeys(("下个", "下個", "下", "来"), 1),
    **dict.fromkeys(("今", "这个", "這個", "这", "這", "本"), 0),
    **dict.fromkeys(
        ("上个", "上個", "上", "先", "每个", "每個", "每", "毎", "隔周", "隔"), -1
    ),  # which is left out, since it lies behind
}
_WHICH: Final = f"({any_of(_WHICH_ONE)})"
_WEEKDAY: Final = f"({any_of(WEEKDAYS)})"
_BASE: Final = any_of(WEEKDAYS, _LATIN_DAYS)
_COUNTED: Final = f"{NUMBER.replace('(', '(?P<count>', 1)} {UNIT.replace('(', '(?P<unit>', 1)}"
_NEXT_WEEK: Final = r"(?:next week|nachste[rn]? woche|(?:de )?la (?:semaine prochaine|semana que viene|proxima semana))"
_WITH_DAY: Final = rf"(?:\b(?:{any_of(WEEKDAYS)}),? (?:the |den |dem )?)?"
_DAYS: Final = rf"(?:(?P<first>\d{{1,2}}){_ENDING}{_TO})?(?P<day>\d{{1,2}}){_ENDING}"
_DATED: Final[Mapping[str, Resolve]] = {
    rf"{_WITH_DAY}\b(?P<year>{WRITTEN_YEAR})-(?P<month>\d\d)-(?P<day>\d\d)\b": _dated,
    rf"{_WITH_DAY}(?<![\d.])(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>{WRITTEN_YEAR})?(?!\d)": _dated,
    (
        rf"(?:(?P<year>{WRITTEN_YEAR})年)?(?<!\d)(?P<month>\d{{1,2}})月(?P<day>\d{{1,2}})[日号號]"
        r"(?: ?\(?(?:周|週|星期|.曜).\)?)?"
    ): _dated,
    rf"{_WITH_DAY}\b{_DAYS} {_OF_MONTH}\b{_IN_YEAR}": _dated,
    rf"{_WITH_DAY}\b{_OF_MONTH} (?:the )?{_DAYS}(?![\d:]){_IN_YEAR}": _dated,
}
"""What names dates, the closer expressions first, and the periods by the day when it is said."""

_AT_THE_WEEKEND: Final = re.compile(
    rf"\b(?:the|my|our|on|over|am|das|mein|unser|{THIS}|le|mon|el|mi) (?:weekend|wochenende|week-end|fin de semana)\b"
    r"(?! (?:pasad|dernier))|(?<![上下每毎个個])[周週]末"
)
_OF_NEXT_YEAR: Final[Mapping[str, Resolve]] = {
    (
        rf"\b(?:(?P<day>\d{{1,2}}){_ENDING} |{_PART_OF_MONTH})?\b{_OF_MONTH}(?: (?P<day_>\d{{1,2}}){_ENDING})?,? "
        rf"(?:(?P<next>{_NEXT_YEAR})|(?P<last>{LAST_YEAR}))\b"
        rf"|(?P<next_>[明来]年)の?(?P<month_>{_CJK_MONTH})月(?:(?P<day__>\d{{1,2}})[日号號])?"
    ): _dated,
}
_NTH: Final = rf"\d{{1,2}}(?:st|nd|rd|th|\.)(?:{_TO}\d{{1,2}}(?:st|nd|rd|th|\.))?"
_BY_NUMBER: Final[Mapping[str, Resolve]] = {
    (  # in the past tense, of a day to come
        r"\b(?:(?:decale|deplace|reporte|repousse|avance)e?s? au|(?:se (?:pasa|mueve|cambia)|aplazad[oa]) al) "
        r"(\d{1,2})\b(?!,? ?(?:h|:|%|euro|-\d|rue|av|bd|boul|pl|quai))"
    ): lambda match, today: next(_next_of(int(match[1]), today), None),
    (
        rf"\b(?:(?<!\bon the )(?<!\bby the )(?<!\bam )(?<!\bzum ){_NTH} (?:time(?!:? (?:\d|tb))|place|base|class|row"
        rf"|round|platz|klasse|rang|in the (?:league|table|race))"
        rf"|{_NTH} (?:try|attempt|floor|grade|gear|street|avenue|stock|century|centuries|to last))\b"
    ): lambda _, __: None,  # counted as days are
    (
        rf"{_WHICH}个?月の?(\d{{1,2}})[日号號]|\b(\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of |du |del )?"
        r"(?:next month|nachsten monats|mois prochain|mes que viene|proximo mes)\b"
    ): _day_of_that_month,
    (
        r"\b(\d{1,2})(?:st|nd|rd|th|\.) ?(?:to|until|till|bis|-|–) ?(?:the |zum )?(\d{1,2})(?:st|nd|rd|th|\.)"
        r"(?!\d)"
    ): _day_of_month,
    (
        rf"{_WITH_DAY}\b(?:on|by|until|before|the|am|zum|bis|den|dem|le|el|el dia) (?:the )?(\d{{1,2}})"
        rf"(?:st|nd|rd|th|\.)(?!\d)"
        rf"|\b(?:le|el|el dia) (?:(?:{any_of(WEEKDAYS)}) )?(\d{{1,2}})\b(?! ?(?:h|:|%|euro))"
    ): _day_of_month,
}
_BY_WORDS: Final[Mapping[str, Resolve]] = {
    (
        rf"\b(?:(?<!once )(?<!twice )(?<!times )(?<!days )(?<!hours )(?<!every )(?P<lasts>for )?{_COUNTED} "
        rf"(?:from|(?<=week )on|(?<=weeks )on) (?P<base>{_BASE})|(?<!last )(?P<base_>{_BASE}) "
        rf"(?:(?:in|dentro de) {_COUNTED.replace('>', '_>')}|week(?! \d)|en (?:huit|quinze)))\b"
    ): _days_from,
    (
        rf"\b{_WEEKDAY},? (?:of |in |der )?{_NEXT_WEEK}\b|\b{_NEXT_WEEK},? (?:on |am |el )?{_WEEKDAY}\b"
    ): lambda match, today: _weekday(WEEKDAYS[given(match)[0]], today, week=1),
    (
        rf"\b(?:{_NEXT}s?|prochaine?s|(?<!ed )within) {NUMBER} {UNIT}\b(?! (?:\w+ )?(?:was|were|went|had|did)\b)"
        rf"|\b{NUMBER} prochaine?s {UNIT}\b"
    ): lambda match, today: Period(today, _on(days_of(*given(match)), today).until),
    rf"\b(?:in|dans|en|dentro de) (?:{NUMBER}|{_SOME}) {UNIT}\b|\b{NUMBER} {UNIT} from (?:now|today)\b": _in_some,
    rf"\b(?:ubernachste[nrsm]? {UNIT}|{UNIT} after next)\b": lambda match, today: back(
        UNITS[given(match)[0]], -2, today
    ),
    rf"\b(?:{_NEXT} {THING}|{THING} (?:prochaine?|proxim[oa]|que viene|qui vient))\b": _thing,
    rf"\b{THIS} {THING}\b": _this,
    rf"\b(?!morgen|manana)(?:{any_of(_LATIN_DAYS)})\b|{_NO_TOMORROW}\b(?:morgen|manana)\b": _day_on,
    rf"\b{_WEEKDAY}{_TO}{_WEEKDAY}\b": lambda match, today: Period(
        (first := _weekday(WEEKDAYS[match[1]], today)).since, _weekday(WEEKDAYS[match[2]], first.since).until
    ),
    (
        rf"\b(?:({_NOT_AHEAD}) )?{_WEEKDAY}\b(?! (?:dernier|passe|pasado))"
        r"(?:,? (\d{1,2})(?:st|nd|rd|th|\.)(?!\d))?"
        r"|\b(?:the|am|ce|el|on|over) (weekend|wochenende|week-end|fin de semana)\b(?! (?:pasad|dernier))"
    ): _bare,
    (
        rf"\b(?:end of|ende) (?:the |this |des |der )?(?!day|ans?\b){UNIT}\b|\b(monats|jahres)ende\b"
        r"|\b(?:fin d[eu]|fin(?:al)?es de) (?:l')?(mois|annee|mes|ano)\b"
    ): _end_of,
    (
        rf"\b{_PART_OF_MONTH}({any_of(MONTHS)})(?: (?:and|or|und|oder|et|ou|y|o) ({any_of(MONTHS)}))?\b"
        rf"(?!(?:,| of| de| del)? {WRITTEN_YEAR})"
    ): _months_soon,
}
_CJK: Final[Mapping[str, Resolve]] = {
    rf"(?:{CJK_NUMBER}|([几幾数]))(?:个|個)?{CJK_UNIT}(?:之|以)?[后後]": _in_some,
    r"(?<![\d月])(?<!あと)(\d{1,2})[日号號](?!間)": _day_of_month,
    any_of(DAYS_ON.keys() - _LATIN_DAYS): _day_on,
    rf"{_WHICH}?(?:[周週]|星期|礼拜|禮拜)([一二三四五六日天])|(?:{_WHICH}週の?)?([月火水木金土日])曜": _cjk_weekday,
    rf"{_WHICH}?(?:週の)?([周週]末)|{_WHICH}([周週]|星期|月)": _cjk_unit,
    "[明来]年(?:年?[底末])?": lambda _, today: back(YEAR, -1, today),
    r"(?<![\d一二三四五六七八九十去昨每毎])(?<![去昨明每毎]年)([月年])[底末]": _end_of,
    rf"(?<!\d)(?<![\d去昨前每毎]年)({_CJK_MONTH})月(?!\d)[底末]?": _months_soon,
}
_DATES: Final = compiled(_DATED)
_EXPRESSIONS: Final = {
    (has_digits, is_cjk): compiled(
        {**_OF_NEXT_YEAR, **({**_DATED, **_BY_NUMBER} if has_digits else {}), **_BY_WORDS, **(_CJK if is_cjk else {})}
    )
    for has_digits in (False, True)
    for is_cjk in (False, True)
}
"""All that a text may name, by whether it has digits, and characters of Chinese or Japanese."""
