"""Evaluation on a user's own questions: half of them choose the settings, the other half tests the choice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.evaluation.conversations import read_text
from memory_retrievers.evaluation.measure import (
    Figures,
    Interval,
    Score,
    bootstrap,
    figures,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)
from memory_retrievers.evaluation.silence import Silence, answer_of
from memory_retrievers.evaluation.silence import measured as measured_silence
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models.contents import Progress
from memory_retrievers.models.fields import NonBlankText
from memory_retrievers.models.filters import MinRelevance
from memory_retrievers.protocols import Embedder
from memory_retrievers.retrieval.request import MAX_EPISODES
from memory_retrievers.settings import RetrievalSettings

_ADVICE: Final = 'give each question a line {"scope": "…", "query": "…", "memory_ids": ["…"]}'


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    scope: str
    query: NonBlankText
    memory_ids: Annotated[list[str], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A question, and the memories that answer it."""

    line: int  # where in the file it stands, from 1
    scope: str  # whose memories are searched
    query: str  # the question
    memory_ids: frozenset[str]  # the ids of the right memories; at least one

    def is_held_out(self, seed: int) -> bool:
        """True if it is held out for the test, as about half of the pairs are; the same ones for the same seed."""
        key = f"{seed}\n{self.scope}\n{self.query}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(key, digest_size=1).digest()[0] % 2 == 1


def load(path: Path) -> list[Pair]:
    """Load the pairs of a file, one JSON object a line; blank lines are ignored.

    Raises:
        ValidationError: A line, which the message names, is not a pair; or there is none; or the file is longer than
            ``conversations.MAX_BYTES``.
    """
    pairs: list[Pair] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            parsed = _Line.model_validate_json(line)
        except pydantic.ValidationError as error:
            raise ValidationError(f"line {number}: {ValidationError.from_pydantic(error)}: {_ADVICE}") from error
        right = frozenset(parsed.memory_ids)
        pairs.append(Pair(line=number, scope=parsed.scope, query=parsed.query, memory_ids=right))
    if not pairs:
        raise ValidationError(f"{path} holds no question: {_ADVICE}")
    return pairs


def check(pairs: Sequence[Pair], memory: AgentMemory) -> None:
    """Refuse pairs whose memories do not exist, since they would count as not found.

    Raises:
        ValidationError: A memory is not in the scope of its question, or the scope is malformed; names the line.
    """
    for pair in pairs:
        for right in sorted(pair.memory_ids):
            try:
                memory.get(right, scope=pair.scope)
            except NotFoundError:
                raise ValidationError(
                    f"line {pair.line}: there is no memory {right!r} in the scope {pair.scope!r}"
                ) from None
            except ValidationError as error:
                raise ValidationError(f"line {pair.line}: {error}") from error


TUNE: Final = "tune"
HELD_OUT: Final = "held-out"
DEFAULT: Final = "default"

MOST_FACTS: Final = 100  # number of facts that are ranked: as many as episodes can be

_DEPTH: Final = 10
_CHOSEN_BY: Final = f"nDCG@{_DEPTH}"
"""Measure that chooses the settings: it is graded by rank, whereas a share of questions is right or wrong only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The best settings on one half of the questions, and their figures on the other half."""

    name: str
    settings: RetrievalSettings
    held_out: Figures  # its figures on the questions that it was not chosen by
    gain: Interval  # by how much its nDCG@10 there is above the default's, with 95 % confidence

    @property
    def is_within_noise(self) -> bool:
        """True if the default may be as good, so that there is no reason to change it."""
        return self.gain.low <= 0 or self.name == DEFAULT


