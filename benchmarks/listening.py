"""What ``add_messages`` takes, beside plain ``sqlite3`` that stores the same rows as durably.

Messages come one by one in conversations of 40, in a long queue (nothing is drained) and beside ten thousand memories;
ours and plain take turns, message by message, so that both meet the same machine. An embedder that is called ends the
run: adding a message embeds nothing.

    python benchmarks/listening.py [--messages 2000]
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timings import Timings

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

SCOPE: Final = "user/alice"
CONVERSATION: Final = 40
MEMORIES: Final = 10_000

_TABLES: Final = """
    CREATE TABLE scopes (id INTEGER PRIMARY KEY, scope TEXT NOT NULL UNIQUE);
    CREATE TABLE queues (scope_id INTEGER, conversation TEXT, heard_at INTEGER, PRIMARY KEY (scope_id, conversation));
    CREATE TABLE queued_messages (row INTEGER PRIMARY KEY AUTOINCREMENT, scope_id INTEGER, conversation TEXT, id TEXT,
        role TEXT, content TEXT, timestamp INTEGER);
    CREATE INDEX by_conversation ON queued_messages (scope_id, conversation, row);
"""


class SilentEmbedder(HashEmbedder):
    """Embeds until it is told to be silent."""

    is_silent = False

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed, or end the run."""
        if self.is_silent:
            raise SystemExit("add_messages has embedded something")
        return super().embed_documents(texts)


@dataclass
class Calls:
    """Times of one side, by the clock and of the processor, in milliseconds."""

    clock: Timings = field(default_factory=Timings)
    processor: Timings = field(default_factory=Timings)

    def measure(self, call: Callable[[], object]) -> None:
        """Measure a call."""
        before = time.thread_time()
        self.clock.measure(call)
        self.processor.values.append((time.thread_time() - before) * 1_000)


class Plain:
    """The same rows by ``sqlite3`` alone, in a file of its own that survives a power cut."""

    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_TABLES}")

    def add(self, content: str, conversation: str) -> None:
        """Store a message, and when the conversation was heard last."""
        now, execute = time.time_ns() // 1_000, self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT OR IGNORE INTO scopes (scope) VALUES (?)", (SCOPE,))
        (scope,) = execute("SELECT id FROM scopes WHERE scope = ?", (SCOPE,)).fetchone()
        execute("INSERT OR REPLACE INTO queues VALUES (?, ?, ?)", (scope, conversation, now))
        execute(
            """INSERT INTO queued_messages (scope_id, conversation, id, role, content, timestamp)
            VALUES (?, ?, ?, 'user', ?, ?)""",
            (scope, conversation, str(uuid.uuid4()), content, now),
        )
        execute("COMMIT")


def measure(directory: Path, messages: int) -> tuple[Calls, Calls]:
    """Add so many messages; the times of ours and of plain."""
    embedder, ours, plain = SilentEmbedder(), Calls(), Calls()
    with AgentMemory.open(directory / "store", embedder=embedder) as memory:
        for start in range(0, MEMORIES, 500):
            memory.remember_many(
                [{"scope": SCOPE, "fact": f"House {number} is white."} for number in range(start, start + 500)]
            )
        embedder.is_silent, rows = True, Plain(directory / "plain.db")
        for number in range(messages):
            content, conversation = f"I went to house {number} and it was white.", f"thread-{number // CONVERSATION}"
            said = [{"role": "user", "content": content}]
            ours.measure(lambda said=said, to=conversation: memory.add_messages(SCOPE, said, conversation=to))
            plain.measure(lambda content=content, to=conversation: rows.add(content, to))
    return ours, plain


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=2_000)
    count = parser.parse_args().messages
    with tempfile.TemporaryDirectory() as directory:
        ours, plain = measure(Path(directory), count)
    print(f"{count:,} messages, one by one, p50 / p95 in ms; beside {MEMORIES:,} memories, nothing embedded")
    for name, calls in (("add_messages", ours), ("plain sqlite3", plain)):
        print(f"{name:14} by the clock {calls.clock!s:>14}   of the processor {calls.processor!s:>14}")


if __name__ == "__main__":
    main()
