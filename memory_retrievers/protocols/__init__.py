"""The sockets: what the package asks of its parts, so that each can be replaced.

All are structural: any object with these methods fits. Every implementation must be safe to use from several threads.
The suites in ``memory_retrievers.testing.contracts`` say the same in tests; a backend's author inherits them.
"""

from memory_retrievers.protocols.adoption import AdoptedRow, AdoptedRows, Unwritten
from memory_retrievers.protocols.answers import Memory, Recent, Retrieved
from memory_retrievers.protocols.characters import Characters
from memory_retrievers.protocols.conversations import Conversations, QueuedMessage, QueueState, ReviewJob
from memory_retrievers.protocols.indexes import KeywordIndex, VectorIndex, VectorProjection
from memory_retrievers.protocols.ingestion import Background, Judge, ReviewedMemory, Segment, Segmenter
from memory_retrievers.protocols.ledger import Ledger
from memory_retrievers.protocols.management import Management
from memory_retrievers.protocols.outbox import Outbox, OutboxBatch, ProjectionState
from memory_retrievers.protocols.reembedding import NewVectors, UnembeddedPassage
from memory_retrievers.protocols.services import Clock, Embedder, LanguageModel

__all__ = [
    "AdoptedRow",
    "AdoptedRows",
    "Background",
    "Characters",
    "Clock",
    "Conversations",
    "Embedder",
    "Judge",
    "KeywordIndex",
    "LanguageModel",
    "Ledger",
    "Management",
    "Memory",
    "NewVectors",
    "Outbox",
    "OutboxBatch",
    "ProjectionState",
    "QueueState",
    "QueuedMessage",
    "Recent",
    "Retrieved",
    "ReviewJob",
    "ReviewedMemory",
    "Segment",
    "Segmenter",
    "UnembeddedPassage",
    "Unwritten",
    "VectorIndex",
    "VectorProjection",
]
