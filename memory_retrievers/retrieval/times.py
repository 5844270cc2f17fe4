"""What times tell of candidates: when an episode began, and the days that its messages name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory_retrievers.models.fields import EPOCH, MICROSECOND, microseconds
from memory_retrievers.retrieval.candidates import Candidates, ReadTexts, ReadTimes
from memory_retrievers.retrieval.day_questions import asks_for_plans, asks_what_was_done
from memory_retrievers.retrieval.question import QueryDate, Question, told_days
from memory_retrievers.text.analysis import STOP_WORDS, analyze
from memory_retrievers.text.dates import in_zone, read_long_date
from memory_retrievers.text.languages import COMMON_WORDS
from memory_retrievers.text.periods import MONTHS, PERIOD_WORDS, WEEKDAYS, Period, any_of, plain
from memory_retrievers.text.plans import BEYOND_LATIN, days_ahead, days_behind, recurring_days, recurs_on

ToldT = TypeVar("ToldT", bound=Collection[object])

if TYPE_CHECKING:
    Floats = NDArray[np.float64]

_NEXT_TO: Final = 0.5
"""Boost of an episode in the month after the queried one, or near a queried period: much is talked about later."""

_HABIT: Final = 0.5
_READ: Final = 1_024  # passages that may tell of plans, the newest, of which so many are read at most
_READ_BESIDE: Final = 256  # newest passages that tell no time and may call a plan off: "The trip is cancelled"
_A_NAME: Final = 3  # bytes of the shortest term that may name a plan: "tea", "茶"
_NO_NAMES: Final = """
next cant wont dont didnt move cancel postpon chang instead book get got go come can one still just back new also today
tomorrow need want say said ask tell told know think make good late earli hope like uhr morgen heut
"""
_COMMON: Final = STOP_WORDS | COMMON_WORDS.keys()
_SAYS_LITTLE: Final = _COMMON | PERIOD_WORDS | set(_NO_NAMES.split())
_TELLS_TOO: Final = re.compile(r"[,;.!?] \S")  # "I have an appointment on Friday. Can you remind me?"
_LOOKED_AT: Final = 1_000  # characters of a text that calls something off
_CALLED_OFF: Final = re.compile(
    r"\b(?:(?:cancel|resched|postpon|ann?ul|aplaz|suspend|abgesag|absag|(?:vor)?verschob|(?:vor)?verleg|stornier"
    r"|ausgefallen|deplac|(?:est|sont|ete) supprim)\w*|(?:decal|repouss|avanc)e?e?s? (?:au?|jusqu|pour)"
    r"|sag(?:e|t|en) (?:\w+ ){1,3}ab(?=[,.;!?]|\Z)|(?:komm(?:t|en) erst|se (?:pasa|retrasa|cambia) (?:al?|hasta|para))"
    rf" (?:am |el |la )?(?:\d+(?!-)|nachste\w*|proxim\w*|morgen|manana|{any_of(WEEKDAYS)})"
    r"|(?:got|been|be|being|is|are|was|were) moved"
    r"|(?:moved|slip(?:s|ped)?|bumped) to (?:the |next |this )?(?:\w+day|\d+\w*|tomorrow|later|week|month)"
    r"|delayed|(?:called|put|calls) (?:it )?off|(?:is|are|was|'s) off(?= *(?:\W|now|because|since|then|after)|\Z)"
    r"|fell through|brought forward|pulled out|pushed (?:back|to)|scrapped|off sick|fallt (?:\w+ )?aus|gestrichen"
    r"|(?P<is_vague>(?:can'?t|can ?not|couldn'?t|won'?t|no longer|isn'?t|aren'?t|not) (?:\w+ )?(?:make|do|join|attend"
    r"|com(?:e|ing)|go(?:ing)?|happen(?:ing)?|be there)|changed to|kann (?:\w+ )?nicht|peux? pas|no pued[eo])"
    r"|(?:doch|klappt|kommt) nicht|nicht statt|reportee?|ne vient|pospues\w+|ya no (?:va|viene|hay|puede|es)|no viene"
    r"|(?:cambiado|cambiaron|cambio) (?:a|al|para))\b"
    r"|取消|改[到期成]|推[迟遲]|延期|不[去来來]了|[来來去]不了|中止|キャンセル|なくなった|来られない|行けな"
)
_IT_IS: Final = re.compile(  # of what the words before it tell
    r"\b(?:is|are|was|were|got|been|be|being|wird|wurden?|ist|sind|est|sont|ete|fue|esta)(?: (?!am |to )\w+)? ?\Z"
)
_CLAUSE_END: Final = re.compile(  # which the dot in "22. April" is not
    rf"\.(?!(?<=\d\.)(?:\d| (?:{any_of(MONTHS)})\b))"
    r"|[!?;,:\n]|\b(?:and|but|because|since|if|und|aber|weil|et|mais|y|pero)\b"
)
_dates_ahead: Final = functools.partial(days_ahead, by_clock=False)  # what is not reckoned from a day
_WEEK, _MONTH = timedelta(days=7), timedelta(days=31)
_CLOSE: Final = timedelta(days=2)  # a plan for a weekend is one for each of its days, and one for a week is none


def dated(began: NDArray[np.int64], question: Question) -> Floats:
    """1 for an episode that began when the query says, 0.5 next to it, else 0; shape (n,), as that of the beginnings.

    Next to a month is the month after it, and next to a period as long a time before and after.
    """
    months = began.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    found = np.zeros(len(began))
    for asked in question.dates:
        found = np.maximum(found, _fits(asked, months))
    for period in question.periods:
        since, until = microseconds(period.since), microseconds(period.until)
        beside = np.maximum(since - began, began - until + 1)  # how far off; 0 or less within
        found = np.maximum(found, np.where(beside <= 0, 1.0, np.where(beside <= until - since, _NEXT_TO, 0.0)))
    return found


def planned(candidates: Candidates, question: Question, *, texts: ReadTexts, since: ReadTimes) -> Floats:
    """How well the days that passages tell of fit those that a query asks for: shape (n,), 0 to 1.

    Those are days ahead, or behind where it asks what was done. "Next Friday" is reckoned from the day when it was
    said, in a fact from that since which it holds; a date without a year, such as a birthday, comes again.

    Args:
        candidates: The candidates.
        question: The query.
        texts: Reads passages, those of open episodes by numbers below 0: those that name a time, and for plans the
            newest others, which may call one off.
        since: Reads since when facts hold.
    """
    layout = candidates.layout
    found = np.zeros(len(candidates))
    may_tell = layout.tells_time if layout.has_messages else layout.passages > 0
    newest = _newest(layout.passages, may_tell, limit=_READ)
    if question.asks_for_plans and layout.has_messages:
        newest += _newest(layout.passages, layout.is_message & ~may_tell, limit=_READ_BESIDE)
    read = texts(layout.passages[newest].tolist())
    holds = {} if layout.has_messages else since(layout.memories[newest].tolist())
    for place in newest:
        text = read.get(int(layout.passages[place]), "")
        speaker = layout.names[layout.speakers[place]] if layout.is_message[place] else None
        began = EPOCH + holds.get(int(layout.memories[place]), int(layout.began[place])) * MICROSECOND
        found[place] = _described(text, speaker, began, question)
    if question.asks_for_plans and layout.has_messages:  # what calls a plan off is newer, so no plan is told without it
        texts_of = {place: read.get(int(layout.passages[place]), "") for place in newest}
        contents = {place: text.partition(": ")[2] for place, text in texts_of.items()}
        plans = {place: _named_in(plain(contents[place])) for place in found.nonzero()[0].tolist()}

        def said(place: int) -> tuple[datetime, int, int]:  # a conversation may go on for days; within it is the order
            day = read_long_date(" ".join(texts_of[place].split(" ", 3)[:3])) or EPOCH
            return day, int(layout.began[place]), place

        for place in newest if plans else ():
            if found[place] or not layout.is_message[place] or (off := called_off(contents[place])) is None:
                continue
            before = (p for p, names in plans.items() if len(off[0] & names) >= off[1] and said(p) < said(place))
            found[place] = max((found[p] for p in before), default=0.0)
    return found


def _newest(passages: NDArray[np.int64], mask: NDArray[np.bool_], *, limit: int) -> list[int]:
    """Places of the newest passages of a mask: so many of open episodes, below 0, and as many of what is stored."""
    found: list[int] = []
    for places in (np.nonzero(mask & (passages < 0))[0], np.nonzero(mask & (passages > 0))[0]):
        found += places[np.argsort(-np.abs(passages[places]), kind="stable")[:limit]].tolist()
    return found


def called_off(text: str) -> tuple[set[str], int] | None:
    """What a text tells is cancelled, or moved to another day: what it names, and how much of that a plan has to name.

    That is half of it, or more where it is vague.

    >>> called_off("They cancelled the coach trip")[1], called_off("We can't go on the coach trip")[1]
    (1, 2)
    """
    left = plain(text[:_LOOKED_AT])
    if (match := _CALLED_OFF.search(left)) is None:
        return None
    clause = before = _CLAUSE_END.split(left[: match.start()])[-1]
    is_active = match[0].endswith(("ing", "ando", "endo"))  # who does it stands before it, and what behind
    if is_active or not (_named_in(before) and (_IT_IS.search(before) or _IT_IS.match(match[0].split()[0]))):
        clause += _CLAUSE_END.split(left[match.end() :])[0]
    names = _named_in(clause)
    if BEYOND_LATIN.search(clause):  # of Chinese and Japanese every two characters are a term
        return names, 1
    return names, len(names) // 2 + 1 if match["is_vague"] else max((len(names) + 1) // 2, 1)


def _named_in(text: str) -> set[str]:
    """The terms of a text that may name a plan: no days nor common words."""
    return {
        term for term in analyze(text) if term.isalpha() and len(term.encode()) >= _A_NAME and term not in _SAYS_LITTLE
    }


def share_of_plan(plans: Sequence[Period], asked: Sequence[Period]) -> float:
    """How well plans fit what is asked for: 1 for a plan within, half for one that may be on other days; else 0."""
    found = 0.0
    for plan in plans:
        for each in asked:
            if plan.since < each.until and each.since < plan.until:
                is_close = plan.until - plan.since <= max(each.until - each.since, _CLOSE)
                found = max(found, 1.0 if is_close else 0.5)
    return found


def _described(text: str, speaker: str | None, began: datetime, question: Question) -> float:
    """How well the days that a passage tells of fit; a message begins with the day in UTC it was said, and by whom.

    The hour is not told there; that of the beginning of its episode is known, if it was on the same day. Who asked for
    the plans of a day, or for what was done on it, told nothing of it.
    """
    asked = question.described_periods
    zone = asked[0].since.tzinfo
    if speaker is None:
        again = () if question.behind else _told(_dates_ahead, text, asked[0].since)
        return max(share_of_plan(again, asked), _share(text, in_zone(began, zone), question))
    day, _, content = text.partition(f" {speaker}: ")
    said = read_long_date(day)
    if said is None:
        return 0.0
    share = _share(
        content, said.replace(tzinfo=zone) if began.date() != said.date() else in_zone(began, zone), question
    )
    if not (share or question.behind) and recurs_on(_told(recurring_days, content), asked):
        share = _HABIT  # what is every Friday comes behind what is on one
    asks = (
        share
        and not _TELLS_TOO.search(content)
        and any(each(content, says_little=_COMMON) for each in (asks_for_plans, asks_what_was_done))
    )
    return 0.0 if asks else share


def _share(text: str, said: datetime, question: Question) -> float:
    """How well the days fit that a text tells of; half where it planned what is asked for as done, or may have."""
    ahead, asked = _told(days_ahead, text, said), question.described_periods
    if not question.behind:
        return share_of_plan(ahead, asked)
    told = [each for each in (*_told(days_behind, text, said), *ahead) if each.until - each.since <= _MONTH]
    # "on Friday" may be the last one or the next, which begins or ends a week later
    doubted = [each for each in told for a in ahead if _WEEK in (a.since - each.since, a.until - each.until)]
    sure = [each for each in told if each not in ahead and each not in doubted]
    return max(share_of_plan(sure, asked), 0.5 if share_of_plan(told, asked) else 0.0)


_MOST_TOLD: Final = 8_192
_FEW: Final = 8  # days: more are looked for again, so that what is kept of a text takes a kilobyte at most


def _told(look: Callable[..., ToldT], text: str, today: datetime | None = None) -> ToldT:
    """What a text tells, looked for once: whoever asks for days asks again. No text is kept, only its hash."""
    of_day = today and (today.year, today.month, today.day, today.fold, today.tzinfo)  # all that it uses of it
    if (found := told_days.get(key := (look, hash(text), of_day))) is None:
        found = look(text) if today is None else look(text, today=today)
        if len(told_days) >= _MOST_TOLD:
            told_days.clear()
        if len(found) <= _FEW:
            told_days[key] = found
    return found


def by_time(candidates: Candidates, question: Question, planned: Floats | None) -> dict[str, Floats]:
    """What times give each passage, by name: the newest first, and before all what is of a named time, or planned then.

    Args:
        candidates: The candidates.
        question: A query for what was said or is planned at a time.
        planned: What :func:`planned` gives, shape (n,), for one for plans or for what was done.
    """
    newer = np.unique(-candidates.layout.began, return_inverse=True)[1]
    of_time = dated(candidates.layout.began, question)
    if planned is not None:  # what is told of a time counts more than what was said next to it
        of_time = planned if question.asks_for_plans else np.maximum(np.floor(of_time), planned)
    return {"recency": 1 / (1 + newer), "date": 2 * of_time}


def _fits(asked: QueryDate, months: NDArray[np.int64]) -> Floats:
    """Match of months since 1970 with a date, 0 to 1; shape (n,) in and out."""
    if asked.month is None:
        return np.where(months // 12 + 1970 == asked.year, 1.0, 0.0)
    later = months - (asked.month - 1)  # how many months each is behind that which is asked for
    later = later % 12 if asked.year is None else later - 12 * (asked.year - 1970)
    return np.where(later == 0, 1.0, np.where(later == 1, _NEXT_TO, 0.0))
