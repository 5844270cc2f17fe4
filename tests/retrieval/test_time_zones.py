"""Days are those of ``time_zone``: in Tokyo the day begins nine hours before it does in UTC."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cases import tried_in_one

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.ingestion.facts import user_prompt
from memory_retrievers.testing import FixedClock

SCOPE = "user/yuki"
ENDS_OF_TIME = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
TOKYO, LOS_ANGELES = ZoneInfo("Asia/Tokyo"), ZoneInfo("America/Los_Angeles")


def told(said, asked, zone):
    """A memory that was told of the dentist at one moment and is asked at another."""
    memory = AgentMemory.in_memory(clock=FixedClock(asked), retrieval=RetrievalSettings(time_zone=zone))
    message = Message(role="user", content="I see the dentist tomorrow", timestamp=said)
    memory.add_messages(SCOPE, [message], conversation="c")
    memory.flush(SCOPE)
    memory.remember_fact(scope=SCOPE, fact="Yuki plays tennis")
    return memory


@pytest.fixture
def in_tokyo():
    """Told on the fifth at eight in the morning, asked on the sixth at ten."""
    said, asked = datetime(2026, 3, 5, 8, tzinfo=TOKYO), datetime(2026, 3, 6, 10, tzinfo=TOKYO)
    with told(said, asked, "Asia/Tokyo") as memory:
        yield memory


def found(memory, question):
    return memory.retrieve(question, scope=SCOPE, min_relevance="auto", record=False)


def test_tomorrow_is_that_of_the_zone(in_tokyo):
    (hit,) = found(in_tokyo, "What do I have today?").episodic
    assert hit.explanation.evidence.dated


def test_yesterday_is_that_of_the_zone(in_tokyo):
    assert found(in_tokyo, "What did we talk about yesterday?").episodic
    assert not found(in_tokyo, "What did we talk about two days ago?").episodic


@pytest.mark.parametrize("detail", ["auto", "excerpts"])
def test_blocks_tell_the_day_of_the_zone(in_tokyo, detail):
    result = found(in_tokyo, "When do I see the dentist?")
    assert "5 March 2026" in result.to_markdown(detail)
    assert "5 March 2026" in result.to_markdown(detail, max_tokens=300)


def test_by_default_days_are_those_of_utc():
    said, asked = datetime(2026, 3, 5, 8, tzinfo=TOKYO), datetime(2026, 3, 6, 10, tzinfo=TOKYO)
    with told(said, asked, "UTC") as memory:
        assert "4 March 2026" in found(memory, "When do I see the dentist?").to_markdown()
        assert not found(memory, "What did we talk about yesterday?").episodic


@pytest.mark.parametrize(
    ("zone", "asked"),
    [
        ("America/Los_Angeles", datetime(2026, 3, 10, 19, tzinfo=UTC)),  # the clocks were put forward two days before
        ("America/Los_Angeles", datetime(2026, 3, 9, 0, 30, tzinfo=UTC)),
        ("Asia/Tokyo", datetime(2026, 3, 10, 8, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 3, 10, 0, 30, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("hour", [0, 9, 23])
def test_yesterday_is_that_of_the_zone_at_whatever_hour(zone, asked, hour):
    local = asked.replace(tzinfo=ZoneInfo(zone))
    with AgentMemory.in_memory(clock=FixedClock(local), retrieval=RetrievalSettings(time_zone=zone)) as memory:
        for days in range(4):
            at = local.replace(hour=hour) - timedelta(days=days)
            said = Message(role="user", content=f"Topic number {days}", timestamp=at)
            memory.add_messages(SCOPE, [said], conversation=f"c{days}")
        (hit,) = found(memory, "What did we talk about yesterday?").episodic
        assert hit.memory.messages[0].content == "Topic number 1"


def test_a_language_model_that_makes_facts_is_told_the_day_of_the_zone():
    said = datetime(2026, 3, 4, 23, tzinfo=UTC)
    draft = {"title": "Dentist", "summary": "Yuki sees the dentist.", "start_at": said, "end_at": said}
    with AgentMemory.in_memory(clock=FixedClock(said)) as memory:
        episode = memory.remember_episode(scope=SCOPE, **draft)
    assert "E1 (Thursday, 2026-03-05;" in user_prompt([], [episode], zone=TOKYO)


def test_an_evening_in_the_west_is_of_its_own_day():
    said, asked = datetime(2026, 3, 6, 4, tzinfo=UTC), datetime(2026, 3, 6, 20, tzinfo=UTC)
    assert said.astimezone(LOS_ANGELES).day == 5
    with told(said, asked, "America/Los_Angeles") as memory:
        assert found(memory, "What do I have today?").episodic[0].explanation.evidence.dated


def test_moments_are_the_same_in_every_zone(in_tokyo):
    asked = datetime(2026, 3, 6, 1, tzinfo=UTC)
    assert found(in_tokyo, "dentist").now == asked
    assert in_tokyo.recent(SCOPE).now == asked
    assert in_tokyo.now() == asked
    assert in_tokyo.now().utcoffset().total_seconds() == 0


@tried_in_one("name", ["Mars/Phobos", "", "../etc/passwd", "/etc/passwd", "Europe", "A" * 5_000, "UTC\0"])
def test_an_unknown_zone_is_refused_with_what_to_do(name):
    with pytest.raises(ValidationError, match="give a name such as 'Europe/Berlin'") as caught:
        RetrievalSettings(time_zone=name)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
@pytest.mark.parametrize("moment", ENDS_OF_TIME, ids=["first", "last"])
def test_the_first_and_the_last_moment_there_are_stop_no_search(zone, moment):
    """Go and .NET write the first one where they know no time."""
    now = datetime(2026, 3, 6, tzinfo=UTC)
    with AgentMemory.in_memory(clock=FixedClock(now), retrieval=RetrievalSettings(time_zone=zone)) as memory:
        said = Message(role="user", content="I see the dentist tomorrow", timestamp=moment)
        memory.add_messages(SCOPE, [said], conversation="c")
        memory.remember_fact(scope=SCOPE, fact="Yuki sees the dentist tomorrow", valid_at=min(moment, now))
        for _ in range(2):  # while the conversation is open, and afterwards
            for question in ("dentist", "What do I have today?"):
                result = memory.retrieve(question, scope=SCOPE)
                for detail in ("auto", "high", "excerpts"):
                    assert "dentist" in result.to_markdown(detail=detail)
            memory.retrieve("What did I do last week?", scope=SCOPE)  # whose days are reckoned back from each moment
            memory.flush(SCOPE)
        assert not memory.retrieve("tennis", scope=SCOPE, as_of=ENDS_OF_TIME[0], record=False).semantic or moment < now
        (hit,) = memory.retrieve("dentist", scope=SCOPE, record=False).episodic
    assert f"E1 ({moment:%A}, " in user_prompt([], [hit.memory], zone=ZoneInfo(zone))


def test_a_fact_that_names_tomorrow_tells_the_day_of_the_zone():
    at = datetime(2026, 3, 5, 20, tzinfo=UTC)
    for zone, day in (("UTC", "2026-03-05"), ("Asia/Tokyo", "2026-03-06")):
        with AgentMemory.in_memory(clock=FixedClock(at), retrieval=RetrievalSettings(time_zone=zone)) as memory:
            memory.remember_fact(scope=SCOPE, fact="Yuki sees the dentist tomorrow")
            memory.remember_fact(scope=SCOPE, fact="Yuki's dentist is called Ito")
            block = memory.retrieve("dentist", scope=SCOPE, record=False).to_markdown()
        assert f"- [note, as of {day}] Yuki sees the dentist tomorrow" in block
        assert "- [note] Yuki's dentist is called Ito" in block


def test_a_search_may_name_the_zone_of_who_asks(in_tokyo):
    question = "What do I have today?"
    for zone, is_today in (("Asia/Tokyo", True), ("UTC", False), (None, True)):
        hits = in_tokyo.retrieve(question, scope=SCOPE, record=False, time_zone=zone).episodic
        assert [hit.explanation.evidence.dated for hit in hits] == [is_today]
        now = in_tokyo.explain(question, scope=SCOPE, time_zone=zone).now
        assert str(now.tzinfo) == zone or zone is None
    for wrong in ("Mars/Base", "../../etc/passwd", "", 7):
        with pytest.raises(ValidationError, match=r"time_zone: .* is not a time zone"):
            in_tokyo.retrieve(question, scope=SCOPE, time_zone=wrong)


def test_a_question_is_read_anew_in_a_zone_of_the_same_midnight():
    """London is an hour off UTC in July, and not in March."""
    now, told = datetime(2026, 3, 6, 12, tzinfo=UTC), datetime(2025, 6, 30, 23, 30, tzinfo=UTC)
    with AgentMemory.in_memory(clock=FixedClock(now)) as memory:
        said = Message(role="user", content="The pond was dug", timestamp=told)
        memory.add_messages(SCOPE, [said], conversation="c")
        memory.flush(SCOPE)
        for zone, is_of_july in (("UTC", False), ("Europe/London", True)):
            (hit,) = memory.retrieve("What did we talk about since July 2025?", scope=SCOPE, time_zone=zone).episodic
            assert hit.explanation.evidence.dated == is_of_july, zone


def test_a_profile_tells_the_day_that_a_block_tells():
    at = datetime(2026, 3, 5, 20, tzinfo=UTC)
    with AgentMemory.in_memory(clock=FixedClock(at), retrieval=RetrievalSettings(time_zone="Asia/Tokyo")) as memory:
        memory.remember_fact(scope=SCOPE, fact="Yuki sees the dentist tomorrow", category="identity")
        line = "- [identity, as of 2026-03-06] Yuki sees the dentist tomorrow"
        assert line in memory.retrieve("dentist", scope=SCOPE, record=False).to_markdown()
        assert memory.profile(SCOPE).to_markdown() == line
        assert memory.profile(SCOPE).fitting(max_tokens=20).to_markdown() == line
