"""Synthetic conversations and lives from a seed, and the effect of forgetting and reviews on questions about lives.

The texts in ``samples/synthetic.json`` were written for this package: friends talk about trips, pets, work and meals,
and people tell what changes in ten months. They are easy: they show that search works, not how well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import count
from typing import Final, NamedTuple

from pydantic import BaseModel

from memory_retrievers.evaluation import samples
from memory_retrievers.evaluation.conversations import Conversation, FilledStores, Question, Session, Turn, Use
from memory_retrievers.evaluation.measure import Score, measure
from memory_retrievers.models.contents import Progress
from memory_retrievers.protocols import Embedder
from memory_retrievers.settings import RetrievalSettings

CONVERSATIONS_BEGIN: Final = datetime(2024, 1, 8, 18, 30, tzinfo=UTC)
SESSIONS: Final = 12
TOPICS: Final = 3  # number of topics of one sitting
CHANGED: Final = "changed"  # it was one thing and is another now: the newer memory is right
USED: Final = "used"  # two facts of the same month, one of which has been used since: that one is right

KEPT: Final = "kept"
"""Something has long been used, and another thing was tried once, later: the older memory is right."""

AGELESS: Final = "ageless"  # a fact mentioned once, long ago, and similar ones since: age must not matter

START: Final = datetime(2024, 1, 5, 8, 0, tzinfo=UTC)
DAYS: Final = 330  # length of a life in days

USES: Final = (4, 12, 30, 65, 120)
"""Days from the mention of a fact to its uses, if it keeps being used; the intervals grow as in practice."""


class _Topic(BaseModel):
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


class _Slot(BaseModel):
    """An attribute with one value at a time: wordings, question and possible values."""

    wordings: tuple[str, str]
    asked: str
    values: tuple[str, ...]


class _Ageless(BaseModel):
    """A fact mentioned once, its question, and a later statement that shares a word with it."""

    text: str
    asked: str
    since: str


class _Texts(BaseModel):
    """Texts of conversations and, from ``people`` on, of lives."""

    pairs: tuple[tuple[str, str], ...]
    topics: tuple[_Topic, ...]
    openings: tuple[str, ...]
    asides: tuple[str, ...]
    closings: tuple[str, ...]
    people: tuple[str, ...]
    slots: tuple[_Slot, ...]
    ageless: tuple[_Ageless, ...]
    answers: tuple[str, ...]


@cache
def _texts() -> _Texts:
    return _Texts.model_validate_json(resources.files(samples).joinpath("synthetic.json").read_bytes())


def synthetic(*, seed: int = 1, number: int = 2) -> list[Conversation]:
    """Make ``number`` conversations of a dozen sessions with their questions; the same for the same seed.

    ``single`` asks for a statement, ``context`` for an answer that does not name its subject, ``temporal`` for the time
    of something, ``multi`` for everything of one kind that a speaker has mentioned.
    """
    source = random.Random(seed)  # noqa: S311 - nothing is kept secret here
    pairs = _texts().pairs
    return [_conversation(source, name=f"{seed}-{place}", pair=pairs[place % len(pairs)]) for place in range(number)]


def _conversation(source: random.Random, *, name: str, pair: tuple[str, str]) -> Conversation:
    texts = _texts()
    waiting = [(topic, value) for topic in texts.topics for value in topic.values]
    source.shuffle(waiting)
    numbers = count(1)
    sessions: list[Session] = []
    questions: list[Question] = []
    all_of: dict[tuple[str, str], set[str]] = {}
    at = CONVERSATIONS_BEGIN
    for place in range(SESSIONS):
        turns = [_turn(numbers, source.choice(pair), source.choice(texts.openings))]
        for topic, value in waiting[place * TOPICS : (place + 1) * TOPICS]:
            speakers = source.sample(pair, 2)
            exchange = list(_exchange(source, numbers, topic, value, speakers))
            turns += exchange
            questions += _questions(source, topic, value, speakers[0], exchange)
            all_of.setdefault((speakers[0], topic.about_all), set()).add(exchange[0].id)
        turns.append(_turn(numbers, source.choice(pair), source.choice(texts.closings)))
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
    yield _turn(numbers, listener, source.choice(_texts().asides))


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


class _Statement(NamedTuple):
    """A statement made on a day, and the question that it answers."""

    day: int
    text: str
    uses: bool = False
    answers: tuple[str, str] | None = None


def forgetting_dataset(*, seed: int = 1) -> tuple[list[Conversation], list[Use]]:
    """Ten people's years, and the uses of memories in them; the same for the same seed.

    The categories of the questions are the constants above.
    """
    source = random.Random(seed)  # noqa: S311 - nothing is kept secret here
    lives = [_life(source, name) for name in _texts().people]
    uses = sorted((use for _, uses in lives for use in uses), key=lambda use: use.at)
    return [conversation for conversation, _ in lives], uses


def _life(source: random.Random, name: str) -> tuple[Conversation, list[Use]]:
    scope = f"life/{name.casefold()}"
    slots = source.sample(_texts().slots, len(_texts().slots))
    third = len(slots) // 3
    statements = [
        *(each for slot in slots[:third] for each in _two(source, slot, CHANGED)),
        *(each for slot in slots[third : 2 * third] for each in _two(source, slot, USED)),
        *(each for slot in slots[2 * third :] for each in _two(source, slot, KEPT)),
        *_ageless(source),
    ]
    sessions, questions, uses = [], [], []
    numbers = count(1)
    dated = [(START + timedelta(days=each.day, minutes=source.randint(0, 600)), each) for each in statements]
    for place, (at, each) in enumerate(sorted(dated), start=1):
        session = Session(id=f"session-{place}", at=at, turns=_turns(source, numbers, name, each.text))
        sessions.append(session)
        if each.uses:
            moments = (at + timedelta(days=days) for days in USES)
            uses += [Use(scope=scope, session=session.id, at=moment) for moment in moments]
        if each.answers is not None:
            category, text = each.answers
            gold = frozenset([session.turns[0].id])
            questions.append(Question(text=text.format(name=name), category=category, gold=gold))
    end = START + timedelta(days=DAYS)
    last = Session(id="session-last", at=end, turns=_turns(source, numbers, name, "It is snowing."))
    return (
        Conversation(scope=scope, sessions=(*sessions, last), questions=tuple(questions)),
        [use for use in uses if use.at < end],
    )


_SAID_ON: Final = {CHANGED: ((0, 60), (200, 300)), USED: ((60, 90), (60, 90)), KEPT: ((150, 180), (200, 230))}
"""First and last day on which each of two things is said."""


def _two(source: random.Random, slot: _Slot, category: str) -> Iterator[_Statement]:
    """Two things of which one is right: the second if it has changed, and else the first, which is used."""
    values = source.sample(slot.values, 2)
    # drawn for both, so that neither is nearer to the question by its words
    wordings = source.choices(slot.wordings, k=2)
    for place, days in enumerate(_SAID_ON[category]):
        is_right = place == (category == CHANGED)
        yield _Statement(
            source.randint(*days),
            wordings[place].format(value=values[place]),
            uses=is_right and category != CHANGED,
            answers=(category, slot.asked) if is_right else None,
        )


def _ageless(source: random.Random) -> Iterator[_Statement]:
    for each in _texts().ageless:
        yield _Statement(source.randint(0, 40), each.text, answers=(AGELESS, each.asked))
        yield _Statement(source.randint(280, 325), each.since)


def _turns(source: random.Random, numbers: Iterator[int], name: str, text: str) -> tuple[Turn, ...]:
    said: Sequence[tuple[str, str]] = ((name, text), ("assistant", source.choice(_texts().answers)))
    return tuple(Turn(id=f"T{next(numbers)}", speaker=speaker, text=each) for speaker, each in said)


WEIGHTS: Final = (0.0, None, 1.0)  # decay weights to compare; None is the default


def measure_forgetting(
    lives: Sequence[Conversation],
    uses: Sequence[Use],
    *,
    embedder: Embedder,
    watched: Callable[[str], AbstractContextManager[Progress]],
) -> dict[str, list[Score]]:
    """Score every decay weight, first without reviews and then with them.

    Args:
        lives: The lives.
        uses: The uses of memories in them.
        embedder: The embedder.
        watched: Returns a context for each row, by its name, whose function takes the progress.
    """
    measured = {}
    for reviews, used in (("without reviews", ()), ("with reviews", uses)):
        with FilledStores(lives, embedder=embedder, uses=used) as stores:
            for weight in WEIGHTS:
                settings = RetrievalSettings() if weight is None else RetrievalSettings(decay_weight=weight)
                decay = f"{settings.decay_weight} (default)" if weight is None else f"{weight:g}"
                name = f"decay {decay}, {reviews}"
                with watched(name) as progress:
                    measured[name] = measure(stores, settings, tokens=None, progress=progress)
    return measured
