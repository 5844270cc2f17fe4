"""The records of the package: memories, messages, results, scenes and scopes."""

from memory_retrievers.models.fields import Category as Category
from memory_retrievers.models.memories import KEY_MOMENT_SURPRISE as KEY_MOMENT_SURPRISE
from memory_retrievers.models.memories import AnyMemory as AnyMemory
from memory_retrievers.models.memories import ContentType as ContentType
from memory_retrievers.models.memories import DetailLevel as DetailLevel
from memory_retrievers.models.memories import Draft as Draft
from memory_retrievers.models.memories import EpisodicDraft as EpisodicDraft
from memory_retrievers.models.memories import EpisodicMemory as EpisodicMemory
from memory_retrievers.models.memories import JsonObject as JsonObject
from memory_retrievers.models.memories import Kind as Kind
from memory_retrievers.models.memories import MemoryDraft as MemoryDraft
from memory_retrievers.models.memories import MemoryKey as MemoryKey
from memory_retrievers.models.memories import MemoryT as MemoryT
from memory_retrievers.models.memories import Origin as Origin
from memory_retrievers.models.memories import Rating as Rating
from memory_retrievers.models.memories import ResponseLevel as ResponseLevel
from memory_retrievers.models.memories import ScopeStatistics as ScopeStatistics
from memory_retrievers.models.memories import SemanticDraft as SemanticDraft
from memory_retrievers.models.memories import SemanticMemory as SemanticMemory
from memory_retrievers.models.memories import SummaryBy as SummaryBy
from memory_retrievers.models.memories import Tier as Tier
