"""Take in a Chroma collection that exists already, follow its changes, and write changes back if that is wanted.

Collections are known by their methods alone; nothing here imports chromadb.
"""

from memory_retrievers.adoption.collection import Collection, check_collection
from memory_retrievers.adoption.embedder import check_embedder
from memory_retrievers.adoption.intake import adopt, sync
from memory_retrievers.adoption.settings import Adoption
from memory_retrievers.adoption.write_through import WriteThrough

__all__ = [
    "Adoption",
    "Collection",
    "WriteThrough",
    "adopt",
    "check_collection",
    "check_embedder",
    "sync",
]
