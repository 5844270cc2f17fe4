"""Which facts are known already: the nearest ones that hold, and that tell the same (specification §2.15)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from memory_retrievers.models import Kind, Origin, SemanticDraft, SemanticMemory
from memory_retrievers.passages import Hits, Selection
from memory_retrievers.same_memory import same
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.store import MemoryStore

if TYPE_CHECKING:
    from memory_retrievers.passages import Vectors

NEAREST: Final = 5
"""So many of the nearest facts are compared."""


def homes_of(
    drafts: Sequence[SemanticDraft],
    *,
    store: MemoryStore,
    settings: IngestionSettings,
    leaving: Collection[str],
) -> list[SemanticMemory | int]:
    """Where each draft belongs: the fact of its scope that tells the same already, or the first such draft.

    Args:
        drafts: New facts of one scope.
        store: Where the known facts are.
        settings: What counts as the same.
        leaving: The ids of facts that are about to be invalidated, and so are no home.

    Returns:
        For each draft a stored fact, or the position of a draft: its own, unless an earlier one tells the same.

    Raises:
        EmbeddingError: The embedder failed.
    """
    if not drafts:
        return []
    vectors, nearest = _nearest(drafts, store, limit=NEAREST + len(leaving))
    homes: list[SemanticMemory | int] = []
    for position, (draft, near) in enumerate(zip(drafts, nearest, strict=True)):
        known = _known_home(draft, near, store=store, settings=settings, leaving=leaving)
        homes.append(_first_alike(position, drafts, vectors, homes, settings) if known is None else known)
    return homes


def _nearest(drafts: Sequence[SemanticDraft], store: MemoryStore, *, limit: int) -> tuple[Vectors, list[Hits]]:
    """The vectors of the drafts as they would be stored, and the stored facts nearest to each."""
    selection = Selection(scope=drafts[0].scope, kind=Kind.SEMANTIC, now=store.now())
    while True:
        embedder = store.embedder.current()
        try:
            vectors = embedder.embed_documents([draft.embedding_text for draft in drafts])
            nearest = [store.dense.search(vector, selection, limit=limit) for vector in vectors]
        except Exception:
            if store.embedder.holds(embedder):
                raise
            continue  # the store has just moved to another embedder, and vectors of two lengths may have met
        if store.embedder.holds(embedder):
            return vectors, nearest


def _known_home(
    draft: SemanticDraft,
    hits: Hits,
    *,
    store: MemoryStore,
    settings: IngestionSettings,
    leaving: Collection[str],
) -> SemanticMemory | None:
    """The nearest stored fact that tells the same."""
    memories = store.ledger.load(hits.memories)
    near = ((memories.get(row), cosine) for row, cosine in zip(hits.memories, hits.scores, strict=True))
    candidates = [
        (fact, cosine)
        for fact, cosine in near
        if isinstance(fact, SemanticMemory) and is_current(fact, store) and fact.id not in leaving
    ]
    for fact, cosine in candidates[:NEAREST]:
        if same(draft.fact, fact.fact, cosine=cosine, settings=settings):
            return fact
    return None


def is_current(fact: SemanticMemory, store: MemoryStore) -> bool:
    """Whether a fact holds and may be changed here; what an application keeps under keys of its own is left alone."""
    return (
        fact.invalid_at is None
        and (fact.expires_at is None or fact.expires_at > store.now())
        and fact.origin != Origin.STORE
    )


def _first_alike(
    position: int,
    drafts: Sequence[SemanticDraft],
    vectors: Vectors,
    homes: Sequence[SemanticMemory | int],
    settings: IngestionSettings,
) -> int:
    """The first draft that stays and tells the same; the draft itself if there is none before it."""
    for earlier in range(position):
        cosine = float(vectors[earlier] @ vectors[position])
        if homes[earlier] == earlier and same(
            drafts[earlier].fact, drafts[position].fact, cosine=cosine, settings=settings
        ):
            return earlier
    return position
