"""Long-term memory for LangChain: a retriever and tools.

::

    retriever = MemoryRetriever(memory=memory, scope="user/alice", k=5)
    agent = create_agent(model, tools=[RetrieveMemoryTool(memory=memory)])
    agent.invoke(messages, {"configurable": {"user_id": "user/alice"}})

Names load when first used, so that the retriever and the tools need ``langchain-core`` alone:
``pip install "memory-retrievers[langchain]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.extras import Extra, lazy_names

if TYPE_CHECKING:
    from memory_retrievers.langchain.retriever import MemoryRetriever
    from memory_retrievers.langchain.tools import RegistryTool, RetrieveMemoryTool

__all__ = ["MemoryRetriever", "RegistryTool", "RetrieveMemoryTool"]

__getattr__ = lazy_names(
    __name__,
    {
        "MemoryRetriever": f"{__name__}.retriever",
        "RegistryTool": f"{__name__}.tools",
        "RetrieveMemoryTool": f"{__name__}.tools",
    },
    Extra(package="langchain-core", module="langchain_core", name="langchain"),
)


def __dir__() -> list[str]:
    return __all__
