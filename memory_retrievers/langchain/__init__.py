"""Long-term memory for LangChain: a retriever, tools, a vector store, a chat history, an agent middleware, and more.

::

    retriever = MemoryRetriever(memory=memory, scope="user/alice", k=5)
    agent = create_agent(model, tools=[RetrieveMemoryTool(memory=memory)])
    agent = create_agent(model, tools=MemoryToolkit(memory, scope="user/alice").get_tools())
    agent = create_agent(model, middleware=[AgentMemoryMiddleware(memory=memory)], checkpointer=checkpointer)
    agent.invoke(messages, {"configurable": {"user_id": "user/alice", "thread_id": "t1"}})

Names load when first used, so that the retriever and the tools need ``langchain-core`` alone:
``pip install "memory-retrievers[langchain]"``. ``AgentMemoryMiddleware`` and ``MemoryStoreAdapter`` need the extra
``agents``, ``ConversationMemory`` the extra ``classic``.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from memory_retrievers.errors import Extra, lazy_names

if TYPE_CHECKING:
    from memory_retrievers.langchain.memory import ConversationMemory
    from memory_retrievers.langchain.middleware import AgentMemoryMiddleware
    from memory_retrievers.langchain.retriever import MemoryRetriever
    from memory_retrievers.langchain.store import MemoryStoreAdapter
    from memory_retrievers.langchain.tools import MemoryToolkit, RegistryTool, RetrieveMemoryTool
    from memory_retrievers.langchain.turns import MemoryChatHistory
    from memory_retrievers.langchain.vector_store import MemoryVectorStore

__all__ = [
    "AgentMemoryMiddleware",
    "ConversationMemory",
    "MemoryChatHistory",
    "MemoryRetriever",
    "MemoryStoreAdapter",
    "MemoryToolkit",
    "MemoryVectorStore",
    "RegistryTool",
    "RetrieveMemoryTool",
]
if not TYPE_CHECKING:  # ``import *`` asks for nothing that is not installed
    _needs = {"AgentMemoryMiddleware": "langchain", "ConversationMemory": "langchain_classic"}
    _needs["MemoryStoreAdapter"] = "langgraph"
    _there = {name for name, home in _needs.items() if sys.modules.get(home) or find_spec(home)}
    __all__ = [name for name in __all__ if name not in _needs or name in _there]

__getattr__ = lazy_names(
    __name__,
    {
        "AgentMemoryMiddleware": f"{__name__}.middleware",
        "ConversationMemory": f"{__name__}.memory",
        "MemoryChatHistory": f"{__name__}.turns",
        "MemoryRetriever": f"{__name__}.retriever",
        "MemoryStoreAdapter": f"{__name__}.store",
        "MemoryToolkit": f"{__name__}.tools",
        "MemoryVectorStore": f"{__name__}.vector_store",
        "RegistryTool": f"{__name__}.tools",
        "RetrieveMemoryTool": f"{__name__}.tools",
    },
    Extra(package="langchain-core", module="langchain_core", name="langchain"),
    Extra(package="langchain", module="langchain", name="agents"),
    Extra(package="langgraph", module="langgraph", name="agents"),
    Extra(package="langchain-classic", module="langchain_classic", name="classic"),
)


def __dir__() -> list[str]:
    return __all__
