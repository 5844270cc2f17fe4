"""Records of explanations, with their text form: returned memories with every stage, or the reason for an absence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum

from memory_retrievers.models import JsonObject
from memory_retrievers.models.fields import iso
from memory_retrievers.text.analysis import one_line


class Outcome(StrEnum):
    """Outcome of a retrieval for one memory: the stage that dropped it, in the order of the stages."""

    EXPIRED = "expired"
    INVALIDATED = "invalidated"
    NOT_VALID_THEN = "not_valid_then"
    OTHER_CATEGORY = "other_category"
    FILTERED = "filtered"
    NOT_ASKED_FOR = "not_asked_for"
    IN_PROMPT = "in_prompt"
    OTHER_CONVERSATION = "other_conversation"
    STILL_OPEN = "still_open"
    NOT_INDEXED = "not_indexed"
    NOT_A_CANDIDATE = "not_a_candidate"
    RANKED_TOO_LOW = "ranked_too_low"
    FORGOTTEN = "forgotten"
    JOINT_LIMIT = "joint_limit"
    NOT_RELEVANT = "not_relevant"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageScore:
    """Contribution of one stage to the best passage of a memory.

    Attributes:
        name: The stage, as in ``Explanation.stages``.
        rank: Its rank by that among all that compete, from 1; None if it gave nothing.
        score: What it gave; 0 is nothing.
    """

    name: str
    rank: int | None
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMemory:
    """A candidate with its rank and score at every stage, in the order of the stages.

    Attributes:
        id: Which memory.
        scope: Whose.
        kind: A fact or an episode.
        text: A fact as it is; an episode's title, or its summary if it has none.
        cosine: Highest cosine of a passage of it with what was embedded of the question.
        words: The terms of the question that occur in it, in the order of the question.
        dense_rank: Its rank by vector similarity, from 1; None if it was not among the candidates.
        bm25_rank: Its rank by BM25, from 1; None likewise, and if it shares no word.
        stages: What each list and each boost added to its score.
        fused_score: What they add up to.
        rank_before_forgetting: Its rank among its kind by that, from 1.
        score_before_forgetting: The same on the scale of scores, at most 1.
        retrievability: How well it is remembered, 0 to 1; 1 for facts.
        rank: Its final rank among its kind, from 1, also where no more than the first few were asked for.
        score: Its final score, in (0, 1].
        is_open: Whether it is an episode that is still open, which nothing is forgotten of.
    """

    id: str
    scope: str
    kind: str
    text: str
    cosine: float
    words: tuple[str, ...]
    dense_rank: int | None
    bm25_rank: int | None
    stages: tuple[StageScore, ...]
    fused_score: float
    rank_before_forgetting: int
    score_before_forgetting: float
    retrievability: float
    rank: int
    score: float
    is_open: bool = False

    def to_dict(self) -> JsonObject:
        """All of it as a JSON-ready object."""
        return asdict(self) | {"words": list(self.words), "stages": [asdict(stage) for stage in self.stages]}

    def to_text(self) -> str:
        """Its stages in the order in which they happen, one a line under its name."""
        still_open = ", still open" if self.is_open else ""
        return "\n".join((f"{one_line(self.text)} ({self.kind} {one_line(self.id)}{still_open})", *self._lines()))

    def _lines(self) -> Iterator[str]:
        near = "not among the candidates" if self.dense_rank is None else f"rank {self.dense_rank}"
        by_words = "" if self.bm25_rank is None else f"rank {self.bm25_rank}, "
        yield f"  vector similarity: {near}, cosine {self.cosine:.3f}"
        yield f"  BM25: {by_words}words in common: {', '.join(self.words) or 'none'}"
        for stage in self.stages:
            rank = "" if stage.rank is None else f", rank {stage.rank}"
            yield f"  {stage.name}: {stage.score:.4f}{rank}"
        yield f"  before forgetting: {self.score_before_forgetting:.4f}, rank {self.rank_before_forgetting}"
        yield f"  retrievability: {self.retrievability:.4f}"
        yield f"  final score: {self.score:.4f}, rank {self.rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRetrieval:
    """Explanation of everything that a retrieval returns.

    Attributes:
        query: What was asked, stripped.
        embedded: What of it was embedded: without words that nearly every searched text contains.
        scope: Where.
        now: When.
        semantic: The facts that are returned, best first.
        episodic: The episodes that are returned, best first.
    """

    query: str
    embedded: str
    scope: str
    now: datetime
    semantic: tuple[ExplainedMemory, ...] = ()
    episodic: tuple[ExplainedMemory, ...] = ()

    def to_dict(self) -> JsonObject:
        """All of it as a JSON-ready object."""
        found = {kind: [each.to_dict() for each in getattr(self, kind)] for kind in ("semantic", "episodic")}
        return {"query": self.query, "embedded": self.embedded, "scope": self.scope, "now": iso(self.now)} | found

    def to_text(self) -> str:
        """Format the embedded text, then every memory with its stages, for people to read."""
        memories = [memory.to_text() for memory in (*self.semantic, *self.episodic)]
        nothing = f"Nothing is returned from the scope {self.scope}. scopes() and waiting_scopes() list others."
        return "\n\n".join((f"Embedded: {one_line(self.embedded)}", *(memories or [nothing])))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAbsence:
    """Reason why a retrieval does not return a memory, or the statement that it does.

    Attributes:
        id: Which memory.
        scope: Whose; the scope that was searched, or one below it.
        query: What was asked, stripped.
        outcome: The stage that dropped it, or that it is returned.
        reason: The same in a sentence.
        cosine: Highest cosine of a passage of it with the question; None if it was dropped before that mattered.
        words: The terms of the question that occur in it; empty likewise.
        memory: Its rank and score at every stage; None if it did not compete.
    """

    id: str
    scope: str
    query: str
    outcome: Outcome
    reason: str
    cosine: float | None = None
    words: tuple[str, ...] = ()
    memory: ExplainedMemory | None = None

    def to_dict(self) -> JsonObject:
        """All of it as a JSON-ready object."""
        memory = None if self.memory is None else self.memory.to_dict()
        return asdict(self) | {"outcome": str(self.outcome), "words": list(self.words), "memory": memory}

    def to_text(self) -> str:
        """Format the reason, and the stages if the memory was a candidate, for people to read."""
        return "\n\n".join((one_line(self.reason), *([] if self.memory is None else [self.memory.to_text()])))
