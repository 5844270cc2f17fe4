"""Story characters as rows: their states, and the events they know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from memory_retrievers.backends.sql.connection import OF_SCOPE, Connection, Part, Whole, scope_id_of
from memory_retrievers.backends.sql.rows import UNREADABLE, encode_json
from memory_retrievers.errors import BackendError
from memory_retrievers.models.contents import StoredCharacter
from memory_retrievers.models.scenes import CharacterState

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

    def restore(self, character: StoredCharacter) -> bool:
        """Restore a character as it was exported; False if there is one of its name."""
        with self.database.write(character.scope) as connection:
            row = _row(scope_id_of(connection, character.scope), character.state)
            return bool(connection.execute(f"{_INSERT} DO NOTHING", row).rowcount)


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
