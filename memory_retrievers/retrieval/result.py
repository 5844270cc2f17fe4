"""What comes back: the memories with their scores, and the forms in which they are handed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.rendering.block import retrieved_block
from memory_retrievers.rendering.budget import estimated_tokens, parse_budget
from memory_retrievers.rendering.markdown import recent_block
from memory_retrievers.rendering.raw import explained_memories, explained_recent, raw_memories, raw_recent
from memory_retrievers.retrieved import RetrievedMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalResult:
    """The answer to a question.

    Attributes:
        query: What was asked, stripped.
        scope: Where.
        now: When; relative times are told from here.
        semantic: The facts, best first.
        episodic: The episodes, best first.
        fact_display_length: Longer facts are cut in markdown; None shows them whole.
    """

    query: str
    scope: str
    now: datetime
    semantic: tuple[RetrievedMemory[SemanticMemory], ...] = ()
    episodic: tuple[RetrievedMemory[EpisodicMemory], ...] = ()
    fact_display_length: int | None = None

    def to_markdown(
        self,
        detail: DetailLevel | str = DetailLevel.AUTO,
        *,
        max_tokens: int | None = None,
        token_counter: Callable[[str], int] = estimated_tokens,
    ) -> str:
        """The block for a model to read (specification §2.6); empty when nothing was found.

        Args:
            detail: ``auto`` tells the messages of the first two episodes if they were surprising, ``low`` of the
                first, ``high`` of all, ``none`` of none. ``excerpts`` tells in place of summaries the turns that
                answer the question, dated, under their episode; without a budget at most about 30 of them. Where an
                episode has no such turn, since only summaries were searched, it tells the summary.
            max_tokens: Tell no more than this, at any level: of facts, summaries and messages those that are expected
                to hold most of what was asked for. What does not fit is left out, or told by its summary.
            token_counter: How many tokens a text is; by default a token is four characters. Only for ``max_tokens``.

        Raises:
            ValidationError: The detail level is unknown, or ``max_tokens`` is not a whole number from 0 on.
        """
        return retrieved_block(
            self.semantic,
            self.episodic,
            now=self.now,
            detail=parse_detail(detail),
            fact_display_length=self.fact_display_length,
            max_tokens=parse_budget(max_tokens),
            token_counter=token_counter,
        )

    def to_dict(self, *, explain: bool = False) -> JsonObject:
        """The raw form (specification §2.8): complete records; facts carry the fused score, episodes the final one.

        Args:
            explain: Also tell each memory's explanation, scope, metadata and tags, and when it was asked.
        """
        if explain:
            return explained_memories(
                self.semantic, self.episodic, now=self.now, fact_display_length=self.fact_display_length
            )
        return raw_memories(self.semantic, self.episodic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentResult:
    """A scope's newest episodes, newest first.

    Attributes:
        now: When it was asked; relative times are told from here.
        episodic: The episodes.
    """

    now: datetime
    episodic: tuple[EpisodicMemory, ...] = ()

    def to_markdown(self) -> str:
        """The block for a model to read (specification §2.17)."""
        return recent_block(self.episodic, now=self.now)

    def to_dict(self, *, explain: bool = False) -> JsonObject:
        """The raw form: complete records, without scores.

        Args:
            explain: Also tell each episode's scope, metadata and tags, and when it was asked.
        """
        return explained_recent(self.episodic, now=self.now) if explain else raw_recent(self.episodic)


def parse_detail(detail: DetailLevel | str) -> DetailLevel:
    """The level a caller, perhaps a language model, has named in any case of letters.

    Raises:
        ValidationError: There is no such level.
    """
    try:
        return DetailLevel(str(detail).strip().lower())
    except ValueError:
        raise ValidationError(f"unknown detail {detail!r}; one of: {', '.join(DetailLevel)}") from None
