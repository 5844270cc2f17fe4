"""Long-term memory for LlamaIndex: a retriever, tools, a block for LlamaIndex's own memory, and a chat memory.

::

    engine = RetrieverQueryEngine.from_args(MemoryRetriever(memory, scope="user/alice"))
    agent = FunctionAgent(tools=MemoryToolSpec(memory, scope="user/alice").to_tool_list(), llm=llm)
    chat = Memory.from_defaults(memory_blocks=[LongTermMemoryBlock(memory=memory, scope="user/alice")])
    chat = ConversationMemory.from_defaults(memory, scope="user/alice")
    await agent.run("Where did we stop?", memory=chat)

Names load when first used, and need ``llama-index-core``: ``pip install "memory-retrievers[llama-index]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.errors import Extra, lazy_names

if TYPE_CHECKING:
    from memory_retrievers.llama_index.block import LongTermMemoryBlock
    from memory_retrievers.llama_index.memory import ConversationMemory
    from memory_retrievers.llama_index.retriever import MemoryRetriever
    from memory_retrievers.llama_index.tools import MemoryToolSpec

__all__ = ["ConversationMemory", "LongTermMemoryBlock", "MemoryRetriever", "MemoryToolSpec"]

__getattr__ = lazy_names(
    __name__,
    {
        "ConversationMemory": f"{__name__}.memory",
        "LongTermMemoryBlock": f"{__name__}.block",
        "MemoryRetriever": f"{__name__}.retriever",
        "MemoryToolSpec": f"{__name__}.tools",
    },
    Extra(package="llama-index-core", module="llama_index", name="llama-index"),
)


def __dir__() -> list[str]:
    return __all__
