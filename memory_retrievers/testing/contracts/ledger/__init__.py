"""What a ledger must do, by subject: records, passages, transactions and pending reviews."""

from memory_retrievers.testing.contracts.ledger.passages import PassageContract
from memory_retrievers.testing.contracts.ledger.records import RecordContract
from memory_retrievers.testing.contracts.ledger.reviews import PendingReviewContract
from memory_retrievers.testing.contracts.ledger.transactions import TransactionContract


class LedgerContract(RecordContract, PassageContract, TransactionContract, PendingReviewContract):
    """Everything a ``protocols.Ledger`` promises while it is open; supply the fixture ``ledger``, an empty one.

    That everything is still there when it is opened again is for each backend to test.
    """


__all__ = ["LedgerContract"]
