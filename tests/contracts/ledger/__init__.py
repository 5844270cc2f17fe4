"""What a ledger must do, by subject: each suite is about one."""

from contracts.ledger.changes import ChangeContract
from contracts.ledger.contents import ContentsContract
from contracts.ledger.conversations import ConversationsContract
from contracts.ledger.events import EventContract
from contracts.ledger.management import ManagementContract
from contracts.ledger.new_vectors import NewVectorsContract
from contracts.ledger.outbox import OutboxContract
from contracts.ledger.pages import PageContract
from contracts.ledger.passages import PassageContract
from contracts.ledger.records import RecordContract
from contracts.ledger.removal import RemovalContract
from contracts.ledger.reviews import PendingReviewContract
from contracts.ledger.scenes import SceneContract
from contracts.ledger.transactions import TransactionContract
from contracts.ledger.turns import TurnContract


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
    EventContract,
    SceneContract,
):
    """Everything a ledger promises while it is open; supply the fixture ``ledger``, an empty one.

    That everything is still there when it is opened again is for each backend to test.
    """


__all__ = ["LedgerContract"]
