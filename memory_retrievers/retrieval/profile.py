"""Profile of a scope: what a model should always know, the same text until one of its facts changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memory_retrievers.models import Category, JsonObject, SemanticMemory
from memory_retrievers.retrieval.budget import parse_budget
from memory_retrievers.retrieval.markdown import profile_lines
from memory_retrievers.text.analysis import estimate_tokens
from memory_retrievers.text.dates import iso

PROFILE_TOKENS: Final = 300
"""Tokens of a profile at most, unless its caller says otherwise: it stands in every prompt."""

MOST_FACTS: Final = 200
"""Facts that a profile is chosen from at most: more never fit."""

_ORDER: Final = (Category.GUIDELINE, Category.IDENTITY, Category.PREFERENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a model should always know of a scope.

    Attributes:
        scope: The scope.
        facts: Its guidelines, its facts of identity and preference, then what is pinned besides; each oldest first.
        fact_display_length: Longer facts are cut in markdown; None shows them whole.
    """

    scope: str
    facts: tuple[SemanticMemory, ...] = ()
    fact_display_length: int | None = None

    def to_markdown(
        self, *, max_tokens: int | None = PROFILE_TOKENS, token_counter: Callable[[str], int] = estimate_tokens
    ) -> str:
        """The block for a model to read, of the facts of :meth:`fitting`; empty where there is nothing to know.

        It depends on the facts alone: not on the time, on what was asked, or on how often they were used.

        Args:
            max_tokens: Render no more than this; None is no budget.
            token_counter: How many tokens a text is; by default a token is four characters.

        Raises:
            ValidationError: ``max_tokens`` is not a whole number from 0 on.
        """
        fitting = self.fitting(max_tokens=max_tokens, token_counter=token_counter)
        return "\n".join(profile_lines(fitting.facts, display_length=self.fact_display_length))

    def fitting(
        self, *, max_tokens: int | None = PROFILE_TOKENS, token_counter: Callable[[str], int] = estimate_tokens
    ) -> Profile:
        """The profile with the facts that fit: pinned first, then guidelines, identity and preferences, newest first.

        Args:
            max_tokens: So many tokens of markdown at most; None is no budget.
            token_counter: How many tokens a text is; by default a token is four characters.

        Raises:
            ValidationError: ``max_tokens`` is not a whole number from 0 on.
        """
        room = parse_budget(max_tokens)
        lines = profile_lines(self.facts, display_length=self.fact_display_length)
        if room is None or token_counter("\n".join(lines)) <= room:
            return self
        kept = replace(self, facts=self._kept(lines, room, token_counter))
        return kept.fitting(max_tokens=room, token_counter=token_counter)  # without its rivals a fact may be dated anew

    def to_dict(self) -> JsonObject:
        """The facts, in order, complete, as JSON."""
        facts = [fact.model_dump(mode="json") for fact in self.facts]
        return {"facts": facts, "fact_display_length": self.fact_display_length}

    def _kept(self, lines: Sequence[str], room: int, counter: Callable[[str], int]) -> tuple[SemanticMemory, ...]:
        """The facts that fit, those that matter most first; one that is too long leaves its place to the next."""
        kept: list[int] = []
        for *_, place in sorted((not fact.is_pinned, _place(fact), -at) for at, fact in enumerate(self.facts)):
            chosen = sorted([*kept, -place])
            if counter("\n".join(lines[each] for each in chosen)) <= room:
                kept = chosen
        return tuple(self.facts[place] for place in kept)


def profile_of(scope: str, facts: Sequence[SemanticMemory], *, fact_display_length: int | None) -> Profile:
    """Put the facts of a profile in order.

    Args:
        scope: Their scope.
        facts: In any order.
        fact_display_length: Longer facts are cut in markdown; None shows them whole.
    """
    ordered = sorted(facts, key=lambda fact: (_place(fact), iso(fact.created_at), fact.id))
    return Profile(scope=scope, facts=tuple(ordered), fact_display_length=fact_display_length)


def _place(fact: SemanticMemory) -> int:
    return _ORDER.index(fact.category) if fact.category in _ORDER else len(_ORDER)