def measure_own(
    pairs: Sequence[Pair],
    compared: Mapping[str, RetrievalSettings],
    *,
    open_store: Callable[[RetrievalSettings], AgentMemory],
    embedder: Embedder,
    seed: int,
    progress: Progress,
    min_relevance: MinRelevance = 0.0,
) -> dict[str, list[Score]]:
    """Score all settings; the category of a score is its half of the questions.

    Args:
        pairs: The questions.
        compared: The settings by their names.
        open_store: Opens the store read-only with given settings.
        embedder: The store's embedder with cached vectors, so that times do not include embedding.
        seed: Seed of the split.
        progress: Called with the number of settings measured, and of all.
        min_relevance: Minimum relevance of a memory that counts as found.

    Raises:
        ValidationError: A question names a memory that does not exist, or one half of the questions is empty.
    """
    if sum(pair.is_held_out(seed) for pair in pairs) in {0, len(pairs)}:
        raise ValidationError(
            f"{len(pairs)} questions are too few to choose a setting with some and test it with the others: add more, "
            "a hundred are meaningful"
        )
    measured: dict[str, list[Score]] = {}
    for name, settings in compared.items():
        with open_store(settings) as memory:
            if not measured:
                check(pairs, memory)
            measured[name] = [
                _score(pair, memory, embedder=embedder, seed=seed, min_relevance=min_relevance) for pair in pairs
            ]
        progress(len(measured), len(compared))
    return measured


def measure_silence(pairs: Sequence[Pair], memory: AgentMemory) -> Silence:
    """Ask every question in its own scope and in the next one in the file, as :mod:`evaluation.silence` does.

    If all questions have the same scope, there are no foreign ones, and AUC and silenced share are NaN.
    """
    following, answers = following_scopes(pairs), []
    for pair in pairs:
        for scope in dict.fromkeys((pair.scope, following[pair.scope])):
            result = memory.retrieve(pair.query, scope=scope, record=False)
            answers.append(answer_of(result, pair.memory_ids if scope == pair.scope else None))
    return measured_silence(answers)


def following_scopes(pairs: Sequence[Pair]) -> dict[str, str]:
    """Map each scope to the next one in the file, and the last to the first."""
    scopes = list(dict.fromkeys(pair.scope for pair in pairs))
    return dict(zip(scopes, [*scopes[1:], *scopes[:1]], strict=True))


def suggest(measured: Mapping[str, Sequence[Score]], compared: Mapping[str, RetrievalSettings]) -> Suggestion:
    """Return the settings with the best nDCG@10 on one half, the first of several, and their figures on the other.

    It takes the result of :func:`measure_own` and the settings, which include the default under the name ``default``.
    """
    halves = {
        name: {half: [score for score in scores if score.category == half] for half in (TUNE, HELD_OUT)}
        for name, scores in measured.items()
    }
    best = max(halves, key=lambda name: figures(halves[name][TUNE]).means[_CHOSEN_BY])
    gains = [
        mine.values[_CHOSEN_BY] - default.values[_CHOSEN_BY]
        for mine, default in zip(halves[best][HELD_OUT], halves[DEFAULT][HELD_OUT], strict=True)
    ]
    return Suggestion(
        name=best, settings=compared[best], held_out=figures(halves[best][HELD_OUT]), gain=bootstrap(gains)
    )


def _score(pair: Pair, memory: AgentMemory, *, embedder: Embedder, seed: int, min_relevance: MinRelevance) -> Score:
    # 1. The vector is known before the time is taken.
    embedder.embed_query(pair.query)
    started = time.perf_counter()
    result = memory.retrieve(
        pair.query,
        scope=pair.scope,
        episodic_limit=MAX_EPISODES,
        semantic_limit=MOST_FACTS,
        min_relevance=min_relevance,
        record=False,
    )
    seconds = time.perf_counter() - started
    # 2. Both kinds in one ranking, facts first among equals, as a joint limit cuts them.
    ranked = [hit.memory.id for hit in sorted(result, key=lambda hit: -hit.score)]
    values = {f"any@{k}": float(recall_at(ranked, pair.memory_ids, k) > 0) for k in (1, 5, _DEPTH)}
    values["frac@5"] = recall_at(ranked, pair.memory_ids, 5)
    values["MRR"] = reciprocal_rank(ranked, pair.memory_ids)
    values[_CHOSEN_BY] = ndcg_at(ranked, pair.memory_ids, _DEPTH)
    return Score(category=HELD_OUT if pair.is_held_out(seed) else TUNE, values=values, seconds=seconds)
