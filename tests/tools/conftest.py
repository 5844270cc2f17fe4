"""A memory of one user, as the tools see it."""

import pytest

from memory_retrievers import Message
from memory_retrievers.tools.spec import ToolContext


@pytest.fixture
def filled(memory, clock):
    """Alice's memory: two facts, an ordinary episode and a key moment."""
    memory.remember_fact(scope="user/alice", fact="User lives in Lyon", category="identity", keywords=["Lyon"])
    memory.remember_fact(scope="user/alice", fact="Assistant should answer in metric units", category="guideline")
    clock.advance(days=-8)
    memory.remember_episode(
        scope="user/alice",
        title="Garden plan",
        summary="The user sketched an irrigation layout for the garden in Lyon.",
        messages=[Message(role="user", content="Where do the pipes go?")],
    )
    clock.advance(days=6)
    memory.remember_episode(
        scope="user/alice",
        title="Broken import",
        summary="The nightly import in Lyon failed again.",
        messages=[
            Message(role="user", content='It died again.\nThird time "this week".'),
            Message(role="assistant", content="Shall we stream it instead?"),
        ],
        surprise=0.9,
    )
    clock.advance(days=2)
    return memory


@pytest.fixture
def context(filled):
    return ToolContext(memory=filled, root="user/alice")
