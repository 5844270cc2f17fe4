"""Replay a conversation message by message through the write path, offline, and account for every message.

The conversation is one of the LoCoMo set (evaluation only, its text stays where it is), given as a path:

    python benchmarks/replay.py PATH [--conversation 0]

It prints the time per message, how many episodes were made, where every message ended up, and how much memory it took.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import FixedClock

SCOPE = "replay"


def messages_of(conversation: dict[str, Any]) -> Iterator[Message]:
    """Every turn with a text; those of a session are a minute apart, from the session's time on."""
    minute, session = 0, None
    for turn in conversation["turns"]:
        minute = minute + 1 if turn["session"] == session else 0
        session = turn["session"]
        start = datetime.strptime(turn["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        if turn["text"].strip():
            yield Message(
                role="user" if turn["speaker"] == conversation["speakers"][0] else "assistant",
                content=turn["text"],
                timestamp=start + timedelta(minutes=minute),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--conversation", type=int, default=0)
    arguments = parser.parse_args()
    conversations = json.loads(arguments.path.read_text("utf-8"))["conversations"]
    messages = list(messages_of(conversations[arguments.conversation]))
    clock = FixedClock(messages[0].timestamp or datetime.now(UTC))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pushes, works = [], []
    with tempfile.TemporaryDirectory() as directory, AgentMemory.open(directory, clock=clock) as memory:
        memory.retrieve("hello", scope=SCOPE)  # the model is loaded before anything is timed
        loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for message in messages:
            clock.advance(seconds=((message.timestamp or clock.now()) - clock.now()).total_seconds())
            start = time.perf_counter()
            queued = memory.add_messages(SCOPE, [message])
            pushes.append(time.perf_counter() - start)
            if queued.due:
                start = time.perf_counter()
                memory.process_due(SCOPE)
                works.append(time.perf_counter() - start)
        waiting = [each.id for each in memory._store.ledger.conversations.head(SCOPE, limit=10_000)]  # noqa: SLF001
        told, episodes, cursor = 0, 0, None
        while True:
            page = memory.list(SCOPE, kind="episodic", cursor=cursor, limit=1000)
            episodes += len(page.memories)
            told += sum(len(memory.messages) for memory in page.memories)  # type: ignore[union-attr]
            if (cursor := page.cursor) is None:
                break
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{len(messages):,} messages: {told:,} in {episodes:,} episodes, {len(waiting)} still queued")
    assert told + len(waiting) == len(messages)
    total = (sum(pushes) + sum(works)) * 1_000 / len(messages)
    print(f"{total:.2f} ms a message in all; add_messages {statistics.median(pushes) * 1_000:.2f} ms (median)")
    print(
        f"process_due {statistics.median(works) * 1_000:.0f} ms (median of {len(works)}), "
        f"{max(works) * 1_000:.0f} ms at most"
    )
    print(
        f"resident size at its peak {peak // 1024} MB: {(peak - loaded) // 1024} above the loaded model, "
        f"{(loaded - before) // 1024} for that"
    )


if __name__ == "__main__":
    main()
