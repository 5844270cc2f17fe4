"""What a ledger must do, by subject: each suite is about one."""

from memory_retrievers.testing.contracts.ledger.changes import ChangeContract
from memory_retrievers.testing.contracts.ledger.contents import ContentsContract
from memory_retrievers.testing.contracts.ledger.conversations import ConversationsContract
from memory_retrievers.testing.contracts.ledger.management import ManagementContract
from memory_retrievers.testing.contracts.ledger.new_vectors import NewVectorsContract
from memory_retrievers.testing.contracts.ledger.outbox import OutboxContract
from memory_retrievers.testing.contracts.ledger.pages import PageContract
from memory_retrievers.testing.contracts.ledger.passages import PassageContract
from memory_retrievers.testing.contracts.ledger.records import RecordContract
from memory_retrievers.testing.contracts.ledger.removal import RemovalContract
from memory_retrievers.testing.contracts.ledger.reviews import PendingReviewContract
from memory_retrievers.testing.contracts.ledger.scenes import SceneContract
from memory_retrievers.testing.contracts.ledger.transactions import TransactionContract
from memory_retrievers.testing.contracts.ledger.turns import TurnContract


class LedgerContract(
    RecordContract,
    ChangeContract,
    RemovalContract,
    PageContract,
    PassageContract,
    TurnContract,
    TransactionContract,
    PendingReviewContract,
    ContentsContract,
    NewVectorsContract,
    OutboxContract,
    ConversationsContract,
    ManagementContract,
    SceneContract,
):
    """Everything a ``protocols.Ledger`` promises while it is open; supply the fixture ``ledger``, an empty one.

    That everything is still there when it is opened again is for each backend to test.
    """


__all__ = ["LedgerContract"]
