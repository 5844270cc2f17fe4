"""Which parts of the write path a memory uses: those with a language model where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_retrievers.ingestion.consolidation import FactConsolidator
from memory_retrievers.ingestion.language_model import LanguageModelSegmenter
from memory_retrievers.ingestion.offline import OfflineSegmenter
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.review import LanguageModelJudge, OfflineJudge

if TYPE_CHECKING:
    from memory_retrievers.protocols import LanguageModel
    from memory_retrievers.retrieval.retriever import HybridRetriever
    from memory_retrievers.settings import IngestionSettings, ReviewSettings
    from memory_retrievers.store import MemoryStore


def pipeline_of(
    store: MemoryStore,
    retriever: HybridRetriever,
    *,
    language_model: LanguageModel | None,
    settings: IngestionSettings,
    review_settings: ReviewSettings,
) -> IngestionPipeline:
    """The write path over a store."""
    consolidator = None
    if language_model is not None:
        consolidator = FactConsolidator(store, retriever, language_model, settings)
    return IngestionPipeline(
        store,
        segmenter=OfflineSegmenter() if language_model is None else LanguageModelSegmenter(language_model),
        judge=OfflineJudge() if language_model is None else LanguageModelJudge(language_model),
        consolidator=consolidator,
        settings=settings,
        review_settings=review_settings,
    )
