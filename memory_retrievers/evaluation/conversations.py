"""Conversations of several sessions with questions and gold evidence: turned into episodes, and made from a seed.

The synthetic ones were written for this package: friends who talk about trips, pets, work and meals. They are easy:
they show that search works, not how well.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.ingestion.extractive import fallback_summary, fallback_title, term_counts
from memory_retrievers.models import EpisodicDraft, EpisodicMemory, Origin, SummaryBy
from memory_retrievers.models.messages import Message

PACE: Final = timedelta(seconds=1)
"""Between two turns of a session, where only the session has a time."""

LATER: Final = timedelta(days=1)
"""Time from the last session to the questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something that was said."""

    id: str  # unique in the conversation
    speaker: str  # who says it
    text: str  # what; not blank


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns of one sitting; it becomes one episode."""

    id: str  # unique in the conversation; the id of the episode
    at: datetime  # when it began, in UTC
    turns: tuple[Turn, ...]  # at least one, in order

    def messages(self) -> tuple[Message, ...]:
        """The turns as messages; the speaker is the role."""
        return tuple(
            Message(role=turn.speaker, content=turn.text, timestamp=self.at + PACE * place)
            for place, turn in enumerate(self.turns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the turns that answer it."""

    text: str  # the question
    category: str  # what sort of question it is; figures are also given by category
    gold: frozenset[str]  # the ids of the turns that are needed for the answer; at least one


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Sessions and the questions about them."""

    scope: str  # where its episodes are kept
    sessions: tuple[Session, ...]  # in the order of time
    questions: tuple[Question, ...]  # what is asked a day after the last session

    @property
    def asked_at(self) -> datetime:
        """The moment at which the questions are asked."""
        return self.sessions[-1].at + LATER

    @property
    def ended_at(self) -> datetime:
        """The moment after the last turn."""
        last = self.sessions[-1]
        return last.at + PACE * len(last.turns)

    @cached_property
    def session_of(self) -> Mapping[str, str]:
        """The id of the session of each turn."""
        return {turn.id: session.id for session in self.sessions for turn in session.turns}

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns by their ids, in order."""
        return {turn.id: turn for session in self.sessions for turn in session.turns}

    def drafts(self) -> list[EpisodicDraft]:
        """One episode for each session, with the title and the summary that are made without a language model.

        The words of the sessions so far are what rarity is measured against, as when messages arrive one by one.
        """
        words: Counter[str] = Counter()
        drafts = []
        for session in self.sessions:
            messages = session.messages()
            words.update(term_counts(message.content for message in messages))
            drafts.append(
                EpisodicMemory.new(
                    scope=self.scope,
                    id=session.id,
                    title=fallback_title(messages, words),
                    summary=fallback_summary(messages, words),
                    summary_by=SummaryBy.RULES,
                    messages=messages,
                    start_at=messages[0].timestamp,
                    end_at=messages[-1].timestamp,
                    created_at=messages[-1].timestamp,
                    origin=Origin.CONVERSATION,
                )
            )
        return drafts


MAX_BYTES: Final = 100_000_000
"""Largest size of an input file. LoCoMo has 3 MB, and parsed JSON takes about ten times the space of its text."""


def read_text(path: Path) -> str:
    """The text of a file; not a byte beyond :data:`MAX_BYTES` is read.

    Raises:
        ConfigurationError: The file cannot be read.
        ValidationError: It is longer, or no UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ValidationError(f"{path} has more than {MAX_BYTES:,} bytes: measure with a part of it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{path} is no UTF-8 text: {error}") from error


START: Final = datetime(2024, 1, 8, 18, 30, tzinfo=UTC)
SESSIONS: Final = 12
TOPICS: Final = 3
"""Number of topics of one sitting."""

_PAIRS: Final = (("Ilse", "Tomas"), ("Noor", "Bruno"), ("Keiko", "Farid"), ("Wanda", "Oskar"))


class _Topic(NamedTuple):
    """A topic of one speaker, what is said and asked about it, and what it can be about, each with its detail.

    The answer does not repeat what it is about; the answer to ``about_all`` is every such statement of the speaker.
    """

    statement: str
    asked: str
    answered: str
    about_statement: str
    about_answer: str
    about_all: str
    values: tuple[tuple[str, str], ...]


_TOPICS: Final = (
    _Topic(
        statement="I spent a long weekend in {value}, and it rained only once.",
        asked="Lucky you! What did you like best?",
        answered="The {detail}, without a doubt. I went back there twice.",
        about_statement="When did {name} travel to {value}?",
        about_answer="What did {name} enjoy most in {value}?",
        about_all="Which towns has {name} been to?",
        values=(
            ("Ghent", "castle by the river"),
            ("Porto", "tiled railway station"),
            ("Tallinn", "old apothecary"),
            ("Ljubljana", "market under the arcades"),
            ("Bergen", "wooden warehouses"),
            ("Siena", "striped cathedral"),
            ("Cork", "butter museum"),
            ("Graz", "tower with the clock"),
        ),
    ),
    _Topic(
        statement="There is news at home: we have adopted a {value} from the shelter.",
        asked="Oh, how sweet! Has it got a name yet?",
        answered="The children settled on {detail} after a whole evening of voting.",
        about_statement="When did {name} adopt a {value}?",
        about_answer="What is the {value} of {name} called?",
        about_all="Which animals has {name} taken in?",
        values=(
            ("greyhound", "Comet"),
            ("parrot", "Admiral"),
            ("tortoise", "Turbo"),
            ("rabbit", "Pancake"),
            ("hedgehog", "Velcro"),
            ("kitten", "Marble"),
            ("goat", "Duchess"),
            ("ferret", "Noodle"),
        ),
    ),
    _Topic(
        statement="At work they have put me in charge of {value}.",
        asked="That sounds like a lot. Who helps you with it?",
        answered="Mostly {detail}, who has done that sort of thing before.",
        about_statement="When did {name} become responsible for {value}?",
        about_answer="Who helps {name} with {value}?",
        about_all="What has {name} been put in charge of at the office?",
        values=(
            ("the new payroll system", "a colleague from Leeds"),
            ("the summer fair", "our caretaker"),
            ("the move to the harbour building", "an architect named Pell"),
            ("the archive of old maps", "two students"),
            ("the apprentices", "a retired master joiner"),
            ("the safety inspection", "the night porter"),
            ("the catalogue in Welsh", "a translator from Bangor"),
            ("the solar panels on the roof", "an electrician called Ruud"),
        ),
    ),
    _Topic(
        statement="I have taken up {value}, every Thursday evening.",
        asked="I would never have guessed! What made you start?",
        answered="Honestly, {detail}. One thing led to another.",
        about_statement="When did {name} begin with {value}?",
        about_answer="Why did {name} start {value}?",
        about_all="Which hobbies has {name} picked up?",
        values=(
            ("fencing", "a poster at the bakery"),
            ("bookbinding", "a torn atlas that I wanted to save"),
            ("rowing", "my doctor, who said that my back needed it"),
            ("beekeeping", "a swarm in the chimney"),
            ("tap dancing", "a bet with my sister"),
            ("astronomy", "the telescope that my uncle left me"),
            ("pottery", "a voucher from the raffle"),
            ("falconry", "a film about the steppe"),
        ),
    ),
    _Topic(
        statement="I cooked {value} for eight people on Saturday.",
        asked="All alone? What was the occasion?",
        answered="It was {detail}, and nobody left before midnight.",
        about_statement="When did {name} cook {value}?",
        about_answer="On which occasion did {name} make {value}?",
        about_all="Which dishes has {name} cooked for guests?",
        values=(
            ("a mushroom risotto", "my parents' ruby wedding"),
            ("lamb with apricots", "the end of the exams"),
            ("pumpkin dumplings", "the housewarming"),
            ("a fish stew", "the christening of my niece"),
            ("paella over the fire", "the day the choir got its prize"),
            ("aubergine curry", "the farewell of our neighbours"),
            ("leek tarts", "the quiz night"),
            ("black bean soup", "the first evening of the carnival"),
        ),
    ),
)

_OPENINGS: Final = (
    "Hello again! How have you been?",
    "Good to hear your voice. What is new?",
    "Hi! I have thought of you a lot lately.",
    "There you are! Tell me everything.",
)
_ASIDES: Final = (
    "That makes me want to do something like it myself.",
    "You always have the best stories.",
    "I can picture it very well.",
    "We should talk about that when we meet.",
    "My week was quiet next to yours.",
)
_CLOSINGS: Final = (
    "I have to run. Talk to you soon!",
    "It was lovely to chat. Take care!",
    "Let us not wait so long until the next time.",
)


def synthetic(*, seed: int = 1, number: int = 2) -> list[Conversation]:
    """Make ``number`` conversations of a dozen sessions with their questions; the same for the same seed.

    ``single`` asks for what was said, ``context`` for an answer that does not name its subject, ``temporal`` for the
    time of something, ``multi`` for everything of one sort that a speaker has mentioned.
    """
    source = random.Random(seed)  # noqa: S311 - nothing is kept secret here
    return [_conversation(source, name=f"{seed}-{place}", pair=_PAIRS[place % len(_PAIRS)]) for place in range(number)]


def _conversation(source: random.Random, *, name: str, pair: tuple[str, str]) -> Conversation:
    waiting = [(topic, value) for topic in _TOPICS for value in topic.values]
    source.shuffle(waiting)
    numbers = count(1)
    sessions: list[Session] = []
    questions: list[Question] = []
    all_of: dict[tuple[str, str], set[str]] = {}
    at = START
    for place in range(SESSIONS):
        turns = [_turn(numbers, source.choice(pair), source.choice(_OPENINGS))]
        for topic, value in waiting[place * TOPICS : (place + 1) * TOPICS]:
            speakers = source.sample(pair, 2)
            exchange = list(_exchange(source, numbers, topic, value, speakers))
            turns += exchange
            questions += _questions(source, topic, value, speakers[0], exchange)
            all_of.setdefault((speakers[0], topic.about_all), set()).add(exchange[0].id)
        turns.append(_turn(numbers, source.choice(pair), source.choice(_CLOSINGS)))
        sessions.append(Session(id=f"session-{place + 1}", at=at, turns=tuple(turns)))
        at += timedelta(days=source.randint(8, 26), hours=source.randint(-5, 3))
    questions += [
        Question(text=text.format(name=speaker), category="multi", gold=frozenset(gold))
        for (speaker, text), gold in sorted(all_of.items())
        if len(gold) > 1
    ]
    return Conversation(scope=f"synthetic/{name}", sessions=tuple(sessions), questions=tuple(questions))


def _exchange(
    source: random.Random, numbers: Iterator[int], topic: _Topic, value: tuple[str, str], speakers: Sequence[str]
) -> Iterator[Turn]:
    """Statement, question, answer, and a word of the listener."""
    speaker, listener = speakers
    yield _turn(numbers, speaker, topic.statement.format(value=value[0]))
    yield _turn(numbers, listener, topic.asked)
    yield _turn(numbers, speaker, topic.answered.format(detail=value[1]))
    yield _turn(numbers, listener, source.choice(_ASIDES))


def _questions(
    source: random.Random, topic: _Topic, value: tuple[str, str], speaker: str, exchange: Sequence[Turn]
) -> Iterator[Question]:
    """One question about the statement or its time, one about the answer."""
    about_time = source.random() < 0.5  # noqa: PLR2004 - one in two
    text = topic.about_statement if about_time else f"What did {{name}} say about {value[0]}?"
    yield Question(
        text=text.format(name=speaker, value=value[0]),
        category="temporal" if about_time else "single",
        gold=frozenset([exchange[0].id]),
    )
    yield Question(
        text=topic.about_answer.format(name=speaker, value=value[0]),
        category="context",
        gold=frozenset([exchange[2].id]),
    )


def _turn(numbers: Iterator[int], speaker: str, text: str) -> Turn:
    return Turn(id=f"T{next(numbers)}", speaker=speaker, text=text)
