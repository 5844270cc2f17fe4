"""Days ahead, said on Wednesday 4 March 2026 unless said otherwise."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cases import tried_in_one
from hypothesis import example, given
from hypothesis import strategies as st

from memory_retrievers.text import plans
from memory_retrievers.text.dates import tells_time
from memory_retrievers.text.plans import days_ahead, names_relative_day, names_same_days

SAID = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
EXPECTED = {
    ("2026-03-04", "2026-03-05"): "today|tonight|this evening|heute|aujourd'hui|ce soir|hoy|今天|今日|on Wednesday",
    ("2026-03-10", "2026-03-11"): "on tues|flight leaves tue 6am|by tue, please|10 mar|Mar. 10|the 10th of mar",
    (
        "2026-03-05",
        "2026-03-06",
    ): "thurs dinner|Thu 7pm|Tomorrow at 8|morgen um acht|demain|Mañana por la mañana|明天|明日|あした",
    ("2026-03-06", "2026-03-07"): "the day after tomorrow|übermorgen|après-demain|pasado mañana|后天|明後日|あさって"
    "|User visits the war museum on Friday|I've got a meeting on Friday|She has got the dentist on Friday"
    "|Team meets every two weeks on Friday|on Friday|this Friday|am Freitag|vendredi|el viernes|Freitagabend|jusqu'à vendredi|周五|星期五|这周五|金曜日|今週の金曜日|by Friday|in two days"
    "|in zwei Tagen|dans deux jours|dentro de dos días|两天后|2日後|March 6th|6 March|the 6th of March 2026|6. März"
    "|le 6 mars|el 6 de marzo|3月6日|2026-03-06|06.03.2026|on the 6th|by the 6th|am 6.|le 6|el 6|6日に|6号",
    (
        "2026-03-09",
        "2026-03-16",
    ): "next week|nächste Woche|la semaine prochaine|la semana que viene|la próxima semana|下周|下个星期|来週",
    ("2026-03-02", "2026-03-09"): "this week|diese Woche|cette semaine|esta semana|这周|本周|今週",
    (
        "2026-03-07",
        "2026-03-09",
    ): "this weekend|at the weekend|am Wochenende|ce week-end|el fin de semana|este fin de semana|周末|今週末",
    ("2026-03-14", "2026-03-16"): "下周末|来週末",
    ("2026-04-01", "2026-05-01"): "next month|nächsten Monat|le mois prochain|el mes que viene|下个月|来月|in a month"
    "|in April|for April|im April|en avril|en abril|4月に",
    (
        "2026-03-15",
        "2026-03-22",
    ): "in a fortnight|in a fortnight's time|in two weeks|in zwei Wochen|dans deux semaines|en dos semanas|两周后|2週間後",
    ("2026-04-03", "2026-04-10"): "April 3rd to 9th|3 to 9 April|vom 3. bis 9. April|del 3 al 9 de abril",
    ("2026-03-16", "2026-03-23"): "the week after next|übernächste Woche|下下周|再来週",
    ("2026-03-04", "2026-03-19"): "for the next two weeks|in den nächsten zwei Wochen|les deux prochaines semaines"
    "|las próximas dos semanas|in the next fortnight|within 14 days",
    ("2026-03-09", "2026-03-23"): "closed for two weeks from Monday",
    (
        "2026-03-09",
        "2026-03-10",
    ): "Mon 9 pm|shift on mon at 7|9 Mar., 10 guests|mon 09:30|three days a week from Monday|Monday week 2 of the plan",
    ("2026-03-11", "2026-03-12"): "a week from today|heute in einer Woche|today week",
    (
        "2026-03-07",
        "2026-03-08",
    ): "sat 6am train|Sat night|Samstagmittag|am Sonnabend|am Samstag Morgen|大后天|しあさって",
    (
        "2026-03-06",
        "2026-03-10",
    ): "in a few days|in ein paar Tagen|dans quelques jours|dentro de unos días|几天后|数日後",
    ("2026-03-21", "2026-04-01"): "at the end of the month|at the end of March|Ende des Monats|Ende März|zum Monatsende"
    "|fin mars|à la fin du mois|a finales de marzo|a fin de mes|月底|月末|三月底|late March",
    ("2026-05-21", "2026-06-01"): "at the end of May|Ende Mai|五月底|5月末",
    ("2026-03-06", "2026-03-09"): "by the end of the week|Ende der Woche|Friday to Sunday|Freitag bis Sonntag",
    ("2026-12-01", "2027-01-01"): "by the end of the year|zum Jahresende|fin de l'année|年末|年底",
    (
        "2026-04-01",
        "2026-04-11",
    ): "in early April|at the beginning of April|Anfang April|début avril|a principios de abril",
    ("2026-04-11", "2026-04-21"): "mid-April|in the middle of April|Mitte April|à la mi-avril|a mediados de abril",
    ("2026-03-01", "2026-04-01"): "in March",
    ("2026-05-01", "2026-06-01"): "until May|ab Mai|à partir de mai|hasta mayo|今年5月|今年五月",
    ("2026-06-01", "2026-09-01"): "next summer|nächsten Sommer|l'été prochain|el verano que viene",
    (
        "2026-03-27",
        "2026-03-28",
    ): "on Friday, March 27th|Friday, 27 March|am Freitag, den 27.3. um acht|Freitag, 27. März"
    "|le vendredi 27 mars|el viernes 27 de marzo|3月27日(金)|3月27日星期五",
    (
        "2026-03-13",
        "2026-03-14",
    ): "a week from Friday|a week on Friday|Friday week|Friday next week|next week, on Friday|Freitag in einer Woche"
    "|nächste Woche Freitag|vendredi en huit|vendredi de la semaine prochaine|el viernes de la semana que viene"
    "|the exam was moved to a week from Friday|Friday the 13th|am Freitag, dem 13.|le vendredi 13|el viernes 13|下周五|来週の金曜日|a wee bit on March 13",
    (
        "2026-04-05",
        "2026-04-06",
    ): "on the 5th of next month|am 5. nächsten Monats|le 5 du mois prochain|来月5日|下个月5号",
    ("2026-12-29", "2027-01-01"): "December 29 to 31|29 to 31 December|vom 29. bis 31. Dezember",
    ("2027-05-01", "2027-06-01"): "in May next year|im Mai nächsten Jahres|Ende Mai nächsten Jahres"
    "|en mai de l'année prochaine|en mayo del año que viene|明年五月|来年の5月",
    (
        "2027-05-03",
        "2027-05-04",
    ): "May 3rd next year|on 3 May next year|am 3. Mai nächsten Jahres|明年5月3日|来年5月3日",
    ("2027-01-01", "2028-01-01"): "next year|明年年底|来年末",
    ("2027-02-01", "2027-02-02"): "February 1st|1. Februar|am 1.2. um neun",
}
NEXT_FRIDAY = ["2026-03-06", "2026-03-13"]
NOTHING_AHEAD = (
    *(
        "yesterday",
        "last Friday",
        "since Monday",
        "every Tuesday",
        "We went hiking on Saturday",
        "Was ill on Saturday",
        "letzten Freitag",
    ),
    *(
        "el martes pasado",
        "mardi dernier",
        "los lunes",
        "上周五",
        "先週の金曜日",
        "毎週月曜日",
        "Guten Morgen!",
        "la mañana",
    ),
    *("until May last year", "Ende Mai letzten Jahres", "mi-mai l'an dernier", "en mayo del año pasado"),
    *("hasta junio de 2019", "去年底", "昨年末", "去年年底", "at the end of the day, it is a job", "the end of an era"),
    *("I got the keys on Friday", "Ich war am Freitag beim Arzt"),
    *("Was habe ich am Freitag gemacht?", "Was haben wir am Freitag eingekauft?", "Was gab es am Freitag?"),
    *("Was war am Freitag los?", "Was ist am Freitag passiert?", "Am Freitag war es schön"),
    *("I was there for two weeks from Monday", "Hugo had the flu for a week from Friday", "last Friday week"),
    *("It arrived within two days", "Within a week he had mended it", "The next two weeks were hard"),
    *(
        "They wed in 1950",
        "we sat at 9 tables",
        "Sat 2 hours at the vet",
        "cream on sun burns",
        "mon mari",
        "il tue le temps",
    ),
    *(
        "the sun at 6",
        "Jan called at 5",
        "every sun",
        "last tues",
        "dec 31.5",
        "in dec 2019",
        "I paid the rent on the 6th",
    ),
    *("Le plombier est passé jeudi matin", "She had her baby on the 6th", "Ich war am 6. beim Arzt"),
    *("Hi Thu, how are you?", "Thu is my colleague", "I owe Jan 20 euros", "Voy al mar 2 veces por semana", "apr 24%"),
    *("every other Wednesday", "jeden zweiten Donnerstag", "le mardi", "Freitagabends", "あと3日", "隔周周三"),
    *(
        "February 30",
        "on the 32nd",
        "2026-02-01",
        "9999-12-31",
        "version 1.2.3",
        "I may go",
        "3 days",
        "10日間",
        "",
        "0月0日",
    ),
)


def told(text, said=SAID, **given):
    return [tuple(moment.date().isoformat() for moment in period) for period in days_ahead(text, today=said, **given)]


@tried_in_one("text, expected", [(text, days) for days, texts in EXPECTED.items() for text in texts.split("|")])
def test_days_ahead_are_read_in_six_languages(text, expected):
    assert told(text) == [expected]


@tried_in_one(
    "text, days",
    [
        *(("Le dermato a décalé au 9, même heure", ["2026-03-09"]), ("El examen se pasa al 9", ["2026-03-09"])),
        *(("La réunion est reportée au 9", ["2026-03-09"]), ("game this sat his uncle got tix", ["2026-03-07"])),
        *(("On habite au 9 rue de Brest", []), ("J'ai avancé au niveau 9", []), ("La réunion est reportée au 9h", [])),
        *(("this sat well with me", []), ("they next sat in a boat", [])),
        *(("La fête est déplacée au 15 avenue Foch jeudi", ["2026-03-05"]), ("Reporté au 12 rue de la Paix", [])),
        *(("Reporté au 12, bd Raspail", []), ("El equipo se pasa al 4-3-3", [])),
    ],
)
def test_what_is_moved_in_the_past_tense_is_on_a_day_to_come(text, days):
    assert [since for since, _ in told(text)] == days


@pytest.mark.parametrize("text", ["next Friday", "nächsten Freitag", "vendredi prochain", "el próximo viernes"])
def test_the_next_friday_is_either_that_may_be_meant(text):
    assert [since for since, _ in told(text)] == NEXT_FRIDAY


@tried_in_one("text", NOTHING_AHEAD)
def test_what_lies_behind_or_is_no_day_is_left_out(text):
    assert told(text) == []


@tried_in_one(
    "text",
    [
        *("I had a great day. On Friday the plumber comes.", "I saw Anna. She is coming over on Friday!"),
        *("I had lunch with Priya. The vet is on Friday.", "The dentist was closed, I'll go on Friday."),
        *("I got good news: the plumber comes on Friday", "I met Tom at work and we're going climbing on Friday"),
        *("Ich hatte Pech. Am Freitag muss ich wieder hin.", "Wir waren im Zoo, und am Freitag kommt Oma"),
        *("I booked a table for Friday", "Tom said the meeting is on Friday", "The vet told me to come back on Friday"),
        *("We planned a picnic for Friday", "She promised to call on Friday", "I signed up for the race on Friday"),
        *("Hice la compra. El viernes viene mi prima.", "I was happy that Anna is coming on Friday"),
        *("Gestern war ich krank, am Freitag bin ich wieder da", "I was ill on Monday, I go back to work on Friday"),
        *("I watched the trailer, the film opens on Friday", "Mom came by. On Friday we have lunch at hers"),
        *("The flight was moved to Friday", "We were told to be there on Friday", "The exam was set for Friday"),
        *("The concert was great! On Friday they play again", "My call with Ben got pushed to Friday"),
        *(
            "Ich bin am Freitag eingeladen",
            "Die Kinder sind am Freitag angemeldet",
            "Ich habe am Freitag Geschäftsessen",
        ),
        *("I realized the exam is on Friday", "He suggested dinner on Friday", "He needed the report by Friday"),
        *("J'ai pris rendez-vous vendredi", "周五别忘了交报告", "周五下了班一起吃饭", "金曜日に変更になりました"),
        *("金曜日に終わったら飲もう", "金曜日に面接があると聞きました", "Ich habe bis Freitag Zeit bekommen"),
        *("I bought flowers for the party on Friday", "I wrote to Ben about Friday"),
        "The doctor couldn't see me until Friday",
        *("I got an appointment on Friday", "It was raining. We meet on Friday", "I had to move the vet to Friday"),
        *("She asked me to come on Friday", "I need to see her on Friday", "I took Friday off", "周五要去医院了"),
        *("I saw Dr. Patel, blood test on Friday", "We had a talk at school and there's a trip on Friday"),
        *(
            "I was told the results come on Friday",
            "The meeting was supposed to be on Friday",
            "I told her that dinner Friday works",
            "I noticed that school Friday is off",
            "Vi que el viernes hay reunión",
            "I took a day off on Friday",
        ),
        *(
            "I finished the course, exam on Friday",
            "My shift got swapped to Friday",
            "I was hoping to see you on Friday",
        ),
        *(
            "Ich habe für Freitag einen Tisch gebucht",
            "Am Freitag haben wir ein Gespräch",
            "Le vol a été déplacé à vendredi",
        ),
        *("La cita se cambió al viernes", "J'ai danse vendredi", "Tuve guardia, el viernes descanso", "飞机改到周五了"),
    ],
)
def test_a_plan_beside_what_is_over_is_one(text):
    assert told(text) == [("2026-03-06", "2026-03-07")]


@tried_in_one(
    "text",
    [
        *("We were in Rome. On Friday we visited the Vatican.", "It was great on Friday, I'm so happy"),
        *("On Friday, I went to the cinema", "Wir waren in Rom. Am Freitag haben wir Pizza gegessen."),
        *("At the weekend I was ill", "Am Wochenende waren wir wandern", "Ich war bis Mai in Rom"),
        *("I was ill. It's good that we met on Friday", "Am Freitag bin ich früh heimgegangen. Ich war krank."),
        *("We were in Rome until May", "Am Freitag sind wir gewandert. Ich war müde."),
        *("I was ill. Over the weekend I stayed in bed.", "Es war toll. Am Wochenende besuchte uns Oma."),
        *(
            "I was so tired. At the weekend I slept all day.",
            "She told me on Friday that she is leaving, and I was sad",
        ),
        *(
            "I was so tired on Friday",
            "We went away for the weekend",
            "I was ill until Friday",
            "Ich war bis Freitag krank",
            "We went out for dinner on Friday",
            "We had so much fun on Saturday!",
            "Wir haben am Sonntag Pizza gegessen",
        ),
        *("On Friday I ran a marathon", "We drove to Paris on Friday", "She left on Friday", "I baked bread on Friday"),
        *("I cancelled the appointment on Friday", "He felt ill on Friday", "I spent the weekend at the lake"),
        *(
            "周五我去了医院。",
            "金曜日に病院に行きました",
            "土曜日は楽しかった",
            "金曜日に病院に行った",
            "土曜日に友達と会った",
        ),
        *(
            "I took the kids to the zoo on Friday",
            "On Friday I bought a sofa",
            "We moved in on Friday",
            "I didn't sleep on Friday",
        ),
        *("What went wrong on that expensive Friday?", "Prices cost us a lot on one Friday: fish was sold too cheap"),
        *("On Friday, after work, I went home", "I met Anna, Tom and Ben on Friday", "Took Ben to the dentist Friday"),
        *("Am Freitag fuhr ich nach Kiel", "Am Freitag hat es geregnet", "Wir haben am Sonntag Kuchen gegessen"),
        *(
            "Vendredi j'ai vu Marie",
            "Samedi on est allés au zoo",
            "Jeudi nous sommes partis à Lyon",
            "Vendredi, c'était super",
        ),
        *("El sábado comimos en casa de Ana", "El viernes estuve enferma", "El viernes vino mi madre"),
        *("I had a call with Dr. Lee on Friday and he's worried", "I saw Anna at 3 p.m. on Friday and she's well"),
    ],
)
def test_what_is_told_in_the_past_is_no_plan(text):
    assert told(text) == []


@tried_in_one(
    "text",
    [
        *("Dad fell on Sunday", "The shop opened on Monday", "my boss resigned on friday", "Lena's cat died on Friday"),
        *("grandma turned 80 on Saturday", "Sofia lost a tooth on Friday", "On Friday the car died"),
        *("saturday the kids painted the fence", "the lady next door complained on Monday"),
        *(
            "El lunes empecé el curso",
            "mi hermano llegó el viernes",
            "el martes perdí el móvil",
            "el viernes cené con Ana",
        ),
        *(
            "Am Sonntag regnete es",
            "Opa stürzte am Sonntag",
            "Der Laden machte am Montag auf",
            "Am Montag begann der Kurs",
        ),
        *("Le train est tombé en panne lundi", "ma soeur est arrivée vendredi", "mon frère a perdu ses clés lundi"),
        *("I did not plant any leeks this year", "We went there this week"),
    ],
)
def test_what_a_noun_did_is_no_plan(text):
    assert days_ahead(text, today=SAID) == ()


@tried_in_one(
    "text",
    [
        *("He called to say he can't come on Friday", "I finished the report due on Friday", "shop closed on Monday"),
        *(
            "I got a new job and start on Monday",
            "they gave us friday at 4:30 instead",
            "I need the car fixed by Friday",
        ),
        *(
            "mum rang and shes coming on sunday",
            "it got cold so no swimming on Sunday",
            "Manchester United on Saturday",
        ),
        *("Ben passed his test and drives us on Saturday", "the boss hired a new guy who starts on Monday"),
        *(
            "dentist on Friday because the tooth cracked",
            "getting my hair coloured on Saturday",
            "karate class on Friday",
        ),
        *("the delayed parcel arrives on Friday", "lunch with Alfred on Sunday", "they squeezed me in on Friday"),
        *(
            "El sábado trabajé y el domingo descanso",
            "El viernes café con Ana",
            "llego el viernes",
            "reservé para el lunes",
        ),
        *("Am Freitag arbeite ich lange", "Meine Tante kommt am Samstag", "Am Samstag sollte ich putzen"),
        *(
            "Jonas organised a trip on Saturday",
            "the studio opened a slot on Friday",
            "Dad rang to say he lands on Friday",
            "Grandma called about lunch on Sunday",
            "got a viewing booked saturday 10am",
        ),
        *(
            "they increased the dose starting Monday",
            "arbeite am Samstag bis 6",
            "Ana cumplió 30 y lo celebra el sábado",
        ),
        *("Mon rendez-vous a été déplacé à lundi", "Ma tante arrive samedi", "tuesday 10th at 4:30"),
    ],
)
def test_what_was_done_beside_a_plan_leaves_it_one(text):
    assert len(days_ahead(text, today=SAID)) == 1


@pytest.mark.parametrize(
    "text", ["Ciara visits 25th to 28th", "vom 25. bis zum 28. in Rom", "from the 25th to the 28th"]
)
def test_days_of_no_month_are_all_between_them(text):
    assert told(text) == [("2026-03-25", "2026-03-29")]


def test_the_31st_is_of_the_next_month_that_has_one():
    assert told("We move out on the 31st", datetime(2026, 2, 10, tzinfo=UTC)) == [("2026-03-31", "2026-04-01")]


def test_next_friday_is_in_a_week_if_today_is_one():
    (only,) = days_ahead("The show is next Friday", today=SAID + timedelta(days=2))
    assert f"{only.since:%Y-%m-%d}" == "2026-03-13"


def test_two_months_are_both_to_come():
    assert told("We are in Rome in March and April") == [("2026-03-01", "2026-04-01"), ("2026-04-01", "2026-05-01")]


def test_a_day_that_is_named_before_ends_no_sentence():
    assert told("I was ill today and over the weekend") == [("2026-03-04", "2026-03-05")]


@pytest.mark.parametrize(
    "text",
    ["Ich war krank. Am Wochenende grillen wir.", "I was ill; over the weekend we go to the zoo, if I'm well"],
)
def test_a_weekend_is_to_come_unless_its_own_sentence_is_told_in_the_past(text):
    assert told(text) == [("2026-03-07", "2026-03-09")]


def test_who_asks_what_another_plans_asks_of_the_next_such_day():
    assert told("Was hat Anna am Freitag vor?") == [("2026-03-06", "2026-03-07")]
    assert told("Haben wir am Freitag schon was vor?") == [("2026-03-06", "2026-03-07")]
    assert (
        told("What have I got on Friday?")
        == told("What did we want to do on Friday?")
        == [("2026-03-06", "2026-03-07")]
    )
    assert told("Was hat Anna am Freitag gemacht?") == []


@pytest.mark.parametrize("text", ["habe ich " * 60 + "friday " * 60, "was hat " * 60 + "friday " * 60])
def test_no_text_takes_long_to_read(text):
    began = time.process_time()
    for _ in range(8):  # some 0.2 s in all; where each day is looked for in the whole text, 2
        days_ahead(text, today=SAID)
    assert time.process_time() - began < 1


def test_in_january_this_winter_is_the_one_that_goes_on():
    said = datetime(2026, 1, 10, tzinfo=UTC)
    assert told("We go skiing this winter", said) == [("2025-12-01", "2026-03-01")]
    assert told("We go skiing next winter", said) == [("2026-12-01", "2027-03-01")]


def test_days_are_those_of_the_time_zone_of_the_moment():
    (tomorrow,) = days_ahead("tomorrow", today=datetime(2026, 3, 5, 1, tzinfo=timezone(timedelta(hours=9))))
    assert tomorrow.since == datetime(2026, 3, 5, 15, tzinfo=UTC)


def test_without_a_clock_only_dates_count():
    assert told("on Friday, or next week, or on April 1st", by_clock=False) == [("2026-04-01", "2026-04-02")]


@given(st.text(max_size=60), st.datetimes(timezones=st.just(UTC)))
@example("next year in 999 months on the 31st", datetime(9999, 12, 31, tzinfo=UTC))
@example("February 29 2100, 31.12., in 999 years", datetime(1, 1, 1, tzinfo=UTC))
def test_whatever_is_said_ends_behind_the_day(text, said):
    assert all(
        each.until > said.replace(hour=0, minute=0, second=0, microsecond=0) for each in days_ahead(text, today=said)
    )


WORDS = sorted({word for texts in EXPECTED.values() for word in texts.replace("|", " ").split()})
NUMBERS = ["12", "3.", "4th", "2026", "12.5", "v1.2", "E-4071", "le", "el", "día", "am", "on", "by"]


@given(st.lists(st.sampled_from([*WORDS, *NUMBERS]), max_size=5).map(" ".join))
@example("on the 6th")
@example("el día 6")
def test_the_first_look_at_a_text_leaves_out_no_day(text):
    every = plans.named(plans.plain(text), plans._EXPRESSIONS[True, True], plans.midnight(SAID))
    assert days_ahead(text, today=SAID) == tuple(each for each in every if each.until > plans.midnight(SAID))


@tried_in_one("text", [text for texts in EXPECTED.values() for text in texts.split("|")])
def test_messages_with_days_ahead_are_told_to_have_a_time(text):
    """Only these are read when it is asked for plans."""
    assert tells_time(text)


RELATIVE = """
User has a dentist appointment tomorrow|User moved to Lyon last year|User started a new job two weeks ago|Meeting on Friday
User is going to Rome next week|User's exam is in March|User was ill yesterday|User is on holiday this week
User works on Friday|User was ill at the weekend|User is in Rome from Monday to Friday|Zahnarzt am 3.12. um neun|User usually runs, but not tomorrow
User is in Rome Monday to Friday (5 days)|User's son has a school trip Monday to Friday|User is at the open source fair Monday to Friday
User is off work Monday to Friday|用户周一到周五不上班|User takes off at 9 a.m. and is in Rome Monday to Friday|User's favourite band plays on Friday|User pays rent every month, and flies on Friday
User always forgets that the dentist is on Friday|User usually runs, but has the dentist on Friday|User's monthly report is due on Friday
Der Nutzer fliegt immer noch am Freitag|El usuario siempre olvida que tiene dentista el viernes|L'utilisateur est toujours à Rome vendredi
Der Nutzer hat morgen einen Termin|El usuario viaja la semana que viene|用户明天有面试|昨日引っ越した
User is currently reading Dune|User recently moved to Leeds|User had surgery a few weeks ago|User has lived in Leeds for two years
User's daughter is 3 months old|Nutzers Tochter ist drei Monate alt|Su bebé tiene dos meses de edad|Nutzerin ist im fünften Monat schwanger|Nutzer ist neulich umgezogen|Nutzer ist derzeit arbeitslos|Nutzer raucht seit drei Wochen nicht mehr
L'utilisateur a déménagé récemment|Il est actuellement au chômage|Il vit à Nantes depuis deux ans|El usuario se casó hace poco|El usuario hace poco se mudó a Lugo|Se mudó hace poco a Lugo
Actualmente lee Rayuela|Lo operaron hace unas semanas|用户最近搬家了|用户几周前做了手术|ユーザーは最近引っ越した|先日結婚した
"""
ABSOLUTE = """
User likes tea|User was born on 4 May 1980|User works five days a week|User is 30 years old|User runs every day
User goes swimming every Tuesday|The user may be late|User's wedding was on 2024-06-01|The deadline is 19 March 2026
User has worked at ACME since 2019|Guten Morgen is what the user says|Object to releases on a Friday|User has therapy every other Wednesday|L'utilisateur joue au foot le mardi
Die Müllabfuhr kommt jeden zweiten Donnerstag|User's wedding is on Saturday, 13 June 2026|The flat costs 900 euros a month|Moved in 2023
User works Monday to Friday|Standup is Monday to Friday at 9|User wakes up at 6 a.m. Monday through Friday
User usually runs on Tuesday, Thursday and Friday|User's favourite day is Friday|Shop is open from 9 to 5 Monday to Friday|User pays monthly on the 3rd
User arbeitet von Montag bis Freitag|User travaille du lundi au vendredi|User trabaja de lunes a viernes|用户周一到周五上班
ユーザーは月曜日から金曜日まで働く|Trash is collected on Tuesday mornings|The team meets weekly on Wednesday|User moved in May 2019
User uses Python 3.12.|The deploy worked by the 3rd try|User pays rent on the 1st of each month|User skis in March every year
User studied in Rome for two years|User has two cats|Nutzer kocht vor dem Training|El usuario hace pan
用户每周五打网球|用户每个星期五打网球|毎週金曜日にテニスをする|毎週の金曜日|El usuario juega los lunes
User sees Rome every year in early May|Nutzer fährt jedes Jahr Ende Mai weg|L'utilisateur part chaque année fin mai|用户每年年底回家
El usuario viaja cada año a finales de mayo|El usuario hace poco deporte|毎年末に実家へ帰る|用户喜欢刚刚好的甜度
"""


@tried_in_one("text", [text for line in RELATIVE.strip().splitlines() for text in line.split("|")])
def test_what_says_something_else_tomorrow_names_a_relative_day(text):
    assert names_relative_day(text)


@tried_in_one("text", [text for line in ABSOLUTE.strip().splitlines() for text in line.split("|")])
def test_a_date_or_a_habit_is_no_relative_day(text):
    assert not names_relative_day(text)


@tried_in_one(
    "text, days, is_same",
    [("User has been sick for three days", 120, False), ("User has been sick for three days", 0, True),
     ("I've been sick for three days", 120, False), ("She's been sick for three days", 120, False),
     ("User is 20 weeks pregnant", 14, False), ("The baby is three months old", 60, False),
     ("Der Nutzer ist seit drei Tagen krank", 100, False), ("L'utilisateur est malade depuis trois jours", 60, False),
     ("El usuario está enfermo desde hace tres días", 60, False), ("User has been married for 12 years", 400, False),
     ("User has worked at Bosch for two years", 7, True), ("Der Nutzer wohnt seit zehn Jahren in Kiel", 90, True),
     ("User jogs for 20 minutes a day", 80, True), ("User has a table for three people", 80, True)],
)  # fmt: skip
def test_what_has_lasted_so_long_began_another_time_if_it_is_told_later(text, days, is_same):
    assert names_same_days(text, SAID, SAID + timedelta(days=days)) == is_same


@tried_in_one(
    "text, since",
    [
        *(("Essay submitted by Friday", "2026-03-06"), ("Deadline extended until Friday", "2026-03-06")),
        *(("Boiler installed Friday morning", "2026-03-06"), ("I wouldn't miss the party on Friday", "2026-03-06")),
        *(("Rose called about Sunday dinner", "2026-03-08"), ("Am Freitag letzte Prüfung", "2026-03-06")),
        *(("Saldré el sábado con Ana", "2026-03-07"), ("We didn't book anything for this weekend", "2026-03-07")),
        *(("Saturday 1st birthday party for Mia", "2026-03-07"), ("Friday 2nd interview at Google", "2026-03-06")),
        *(("Dinner Friday 20th", "2026-03-20"), ("My boss approved leave on Friday", "2026-03-06")),
        ("Tim missed his flight and arrives on Friday", "2026-03-06"),
    ],
)
def test_what_is_to_be_done_by_a_day_or_about_it_is_a_plan(text, since):
    assert [day[0] for day in told(text)] == [since]


@tried_in_one(
    "text",
    [
        *("Fuimos al museo y la playa el viernes", "On a vu le musée et la plage samedi"),
        *("Tom saw Anna and me on Friday", "Big storm on Friday as we were driving home"),
        *("Lunch on Sunday with Ben who was in a great mood", "Der Kurs startete am Montag"),
    ],
)
def test_what_else_a_clause_says_leaves_it_past(text):
    assert told(text) == []


@tried_in_one(
    "text",
    [
        *("Our house is from the 18th century", "I live on 5th street", "We dropped from 3rd to 8th in the league"),
        *("Ben geht in die 3. bis 4. Klasse", "The 2nd to last page", "In the 19th to 20th centuries"),
    ],
)
def test_what_is_counted_as_days_are_is_none(text):
    assert told(text) == []


@tried_in_one(
    "text",
    [
        *("I met Ana, who is a nurse, on Friday", "passed my exam on friday", "Watched a movie on Friday"),
        *("The landlord finally fixed the heating on Monday", "Kim cut her finger on Friday", "Kim quit on Friday"),
        *("The concert on Friday rocked", "we went to that new place on friday", "Der Termin am Montag war gut"),
        *("Am Freitag war Elternabend", "Am Freitag kochte ich", "Leo fiel am Samstag vom Rad"),
        *("Herr Richter grüßte mich am Montag", "Ma grand-mère est morte samedi"),
    ],
)
def test_what_was_done_is_no_plan_whoever_did_it(text):
    assert told(text) == []


@tried_in_one(
    "text",
    [
        *("Nails painted Friday at 2", "They predicted rain on Friday", "Am Freitag Geräte zurückgeben"),
        *("Am Freitag Malte treffen", "Ich hätte am Freitag Zeit", "J'ai été invité vendredi"),
        *("Te llamé porque el viernes hay reunión", "Compré entradas para el concierto del viernes"),
        "J'ai pris des billets pour le match de vendredi",
    ],
)
def test_what_looks_like_the_past_may_be_a_plan(text):
    assert told(text) == [("2026-03-06", "2026-03-07")]


@tried_in_one(
    "text",
    [
        "I'm a bit busy on friday",
        "please keep the door locked on friday",
        "let's quit early on friday",
        "expected at the clinic on friday",
        "Fred at the gym on friday",
        "on the 24th place the order",
    ],
)
def test_a_word_that_is_no_past_verb_and_a_day_before_a_place_leave_a_plan(text):
    assert days_ahead(text, today=datetime(2026, 3, 4, 9, tzinfo=UTC))


def test_a_text_with_a_date_means_the_same_on_that_day():
    eve = datetime(2026, 3, 4, 9, tzinfo=UTC)
    assert names_same_days("The contract ends on 5 March 2026", eve, eve + timedelta(days=1))
    assert names_same_days("Ana's recital is on 5 March", eve, eve + timedelta(days=1))


@tried_in_one(
    "text",
    [
        *(
            "We get paid on Friday",
            "The rent has to be paid on Friday",
            "Rent is paid on the 6th",
            "Tom gets paid Friday",
        ),
        *("I have paid leave on Friday", "I will get paid on the 6th", "Les cours sont passés au vendredi"),
        *("I bought a dress for the wedding on the 6th", "I made a cake for the party on 6 March"),
    ],
)
def test_what_is_to_be_paid_or_was_got_for_a_day_is_ahead(text):
    assert days_ahead(text, today=datetime(2026, 3, 4, 9, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Mon: dentist, Tue: gym", "09 10"),
        ("This week: Thu: demo to sales, Fri: retro at 3", "05 06"),
        ("Shifts: Mon off, Tue night, Wed night, Thu off, Fri late", "09 10 04 05 06"),
        ("Dentist Mon, gym Tue", "09 10"),
        ("Yoga is Tue/Thu now", "10 05"),
        ("Free Tue or Thu", "10 05"),
        ("The plumber is here mon between 8 and 12", "09"),
        ("Sun we go to mum's", "08"),
        ("The bins are out tues now", "10"),
        ("See you tmrw", "05"),
        ("The gig is day after tmrw", "06"),
        ("So the day after tommorow then", "06"),
        ("The dentist is 2moro", "05"),
        ("Gig 2nite", "04"),
        ("I saw the vet and have to go back on the 12th", "12"),
        ("I met Tom and need to call him on Friday", "06"),
        ("Wir waren letzte Woche dort und fahren am 20. wieder hin", "20"),
        ("Wir waren beim Arzt und müssen am 12. nochmal hin", "12"),
        ("J'ai vu le dentiste et je dois y retourner le 12", "12"),
        ("Mon 9 night", "09"),
        ("Mon 9 lunch with Anna", "09"),
        ("Let's meet Wed at 18", "04"),
        ("wed at 15:30 dentist", "04"),
        ("We have a Sept 8 deadline", "08"),
    ],
)
def test_days_are_read_in_one_line_and_behind_what_has_been(text, days):
    named = [each for each in days_ahead(text, today=SAID) if each.until - each.since == timedelta(days=1)]
    assert [f"{each.since:%d}" for each in named] == days.split()


@pytest.mark.parametrize(
    "text",
    [
        "Mon 2 pièces est trop petit", "They wed at 19", "J'ai sept 8 chats", "I rely on Sun for Java support", "Ce boulot me tue.",
        "It is based on Sun hardware", "We enjoyed the sun and sat in the garden", "He sat and sat and waited",
        "Hi Thu, how are you?", "The sun off the coast is strong", "tu te tues au travail", "I had to go back on the 12th",
        "I saw the vet on the 12th and have to rest now", "Am 20. waren wir in Kiel und fahren bald wieder hin",
        "Ich weiß schon, was ich tue.", "Le tabac tue.", "no worries mon!", "She weds.", "They wed after 3 years",
        "We sat, sun on our faces",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_short_day_is_none(text):
    assert days_ahead(text, today=SAID) == ()
