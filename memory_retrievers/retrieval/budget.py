"""Selection within a token budget: as much expected evidence as fits.

A step renders a fact, the summary of an episode, one of its messages or all of them. Its value is the evidence expected
of one of its lines; the best steps are taken first:

- a fact has its score;
- a message has the score of the passage that matched, a little less for each better one of its episode; a message in no
  passage comes last;
- a summary has half the value of the best message, or half the episode's score if none matched;
- all messages of an episode without a match share the other half.

The length of a line does not count: long turns hold more of what is asked for, so dividing by cost finds less.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, SemanticMemory
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.excerpts import MatchedTurn
from memory_retrievers.retrieval.markdown import RenderPlan, detailed_messages, shows_turns

SUMMARY_SHARE: Final = 0.5  # share of the evidence in an episode that its summary is expected to contain
FURTHER_STEPS: Final = 64  # after the first step that does not fit, so many more are looked at for one that does


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Text that can be added to the block."""

    value: float  # the evidence that a line of it is expected to bring
    text: str  # what it is about to add, without any framing
    fact: int | None = None  # the place of the fact that it renders
    episode: int | None = None  # the place of the episode that it is about
    # the messages of the episode; with none of them the step is the episode's summary
    messages: frozenset[int] = frozenset()


def parse_budget(max_tokens: object) -> int | None:
    """The budget that a caller has set; None where there is none."""
    if max_tokens is None:
        return None
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 0:
        raise ValidationError(f"max_tokens must be a whole number from 0 on, or None for no budget: not {max_tokens!r}")
    return max_tokens


def steps(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    detail: DetailLevel,
    turns: Sequence[MatchedTurn],
) -> list[Step]:
    """List everything a level of detail may render, most valuable first; equal values in the order of the result.

    Args:
        facts: In rank order.
        episodes: In rank order.
        detail: How deep an episode may be rendered.
        turns: Matched turns of the episodes.
    """
    of_episodes: list[list[MatchedTurn]] = [[] for _ in episodes]
    for turn in turns:
        of_episodes[turn.episode].append(turn)
    values = accumulate((fact.score for fact in facts), min)  # a fact never goes before one of a better rank
    told = zip(facts, values, strict=True)
    every = [Step(value=value, text=fact.memory.fact, fact=place) for place, (fact, value) in enumerate(told)]
    for place, (episode, matched) in enumerate(zip(episodes, of_episodes, strict=True)):
        every += _level_steps(episode, place, matched, detail)
    return sorted(every, key=lambda step: -step.value)


def fitted(
    all_steps: Sequence[Step],
    *,
    block: Callable[[RenderPlan], str],
    token_counter: Callable[[str], int],
    max_tokens: int,
) -> str:
    """Render the best steps that fit: at most ``max_tokens`` tokens, and nothing if no step fits.

    Args:
        all_steps: Most valuable first.
        block: Renders a plan.
        token_counter: Counts the tokens of a text; not called for an empty one.
        max_tokens: The budget.
    """
    # 1. the longest beginning of the list that fits
    count = _longest(len(all_steps), lambda count: token_counter(block(_plan(all_steps[:count]))) <= max_tokens)
    taken = [*all_steps[:count]]
    plan = _plan(taken)
    text = block(plan)
    room = max_tokens - (token_counter(text) if text else 0)
    # 2. of what comes next, whatever still fits
    for step in all_steps[count : count + FURTHER_STEPS]:
        if _is_included(step, plan) or token_counter(step.text) > room:
            continue
        longer = _plan([*taken, step])
        longer_text = block(longer)
        tokens = token_counter(longer_text)
        if tokens <= max_tokens:
            taken.append(step)
            plan, text, room = longer, longer_text, max_tokens - tokens
    return text


def _level_steps(
    episode: RetrievedMemory[EpisodicMemory], place: int, matched: Sequence[MatchedTurn], detail: DetailLevel
) -> list[Step]:
    """The summary, which comes before any message, and the messages that the level renders."""
    memory, turns = episode.memory, [*_turn_steps(episode, matched)]
    if memory.is_open:  # which has no summary
        return turns
    if detail is DetailLevel.EXCERPTS or shows_turns(episode, detail=detail):
        # the summary stands in place of the turns where there are none, or where the best does not fit
        value = matched[0].value if matched else SUMMARY_SHARE * episode.score
        return [*turns[:1], Step(value=value, text=memory.summary, episode=place), *turns[1:]]
    value = SUMMARY_SHARE * (matched[0].value if matched else episode.score)
    summary = Step(value=value, text=memory.summary, episode=place)
    messages = detailed_messages(episode, detail=detail)
    if not messages:
        return [summary]
    if not matched:
        share = (1 - SUMMARY_SHARE) * episode.score / len(messages)
        text = "\n".join(message.content for message in memory.messages)
        return [summary, Step(value=share, text=text, episode=place, messages=messages)]
    others = sorted(messages - {turn.message for turn in matched})
    rest = (MatchedTurn(episode=place, message=message, value=0.0) for message in others)
    return [summary, *_turn_steps(episode, [*matched, *rest])]


def _turn_steps(episode: RetrievedMemory[EpisodicMemory], turns: Iterable[MatchedTurn]) -> Iterator[Step]:
    for turn in turns:
        text = episode.memory.messages[turn.message].content
        yield Step(value=turn.value, text=text, episode=turn.episode, messages=frozenset({turn.message}))


def _longest(length: int, fits: Callable[[int], bool]) -> int:
    """The longest beginning that fits, by doubling and halving, so that no text much longer than the budget is made."""
    bound = 1
    while bound <= length and fits(bound):
        bound *= 2
    return bound // 2 + bisect_left(
        range(bound // 2 + 1, min(bound, length + 1)), True, key=lambda count: not fits(count)
    )


def _plan(taken: Sequence[Step]) -> RenderPlan:
    facts = frozenset(step.fact for step in taken if step.fact is not None)
    episodes: dict[int, set[int]] = {}
    for step in taken:
        if step.episode is not None:
            episodes.setdefault(step.episode, set()).update(step.messages)
    return RenderPlan(facts=facts, episodes={place: frozenset(messages) for place, messages in episodes.items()})


def _is_included(step: Step, plan: RenderPlan) -> bool:
    if step.episode is None:
        return step.fact in plan.facts
    return step.episode in plan.episodes and step.messages <= plan.episodes[step.episode]
