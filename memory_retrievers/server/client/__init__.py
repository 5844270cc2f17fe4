"""A memory on a server, used like one in this process.

``RemoteMemory`` goes wherever an ``AgentMemory`` goes in the LangChain and LlamaIndex classes; ``RemoteToolbox`` calls
the memory tools.
"""

from memory_retrievers.server.client.memory import RemoteMemory, RemoteToolbox

__all__ = ["RemoteMemory", "RemoteToolbox"]
