"""Tools about scopes: list those that hold memories, suggest one for a text, and manage sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate, chain, count, pairwise
from typing import Annotated, Final

from pydantic import Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import AnyMemory, JsonObject, Origin, SemanticDraft, scopes
from memory_retrievers.models.fields import iso
from memory_retrievers.models.management import MemoryFilter, ToolKinds
from memory_retrievers.text.analysis import has_word
from memory_retrievers.text.dates import just_before
from memory_retrievers.tools.arguments import Content, Id, ManagementArguments, one_of, within
from memory_retrievers.tools.tool import ROOT, Answer, ToolContext

ALTERNATIVES: Final = 3


class ScopeListArguments(ManagementArguments):
    """Arguments of ``scope_list``."""

    parent_scope: Annotated[
        str | None, Field(description="Only the scopes directly below this one; leave it out for all.")
    ] = None
    include_memory_counts: Annotated[bool, Field(description="Whether to count the memories of each scope.")] = True


def scope_list(context: ToolContext, arguments: ScopeListArguments) -> Answer:
    """The scopes within the root that hold memories, by name; a parent's direct children if one is named."""
    counts = {context.shown(scope): count for scope, count in context.manager.scopes(root=context.root).items()}
    children = _children(counts)
    names, trees = sorted(counts), [ROOT] if ROOT in counts else sorted(children.get(ROOT, ()))
    if arguments.parent_scope is not None:
        names = trees = sorted(children.get(context.shown(context.scope_named(arguments.parent_scope)), ()))
    shown = counts if arguments.include_memory_counts else {}
    return Answer(
        {"success": True, "scope_count": len(names)},
        {"scopes": [{"name": name, "memory_count": shown.get(name, 0)} for name in names]},
        lambda: {
            "hierarchy": [_tree(name, children, shown) for name in trees],
            "statistics": {
                "total_scopes": len(counts),
                "filtered_scopes": len(names),
                "include_memory_counts": arguments.include_memory_counts,
            },
        },
    )


def _children(names: Iterable[str]) -> dict[str, set[str]]:
    """The direct children of every scope, also those that hold no memory themselves but have one below them."""
    children: dict[str, set[str]] = {}
    for name in names:
        segments = () if name == ROOT else name.split("/")
        path = list(accumulate(segments, "{}/{}".format))
        for parent, child in pairwise([ROOT, *path]):
            children.setdefault(parent, set()).add(child)
    return children


