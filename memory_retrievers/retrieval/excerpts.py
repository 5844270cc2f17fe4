"""Excerpts: the turns that match a query, dated, under the title of their episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory_retrievers.models import EpisodicMemory, SemanticMemory, SummaryBy
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.markdown import RenderPlan, days, fact_lines, speaker, two_sections
from memory_retrievers.retrieval.question import asks_for_list
from memory_retrievers.text import one_line

REPETITION: Final = 0.985
"""Discount of each further turn of an episode: evidence for one query is often scattered over episodes."""

LIST_REPETITION: Final = 0.95
"""The same where a list is asked for, of which each item may stand in another episode."""

MOST_TURNS: Final = 30
"""Number of turns rendered without a budget: about 1,000 tokens, and most of what more would add."""

LEAST_SHARE: Final = 0.5
"""Least score of a rendered turn relative to the best one, except for the best turn of an episode."""

MOST_TITLE: Final = 24
"""Largest length of a title; longer ones are left out, and above turns those by rules: turns say more for tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTurn:
    """A message that matches the query.

    Attributes:
        episode: The place of its episode in the result, from 0.
        message: Its own place in the episode, from 0.
        value: How well its passage answers, less a discount for every better turn of its episode.
    """

    episode: int
    message: int
    value: float


def matched_turns(episodes: Sequence[RetrievedMemory[EpisodicMemory]], *, query: str = "") -> list[MatchedTurn]:
    """The turns of all episodes in one list, best first; at equal values in the order of the result.

    A turn in several passages counts by the best of them. Messages that have been erased since are passed over. If the
    query asks for a list they are spread over more episodes.
    """
    discount = LIST_REPETITION if asks_for_list(query) else REPETITION
    turns = [turn for place, episode in enumerate(episodes) for turn in _turns_of(episode, place, discount=discount)]
    return sorted(turns, key=lambda turn: -turn.value)


def best_excerpts(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    turns: Sequence[MatchedTurn],
) -> RenderPlan:
    """Choose what is rendered without a budget: every fact, the best turn of every episode, and the best turns of all.

    An episode without a matched turn is rendered by its summary.

    Args:
        facts: In rank order.
        episodes: In rank order.
        turns: Those of the episodes, as :func:`matched_turns` gives them.
    """
    chosen: dict[int, set[int]] = {place: set() for place in range(len(episodes))}
    for rank, turn in enumerate(turns):
        among_the_best = rank < MOST_TURNS and turn.value >= LEAST_SHARE * turns[0].value
        if among_the_best or not chosen[turn.episode]:
            chosen[turn.episode].add(turn.message)
    return RenderPlan(
        facts=frozenset(range(len(facts))), episodes={place: frozenset(messages) for place, messages in chosen.items()}
    )


def excerpt_block(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    plan: RenderPlan,
    *,
    turns: Sequence[MatchedTurn],
    fact_display_length: int | None = None,
) -> str:
    """Render a plan as excerpts: facts first, then episodes in the order of their best turn, each in story order.

    Args:
        facts: In rank order.
        episodes: In rank order.
        plan: Which of them to render; an episode without messages is rendered by its summary.
        turns: Those of the episodes, as :func:`matched_turns` gives them.
        fact_display_length: Longer facts are cut to this many characters, the last being ``…``; None renders facts as
            specified: whole, and with the number of their sources even if that is 0.
    """
    best = _best_values(turns, plan)
    order = sorted(plan.episodes, key=lambda place: (-best.get(place, episodes[place].score), place))
    stories = [_excerpts(episodes[place].memory, plan.episodes[place]) for place in order]
    return two_sections(fact_lines(facts, plan, display_length=fact_display_length), stories)


def excerpt_line(message: Message) -> str:
    """A message as a bullet on one line, in its own words: quoting it as JSON would cost tokens and change them."""
    return f"- {speaker(message.role)}: {one_line(message.content)}"


def _turns_of(episode: RetrievedMemory[EpisodicMemory], place: int, *, discount: float) -> Iterable[MatchedTurn]:
    scores: dict[int, float] = {}
    for match in sorted(episode.matches, key=lambda match: -match.score):
        for message in match.messages:
            if 0 <= message < len(episode.memory.messages):
                scores.setdefault(message, match.score)
    for better, (message, score) in enumerate(scores.items()):
        yield MatchedTurn(episode=place, message=message, value=score * discount**better)


def _best_values(turns: Sequence[MatchedTurn], plan: RenderPlan) -> Mapping[int, float]:
    best: dict[int, float] = {}
    for turn in turns:
        if turn.message in plan.episodes.get(turn.episode, ()):
            best.setdefault(turn.episode, turn.value)
    return best


def _excerpts(memory: EpisodicMemory, places: frozenset[int]) -> str:
    shown = [message for place, message in enumerate(memory.messages) if place in places]
    times = [message.timestamp for message in shown if message.timestamp] or [memory.start_at, memory.end_at]
    title = "" if shown and memory.summary_by is SummaryBy.RULES else one_line(memory.title)
    heading = f"### {days(times)}" + (f": {title}" if 0 < len(title) <= MOST_TITLE else "")
    lines = map(excerpt_line, shown) if shown else (f"Summary: {one_line(memory.summary)}",)
    return "\n".join((heading, *lines))
