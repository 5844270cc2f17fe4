"""Questions that are answered by days, asked on Wednesday 4 March 2026 unless said otherwise."""

from datetime import UTC, datetime, timedelta

import pytest
from cases import tried_in_one

from memory_retrievers.retrieval.day_questions import asked_days, asks_for_plans, asks_what_was_done
from memory_retrievers.text.analysis import STOP_WORDS
from memory_retrievers.text.languages import COMMON_WORDS

SAID = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
LITTLE = STOP_WORDS | COMMON_WORDS.keys()


@pytest.mark.parametrize(
    "text",
    [
        *("What do I have from tomorrow until Friday?", "Was habe ich von morgen bis Freitag vor?"),
        *("Qu'est-ce que j'ai de demain jusqu'à vendredi ?", "¿Qué tengo desde mañana hasta el viernes?"),
    ],
)
def test_what_is_asked_from_a_day_on_does_not_begin_today(text):
    since = {each.since.day for each in asked_days(text, today=SAID)}
    until = max(each.until.day for each in asked_days(text, today=SAID))
    assert (since, until) == ({5}, 7)


def test_what_is_asked_begins_today_and_what_comes_up_is_two_weeks():
    assert asked_days("What's on this week?", today=SAID)[0].since.day == 4
    ((since, until),) = asked_days("What's coming up?", today=SAID)
    assert (since.day, until - since) == (4, timedelta(days=14))
    assert asked_days("What did I do yesterday?", today=SAID) == ()


@tried_in_one(
    "text, days",
    [("What's due by Sunday?", (4, 9)), ("Was muss ich bis Sonntag machen?", (4, 9)), ("Anything on Sunday?", (8, 9)),
     ("What's on Friday until Sunday?", (6, 9)), ("Was habe ich am Sonntag vor?", (8, 9)),
     ("Was steht Sonntag an?", (8, 9)), ("Sag mal, was ist am Sonntag?", (8, 9)),
     ("Que dois-je faire avant dimanche ?", (4, 9)), ("¿Qué tengo antes del domingo?", (4, 9)),
     ("¿Qué tengo hasta el 8?", (4, 9)), ("What's due before March 8?", (4, 9)),
     ("By the way, what's on Sunday?", (8, 9)), ("Do I have anything before lunch on Sunday?", (8, 9)),
     ("Do I go by train on Sunday?", (8, 9)), ("¿Qué tengo el domingo antes de comer?", (8, 9))],
)  # fmt: skip
def test_what_is_asked_until_a_day_begins_today(text, days):
    ((since, until),) = asked_days(text, today=SAID)
    assert (since.day, until.day) == days


ASKED = """
What do I have today?|Anything on tomorrow?|What's on my calendar this week?|Do I have any appointments on Friday?
What are we doing at the weekend?|Is there anything I should remember today?|What did I want to do today?|What's coming up?|What's due tomorrow?
Was steht morgen an?|Habe ich heute Termine?|Was mache ich am Wochenende?|Qu'est-ce que j'ai aujourd'hui ?
Qu'est-ce qui est prévu demain ?|¿Qué tengo mañana?|¿Qué planes tengo esta semana?|我今天有什么安排？|明天有什么事？
今日の予定は？|明日の予定を教えて|¿Qué tengo este fin de semana?|Was mache ich am Monatsende?
Was habe ich nächste Woche vor?|Was steht nächstes Wochenende an?|Was liegt morgen an?|Bin ich am Freitag verabredet?
What did I have on 6 March?|Was ist am Freitag los?|Was ist heute los?|Am I free on Thursday?|Habe ich am Donnerstag frei?|¿Qué tengo la semana que viene?|¿Qué tengo el próximo viernes?
Qu'est-ce que j'ai la semaine prochaine ?|Qu'est-ce qu'on fait ce week-end ?|Was steht am Freitag auf dem Programm?|我五月有什么安排？
Was steht Ende Mai an?|What's due in the next two weeks?|Was steht in den nächsten zwei Wochen an?|¿Qué hay a finales de mayo?|Qu'est-ce que j'ai fin mai ?
whats today|what's tomorrow|what am i doin tmrw|what do i gotta do tomorrow|C'est quoi le programme demain ?|On fait quoi ce week-end ?
C'est quoi aujourd'hui ?|J'ai un truc demain ?|Il y a quoi demain ?|Was muss heute erledigt werden?|Was muss ich morgen tun?|Ist morgen was?|¿Qué pasa mañana?
What's the day's plan tomorrow?|What's the day's schedule tomorrow?|What's the day plan today|what's the day of my appointment next week
Whats coming up?|Whats on this Saturday?|¿Qué tengo en las próximas dos semanas?|¿Qué día es mi cita la próxima semana?|¿Qué día es la cita esta semana?|Qu'est-ce que j'ai dans les deux prochaines semaines ?
whats tmrw|What's 2nite|whats tomoz|do i have anything tomorrow|am i free on friday|have i got anything on tomorrow|anything on friday
anything tmrw|got anything on tomorrow|am i busy next week|have we got plans on saturday|is there anything on friday|any plans for friday
"""


@tried_in_one("text", [text for line in ASKED.strip().splitlines() for text in line.split("|")])
def test_who_asks_for_what_there_is_on_a_day_asks_for_plans(text):
    assert asks_for_plans(text, says_little=LITTLE)


OTHERWISE = """
What did I do today?|What did we do this week?|Qu'est-ce que j'ai fait aujourd'hui ?|今日は何をしましたか？|我今天做了什么？
whats today's date|What's the day today?|whats tomorrow in spanish|c'est quoi la météo demain ?|on fait quoi comme gâteau demain ?
¿Qué pasa con ella mañana?|Was hat sie heute erledigt?|Hat er das heute erledigt?|What's his today?|What's theirs tomorrow?|Ist heute was mit ihr?
¿Qué día es mañana?|C'est quoi son truc demain ?|What's he doing tomorrow?|what's she up to tomorrow|What's it today?|Was ist heute für ein Tag?|il y a quoi dans un cassoulet demain ?|Ist morgen was kaputt?|What should I cook today?|When is my dentist appointment?|Do I have a meeting with Tom tomorrow?|How are you today?
have a good friday|i have nothing on friday|do i like fridays|am i a bad person today|any idea what the weather is tomorrow|are we out of milk today|anything but friday|Any appointments on Friday are off
Have a nice day today|See you tomorrow!|What's the weather like tomorrow?|Who is coming on Friday, Ana or Tom?
Was soll ich heute kochen?|Wie wird das Wetter morgen?|¿Qué tiempo hace hoy?|今天天气怎么样？|明日の天気は？
"""


@tried_in_one("text", [text for line in OTHERWISE.strip().splitlines() for text in line.split("|")])
def test_who_names_something_else_asks_for_that(text):
    assert not asks_for_plans(text, says_little=LITTLE)


def test_a_date_with_its_year_is_meant_also_by_who_asks_in_the_past():
    for text in ("Did I tell you about my trip on 3 March 2027?", "Did I book the hotel for 2027-03-03?"):
        assert [each.since.year for each in asked_days(text, today=SAID)] == [2027]
    assert asked_days("What did I plan for 3 March?", today=SAID)


def test_what_is_going_on_is_to_come():
    assert asks_for_plans("What's going on this weekend?", says_little=LITTLE)
    assert not asks_what_was_done("What's going on this weekend?", says_little=LITTLE)
