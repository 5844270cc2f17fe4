"""Time expressions in messages, and the written form of a day.

A message that says "yesterday" or "in May" is more likely to answer a question that asks when. Only phrases with the
same meaning nearly everywhere are included, most of them English.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Final

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
"""The months in English."""

_NUMBER: Final = (
    r"(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a couple of|a few|several|many|some)"
)
_UNIT: Final = r"(?:second|minute|hour|day|night|week|weekend|fortnight|month|quarter|year|decade)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SEASON: Final = r"(?:spring|summer|autumn|fall|winter)"
_PART_OF_DAY: Final = r"(?:morning|afternoon|evening|night)"

_MONAT: Final = "(?:januar|februar|märz|mai|juni|juli|oktober|dezember)"
_MOIS: Final = "(?:janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre)"
_MES: Final = "(?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|(?:septiem|octu|noviem|diciem)bre)"

# Each stands on a line, or behind two spaces. Its first letter, or those of its first group, are plain ones: the group
# is flat, and not optional. March and May are words as well.
_BEGIN_A_WORD: Final = rf"""
(?:yesterday|today|tonight|tomorrow|nowadays|recently|lately)\b
(?:2day|2nite|tonite|tmrw|tmr|tmw|2moro|2morrow|tomoz|tommorow|tomorow|tommorrow)\b
(?:last|next|this|past|coming|previous|following|every) (?:{_UNIT}|{_WEEKDAY}|{_SEASON}|{_PART_OF_DAY})\b
{_NUMBER} {_UNIT}s? (?:ago|before|earlier|later|from now|back)\b
(?:in|for|within|over) (?:the (?:last|past|next) )?{_NUMBER} {_UNIT}s?\b
the other (?:day|night|week)\b  (?:day|night) (?:before|after)\b  a while (?:ago|back)\b
{_WEEKDAY}s?\b  (?:thu|thur|thurs|weds|fri)\b  (?:on|by|next|this|last|until) (?:mon|tues?|wed)\b
(?:mon|tue|tues|wed|sat|sun) {_PART_OF_DAY}\b
(?:january|february|april|june|july|august|september|october|november|december)\b
(?:in|on|since|until|till|by|early|late|mid|of|last|next|this)[ -](?:march|may)\b  (?:march|may) (?:\d|the \d)
(?:end|beginning|start|middle) of (?:the |this )?{_UNIT}\b  the {_UNIT} after next\b
(?:jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)\.? \d  \d{{1,2}}(?:st|nd|rd|th)\b
(?:19|20)\d\d\b  \d{{1,2}}[./-]\d{{1,2}}[./-]\d{{2,4}}\b  \d{{1,2}}:\d\d\b  \d{{1,2}} ?(?:am|pm|o'?clock)\b
(?:gestern|vorgestern|heute|morgen|übermorgen)\b
(?:letzte|nächste|übernächste|vorige)[nrsm]? (?:woche|monat|jahr|\w+tag|frühling|sommer|herbst|winter)\b
(?:vor|in) (?:ein )?\w+ (?:tagen|wochen?|monat(?:en)?|jahr(?:en)?)\b  (?:am|bis|zum) \d{{1,2}}\.
(?:diese|kommende)[nrms]? (?:woche|monat|jahr)\b  (?:nächste|kommende)n \w+ (?:tage|woche|monate)n?\b
(?:wochen|monats|jahres)ende\b  ende (?:des |der )?(?:woche|monats|jahres)\b
(?:mon|diens|donners|frei|sams|sonn)tag(?:früh|(?:vor|nach)?mittag|morgen|abend|nacht)?s?\b
(?:mittwoch|sonnabend)(?:früh|(?:vor|nach)?mittag|morgen|abend|nacht)?s?\b
(?:hier|avant-hier|aujourd'hui|demain)\b  (?:il y a|dans) \w+ (?:jours?|semaines?|mois|ans?)\b
(?:semaine|mois|année|an) (?:derni[eè]re?|prochaine?)\b  (?:lun|mar|mercre|jeu|vendre|same)di\b  dimanche\b
(?:ayer|anteayer|hoy|mañana)\b  (?:hace|en|dentro de) \w+ (?:días?|semanas?|mes(?:es)?|años?)\b
(?:semana|mes|año) (?:pasad[oa]|que viene)\b  (?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b
(?:le|el) (?:día )?\d{{1,2}}\b  \d{{1,2}}\.? {_MONAT}\b  (?:im|ab|bis|anfang|mitte|ende) {_MONAT}\b
\d{{1,2}}(?:er)? {_MOIS}\b  (?:en |fin |début |mi-|de |d['’]){_MOIS}\b  fin d[ue] (?:mois|l['’]année)\b
\d{{1,2}} de {_MES}\b  (?:en|hasta|finales de|mediados de|principios de|partir de) {_MES}\b
(?:fin|fines|finales) de (?:mes|año)\b  (?:été|printemps|automne|hiver) prochain\b
prochaine?s (?:jours|semaines|mois)\b  (?:verano|otoño|invierno|primavera) que viene\b
ce soir\b  (?:ce|cette) (?:semaine|week-end|mois|année)\b  est[ae] (?:noche|tarde|semana|mes|año)\b
fin de semana\b  próxim[oa]s? \w+  (?:at|on|over|for) the weekend\b
(?:ontem|hoje|amanhã|ieri|oggi|domani|вчера|сегодня|завтра|позавчера)\b
"""
_BEHIND_A_DIGIT: Final = r"\d(?:st|nd|rd|th)? (?:of )?(?:march|may|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b"
_WITHOUT_SPACES: Final = (
    r"昨天|昨日|前天|今天|今日|今晚|明[天日晚]|后天|後天|明後日|あした|あさって",
    r"上周|上週|上个月|上個月|去年|明年|下周|下週|下个月|下個月|[这這本今][周週]|[个個]?星期|(?:周|週|礼拜|禮拜)[一二三四五六日天]",
    r"周末|週末|先週|先月|来週|来月|来年|昨年|一昨日|[月火水木金土日]曜日|어제|오늘|내일|지난|다음 (?:주|달)|작년|내년",
    r"[月年][底末]|[\d一二两兩三四五六七八九十几幾数] ?(?:年|月|日|天|号|號|周|週間|か月|ヶ月)|\d ?(?:년|월|일)",
)
_LOOKED_AT: Final = 10_000  # characters of a text; what is longer is no answer to a question


@cache
def _time(*, is_ascii: bool) -> re.Pattern[str]:
    """All time expressions; for texts of ASCII in lower case many times as fast, by the first letter of a word."""
    expressions = re.split("\n| {2}", _BEGIN_A_WORD.strip())
    if not is_ascii:
        begin_a_word = rf"\b(?:{'|'.join(expressions)})"
        return re.compile("|".join((begin_a_word, _BEHIND_A_DIGIT, *_WITHOUT_SPACES)), re.IGNORECASE)
    rests: dict[str, list[str]] = {}
    for expression in expressions:
        _, words, rest = re.split(r"^(?:\(\?:([^()]*)\))?", expression)
        for word in words.split("|") if words else [rest]:
            first = "" if word.startswith("\\") else word[0]  # a digit is no letter
            rests.setdefault(first, []).append(word[len(first) :] + (rest if words else ""))
    by_letter = (f"{first}(?:{'|'.join(each)})" for first, each in rests.items())
    return re.compile(rf"\b(?:{'|'.join(by_letter)})|{_BEHIND_A_DIGIT}", re.ASCII)


def tells_time(text: str) -> bool:
    """Return True if a text contains a time expression.

    >>> tells_time("We went hiking last weekend")
    True
    >>> tells_time("May I ask you something?")
    False
    """
    looked_at = text[:_LOOKED_AT]
    is_ascii = text.isascii()
    return _time(is_ascii=is_ascii).search(looked_at.lower() if is_ascii else looked_at) is not None


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """The moment in a time zone, None is UTC; on the first and the last day that there is, as it stands.

    Some programs write the first moment of the year 1 where they know no time.
    """
    try:
        return moment.astimezone(zone or UTC)
    except OverflowError:
        return moment


def shifted(moment: datetime, by: timedelta) -> datetime:
    """The moment so much later; the first or the last one that there is, where it would lie beyond them."""
    try:
        return moment + by
    except OverflowError:  # a message may claim to be of the last day there is, and a clock may be wrong
        if by > timedelta():
            return datetime.max.replace(tzinfo=moment.tzinfo)
        return datetime.min.replace(tzinfo=moment.tzinfo)


def just_before(moment: datetime | None) -> datetime | None:
    """The last moment before one; None stays None."""
    return None if moment is None else shifted(moment, -timedelta.resolution)


def long_date(day: datetime, zone: tzinfo = UTC) -> str:
    """Format the day in a time zone, in English whatever the locale.

    >>> long_date(datetime(2023, 5, 8, 13, 56, tzinfo=UTC))
    '8 May 2023'
    """
    day = in_zone(day, zone)
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def read_long_date(written: str) -> datetime | None:
    """The beginning of a day that :func:`long_date` wrote; None if it is none.

    >>> read_long_date("8 May 2023")
    datetime.datetime(2023, 5, 8, 0, 0, tzinfo=datetime.timezone.utc)
    """
    day, _, rest = written.partition(" ")
    month, _, year = rest.partition(" ")
    if month not in MONTHS or not (day.isdecimal() and year.isdecimal()):
        return None
    return datetime(int(year), MONTHS.index(month) + 1, int(day), tzinfo=UTC)
