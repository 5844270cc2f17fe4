"""Which messages tell when something happens."""

import json
import re
import time
from datetime import UTC, datetime, timedelta, timezone
from importlib import resources

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.evaluation import samples
from memory_retrievers.text.dates import long_date, tells_time

# All time expressions as one pattern, which is slow and says what `tells_time` has to answer: stored passages know it.
NUMBER = (
    r"(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a couple of|a few|several|many|some)"
)
UNIT = r"(?:second|minute|hour|day|night|week|weekend|fortnight|month|quarter|year|decade)"
WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
SEASON = r"(?:spring|summer|autumn|fall|winter)"
PART_OF_DAY = r"(?:morning|afternoon|evening|night)"

ENGLISH = (
    r"\b(?:yesterday|today|tonight|tomorrow|nowadays|recently|lately)\b",
    r"\b(?:2day|2nite|tonite|tmrw|tmr|tmw|2moro|2morrow|tomoz|tommorow|tomorow|tommorrow)\b",
    rf"\b(?:last|next|this|past|coming|previous|following|every) (?:{UNIT}|{WEEKDAY}|{SEASON}|{PART_OF_DAY})\b",
    rf"\b{NUMBER} {UNIT}s? (?:ago|before|earlier|later|from now|back)\b",
    rf"\b(?:in|for|within|over) (?:the (?:last|past|next) )?{NUMBER} {UNIT}s?\b",
    r"\bthe other (?:day|night|week)\b|\b(?:day|night) (?:before|after)\b|\ba while (?:ago|back)\b",
    (
        rf"\b{WEEKDAY}s?\b|\b(?:thu(?:rs?)?|weds|fri)\b|\b(?:on|by|next|this|last|until) (?:mon|tues?|wed)\b"
        rf"|\b(?:mon|tues?|wed|sat|sun) {PART_OF_DAY}\b"
    ),
    r"\b(?:january|february|april|june|july|august|september|october|november|december)\b",
    # the two months that are words as well
    r"\b(?:in|on|since|until|till|by|early|late|mid|of|last|next|this)[ -](?:march|may)\b",
    rf"\b(?:end|beginning|start|middle) of (?:the |this )?{UNIT}\b|\bthe {UNIT} after next\b",
    r"\b(?:march|may) (?:\d|the \d)",
    r"\d(?:st|nd|rd|th)? (?:of )?(?:march|may|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b",
    r"\b(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.? \d|\b\d{1,2}(?:st|nd|rd|th)\b",
    r"\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b|\b\d{1,2}:\d\d\b|\b\d{1,2} ?(?:am|pm|o'?clock)\b",
)
OTHERS = (
    r"昨天|昨日|前天|今天|今日|今晚|明[天日晚]|后天|後天|明後日|あした|あさって",
    r"上周|上週|上个月|上個月|去年|明年|下周|下週|下个月|下個月|[这這本今][周週]|[个個]?星期|(?:周|週|礼拜|禮拜)[一二三四五六日天]",
    r"周末|週末|先週|先月|来週|来月|来年|昨年|一昨日|[月火水木金土日]曜日|어제|오늘|내일|지난|다음 (?:주|달)|작년|내년",
    r"[月年][底末]|[\d一二两兩三四五六七八九十几幾数] ?(?:年|月|日|天|号|號|周|週間|か月|ヶ月)|\d ?(?:년|월|일)",
    r"\b(?:gestern|vorgestern|heute|morgen|übermorgen)\b",
    r"\b(?:letzte|(?:über)?nächste|vorige)[nrsm]? (?:woche|monat|jahr|\w+tag|frühling|sommer|herbst|winter)\b",
    r"\b(?:vor|in) (?:ein )?\w+ (?:tagen|wochen?|monat(?:en)?|jahr(?:en)?)\b|\b(?:am|bis|zum) \d{1,2}\.",
    r"\b(?:diese|kommende)[nrms]? (?:woche|monat|jahr)\b|\b(?:wochen|monats|jahres)ende\b|\bende (?:des |der )?(?:woche|monats|jahres)\b",
    (
        r"\b(?:(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend)"
        r"(?:früh|(?:vor|nach)?mittag|morgen|abend|nacht)?s?\b"
    ),
    r"\b(?:\d{1,2}\.? |im |ab |bis |anfang |mitte |ende )(?:januar|februar|märz|mai|juni|juli|oktober|dezember)\b",
    r"\b(?:hier|avant-hier|aujourd'hui|demain|(?:il y a|dans) \w+ (?:jours?|semaines?|mois|ans?))\b",
    r"\b(?:semaine|mois|année|an) (?:derni[eè]re?|prochaine?)\b|\b(?:lun|mar|mercre|jeu|vendre|same)di\b|\bdimanche\b",
    r"\bce soir\b|\b(?:ce|cette) (?:semaine|week-end|mois|année)\b|\b(?:le|el) (?:día )?\d{1,2}\b",
    (
        r"\b(?:\d{1,2}(?:er)? |en |fin |début |mi-|de |d['’])"
        r"(?:janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre)\b"
    ),
    r"\b(?:ayer|anteayer|hoy|mañana|(?:hace|en|dentro de) \w+ (?:días?|semanas?|mes(?:es)?|años?))\b",
    r"\b(?:semana|mes|año) (?:pasad[oa]|que viene)\b|\b(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b",
    r"\best[ae] (?:noche|tarde|semana|mes|año)\b|\bfin de semana\b|\bpróxim[oa] \w+|\b(?:at|on|over|for) the weekend\b",
    r"\bfin d[ue] (?:mois|l['’]année)\b|\bfin(?:ales|es)? de (?:mes|año)\b",
    r"\b(?:été|printemps|automne|hiver) prochain\b|\b(?:verano|otoño|invierno|primavera) que viene\b",
    (
        r"\b(?:\d{1,2} de |en |hasta |(?:finales|mediados|principios|partir) de )"
        r"(?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|(?:septiem|octu|noviem|diciem)bre)\b"
    ),
    r"\b(?:ontem|hoje|amanhã|ieri|oggi|domani|вчера|сегодня|завтра|позавчера)\b",
)
ONE_PATTERN = re.compile("|".join((*ENGLISH, *OTHERS)), re.IGNORECASE)
LOOKED_AT = 10_000

