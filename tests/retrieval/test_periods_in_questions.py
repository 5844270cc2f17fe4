"""A search for what was told in a period, in words and by arguments."""

from datetime import UTC, datetime, timedelta

import pytest
from cases import tried_in_one

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


@tried_in_one(
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


DEEDS = {
    "The zoo was fun": 15,
    "Next week we are in Lisbon": 10,
    "I had the boiler repaired": 8,
    "Grandpa turned ninety": 3,
    "At the weekend I lost my sunglasses": 2,
    "On Saturday we also saw Tosca": 2,
    "Since January I have been learning Greek": 1,
    "By the way, last week I bought a piano": 1,
}


@pytest.fixture(scope="module")
def deeds():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as opened:
        for number, (said, days) in enumerate(DEEDS.items()):
            told = NOW - timedelta(days=days)
            opened.add_messages(SCOPE, [Message(role="user", content=said, timestamp=told)], conversation=f"c{number}")
        opened.flush(SCOPE)
        opened.remember_fact(scope=SCOPE, fact="Ines sold her bicycle yesterday")
        opened.remember_fact(scope=SCOPE, fact="Ines has a sister")
        yield opened


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did I do last week?", ["piano", "Tosca", "sunglasses", "ninety", "repaired", "Lisbon"]),
        ("What happened last week?", ["piano", "Tosca", "sunglasses", "ninety", "repaired", "Lisbon"]),
        ("Was habe ich letzte Woche gemacht?", ["piano", "Tosca", "sunglasses", "ninety", "repaired", "Lisbon"]),
        ("What did we do this weekend?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("Wie war mein Wochenende?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("What did I do on Saturday?", ["Tosca", "sunglasses", "piano", "Lisbon"]),
        ("What did I do on 24 February?", ["repaired", "piano", "Lisbon"]),
        ("What did I do yesterday?", ["piano", "Greek"]),
        ("What happened to me yesterday?", ["piano", "Greek"]),
        ("Qu'est-ce que j'ai fait hier ?", ["piano", "Greek"]),
        ("Que s’est-il passé hier ?", ["piano", "Greek"]),
        ("¿Qué hice ayer?", ["piano", "Greek"]),
        ("Wie war das Wochenende?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("¿Qué he hecho este fin de semana?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("我昨天做了什么？", ["piano", "Greek"]),
        ("昨日は何をしましたか？", ["piano", "Greek"]),
        ("What did I do on 3 March?", ["piano", "Greek"]),
        ("What did I do three days ago?", ["ninety", "sunglasses", "piano", "Lisbon"]),
        ("What did I do in February?", ["fun", "Lisbon", "repaired", "piano", "sunglasses", "Tosca"]),
        ("How did I spend the weekend?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("What did we get up to at the weekend?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("What went on yesterday?", ["piano", "Greek"]),
        ("Comment ai-je passé le week-end ?", ["Tosca", "sunglasses", "ninety", "piano", "Lisbon"]),
        ("¿Qué hice antes de ayer?", ["Tosca", "sunglasses"]),
        ("Was habe ich im Januar gemacht?", []),
        ("What did I do on 2 January?", []),
    ],
)
def test_what_was_done_is_what_was_told_then_and_what_was_told_later_of_it(deeds, query, words):
    told, found = told_by(deeds, query, episodic_limit=10)
    assert {each.split()[-1] for each in told} == set(words)
    without_floor = deeds.retrieve(query, scope=SCOPE, record=False, episodic_limit=10).episodic
    assert len(without_floor) == len(DEEDS)
    assert {hit.memory.id for hit in without_floor[: len(words)]} == {hit.memory.id for hit in found.episodic}


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_an_open_conversation_tells_of_the_time_is_told_as_if_it_were_stored(is_stored):
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as opened:
        for hours, said in ((28, "Fixed the lamp"), (1, "Yesterday I went to the sauna with Priya.")):
            told = NOW - timedelta(hours=hours)
            opened.add_messages(SCOPE, [Message(role="user", content=said, timestamp=told)], conversation=said)
            if is_stored or hours > 1:
                opened.flush(SCOPE)
        opened.add_messages(SCOPE, [Message(role="user", content="I will do nothing tomorrow")], conversation="plan")
        assert told_by(opened, "What did I do yesterday?")[0] == [said, "Fixed the lamp"]


def test_a_fact_tells_what_was_done_by_the_day_since_which_it_holds(deeds):
    for query, facts in {
        "What did I do yesterday?": ["Ines sold her bicycle yesterday"],
        "What did I do today?": [],
    }.items():
        assert [hit.memory.fact for hit in told_by(deeds, query)[1].semantic] == facts


@tried_in_one(
    "query",
    [
        *("What did I buy last week?", "What did Anna do last week?", "What did she do yesterday?", "What did I do?"),
        *("What did I want to do today?", "What happened to the boiler last week?", "What am I doing today?"),
        *("Was hat er gestern gemacht?", "Wie war der Film gestern?", "我上周买了什么？", "今天要做什么？"),
        *("What did I get yesterday?", "How did I spend my bonus last week?"),
        *("What did I have on 6 March?", "What were we going to do on Friday?", "Was ist am Freitag los?"),
        *("Qu'a-t-il fait hier ?", "What did he do yesterday?", "What happened to April?"),
        *("What did we do last summer?", "What have I done since May?", "What did I spend yesterday?"),
        *("What did I do from Monday to Thursday?", "What did I do after Monday?", "Was habe ich bis Montag gemacht?"),
        *("Qu'ai-je fait de lundi a jeudi ?", "¿Qué hice del lunes al jueves?", "What did I do before Wednesday?"),
    ],
)
def test_a_question_that_names_what_was_done_is_found_by_it(query):
    assert not Question.parse(query, now=NOW).asks_what_was_said


def test_who_asks_what_was_on_a_date_that_has_been_does_not_mean_the_next_year():
    assert Question.parse("What did I eat on 3 March?", now=NOW).ahead == ()
    assert Question.parse("What did I have on 6 March?", now=NOW).ahead != ()


def test_of_this_month_and_a_later_one_both_were_last_year():
    asked = Question.parse("What did I buy in March and April?", now=NOW)
    assert [(date.year, date.month) for date in asked.dates] == [(2025, 3), (2025, 4)]


def test_days_to_come_that_are_named_from_one_to_another_are_not_those_of_last_week():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        for number, said in enumerate(("I have early shifts Wednesday to Friday", "Last week I bought a piano")):
            message = Message(role="user", content=said, timestamp=NOW)
            memory.add_messages("user/ines", [message], conversation=f"c{number}")
        memory.flush("user/ines")
        found = memory.retrieve("What did I do last week?", scope="user/ines", record=False).episodic
        dates = {hit.memory.messages[0].content.split()[-1]: hit.explanation.stages["date"] for hit in found}
    assert dates["piano"] > dates["Friday"]


def test_what_was_done_stays_so_beside_a_time_to_come_that_has_the_day_a_week_later():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        for number, said in enumerate(
            ("I saw the vet yesterday. This month I'm on holiday.", "I saw the vet yesterday")
        ):
            message = Message(role="user", content=said, timestamp=NOW)
            memory.add_messages("user/ines", [message], conversation=f"c{number}")
        memory.flush("user/ines")
        found = memory.retrieve("What did I do yesterday?", scope="user/ines", record=False).episodic
        assert len({hit.explanation.stages["date"] for hit in found}) == 1
