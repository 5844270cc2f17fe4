"""Who is told what is planned: appointments that were told as "next Friday" or "on the 25th", asked for on their day.

Six weeks are told day by day, a conversation for each message, with others between them that name days too; and on
some days it is asked what there is today, tomorrow or this week. Every sentence was written for this package; with
those of the second set nothing was chosen.

    python benchmarks/agenda.py
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from memory_retrievers import AgentMemory
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.settings import MAX_TOKENS
from memory_retrievers.testing import FixedClock

SCOPE: Final = "user/ines"
FIRST: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""A Monday."""


class Plan(NamedTuple):
    """What is told on a day, counted from the first, the question on a later day, and a word of what was told."""

    told: int
    words: str
    asked: int
    question: str
    found: str


CHOSEN_ON: Final = (
    Plan(3, "I have a dentist appointment next Friday at 3.", 11, "What do I have today?", "dentist"),
    Plan(1, "My sister is flying in on Saturday.", 5, "Is anything happening today?", "sister"),
    Plan(2, "The plumber comes tomorrow between 8 and 10.", 3, "Anything on today?", "plumber"),
    Plan(4, "I've got a job interview in two weeks.", 18, "What's on my calendar this week?", "interview"),
    Plan(7, "The school concert is on March 19th.", 16, "What do I have tomorrow?", "concert"),
    Plan(8, "Remind me to send the tax papers by the 25th.", 22, "What do I have to do tomorrow?", "tax"),
    Plan(10, "We'll be in Lisbon next weekend.", 17, "What are my plans for the weekend?", "Lisbon"),
    Plan(12, "My mother-in-law's birthday is on the 2nd of April.", 28, "What's coming up this week?", "mother-in-law"),
    Plan(14, "I'll be on holiday next week.", 18, "What am I doing next week?", "holiday"),
    Plan(15, "Parent-teacher meeting on Wednesday at 6 pm.", 16, "Do I have anything tonight?", "Parent"),
    Plan(20, "The car needs to go to the garage in three days.", 23, "What's planned for today?", "garage"),
    Plan(22, "Dinner with the Okafors the day after tomorrow.", 23, "What's on tomorrow?", "Okafor"),
    Plan(25, "The new sofa gets delivered Monday morning.", 27, "Do I have any appointments tomorrow?", "sofa"),
    Plan(26, "I promised Tom to help him move this Sunday.", 27, "What did I want to do today?", "Tom"),
    Plan(30, "My passport expires next month.", 60, "What do I have to take care of this month?", "passport"),
    Plan(3, "Nächsten Freitag habe ich einen Termin beim Hautarzt.", 11, "Was habe ich heute vor?", "Hautarzt"),
    Plan(8, "Am 25. kommt der Schornsteinfeger.", 22, "Was steht morgen an?", "Schornsteinfeger"),
    Plan(13, "Übermorgen treffe ich mich mit Jonas.", 15, "Habe ich heute Termine?", "Jonas"),
    Plan(16, "In zwei Wochen fahren wir nach Wien.", 30, "Was ist diese Woche geplant?", "Wien"),
    Plan(2, "J'ai rendez-vous chez le notaire vendredi prochain.", 11, "Qu'est-ce que j'ai aujourd'hui ?", "notaire"),
    Plan(9, "Le 24 mars, c'est l'anniversaire de Camille.", 21, "Qu'est-ce qui est prévu demain ?", "Camille"),
    Plan(17, "Demain, le peintre passe à 9 heures.", 18, "Qu'ai-je de prévu aujourd'hui ?", "peintre"),
    Plan(3, "El próximo viernes tengo cita con el oculista.", 11, "¿Qué tengo hoy?", "oculista"),
    Plan(11, "El 26 de marzo viene mi prima.", 23, "¿Qué tengo mañana?", "prima"),
    Plan(19, "Pasado mañana juego un torneo de pádel.", 21, "¿Qué planes tengo para hoy?", "torneo"),
    Plan(3, "下周五我要去看牙医。", 11, "我今天有什么安排？", "牙医"),
    Plan(20, "明天要交房租。", 21, "今天要做什么？", "房租"),
    Plan(2, "来週の金曜日に健康診断があります。", 11, "今日の予定は？", "健康診断"),
    Plan(21, "あさって引っ越し業者が来ます。", 23, "今日は何がありますか？", "引っ越し"),
)

