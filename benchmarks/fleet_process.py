"""One process of a fleet: it writes and reads the same few scopes as the others, and keeps a journal of its own."""

from __future__ import annotations

import json
import logging
import random
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory_retrievers import AgentMemory, BackendError, IngestionSettings, Message, ReviewSettings
from memory_retrievers.testing import HashEmbedder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event, Semaphore

    from memory_retrievers.models.results import Report

SCOPES: Final = ("team", "team/a", "team/b")
RATED: Final = "rated"
"""Episodes that are rated by hand, and by nobody else."""

RATED_EPISODES: Final = 24
ROLES: Final = ("user", "assistant")
WORDS: Final = ("tea", "key", "wiki", "backup", "river", "lamp", "garden", "train", "budget", "invoice", "ticket")
PAUSE: Final = 0.05
"""Seconds after a failure; a server that is down is asked again so soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a process is to do.

    Attributes:
        url: The address of the store.
        name: Whose messages and facts these are.
        journal: The file it writes a line to after every call.
        lease_minutes: How long its claims on queues hold.
    """

    url: str
    name: str
    journal: Path
    lease_minutes: float


def connected(url: str, *, lease_minutes: float) -> AgentMemory:
    """The store as every process uses it: queues are short, and a review counts on the same day."""
    return AgentMemory.connect(
        url,
        embedder=HashEmbedder(64),
        ingestion=IngestionSettings(window=6, doubled_window=12, lease_minutes=lease_minutes),
        review=ReviewSettings(min_days=0),
        pool_size=4,
    )


def run(orders: Orders, ready: Semaphore, begin: Event, end: Event) -> None:
    """Be the process: say that it is ready, wait for the word, and work until the other word.

    Whatever fails underneath is noted and followed by the next call; any other error is the last line of the journal.
    """
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # which tells of every attempt to reach the server
    logging.getLogger("memory_retrievers").setLevel(logging.CRITICAL)
    with orders.journal.open("w", encoding="utf-8") as file:
        member = _Member(orders, lambda line: file.write(json.dumps(line) + "\n"))
        try:
            with connected(orders.url, lease_minutes=orders.lease_minutes) as memory:
                ready.release()
                begin.wait()
                while not end.is_set():
                    member.step(memory)
        except Exception:  # noqa: BLE001 - whatever it is, the account must tell
            file.write(json.dumps({"did": "error", "told": traceback.format_exc()}) + "\n")


class _Member:
    """Makes one random call after the other.

    Args:
        orders: Who it is.
        note: Writes a line to the journal.
    """

    def __init__(self, orders: Orders, note: Callable[[Mapping[str, object]], object]) -> None:
        self._name = orders.name
        self._note = note
        self._random = random.Random(orders.name)
        self._facts: dict[str, str] = {}
        self._count = 0
        self._failed_at: float | None = None
        self._calls: tuple[tuple[int, Callable[[AgentMemory], dict[str, Any]]], ...] = (
            (30, self._add_messages),
            (15, self._remember),
            (15, self._retrieve),
            (12, self._process),
            (2, self._flush),
            (8, self._review),
            (8, self._update),
            (6, self._forget),
        )

    def step(self, memory: AgentMemory) -> None:
        """One call, and its line in the journal: what it was, and whether it was acknowledged."""
        (call,) = self._random.choices([call for _, call in self._calls], [weight for weight, _ in self._calls])
        line: dict[str, Any] = {}
        self._line = line
        began = time.monotonic()
        try:
            line |= call(memory) | {"ok": True}
        except BackendError as error:
            line |= {"ok": False, "told": str(error), "seconds": time.monotonic() - began}
            if "fact" in line:  # it may be there or not, and nobody asks again
                self._facts.pop(line["fact"], None)
            time.sleep(PAUSE)
        self._note(line)

    def _add_messages(self, memory: AgentMemory) -> dict[str, Any]:
        texts = [self._text() for _ in range(self._random.randint(1, 4))]
        scope = self._random.choice(SCOPES)
        self._line |= {"did": "messages", "scope": scope, "texts": texts}
        queued = memory.add_messages(scope, [Message(role=self._random.choice(ROLES), content=text) for text in texts])
        return {"accepted": queued.accepted}

    def _remember(self, memory: AgentMemory) -> dict[str, Any]:
        text, scope = self._text(), self._random.choice(SCOPES)
        fact = f"fact-{self._name}-{self._count}"
        self._line |= {"did": "fact", "scope": scope, "fact": fact, "text": text}
        memory.remember_fact(scope=scope, fact=text, id=fact)
        self._facts[fact] = scope
        return {}

    def _retrieve(self, memory: AgentMemory) -> dict[str, Any]:
        self._line |= {"did": "retrieve"}
        query = " ".join(self._random.sample(WORDS, 3))
        scope = self._random.choice(SCOPES)
        memory.retrieve(query, scope=scope, include_child_scopes=self._random.random() < 0.3)
        return {}

    def _process(self, memory: AgentMemory) -> dict[str, Any]:
        self._line |= {"did": "process"}
        report = memory.process_due()
        return _reported(report)

    def _flush(self, memory: AgentMemory) -> dict[str, Any]:
        self._line |= {"did": "process"}
        return _reported(memory.flush(self._random.choice(SCOPES)))

    def _review(self, memory: AgentMemory) -> dict[str, Any]:
        episode = f"rated-{self._random.randrange(RATED_EPISODES)}"
        self._line |= {"did": "review", "id": episode}
        memory.review(episode, scope=RATED, rating="hard")
        return {}

    def _update(self, memory: AgentMemory) -> dict[str, Any]:
        if not self._facts:
            return self._remember(memory)
        fact, text = self._random.choice(list(self._facts)), self._text()
        self._line |= {"did": "update", "scope": self._facts[fact], "fact": fact, "text": text}
        memory.update(fact, scope=self._facts[fact], fact=text)
        return {}

    def _forget(self, memory: AgentMemory) -> dict[str, Any]:
        if not self._facts:
            return self._remember(memory)
        fact = self._random.choice(list(self._facts))
        self._line |= {"did": "forget", "scope": self._facts[fact], "fact": fact}
        memory.forget(fact, scope=self._facts[fact])
        del self._facts[fact]
        return {}

    def _text(self) -> str:
        self._count += 1
        return f"{self._name} {self._count} {' '.join(self._random.sample(WORDS, 4))}"


def _reported(report: Report) -> dict[str, Any]:
    return {
        "episodes": [[episode.scope, episode.id] for episode in report.episodes],
        "reviews": [[key.scope, key.id] for key, _ in report.reviews],
    }
