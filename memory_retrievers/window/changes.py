"""Changes made in a window, through what the memory tools use: each is noted, and undone where that can be exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field

from memory_retrievers.errors import NotFoundError, ValidationError
from memory_retrievers.models import AnyMemory, EpisodicMemory, JsonObject, MemoryKey, SemanticDraft, SemanticMemory
from memory_retrievers.models.fields import ShortText
from memory_retrievers.models.management import Change
from memory_retrievers.models.memories import PINNED_IMPORTANCE
from memory_retrievers.server.responses import HTTPError
from memory_retrievers.tools.arguments import check_limits
from memory_retrievers.window.state import Entry, Undo, Window
from memory_retrievers.window.views import MESSAGE_SHOWN, Query, actions_of, memory_shape

Action = Literal["correct", "update", "invalidate", "pin", "unpin", "tag", "merge", "move", "forget", "forget_message"]

UNDOABLE: Final = frozenset({"correct", "update", "invalidate", "pin", "unpin", "tag", "move"})

_QUOTED: Final = 200


class PreviewBody(Query):
    """Request for the effects of an action, before it is taken."""

    action: Literal["forget", "merge", "move"]
    scope: str
    id: ShortText
    other: ShortText | None = None
    to: str | None = None


class ActBody(Query):
    """An action on a memory."""

    action: Action
    scope: str
    id: ShortText
    text: str | None = None
    tags: tuple[str, ...] | None = None
    place: Annotated[int, Field(ge=0)] | None = None
    other: ShortText | None = None
    to: str | None = None


class UndoBody(Query):
    """A change to undo."""

    change: Annotated[str, Field(max_length=64)]


class ChangesQuery(Query):
    """The last changes."""

    scope: str | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


def changes(window: Window, query: ChangesQuery) -> JsonObject:
    """List the last changes within reach, newest first, each with the current text of its memory, if it exists."""
    within = window.settings.root if query.scope is None else window.reach(query.scope)
    found: list[JsonObject] = []
    for entry in window.journal.newest():
        if len(found) == query.limit:
            break
        if within is None or entry.scope == within or entry.scope.startswith(f"{within}/"):
            found.append(_entry(window, entry))
    return {"changes": found}


def _entry(window: Window, entry: Entry) -> JsonObject:
    known = window.undo.get(entry.change)
    scope = entry.scope if known is None else known.after.scope  # where it is now
    try:
        memory = window.memory.get(entry.id, scope=scope)
        text = memory.title or memory.summary if isinstance(memory, EpisodicMemory) else memory.fact
    except (NotFoundError, ValidationError):
        text = ""
    undoable = bool(text) and not window.settings.read_only and known is not None
    return asdict(entry) | {"scope": scope, "text": text[:_QUOTED], "undoable": undoable}


def preview(window: Window, body: PreviewBody) -> JsonObject:
    """List what an action would delete."""
    memory = _for(window, body)
    if body.action == "move":
        _target(window, body.to)
        goes = [{"what": "memories", "count": 1}]
        note = "It keeps its id, times and versions. Pending reviews and characters of its old scope lose it."
        return {"goes": goes, "note": note}
    gone = _other(window, body, memory) if body.action == "merge" else memory
    messages = len(gone.messages) if isinstance(gone, EpisodicMemory) else 0
    counted = {"memories": 1, "messages": messages, **window.memory.overview.traces(gone.scope, id=gone.id)}
    notes = {
        "merge": "This one gets the other's tags, metadata and sources; the other is deleted permanently.",
        "forget": "It is deleted permanently, with every trace. What was learned from it stays.",
    }
    return {
        "goes": [{"what": what, "count": count} for what, count in counted.items() if count],
        "note": notes[body.action],
    }


def _for(window: Window, body: PreviewBody | ActBody) -> AnyMemory:
    """Return the memory of an action, if its state allows the action."""
    memory = window.find(body.id, scope=body.scope)
    possible = actions_of(memory, now=window.memory.now())
    if body.action not in possible:
        if body.action in {"pin", "unpin"}:
            raise ValidationError(f"it is {'already' if memory.is_pinned else 'not'} pinned")
        raise ValidationError(f"{body.action} is not possible for this memory; possible are: {', '.join(possible)}")
    return memory


def act(window: Window, body: ActBody) -> JsonObject:
    """Change a memory, and record who did it, when, and how to undo it."""
    memory = _for(window, body)
    window.journal.require_writable()
    after, note = _ACTIONS[body.action](window, memory, body)
    entry = window.journal.append(who=window.who, action=body.action, key=memory.key, at=window.memory.now())
    window.undo.note_change()
    undoable = body.action in UNDOABLE and after is not None
    if undoable and after is not None:
        window.undo.put(entry.change, memory, after)
    return _acted(window, after, entry, undoable=undoable, note=note)


def _acted(window: Window, after: AnyMemory | None, entry: Entry, *, undoable: bool, note: str) -> JsonObject:
    return {
        "memory": None if after is None else memory_shape(after, now=window.memory.now(), whole=True),
        "change": entry.change,
        "undoable": undoable,
        "note": note,
    }


def undo(window: Window, body: UndoBody) -> JsonObject:
    """Undo a change of this window.

    Raises:
        HTTPError: The memory has been changed again since, or its id is taken in its former scope (409).
        NotFoundError: There is no such change that can be undone, or its memory is gone.
    """
    known = window.undo.get(body.change)
    if known is None:
        raise NotFoundError("there is no such change, or it can no longer be undone")
    window.reach(known.before.scope)
    window.journal.require_writable()
    try:
        restored, note = _undone(window, known)
    except NotFoundError:
        window.undo.forget(known.after.key)
        raise
    except ValidationError as error:
        raise HTTPError(409, "ConflictError", str(error)) from error
    window.undo.drop(body.change)
    window.undo.note_change()
    entry = window.journal.append(who=window.who, action="undo", key=restored.key, at=window.memory.now())
    return _acted(window, restored, entry, undoable=False, note=note)


def _undone(window: Window, known: Undo) -> tuple[AnyMemory, str]:
    current = window.find(known.after.id, scope=known.after.scope)
    if known.before.scope != known.after.scope:
        (moved,) = window.memory.manager.move([current], target_scope=known.before.scope)
        window.undo.forget(known.after.key)  # what was changed there is no longer undone there
        return moved, "It is back in its former scope."
    before, after = (_with_messages(each, current) for each in (known.before, known.after))
    return window.memory.manager.restore(before, after), "It is as it was before."


def _with_messages(memory: AnyMemory, current: AnyMemory) -> AnyMemory:
    """What is remembered of an episode, with the messages that it has."""
    if isinstance(memory, EpisodicMemory) and isinstance(current, EpisodicMemory):
        return memory.model_copy(update={"messages": current.messages})
    return memory


Done = tuple[AnyMemory | None, str]


def _rewrite(window: Window, memory: AnyMemory, body: ActBody, *, correct: bool) -> Done:
    if body.text is None or not body.text.strip():
        raise ValidationError("text must be given, and not be blank")
    manager = window.memory.manager
    check_limits(manager.settings, content=body.text)
    if isinstance(memory, EpisodicMemory):
        summary = window.memory.update(memory.id, scope=memory.scope, summary=body.text)
        return summary, "The summary is corrected; the messages are unchanged."
    after = manager.update(Change(memory, content=body.text, correct=correct))
    if correct:
        return after, "The text is corrected in place, as if it had never said anything else."
    return after, "The text until now is kept as an earlier version."


def _invalidate(window: Window, memory: AnyMemory, _body: ActBody) -> Done:
    after = window.memory.invalidate(memory.id, scope=memory.scope)
    return after, "It is no longer valid: searches do not find it, and its history keeps it."


def _pin(window: Window, memory: AnyMemory, _body: ActBody) -> Done:
    score = max(memory.importance, PINNED_IMPORTANCE)
    after = window.memory.manager.importance.set(memory, score=score, reason="pinned in the window")
    return after, "It belongs to the profile now, and use no longer changes its importance."


def _tag(window: Window, memory: AnyMemory, body: ActBody) -> Done:
    if body.tags is None:
        raise ValidationError("tags must be given: the whole list, which may be empty")
    check_limits(window.memory.manager.settings, tags=body.tags)
    return window.memory.manager.update(Change(memory, tags=body.tags)), "Its tags are replaced by these."


def _other(window: Window, body: PreviewBody | ActBody, memory: AnyMemory) -> SemanticMemory:
    """The fact that is to be merged into another."""
    if body.other is None or body.other == memory.id:
        raise ValidationError("other must be the id of another fact of this scope")
    other = window.find(body.other, scope=memory.scope)
    if not isinstance(other, SemanticMemory):
        raise ValidationError("only facts can be merged")
    return other


def _merge(window: Window, memory: AnyMemory, body: ActBody) -> Done:
    other, manager = _other(window, body, memory), window.memory.manager

    def both() -> list[AnyMemory]:
        return [window.find(each.id, scope=memory.scope) for each in (memory, other)]

    with manager.transaction_for(both, scope=memory.scope, removes=True) as (kept, gone):
        if not isinstance(kept, SemanticMemory) or not isinstance(gone, SemanticMemory):
            raise ValidationError("only facts can be merged")
        draft = SemanticDraft(**{name: getattr(gone, name) for name in SemanticDraft.model_fields})
        joined = manager.confirm(kept, draft)
        if joined is None:
            raise ValidationError("it is no longer valid, so nothing can be merged into it")
        check_limits(manager.settings, tags=joined.tags, metadata=joined.metadata)
        manager.delete([gone])
    window.undo.forget(other.key)
    after = window.find(memory.id, scope=memory.scope)
    return after, "The other is forgotten; this one has its tags, metadata and sources."


def _target(window: Window, to: str | None) -> str:
    if to is None:
        raise ValidationError("to must be the scope that it moves to")
    return window.reach(to)


def _move(window: Window, memory: AnyMemory, body: ActBody) -> Done:
    target = _target(window, body.to)
    if target == memory.scope:
        raise ValidationError("it is in this scope already")
    (after,) = window.memory.manager.move([memory], target_scope=target)
    window.undo.forget(memory.key)
    return after, "It is in the other scope now."


def _forget(window: Window, memory: AnyMemory, _body: ActBody) -> Done:
    window.memory.forget(memory.id, scope=memory.scope)
    window.undo.forget(memory.key)
    return None, "It is deleted permanently; memory-retrievers purge also clears the bytes that are left in the files."


def _forget_message(window: Window, memory: AnyMemory, body: ActBody) -> Done:
    messages = memory.messages if isinstance(memory, EpisodicMemory) else ()
    said = messages[body.place] if body.place is not None and body.place < len(messages) else None
    if said is None or said.content[:MESSAGE_SHOWN] != body.text:
        raise ValidationError("place and text must be those of one of its messages: look at it again")
    forgotten = window.memory.forget_messages(memory.scope, [said])
    for its_id in {memory.id, *forgotten.episodes}:
        window.undo.forget(MemoryKey(scope=memory.scope, id=its_id))
    note = f"It is deleted permanently. {len(forgotten.memories)} memories made from the conversation may still say it."
    try:
        return window.find(memory.id, scope=memory.scope), note
    except NotFoundError:  # nothing else was said there
        return None, note


_ACTIONS: Final[Mapping[str, Callable[[Window, AnyMemory, ActBody], Done]]] = {
    "correct": partial(_rewrite, correct=True),
    "update": partial(_rewrite, correct=False),
    "invalidate": _invalidate,
    "pin": _pin,
    "unpin": lambda by, memory, _: (by.memory.manager.importance.clear(memory), "Use changes its importance again."),
    "tag": _tag,
    "merge": _merge,
    "move": _move,
    "forget": _forget,
    "forget_message": _forget_message,
}
