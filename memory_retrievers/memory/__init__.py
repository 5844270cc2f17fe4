"""The front door: ``AgentMemory``, in the parts that open a store, remember, recall and keep it."""

from memory_retrievers.memory.agent import AgentMemory

__all__ = ["AgentMemory"]
