"""The tool for sessions: scopes below ``session`` that hold what only one piece of work needs, until they are old."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from memory_retrievers import scopes
from memory_retrievers.errors import ValidationError
from memory_retrievers.managed import MemoryFilter
from memory_retrievers.models import AnyMemory, JsonObject, Origin, SemanticDraft
from memory_retrievers.rendering.levels import levels
from memory_retrievers.rendering.raw import iso
from memory_retrievers.tools.parameters import whole_number
from memory_retrievers.tools.spec import ManagementArguments, ToolContext, ToolOutput

SESSIONS: Final = "session"
MARKER_TAGS: Final = ("session", "marker")
MOST_DAYS: Final = 36_500


class Action(StrEnum):
    """What is to be done with sessions."""

    CREATE = "create"
    LIST = "list"
    CLEANUP = "cleanup"


def _read_action(value: object) -> Action:
    try:
        return Action(str(value).strip().lower())
    except ValueError:
        raise ValidationError(f"Unknown action: {str(value)[:80]}. Must be one of: {', '.join(Action)}") from None


class SessionArguments(ManagementArguments):
    """Arguments of ``session_manage``."""

    action: Annotated[
        Action,
        BeforeValidator(_read_action),
        WithJsonSchema({"type": "string", "enum": [action.value for action in Action]}),
        Field(description="create a session, list all of them, or cleanup what is old in them."),
    ]
    session_id: Annotated[
        str | None, Field(description="The session; leave it out to have a new id made, or to mean all sessions.")
    ] = None
    max_age_days: Annotated[
        int, *whole_number("max_age_days", 0, MOST_DAYS, "For cleanup: how many days a memory may be old.")
    ] = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What an action has to tell."""

    session_id: str | None = None
    info: JsonObject
    summary: str
    details: JsonObject
    affected: Sequence[str] = ()
    cleanup: JsonObject | None = None


def session_manage(context: ToolContext, arguments: SessionArguments) -> ToolOutput:
    """Create, list or clean up sessions (specification §4.3); each lives in ``{root}/session/{id}``."""
    match arguments.action:
        case Action.CREATE:
            told = _create(context, arguments.session_id)
        case Action.LIST:
            told = _list(context, arguments.session_id)
        case Action.CLEANUP:
            told = _cleanup(context, arguments.session_id, max_age=timedelta(days=arguments.max_age_days))
    return ToolOutput.of(
        levels(
            {"success": True, "session_id": told.session_id},
            {"session_info": told.info, "action_summary": told.summary},
            {
                "session_details": told.details,
                "affected_memories": list(told.affected),
                "cleanup_stats": told.cleanup,
            },
            level=arguments.response_level,
        )
    )


def _create(context: ToolContext, given: str | None) -> _Told:
    """A session with its marker; one that is there already stays as it is."""
    manager = context.manager
    now = manager.now()
    for name in [given] if given else _ids(now):
        scope, text = _scope(context, name), f"Session created: {name}"
        marker = SemanticDraft(scope=scope, fact=text, tags=MARKER_TAGS, origin=Origin.TOOL, created_at=now)
        with manager.transaction(scope):  # so that two who create one in the same second get two
            there = _memories(context, name)
            added = [] if there else manager.add([marker])
        if added or given:
            break
    session = _session(context, name, [*there, *added])
    return _Told(
        session_id=name,
        info=session,
        summary=f"Session exists already: {name}" if there else text,
        details=session | {"tags": list(MARKER_TAGS)},
        affected=[memory.id for memory in added],
    )


def _list(context: ToolContext, given: str | None) -> _Told:
    found = _sessions(context, given)
    sessions = [_session(context, name, memories) for name, memories in found.items()]
    return _Told(
        info={"session_count": len(sessions), "sessions": [_without_scope(session) for session in sessions]},
        summary=f"{len(sessions)} {'session' if len(sessions) == 1 else 'sessions'}",
        details={"sessions": sessions},
    )


def _cleanup(context: ToolContext, given: str | None, *, max_age: timedelta) -> _Told:
    cutoff = context.manager.now() - max_age
    old = _sessions(context, given, older_than=cutoff)
    memories = [memory for of_session in old.values() for memory in of_session]
    if memories:
        context.manager.delete(memories)
    left = _sessions(context, given)
    return _Told(
        info={"session_count": len(left), "cleaned_count": len(memories)},
        summary=f"Removed {len(memories)} memories of {len(old)} sessions",
        details={"sessions": [_session(context, name, of_it) for name, of_it in left.items()]},
        affected=[memory.id for memory in memories],
        cleanup={"cleaned_count": len(memories), "cleaned_sessions": list(old), "cutoff_date": iso(cutoff)},
    )


def _ids(now: datetime) -> Iterator[str]:
    """Ids for a new session, in case another was created in the same second."""
    first = f"session-{now:%Y%m%d-%H%M%S}"
    yield first
    for number in count(2):
        yield f"{first}-{number}"


def _scope(context: ToolContext, id: str) -> str:
    if "/" in id:
        raise ValidationError("session_id must not contain a slash")
    return scopes.join(context.root, f"{SESSIONS}/{id}")


def _memories(context: ToolContext, id: str) -> list[AnyMemory]:
    return context.manager.select(
        MemoryFilter(scope=_scope(context, id), include_child_scopes=True, kinds=context.kinds)
    )


def _sessions(
    context: ToolContext, given: str | None, *, older_than: datetime | None = None
) -> dict[str, list[AnyMemory]]:
    """The memories of each session, by its id; of one session if it is given."""
    above = scopes.join(context.root, SESSIONS)
    scope = above if given is None else _scope(context, given)
    found: dict[str, list[AnyMemory]] = {}
    for memory in context.manager.select(
        MemoryFilter(scope=scope, include_child_scopes=True, kinds=context.kinds, older_than=older_than)
    ):
        if memory.scope != above:
            name = memory.scope.removeprefix(f"{above}/").split("/", 1)[0]
            found.setdefault(name, []).append(memory)
    return dict(sorted(found.items()))


def _session(context: ToolContext, id: str, memories: Sequence[AnyMemory]) -> JsonObject:
    session: JsonObject = {"session_id": id, "scope": context.shown(_scope(context, id)), "memory_count": len(memories)}
    if memories:
        session["created_at"] = iso(min(memory.created_at for memory in memories))
        session["last_activity"] = iso(max(max(memory.created_at, memory.updated_at) for memory in memories))
    return session


def _without_scope(session: JsonObject) -> JsonObject:
    return {key: value for key, value in session.items() if key != "scope"}
