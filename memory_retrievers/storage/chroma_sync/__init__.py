"""Imports an existing Chroma collection, follows its changes, and optionally writes changes back.

Collections are recognised by their methods alone; nothing here imports chromadb.
"""

from memory_retrievers.storage.chroma_sync.collection import (
    AnyCollection,
    Collection,
    Where,
    check_collection,
    check_where,
    collection_in,
    embedder_in,
)
from memory_retrievers.storage.chroma_sync.importer import adopt, sync
from memory_retrievers.storage.chroma_sync.rows import check_embedder
from memory_retrievers.storage.chroma_sync.settings import Adoption
from memory_retrievers.storage.chroma_sync.write_through import WriteThrough

__all__ = [
    "Adoption",
    "AnyCollection",
    "Collection",
    "Where",
    "WriteThrough",
    "adopt",
    "check_collection",
    "check_embedder",
    "check_where",
    "collection_in",
    "embedder_in",
    "sync",
]
