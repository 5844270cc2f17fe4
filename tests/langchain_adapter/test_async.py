"""The event loop is never held up."""

import pytest
from blockbuster import BlockingError

from memory_retrievers.langchain import MemoryRetriever, RetrieveMemoryTool


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
