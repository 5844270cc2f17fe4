"""A sample history: five weeks between Inès, who builds software for a fish trader, and her assistant.

The people, the places they work at and everything that happens were made up for this package. ``history.json`` has the
fields of drafts, with times as how long ago they were, so that the history always ends today.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from importlib import resources
from typing import Final

import pydantic

from memory_retrievers.models import Draft, EpisodicMemory, JsonObject, SemanticMemory

SCOPE: Final = "user/ines"  # scope of the sample history

QUESTIONS: Final = {
    "What caused E-4071?": (
        "Two searches in one: the words of the question find the number, its meaning finds what is like it."
    ),
    "What went wrong on that expensive Saturday?": (
        "Nobody called it expensive; it is found by what it means. A key moment comes with what was said."
    ),
    "Shall I release the new consumer this Friday?": (
        "Fridays used to be the day. The old rule is kept but no longer given as a fact; the episodes tell why."
    ),
}
"""Questions to ask the history, with what their answers show: hybrid search, a key moment, a fact that has changed."""

NEXT: Final = "What must I not cook for Lou?"  # a question to go on with


def load_history(*, scope: str, now: datetime) -> list[Draft]:
    """The sample history up to a moment, ready for ``remember_many``: the episodes, oldest first, then the facts."""
    ago = pydantic.TypeAdapter(timedelta).validate_python

    def dated(record: JsonObject) -> JsonObject:
        times = [name for name in record if name.endswith("_at") or name == "timestamp"]
        return record | {name: now - ago(record[name]) for name in times}

    history = json.loads(resources.files(__name__).joinpath("history.json").read_bytes(), object_hook=dated)
    episodes = [EpisodicMemory.new(scope=scope, **fields) for fields in history["episodes"]]
    return [*episodes, *(SemanticMemory.new(scope=scope, **fields) for fields in history["facts"])]
