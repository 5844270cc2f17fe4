"""Relative time: every boundary, in both styles."""

from datetime import UTC, datetime, timedelta, timezone

from cases import tried_in_one, try_each
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.retrieval.markdown import relative_time

NOW = datetime(2026, 3, 3, 9, tzinfo=UTC)
MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 7 * 86_400

BOUNDARIES = [
    (0, "just now", "now"),
    (10, "just now", "now"),
    (11, "11 seconds ago", None),
    (45, "45 seconds ago", None),
    (46, "a minute ago", None),
    (90, "a minute ago", None),
    (91, "2 minutes ago", None),
    (179, "2 minutes ago", None),
    (180, "3 minutes ago", None),
    (45 * MINUTE, "45 minutes ago", None),
    (45 * MINUTE + 1, "an hour ago", None),
    (90 * MINUTE, "an hour ago", None),
    (90 * MINUTE + 1, "2 hours ago", None),
    (22 * HOUR, "22 hours ago", None),
    (22 * HOUR + 1, "yesterday", "a day ago"),
    (36 * HOUR, "yesterday", "a day ago"),
    (36 * HOUR + 1, "2 days ago", None),
    (6 * DAY + 12 * HOUR, "6 days ago", None),
    (6 * DAY + 12 * HOUR + 1, "last week", "a week ago"),
    (10 * DAY + 12 * HOUR, "last week", "a week ago"),
    (10 * DAY + 12 * HOUR + 1, "2 weeks ago", None),
    (29 * DAY, "4 weeks ago", None),
    (29 * DAY + 1, "last month", "a month ago"),
    (45 * DAY, "last month", "a month ago"),
    (45 * DAY + 1, "2 months ago", None),
    (345 * DAY, "11 months ago", None),
    (345 * DAY + 1, "last year", "a year ago"),
    (547 * DAY, "last year", "a year ago"),
    (547 * DAY + 1, "2 years ago", None),
    (3_650 * DAY, "10 years ago", None),
]

UPSTREAM = [
    (1, "now"),
    (5, "now"),
    (10, "now"),
    (15, "15 seconds ago"),
    (95, "2 minutes ago"),
    (125, "2 minutes ago"),
    (31 * MINUTE, "31 minutes ago"),
    (45 * MINUTE, "45 minutes ago"),
    (46 * MINUTE, "an hour ago"),
    (HOUR, "an hour ago"),
    (12 * HOUR, "12 hours ago"),
    (23 * HOUR, "a day ago"),
    (24 * HOUR, "a day ago"),
    (26 * HOUR, "a day ago"),
    (2 * DAY, "2 days ago"),
    (6 * DAY + 13 * HOUR, "a week ago"),
    (7 * DAY, "a week ago"),
    (10 * DAY, "a week ago"),
    (11 * DAY, "2 weeks ago"),
    (4 * WEEK, "4 weeks ago"),
    (30 * DAY, "a month ago"),
    (45 * DAY, "a month ago"),
    (46 * DAY, "2 months ago"),
    (24 * WEEK, "5 months ago"),
    (26 * WEEK, "6 months ago"),
    (50 * WEEK, "a year ago"),
    (100 * WEEK, "2 years ago"),
    (120 * WEEK, "2 years ago"),
    (200 * WEEK, "3 years ago"),
]


def seconds_ago(seconds):
    return NOW - timedelta(seconds=seconds)


def test_each_boundary_falls_on_its_side():
    def check(seconds, default, humanized):
        assert relative_time(seconds_ago(seconds), now=NOW) == default
        assert relative_time(seconds_ago(seconds), now=NOW, style="humanize") == (humanized or default)

    try_each(check, BOUNDARIES)


def test_the_humanized_style_is_that_of_chrono_humanize():
    told = [(seconds, relative_time(seconds_ago(seconds), now=NOW, style="humanize")) for seconds, _ in UPSTREAM]
    assert told == UPSTREAM


@tried_in_one(
    "seconds, expected",
    [(1, "now"), (10, "now"), (11, "in 11 seconds"), (HOUR, "in an hour"), (DAY, "in a day"), (2 * DAY, "in 2 days")],
)
def test_the_future_is_just_now_unless_humanized(seconds, expected):
    assert relative_time(seconds_ago(-seconds), now=NOW) == "just now"
    assert relative_time(seconds_ago(-seconds), now=NOW, style="humanize") == expected


def test_a_part_of_a_second_does_not_count():
    assert relative_time(seconds_ago(10.999), now=NOW) == "just now"


def test_the_time_zone_makes_no_difference():
    assert relative_time(seconds_ago(DAY).astimezone(timezone(timedelta(hours=9))), now=NOW) == "yesterday"


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_has_words(moment):
    assert relative_time(moment, now=NOW).endswith(
        (" ago", "just now", "yesterday", "last week", "last month", "last year")
    )
    assert relative_time(moment, now=NOW, style="humanize").startswith(("in ", "now")) or moment < NOW
