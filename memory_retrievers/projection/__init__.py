"""A vector index outside the ledger: fed from the outbox, checked, made anew, and used where searches are wide."""

from memory_retrievers.projection.index import ProjectedVectorIndex

__all__ = ["ProjectedVectorIndex"]
