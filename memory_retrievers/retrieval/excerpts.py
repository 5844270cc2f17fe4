"""Excerpts: the turns that match a query, dated, under the title of their episode."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import groupby
from typing import Final

from memory_retrievers.models import EpisodicMemory, SemanticMemory, SummaryBy
from memory_retrievers.models.memories import MemoryKey
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.markdown import RenderPlan, days, fact_lines, speaker, two_sections
from memory_retrievers.retrieval.question import asks_for_list
from memory_retrievers.text.analysis import analyze, one_line
from memory_retrievers.text.duplicates import COMPARED_CHARACTERS, SAME_TALK, said_again

REPETITION: Final = 0.985
"""Discount of each further turn of an episode: evidence for one query is often scattered over episodes."""

LIST_REPETITION: Final = 0.95  # the same where a list is asked for, of which each item may stand in another episode
MOST_TURNS: Final = 30  # number of turns rendered without a budget: about 1,000 tokens, and most of what more would add

LEAST_SHARE: Final = 0.5  # least score of a rendered turn relative to the best, but for the best of its episode
MOST_TITLE: Final = 24  # longest title shown, and above turns none by rules: turns say more for their tokens
LONGEST_SHARE: Final = 2 / 3  # share of a budget that a message may take whole; a longer log would not be told at all
READ_LENGTH: Final = 20_000  # characters of a message, from both ends, in which its parts are looked for
GAP: Final = " … "  # what stands for the parts of a message that are left out
_PART: Final = re.compile(r".{1,240}?(?:(?<=[.!?…])\s+|(?<=[。！？])|\n+|\Z)|.{240}", re.DOTALL)
"""A sentence or a line, or so many characters of a longer one; all of them together are the text."""

_NEXT_PART: Final = 0.5  # what a part counts for being next to one that has the words of the query: answers stand there


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTurn:
    """A message that matches the query."""

    episode: int  # the place of its episode in the result, from 0
    message: int  # its own place in the episode, from 0
    value: float  # how well its passage answers, less a discount for every better turn of its episode


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

    Args:
        facts: In rank order.
        episodes: In rank order.
        turns: Their matched turns.
    """
    chosen: dict[int, set[int]] = {place: set() for place in range(len(episodes))}
    for rank, turn in enumerate(turns):
        among_the_best = rank < MOST_TURNS and turn.value >= LEAST_SHARE * turns[0].value
        if among_the_best or not chosen[turn.episode]:
            chosen[turn.episode].add(turn.message)
    return RenderPlan(
        facts=frozenset(range(len(facts))), episodes={place: frozenset(messages) for place, messages in chosen.items()}
    )


