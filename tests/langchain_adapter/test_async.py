"""The event loop is never held up."""

import pytest
from blockbuster import BlockingError

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryRetriever, RetrieveMemoryTool
from memory_retrievers.testing.fakes import HashEmbedder


@pytest.fixture
def memory_on_disk(tmp_path):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/bob", fact="Bob lives in Bergen")
        memory.remember_episode(scope="user/bob", summary="Bob moved to Bergen")
        memory.retrieve("Bergen", scope="user/bob", record=False)  # the guard would leave a new connection half-open
        yield memory


async def test_the_guard_notices_a_memory_that_is_read_on_the_event_loop(memory_on_disk, no_blocking):
    with pytest.raises(BlockingError):
        memory_on_disk.retrieve("Who?", scope="user/bob")


async def test_a_retriever_does_not_block(memory_on_disk, no_blocking):
    retriever = MemoryRetriever(memory=memory_on_disk, scope="user/bob")
    assert len(await retriever.ainvoke("Bergen")) == 2
    assert [len(found) for found in await retriever.abatch(["Bergen", "Bob"], k=1)] == [1, 1]
    assert [len(found) async for found in retriever.astream("Bergen")] == [2]


async def test_a_tool_does_not_block(memory_on_disk, no_blocking):
    tool = RetrieveMemoryTool(memory=memory_on_disk, scope="user/bob")
    assert "Bergen" in await tool.ainvoke({"query": "Bergen"})
