"""A search for what was told in a period, in words and by arguments."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import FixedClock

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
SCOPE = "user/ines"


@pytest.fixture(scope="module")
def memory():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as opened:
        for days in (2, 9, 40, 75, 160, 380):
            told = NOW - timedelta(days=days)
            opened.remember_episode(
                scope=SCOPE,
                id=f"{days} days ago",
                title="Dinner",
                summary="They cooked lentils and talked about the garden.",
                messages=[Message(role="user", content="We cooked lentils for dinner", timestamp=told)],
                start_at=told,
                end_at=told,
            )
        yield opened


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("What did we cook two days ago?", "2 days ago"),
        ("What did we cook last week?", "9 days ago"),
        ("Was haben wir letzte Woche gekocht?", "9 days ago"),
        ("What did we cook in January?", "40 days ago"),
        ("¿Qué cocinamos en diciembre?", "75 days ago"),
        ("What did we cook between August and October?", "160 days ago"),
        ("去年二月我们做了什么菜?", "380 days ago"),
    ],
)
def test_what_was_told_in_the_period_comes_first_and_the_rest_is_kept(memory, query, best):
    found = memory.retrieve(query, scope=SCOPE, episodic_limit=10, record=False).episodic
    assert found[0].memory.id == best
    assert len(found) == 6
    assert found[0].explanation.stages["date"] > 0


def test_a_period_is_counted_from_the_moment_that_is_asked_of(memory):
    asked = {"scope": SCOPE, "record": False, "as_of": NOW - timedelta(days=151)}
    assert memory.retrieve("What did we cook last week?", **asked).episodic[0].memory.id == "160 days ago"


def test_since_and_until_leave_the_rest_out(memory):
    since, until = NOW - timedelta(days=50), NOW - timedelta(days=5)
    found = memory.retrieve("lentils", scope=SCOPE, since=since, until=until, record=False).episodic
    assert {hit.memory.id for hit in found} == {"9 days ago", "40 days ago"}
