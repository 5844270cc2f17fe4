"""What a keyword index must do, by subject: each suite is about one.

The suites ask for no particular score, since engines may differ by a constant factor and in their idf, but for
everything that the order of the results and the statistics behind it have to obey.
"""

from contracts.keyword.changes import KeywordChangeContract
from contracts.keyword.counting import CountingContract
from contracts.keyword.matching import MatchingContract
from contracts.keyword.order import OrderContract
from contracts.keyword.selecting import SelectingContract


class KeywordIndexContract(MatchingContract, OrderContract, SelectingContract, CountingContract, KeywordChangeContract):
    """Everything a keyword index promises.

    Supply the fixtures ``ledger``, an empty one, and ``index``, built over it.
    """


__all__ = ["KeywordIndexContract"]
