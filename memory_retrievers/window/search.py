"""Searches of a window with the stages of every hit, why a memory is not found, and near-duplicates."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, cast

import numpy as np
from pydantic import Field, JsonValue

from memory_retrievers.models import JsonObject, Kind, SemanticMemory
from memory_retrievers.models.fields import ShortText
from memory_retrievers.models.filters import SearchOptions, parse_moment
from memory_retrievers.models.selection import Listing
from memory_retrievers.retrieval.explanations import ExplainedMemory, Outcome
from memory_retrievers.text.analysis import estimate_tokens
from memory_retrievers.text.duplicates import COSINE_TOLERANCE, is_duplicate
from memory_retrievers.window.state import Window
from memory_retrievers.window.views import Query, ScopeQuery, memory_shape

MOST_HITS: Final = 100

MOST_COMPARED: Final = 2_000  # facts, the newest of a scope, that are compared with each other for duplicates

MOST_PAIRS: Final = 100

_BLOCK: Final = 256  # facts that are compared with all others at once


class SearchBody(Query):
    """A search with the options of ``retrieve``."""

    scope: str
    query: str
    kinds: tuple[Literal["fact", "episode"], ...] | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    as_of: str | None = None
    where: dict[str, JsonValue] | None = None
    min_relevance: float | Literal["auto"] = 0.0
    limit: Annotated[int, Field(ge=1, le=MOST_HITS)] | None = None
    detail: str = "auto"
    max_tokens: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    include_children: bool = False

    @property
    def options(self) -> SearchOptions:
        """Return the options of the search."""
        options = cast("SearchOptions", self.model_dump(include=set(SearchOptions.__annotations__)))
        options["include_child_scopes"] = self.include_children
        if self.kinds and "fact" not in self.kinds:
            options["semantic_limit"] = 0
        if self.kinds and "episode" not in self.kinds:
            options["episodic_limit"] = 0
        return options


class WhyBody(SearchBody):
    """A search, and a memory to find in its result."""

    id: ShortText


def search(window: Window, body: SearchBody) -> JsonObject:
    """Search, and return the hits with their stages, and the block that an agent would read."""
    scope, now = window.reach(body.scope), window.memory.now()
    window.wait_for_reading(scope)
    result = window.memory.retrieve(body.query, scope=scope, record=False, **body.options)
    explained = window.memory.explain(body.query, scope=scope, **body.options)
    stages: dict[tuple[str, str], ExplainedMemory] = {
        (each.scope, each.id): each for each in (*explained.semantic, *explained.episodic)
    }
    block = result.to_markdown(body.detail, max_tokens=body.max_tokens)
    hits: list[Any] = [*result.semantic, *result.episodic]
    hits.sort(key=lambda hit: -hit.relevance)  # facts before episodes, and each kind by rank, where it is equal
    as_of = parse_moment("as_of", body.as_of)
    return {
        "hits": [
            {
                "memory": memory_shape(hit.memory, now=now, as_of=as_of),
                "rank": hit.rank,
                "relevance": round(hit.relevance, 6),
                "score": round(hit.score, 6),
                "stages": _stages(stages.get((hit.memory.scope, hit.memory.id))),
            }
            for hit in hits
        ],
        "block": block,
        "tokens": estimate_tokens(block),
        "explanation": explained.to_text(),
    }


def why(window: Window, body: WhyBody) -> JsonObject:
    """Explain why a search does not find a memory, or return its rank."""
    scope, now = window.reach(body.scope), window.memory.now()
    window.wait_for_reading(scope)
    absence = window.memory.explain_missing(body.id, query=body.query, scope=scope, **body.options)
    return {
        "memory": memory_shape(window.find(absence.id, scope=absence.scope), now=now),
        "found": absence.outcome is Outcome.RETURNED,
        "rank": absence.memory.rank if absence.memory is not None else None,
        "outcome": str(absence.outcome),
        "explanation": absence.reason,
        "stages": _stages(absence.memory),
    }


def _stages(memory: ExplainedMemory | None) -> list[JsonObject]:
    """What each stage of a search gave a memory, in the order of the stages."""
    if memory is None:
        return []
    words = ", ".join(memory.words)
    stages: list[tuple[str, float, str]] = [("cosine", memory.cosine, _ranked(memory.dense_rank))]
    stages += [(stage.name, stage.score, _ranked(stage.rank)) for stage in memory.stages]
    stages += [
        ("fused", memory.fused_score, f"words in common: {words}" if words else "no word in common"),
        ("before forgetting", memory.score_before_forgetting, _ranked(memory.rank_before_forgetting)),
        ("retrievability", memory.retrievability, ""),
        ("score", memory.score, _ranked(memory.rank)),
    ]
    return [{"name": name, "value": round(value, 6), "note": note} for name, value, note in stages]


def _ranked(rank: int | None) -> str:
    return "not among the candidates" if rank is None else f"rank {rank}"


def duplicates(window: Window, query: ScopeQuery) -> JsonObject:
    """List pairs of facts that the tools would treat as duplicates."""
    facts = _newest_facts(window, window.reach(query.scope))
    now, settings = window.memory.now(), window.memory.manager.ingestion
    pairs: list[tuple[float, SemanticMemory, SemanticMemory]] = []
    for cosine, first, second in _near_pairs(window, facts):
        if len(pairs) == MOST_PAIRS:
            break
        if is_duplicate(first.fact, second.fact, cosine=cosine, settings=settings):
            pairs.append((cosine, first, second))
    return {
        "pairs": [
            {
                "first": memory_shape(first, now=now),
                "second": memory_shape(second, now=now),
                "similarity": round(cosine, 6),
            }
            for cosine, first, second in pairs
        ],
        "compared": len(facts),
    }


def _newest_facts(window: Window, scope: str) -> list[SemanticMemory]:
    """Return the newest valid facts of a scope; long texts are cut."""
    listing = Listing(scope=scope, now=window.memory.now(), kinds=(Kind.SEMANTIC,), as_of=window.memory.now())
    page = window.memory.overview.page(listing, after=None, limit=MOST_COMPARED)
    return [each for each, _ in page if isinstance(each, SemanticMemory)]


def _near_pairs(window: Window, facts: list[SemanticMemory]) -> list[tuple[float, SemanticMemory, SemanticMemory]]:
    """Return pairs of facts with nearly equal vectors, nearest first, at most ten times as many as are shown."""
    vectors = window.memory.manager.vectors_of(facts)
    least = window.memory.manager.ingestion.same_cosine - COSINE_TOLERANCE
    found: list[tuple[float, int, int]] = []
    for start in range(0, len(facts), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        rows, columns = np.nonzero(cosines >= least)
        behind = columns > rows + start
        rows, columns = rows[behind], columns[behind]
        values = cosines[rows, columns]
        best = np.argsort(-values, kind="stable")[: 10 * MOST_PAIRS]
        found += [
            (min(float(values[each]), 1.0), int(rows[each]) + start, int(columns[each])) for each in best.tolist()
        ]
    found.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    return [(cosine, facts[first], facts[second]) for cosine, first, second in found[: 10 * MOST_PAIRS]]
