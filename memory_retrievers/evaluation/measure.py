"""Measurement of a memory on questions with gold evidence: answers, scores and figures."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import importlib.util
import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from memory_retrievers.evaluation.conversations import Conversation, FilledStores, Question
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import DetailLevel, EpisodicMemory
from memory_retrievers.models.contents import Progress
from memory_retrievers.retrieval.results import RetrievalResult
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.text.analysis import one_line, quote

EPISODE_DEPTHS: Final = (1, 5, 10)
TURN_DEPTHS: Final = (5, 10, 20)
NDCG_DEPTH: Final = 10
BUDGETS: Final = (500, 1_000, 2_000, 4_000)  # tokens of rendered context within which the evidence is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Result of a system for a question."""

    sessions: Sequence[str]  # ids, best first
    turns: Sequence[str] | None  # ids, best first; None for a system that ranks no turns
    evidence: Mapping[int, frozenset[str]]  # right turns that are whole within so many tokens of what is read
    seconds: float  # how long the search took, without embedding the question


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Measures of the answer to one question."""

    category: str  # the sort of question
    values: Mapping[str, float]  # each measure by its name, 0 to 1; what was not measured is left out
    seconds: float  # as in Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Aggregates of the scores of several questions."""

    questions: int  # how many
    means: Mapping[str, float]  # the mean of each measure over the questions
    intervals: Mapping[str, Interval]  # the 95 % Wilson interval of each measure that is a share of questions
    median_seconds: float  # how long a search takes
    slow_seconds: float  # what 95 of 100 searches stay below


def score(conversation: Conversation, question: Question, answer: Answer) -> Score:
    """Score an answer by every measure.

    Args:
        conversation: Conversation of the question.
        question: The question with its gold turns, one or more.
        answer: Ranked sessions and turns, and the evidence within each budget.
    """
    sessions = {conversation.session_of[turn] for turn in question.gold}
    values: dict[str, float] = {}
    for k in EPISODE_DEPTHS:
        share = recall_at(answer.sessions, sessions, k)
        values |= {f"any@{k}": float(share > 0), f"frac@{k}": share, f"all@{k}": float(share == 1)}
    values["MRR"] = reciprocal_rank(answer.sessions, sessions)
    if answer.turns is not None:
        values |= {f"R@{k}": recall_at(answer.turns, question.gold, k) for k in TURN_DEPTHS}
        values[f"nDCG@{NDCG_DEPTH}"] = ndcg_at(answer.turns, question.gold, NDCG_DEPTH)
    for tokens, found in answer.evidence.items():
        values[f"T{tokens}"] = len(found & question.gold) / len(question.gold)
    return Score(category=question.category, values=values, seconds=answer.seconds)


