"""Story characters as rows: their states, the events they know, and what events make of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final, TypeAlias

from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Part, Whole, ids_by_scope, scope_id_of
from memory_retrievers.backends.sql.rows import UNREADABLE, encode_json
from memory_retrievers.errors import BackendError
from memory_retrievers.models import EpisodicMemory, MemoryKey
from memory_retrievers.models.contents import StoredCharacter
from memory_retrievers.models.scenes import MOST_SHIFTS, CharacterState, EmotionShift, MessageSpan
from memory_retrievers.text.analysis import caseless

_parse: Final = json.JSONDecoder().raw_decode  # half of what ``json.loads`` takes for the short texts of scenes
_IN_COLUMNS: Final = {"name", "known_events"}
_INSERT: Final = """INSERT INTO characters (scope_id, name, known_events, state) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope_id, name)"""


class SQLCharacters(Part):
    """States of a scope's characters, whose scenes are memories of the scope.

    The id of a memory that is removed, or moved to another scope, leaves what the characters of its scope know. Once
    no scene is left in a scope, its characters go too.
    """

    def all(self, scope: str) -> list[CharacterState]:
        """List the scope's characters, in the order in which they were first stored."""
        with self.database.read() as connection:
            return [each.state for each in read_all(Whole.of(connection, scope))]

    def put(self, scope: str, states: Sequence[CharacterState]) -> None:
        """Store states, replacing those of the same name; other characters are left as they are."""
        if not states:
            return
        with self.database.write(scope) as connection:
            scope_id = scope_id_of(connection, scope)
            connection.executemany(
                f"{_INSERT} DO UPDATE SET known_events = excluded.known_events, state = excluded.state",
                [_row(scope_id, state) for state in states],
            )

    @contextmanager
    def made_anew(self, keys: Collection[MemoryKey], *, in_scope: str | None = None) -> Iterator[None]:
        """While these memories are replaced, removed or moved: then make anew, from the scenes there, whom they named.

        ``in_scope`` is where they arrive: their witnesses know them there, and who is not there appears.
        """
        named: dict[str, dict[str, bool]] = {}  # whom they make know something, or feel (True), by scope, caseless
        of_ids = f"AND {self.dialect.among('id', ':ids')}"
        for scope, ids in ids_by_scope(keys).items():
            if told := self._told(scope, of_ids, ids=self.dialect.listed(ids)):
                theirs = self.column(f"SELECT name FROM characters WHERE {OF_SCOPE}", {"scope": scope})
                if there := told.keys() & {*map(caseless, theirs)}:
                    named[scope] = {name: any(emotion for _, _, emotion, _ in told[name]) for name in there}
        yield
        for scope, names in named.items():
            self._retell(scope, names)
            if in_scope is not None:
                self._retell(in_scope, names, arriving={key.id for key in keys})

    def _retell(self, scope: str, names: Mapping[str, bool], *, arriving: Collection[str] = ()) -> None:
        """Make characters who felt something anew from the scenes of their scope, in the order of these in the store.

        Whom no scene makes feel or know anything goes. ``arriving`` are scenes that are new in this scope.
        """
        with self.database.write(scope) as connection:
            told = self._told(scope)
            sql = f"SELECT row, name, known_events FROM characters WHERE {OF_SCOPE} ORDER BY row DESC"
            rows = connection.execute(sql, {"scope": scope}).fetchall()
            first = {caseless(name): row for row, name, _ in rows}  # an older version may have kept two of one name
            concerned = [(row, key, json.loads(known)) for row, name, known in rows if (key := caseless(name)) in names]
            for row, name, known in concerned:
                if name not in told or (names[name] and row != first[name]):
                    connection.execute("DELETE FROM characters WHERE row = ?", (row,))
                elif names[name]:
                    with suppress(*UNREADABLE):  # damage to one of its scenes: the character stays as it is
                        sql = "UPDATE characters SET name = ?, known_events = ?, state = ? WHERE row = ?"
                        connection.execute(sql, (*_row(0, _retold(told[name], known))[1:], row))
                elif seen := [id for id, _, emotion, _ in told[name] if emotion is None and id in arriving]:  # noqa: A001
                    now = encode_json([*dict.fromkeys((*known, *seen))])
                    connection.execute("UPDATE characters SET known_events = ? WHERE row = ?", (now, row))
            if arriving:
                with suppress(*UNREADABLE):
                    self.put(scope, [_retold(told[name]) for name in told if name in names and name not in first])

    def _told(self, scope: str, which: str = "", **values: object) -> dict[str, list[_Part]]:
        sql = f"SELECT id, scene FROM memories WHERE {OF_SCOPE} AND scene IS NOT NULL {which} ORDER BY row"
        return _by_name(self.query(sql, {"scope": scope, **values}), lambda text: _parse(text)[0])

    def restore(self, character: StoredCharacter) -> bool:
        """Restore a character as it was exported; False if there is one of its name."""
        with self.database.write(character.scope) as connection:
            row = _row(scope_id_of(connection, character.scope), character.state)
            return bool(connection.execute(f"{_INSERT} DO NOTHING", row).rowcount)


_Part: TypeAlias = tuple[str, str, str | None, Sequence[int]]
"""What an event does to a character: its id, the name, the emotion, None that the event is known, and the messages."""


