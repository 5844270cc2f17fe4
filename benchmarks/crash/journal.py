"""The account of a store that is written by processes that are killed: what it must hold when it is opened again.

A writer announces every change before it makes it and acknowledges it afterwards. Whatever was acknowledged must be in
the store exactly so; the one change that was only announced must be there as a whole, or not at all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from memory_retrievers.models import AnyMemory
from memory_retrievers.models.memories import ANSWER_FIELDS

Key: TypeAlias = tuple[str, str]
"""The scope and id of a memory."""

Record: TypeAlias = dict[str, Any]
"""A memory as JSON, all fields."""


def record_of(memory: AnyMemory) -> Record:
    """A memory as JSON, without what only the answer to a write tells of it."""
    return memory.model_dump(mode="json", exclude=set(ANSWER_FIELDS))


@dataclass(frozen=True, slots=True)
class Announced:
    """A change that has begun.

    Attributes:
        name: What it is.
        expected: For every memory it touches, the fields it will have then; None if it will be gone.
    """

    name: str
    expected: dict[Key, Record | None]

    @classmethod
    def parse(cls, line: Record) -> Announced:
        """The announcement as a writer printed it."""
        return cls(line["begin"], {(scope, its_id): fields for scope, its_id, fields in line["expected"]})


@dataclass(slots=True)
class Journal:
    """What was acknowledged, over all processes that wrote the store.

    Attributes:
        acknowledged: Every memory that must be in the store.
        announced: The change that has begun and was not acknowledged.
        counts: How often each kind of change was acknowledged.
    """

    acknowledged: dict[Key, Record] = field(default_factory=dict)
    announced: Announced | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, line: Record) -> None:
        """Note a line that the writer printed."""
        if "begin" in line:
            self.announced = Announced.parse(line)
        elif "done" in line:
            assert self.announced is not None
            self._acknowledge(self.announced, {_key(record): record for record in line["memories"]})
            self.announced = None

    def _acknowledge(self, change: Announced, returned: dict[Key, Record]) -> None:
        for key, expected in change.expected.items():
            if expected is None:
                self.acknowledged.pop(key, None)
                continue
            assert _fits(returned.get(key), expected), f"{change.name} of {key} gave {returned.get(key)}"
            self.acknowledged[key] = returned[key]
        self.counts[change.name] += 1

    def differences(self, found: list[Record]) -> list[str]:
        """What is wrong with what a store holds, one sentence each; what it holds is the account from here on."""
        store = {_key(record): record for record in found}
        change, self.announced = self.announced, None
        touched = change.expected if change is not None else {}
        problems = [
            problem
            for key in sorted(self.acknowledged.keys() | store.keys())
            if key not in touched and (problem := _difference(key, self.acknowledged.get(key), store.get(key)))
        ]
        if change is not None and not (self._is_absent(change, store) or self._is_whole(change, store)):
            problems.append(f"{change.name} of {sorted(touched)} is neither whole nor absent")
        self.acknowledged = store
        return problems

    def _is_absent(self, change: Announced, store: dict[Key, Record]) -> bool:
        return all(store.get(key) == self.acknowledged.get(key) for key in change.expected)

    def _is_whole(self, change: Announced, store: dict[Key, Record]) -> bool:
        """All that it touches is as announced, and of a memory that was there before nothing else has changed."""
        return all(
            store.get(key) is None
            if expected is None
            else _fits(store.get(key), self.acknowledged.get(key, {}) | expected)
            for key, expected in change.expected.items()
        )


def _key(record: Record) -> Key:
    return record["scope"], record["id"]


def _fits(record: Record | None, expected: Record) -> bool:
    return record is not None and all(record[name] == value for name, value in expected.items())


def _difference(key: Key, acknowledged: Record | None, stored: Record | None) -> str | None:
    if acknowledged == stored:
        return None
    if stored is None:
        return f"{key} was acknowledged and is lost"
    if acknowledged is None:
        return f"{key} was never acknowledged, or forgotten, and is there"
    fields = [name for name in acknowledged if acknowledged[name] != stored[name]]
    return f"{key} is not as acknowledged: {', '.join(fields)}"