EVERY_CHARACTER = "".join(map(chr, range(0x110000)))
WORDS = sorted(set(re.findall(r"\w+", ONE_PATTERN.pattern)))
SEPARATORS = (
    " ",
    " ",
    " ",
    "",
    "  ",
    "-",
    "_",
    "'",
    "’",
    ".",
    ":",
    "\n",
    "é",
    "İ",
    "ı",
    "ſ",
    "\u212a",
    "5",
    "٣",
    "²",
    "\u0301",
)


@tried_in_one(
    "text",
    [
        "Yesterday I went to the lake",
        "we met LAST WEEK",
        "It was three days ago",
        "I'll see her in two months",
        "a couple of weeks later he called",
        "she moved here a few years ago",
        "We have been married for 5 years",
        "the other day I saw a fox",
        "See you on Friday!",
        "every Tuesday evening",
        "My birthday is in May",
        "on March 3rd",
        "the race is 8 May",
        "back in December",
        "It was Sept 12",
        "I graduated in 2019",
        "due 12/05/2024",
        "the meeting is at 10:30",
        "dinner at 7 pm",
        "the 4th of July",
        "due by 15 oct",
        "off on fri",
        "see you on wed",
        "this morning I ran",
        "我昨天去了湖边",
        "去年我们搬家了",
        "三天前下雨了",
        "昨日、湖に行きました",
        "来週また会いましょう",
        "어제 만났어요",
        "Wir waren gestern am See",
        "vor drei Tagen",
        "Mittwochs schwimmen wir",
        "On s'est vus hier",
        "Fuimos ayer al lago",
        "la semana pasada",
        "Вчера мы гуляли",
        *("The dentist is 2moro", "gig 2nite", "Snow for the weekend"),
    ],
)
def test_a_message_that_says_when_is_known(text):
    assert tells_time(text)