def _tree(name: str, children: Mapping[str, Collection[str]], counts: Mapping[str, int]) -> JsonObject:
    """A scope with all that are below it, each within its parent; no deeper than scopes can be."""
    below = [_tree(child, children, counts) for child in sorted(children.get(name, ()))]
    return {"scope": name, "memory_count": counts.get(name, 0), "child_scopes": below}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A scope that would suit a text."""

    scope: str  # the scope, relative to the root
    confidence: float  # 0 to 1
    reasoning: str  # why, in a sentence
    words: tuple[str, ...] = ()  # the words of the text that speak for it


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
_DEFAULT: Final = Suggestion(
    scope="user/default", confidence=0.5, reasoning="No word of the text speaks for any other scope."
)


def suggestions(content: str, *, current_scope: str) -> list[Suggestion]:
    """Every scope that would suit, the best first; there is always one (specification §4.3).

    >>> [each.scope for each in suggestions("A good C++ tutorial", current_scope=".")]
    ['learning/programming', 'learning/general']
    """
    found = [
        Suggestion(scope=scope, confidence=confidence, reasoning=f"The text says {', '.join(said)}.", words=said)
        for scope, confidence, words in _KEYWORDS
        if (said := tuple(word for word in words.split() if has_word(content.casefold(), word)))
    ]
    found += [
        Suggestion(
            scope=f"{place}general", confidence=_NEIGHBOUR_CONFIDENCE, reasoning="The current scope is a neighbour."
        )
        for place in _NEIGHBOURS
        if current_scope.startswith(place) and not any(each.scope.startswith(place) for each in found)
    ]
    return sorted(found, key=lambda each: -each.confidence) or [_DEFAULT]


class ScopeSuggestArguments(ManagementArguments):
    """Arguments of ``scope_suggest``."""

    content: Annotated[Content, Field(description="The text to store.")]
    current_scope: Annotated[
        str | None, Field(description="The scope in use now; it helps when the text itself says little.")
    ] = None


def scope_suggest(context: ToolContext, arguments: ScopeSuggestArguments) -> Answer:
    """The scope that suits a text best, and up to three others."""
    current = context.shown(context.scope_named(arguments.current_scope))
    best, *others = suggestions(arguments.content, current_scope=current)
    return Answer(
        {"success": True, "suggested_scope": best.scope},
        {"confidence": best.confidence, "alternatives": [_brief(each) for each in others[:ALTERNATIVES]]},
        lambda: {
            "suggestion_analysis": {
                "current_scope": current,
                "matched_keywords": list(best.words),
                "content_length": len(arguments.content),
            },
            "all_alternatives": [_brief(each) | {"reasoning": each.reasoning} for each in others],
            "reasoning": best.reasoning,
        },
    )


def _brief(suggestion: Suggestion) -> JsonObject:
    return {"scope": suggestion.scope, "confidence": suggestion.confidence}


SESSIONS: Final = "session"
MARKER_TAGS: Final = ("session", "marker")
MOST_DAYS: Final = 36_500


class Action(StrEnum):
    """Action on sessions."""

    CREATE = "create"
    LIST = "list"
    CLEANUP = "cleanup"


class SessionArguments(ManagementArguments):
    """Arguments of ``session_manage``."""

    action: Annotated[
        Action,
        *one_of(Action, refusal="Unknown"),
        Field(description="create a session, list all of them, or cleanup: delete old memories in them."),
    ]
    session_id: Annotated[
        Id | None, Field(description="The session; leave it out for a new id, or for all sessions.")
    ] = None
    max_age_days: Annotated[int, *within(0, MOST_DAYS, "For cleanup: maximum age of a memory in days.")] = 7


def session_manage(context: ToolContext, arguments: SessionArguments) -> Answer:
    """Create, list or clean up sessions (specification §4.3); each lives in ``{root}/session/{id}``."""
    match arguments.action:
        case Action.CREATE:
            return _create_session(context, arguments.session_id)
        case Action.LIST:
            return _list_sessions(context, arguments.session_id)
        case Action.CLEANUP:
            return _clean_up(context, arguments.session_id, max_age=timedelta(days=arguments.max_age_days))


def _create_session(context: ToolContext, given: str | None) -> Answer:
    """A session with its marker; one that is there already stays as it is."""
    manager = context.manager
    now = manager.now()
    first = given or f"session-{now:%Y%m%d-%H%M%S}"
    for name in chain([first], (f"{first}-{number}" for number in count(2))):  # another may be of the same second
        scope, text = _session_scope(context, name), f"Session created: {name}"
        marker = SemanticDraft(scope=scope, fact=text, tags=MARKER_TAGS, origin=Origin.TOOL, created_at=now)
        with manager.transaction(scope):  # so that two who create one in the same second get two
            there = manager.select(MemoryFilter(scope=scope, include_child_scopes=True, kinds=context.seen))
            added = [] if there else manager.add([marker])
        if added or given:
            break
    session = _session(context, name, [*there, *added])
    summary = f"Session exists already: {name}" if there else text
    details = {
        "session_details": session | {"tags": list(MARKER_TAGS)},
        "affected_memories": [each.id for each in added],
    }
    standard = {"session_info": session, "action_summary": summary}
    return Answer({"success": True, "session_id": name}, standard, lambda: details)


def _list_sessions(context: ToolContext, given: str | None) -> Answer:
    found = _sessions(context, given, kinds=context.seen)
    sessions = [_session(context, name, memories) for name, memories in found.items()]
    brief = [{key: value for key, value in each.items() if key != "scope"} for each in sessions]
    info = {"session_count": len(sessions), "sessions": brief}
    summary = f"{len(sessions)} {'session' if len(sessions) == 1 else 'sessions'}"
    details = {"session_details": {"sessions": sessions}, "affected_memories": []}
    return Answer({"success": True}, {"session_info": info, "action_summary": summary}, lambda: details)


def _clean_up(context: ToolContext, given: str | None, *, max_age: timedelta) -> Answer:
    cutoff = context.manager.now() - max_age
    old = _sessions(context, given, kinds=context.deleted, older_than=cutoff)
    memories = [memory for of_session in old.values() for memory in of_session]
    if memories:
        context.manager.delete(memories)
    left = _sessions(context, given, kinds=context.seen)
    info = {"session_count": len(left), "cleaned_count": len(memories)}
    details = {
        "session_details": {"sessions": [_session(context, name, of_it) for name, of_it in left.items()]},
        "affected_memories": [memory.id for memory in memories],
        "cleanup_stats": {"cleaned_count": len(memories), "cleaned_sessions": list(old), "cutoff_date": iso(cutoff)},
    }
    summary = f"Removed {len(memories)} memories of {len(old)} sessions"
    return Answer({"success": True}, {"session_info": info, "action_summary": summary}, lambda: details)


def _session_scope(context: ToolContext, id: str) -> str:
    if "/" in id:
        raise ValidationError("session_id must not contain a slash")
    return scopes.join(context.root, f"{SESSIONS}/{id}")


def _sessions(
    context: ToolContext, given: str | None, *, kinds: ToolKinds, older_than: datetime | None = None
) -> dict[str, list[AnyMemory]]:
    """The memories of each session, by its id; of one session if it is given."""
    above = scopes.join(context.root, SESSIONS)
    scope = above if given is None else _session_scope(context, given)
    found: dict[str, list[AnyMemory]] = {}
    for memory in context.manager.select(
        MemoryFilter(scope=scope, include_child_scopes=True, kinds=kinds, created_before=just_before(older_than))
    ):
        if memory.scope != above:
            name = memory.scope.removeprefix(f"{above}/").split("/", 1)[0]
            found.setdefault(name, []).append(memory)
    return dict(sorted(found.items()))


def _session(context: ToolContext, id: str, memories: Sequence[AnyMemory]) -> JsonObject:
    session: JsonObject = {
        "session_id": id,
        "scope": context.shown(_session_scope(context, id)),
        "memory_count": len(memories),
    }
    if memories:
        session["created_at"] = iso(min(memory.created_at for memory in memories))
        session["last_activity"] = iso(max(max(memory.created_at, memory.updated_at) for memory in memories))
    return session
