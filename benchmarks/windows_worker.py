"""A process that uses a store as an application does: one request a line on standard input, one answer a line back."""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memory_retrievers import (
    AgentMemory,
    IngestionSettings,
    MemoryRetrieversError,
    Message,
    ReviewSettings,
    SemanticMemory,
)
from memory_retrievers.models.results import Report
from memory_retrievers.testing import HashEmbedder

Request = Mapping[str, Any]


class TimedEmbedder(HashEmbedder):
    """An embedder that knows how long its own thread has waited for it: that time is no part of a write here."""

    id = "HashEmbedder"

    def __init__(self) -> None:
        super().__init__()
        self._spent = threading.local()

    def embed_query(self, text: str) -> list[float]:
        began = time.perf_counter()
        try:
            return super().embed_query(text)
        finally:
            self._spent.seconds = self.seconds() + time.perf_counter() - began

    def seconds(self) -> float:
        """Seconds that this thread has spent in embedding."""
        return float(getattr(self._spent, "seconds", 0.0))


def opened(store: Path, embedder: HashEmbedder | None = None) -> AgentMemory:
    """The store as every process here uses it: queues are short, and a review counts on the same day."""
    return AgentMemory.open(
        store,
        embedder=embedder or HashEmbedder(),
        embedder_id=EMBEDDER_ID,
        ingestion=IngestionSettings(window=6, doubled_window=12),
        review=ReviewSettings(min_days=0),
    )


EMBEDDER: Final = "memory_retrievers.testing:HashEmbedder"
EMBEDDER_ID: Final = "hashed"


def main(arguments: Sequence[str]) -> None:
    """Be the process until standard input ends."""
    embedder = TimedEmbedder()
    with opened(Path(arguments[0]), embedder) as memory:
        _say({"ready": True})
        for line in sys.stdin:
            request = json.loads(line)
            began, embedded = time.perf_counter(), embedder.seconds()
            try:
                answer = _ACTS[request["do"]](memory, request) | {"ok": True}
            except MemoryRetrieversError as error:
                answer = {"ok": False, "told": f"{type(error).__name__}: {error}"}
            except Exception:  # noqa: BLE001 - whatever it is, the account must tell
                answer = {"ok": False, "told": traceback.format_exc()}
            spent = embedder.seconds() - embedded
            _say(answer | {"seconds": time.perf_counter() - began - spent})


def _say(line: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _remember(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    return {"fact": memory.remember_fact(scope=asked["scope"], fact=asked["text"], id=asked["fact"]).id}


def _update(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    memory.update(asked["fact"], scope=asked["scope"], fact=asked["text"])
    return {}


def _forget(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    memory.forget(asked["fact"], scope=asked["scope"])
    return {}


def _add_messages(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    messages = [Message(role=role, content=text) for role, text in zip(asked["roles"], asked["texts"], strict=True)]
    return {"accepted": memory.add_messages(asked["scope"], messages).accepted}


def _process(memory: AgentMemory, _: Request) -> dict[str, Any]:
    return _reported(memory.process_due())


def _flush(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    return _reported(memory.flush(asked["scope"]))


def _review(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    memory.review(asked["id"], scope=asked["scope"], rating="hard")
    return {}


def _search(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    found = memory.retrieve(asked["text"], scope=asked["scope"])
    return {"texts": [each.memory.fact for each in found.semantic]}


def _take_in(memory: AgentMemory, asked: Request) -> dict[str, Any]:
    drafts = [SemanticMemory.new(scope=asked["scope"], fact=text) for text in asked["texts"]]
    return {"taken": len(memory.remember_many(drafts))}


def _reembed(memory: AgentMemory, _: Request) -> dict[str, Any]:
    memory.reembed(HashEmbedder(), embedder_id=EMBEDDER_ID)
    return {}


def _purge(memory: AgentMemory, _: Request) -> dict[str, Any]:
    memory.purge()
    return {}


def _reported(report: Report) -> dict[str, Any]:
    return {
        "episodes": [[episode.scope, episode.id] for episode in report.episodes],
        "reviews": [[key.scope, key.id] for key, _ in report.reviews],
    }


_ACTS: Final[Mapping[str, Callable[[AgentMemory, Request], dict[str, Any]]]] = {
    "fact": _remember,
    "update": _update,
    "forget": _forget,
    "messages": _add_messages,
    "process": _process,
    "flush": _flush,
    "review": _review,
    "search": _search,
    "take in": _take_in,
    "reembed": _reembed,
    "purge": _purge,
}
"""What can be asked."""


if __name__ == "__main__":
    main(sys.argv[1:])
