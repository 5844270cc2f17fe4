"""The health of a store as a window shows it: what ``doctor`` finds, sizes, queues, reviews and processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_retrievers.errors import MemoryRetrieversError
from memory_retrievers.models import JsonObject
from memory_retrievers.text.dates import iso
from memory_retrievers.window.doctor import Doctor
from memory_retrievers.window.state import Window
from memory_retrievers.window.views import NoQuery

if TYPE_CHECKING:
    from memory_retrievers.storage.diagnosis import Diagnosis, Finding, User

MOST_QUEUES: Final = 200

_NOTHING_WRONG: Final = {"level": "ok", "what": "nothing is wrong", "advice": ""}
_ELSEWHERE: Final = "run memory-retrievers doctor, or open a window without --scope"


def health(window: Window, _query: NoQuery) -> JsonObject:
    """Findings, sizes, queues, reviews and processes; of a window with a root only the queues and reviews in it."""
    overview, root = window.memory.overview, window.settings.root
    queues = [
        {
            "scope": each.scope,
            "conversation": each.conversation,
            "messages": each.messages,
            "oldest": iso(each.oldest),
        }
        for each in overview.queues(root, limit=MOST_QUEUES)
    ]
    counts: JsonObject = {"queue": queues, "due": overview.pending_reviews(root)}
    if root is not None or window.doctor is None:
        return _only("note", "the store as a whole is not looked at here", _ELSEWHERE) | counts
    return _diagnosed(window.doctor) | counts


def _diagnosed(doctor: Doctor) -> JsonObject:
    try:
        seen = doctor.diagnosis()
    except MemoryRetrieversError as error:
        return _only("error", str(error), "run memory-retrievers doctor")
    if seen is None:
        return _only("note", "the store is being looked through", "look again in a moment")
    tables = seen.tables
    index: JsonObject = {"backend": seen.backend, "schema": seen.schema, "known schema": seen.known_schema}
    if tables is not None:
        index |= {
            "embedder": tables.embedder,
            "dimension": tables.dimension,
            "memories": tables.memories,
            "chroma": tables.projection,
            "unprojected passages": tables.unprojected,
            "re-embedded passages": tables.reembedded,
        }
    return {
        "findings": [_finding(each, seen) for each in seen.findings] or [_NOTHING_WRONG],
        "sizes": [{"name": name, "bytes": size} for name, size in seen.bytes.items()],
        "processes": [_process(user) for user in seen.users],
        "index": {name: value for name, value in index.items() if value is not None},
    }


def _only(level: str, what: str, advice: str) -> JsonObject:
    return {"findings": [{"level": level, "what": what, "advice": advice}], "sizes": [], "processes": [], "index": {}}


def _finding(finding: Finding, seen: Diagnosis) -> JsonObject:
    is_serious = bool(seen.damage) or seen.schema > seen.known_schema
    return {"level": "error" if is_serious else "warning", "what": finding.what, "advice": finding.remedy}


def _process(user: User) -> JsonObject:
    return {
        "pid": user.pid,
        "since": None if user.since is None else iso(user.since),
        "role": user.program if user.is_alive else f"{user.program} (killed)",
        "version": user.version,
        "holds": list(user.holds),
    }
