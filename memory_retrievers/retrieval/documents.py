"""Retrieved memories as documents for the frameworks, and the profile of a scope for a prompt."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Unpack
from urllib.parse import quote

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import DetailLevel, EpisodicMemory, JsonObject, Kind, SemanticMemory, SummaryBy
from memory_retrievers.models.fields import iso
from memory_retrievers.models.filters import SearchOptions
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.budget import parse_budget
from memory_retrievers.retrieval.excerpts import best_excerpts, excerpt_line, matched_turns
from memory_retrievers.retrieval.markdown import PROFILE_TAG, between_tags, detailed_messages, message_line, shows_turns
from memory_retrievers.retrieval.memory import Memory
from memory_retrievers.retrieval.request import asked_by
from memory_retrievers.text.analysis import estimate_tokens, one_line

SCORE_KEYS: Final = ("relevance_score", "fused_score", "retrievability", "dense_rank", "bm25_rank")
"""Metadata keys of relevance and of the explanation of a rank: what is of the query, and not of the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDocument:
    """A retrieved memory as a document.

    Attributes:
        id: The memory's id.
        text: A fact as it is; an episode's title and summary, each on a line, and the messages of the level of detail.
        metadata: The memory's own metadata under ours: kind, scope, category, title, created_at, start_at, end_at,
            and :data:`SCORE_KEYS` where they were asked for, what does not apply left out; ``source`` is the memory's
            own, or else its address. A fresh copy.
        score: The final score, in (0, 1].
        relevance: The estimated probability that the memory bears on the query; the score where ranks are fused.
    """

    id: str
    text: str
    metadata: JsonObject
    score: float
    relevance: float


def documents(
    facts: Sequence[RetrievedMemory[SemanticMemory]],
    episodes: Sequence[RetrievedMemory[EpisodicMemory]],
    *,
    query: str = "",
    detail: DetailLevel = DetailLevel.AUTO,
    with_scores: bool = False,
) -> list[MemoryDocument]:
    """Merge both kinds into one list by descending relevance; at equal relevance facts come first.

    The document of a memory is the same for every question, so that those of several questions can be joined by their
    content; only ``low``, ``excerpts``, open episodes and scores depend on it.

    Args:
        facts: In rank order.
        episodes: In rank order.
        query: What was asked; if it asks for a list, ``excerpts`` are spread over more episodes.
        detail: Which episodes bring their messages. ``auto``: key moments, and in place of a summary that was made by
            rules; ``low`` and ``high`` as in specification §2.6; ``excerpts``: those that match.
        with_scores: Add :data:`SCORE_KEYS` to the metadata.
    """
    if detail is DetailLevel.EXCERPTS:
        plan = best_excerpts(facts, episodes, turns=matched_turns(episodes, query=query))
        lines = [
            [one_line(episode.memory.summary), *map(excerpt_line, _at(episode, plan.episodes[place]))]
            for place, episode in enumerate(episodes)
        ]
    else:
        lines = [_lines(episode, detail=detail) for episode in episodes]
    both = [_document(fact, [], with_scores=with_scores) for fact in facts]
    both += [_document(hit, its_lines, with_scores=with_scores) for hit, its_lines in zip(episodes, lines, strict=True)]
    return sorted(both, key=lambda document: -document.relevance)  # within a kind that is the order they have


def _lines(episode: RetrievedMemory[EpisodicMemory], *, detail: DetailLevel) -> list[str]:
    """The summary of an episode and the messages of a level of detail, or these in its place."""
    memory = episode.memory
    if detail is not DetailLevel.AUTO or memory.is_open:
        shown = _at(episode, detailed_messages(episode, detail=detail))
        is_replaced = shows_turns(episode, detail=detail)
    else:
        is_replaced = memory.summary_by is SummaryBy.RULES
        shown = [*memory.messages] if is_replaced or memory.is_key_moment else []
    lines = [*map(message_line, shown)]
    return lines if is_replaced and lines else [one_line(memory.summary), *lines]


def _at(episode: RetrievedMemory[EpisodicMemory], places: frozenset[int]) -> list[Message]:
    return [message for place, message in enumerate(episode.memory.messages) if place in places]


