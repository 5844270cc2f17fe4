"""The block of a result: at the level of detail that was asked for, within the budget if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from memory_retrievers.models import DetailLevel, EpisodicMemory, SemanticMemory
from memory_retrievers.rendering.budget import estimated_tokens, fitted, steps
from memory_retrievers.rendering.excerpts import best_excerpts, excerpt_block, matched_turns
from memory_retrievers.rendering.markdown import told_block
from memory_retrievers.rendering.telling import Telling, telling_of_level
from memory_retrievers.retrieved import RetrievedMemory


def retrieved_block(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    now: datetime,
    detail: DetailLevel = DetailLevel.AUTO,
    fact_display_length: int | None = None,
    max_tokens: int | None = None,
    token_counter: Callable[[str], int] = estimated_tokens,
) -> str:
    """What was retrieved, for a model to read; nothing where nothing was, or where nothing fits.

    Args:
        facts: In rank order.
        episodes: In rank order.
        now: The moment from which "2 days ago" is counted.
        detail: How deep each episode is told, at most where there is a budget.
        fact_display_length: Longer facts are cut to this many characters, the last being ``…``; None keeps them whole.
        max_tokens: The text has no more tokens than this; None is no budget.
        token_counter: How many tokens a text is.
    """
    turns = matched_turns(episodes)
    block: Callable[[Telling], str]
    # 1. the layout
    if detail is DetailLevel.EXCERPTS:
        block = partial(excerpt_block, facts, episodes, turns=turns, fact_display_length=fact_display_length)
    else:
        block = partial(told_block, facts, episodes, now=now, fact_display_length=fact_display_length)
    # 2. as much as fits
    if max_tokens is not None:
        every = steps(facts, episodes, detail=detail, turns=turns)
        return fitted(every, block=block, token_counter=token_counter, max_tokens=max_tokens)
    # 3. or all of it
    if detail is DetailLevel.EXCERPTS:
        return block(best_excerpts(facts, episodes, turns=turns))
    return block(telling_of_level(facts, episodes, detail=detail))
