"""Synthetic lives, and the effect of forgetting and review on questions about them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_retrievers.evaluation.conversations import Conversation, Question, Session, Turn
from memory_retrievers.evaluation.measure import Score, measure
from memory_retrievers.evaluation.stores import FilledStores, Use
from memory_retrievers.models.contents import Progress
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.protocols import Embedder


CHANGED: Final = "changed"
"""It was one thing and is another now: the newer memory is right."""

USED: Final = "used"
"""Two facts of the same month, one of which has been used since: that one is right."""

KEPT: Final = "kept"
"""Something has been used for long, and another thing was tried once, later: the older memory is right."""

AGELESS: Final = "ageless"
"""A fact mentioned once, long ago, and similar ones since: age must not matter."""

START: Final = datetime(2024, 1, 5, 8, 0, tzinfo=UTC)
DAYS: Final = 330
"""Length of a life in days."""

USES: Final = (4, 12, 30, 65, 120)
"""Days from the mention of a fact to its uses, for one that keeps being used; the intervals grow as in practice."""

_PEOPLE: Final = ("Adaeze", "Benno", "Chiara", "Dragan", "Elin", "Fatou", "Goran", "Hedda", "Imre", "Jovana")


class _Slot(NamedTuple):
    """An attribute with one value at a time: wordings, question and possible values."""

    wordings: tuple[str, str]
    asked: str
    values: tuple[str, ...]


_SLOTS: Final = (
    _Slot(
        ("I keep the spare key {value}.", "If I am out, the spare key is {value}."),
        "Where is the spare key of {name}?",
        ("under the blue pot", "with the neighbour", "in the shed", "behind the meter"),
    ),
    _Slot(
        ("I take the {value} to work.", "My way to work is the {value} these days."),
        "How does {name} get to work?",
        ("tram", "early ferry", "night bus", "bicycle"),
    ),
    _Slot(
        ("For headaches I take {value}.", "What helps my headaches is {value}."),
        "What does {name} take against headaches?",
        ("peppermint oil", "willow tea", "strong coffee", "a cold cloth"),
    ),
    _Slot(
        ("I go swimming on {value}.", "My swimming day is {value}."),
        "On which day does {name} go swimming?",
        ("Mondays", "Wednesdays", "Fridays", "Sundays"),
    ),
    _Slot(
        ("I do my accounts in {value}.", "The accounts are done in {value} now."),
        "What does {name} do the accounts in?",
        ("a paper ledger", "a spreadsheet", "the bank's application", "a small database"),
    ),
    _Slot(
        ("My bread recipe is the one with {value}.", "I bake my bread with {value}."),
        "Which bread recipe does {name} bake?",
        ("rye sourdough", "oats and honey", "spelt and walnuts", "potato and dill"),
    ),
    _Slot(
        ("My dentist is {value}.", "With my teeth I go to {value}."),
        "Who is the dentist of {name}?",
        ("Doctor Amsel", "Doctor Brandt", "Doctor Celik", "Doctor Dorn"),
    ),
    _Slot(
        ("I write my letters with {value}.", "For letters I use {value}."),
        "What does {name} write letters with?",
        ("a fountain pen", "an old typewriter", "a pencil", "green ink"),
    ),
    _Slot(
        ("I buy vegetables {value}.", "My vegetables come from there: {value}."),
        "Where does {name} buy vegetables?",
        ("at the harbour market", "from a farm box", "at the corner shop", "from the allotment"),
    ),
    _Slot(
        ("My alarm rings at {value}.", "I set my alarm for {value}."),
        "When does the alarm of {name} ring?",
        ("half past five", "a quarter to seven", "eight sharp", "ten past six"),
    ),
    _Slot(
        ("I learn {value} on the sofa each evening.", "In the evening I study {value}."),
        "Which language is {name} learning?",
        ("Basque", "Finnish", "Turkish", "Maltese"),
    ),
    _Slot(
        ("I rent the flat in {value}.", "Home is the flat in {value}."),
        "Where is the flat of {name}?",
        ("Mill Lane", "Station Road", "Castle Street", "Orchard Row"),
    ),
)

_ONCE: Final = (
    ("My grandfather gave me his compass.", "What did {name} get from the grandfather?"),
    ("At school I once won the prize for geometry.", "Which school prize did {name} win?"),
    ("I broke my left wrist when I fell off a ladder.", "Which bone has {name} broken?"),
    ("My first car was a yellow van.", "What was the first car of {name}?"),
    ("I met my wife at a chess tournament.", "Where did {name} meet the wife?"),
    ("My brother was born in Valparaíso.", "Where was the brother of {name} born?"),
)
_SINCE: Final = (
    "My grandfather has come to stay for the weekend.",
    "The school next door has a new roof.",
    "I carried a ladder up four floors today.",
    "The car needs new tyres again.",
    "My wife is away at a conference.",
    "My brother has sent me a postcard.",
)
_ANSWERS: Final = ("Good to know.", "I will remember that.", "Noted.", "Thank you for telling me.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingDataset:
    """Conversations with their questions, and the uses of memories between them."""

    conversations: tuple[Conversation, ...]
    uses: tuple[Use, ...]


class _Statement(NamedTuple):
    """A statement made on a day, and the question that it answers."""

    day: int
    text: str
    uses: bool = False
    answers: tuple[str, str] | None = None


def forgetting_dataset(*, seed: int = 1) -> ForgettingDataset:
    """Ten people's years; the same for the same seed. The categories of the questions are the constants above."""
    source = random.Random(seed)  # noqa: S311 - nothing is kept secret here
    lives = [_life(source, name) for name in _PEOPLE]
    return ForgettingDataset(
        conversations=tuple(conversation for conversation, _ in lives),
        uses=tuple(sorted((use for _, uses in lives for use in uses), key=lambda use: use.at)),
    )


def _life(source: random.Random, name: str) -> tuple[Conversation, list[Use]]:
    scope = f"life/{name.casefold()}"
    slots = source.sample(_SLOTS, len(_SLOTS))
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
    for (text, asked), since in zip(_ONCE, _SINCE, strict=True):
        yield _Statement(source.randint(0, 40), text, answers=(AGELESS, asked))
        yield _Statement(source.randint(280, 325), since)


def _turns(source: random.Random, numbers: Iterator[int], name: str, text: str) -> tuple[Turn, ...]:
    said: Sequence[tuple[str, str]] = ((name, text), ("assistant", source.choice(_ANSWERS)))
    return tuple(Turn(id=f"T{next(numbers)}", speaker=speaker, text=each) for speaker, each in said)


WEIGHTS: Final = (0.0, None, 1.0)
"""Decay weights to compare; None is the default."""


def measure_forgetting(
    dataset: ForgettingDataset, *, embedder: Embedder, watched: Callable[[str], AbstractContextManager[Progress]]
) -> dict[str, list[Score]]:
    """Score every decay weight, first without reviews and then with them.

    Args:
        dataset: The lives.
        embedder: What embeds.
        watched: Context of a row, by its name, whose function takes the progress.

    Raises:
        EmbeddingError: The embedder failed.
    """
    measured = {}
    for reviews, uses in (("without reviews", ()), ("with reviews", dataset.uses)):
        with FilledStores(dataset.conversations, embedder=embedder, uses=uses) as stores:
            for weight in WEIGHTS:
                settings = RetrievalSettings() if weight is None else RetrievalSettings(decay_weight=weight)
                decay = f"{settings.decay_weight} (default)" if weight is None else f"{weight:g}"
                name = f"decay {decay}, {reviews}"
                with watched(name) as progress:
                    measured[name] = measure(stores, settings, tokens=None, progress=progress)
    return measured