def figures(scores: Sequence[Score]) -> Figures:
    """Average at least one score; measures that some score lacks are left out."""
    names = [name for name in scores[0].values if all(name in score.values for score in scores)]
    means = {name: statistics.fmean(score.values[name] for score in scores) for name in names}
    seconds = sorted(score.seconds for score in scores)
    return Figures(
        questions=len(scores),
        means=means,
        intervals={
            name: wilson(mean, len(scores)) for name, mean in means.items() if name.startswith(("any@", "all@"))
        },
        median_seconds=statistics.median(seconds),
        slow_seconds=seconds[min(len(seconds) - 1, len(seconds) * 95 // 100)],
    )


def by_category(scores: Sequence[Score]) -> dict[str, Figures]:
    """Return the figures of each category, in the order of their names."""
    categories = sorted({score.category for score in scores})
    return {category: figures([score for score in scores if score.category == category]) for category in categories}


_TABLE: Final = "llama_index/core/_static/tiktoken_cache/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_CL100K_TOKENS: Final = 100_256
_CL100K_PATTERN: Final = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"""
    r"""\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts tokens."""

    name: str  # how it counts, for the heading of a table
    count: Callable[[str], int]  # the number of tokens of a text


@functools.cache
def token_counter() -> TokenCounter:
    """Return a counter for cl100k, or for a quarter of the characters if tiktoken or its table is not installed."""
    table = _table()
    if table is None or importlib.util.find_spec("tiktoken") is None:
        return TokenCounter(name="characters / 4", count=lambda text: -(-len(text) // 4))
    import tiktoken

    lines = (line.split() for line in table.read_bytes().splitlines() if line)
    encoding = tiktoken.Encoding(
        "cl100k",
        pat_str=_CL100K_PATTERN,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens={},
        explicit_n_vocab=_CL100K_TOKENS,
    )
    return TokenCounter(name="cl100k", count=lambda text: len(encoding.encode_ordinary(text)))


def _table() -> Path | None:
    try:
        installed = importlib.metadata.distribution("llama-index-core")
    except importlib.metadata.PackageNotFoundError:
        return None
    table = Path(str(installed.locate_file(_TABLE)))
    return table if table.is_file() else None


ALL_EPISODES: Final = 100


def measure(
    stores: FilledStores, settings: RetrievalSettings, *, tokens: TokenCounter | None, progress: Progress
) -> list[Score]:
    """Score every question under given settings. Nothing is recorded.

    Args:
        stores: The conversations. Their embedder caches vectors, so that times do not include embedding.
        settings: Settings of retrieval.
        tokens: Counts the tokens of rendered results; None leaves out the measures of these.
        progress: Called with the number of questions asked, and of all.
    """
    number = sum(len(conversation.questions) for conversation in stores.conversations)
    scores: list[Score] = []
    with stores.opened(settings) as (memory, clock):
        for conversation in stores.conversations:
            clock.moment = stores.asked_at(conversation)
            for question in conversation.questions:
                stores.embedder.embed_query(question.text)  # from here on its vector is known
                answer = _ask(memory, conversation, question, tokens=tokens)
                scores.append(score(conversation, question, answer))
                progress(len(scores), number)
    return scores


def _ask(memory: AgentMemory, conversation: Conversation, question: Question, *, tokens: TokenCounter | None) -> Answer:
    # As an agent asks it, for the time it takes.
    started = time.perf_counter()
    memory.retrieve(question.text, scope=conversation.scope, record=False)
    seconds = time.perf_counter() - started
    result = memory.retrieve(
        question.text, scope=conversation.scope, episodic_limit=ALL_EPISODES, semantic_limit=0, record=False
    )
    return Answer(
        sessions=[_session(hit.memory) for hit in result.episodic],
        turns=ranked_turns(conversation, result),
        evidence={} if tokens is None else evidence(conversation, question, result, tokens=tokens),
        seconds=seconds,
    )


def _session(memory: EpisodicMemory) -> str:
    """Return the session of an episode: its id, or the conversation of an open one."""
    return memory.conversation_id or memory.id


def ranked_turns(conversation: Conversation, result: RetrievalResult) -> list[str] | None:
    """Return all matching turns of all episodes, best first; None if only summaries are searched."""
    ids = {session.id: [turn.id for turn in session.turns] for session in conversation.sessions}
    scored = [
        (match.score, ids[_session(hit.memory)][message])
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
    """Find for each budget the gold turns whose whole text is in the rendered result.

    Args:
        conversation: Conversation of the question.
        question: The question with its gold turns.
        result: Retrieved memories.
        tokens: Counts tokens.
    """
    if any(hit.matches for hit in result.episodic):
        return {
            budget: turns_within(
                conversation,
                question.gold,
                result.to_markdown(DetailLevel.EXCERPTS, max_tokens=budget, token_counter=tokens.count),
                budgets=(budget,),
                tokens=tokens,
            )[budget]
            for budget in BUDGETS
        }
    return turns_within(
        conversation, question.gold, result.to_markdown(DetailLevel.HIGH), budgets=BUDGETS, tokens=tokens
    )


def turns_within(
    conversation: Conversation, gold: Iterable[str], rendered: str, *, budgets: Sequence[int], tokens: TokenCounter
) -> dict[int, frozenset[str]]:
    """Find for each budget the turns whose whole text is in the first so many tokens of a text.

    Args:
        conversation: Conversation of the turns.
        gold: Ids of the turns.
        rendered: The rendered text.
        budgets: Numbers of tokens.
        tokens: Counts tokens.
    """
    ends = {turn: _end(rendered, conversation.turns[turn].text) for turn in gold}
    needed = {turn: tokens.count(rendered[:end]) for turn, end in ends.items() if end is not None}
    return {budget: frozenset(turn for turn, number in needed.items() if number <= budget) for budget in budgets}


def _end(rendered: str, text: str) -> int | None:
    """Return the end of the first occurrence of a turn's text, as plain text or as a JSON literal; None without one."""
    ends = [rendered.index(form) + len(form) for form in (one_line(text), quote(text)) if form in rendered]
    return min(ends, default=None)


CONFIDENCE_95: Final = 1.959964  # the quantile of the normal distribution that leaves 2.5 % on either side
RESAMPLES: Final = 2_000  # number of draws of a bootstrap: enough for two digits


class Interval(NamedTuple):
    """Bounds of a figure with 95 % confidence."""

    low: float
    high: float


def recall_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """Return the share of the relevant items that are among the first ``k``, 0 to 1.

    Args:
        ranked: Items, best first.
        gold: Relevant items, at least one.
        k: Number of first items that count, 1 or more.

    >>> recall_at(["a", "b", "c"], {"b", "z"}, 3)
    0.5
    """
    return len(set(ranked[:k]) & set(gold)) / len(set(gold))


def reciprocal_rank(ranked: Sequence[Hashable], gold: Collection[Hashable]) -> float:
    """Return one divided by the rank of the first relevant item, from 1; 0 if there is none.

    >>> reciprocal_rank(["a", "b", "c"], {"b", "c"})
    0.5
    """
    return next((1 / place for place, item in enumerate(ranked, start=1) if item in gold), 0.0)


def ndcg_at(ranked: Sequence[Hashable], gold: Collection[Hashable], k: int) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002) with gains of 0 and 1.

    A relevant item at rank i gains ``1 / log2(i + 1)``; the sum is divided by that of the best order.

    Args:
        ranked: Items, best first, each at most once.
        gold: Relevant items, at least one.
        k: Number of first items that count, 1 or more.

    >>> round(ndcg_at(["a", "b", "c"], {"b", "z"}, 3), 4)
    0.3869
    """
    gained = math.fsum(1 / math.log2(place + 1) for place, item in enumerate(ranked[:k], start=1) if item in gold)
    best = math.fsum(1 / math.log2(place + 1) for place in range(1, min(k, len(set(gold))) + 1))
    return gained / best


def wilson(share: float, number: int) -> Interval:
    """Return the 95 % score interval of a share of a number of trials (Wilson 1927).

    >>> low, high = wilson(0.8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4902, 0.9433)
    """
    if not number:
        return Interval(0.0, 1.0)
    square = CONFIDENCE_95**2
    middle = (share + square / (2 * number)) / (1 + square / number)
    spread = math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    half = CONFIDENCE_95 * spread / (1 + square / number)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def bootstrap(differences: Sequence[float]) -> Interval:
    """Return the 95 % percentile interval of the mean of paired differences (Efron 1979); it is deterministic.

    >>> bootstrap([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    source = random.Random(0)  # noqa: S311 - nothing is kept secret here
    means = sorted(statistics.fmean(source.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return Interval(means[RESAMPLES * 25 // 1_000], means[RESAMPLES * 975 // 1_000 - 1])