def _by_name(scenes: Iterable[tuple[str, Any]], read: Callable[[Any], Mapping[str, Any]]) -> dict[str, list[_Part]]:
    """What scenes, by their ids, do to each character; one that is damaged does nothing."""
    by_name: dict[str, list[_Part]] = {}
    key = cache(caseless)  # many events name the same few
    for id, scene in scenes:  # noqa: A001
        with suppress(*UNREADABLE):
            told = read(scene)
            for name, emotion in (*told["emotional_impact"].items(), *((each, None) for each in told["witnesses"])):
                by_name.setdefault(key(name), []).append((id, name, emotion and emotion.strip(), told["message_ids"]))
    return by_name


def updated(states: Sequence[CharacterState], episodes: Iterable[EpisodicMemory]) -> list[CharacterState]:
    """Update the characters by episodes in this order: known characters first, then new ones.

    A character that an event makes feel something feels that from then on; one that witnessed it knows it. An unknown
    character appears with the first event that does either, and keeps its name as it is written there.
    """
    told = _by_name([(each.id, each.scene) for each in episodes if each.scene is not None], vars)
    after = [_moved(state, told.pop(caseless(state.name), ())) for state in states]  # the first, if there are two
    return [*after, *map(_retold, told.values())]


def _retold(parts: Sequence[_Part], known: Sequence[str] = ()) -> CharacterState:
    """The character that events make, those that it knew of in the order in which it came to know of them."""
    place = {id: number for number, id in enumerate(known)}  # noqa: A001 - rows of an import are in another order
    in_order = iter(sorted((part for part in parts if part[0] in place), key=lambda part: place[part[0]]))
    parts = [next(in_order) if part[0] in place else part for part in parts]
    state = _moved(CharacterState(name=parts[0][1].strip()), parts)
    return state.model_copy(update={"known_events": tuple(dict.fromkeys((*state.known_events, *known)))})


def _moved(state: CharacterState, parts: Sequence[_Part]) -> CharacterState:
    """The character after events, which it knows, and whose last emotion it feels as of the messages of its event."""
    after: dict[str, object] = {}
    if seen := [id for id, _, emotion, _ in parts if emotion is None]:  # noqa: A001
        after["known_events"] = tuple(dict.fromkeys((*state.known_events, *seen)))
    if felt := [(emotion, ids) for _, _, emotion, ids in parts if emotion is not None]:
        befores = (state.current_emotion, *(emotion for emotion, _ in felt))
        changes = [each for before, each in zip(befores, felt, strict=False) if each[0] != before][-MOST_SHIFTS:]
        shifts = [EmotionShift(emotion=emotion, message_id=min(ids, default=None)) for emotion, ids in changes]
        emotion, ids = felt[-1]
        after |= {"current_emotion": emotion, "shifts": (*state.shifts, *shifts)[-MOST_SHIFTS:]}
        after["emotion_from_messages"] = MessageSpan(min=min(ids), max=max(ids)) if ids else None
    return state.model_copy(update=after)


def strike_out(connection: Connection, scope: str, ids: Sequence[str]) -> None:
    """Remove deleted memories from what a scope's characters know, and all characters if no scene is left.

    Args:
        connection: A connection in a write transaction.
        scope: The scope.
        ids: Ids of the deleted memories.
    """
    values = {"scope": scope}
    connection.execute(
        f"""DELETE FROM characters WHERE {OF_SCOPE}
        AND NOT EXISTS (SELECT 1 FROM memories WHERE {OF_SCOPE} AND scene IS NOT NULL)""",
        values,
    )
    gone = set(ids)
    rows = connection.execute(f"SELECT row, known_events FROM characters WHERE {OF_SCOPE}", values).fetchall()
    for row, known_events in rows:
        known = json.loads(known_events)
        kept = [id for id in known if id not in gone]  # noqa: A001
        if len(kept) < len(known):
            connection.execute("UPDATE characters SET known_events = ? WHERE row = ?", (encode_json(kept), row))


def read_all(whole: Whole) -> Iterator[StoredCharacter]:
    """Read the characters of the scopes, by scope, in the order in which they were first stored."""
    found = whole.execute(
        f"""SELECT s.scope, c.name, c.known_events, c.state FROM scopes s JOIN characters c ON c.scope_id = s.id
        WHERE s.id IN ({whole.scopes}) ORDER BY s.scope, c.row"""
    )
    for scope, *row in found:
        yield StoredCharacter(scope=scope, state=_decode(scope, *row))


def problems(connection: Connection) -> Iterator[str]:
    """Describe the characters that cannot be read."""
    found = connection.execute(
        "SELECT s.scope, c.name, c.known_events, c.state FROM characters c JOIN scopes s ON s.id = c.scope_id"
    )
    for row in found:
        try:
            _decode(*row)
        except BackendError as error:
            yield str(error)


def _row(scope_id: int, state: CharacterState) -> tuple[int, str, str, str]:
    others = state.model_dump(mode="json", exclude=_IN_COLUMNS)
    return scope_id, state.name, encode_json(state.known_events), encode_json(others)


def _decode(scope: str, name: str, known_events: str, state: str) -> CharacterState:
    try:
        return CharacterState(name=name, known_events=tuple(json.loads(known_events)), **json.loads(state))
    except UNREADABLE as error:
        raise BackendError(f"character {name!r} in scope {scope!r} is damaged and cannot be read") from error
