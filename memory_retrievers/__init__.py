"""Long-term memory for LangChain and LlamaIndex agents.

``AgentMemory`` is the front door; the adapters are in ``memory_retrievers.langchain`` and
``memory_retrievers.llama_index``. Importing this package loads no framework, no chromadb and no numpy.
"""

from memory_retrievers.errors import (
    BackendError,
    BatchOperationError,
    ConfigurationError,
    DiskFullError,
    EmbeddingError,
    EmbeddingMismatchError,
    IndexOutOfStepError,
    LanguageModelError,
    MemoryRetrieversError,
    MissingExtraError,
    NotFoundError,
    StoreLockedError,
    ValidationError,
)
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import Category, DetailLevel, EpisodicMemory, Rating, ScopeStatistics, SemanticMemory
from memory_retrievers.models.contents import AdoptionReport, VerificationReport
from memory_retrievers.models.messages import Message
from memory_retrievers.models.results import Explanation, Page, PendingReview, Queued, Report, RetrievedMemory
from memory_retrievers.models.scenes import CharacterState, SceneDetails, SceneEvent
from memory_retrievers.retrieval.results import RecentResult, RetrievalResult
from memory_retrievers.settings import IngestionSettings, RetrievalSettings, ReviewSettings, SceneSettings, ToolSettings

__version__ = "0.1.0"

# fmt: off
__all__ = [  # noqa: RUF022 - in sections
    # the front door
    "AgentMemory", "RetrievalSettings", "IngestionSettings", "ReviewSettings", "SceneSettings", "ToolSettings",
    # what goes in and comes out
    "Message", "EpisodicMemory", "SemanticMemory",
    "RetrievalResult", "RecentResult", "RetrievedMemory", "Explanation", "PendingReview", "ScopeStatistics", "Page",
    "Queued", "Report", "AdoptionReport", "VerificationReport",
    "SceneEvent", "SceneDetails", "CharacterState",
    # the words they use
    "Category", "DetailLevel", "Rating",
    # errors
    "MemoryRetrieversError", "ConfigurationError", "ValidationError", "NotFoundError", "BatchOperationError",
    "MissingExtraError", "StoreLockedError", "EmbeddingMismatchError", "BackendError", "DiskFullError",
    "IndexOutOfStepError", "EmbeddingError", "LanguageModelError",
]
# fmt: on
