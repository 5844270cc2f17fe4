"""What snapshots keep in memory of a store's words and vectors, for tests of what is gone for good."""

from collections import Counter

from memory_retrievers.retrieval.late_interaction import KeptTokens


def kept_snapshots(ledger):
    return [entry.snapshot for entry in ledger.snapshots._entries.values()]


def held_bytes(ledger):
    """Bytes of the snapshots that are kept, by scope; those of its fields together."""
    sizes = Counter()
    for (scope, *_), entry in ledger.snapshots._entries.items():
        sizes[scope] += entry.size
    return dict(sizes)


def kept_terms(look):
    """Every term that snapshots keep, of whatever scope, with what was made of them; ``look`` is ``inside(memory)``."""
    return {term for snapshot in kept_snapshots(look.ledger) for block in blocks(snapshot) for term in block.postings}


def kept_passages(look):
    """The ids of the passages whose terms or vectors snapshots keep."""
    kept = kept_snapshots(look.ledger)
    arrays = [array for snapshot in kept for array in (snapshot.ids, *(block.ids for block in blocks(snapshot)))]
    with_tokens = {passage for snapshot in kept for value in tokens(snapshot) for passage in value._tokens}
    return with_tokens.union(passage for array in arrays for passage in array.tolist())


def blocks(snapshot):
    """Terms of a snapshot, and those in the models of rank_bm25 that were made of it."""
    kept = tokens(snapshot)
    return [snapshot.terms, *(value.block for value, _ in snapshot.attached.values() if value not in kept)]


def tokens(snapshot):
    return [value for value, _ in snapshot.attached.values() if isinstance(value, KeptTokens)]
