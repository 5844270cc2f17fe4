"""Which messages tell when something happens."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory_retrievers.text.dates import long_date, tells_time


@pytest.mark.parametrize(
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
        "this morning I ran",
        "我昨天去了湖边",
        "去年我们搬家了",
        "三天前下雨了",
        "昨日、湖に行きました",
        "来週また会いましょう",
        "어제 만났어요",
        "Wir waren gestern am See",
        "vor drei Tagen",
        "On s'est vus hier",
        "Fuimos ayer al lago",
        "la semana pasada",
        "Вчера мы гуляли",
    ],
)
def test_a_message_that_says_when_is_known(text):
    assert tells_time(text)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("piece", ["1", "三", "a ", "in the last ", "vor ", "letzte ", "12/"])
def test_no_text_takes_long_to_look_through(piece):
    started = time.process_time()
    tells_time(piece * 100_000)
    assert time.process_time() - started < 5  # looking from each character to the end would take minutes


def test_a_day_is_written_in_english_and_in_universal_time_without_padding():
    assert long_date(datetime(2023, 5, 8, 23, 30, tzinfo=UTC)) == "8 May 2023"
    assert long_date(datetime(2023, 5, 8, 23, 30, tzinfo=timezone(timedelta(hours=-2)))) == "9 May 2023"
    assert long_date(datetime(987, 12, 31, tzinfo=UTC)) == "31 December 987"
