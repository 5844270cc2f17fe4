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
