"""Questions that are answered by time: what is planned for a day, what was done on it, and what was talked about.

English, German, French, Spanish, Chinese and Japanese, as :mod:`memory_retrievers.text.plans`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime, timedelta
from typing import Final

from memory_retrievers.text.periods import (
    DAYS_ON,
    NUMBERS,
    PERIOD_WORDS,
    THIS,
    WRITTEN_YEAR,
    Period,
    midnight,
    months_on,
    plain,
)
from memory_retrievers.text.plans import BEYOND_LATIN, MONTHS_AHEAD, NAMES_OF_DAYS, days_ahead
from memory_retrievers.text.tense import DID

_SOON_DAYS: Final = 14  # what is coming up is no further off
_SUNDAY: Final = 6
_LONGEST_QUESTION: Final = 80
_SOON: Final = re.compile(
    r"\b(?:coming up|upcoming|soon|(?:next|coming) (?:few )?days|demnachst|bald|(?:nachsten|kommenden) (?:\w+ )?tagen?"
    r"|prochainement|bientot|prochains jours|pronto|proximos dias|proximamente)\b|最近|近いうち|今後|接下来|这几天"
)
_THIS_WEEK: Final = re.compile(rf"\b{THIS} (?:week|woche|semaine|semana)\b(?![- ]?end)|[这這本今][周週](?!末)")
_WRITTEN_YEAR: Final = re.compile(rf"\b{WRITTEN_YEAR}\b|\bnext year\b")
_UNTIL: Final = re.compile(
    r"(?<!day )(?<!tag )(?<!woch )(?<!\d )\b(?:by|until|till|before|bis|jusqu'\w+|d'ici|avant|hasta|antes del?) "
    r"(?:l'|(?:the|this|next|end|of|zum|ende|des|der|diese[rs]|nachste[nrsm]?|l[ae]|fin|d[ue]l?|cette|el|est[ae]"
    r"|proxim[oa]) )*"
    rf"(?:(?:\d+ )?(?:de )?{NAMES_OF_DAYS.pattern}|\d+(?:st|nd|rd|th|\.|-\d)|(?<=\b[el][el] )\d)"
)
"""What asks for all that is from now on: "before Friday", and not "before lunch on Friday" nor "by the way"."""

_FROM: Final = re.compile(
    rf"\b(?:from|von|vom|ab|des|de|a partir de|desde) (?:the |next |this |el )?{NAMES_OF_DAYS.pattern}"
)


def asked_days(text: str, *, today: datetime) -> tuple[Period, ...]:
    """The periods from today on that a question names: as in :func:`days_ahead`, and what is coming up in two weeks."""
    day, left = midnight(today), plain(text)
    found = days_ahead(text, today=today, left=left)
    if found and re.search(rf"\b{DID} (?:i|we)\b", left) and not _WRITTEN_YEAR.search(left):  # so far ahead is past
        dates, too_far = days_ahead(text, today=today, by_clock=False), months_on(day.replace(day=1), MONTHS_AHEAD)
        found = tuple(each for each in found if each not in dates or each.since < too_far)
    if day.weekday() == _SUNDAY and _THIS_WEEK.search(left):  # nothing of this one is left to plan
        found += (Period(day, day + timedelta(days=8)),)
    if not found:
        return (Period(day, day + timedelta(days=_SOON_DAYS)),) if _SOON.search(left) else ()
    if not _UNTIL.search(left):
        return tuple(Period(max(each.since, day), each.until) for each in found)
    since = max(min(found).since, day) if len(found) > 1 and _FROM.search(left) else day
    return tuple(Period(since, each.until) for each in found)


_PLANNING: Final = """
have has got anything something everything things plan plans planned planning schedule scheduled calendar agenda
appointment appointments diary due todo happening happen happens coming come upcoming on up remember remind need want
wanted going else events event tasks task reminders next few days day within list look looking take care doin gotta
forget must nite moro morrow
habe haben hab vor etwas geplant plan plane termin termine ansteht steht stehen kalender mache machen los gibt
nachste nachsten nachster nachstes kommende kommenden kommendes tagen tage ende anfang mitte monatsende schon liegt
frei verabredet programm free busy occupe libre tun erledigt erledigen
prevu prevue prevus programme rendez vous fais faire dois jour chose quelque qu fin debut prochains prochaines quoi
truc trucs on ce prochain prochaine
tengo tenemos planes cita citas previsto programado pendiente hago hacer toca fin finales principios proximos proximas
proximo proxima viene pasa
"""
_PLANNING_WORDS: Final = frozenset(_PLANNING.split()).union(NUMBERS, *(word.split() for word in DAYS_ON))
_ASKS_FOR_PLANS: Final = re.compile(
    r"\b(?:(?:do|have|am|are|should|must|need|will|can|did) (?:i|we)|(?:i|we) (?:have|need|should|must)|anything"
    r"|(?:i|we) gotta|is there|plans?|calendar|schedule|agenda|appointments?"
    r"|what's (?:on|up|due|going on|happening|planned|scheduled|coming|next|this|today|tonight|tomorrow|\w+day"
    r"|2day|2nite|tonite|tmr|tmrw|tmw|2morrow|tomm?or+ow|2moro|tomoz)\b"
    r"|(?:hab(?:e|en)?|bin|sind) (?:ich|wir)|steh(?:t|en)|liegt|geplant|mach(?:e|en) (?:ich|wir)|termine?|kalender"
    r"|gibt es|was ist|ist \w+ was(?! mit\b)|muss (?:ich|wir)|erledigt werden|que pasa(?!.* (?:con|a)\b)"
    r"|on fait|c'est quoi(?! (?:son|sa|ses|leurs?)\b)|y a quoi"
    r"|ai-je|j'ai|prevu\w*|programme|fais|faire|rendez-vous|tengo|tenemos|planes|hay|hago|citas?)\b"
)
_OF_NO_PLANS: Final = re.compile(rf"\b{DID} (?:i|we)\b|(?<!\bon )\bfait\b|\bist \w+ fur ein tag\b|ました")
"""What asks for what was, and for the day itself."""

_CJK_PLANNING: Final = re.compile(
    r"安排|计划|計劃|行程|日程|打算|要做|有(?:什么|什麼|啥)?事|做什么|做什麼|有什么|有什麼|予定|スケジュール|何が|何か|何を"
)
_CJK_BESIDE: Final = re.compile(
    r"[我你们們的在有没要做什么麼啥吗嗎呢得事情别忘了给给帮看看查一二三四五六七八九十\u3041-\u309f私僕何教日周週月末、。？?！!，\s]"
    r"|安排|计划|計劃|行程|日程|打算|予定|スケジュール|今天|明天|后天|後天|今晚|明日|今日|下|来|今|这|這|本|个|個|最近"
)
_ASKING: Final = re.compile(
    r"[?？]|^\W*(?:what|was|qu|tell|show|list|zeig|sag|dime|(?:got )?any(?!thing but|.*\boff\b)|(?:do|have|am|are|is) "
    r"(?:i|we|there)\b)|教えて|告诉我"
)
_DOING: Final = """
do done happen happened go going went been on up anything something things
gemacht getan los passiert geschehen unternommen erlebt verbracht hab mein meine unser unsere gab
tell remind remember weisst noch qu fin ai avons fait passe hice hicimos hecho paso pase
"""
_DOING_WORDS: Final = frozenset(_DOING.split()).union(NUMBERS, *(word.split() for word in DAYS_ON))
_ASKS_WHAT_WAS_DONE: Final = re.compile(
    r"\b(?:what|how|where|was|wie|wo|qu|que|comment|ou|como|donde)\b.*\b"
    rf"(?:{DID} (?:i|we)|(?:i|we) (?:did|was|were)|(?:have|'ve|had) (?:i|we) (?:done|been)"
    r"|(?:was|were) (?:i|we|my|our|last|the|yesterday)(?! going to\b)"
    r"|(?:happened|went on|(?:was|been) going on)(?! to (?!me\b|us\b))"
    r"|(?:habe?n?|hatten?) (?:ich|wir) .*(?:ge\w+|unternommen|erlebt|verbracht)"
    r"|(?:ich|wir) .*(?:gemacht|getan|unternommen|erlebt) haben?|(?:ist|war) .*(?:passiert|geschehen)|war .*los|gab es"
    r"|war(?:en)? (?:ich|wir|mein|unser|das|die|der|gestern|letzte)\w*"
    r"|(?:ai-je|avons-nous|j'ai|on a|nous avons) (?:fait|passe)|s'est(?:-il)? passe|hice|hicimos|(?:he|hemos) hecho"
    r"|pas[eo])\b"
)
_WITHOUT_MARK: Final = re.compile(r"\b(what|how|where)(?:s| is)\b")  # "whats on", as it is typed, and "what is on"
_SPENDING_TIME: Final = re.compile(r"\b((?:how|where) did (?:i|we)) spend\b|\b(did (?:i|we)) get up to\b")
_CJK_DONE: Final = re.compile(
    r"[做干][了过過]些?(?:什么|什麼|啥)|[做干](?:什么|什麼|啥)了|[发發]生了?(?:什么|什麼)事?|[过過]得怎[么麼][样樣]"
    r"|何を(?:しました|していました|した|してた)|何がありました|どうでした"
)
_BOUNDS: Final = re.compile(  # all days between them are asked for
    r"\b(?:since|from|between|to (?=\w+day|\d)|through|until|till|before(?! yesterday)|after|seit|zwischen|bis|nach"
    r"|depuis|entre|jusqu\w*|avant(?!-)|apres|a (?=\w+di\b)|desde|hasta|antes(?! de ayer)|al (?=\w+s\b)|despues)\b"
)
_CJK_DAYS_BEHIND: Final = re.compile("[昨前上先去天年]")
_TALKING_WORDS = """
talk talked talking discuss discussed discussing discussion speak spoke chat chatted conversation say said tell told ask
asked mention mentioned recap summary besprochen gesprochen geredet erzahlt gesagt gefragt unterhalten unterhaltung
gesprach hablamos hablado dije dijimos dicho conte contado pregunte conversacion charla charlamos parle dit raconte
demande discute
"""
_LAST_WORDS = """
last latest previous previously recent recently lately ago earlier zuletzt letzte letztes letzten letzter letztem
neulich vorhin ultimo ultima pasado pasada anterior dernier derniere precedente recemment
"""
_BESIDE_WORDS = """
time thing things give get happen happened please remind remember recall summarise summarize two three four few couple
mal quoi woruber wovon beim erinnerst weisst fasse zusammen zwei drei vez recuerdas resume dos tres fois rappelles
deux trois
"""
_TALKING, _LAST = frozenset(_TALKING_WORDS.split()), frozenset(_LAST_WORDS.split())
_OF_TALKS: Final = _TALKING | _LAST | PERIOD_WORDS | frozenset(_BESIDE_WORDS.split())
"""Words of a question for what was talked about that name nothing of it, without accents."""

_WHERE_WE_STOPPED: Final = re.compile(
    r"\b(?:where (?:did )?we (?:left off|leave off|stop(?:ped)?)\b|d[oó]nde (?:lo )?(?:dejamos|quedamos)\b"
    r"|wo (?:waren|sind|haben) wir (?:\w+ )?(?:stehen ?geblieben|aufgehört)|où (?:en )?(?:étions|sommes)[- ]nous\b)"
    r"|^(?:我[们們]?|咱们|你)?(?:上次|昨天|前天|上周|上週|最近)(?:我[们們]?|咱们|你)?都?"
    r"(?:[聊說说谈談讲講问問][了过過]?些?|[说說聊]到了?)(?:什么|什麼|哪)",
    re.IGNORECASE,
)
_OF_OTHERS: Final = re.compile(
    r"\b(?:who|he|she|they|him|her|them|his|their|wer|er|sie|ihm|ihn|quién|él|ella|ellos|ellas|qui|ils?|elles?|lui)\b",
    re.IGNORECASE,
)
_OF_NOBODY: Final = re.compile(r"\bce qui\b|\best-il pass|\bqu[eé] he\b", re.IGNORECASE)
_ASKS: Final = re.compile(
    r"[?？]|^\W*(?:what|when|where|was|wann|wor\w+|quoi|recap|summar|remind|fasse|give)", re.IGNORECASE
)
_LONGEST_ABOUT_TALKS: Final = 60
_LETTERS: Final = re.compile(r"[^\W\d_]{2,}|[^\W\d_a-z]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def asks_what_was_said(text: str, *, names_time: bool, says_little: Container[str]) -> bool:
    """Whether a question asks for what was talked about, last or at a time, and names nothing of it.

    Args:
        text: The question.
        names_time: Whether it names a date or a period.
        says_little: Words that say little, without accents.
    """
    if len(text) > _LONGEST_ABOUT_TALKS:
        return False
    if not _WHERE_WE_STOPPED.search(text):
        words = {word for word in _LETTERS.findall(plain(text)) if word not in says_little}
        names_past = names_time or not words.isdisjoint(_LAST)
        if words.isdisjoint(_TALKING) or not (names_past and words <= _OF_TALKS and _ASKS.search(text)):
            return False
    return not _OF_OTHERS.search(text)


def asks_for_plans(text: str, *, says_little: Container[str]) -> bool:
    """Whether a question that names days ahead asks for what there is then, and nothing else in it says much."""
    left = _WITHOUT_MARK.sub(r"\1's", plain(text))
    if len(left) > _LONGEST_QUESTION or _ASKING.search(left) is None or _OF_NO_PLANS.search(left):
        return False
    if BEYOND_LATIN.search(left):
        return _CJK_PLANNING.search(left) is not None and not _CJK_BESIDE.sub("", left)
    if _ASKS_FOR_PLANS.search(left) is None:
        return False
    words = _WORD.findall(left)
    return all(word in _PLANNING_WORDS or word in PERIOD_WORDS or word in says_little for word in words)


def asks_what_was_done(text: str, *, says_little: Container[str]) -> bool:
    """Whether a question asks for what whoever asks did, and has no words but such that say little."""
    left = _SPENDING_TIME.sub(r"\1\2 do", _WITHOUT_MARK.sub(r"\1's", plain(text)))
    if len(left) > _LONGEST_QUESTION:
        return False
    if BEYOND_LATIN.search(left):
        left, found = _CJK_DONE.subn("", left)
        is_asked = found > 0 and not _CJK_DAYS_BEHIND.sub("", _CJK_BESIDE.sub("", left))
    else:
        words = _WORD.findall(left)
        said = (word in _DOING_WORDS or word in PERIOD_WORDS or word in _LAST or word in says_little for word in words)
        is_asked = all(said) and _ASKS_WHAT_WAS_DONE.search(left) is not None and not _BOUNDS.search(left)
    return is_asked and not _OF_OTHERS.search(_OF_NOBODY.sub("", text))