@tried_in_one(
    "text",
    [
        "",
        "I love hiking with my dog",
        "May I ask you something?",
        "They march through the forest",
        "You may be right",
        "It costs 40 dollars",
        "I have two cats",
        "She was the second to arrive",
        "That sounds fun, tell me more!",
        "我喜欢喝茶",
        "お茶が好きです",
        "Ich mag Tee",
    ],
)
def test_other_messages_are_left_alone(text):
    assert not tells_time(text)


def cased(text):
    return st.sampled_from([text, text.upper(), text.title(), text.swapcase()])


phrases = st.lists(st.one_of(st.sampled_from(WORDS).flatmap(cased), st.sampled_from(SEPARATORS)), max_size=12)


@given(phrases, st.sampled_from(SEPARATORS))
def test_words_in_any_order_are_told_as_by_one_pattern(words, between):
    text = between.join(words)
    assert tells_time(text) == (ONE_PATTERN.search(text) is not None)


@given(st.one_of(*(st.from_regex(re.compile(each, re.IGNORECASE)) for each in (*ENGLISH, *OTHERS))), st.data())
def test_every_time_expression_is_told_as_by_one_pattern(text, data):
    assert tells_time(text)
    place = data.draw(st.integers(0, len(text)))
    changed = text[:place] + data.draw(st.sampled_from(SEPARATORS)) + text[place + data.draw(st.integers(0, 1)) :]
    assert tells_time(changed) == (ONE_PATTERN.search(changed) is not None)


def test_a_letter_in_another_form_is_told_as_by_one_pattern():
    for expression in (
        "today",
        "week ago",
        "last week",
        "il y a cinq jours",
        "сегодня",
        "завтра",
        "übermorgen",
        "mañana",
    ):
        for letter in sorted(set(expression) - {" "}):
            for other in re.findall(letter, EVERY_CHARACTER, re.IGNORECASE):
                text = f"a {expression.replace(letter, other)}"
                assert tells_time(text) == (ONE_PATTERN.search(text) is not None), ascii(text)


def test_the_texts_of_the_sample_history_are_told_as_by_one_pattern():
    def texts_in(value):
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for each in inner for text in texts_in(each)]

    texts = texts_in(json.loads(resources.files(samples).joinpath("history.json").read_text("utf-8")))
    told = [text for text in texts if tells_time(text)]
    assert len(texts) > len(told) > 20
    assert told == [text for text in texts if ONE_PATTERN.search(text)]


@pytest.mark.parametrize("text", ["today", "İtoday", "ab 12:30", "三天"])
def test_the_end_of_what_is_looked_at_is_told_as_by_one_pattern(text):
    for length in range(LOOKED_AT - 12, LOOKED_AT + 4):
        padded = f"{'x' * (length - 1)} {text}y"
        assert tells_time(padded) == (ONE_PATTERN.search(padded, 0, LOOKED_AT) is not None)


@pytest.mark.parametrize("piece", ["1", "三", "a ", "in the last ", "vor ", "letzte ", "12/"])
def test_no_text_takes_long_to_look_through(piece):
    started = time.process_time()
    tells_time(piece * 100_000)
    assert time.process_time() - started < 5  # looking from each character to the end would take minutes


def test_a_day_is_written_in_english_and_in_universal_time_without_padding():
    assert long_date(datetime(2023, 5, 8, 23, 30, tzinfo=UTC)) == "8 May 2023"
    assert long_date(datetime(2023, 5, 8, 23, 30, tzinfo=timezone(timedelta(hours=-2)))) == "9 May 2023"
    assert long_date(datetime(987, 12, 31, tzinfo=UTC)) == "31 December 987"
