"""What a keyword index must do, by subject: each suite is about one.

The suites ask for no particular score, since engines may differ by a constant factor and in their idf, but for
everything that the order of the results and the statistics behind it have to obey.
"""

from memory_retrievers.testing.contracts.keyword.changes import KeywordChangeContract
from memory_retrievers.testing.contracts.keyword.counting import CountingContract
from memory_retrievers.testing.contracts.keyword.matching import MatchingContract
from memory_retrievers.testing.contracts.keyword.order import OrderContract
from memory_retrievers.testing.contracts.keyword.selecting import SelectingContract


class KeywordIndexContract(MatchingContract, OrderContract, SelectingContract, CountingContract, KeywordChangeContract):
    """Everything a ``protocols.KeywordIndex`` promises.

    Supply the fixtures ``ledger``, an empty one, and ``index``, built over it.
    """


__all__ = ["KeywordIndexContract"]
