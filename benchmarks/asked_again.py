"""Who is told the truth after asking before: a question asked again and again, and what has changed since.

Each thing is told in a conversation of its own; then its question is asked in so many further ones, and answered from
what was known, or not at all; of some things something new is told at last. Then all is asked once more. Every
sentence was written for this package.

    python benchmarks/asked_again.py
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, NamedTuple

from first_person import CHOSEN_ON

from memory_retrievers import AgentMemory
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.settings import MAX_TOKENS, RetrievalSettings
from memory_retrievers.testing import FixedClock

SCOPE: Final = "user/ines"
TIMES: Final = (0, 2, 8)
WEIGHTS: Final = (0.0, 0.8, 1.0)
UNKNOWN: Final = "I'm not sure about that, sorry."
ANSWERS: Final = (
    "You told me: {}.",
    "As far as I know, {}.",
    "{}!",
    "It's {}.",
    "That would be {}.",
    "{}, you said.",
    "From what you've told me, {}.",
    "I remember: {}.",
)
OTHER_WORDS: Final = (
    "Remind me, {}",
    "{} again",
    "Hey, {}",
    "do you know {}",
    "Quick question: {}",
    "Tell me, {}",
    "So {}",
    "Sorry, once more: {}",
)


class Changed(NamedTuple):
    """What was told first, the answer until then, what was told at last, its question, and a word that is new."""

    first: str
    answer: str
    last: str
    question: str
    new: str


CHANGED: Final = (
    Changed(
        "I work at Bauer Bakery in Leeds.",
        "at Bauer Bakery in Leeds",
        "I quit the bakery. I started at a bookshop last week.",
        "Where do I work?",
        "bookshop",
    ),
    Changed(
        "I live in Lyon.", "in Lyon", "We finally moved into the new flat in Nantes!", "Where do I live?", "Nantes"
    ),
    Changed(
        "My girlfriend is called Mia.",
        "Mia",
        "Mia and I broke up in the autumn. I'm seeing Jana now.",
        "Who is my girlfriend?",
        "Jana",
    ),
    Changed(
        "I drive a Skoda Octavia.",
        "a Skoda Octavia",
        "Sold the old car, picked up a Tesla yesterday.",
        "What car do I drive?",
        "Tesla",
    ),
    Changed("I am vegetarian.", "vegetarian food", "I eat fish again, doctor's orders.", "What can I eat?", "fish"),
    Changed(
        "I have one cat named Tiger.",
        "one cat named Tiger",
        "We got a second kitten, she's called Nala.",
        "Which pets do I have?",
        "Nala",
    ),
    Changed(
        "I prefer answers in English.",
        "English",
        "From now on please write to me in German.",
        "Which language do I want?",
        "German",
    ),
    Changed(
        "I run three times a week.",
        "running, three times a week",
        "My knee is done for, I've switched to swimming.",
        "Which sport do I do?",
        "swimming",
    ),
    Changed("My manager is Tom.", "Tom", "Tom left the company, Priya is my boss now.", "Who is my manager?", "Priya"),
    Changed(
        "My phone is a Pixel 6.",
        "a Pixel 6",
        "Dropped my phone in the lake. Using an iPhone now.",
        "Which phone do I have?",
        "iPhone",
    ),
    Changed(
        "We deploy to Heroku.",
        "to Heroku",
        "We migrated everything to Fly.io over the weekend.",
        "Where do we deploy?",
        "Fly.io",
    ),
    Changed(
        "My flight to Rome is on Friday.",
        "on Friday",
        "The airline moved our flight to Sunday.",
        "When do I fly to Rome?",
        "Sunday",
    ),
    Changed(
        "I study physics at TU Berlin.",
        "physics at TU Berlin",
        "I dropped out of physics, I'm doing a carpentry apprenticeship.",
        "What do I study?",
        "carpentry",
    ),
    Changed(
        "My favourite band is Radiohead.",
        "Radiohead",
        "These days I only listen to Big Thief, they're my favourite now.",
        "What's my favourite band?",
        "Big Thief",
    ),
    Changed(
        "I take 50 mg of sertraline.",
        "50 mg",
        "The doctor raised my dose to 100 mg.",
        "How much sertraline do I take?",
        "100 mg",
    ),
    Changed(
        "My password manager is LastPass.",
        "LastPass",
        "I've moved all my logins over to Bitwarden.",
        "Which password manager do I use?",
        "Bitwarden",
    ),
    Changed(
        "My salary is 52,000 euros.",
        "52,000 euros",
        "Got the raise! It's 60 thousand now.",
        "How much do I earn?",
        "60 thousand",
    ),
    Changed(
        "I am engaged to Paul.",
        "engaged to Paul, not married",
        "Paul and I got married on Saturday!",
        "Am I married?",
        "married on Saturday",
    ),
    Changed(
        "My gym is FitStar.",
        "FitStar",
        "I cancelled FitStar, it's the climbing hall for me now.",
        "Where do I work out?",
        "climbing hall",
    ),
    Changed(
        "My daughter is in second grade.",
        "second grade",
        "Lina just started third grade.",
        "Which grade is my daughter in?",
        "third grade",
    ),
)


class Life:
    """A memory that is told one conversation after the other."""

    def __init__(self, weight: float) -> None:
        self._clock = FixedClock(datetime(2026, 1, 1, 9, tzinfo=UTC))
        self._told = 0
        self.memory = AgentMemory.in_memory(clock=self._clock, retrieval=RetrievalSettings(repetition_weight=weight))

    def tell(self, said: str, answer: str) -> None:
        messages = [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
        self._told += 1
        self.memory.add_messages(SCOPE, messages, conversation=str(self._told))
        self._clock.advance(hours=2)
        self.memory.process_due()

    def recalled(self, pairs: Sequence[tuple[str, str]]) -> tuple[int, int]:
        """How many of the words stand in what their question finds: in a search as it is, and in a prompt."""
        searched, prompted = (
            sum(words in self._block(question, least) for words, question in pairs) for least in (0.0, "auto")
        )
        return searched, prompted

    def _block(self, question: str, least: MinRelevance) -> str:
        found = self.memory.retrieve(question, scope=SCOPE, record=False, min_relevance=least)
        return found.to_markdown(max_tokens=MAX_TOKENS)


def changed(times: int, weight: float, *, in_other_words: bool = False) -> tuple[int, int]:
    """How many of the changes are recalled, after the former answer was given so many times."""
    life = Life(weight)
    for each in CHANGED:
        life.tell(each.first, "Thanks, noted.")
    for time in range(times):
        for each in CHANGED:
            question = each.question[0].lower() + each.question[1:]
            asked = OTHER_WORDS[time].format(question) if in_other_words else each.question
            life.tell(asked, ANSWERS[time].format(each.answer))
    for each in CHANGED:
        life.tell(each.last, "Thanks for telling me.")
    with life.memory:
        return life.recalled([(each.new, each.question) for each in CHANGED])


def unanswered(times: int, weight: float) -> tuple[int, int]:
    """How many of the things are recalled, after their questions were asked so many times and not answered."""
    life = Life(weight)
    for sentence, _ in CHOSEN_ON:
        life.tell(sentence, "Thanks, I'll keep that in mind.")
    for _ in range(times):
        for _, question in CHOSEN_ON:
            life.tell(question, UNKNOWN)
    with life.memory:
        return life.recalled(CHOSEN_ON)


LIVES: Final = (
    ("what has changed", len(CHANGED), changed),
    ("what has changed, asked in other words each time", len(CHANGED), partial(changed, in_other_words=True)),
    ("what was asked and not answered", len(CHOSEN_ON), unanswered),
)


def main() -> None:
    """Print the table."""
    print(f"| recalled by a search, and by a prompt | weight | {' | '.join(f'asked {each} times' for each in TIMES)} |")
    print(f"|---|--:|{'--:|' * len(TIMES)}")
    for name, of, live in LIVES:
        for weight in WEIGHTS:
            counted = (live(times, weight) for times in TIMES)
            print(f"| {name} | {weight} | {' | '.join(f'{one}, {other} of {of}' for one, other in counted)} |")


if __name__ == "__main__":
    main()
