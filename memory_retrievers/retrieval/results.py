"""Results of retrievals: memories with their scores, and their forms as markdown, JSON and documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, DetailLevel, EpisodicMemory, JsonObject, SemanticMemory
from memory_retrievers.models.fields import iso
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import RetrievedMemory
from memory_retrievers.retrieval.budget import fitted, parse_budget, steps
from memory_retrievers.retrieval.excerpts import best_excerpts, excerpt_block, matched_turns, with_long_messages_cut
from memory_retrievers.retrieval.markdown import (
    ArrangedFacts,
    RenderPlan,
    detailed_messages,
    markdown_block,
    profile_lines,
    recent_block,
    shows_turns,
)
from memory_retrievers.settings import zone_of
from memory_retrievers.text.analysis import estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalResult:
    """The answer to a question: iterates over its facts, then its episodes, and is false if nothing was found.

    Attributes:
        query: What was asked, stripped.
        scope: The scope that was searched.
        now: When it was asked; relative times count from here.
        semantic: The facts, best first.
        episodic: The episodes, best first.
        fact_display_length: Longer facts are cut in markdown; None shows them as specified, whole and counting their
            sources even if there are none.
    """

    query: str
    scope: str
    now: datetime
    semantic: tuple[RetrievedMemory[SemanticMemory], ...] = ()
    episodic: tuple[RetrievedMemory[EpisodicMemory], ...] = ()
    fact_display_length: int | None = None

    def __len__(self) -> int:
        return len(self.semantic) + len(self.episodic)

    def __iter__(self) -> Iterator[RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory]]:
        yield from self.semantic
        yield from self.episodic

    def without_facts(self, ids: Collection[str]) -> RetrievalResult:
        """The result without the facts with these ids."""
        return replace(self, semantic=tuple(hit for hit in self.semantic if hit.memory.id not in ids))

    def to_markdown(
        self,
        detail: DetailLevel | str = DetailLevel.AUTO,
        *,
        max_tokens: int | None = None,
        token_counter: Callable[[str], int] = estimate_tokens,
    ) -> str:
        """The block for a model to read (specification §2.6); empty if nothing was found.

        Args:
            detail: Which episodes are shown with their messages: ``auto`` the first two if they were surprising,
                ``low`` the first, ``high`` all, ``none`` none. If rules wrote a summary, ``auto`` shows the messages
                that match instead, with dates. ``excerpts`` does so for every episode, with the messages that answer
                the question: about 30 at most without a budget. An episode without such a message, since only
                summaries were searched, is shown by its summary.
            max_tokens: The most tokens, at any level; the facts, summaries and messages are chosen that are expected to
                hold most of what was asked for.
            token_counter: Counts the tokens of a text for ``max_tokens``; by default a token is four characters.

        Raises:
            ValidationError: The detail level is unknown, or ``max_tokens`` is not a whole number from 0 on.
        """
        level, room, length = parse_detail(detail), parse_budget(max_tokens), self.fact_display_length
        facts = self.semantic if length is None else ArrangedFacts(self.semantic)
        episodes: Sequence[RetrievedMemory[EpisodicMemory]] = self.episodic
        if room is not None:
            episodes = with_long_messages_cut(episodes, query=self.query, max_tokens=room, token_counter=token_counter)
        # 1. the layout
        with_excerpts = level is DetailLevel.EXCERPTS
        turns = matched_turns(episodes, query=self.query) if with_excerpts or room is not None else []
        block: Callable[[RenderPlan], str]
        if with_excerpts:
            block = partial(
                excerpt_block, facts, episodes, turns=turns, zone=self.now.tzinfo, fact_display_length=length
            )
        else:
            by_turns = frozenset(place for place, each in enumerate(episodes) if shows_turns(each, detail=level))
            block = partial(
                markdown_block, facts, episodes, now=self.now, fact_display_length=length, by_turns=by_turns
            )
        # 2. as much as fits, or else what the level shows
        if room is not None:
            every = steps(facts, episodes, detail=level, turns=turns)
            return fitted(every, block=block, token_counter=token_counter, max_tokens=room)
        if with_excerpts:
            return block(best_excerpts(facts, episodes, turns=turns))
        messages = {place: detailed_messages(each, detail=level) for place, each in enumerate(episodes)}
        return block(RenderPlan(facts=frozenset(range(len(facts))), episodes=messages))

    def to_dict(self, *, explain: bool = False) -> JsonObject:
        """The raw form (specification §2.8): complete records; facts carry the fused score, episodes the final one.

        With ``explain`` also each memory's explanation, scope, metadata and tags, and when it was asked.
        """
        found: JsonObject = {
            "semantic": [
                _fact(hit.memory)
                | {"score": round(hit.explanation.fused_score, _DECIMALS)}
                | _standing(hit, explain=explain)
                for hit in self.semantic
            ],
            "episodic": [
                _episode(hit.memory) | {"score": round(hit.score, _DECIMALS)} | _standing(hit, explain=explain)
                for hit in self.episodic
            ],
        }
        if explain:
            found |= {"now": _with_offset(self.now), "fact_display_length": self.fact_display_length}
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentResult:
    """A scope's newest memories: iterates over its facts, then its episodes, and is false if there are none.

    Attributes:
        now: When it was asked; relative times count from here.
        episodic: The episodes, newest first.
        semantic: The facts, newest first; None if they were not requested.
        fact_display_length: Longer facts are cut in markdown; None shows them whole.
    """

    now: datetime
    episodic: tuple[EpisodicMemory, ...] = ()
    semantic: tuple[SemanticMemory, ...] | None = None
    fact_display_length: int | None = None

    def __len__(self) -> int:
        return len(self.semantic or ()) + len(self.episodic)

    def __iter__(self) -> Iterator[SemanticMemory | EpisodicMemory]:
        yield from self.semantic or ()
        yield from self.episodic

    def to_markdown(self, *, messages: bool = False) -> str:
        """The block for a model to read (specification §2.17); with ``messages`` also those of every episode."""
        return recent_block(
            self.episodic,
            now=self.now,
            messages=messages,
            facts=self.semantic or (),
            display_length=self.fact_display_length,
        )

    def to_dict(self, *, explain: bool = False) -> JsonObject:
        """The raw form: complete records, without scores; with facts if they were asked for.

        With ``explain`` also each memory's scope, metadata and tags, and when it was asked.
        """
        found: JsonObject = {} if self.semantic is None else {"semantic": list(map(_fact, self.semantic))}
        found["episodic"] = list(map(_episode, self.episodic))
        if not explain:
            return found
        for record, memory in zip(chain.from_iterable(found.values()), self, strict=True):
            record.update(_belongings(memory))
        found["now"] = _with_offset(self.now)
        return found if self.semantic is None else found | {"fact_display_length": self.fact_display_length}


def parse_detail(detail: DetailLevel | str) -> DetailLevel:
    """The level a caller, perhaps a language model, has named in any case of letters."""
    try:
        return DetailLevel(str(detail).strip().lower())
    except ValueError:
        raise ValidationError(f"unknown detail {str(detail)[:80]!r}; one of: {', '.join(DetailLevel)}") from None


_DECIMALS = 6


def _with_offset(moment: datetime) -> str:
    """The moment as ISO 8601, in its own time zone: whoever reads it counts days by it."""
    return moment.isoformat() if moment.utcoffset() else iso(moment)


def _standing(hit: RetrievedMemory[SemanticMemory] | RetrievedMemory[EpisodicMemory], *, explain: bool) -> JsonObject:
    """The relevance of a hit, if it has one; to explain it, in full precision, all else that is known of it."""
    relevance: JsonObject = {"relevance": round(hit.relevance, _DECIMALS)} if hit.is_judged else {}
    if not explain:
        return relevance
    matches = [{"part": match.part, "messages": list(match.messages), "score": match.score} for match in hit.matches]
    found = {"relevance": hit.relevance, "explanation": asdict(hit.explanation), "matches": matches}
    return relevance | _belongings(hit.memory) | found


def _belongings(memory: SemanticMemory | EpisodicMemory) -> JsonObject:
    belongings: JsonObject = {"scope": memory.scope, "metadata": memory.metadata, "tags": list(memory.tags)}
    if isinstance(memory, EpisodicMemory):
        belongings |= {"conversation": memory.conversation_id, "summary_by": memory.summary_by.value}
    return belongings


def _fact(memory: SemanticMemory) -> JsonObject:
    return {
        "id": memory.id,
        "conversation_id": memory.scope,
        "category": str(memory.category),
        "fact": memory.fact,
        "keywords": list(memory.keywords),
        "source_episodic_ids": list(memory.source_episodic_ids),
        "valid_at": iso(memory.valid_at),
        "invalid_at": memory.invalid_at and iso(memory.invalid_at),
    }


def _episode(memory: EpisodicMemory) -> JsonObject:
    return {
        "id": memory.id,
        "conversation_id": memory.scope,
        "messages": [_message(message) for message in memory.messages],
        "title": memory.title,
        "summary": memory.summary,
        "stability": round(memory.stability, _DECIMALS),
        "difficulty": round(memory.difficulty, _DECIMALS),
        "surprise": round(memory.surprise, _DECIMALS),
        "start_at": iso(memory.start_at),
        "end_at": iso(memory.end_at),
        "created_at": iso(memory.created_at),
        "last_reviewed_at": iso(memory.last_reviewed_at),
        "consolidated_at": memory.consolidated_at and iso(memory.consolidated_at),
        **({"is_open": True} if memory.is_open else {}),
    }


def _message(message: Message) -> JsonObject:
    when = {} if message.timestamp is None else {"timestamp": iso(message.timestamp)}
    return {"role": message.role, "content": message.content} | when


PROFILE_TOKENS: Final = 300  # tokens of a profile at most, unless its caller says otherwise: it stands in every prompt
MOST_FACTS: Final = 200  # facts that a profile is chosen from at most: more never fit

_ORDER: Final = (Category.GUIDELINE, Category.IDENTITY, Category.PREFERENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model should always know of a scope: iterates over its facts, and is false if there are none.

    Attributes:
        scope: The scope.
        facts: Its guidelines, its facts of identity and preference, then other pinned facts; each group oldest first.
        fact_display_length: Longer facts are cut in markdown; None shows them whole.
        time_zone: Name of the time zone of the days in markdown.
    """

    scope: str
    facts: tuple[SemanticMemory, ...] = ()
    fact_display_length: int | None = None
    time_zone: str = "UTC"

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[SemanticMemory]:
        return iter(self.facts)

    def to_markdown(
        self, *, max_tokens: int | None = PROFILE_TOKENS, token_counter: Callable[[str], int] = estimate_tokens
    ) -> str:
        """The block for a model to read, with the facts of :meth:`fitting`; empty if there are none.

        It depends on the facts alone: not on the time, on what was asked, or on how often they were used.

        Args:
            max_tokens: The most tokens; None sets no limit.
            token_counter: Counts the tokens of a text; by default a token is four characters.

        Raises:
            ValidationError: ``max_tokens`` is not a whole number from 0 on.
        """
        fitting = self.fitting(max_tokens=max_tokens, token_counter=token_counter)
        return "\n".join(_lines_of(fitting))

    def fitting(
        self, *, max_tokens: int | None = PROFILE_TOKENS, token_counter: Callable[[str], int] = estimate_tokens
    ) -> Profile:
        """The profile with the facts that fit: pinned first, then guidelines, identity and preferences, newest first.

        Args:
            max_tokens: The most tokens of the markdown; None sets no limit.
            token_counter: Counts the tokens of a text; by default a token is four characters.

        Raises:
            ValidationError: ``max_tokens`` is not a whole number from 0 on.
        """
        room = parse_budget(max_tokens)
        lines = _lines_of(self)
        if room is None or token_counter("\n".join(lines)) <= room:
            return self
        kept = replace(self, facts=self._kept(lines, room, token_counter))
        return kept.fitting(max_tokens=room, token_counter=token_counter)  # without its rivals a fact may be dated anew

    def to_dict(self) -> JsonObject:
        """The facts, in order, complete, as JSON."""
        facts = [fact.model_dump(mode="json") for fact in self.facts]
        return {"facts": facts, "fact_display_length": self.fact_display_length, "time_zone": self.time_zone}

    def _kept(self, lines: Sequence[str], room: int, counter: Callable[[str], int]) -> tuple[SemanticMemory, ...]:
        """The facts that fit, those that matter most first; one that is too long leaves its place to the next."""
        kept: list[int] = []
        for *_, place in sorted((not fact.is_pinned, _place(fact), -at) for at, fact in enumerate(self.facts)):
            chosen = sorted([*kept, -place])
            if counter("\n".join(lines[each] for each in chosen)) <= room:
                kept = chosen
        return tuple(self.facts[place] for place in kept)


def _lines_of(profile: Profile) -> list[str]:
    zone = zone_of(profile.time_zone)
    return profile_lines(profile.facts, display_length=profile.fact_display_length, zone=zone)


def profile_order(fact: SemanticMemory) -> tuple[int, str, str]:
    """Where a fact stands in a profile."""
    return _place(fact), iso(fact.created_at), fact.id


def _place(fact: SemanticMemory) -> int:
    return _ORDER.index(fact.category) if fact.category in _ORDER else len(_ORDER)
