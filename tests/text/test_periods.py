"""Periods by the clock, on Wednesday 4 March 2026 unless said otherwise."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from cases import tried_in_one
from hypothesis import example, given
from hypothesis import strategies as st

from memory_retrievers.text.periods import periods

NOW = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
LAST_WEEK = ("2026-02-23", "2026-03-02")
LAST_MONTH = ("2026-02-01", "2026-03-01")
LAST_YEAR = ("2025-01-01", "2026-01-01")
LAST_SUMMER = ("2025-06-01", "2025-09-01")
YESTERDAY = ("2026-03-03", "2026-03-04")
THREE_DAYS_AGO = ("2026-03-01", "2026-03-02")
SPRING = ("2026-03-01", "2026-06-01")
EXPECTED = {
    LAST_WEEK: "What did I buy last week?|Was war letzte Woche?|la semaine dernière|la semana pasada|上周我买了什么|上週"
    "|先週何を買いましたか|a week ago|vor einer Woche|il y a une semaine|hace una semana|一周前|1週間前",
    LAST_MONTH: "last month|letzten Monat|le mois dernier|EL MES PASADO|上个月|先月|a month ago|1か月前",
    LAST_YEAR: "last year|letztes Jahr|l’année dernière|l'an dernier|el año pasado|去年|昨年|一年前",
    LAST_SUMMER: "last summer|letzten Sommer|l'été dernier|el verano pasado|去年夏天|去年の夏|summer of 2025|in the summer",
    YESTERDAY: "yesterday|last night|gestern|hier|ayer|昨天|昨日|on Tuesday|am Dienstag|mardi|el martes|星期二|周二|火曜日",
    THREE_DAYS_AGO: "three days ago|3 days ago|vor drei Tagen|il y a trois jours|hace tres días|三天前|3日前|sunday",
    SPRING: "between March and May|from March to May|March-May 2026|zwischen März und Mai|von März bis Mai"
    "|entre mars et mai|de mars à mai|entre marzo y mayo|三月到五月|3月から5月|2026年3月から5月|this spring",
    ("2026-03-02", "2026-03-03"): "the day before yesterday|vorgestern|avant-hier|anteayer|前天|一昨日|last Monday",
    (
        "2026-02-28",
        "2026-03-02",
    ): "last weekend|letztes Wochenende|le week-end dernier|el fin de semana pasado|上周末|先週末",
    ("2026-02-19", "2026-03-05"): "the last two weeks|in den letzten zwei Wochen|les deux dernières semaines"
    "|las últimas dos semanas|最近两周|この2週間",
    ("2026-01-01", "2026-03-05"): "since January|seit Januar|depuis janvier|desde enero|since 2026",
    (
        "2025-03-01",
        "2025-04-01",
    ): "in March last year|im März letzten Jahres|en mars de l'an dernier|en marzo del año pasado|去年3月|昨年の三月",
    ("2025-11-01", "2026-02-01"): "from November to January|November 2025 to January 2026|zwischen November und Januar",
    ("2021-01-01", "2024-01-01"): "from 2021 to 2023|2021年から2023年|2021-2023",
    ("2026-02-25", "2026-02-26"): "last Wednesday|letzten Mittwoch|mercredi dernier|el miércoles pasado",
    ("2026-03-04", "2026-03-05"): "today|on Wednesday|heute|aujourd'hui|hoy|今天|今日|水曜日",
    ("2025-12-01", "2026-03-01"): "last winter|el invierno pasado|winter 2025",
}


def told(text, now=NOW):
    return [tuple(moment.date().isoformat() for moment in period) for period in periods(text, now=now)]


@tried_in_one("text, expected", [(text, days) for days, texts in EXPECTED.items() for text in texts.split("|")])
def test_a_period_is_read_in_six_languages(text, expected):
    assert told(text) == [expected]


@tried_in_one(
    "text",
    [
        *(
            "Where does Ruth live?",
            "this may be wrong",
            "every Monday",
            "on that expensive Saturday",
            "jeden Montag",
            "this Friday",
            "next week",
            "March on!",
            "Was ist hier los?",
        ),
        *("in 3 days", "", "May and June are sisters", "99999 years ago", "the fall of Rome"),
    ],
)
def test_other_texts_name_no_period(text):
    assert told(text) == []


def test_a_text_names_several_periods_and_each_once():
    assert told("last week, or last week, or yesterday") == [LAST_WEEK, YESTERDAY]


def test_the_first_of_the_year_and_the_last_of_february_are_counted_from():
    assert told("last month", datetime(2026, 1, 1, tzinfo=UTC)) == [("2025-12-01", "2026-01-01")]
    assert told("last winter", datetime(2026, 1, 15, tzinfo=UTC)) == [("2024-12-01", "2025-03-01")]
    assert told("this winter", datetime(2026, 1, 15, tzinfo=UTC)) == [("2025-12-01", "2026-03-01")]
    assert told("a month ago", datetime(2024, 3, 31, tzinfo=UTC)) == [("2024-02-01", "2024-03-01")]
    assert told("last weekend", datetime(2026, 3, 1, tzinfo=UTC)) == [("2026-02-21", "2026-02-23")]


def test_on_a_sunday_the_last_week_may_be_the_one_that_ends():
    sunday = datetime(2026, 3, 8, 20, tzinfo=UTC)
    assert told("What did I do last week?", sunday) == [("2026-02-23", "2026-03-02"), ("2026-03-02", "2026-03-09")]


def test_days_are_those_of_the_time_zone_of_the_moment():
    late = datetime(2026, 3, 4, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert told("today", late) == [("2026-03-04", "2026-03-05")]
    assert periods("today", now=late)[0].since == datetime(2026, 3, 4, 5, tzinfo=UTC)


def test_a_day_is_as_long_as_the_clocks_make_it():
    (sunday,) = periods("yesterday", now=datetime(2026, 3, 30, 9, tzinfo=ZoneInfo("Europe/Berlin")))
    assert sunday.until.astimezone(UTC) - sunday.since.astimezone(UTC) == timedelta(hours=23)


WORDS = [
    "last",
    "may",
    "three",
    "ago",
    "week",
    "since",
    "2024",
    "il y a",
    "hier",
    "vor",
    "999",
    "夏",
    "3月",
    "から",
    "前",
]


@given(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=12),
    st.integers(0, 40_000).map(lambda days: datetime(1990, 1, 1, tzinfo=UTC) + timedelta(days=days)),
)
@example(["999", "years", "ago"], datetime(1990, 1, 1, tzinfo=UTC))
def test_any_text_gives_periods_that_have_begun_and_end_after_they_begin(words, now):
    for period in periods(" ".join(words), now=now):
        assert period.since <= now
        assert period.since < period.until or period.until.year < period.since.year + 100
