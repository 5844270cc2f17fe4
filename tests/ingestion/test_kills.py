"""A process that dies anywhere in the write path: every acknowledged message is in one episode, or still waits."""

from collections import Counter

import pytest
from crash.process import execute

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder, inside

pytestmark = pytest.mark.embedded("another process opens the directory, and is killed")

WRITER = """
from datetime import UTC, datetime, timedelta
from crash.faults import KillAt
fault = KillAt.parse(point)
fault.lay()
from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import FixedClock, HashEmbedder, ScriptedLanguageModel

clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
fact = {"action": "new", "existing_fact_id": None, "category": "note", "fact": "Learned", "keywords": []}

class Model:
    def generate(self, system, user, schema):
        name = schema.__name__
        if "Segment" in name:
            n = sum(line.startswith("[") and "] " in line for line in user.splitlines())
            segment = {"start_message_index": 0, "end_message_index": 0, "title": "t", "summary": "", "surprise_level": "low"}
            return schema.model_validate({"segments": [segment | {"num_messages": 8}, segment | {"num_messages": max(n - 8, 1)}]})
        if "Consolidation" in name:
            return schema.model_validate({"facts": [fact | {"fact": f"Learned thing number {len(user)}"}]})
        return schema.model_validate({"ratings": []})

with AgentMemory.open(store, embedder=HashEmbedder(), clock=clock, language_model=Model()) as memory:
    fault.live = True
    for number in range(60):
        memory.add_messages("c", [Message(role="user", content=f"message {number}", timestamp=clock.now())])
        say({"accepted": number})
        clock.advance(minutes=1)
        if number % 10 == 9:
            clock.advance(days=2)
            memory.retrieve("message", scope="c")
            memory.process_due("c")
    memory.flush("c")
say({"done": True})
"""

POINTS = [
    f"{when}:COMMIT:{count}" for when in ("before", "after") for count in (5, 21, 22, 23, 24, 25, 26, 45, 48, 51, 60)
]
POINTS += [
    f"{when}:{what}:{count}"
    for when in ("before", "after")
    for what, count in (
        ("INSERT INTO queues", 3),
        ("INSERT INTO queued_messages", 3),
        ("UPDATE queued_messages SET vector", 3),
        ("INSERT INTO memories", 1),
        ("INSERT INTO postings", 2),
        ("DELETE FROM queued_messages", 1),
        ("UPDATE queues SET fence = NULL", 2),
        ("INSERT INTO review_jobs", 1),
        ("DELETE FROM review_jobs", 1),
        ("UPDATE memories SET", 1),
    )
]


def contents(path):
    """Every message that is in an episode or waits, in the order of the episodes and the queue."""
    with AgentMemory.open(path, embedder=HashEmbedder()) as memory:
        assert memory.verify().problems == ()
        episodes = memory.list("c", kind="episodic", limit=1000).memories
        waiting = inside(memory).ledger.conversations.head("c", limit=1000)
        told = [message.content for episode in episodes for message in episode.messages]
        assert all(episode.summary for episode in episodes)
        found = memory.retrieve("message", scope="c", episodic_limit=100, record=False).episodic
        by_search = Counter(message.content for hit in found for message in hit.memory.messages)
        assert by_search == Counter([*told, *(each.message.content for each in waiting)])
        return told + [each.message.content for each in waiting]


@pytest.mark.parametrize("point", POINTS)
def test_nothing_is_lost_and_nothing_is_told_twice(tmp_path, point):
    store = tmp_path / "store"
    exitcode, said = execute(WRITER, store=str(store), point=point)
    assert exitcode == -9
    accepted = [f"message {line['accepted']}" for line in said if "accepted" in line]
    kept = contents(store)
    assert len(kept) == len(set(kept)), "a message is told twice"
    unacknowledged = {f"message {len(accepted)}"}
    assert set(accepted) <= set(kept) <= set(accepted) | unacknowledged

    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:  # whoever comes next can go on at once
        memory.add_messages("c", [Message(role="user", content="afterwards")])
        memory.flush("c")
        assert memory.stats("c").queued_messages == 0
    again = contents(store)
    assert sorted(again) == sorted([*kept, "afterwards"])
