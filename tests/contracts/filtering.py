"""Memories with tags, metadata and times, and the filters that each of them passes, for the suites of both indexes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Final

from contracts.samples import NOW, SCOPE, episode, fact
from memory_retrievers.models import AnyMemory, Kind
from memory_retrievers.models.filters import Filters
from memory_retrievers.models.selection import Selection

HOUR: Final = timedelta(hours=1)

FILTERED: Final = (
    Filters(tags=("work",)),
    Filters(tags=("work", "näher's \"%\\")),
    Filters(metadata=(("team", "a"),)),
    Filters(metadata=(("team", 'a"b\\'),)),
    Filters(metadata=(("n", 1),)),
    Filters(metadata=(("n", 1.0),)),
    Filters(metadata=(("n", 0.1),)),
    Filters(metadata=(("n", True),)),
    Filters(metadata=(("n", False),)),
    Filters(metadata=(("n", None),)),
    Filters(metadata=(("n", "1"),)),
    Filters(metadata=(('it\'s "so"', 2**53 + 1),)),
    Filters(metadata=(("team", "a"), ("n", 1))),
    Filters(since=NOW),
    Filters(until=NOW - HOUR),
    Filters(since=NOW - 2 * HOUR, until=NOW - HOUR),
    Filters(tags=("work",), metadata=(("team", "a"),), since=NOW - HOUR),
    *(
        Filters.parse({"where": where})
        for where in (
            {"metadata.team": "a"},
            {"metadata.team": {"ne": "a"}},
            {"metadata.n": {"in": [1, "1", None]}},
            {"metadata.n": {"nin": [1, True]}},
            {"metadata.n": {"gt": 0.1}},
            {"metadata.n": {"gte": 0.1, "lt": 2}},
            {"metadata.n": {"lte": "1"}},
            {"metadata.team": {"gte": "Z"}},
            {"metadata.team": {"lt": 'a"'}},
            {"metadata.nul": {"gte": ""}},
            {'metadata.it\'s "so"': {"gt": 2**53}},
            {"not": {"metadata.n": {"gt": 0}}},
            {"tags": "work"},
            {"tags": {"nin": ["work", "worker"]}},
            {"time": {"gte": (NOW - HOUR).isoformat()}},
            {"created_at": {"lte": NOW.isoformat()}, "time": {"ne": NOW.isoformat()}},
            {"or": [{"tags": "worker"}, {"and": [{"metadata.n": 1}, {"metadata.team": "a"}]}], "not": {"tags": "x"}},
        )
    ),
)
"""Filters of every kind, and some together."""

_TAGS: Final = ((), ("work",), ("work", "näher's \"%\\"), ("worker",), ("näher's \"%\\", "work"))
_METADATA: Final[tuple[dict[str, object], ...]] = (
    {},
    {"team": "a"},
    {"team": "a", "n": 1},
    {"team": 'a"b\\', "n": 0.1},
    {"n": True, "nul": "\0"},
    {"n": False, "nested": {"team": "a", "n": 1}},
    {"n": None, "list": ["team", "a"]},
    {"n": "1", 'it\'s "so"': 2**53 + 1},
    {"n": 2, 'it\'s "so"': 2**53},
    {"n": [1], "team": {"team": "a"}},
)


def memories_to_filter(kind: Kind, *, scope: str = SCOPE) -> list[AnyMemory]:
    """Memories of a kind with the same text, of which every filter lets some through and not others."""
    memories: list[AnyMemory] = []
    for number, metadata in enumerate(_METADATA):
        at = NOW - (number % 4) * HOUR
        new = fact(f"f{number}", scope=scope) if kind is Kind.SEMANTIC else episode(f"e{number}", scope=scope)
        when = "created_at" if kind is Kind.SEMANTIC else "start_at"
        tags = _TAGS[number % len(_TAGS)]
        memories.append(new.model_copy(update={when: at, "tags": tags, "metadata": metadata}))
    return memories


def filtered(selection: Selection) -> Iterator[tuple[Filters, Selection]]:
    """A selection narrowed by each of the filters."""
    for filters in FILTERED:
        yield filters, replace(selection, filters=filters)
