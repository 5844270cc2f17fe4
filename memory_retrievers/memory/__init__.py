"""The facade: ``AgentMemory``, over an engine of store, retrieval, ingestion and tools."""

from memory_retrievers.memory.agent import AgentMemory
from memory_retrievers.models.filters import SearchOptions
from memory_retrievers.storage.options import StoreOptions

__all__ = ["AgentMemory", "SearchOptions", "StoreOptions"]
