"""A question for what is planned: the plans of that day come first, and with a floor they come alone."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cases import tried_in_one

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.retrieval import times
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.request import asked_by
from memory_retrievers.retrieval.times import called_off, share_of_plan
from memory_retrievers.testing import FixedClock
from memory_retrievers.text.analysis import analyze
from memory_retrievers.text.periods import Period
from memory_retrievers.text.plans import days_ahead

NOW = datetime(2026, 3, 13, 9, tzinfo=UTC)
"""A Friday."""

SCOPE = "user/ines"
SAID = {
    "I have a dentist appointment next Friday at 3": 8,
    "The plumber comes tomorrow between 8 and 10": 1,
    "Am 14. ziehen wir um": 5,
    "The school concert is on March 20th": 20,
    "We'll be in Lisbon next month": 6,
    "The plumber came yesterday and was nice": 3,
    "Work was exhausting today": 2,
    "I love the smell of rain": 4,
    "Can you recommend a book about bees?": 7,
}


@pytest.fixture(scope="module", params=["stored", "queued"])
def memory(request):
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as opened:
        for number, (said, days) in enumerate(SAID.items()):
            message = Message(role="user", content=said, timestamp=NOW - timedelta(days=days))
            opened.add_messages(SCOPE, [message], conversation=f"c{number}")
        if request.param == "stored":
            opened.flush(SCOPE)
        opened.remember_fact(scope=SCOPE, fact="Ines renews her passport by 2026-03-16")
        opened.remember_fact(scope=SCOPE, fact="Ines plays tennis")
        yield opened


PLACES = ("roof", "door", "fence", "gate", "bench", "porch", "shed", "wall", "attic", "garage", "floor", "chimney")


def told_by(memory, query, least="auto"):
    found = memory.retrieve(query, scope=SCOPE, min_relevance=least, record=False)
    return {hit.memory.messages[0].content.split()[-1] for hit in found.episodic}, found


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What do I have today?", {"3", "10"}),
        ("Anything on tomorrow?", {"um"}),
        ("What's coming up next Friday?", {"20th"}),
        ("Was habe ich am 20. März vor?", {"20th"}),
        ("What are my plans for April?", {"month"}),
        ("¿Qué tengo mañana?", {"um"}),
        ("明天有什么安排？", {"um"}),
    ],
)
def test_plans_for_the_day_are_told_alone(memory, query, words):
    told, found = told_by(memory, query)
    assert told == words
    assert all(hit.explanation.evidence.dated for hit in found.episodic)
    assert [hit.relevance for hit in found.episodic] == sorted((hit.relevance for hit in found.episodic), reverse=True)


def test_without_a_floor_the_rest_comes_behind(memory):
    found = memory.retrieve("What do I have today?", scope=SCOPE, episodic_limit=9, record=False).episodic
    assert {hit.memory.messages[0].content.split()[-1] for hit in found[:2]} == {"3", "10"}
    assert len(found) == len(SAID)
    assert set(found[0].explanation.stages) == {"recency", "date"}


def test_a_fact_is_found_by_the_date_that_it_names(memory):
    told, found = told_by(memory, "Is there anything I have to do on Monday?")
    assert [hit.memory.fact for hit in found.semantic] == ["Ines renews her passport by 2026-03-16"]
    assert told == set()


def facts_told(memory, question):
    found = memory.retrieve(question, scope="user/facts", min_relevance="auto", record=False)
    return [hit.memory.fact for hit in found.semantic]


def test_a_day_in_a_fact_is_reckoned_from_the_day_since_which_it_holds():
    clock = FixedClock(datetime(2026, 3, 5, 9, tzinfo=UTC))
    with AgentMemory.in_memory(clock=clock) as memory:
        for fact in ("Ines sees the dentist next Friday", "Ines plays tennis", "Anna's birthday is on 13 March"):
            memory.remember_fact(scope="user/facts", fact=fact)
        memory.remember_fact(scope="user/facts", fact="Ines has a day off tomorrow", valid_at="2026-03-01")
        assert facts_told(memory, "What do I have tomorrow?") == ["Ines sees the dentist next Friday"]
        clock.advance(days=8)
        today = facts_told(memory, "What do I have today?")
        assert set(today) == {"Ines sees the dentist next Friday", "Anna's birthday is on 13 March"}
        clock.advance(days=365)
        assert facts_told(memory, "What do I have today?") == ["Anna's birthday is on 13 March"]


def test_what_is_every_friday_is_told_beside_what_is_planned_for_one():
    with AgentMemory.in_memory(clock=FixedClock(datetime(2026, 3, 4, 9, tzinfo=UTC))) as memory:
        facts = {
            "Ines plays tennis every Friday",
            "Ines has choir on Fridays at 19:00",
            "Ines sees the dentist on Friday",
        }
        for fact in (*facts, "Ines likes tea", "Ines has a cousin", "Ines sees Tom in two weeks"):
            memory.remember_fact(scope="user/facts", fact=fact)
        assert set(facts_told(memory, "What do I have on Friday?")) == facts


def test_a_question_that_names_more_is_found_by_words_and_by_its_day(memory):
    question = "When does the plumber come today?"
    _, found = told_by(memory, question, least=0.0)
    assert found.episodic[0].memory.messages[0].content.startswith("The plumber comes tomorrow")
    assert found.episodic[0].explanation.stages["date"] > 0
    without = memory.explain(question, scope=SCOPE)
    assert without.episodic[0].id == found.episodic[0].memory.id


def test_where_nothing_is_planned_words_count_again(memory):
    told, found = told_by(memory, "What do I have to do on Wednesday?", least=0.0)
    assert all("recency" not in hit.explanation.stages for hit in found.episodic)
    assert len(told) == 5


def test_a_search_asks_from_its_own_moment(memory):
    found = memory.retrieve("What do I have today?", scope=SCOPE, as_of=NOW - timedelta(days=1), record=False).episodic
    assert all(
        hit.explanation.stages.get("date", 0) == 0 for hit in found if "dentist" in hit.memory.messages[0].content
    )


def test_the_specified_profile_knows_no_plans():
    with AgentMemory.in_memory(clock=FixedClock(NOW), retrieval=RetrievalSettings.reference()) as memory:
        said = Message(role="user", content="The plumber comes tomorrow", timestamp=NOW - timedelta(days=1))
        memory.add_messages(SCOPE, [said], conversation="c")
        memory.flush(SCOPE)
        (hit,) = memory.retrieve("What do I have today?", scope=SCOPE, record=False).episodic
        assert hit.explanation.evidence is None or not hit.explanation.evidence.dated


@pytest.mark.parametrize("question", ["What's on tomorrow?", "What's up today?", "What's coming up?"])
def test_a_question_for_plans_is_no_part_of_the_one_before_it(memory, question):
    before = [Message(role="user", content="Which book about bees should I read?")]
    assert asked_by(memory, question, said=before) == question
    assert asked_by(memory, "And on Friday?", said=before) == "Which book about bees should I read?\nAnd on Friday?"


def test_what_another_user_plans_is_nobodys_business(memory):
    memory.remember_fact(scope="user/other", fact="Secret meeting on 2026-03-13")
    assert "Secret" not in memory.retrieve("What do I have today?", scope=SCOPE, record=False).to_markdown()


def test_the_days_that_texts_tell_are_looked_for_once_until_something_is_forgotten(monkeypatch):
    looked = []

    def looking(text, *, today):
        looked.append(text)
        return days_ahead(text, today=today)

    monkeypatch.setattr(times, "days_ahead", looking)
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        said = [Message(role="user", content=each) for each in SAID]
        memory.add_messages(SCOPE, said)
        memory.flush(SCOPE)
        plan = memory.remember_fact(scope=SCOPE, fact="Ines renews her passport by 2026-03-16")

        def asked(question):
            found = memory.retrieve(question, scope=SCOPE, record=False)
            return [(hit.memory.id, hit.score, hit.relevance) for hit in (*found.semantic, *found.episodic)]

        first = asked("What do I have next Friday?")
        once = len(looked)
        assert once > len(SAID) / 2
        assert asked("What do I have next Friday?") == first
        asked("What's on tomorrow?")
        assert len(looked) == once
        memory.forget(plan.id, scope=SCOPE)
        assert times.told_days == {}
        asked("What's on tomorrow?")
        assert len(looked) > once


def test_of_the_days_that_texts_tell_few_are_kept(memory, monkeypatch):
    monkeypatch.setattr(times, "_MOST_TOLD", 3)
    times.told_days.clear()
    assert told_by(memory, "What do I have today?")[0] == {"3", "10"}
    assert 0 < len(times.told_days) <= 3
    many = ", ".join(f"{day} May" for day in range(1, times._FEW + 2))
    times.told_days.clear()
    assert len(times._told(days_ahead, many, NOW)) == times._FEW + 1
    assert times.told_days == {}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Algiers"])
def test_days_of_zones_of_which_midnight_is_the_same_are_not_taken_for_each_other(zone):
    said = datetime(2026, 3, 13, 9, tzinfo=ZoneInfo(zone))  # clocks change in one of them before the 1st of April
    (found,) = times._told(days_ahead, "The plumber comes on April 1st", said)
    assert found.since == datetime(2026, 4, 1, tzinfo=ZoneInfo(zone))


def test_a_plan_within_counts_more_than_one_that_may_be_on_other_days():
    day = Period(datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 3, 7, tzinfo=UTC))
    week = Period(datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC))
    other = Period(datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC))
    assert [share_of_plan([plan], [day]) for plan in (day, week, other)] == [1, 0.5, 0]
    assert share_of_plan([day], [week]) == share_of_plan([other, week], [week]) == 1
    assert share_of_plan([], [day]) == share_of_plan([day], []) == 0


def asked_on(now, said, question):
    """What is told of messages, each a conversation of its own and so many days old, to who asks for plans."""
    with AgentMemory.in_memory(clock=FixedClock(now)) as memory:
        for number, (text, days) in enumerate(said.items()):
            message = Message(role="user", content=text, timestamp=now - timedelta(days=days))
            memory.add_messages(SCOPE, [message], conversation=f"c{number}")
        memory.flush(SCOPE)
        found = memory.retrieve(question, scope=SCOPE, min_relevance="auto", record=False)
        return {hit.memory.messages[0].content for hit in found.episodic}


@pytest.mark.parametrize(
    ("plan", "news"),
    [
        ("The coach trip is on Friday", "The coach trip has been cancelled, not enough people"),
        ("Mira macht am Freitag eine Party", "die Party ist abgesagt, sie hat Fieber"),
        ("june has a recorder concert on friday", "junes concert got moved to wednesday, hall is double booked"),
        ("they offered us harbour road, we move on friday", "harbour road is off, they let it to someone else"),
    ],
)
def test_what_calls_a_plan_off_is_told_beside_it(plan, news):
    said = {
        plan: 3,
        news: 1,
        "They cancelled my favourite series": 1,
        "I can't find my keys": 1,
        "They moved the soft play on us": 1,
    }
    assert asked_on(NOW, said, "What do I have today?") == {plan, news}


def test_what_only_has_words_of_a_plan_calls_none_off_and_no_plan_is_told_without_what_calls_it_off():
    plans = {"Dinner with Tom on Friday": 3, "The dentist is on Friday at 10": 3, "Anna visits on Friday": 3}
    news = {"Tom can't make dinner": 1, "Anna cancelled": 1, "The dentist cancelled": 1}
    talk = {"Tom can't eat gluten": 1, "The dentist changed the colour of the door": 1, "Anna didn't like the book": 1}
    talk |= {"Tom moved to Berlin years ago": 1, "I ate dinner alone instead": 1}
    assert asked_on(NOW, plans | talk, "What do I have today?") == plans.keys()
    found = asked_on(NOW, plans | news, "What do I have today?")
    assert (news.keys() <= found, len(found)) == (True, 5)


def test_what_was_called_off_before_says_nothing_of_a_later_plan():
    said = {"The dentist cancelled, she is ill": 5, "Dentist on Friday at 3 then": 1, "I like rain": 1}
    assert asked_on(NOW, said, "What do I have today?") == {"Dentist on Friday at 3 then"}


@pytest.mark.parametrize(
    "habit",
    [
        "Choir practice is every Friday at 7",
        "Yoga is on Fridays",
        "Skat ist jeden Freitag",
        "Le vendredi, chaque vendredi",
    ],
)
def test_what_is_every_friday_is_told_beside_what_somebody_plans_for_one(habit):
    others = {"I run every Tuesday": 8, "We used to swim every Friday": 7, "I swam every Friday last year": 9}
    said = {"The dentist is on Friday at 10": 2, habit: 30, **others}
    assert asked_on(NOW, said, "What do I have on Friday?") == {"The dentist is on Friday at 10", habit}
    assert habit in asked_on(NOW, said, "What's on this week?")


def test_a_conversation_that_began_before_a_plan_may_call_it_off():
    def said(text, days):
        return Message(role="user", content=text, timestamp=NOW - timedelta(days=days))

    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        talk = [said("My neighbour paints", 3.01), said("Blue paint dries slowly", 3)]
        memory.add_messages(SCOPE, [*talk, said("The coach trip has been cancelled", 1)], conversation="long")
        memory.add_messages(SCOPE, [said("The coach trip is on Friday", 2)], conversation="short")
        found = memory.retrieve("What do I have today?", scope=SCOPE, min_relevance="auto", record=False)
    assert "has been cancelled" in found.to_markdown(detail="excerpts")


@pytest.mark.parametrize("earlier", ["What do I have on Friday?", "whats on friday?", "Was habe ich am Freitag vor?"])
def test_who_asked_for_the_plans_of_a_day_told_none(earlier):
    said = {"The dentist is on Friday at 10": 3, earlier: 1, "Do I have to bring cake to the party on Friday?": 1}
    assert asked_on(NOW, said, "What do I have today?") == said.keys() - {earlier}


def test_who_asks_beside_a_plan_tells_it():
    said = {"I have an appointment on Friday at 3. Can you remind me?": 3, "What do I have on Friday?": 2, "Hello": 1}
    assert asked_on(NOW, said, "What do I have today?") == {"I have an appointment on Friday at 3. Can you remind me?"}


@pytest.mark.parametrize("question", ["what do i have on fri?", "whats on fri", "What's on 13 mar?"])
def test_short_names_of_days_and_months_are_read(question):
    said = {"flight leaves fri 6am": 3, "tax is due by mar 13": 20, "I like rain": 1}
    assert asked_on(NOW, said, question) == said.keys() - {"I like rain"}


def test_a_day_that_no_other_word_tells_as_one_is_read():
    said = {"zahnarzt hat angerufen, termin verschoben auf den 16.": 1, "I like rain": 1}
    assert len(asked_on(NOW, said, "What's coming up?")) == 1


def test_on_a_sunday_this_week_is_the_next():
    said = {"Dentist on Tuesday": 2, "I like rain": 1, "In May we fly to Rome": 1}
    assert asked_on(NOW + timedelta(days=2), said, "What's planned for this week?") == {"Dentist on Tuesday"}


@pytest.mark.parametrize("question", ["What's on this week-end?", "今週末の予定は？", "这周末有什么安排？"])
def test_on_a_sunday_the_weekend_is_no_week(question):
    (asked,) = Question.parse(question, now=NOW + timedelta(days=2)).ahead
    assert asked.until - asked.since <= timedelta(days=2)


@pytest.mark.parametrize("question", ["What is on today?", "What is happening today?"])
def test_what_is_written_out_asks_as_what_is_not(question):
    said = {"Dentist on Friday": 2, "I like rain": 1, "Rain is nice today, it is happening": 0}
    assert "Dentist on Friday" in asked_on(NOW, said, question)
    assert Question.parse(question, now=NOW).asks_for_plans


@tried_in_one(
    "plan, text",
    [
        *(("coach trip", "The coach trip has been cancelled"), ("harbour road", "harbour road is off, they let it")),
        *(("boiler man", "Boiler man can't do Wednesday"), ("dentist", "My dentist appointment got moved")),
        *(
            ("dinner tom", "Tom said he can't make dinner"),
            ("yoga", "yoga isn't happening"),
            ("sam", "Sam isn't coming"),
        ),
        *(("party mira", "die party ist abgesagt"), ("termin", "Termin verschoben auf den 8.")),
        *(("kurs", "Der Kurs fällt leider aus"), ("cena", "la cena se cancela"), ("diner", "le dîner est annulé")),
        *(("旅行", "旅行取消了"), ("会議", "会議は中止です")),
        *(
            ("operation", "Die Klinik hat die Operation auf den 22. April verschoben."),
            ("klassentreffen", "Das Klassentreffen sage ich ab, da ist mir zu viel Trubel."),
            ("klempner montag", "Der Klempner kommt erst am Mittwoch."),
            ("zahnarzt", "Der Zahnarzt wurde auf den 2. März vorverlegt."),
        ),
        *(
            ("dermato", "Le dermato a décalé au 8, même heure."),
            ("réunion syndic", "La réunion avec le syndic est repoussée à jeudi."),
            ("train brest", "Le train de vendredi est supprimé."),
            ("cena", "Marisol ha anulado la cena."),
            ("examen", "El examen se pasa al 21 de junio."),
        ),
        *(
            ("release code freeze", "The release slips to the 19th, QA found a bug."),
            ("book club jo", "Book club got bumped to next week, too many people away."),
            ("dentist", "dentist got moved to the 12th same time cuz the doc is sick"),
        ),
        *(
            ("offsite", "My boss is cancelling the offsite."),
            ("yoga class", "Tom wrote that they were cancelling the yoga class."),
            ("flight lisbon", "The airline was cancelling my flight to Lisbon."),
            ("barbecue", "The Johnsons are postponing the barbecue."),
            ("cena", "El jefe está cancelando la cena."),
            ("feier", "Mein Chef ist am Absagen der Feier."),
        ),
    ],
)
def test_what_is_cancelled_or_moved_is_called_off(plan, text):
    names, least = called_off(text)
    assert len(names.intersection(analyze(plan))) >= least


@tried_in_one(
    "plan, text",
    [
        *(
            ("dinner tom", "what can I cook for dinner if we can't do dairy?"),
            ("leo footbal", "Leo won't do his homework 😢"),
        ),
        *(
            ("tom dinner", "Tom changed to oat milk lately"),
            ("kid zoo", "They cancelled the show we watch with the kids"),
        ),
        *(
            ("footbal leo", "football is too expensive here, we can't go every week"),
            ("trip coach", "The trip was lovely"),
        ),
        *(("dentist", "The dentist changed the colour of the door"), ("tom dinner", "Tom moved to Berlin years ago")),
        *(
            ("lou gym", "He slipped to the floor at the gym."),
            ("vet", "I bumped into the vet at the market."),
            ("anna dinner", "The gym was cancelled because Anna, the coach, has the flu."),
            ("klempner montag", "Der Bäcker macht erst um neun auf, sagt der Klempner."),
            ("timo grillen", "Ich sage Timo immer die Wahrheit, ab und zu."),
            ("concert zaz", "J'ai supprimé le fichier du concert."),
            ("cena marisol", "El vuelo se retrasa siempre."),
            ("dentist", "I have to be at the dentist by 9. Yoga was cancelled."),
            ("dentist", "The dentist is on May 3. Yoga was cancelled."),
            ("oma", "Oma kommt erst am Nachmittag, sagt Papa."),
            ("lucia concierto", "Lucía se pasa al piano."),
            ("equipo", "El equipo se pasa al 4-3-3."),
        ),
    ],
)
def test_a_word_of_a_plan_alone_calls_nothing_off(plan, text):
    off = called_off(text)
    assert off is None or len(off[0].intersection(plan.split())) < off[1]


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_calls_a_plan_off_later_in_the_same_conversation_is_told_beside_it(is_stored):
    said = ["Dinner with Tom on Friday", *(f"The {place} of the house is blue" for place in PLACES), "Tom cancelled"]
    two_days_ago = NOW - timedelta(days=2)
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        memory.add_messages(SCOPE, [Message(role="user", content=each, timestamp=two_days_ago) for each in said])
        if is_stored:
            memory.flush(SCOPE)
        found = memory.retrieve("What do I have today?", scope=SCOPE, min_relevance="auto", record=False)
    told = found.to_markdown(detail="excerpts", max_tokens=60)
    assert ("Dinner with Tom" in told, "Tom cancelled" in told) == (True, True)


def test_what_is_queued_leaves_room_for_plans_that_are_stored():
    with AgentMemory.in_memory(clock=FixedClock(NOW)) as memory:
        plan = {"Coach trip on Friday": 3, "The coach trip has been cancelled": 1}
        for text, days in plan.items():
            memory.add_messages(SCOPE, [Message(role="user", content=text, timestamp=NOW - timedelta(days=days))])
            memory.flush(SCOPE)
        talk = [*(f"I got up at {n % 12} o'clock" for n in range(1_100)), *(f"Rain {n}" for n in range(300))]
        memory.add_messages(SCOPE, [Message(role="user", content=each, timestamp=NOW) for each in talk])
        found = memory.retrieve("What do I have today?", scope=SCOPE, min_relevance="auto", record=False)
        assert plan.keys() <= {hit.memory.messages[0].content for hit in found.episodic}
