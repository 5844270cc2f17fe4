"""What a memory is made of, with every default filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.messages import Message
from memory_retrievers.models import AnyMemory, Draft
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings

if TYPE_CHECKING:
    from memory_retrievers.backends.chroma import ChromaClient
    from memory_retrievers.embeddings.adapt import AnyEmbedder
    from memory_retrievers.language_models import AnyLanguageModel
    from memory_retrievers.protocols import Clock, Embedder, LanguageModel

BeforeStore: TypeAlias = "Callable[[Message | Draft | AnyMemory], Message | Draft | AnyMemory | None]"
"""Sees every message before it is queued and every memory before it is stored; gives it, changed or not, or None."""

DenseEngine: TypeAlias = "Literal['auto', 'exact', 'chroma'] | ChromaClient"
"""How vectors are searched: ``exact``: by comparing with every one. ``auto``: exactly in small scopes, by Chroma's HNSW
in wide ones, once it has been filled in the background. ``chroma``: always by Chroma, filled before each search. A
client of a Chroma server or of Chroma Cloud: as ``auto``, with the collection there."""

KeywordEngine: TypeAlias = Literal["sqlite_bm25", "rank_bm25"]


class SystemClock:
    """The time of this machine; all of them are the same."""

    def now(self) -> datetime:
        """The current moment in UTC."""
        return datetime.now(UTC)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemClock)

    def __hash__(self) -> int:
        return hash(SystemClock)


def chosen_embedder(embedder: AnyEmbedder | None, *, embedder_id: str | None) -> Embedder:
    """The embedder a caller has asked for; None is the bundled one.

    Raises:
        ConfigurationError: It embeds in no known way, or the id is blank.
    """
    # imported here, so that importing the package loads no numpy
    from memory_retrievers.embeddings.adapt import adapt
    from memory_retrievers.embeddings.minilm import MiniLMEmbedder

    return adapt(MiniLMEmbedder() if embedder is None else embedder, embedder_id=embedder_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an engine is made of, with every default filled in.

    ``language_model`` is ``given_language_model`` in the package's shape, which is made anew each time and so is equal
    to nothing; two holders are compared by what they gave.
    """

    embedder: Embedder
    retrieval: RetrievalSettings
    clock: Clock
    keyword: KeywordEngine
    dense: DenseEngine
    language_model: LanguageModel | None
    given_language_model: AnyLanguageModel | None
    ingestion: IngestionSettings
    review: ReviewSettings
    before_store: BeforeStore | None
    tools: ToolSettings

    @classmethod
    def chosen(
        cls,
        *,
        embedder: AnyEmbedder | None,
        embedder_id: str | None,
        retrieval: RetrievalSettings | None,
        clock: Clock | None,
        keyword: KeywordEngine,
        dense: DenseEngine,
        language_model: AnyLanguageModel | None = None,
        ingestion: IngestionSettings | None = None,
        review: ReviewSettings | None = None,
        before_store: BeforeStore | None = None,
        tools: ToolSettings | None = None,
    ) -> Parts:
        """The parts a caller has asked for; None is the default.

        Raises:
            ConfigurationError: The embedder or language model works in no known way, or there is no such engine.
        """
        if keyword not in {"sqlite_bm25", "rank_bm25"}:
            raise ConfigurationError(f"unknown keyword engine {keyword!r}; one of: sqlite_bm25, rank_bm25")
        if isinstance(dense, str) and dense not in {"auto", "exact", "chroma"}:
            raise ConfigurationError(f"unknown dense engine {dense!r}; one of: auto, exact, chroma, or a Chroma client")
        return cls(
            embedder=chosen_embedder(embedder, embedder_id=embedder_id),
            retrieval=retrieval or RetrievalSettings(),
            clock=SystemClock() if clock is None else clock,
            keyword=keyword,
            dense=dense,
            language_model=None if language_model is None else _adapted(language_model),
            given_language_model=language_model,
            ingestion=ingestion or IngestionSettings(),
            review=review or ReviewSettings(),
            before_store=before_store,
            tools=tools or ToolSettings(),
        )

    @property
    def settings(self) -> tuple[object, ...]:
        """What two holders of one store must agree on: the embedder by its name, the rest by equality."""
        return self.settings_with(self.embedder.id)

    def settings_with(self, embedder_id: str) -> tuple[object, ...]:
        """The same, once the store has moved to an embedder of this name."""
        return (
            embedder_id,
            self.retrieval,
            self.keyword,
            self.dense,
            self.clock,
            self.given_language_model,
            self.ingestion,
            self.review,
            self.before_store,
            self.tools,
        )


def _adapted(language_model: AnyLanguageModel) -> LanguageModel:
    from memory_retrievers.language_models import adapt

    return adapt(language_model)
