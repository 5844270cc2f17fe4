"""A memory on a server, used like one in this process.

``RemoteMemory`` goes wherever an ``AgentMemory`` goes in the LangChain and LlamaIndex classes; ``RemoteToolbox`` calls
the memory tools.
"""

from memory_retrievers.remote.memory import RemoteMemory
from memory_retrievers.remote.toolbox import RemoteToolbox

__all__ = ["RemoteMemory", "RemoteToolbox"]
