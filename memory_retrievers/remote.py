"""A memory on a server, used like one in this process."""

from memory_retrievers.server.client import RemoteMemory, RemoteToolbox

__all__ = ["RemoteMemory", "RemoteToolbox"]