def with_long_messages_cut(
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    query: str,
    max_tokens: int,
    token_counter: Callable[[str], int],
) -> Sequence[RetrievedMemory[EpisodicMemory]]:
    """Reduce messages that would fill a budget alone to the parts that answer.

    Args:
        episodes: In rank order.
        query: What was asked.
        max_tokens: The budget of the block.
        token_counter: Counts the tokens of a text.
    """
    most = int(max_tokens * LONGEST_SHARE)

    def cut(message: Message) -> Message:
        length = len(message.content)
        if length <= most or (tokens := token_counter(message.content)) <= most:  # a token has a character or more
            return message
        return message.model_copy(update={"content": _best_parts(message.content, query, length * most // tokens)})

    def shortened(hit: RetrievedMemory[EpisodicMemory]) -> RetrievedMemory[EpisodicMemory]:
        messages = tuple(map(cut, hit.memory.messages))
        if all(map(operator.is_, messages, hit.memory.messages)):  # nearly always
            return hit
        return replace(hit, memory=hit.memory.model_copy(update={"messages": messages}))

    return [*map(shortened, episodes)]


def _best_parts(text: str, query: str, most: int) -> str:
    """The parts of a text with the words of a query and those beside them, in order; without any, both ends.

    So many characters are shown at most, but one part at least.

    >>> _best_parts("Hello! We are all fine. The code is 4711. Keep it. Take care!", "What is the code?", 45)
    ' … We are all fine. The code is 4711. Keep it. … '
    """
    if len(text) > READ_LENGTH:
        text = f"{text[: READ_LENGTH // 2]}\n{text[-READ_LENGTH // 2 :]}"
    parts = _PART.findall(text)
    terms = [frozenset(analyze(part)) for part in parts]
    asked = {term: sum(term in each for each in terms) for term in analyze(query)}
    values = [sum(1 / count for term, count in asked.items() if term in each) for each in terms]
    near = [0.0, *values, 0.0]
    values = [value + _NEXT_PART * max(near[place], near[place + 2]) for place, value in enumerate(values)]
    chosen: set[int] = set()
    last = len(parts) - 1
    for place in sorted(range(len(parts)), key=lambda place: (-values[place], min(place, last - place))):
        most -= len(parts[place])
        if most < 0 and chosen:
            break
        chosen.add(place)
    runs = groupby(range(len(parts)), chosen.__contains__)
    return "".join("".join(parts[place] for place in run).strip() if is_chosen else GAP for is_chosen, run in runs)


def excerpt_block(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    plan: RenderPlan,
    *,
    turns: Sequence[MatchedTurn],
    zone: tzinfo | None = None,
    fact_display_length: int | None = None,
) -> str:
    """Render a plan as excerpts: facts first, then episodes in the order of their best turn, each in story order.

    Args:
        facts: In rank order.
        episodes: In rank order.
        plan: Which of them to render; an episode without messages is rendered by its summary.
        turns: Matched turns of the episodes.
        zone: Time zone of the days; None is UTC.
        fact_display_length: Largest length of a fact, cut by ``…``; None renders facts as specified: whole, and with
            the number of their sources even if it is 0.
    """
    shown = [turn for turn in turns if turn.message in plan.episodes.get(turn.episode, ())]
    best = {turn.episode: turn.value for turn in reversed(shown)}
    order = sorted(plan.episodes, key=lambda place: (-best.get(place, episodes[place].score), place))
    stories = [_excerpts(episodes[place].memory, plan.episodes[place], zone) for place in order]
    return two_sections(fact_lines(facts, plan, display_length=fact_display_length, zone=zone), stories)


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


def _excerpts(memory: EpisodicMemory, places: frozenset[int], zone: tzinfo | None) -> str:
    shown = [message for place, message in enumerate(memory.messages) if place in places]
    times = [message.timestamp for message in shown if message.timestamp] or [memory.start_at, memory.end_at]
    title = "" if shown and memory.summary_by is SummaryBy.RULES else one_line(memory.title)
    heading = f"### {days(times, zone)}" + (f": {title}" if 0 < len(title) <= MOST_TITLE else "")
    lines = map(excerpt_line, shown) if shown else (f"Summary: {one_line(memory.summary)}",)
    return "\n".join((heading, *lines))


def repeated_talks(hits: Sequence[RetrievedMemory[EpisodicMemory]], query: str) -> set[MemoryKey]:
    """Name the episodes of which a newer one tells the same, by what matches best in them and what stands beside it.

    A question that is asked every week would fill a prompt with itself, and what has changed since is not told. What
    different people say, each by name, is never the same.
    """
    asked = frozenset(analyze(query))
    talks: dict[frozenset[str], dict[MemoryKey, str]] = {}
    for hit in sorted((hit for hit in hits if hit.matches), key=lambda hit: hit.memory.end_at):
        best, messages = hit.matches[0].messages[0], hit.memory.messages
        around = messages[max(best - 1, 0) : best + 2]
        talk = "\n".join(message.content for message in around)
        has_words = len(asked.intersection(analyze(talk[:COMPARED_CHARACTERS]))) >= SAME_TALK * len(asked)
        if has_words or around == messages:  # else the rest of the episode may be what answers
            people = frozenset(message.role for message in around if is_of_user(message.role)) - {"user"}
            talks.setdefault(people, {})[hit.memory.key] = talk
    return {[*each][place] for each in talks.values() for place in said_again([*each.values()])}