OTHERS: Final = (
    Plan(0, "Wednesday week I'm giving a talk at the library, no, this Wednesday.", 2, "What's today?", "library"),
    Plan(2, "Got tickets for the opera on the 14th!", 11, "Anything planned for tomorrow?", "opera"),
    Plan(4, "The vet can see Biscuit on Tuesday at noon.", 7, "What do I need to do tomorrow?", "Biscuit"),
    Plan(5, "The landlord wants to inspect the flat in ten days.", 15, "Do I have anything today?", "landlord"),
    Plan(6, "Half marathon is 29 March, I'm so nervous.", 25, "What's happening this weekend?", "marathon"),
    Plan(9, "Boss wants the slides by Thursday.", 10, "What's due today?", "slides"),
    Plan(11, "I'm seeing the physio again a week from now.", 17, "What do I have tomorrow?", "physio"),
    Plan(13, "My brother's wedding is next month, on the 11th.", 37, "Any plans this week?", "wedding"),
    Plan(14, "Tomorrow evening we're babysitting the twins.", 15, "What am I doing tonight?", "twins"),
    Plan(18, "Flight to Oslo leaves on 2026-03-27 at 6:40.", 24, "What's on my schedule tomorrow?", "Oslo"),
    Plan(19, "Rehearsal moved to coming Tuesday.", 22, "Is there anything I should remember today?", "Rehearsal"),
    Plan(24, "Bin collection is the day after tomorrow because of the holiday.", 26, "What's up today?", "Bin"),
    Plan(26, "The electricity will be off on Wednesday from 9 to 12.", 29, "Anything tomorrow?", "electricity"),
    Plan(27, "Ella starts kindergarten in a month.", 57, "What's coming up in the next few days?", "kindergarten"),
    Plan(29, "Yoga retreat Friday to Sunday!", 33, "What are we doing at the weekend?", "retreat"),
    Plan(4, "Am Dienstag ist Elternabend.", 8, "Steht heute etwas an?", "Elternabend"),
    Plan(12, "Der Umzug ist am 28. März.", 22, "Was mache ich am Wochenende?", "Umzug"),
    Plan(24, "Nächste Woche bin ich auf Dienstreise in Bern.", 30, "Was ist heute?", "Bern"),
    Plan(4, "Mardi, les élèves passent leur examen blanc.", 7, "Qu'est-ce que je fais demain ?", "examen"),
    Plan(18, "Dans trois jours, on fête les 60 ans de papa.", 21, "Quel est mon programme du jour ?", "papa"),
    Plan(12, "El lunes me operan de la muela.", 13, "¿Qué hay mañana?", "muela"),
    Plan(20, "La semana que viene voy a Sevilla.", 23, "¿Qué planes tengo esta semana?", "Sevilla"),
    Plan(16, "3月27日我妈妈做手术。", 24, "明天有什么事？", "手术"),
    Plan(30, "三天后有同学聚会。", 33, "我今天有什么计划？", "聚会"),
    Plan(12, "3月24日に車検があります。", 21, "明日の予定を教えて", "車検"),
)

BETWEEN: Final = (
    "We went hiking on Saturday and got soaked.",
    "The coffee machine broke again yesterday.",
    "Last Friday I saw a wonderful film about bees.",
    "I slept badly, the neighbours had a party until 3 am.",
    "Work was exhausting today.",
    "Can you explain how compound interest works?",
    "I bought a blue bicycle two weeks ago.",
    "What's a good recipe for lentil soup?",
    "My back hurts since Monday.",
    "Every Tuesday I go swimming with Ana.",
    "I finished the book about Magellan last night.",
    "The kids have discovered chess.",
    "I think I should drink less coffee.",
    "Wir haben am Sonntag Kuchen gebacken.",
    "Hier, il a plu toute la journée.",
    "El martes pasado fui al cine.",
)


def told(plans: Sequence[Plan], *, least: MinRelevance, as_facts: bool = False) -> list[tuple[Plan, str]]:
    """Each plan with what its question brings, the weeks told and asked day by day, in talks or as facts."""
    clock = FixedClock(FIRST)
    answers: list[tuple[Plan, str]] = []
    with AgentMemory.in_memory(clock=clock) as memory:
        for day in range(max(plan.asked for plan in plans) + 1):
            for plan in plans:
                if plan.asked == day:
                    found = memory.retrieve(plan.question, scope=SCOPE, record=False, min_relevance=least)
                    answers.append((plan, found.to_markdown(max_tokens=MAX_TOKENS)))
            said = [plan.words for plan in plans if plan.told == day] + [BETWEEN[day % len(BETWEEN)]]
            for number, words in enumerate(said):
                if as_facts:
                    memory.remember_fact(scope=SCOPE, fact=words)
                    clock.advance(minutes=10)
                    continue
                messages = [{"role": "user", "content": words}, {"role": "assistant", "content": "Thanks, I see."}]
                memory.add_messages(SCOPE, messages, conversation=f"{day} {number}")
                clock.advance(minutes=10)
            clock.advance(days=1, minutes=-10 * len(said))
            memory.process_due()
    return answers


def main() -> None:
    """Print the table."""
    print("| plans found on their day | by a search | in a prompt |")
    print("|---|--:|--:|")
    for form in ("", ", as facts"):
        for name, plans in (("the first set", CHOSEN_ON), ("the second set", OTHERS)):
            counts = []
            for least in (0.0, "auto"):
                answers = told(plans, least=least, as_facts=bool(form))
                counts.append(f"{sum(plan.found in block for plan, block in answers)} of {len(plans)}")
            print(f"| {name}{form} | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
