"""Every number that steers the package, with its reason."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field


class RetrievalSettings(BaseModel):
    """How memories are searched, fused, re-ranked and shown.

    ``RetrievalSettings()`` is the default; ``RetrievalSettings.seed()`` is the specified formula to the last digit.

    Attributes:
        candidate_depth: How many candidates each list contributes (specification §2.3).
        rrf_k: The constant of reciprocal rank fusion; 60 as in Cormack, Clarke and Büttcher (2009).
        decay_weight: How strongly forgetting counts: ``final = fused × (1 − w × (1 − R))``. At 1 a half-forgotten
            episode loses to anything on the candidate list, since the scale of RRF is flat; 0.2 lets the fresher of
            two similar memories win and hides nothing.
        whole_days: Count only whole days since the last review, as the specification does. Off, a memory from this
            morning beats one from last night.
        bm25_k1: Saturation of term counts. Memories are short: 0.9 finds more than the textbook's 1.2.
        bm25_b: How strongly long texts are discounted; 0.4 for the same reason, instead of 0.75.
        exact_limit: Up to so many passages that a search may see, vectors are compared exactly; beyond, an HNSW index
            answers if the store has one. Exact search takes about a millisecond per 1,000.
        fact_display_length: Longer facts are cut with ``…`` in markdown; None shows them whole.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidate_depth: Annotated[int, Field(ge=1, le=1_000)] = 100
    rrf_k: Annotated[int, Field(ge=1)] = 60
    decay_weight: Annotated[float, Field(ge=0, le=1)] = 0.2
    whole_days: bool = False
    bm25_k1: Annotated[float, Field(ge=0)] = 0.9
    bm25_b: Annotated[float, Field(ge=0, le=1)] = 0.4
    exact_limit: Annotated[int, Field(ge=0)] = 20_000
    fact_display_length: Annotated[int, Field(ge=2)] | None = 280

    @classmethod
    def seed(cls) -> Self:
        """The ranking of specification §2.3 to §2.5, exactly."""
        return cls(decay_weight=1.0, whole_days=True, bm25_k1=1.2, bm25_b=0.75, fact_display_length=None)


class IngestionSettings(BaseModel):
    """How messages become episodes, and episodes facts.

    ``IngestionSettings()`` is the default; ``IngestionSettings.seed()`` differs in what counts as the same memory.

    Attributes:
        min_messages: Fewer queued messages are never looked at (specification §2.11).
        window: So many queued messages are due.
        doubled_window: So many are, after a look that saw a single topic.
        due_after_hours: At least ``min_messages`` are due when the first of them is older than this.
        fence_minutes: How long a claim on a scope's queue holds, if whoever made it is gone.
        flashbulb_surprise: An episode at least this surprising is turned into facts at once (specification §2.13).
        consolidate_from: So many episodes that have not been turned into facts are due for it.
        related_facts: So many known facts, over all episodes of a batch, are shown to the language model.
        same_cosine: From this cosine on two facts may be the same (specification §2.15).
        compare_details: Two facts whose numbers, negations or names differ are never the same, however near: "the
            code is 4711" and "the code is 4712" have a cosine of 0.98.
        keep_flashbulbs: An episode of ``flashbulb_surprise`` or more never fades and is not reviewed
            (specification §2.16).
        keep_messages_days: The messages of older episodes are erased; title, summary and vectors stay. None keeps
            them for ever.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_messages: Annotated[int, Field(ge=1)] = 5
    window: Annotated[int, Field(ge=1)] = 20
    doubled_window: Annotated[int, Field(ge=1)] = 40
    due_after_hours: Annotated[float, Field(gt=0)] = 2.0
    fence_minutes: Annotated[float, Field(gt=0)] = 120.0
    flashbulb_surprise: Annotated[float, Field(ge=0, le=1)] = 0.85
    consolidate_from: Annotated[int, Field(ge=1)] = 3
    related_facts: Annotated[int, Field(ge=0, le=1_000)] = 20
    same_cosine: Annotated[float, Field(gt=0, le=1)] = 0.95
    compare_details: bool = True
    keep_flashbulbs: bool = False
    keep_messages_days: Annotated[float, Field(gt=0)] | None = None

    @classmethod
    def seed(cls) -> Self:
        """The bare rule of specification §2.15: near is the same."""
        return cls(compare_details=False)


class ReviewSettings(BaseModel):
    """How retrieved memories are reviewed.

    Attributes:
        min_days: Whole days since the last review before another counts (specification §2.14).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_days: Annotated[int, Field(ge=0)] = 1
