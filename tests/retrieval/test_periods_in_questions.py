"""A search for what was told in a period, in words and by arguments."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.retrieval.question import Question
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


TALKS = {
    "We spoke about the last time that Rosa said something at a conversation of the choir": 60,
    "Grandma told me what they talked about last week in the hospital": 45,
    "The plumber comes on Thursday": 9,
    "I can't stand cilantro": 8,
    "My knee hurts": 2,
    "The tomatoes have blight": 1,
}


@pytest.fixture(scope="module")
def talks():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as opened:
        for said, days in TALKS.items():
            told = NOW - timedelta(days=days)
            opened.add_messages(SCOPE, [Message(role="user", content=said, timestamp=told)], conversation=f"c{days}")
        opened.flush(SCOPE)
        opened.remember_fact(scope=SCOPE, fact="Ines talks to a coach on Mondays")
        yield opened


def told_by(memory, query, **options):
    found = memory.retrieve(query, scope=SCOPE, min_relevance="auto", record=False, **options)
    return [hit.memory.messages[0].content for hit in found.episodic], found


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("What did we talk about yesterday?", [1]),
        ("What did I tell you last week?", [8, 9]),
        ("Remind me what we discussed two days ago", [2]),
        ("What did we talk about last time?", [1, 2, 8, 9, 45]),
        ("Where did we leave off?", [1, 2, 8, 9, 45]),
        ("Was haben wir letzte Woche besprochen?", [8, 9]),
        ("¿De qué hablamos ayer?", [1]),
        ("De quoi avons-nous parlé hier ?", [1]),
        ("我们上次聊了什么?", [1, 2, 8, 9, 45]),
        ("What did we discuss three days ago?", []),
    ],
)
def test_what_was_talked_about_is_found_by_its_time_alone(talks, query, days):
    told, found = told_by(talks, query)
    assert [TALKS[each] for each in told] == days
    assert all(set(hit.explanation.stages) <= {"recency", "date"} for hit in found.episodic)
    assert talks.retrieve(query, scope=SCOPE, record=False).episodic  # without a floor the rest comes later


@pytest.mark.parametrize(
    "query",
    [
        *(
            "What did Rosa say last time?",
            "What did she tell me last week?",
            "What did we say about the knee yesterday?",
        ),
        *("What did I buy yesterday?", "I told you yesterday", "What time is the session today?", "What did I say?"),
        *(
            "Was hat er gestern gesagt?",
            "¿Qué me dijo Ana ayer?",
            "医生昨天说了什么?",
            "Where did I leave my keys last time?",
        ),
    ],
)
def test_a_question_that_names_what_was_said_is_found_by_it(query):
    assert not Question.parse(query, now=NOW).asks_what_was_said
