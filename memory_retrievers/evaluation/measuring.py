"""Asks every question of every conversation under one setting."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from memory_retrievers.contents import Progress
from memory_retrievers.evaluation.conversations import Conversation, Question
from memory_retrievers.evaluation.filling import FilledStores
from memory_retrievers.evaluation.scoring import BUDGETS, Answer, Score, score
from memory_retrievers.evaluation.tokens import TokenCounter
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import DetailLevel
from memory_retrievers.retrieval.result import RetrievalResult
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.text import one_line, quote

ALL_EPISODES: Final = 100


def measure(
    stores: FilledStores, settings: RetrievalSettings, *, tokens: TokenCounter | None, progress: Progress
) -> list[Score]:
    """What every question scores under one setting, asked a day after the last session. Nothing is recorded.

    Args:
        stores: What is asked about. That their embedder remembers vectors keeps embedding out of the times.
        settings: The setting.
        tokens: Counts what is read; None leaves out what a reader would find.
        progress: Told how many questions have been asked, and of how many.

    Raises:
        EmbeddingError: The embedder failed.
    """
    number = sum(len(conversation.questions) for conversation in stores.conversations)
    scores: list[Score] = []
    with stores.opened(settings) as (memory, clock):
        for conversation in stores.conversations:
            clock.moment = conversation.asked_at
            for question in conversation.questions:
                stores.embedder.embed_query(question.text)  # from here on its vector is known
                answer = _ask(memory, conversation, question, tokens=tokens)
                scores.append(score(conversation, question, answer))
                progress(len(scores), number)
    return scores


def _ask(memory: AgentMemory, conversation: Conversation, question: Question, *, tokens: TokenCounter | None) -> Answer:
    # 1. The question as an agent asks it, for the time it takes.
    started = time.perf_counter()
    memory.retrieve(question.text, scope=conversation.scope, record=False)
    seconds = time.perf_counter() - started
    # 2. The whole ranking.
    result = memory.retrieve(
        question.text, scope=conversation.scope, episodic_limit=ALL_EPISODES, semantic_limit=0, record=False
    )
    return Answer(
        sessions=[hit.memory.id for hit in result.episodic],
        turns=ranked_turns(conversation, result),
        evidence={} if tokens is None else evidence(conversation, question, result, tokens=tokens),
        seconds=seconds,
    )


def ranked_turns(conversation: Conversation, result: RetrievalResult) -> list[str] | None:
    """All turns that matched, over all episodes, best first; None if the setting searches summaries only."""
    ids = {session.id: [turn.id for turn in session.turns] for session in conversation.sessions}
    scored = [
        (match.score, ids[hit.memory.id][message])
        for hit in result.episodic
        for match in hit.matches
        for message in match.messages
    ]
    if not scored:
        return None
    return list(dict.fromkeys(turn for _, turn in sorted(scored, key=lambda each: -each[0])))


def evidence(
    conversation: Conversation, question: Question, result: RetrievalResult, *, tokens: TokenCounter
) -> dict[int, frozenset[str]]:
    """By budget, the right turns whose whole text a reader of the rendered result finds within it.

    Results with matches are told as excerpts that keep to the budget; others with all their messages, and cut.
    """
    if any(hit.matches for hit in result.episodic):
        return {
            budget: told_within(
                conversation,
                question.gold,
                result.to_markdown(DetailLevel.EXCERPTS, max_tokens=budget, token_counter=tokens.count),
                budgets=(budget,),
                tokens=tokens,
            )[budget]
            for budget in BUDGETS
        }
    return told_within(
        conversation, question.gold, result.to_markdown(DetailLevel.HIGH), budgets=BUDGETS, tokens=tokens
    )


def told_within(
    conversation: Conversation, gold: Iterable[str], told: str, *, budgets: Sequence[int], tokens: TokenCounter
) -> dict[int, frozenset[str]]:
    """By budget, which of the turns stand whole within the first so many tokens of a text."""
    ends = {turn: _end(told, conversation.turns[turn].text) for turn in gold}
    needed = {turn: tokens.count(told[:end]) for turn, end in ends.items() if end is not None}
    return {budget: frozenset(turn for turn, number in needed.items() if number <= budget) for budget in budgets}


def _end(told: str, text: str) -> int | None:
    """Where a turn's text first ends, told on a line of its own or as a JSON literal."""
    ends = [told.index(form) + len(form) for form in (one_line(text), quote(text)) if form in told]
    return min(ends, default=None)
