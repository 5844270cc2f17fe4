"""What a backend must do, as suites of tests: inherit one, supply its fixtures and run pytest.

Every suite asks for a fixture ``ledger``, an empty one, and the two of the indexes also for ``index``, built over it::

    class TestMyLedger(LedgerContract):
        @pytest.fixture
        def ledger(self) -> Iterator[Ledger]:
            ledger = MyLedger()
            yield ledger
            ledger.close()

    class TestMyKeywordIndex(KeywordIndexContract):
        @pytest.fixture
        def ledger(self) -> SQLLedger:
            return SQLLedger(Database(None))

        @pytest.fixture
        def index(self, ledger: Ledger) -> PostingsKeywordIndex:
            return MyKeywordIndex(ledger)
"""

from contracts.keyword import KeywordIndexContract
from contracts.ledger import LedgerContract
from contracts.projection import VectorProjectionContract
from contracts.vector import VectorIndexContract

__all__ = ["KeywordIndexContract", "LedgerContract", "VectorIndexContract", "VectorProjectionContract"]
