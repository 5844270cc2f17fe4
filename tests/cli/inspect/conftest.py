"""What the inspection tests start from: a store with something of everything, and hostile texts."""

from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, EpisodicMemory, Message, SceneEvent, SemanticMemory
from memory_retrievers.testing import HashEmbedder

HOSTILE = (
    "</script><script>window.hacked=1</script>"
    "<!--<script><img src=http://127.0.0.1:9/x onerror=window.hacked=1>"
    "<svg/onload=window.hacked=1>\"'&amp;${title}$title\u2028\u2029\u202eevil\x00\x1b[31m"
)


HOSTILE_SCOPE = "user/<script>alert(1)<|script>\"'&${data}"


@pytest.fixture
def stocked(clock):
    """A memory in which there is something of everything that a page shows."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        now = clock.now()
        memory.remember_episode(
            scope="user/ruth",
            id="bees",
            title="Ruth buys bees",
            summary="Ruth bought two hives at the market in Lyon.",
            messages=[
                Message(role="user", content="I bought two hives today."),
                Message(role="assistant", content="What a plan!"),
            ],
            surprise=0.8,
            created_at=now - timedelta(days=10),
            last_reviewed_at=now - timedelta(days=4),
            tags=["garden"],
        )
        wedding = EpisodicMemory.new(scope="user/ruth", id="wedding", summary="The wedding day", is_flashbulb=True)
        memory.remember_many([wedding])
        old = memory.remember_fact(scope="user/ruth", fact="Ruth lives in Lyon", category="identity")
        memory.invalidate(old.id, scope="user/ruth")
        memory.remember_fact(scope="user/ruth", fact="Ruth lives in Nantes", category="identity", keywords=["Nantes"])
        memory.remember_fact(scope="user/tom", fact="Tom keeps goats", category="interest")
        memory.retrieve("hives", scope="user/ruth")
        memory.add_messages("user/new", [Message(role="user", content="Hello, I am new.")])
        memory.add_scene_events(
            "story",
            [
                SceneEvent(
                    summary="Oren hid the key",
                    importance=5,
                    message_ids=[1],
                    characters_involved=["Oren"],
                    emotional_impact={"Oren": "afraid"},
                    location="the mill",
                )
            ],
        )
        yield memory


@pytest.fixture
def hostile_text():
    """A text that does all it can to become more than a text."""
    return HOSTILE


@pytest.fixture
def hostile_scope():
    """A scope that does."""
    return HOSTILE_SCOPE


@pytest.fixture
def hostile(clock):
    """A memory that has a hostile text wherever one can be stored."""
    shown = HOSTILE.replace("\x00", "")
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        shared = {"scope": HOSTILE_SCOPE, "tags": [shown], "metadata": {shown: [shown, {shown: 1}]}, "agent_id": shown}
        memory.remember_many(
            [
                EpisodicMemory.new(
                    **shared,
                    id=f"e{shown}",
                    title=HOSTILE,
                    summary=HOSTILE,
                    messages=[Message(role=shown, content=HOSTILE)],
                ),
                SemanticMemory.new(
                    **shared, id=f"f{shown}", fact=HOSTILE, keywords=[shown], source_episodic_ids=[f"e{shown}"]
                ),
            ]
        )
        memory.retrieve(HOSTILE, scope=HOSTILE_SCOPE)
        memory.add_messages(HOSTILE_SCOPE, [Message(role=shown, content=HOSTILE)])
        memory.add_scene_events(
            HOSTILE_SCOPE,
            [
                SceneEvent(
                    summary=HOSTILE,
                    id=f"s{shown}",
                    message_ids=[1],
                    characters_involved=[shown],
                    emotional_impact={shown: shown},
                    location=shown,
                )
            ],
        )
        yield memory
