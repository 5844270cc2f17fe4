"""Options of a store: embedder, engines, settings and clock, with all defaults resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from memory_retrievers.backends.files import PRIVATE, SHARED_GROUP, Access
from memory_retrievers.errors import ConfigurationError, only_known
from memory_retrievers.models import AnyMemory, Draft
from memory_retrievers.models.messages import Message
from memory_retrievers.protocols import Clock, Embedder, Judge, LanguageModel, Segmenter
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, ToolSettings

if TYPE_CHECKING:
    from memory_retrievers.backends.chroma.collection import ChromaClient
    from memory_retrievers.backends.embeddings import AnyEmbedder
    from memory_retrievers.backends.language_models import AnyLanguageModel

BeforeStore: TypeAlias = "Callable[[Message | Draft | AnyMemory], Message | Draft | AnyMemory | None]"
"""Sees every message before it is queued and every memory before it is stored; gives it, changed or not, or None."""

DenseEngine: TypeAlias = "Literal['auto', 'exact', 'chroma'] | ChromaClient"
"""How vectors are searched: ``exact``: by comparing with every one. ``auto``: exactly in small scopes, by Chroma's HNSW
in wide ones, once it has been filled in the background. ``chroma``: always by Chroma, filled before each search. A
client of a Chroma server or of Chroma Cloud: as ``auto``, with the collection there."""

KeywordEngine: TypeAlias = Literal["sqlite_bm25", "rank_bm25"]
"""What finds by words where words alone are searched: with ``fusion="rrf"``, among more passages than ``exact_limit``,
and in the tools' search by words. The default fusion counts the words of every passage itself, so that there both give
the same. ``sqlite_bm25``: counts that are kept in the database. ``rank_bm25``: that library, over a scope in memory,
which is for small stores and for comparing."""


class StoreOptions(TypedDict, total=False):
    """Options of a store, by name: everything that opens or creates an ``AgentMemory`` takes them.

    An option that is left out, or None, has its default.

    Attributes:
        embedder: Turns text into vectors: a LangChain, LlamaIndex or Chroma embedder, or a function from a list of
            texts to a list of vectors. Default: the bundled all-MiniLM-L6-v2, which needs no network.
        embedder_id: The name under which the store remembers the embedder. Default: derived from the embedder.
        retrieval: How to rank and show. Default: ``RetrievalSettings()``; ``RetrievalSettings.reference()`` is the
            specification.
        clock: Tells the time. Default: the system's clock.
        dense: How vectors are searched: ``auto`` exactly in small scopes and by Chroma in wide ones (see
            ``RetrievalSettings.exact_limit``), ``exact``, ``chroma``, or the client of a Chroma server or of Chroma
            Cloud, which is then used in wide scopes. Default: ``auto``; with PostgreSQL, pgvector's HNSW is used in
            wide scopes instead, and ``chroma`` is refused.
        language_model: Divides conversations into episodes, extracts facts from them and judges which memories were
            useful: a LangChain chat model, a LlamaIndex LLM, or an object with ``generate(system, user, schema)``.
            Default: none; rules make episodes and reviews, and no facts are extracted.
        segmenter: Divides conversations into episodes: an object with ``segment(messages, context)``, see
            ``protocols.Segmenter``. Default: the language model, or rules if there is none.
        judge: Rates retrieved memories: an object with ``rate(conversation, memories, embed=...)``, see
            ``protocols.Judge``. Default: the language model, or rules if there is none.
        ingestion: How messages become episodes, and episodes facts. Default: ``IngestionSettings()``.
        review: How retrieved memories are reviewed. Default: ``ReviewSettings()``.
        before_store: A function that sees every message before it is queued and every memory before it is stored. It
            returns it, changed or not, or None to reject it. For redaction and consent. Default: nothing is changed.
        tools: The limits of the memory tools. Default: ``ToolSettings.from_environment()``.
    """

    embedder: AnyEmbedder | None
    embedder_id: str | None
    retrieval: RetrievalSettings | None
    clock: Clock | None
    dense: DenseEngine | None
    language_model: AnyLanguageModel | None
    segmenter: Segmenter | None
    judge: Judge | None
    ingestion: IngestionSettings | None
    review: ReviewSettings | None
    before_store: BeforeStore | None
    tools: ToolSettings | None


def chosen_embedder(embedder: AnyEmbedder | None, *, embedder_id: str | None) -> Embedder:
    """Adapt the embedder a caller has given; None gives the bundled one."""
    # imported here, so that importing the package loads no numpy
    from memory_retrievers.backends.embeddings import adapt
    from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder

    return adapt(MiniLMEmbedder() if embedder is None else embedder, embedder_id=embedder_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedOptions:
    """Options of a store with every default filled in.

    ``language_model`` is ``given_language_model`` in the package's shape, which is made anew each time and so is equal
    to nothing; two holders are compared by what they gave.
    """

    embedder: Embedder
    retrieval: RetrievalSettings
    clock: Clock | None
    keyword: KeywordEngine
    dense: DenseEngine
    language_model: LanguageModel | None
    given_language_model: AnyLanguageModel | None
    segmenter: Segmenter | None
    judge: Judge | None
    ingestion: IngestionSettings
    review: ReviewSettings
    before_store: BeforeStore | None
    tools: ToolSettings
    shared_group: bool = False

    @classmethod
    def chosen(cls, options: StoreOptions, *, keyword: KeywordEngine, shared_group: bool = False) -> ResolvedOptions:
        """Fill in the defaults of what a caller has asked for.

        Args:
            options: What was given by name.
            keyword: The BM25 engine.
            shared_group: Whether the files are for all users of the directory's group.

        Raises:
            TypeError: There is no option of such a name.
            ConfigurationError: The embedder, language model, segmenter or judge works in no known way, there is no
                such engine, or an environment variable is wrong.
        """
        only_known(options, StoreOptions.__optional_keys__, of="the options of a store")
        dense = options.get("dense")
        if keyword not in {"sqlite_bm25", "rank_bm25"}:
            raise ConfigurationError(f"unknown keyword engine {keyword!r}; one of: sqlite_bm25, rank_bm25")
        if isinstance(dense, str) and dense not in {"auto", "exact", "chroma"}:
            raise ConfigurationError(f"unknown dense engine {dense!r}; one of: auto, exact, chroma, or a Chroma client")
        for option, method in (("segmenter", "segment"), ("judge", "rate"), ("clock", "now")):
            _check_method(option, options.get(option), method=method)
        kinds = (RetrievalSettings, IngestionSettings, ReviewSettings, ToolSettings)
        for name, kind in zip(("retrieval", "ingestion", "review", "tools"), kinds, strict=True):
            if not isinstance(given := options.get(name), kind | None):
                raise ConfigurationError(f"{name}= takes {kind.__name__}(...), not {type(given).__name__}")
        from memory_retrievers.backends.language_models import adapt

        language_model, tools = options.get("language_model"), options.get("tools")
        return cls(
            embedder=chosen_embedder(options.get("embedder"), embedder_id=options.get("embedder_id")),
            retrieval=options.get("retrieval") or RetrievalSettings(),
            clock=options.get("clock"),
            keyword=keyword,
            dense="auto" if dense is None else dense,
            language_model=None if language_model is None else adapt(language_model),
            given_language_model=language_model,
            segmenter=options.get("segmenter"),
            judge=options.get("judge"),
            ingestion=options.get("ingestion") or IngestionSettings(),
            review=options.get("review") or ReviewSettings(),
            before_store=options.get("before_store"),
            tools=ToolSettings.from_environment() if tools is None else tools,
            shared_group=shared_group,
        )

    @property
    def access(self) -> Access:
        """Modes of the files that are created."""
        return SHARED_GROUP if self.shared_group else PRIVATE

    def settings_with(self, embedder_id: str) -> dict[str, object]:
        """Options on which two holders of one store must agree: the embedder by its name now, the rest by equality."""
        others = (each.name for each in fields(self) if each.name not in {"embedder", "language_model"})
        return {"embedder": embedder_id} | {name.removeprefix("given_"): getattr(self, name) for name in others}


def _check_method(option: str, given: object, *, method: str) -> None:
    if given is None or (callable(getattr(given, method, None)) and not isinstance(given, type)):
        return
    kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise ConfigurationError(
        f"{option}= takes an object with the method {method}, as memory_retrievers.protocols.{option.capitalize()} "
        f"describes it, not {kind}"
    )
