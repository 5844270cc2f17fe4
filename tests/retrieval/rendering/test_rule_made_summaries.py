"""A block tells evidence: where rules made the summary, the turns that match stand in its place."""

import pytest
from contracts.samples import NOW

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.testing import FixedClock, HashEmbedder

SAID = [
    {"role": "user", "content": "Ask Marta to feed the cat.", "timestamp": "2026-02-20T09:00Z"},
    {"role": "user", "content": "She can't feed the cat, I'll ask Pavel.", "timestamp": "2026-02-20T09:05Z"},
    {"role": "user", "content": "The fence is teal now.", "timestamp": "2026-02-20T09:06Z"},
]


def memory_with(settings, *, by):
    memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(NOW), retrieval=settings)
    if by == "rules":
        memory.add_messages("user/alice", SAID)
        memory.flush("user/alice")
    else:
        memory.remember_episode(scope="user/alice", summary="Pavel feeds the cat.", title="The cat", messages=SAID)
    return memory


def block(memory, **options):
    return memory.retrieve("who feeds the cat?", scope="user/alice", record=False).to_markdown(**options)


def test_the_matching_turns_stand_dated_in_place_of_a_summary_made_by_rules():
    with memory_with(RetrievalSettings(), by="rules") as memory:
        text = block(memory)
        assert "**Summary:**" not in text
        assert "**When:** last week (20 February 2026)" in text
        assert "- user: \"She can't feed the cat, I'll ask Pavel.\"" in text


def test_a_budget_keeps_the_turns_and_is_kept():
    with memory_with(RetrievalSettings(), by="rules") as memory:
        for tokens in range(0, 120, 5):
            text = block(memory, max_tokens=tokens)
            assert len(text) <= 4 * tokens
        assert "Pavel" in block(memory, max_tokens=60)


@pytest.mark.parametrize("detail", ["none", "low", "high"])
def test_the_other_levels_show_the_summary(detail):
    with memory_with(RetrievalSettings(), by="rules") as memory:
        assert "**Summary:** User:" in block(memory, detail=detail)


@pytest.mark.parametrize(("settings", "by"), [("default", "caller"), ("reference", "rules"), ("reference", "caller")])
def test_the_specified_form_stands_where_somebody_wrote_the_summary_and_under_the_reference(settings, by):
    chosen = RetrievalSettings() if settings == "default" else RetrievalSettings.reference()
    with memory_with(chosen, by=by) as memory:
        text = block(memory)
        assert "**Summary:** " in text
        assert "(20 February 2026)" not in text


def test_a_document_holds_the_turns_as_well():
    with memory_with(RetrievalSettings(), by="rules") as memory:
        (document,) = MemoryRetriever(memory=memory, scope="user/alice").invoke("who feeds the cat?")
        assert "I'll ask Pavel" in document.page_content
        assert "Earlier:" not in document.page_content
