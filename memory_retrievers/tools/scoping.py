"""The tools about scopes themselves: which there are, and which would suit a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.models import JsonObject
from memory_retrievers.rendering.levels import levels
from memory_retrievers.tools.parameters import Content
from memory_retrievers.tools.scopes_of_models import ROOT
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput

ALTERNATIVES: Final = 3


class ScopeListArguments(ManagementArguments):
    """Arguments of ``scope_list``."""

    parent_scope: Annotated[
        str | None, Field(description="Only the scopes directly below this one; leave it out for all.")
    ] = None
    include_memory_counts: Annotated[bool, Field(description="Whether to count the memories of each scope.")] = True


def scope_list(context: ToolContext, arguments: ScopeListArguments) -> ToolOutput:
    """The scopes within the root that hold memories, by name; a parent's direct children if one is named."""
    counts = {context.shown(scope): count for scope, count in context.manager.scopes(root=context.root).items()}
    names = sorted(counts)
    if arguments.parent_scope is not None:
        names = _children(counts, context.shown(context.scope_named(arguments.parent_scope)))
    shown = counts if arguments.include_memory_counts else {}
    return ToolOutput.of(
        levels(
            {"success": True, "scope_count": len(names)},
            {"scopes": [{"name": name, "memory_count": shown.get(name, 0)} for name in names]},
            {
                "hierarchy": [
                    {
                        "scope": name,
                        "memory_count": shown.get(name, 0),
                        "child_scopes": sorted(other for other in counts if _is_below(other, name)),
                    }
                    for name in names
                ],
                "statistics": {
                    "total_scopes": len(counts),
                    "filtered_scopes": len(names),
                    "include_memory_counts": arguments.include_memory_counts,
                },
            },
            level=arguments.response_level,
        )
    )


def _is_below(scope: str, parent: str) -> bool:
    return scope != ROOT and (parent == ROOT or scope.startswith(f"{parent}/"))


def _children(counts: Mapping[str, int], parent: str) -> list[str]:
    """The direct children, also those that hold no memory themselves but have one below them."""
    skipped = 0 if parent == ROOT else len(parent) + 1
    below = [scope for scope in counts if _is_below(scope, parent)]
    return sorted({scope[:skipped] + scope[skipped:].split("/", 1)[0] for scope in below})


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A scope that would suit a text.

    Attributes:
        scope: The scope, relative to the root.
        confidence: 0 to 1.
        words: The words of the text that speak for it.
    """

    scope: str
    confidence: float
    words: tuple[str, ...] = ()

    @property
    def reasoning(self) -> str:
        """Why, in a sentence."""
        return f"The text says {', '.join(self.words)}." if self.words else _NO_WORDS.get(self.scope, _NEIGHBOUR)


_KEYWORDS: Final[tuple[tuple[str, float, str], ...]] = (
    ("learning/programming", 0.9, "python javascript typescript java c++ rust go"),
    ("learning/api-design", 0.8, "api rest graphql endpoint http"),
    ("work/meetings", 0.9, "meeting standup retrospective planning"),
    ("work/projects", 0.8, "project deadline milestone task"),
    ("work/debugging", 0.85, "bug issue error debug fix"),
    ("personal/thoughts", 0.9, "personal private diary journal"),
    ("personal/ideas", 0.8, "idea innovation brainstorm concept"),
    ("learning/general", 0.8, "learn study tutorial course training"),
)
_NEIGHBOURS: Final = ("work/", "learning/")
_NEIGHBOUR_CONFIDENCE: Final = 0.6
_NEIGHBOUR: Final = "The current scope is a neighbour."
_DEFAULT: Final = Suggestion(scope="user/default", confidence=0.5)
_NO_WORDS: Final = {_DEFAULT.scope: "No word of the text speaks for any other scope."}


def suggestions(content: str, *, current_scope: str) -> list[Suggestion]:
    """Every scope that would suit, the best first; there is always one (specification §4.3).

    Words count whole and in any case: "good" does not say "go".

    >>> [each.scope for each in suggestions("A good C++ tutorial", current_scope=".")]
    ['learning/programming', 'learning/general']
    """
    found = [
        Suggestion(scope=scope, confidence=confidence, words=said)
        for scope, confidence, words in _KEYWORDS
        if (said := tuple(word for word in words.split() if _says(content, word)))
    ]
    found += [
        Suggestion(scope=f"{place}general", confidence=_NEIGHBOUR_CONFIDENCE)
        for place in _NEIGHBOURS
        if current_scope.startswith(place) and not any(each.scope.startswith(place) for each in found)
    ]
    return sorted(found, key=lambda each: -each.confidence) or [_DEFAULT]


def _says(content: str, word: str) -> bool:
    # look-arounds, since \b finds no border behind the last plus of c++
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", content, re.IGNORECASE) is not None


class ScopeSuggestArguments(ManagementArguments):
    """Arguments of ``scope_suggest``."""

    content: Annotated[Content, Field(description="The text that is to be stored.")]
    current_scope: Annotated[
        str | None, Field(description="The scope in use now; it helps when the text itself says little.")
    ] = None


def scope_suggest(context: ToolContext, arguments: ScopeSuggestArguments) -> ToolOutput:
    """The scope that suits a text best, and up to three others."""
    current = context.shown(context.scope_named(arguments.current_scope))
    best, *others = suggestions(arguments.content, current_scope=current)
    return ToolOutput.of(
        levels(
            {"success": True, "suggested_scope": best.scope},
            {
                "confidence": best.confidence,
                "alternatives": [_brief(each) for each in others[:ALTERNATIVES]],
            },
            {
                "suggestion_analysis": {
                    "current_scope": current,
                    "matched_keywords": list(best.words),
                    "content_length": len(arguments.content),
                },
                "all_alternatives": [_brief(each) | {"reasoning": each.reasoning} for each in others],
                "reasoning": best.reasoning,
            },
            level=arguments.response_level,
        )
    )


def _brief(suggestion: Suggestion) -> JsonObject:
    return {"scope": suggestion.scope, "confidence": suggestion.confidence}