def _document(
    hit: RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory], lines: Sequence[str], *, with_scores: bool
) -> MemoryDocument:
    memory = hit.memory
    ours = {"kind": memory.kind.value, "scope": memory.scope}
    if isinstance(memory, SemanticMemory):
        text = memory.fact
        ours |= {"category": memory.category.value, "created_at": iso(memory.created_at)}
    else:
        text = "\n".join(filter(None, (one_line(memory.title), *lines)))
        ours |= {"title": memory.title} if memory.title else {}
        times = {"created_at": memory.created_at, "start_at": memory.start_at, "end_at": memory.end_at}
        ours |= {name: iso(moment) for name, moment in times.items()}
    scores = _scores(hit) if with_scores else {}
    # no comma and no space, at which chains cut lists of sources
    address = f"memory://{quote(memory.scope, safe='/@')}#{quote(memory.id, safe='')}"
    return MemoryDocument(
        id=memory.id,
        text=text,
        metadata={"source": address} | copy.deepcopy(memory.metadata) | ours | scores,
        score=hit.score,
        relevance=hit.relevance,
    )


def _scores(hit: RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory]) -> JsonObject:
    why = hit.explanation
    values = (hit.relevance, why.fused_score, why.retrievability, why.dense_rank, why.bm25_rank)
    return {key: value for key, value in zip(SCORE_KEYS, values, strict=True) if value is not None}


def find_documents(
    memory: Memory,
    query: str,
    *,
    scope: str,
    k: int,
    detail: DetailLevel,
    with_scores: bool = False,
    max_tokens: int | None = None,
    token_counter: Callable[[str], int] = estimate_tokens,
    **options: Unpack[SearchOptions],
) -> list[MemoryDocument]:
    """Retrieve the ``k`` best memories of both kinds together, best first; none for an empty question.

    Args:
        memory: Memory to search.
        query: Text to search for; only beginning and end of one that is longer than the memory accepts.
        scope: Scope to search.
        k: Largest number of documents, 1 or more. A larger one adds documents and may order them otherwise, since
            relevance falls with rank and so depends on what is found behind.
        detail: Level of detail of an episode's text.
        with_scores: Add scores and ranks to the metadata.
        max_tokens: Tokens of all texts together at most, see :func:`within`; None is no budget.
        token_counter: Counts the tokens of a text; by default a token is four characters.
        **options: Category, filters and the like; those that are empty are left out.

    Raises:
        ValidationError: ``k`` is below 1, or the scope, the budget or an option is wrong.
    """
    room, k = parse_budget(max_tokens), parse_k(k)
    given = SearchOptions(**{name: value for name, value in options.items() if value not in (None, (), False)})  # type: ignore[typeddict-item]
    if isinstance(query, str):  # anything else is refused
        if not query.strip():
            return []  # as BM25Retriever and EnsembleRetriever do: a chain goes on
        query = asked_by(memory, query)
    result = memory.retrieve(query, scope=scope, episodic_limit=k, semantic_limit=k, limit=k, **given)
    found = documents(result.semantic, result.episodic, query=query, detail=detail, with_scores=with_scores)
    return found if room is None else within(found, room, token_counter=token_counter)


def parse_k(k: object) -> int:
    """Check that the largest number of documents is an integer of 1 or more."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValidationError(f"k must be an integer of at least 1, not {k!r}")
    return k


def within(
    found: Sequence[MemoryDocument], max_tokens: int, *, token_counter: Callable[[str], int]
) -> list[MemoryDocument]:
    """The documents that fit into a budget, in their order: facts whole, episodes without their last messages.

    Args:
        found: Best first.
        max_tokens: Largest number of tokens of all texts together.
        token_counter: Counts the tokens of a text.
    """
    kept: list[MemoryDocument] = []
    room = max_tokens
    for document in found:
        lines = document.text.split("\n")
        least = len(lines)
        if document.metadata["kind"] == Kind.EPISODIC:  # whose title alone says nothing
            least = min(least, 2 if document.metadata.get("title") else 1)
        for count in range(len(lines), least - 1, -1):
            text = "\n".join(lines[:count])
            if (tokens := token_counter(text)) <= room:
                kept.append(replace(document, text=text))
                room -= tokens
                break
    return kept


def profile_block(memory: Memory, scope: str, *, token_counter: Callable[[str], int]) -> tuple[str, frozenset[str]]:
    """What should always be known of a scope, between its tags, and the ids of its facts.

    Args:
        memory: Memory to read.
        scope: Scope of the profile.
        token_counter: Counts the tokens of a text.
    """
    shown = memory.profile(scope).fitting(token_counter=token_counter)
    return between_tags(shown.to_markdown(max_tokens=None), tag=PROFILE_TAG), frozenset(fact.id for fact in shown.facts)
