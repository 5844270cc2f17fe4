"""Relative time: how long ago something was, in words (specification §2.7)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["default", "humanize"]

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

# The steps, longest first: beyond so many seconds, count in this unit. A step without a unit has one wording.
_STEPS = (
    (547 * _DAY, "year", 365 * _DAY),
    (345 * _DAY, "a year", None),
    (45 * _DAY, "month", 30 * _DAY),
    (29 * _DAY, "a month", None),
    (10 * _DAY + 12 * _HOUR, "week", 7 * _DAY),
    (6 * _DAY + 12 * _HOUR, "a week", None),
    (36 * _HOUR, "day", _DAY),
    (22 * _HOUR, "a day", None),
    (90 * _MINUTE, "hour", _HOUR),
    (45 * _MINUTE, "an hour", None),
    (90, "minute", _MINUTE),
    (45, "a minute", None),
    (10, "second", 1),
)

_DEFAULT_WORDING = {
    "a day ago": "yesterday",
    "a week ago": "last week",
    "a month ago": "last month",
    "a year ago": "last year",
}


def relative_time(moment: datetime, *, now: datetime, style: Style = "default") -> str:
    """How long before ``now`` the moment was, roughly.

    The style ``default`` says "yesterday" and "last week" where ``humanize`` counts "a day ago" and "a week ago". What
    lies in the future is a clock that runs fast, so ``default`` calls it "just now"; ``humanize`` says "in 2 days".

    >>> from datetime import UTC
    >>> now = datetime(2026, 3, 3, 9, tzinfo=UTC)
    >>> relative_time(datetime(2026, 3, 1, 9, tzinfo=UTC), now=now)
    '2 days ago'
    >>> relative_time(datetime(2026, 3, 2, 9, tzinfo=UTC), now=now)
    'yesterday'
    >>> relative_time(datetime(2026, 3, 2, 9, tzinfo=UTC), now=now, style="humanize")
    'a day ago'
    """
    seconds = (now - moment) // timedelta(seconds=1)
    period = _rough_period(abs(seconds))
    if style == "humanize":
        return _humanized(period, in_the_future=seconds < 0)
    if period is None or seconds < 0:
        return "just now"
    return _DEFAULT_WORDING.get(f"{period} ago", f"{period} ago")


def _rough_period(seconds: int) -> str | None:
    """The length of time in words, or None when it is too short to speak of."""
    for threshold, word, unit in _STEPS:
        if seconds > threshold:
            return word if unit is None else f"{max(seconds // unit, 2)} {word}s"
    return None


def _humanized(period: str | None, *, in_the_future: bool) -> str:
    if period is None:
        return "now"
    return f"in {period}" if in_the_future else f"{period} ago"
