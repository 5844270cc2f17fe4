"""A fact that changes keeps its earlier versions, which searches of the past find; a corrected slip leaves no trace.

Run it with ``python examples/changed_my_mind.py``; it needs ``pip install memory-retrievers``.
"""

from __future__ import annotations

from datetime import UTC, datetime

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.testing import FixedClock

QUESTION = "Where does the user live?"


def show(versions: tuple[SemanticMemory, ...]) -> None:
    """Print what a fact has said, and when."""
    for version in versions:
        until = "now" if version.invalid_at is None else f"{version.invalid_at:%d %B}"
        print(f"{version.valid_at:%d %B} until {until}: {version.fact}")


def main() -> None:
    """Move house, search the past and the present, correct a slip, and replace one fact by another."""
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))  # leave it out for the real time
    with AgentMemory.in_memory(clock=clock) as memory:
        # 1. a new text is a new version, under the same id
        home = memory.remember_fact(scope="user/alice", fact="User lives in Porto", category="identity")
        clock.advance(days=10)
        memory.update(home.id, scope="user/alice", fact="User lives in Barga")
        # 2. unless it corrects a slip
        memory.update(home.id, scope="user/alice", fact="User lives in Braga", correct=True)
        print("\n== now and then")
        for day in (5, 15):
            as_of = datetime(2026, 3, day, tzinfo=UTC)
            (hit,) = memory.retrieve(QUESTION, scope="user/alice", as_of=as_of).semantic
            print(f"{day} March: {hit.memory.fact}")
        print("\n== history")
        show(memory.history(home.id, scope="user/alice"))
        # 3. a fact with an id of its own may replace another
        clock.advance(days=10)
        memory.remember_fact(scope="user/alice", fact="User moved to Faro", category="identity", replaces=home.id)
        print("\n== replaced")
        show(memory.history(home.id, scope="user/alice"))


if __name__ == "__main__":
    main()
