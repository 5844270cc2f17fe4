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
        def ledger(self) -> SQLiteLedger:
            return SQLiteLedger(None)

        @pytest.fixture
        def index(self, ledger: Ledger) -> KeywordIndex:
            return MyKeywordIndex(ledger)

The suites need pytest and hypothesis.
"""

import pytest

# Plain asserts tell what they compared only in modules that pytest was told of before they are imported.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("keyword", "ledger", "projection", "vector")),
    *(
        f"{__name__}.keyword.{module}"
        for module in ("changes", "counting", "filling", "matching", "order", "selecting")
    ),
    *(
        f"{__name__}.ledger.{module}"
        for module in (
            "changes",
            "contents",
            "conversations",
            "management",
            "new_vectors",
            "outbox",
            "pages",
            "passages",
            "records",
            "removal",
            "reviews",
            "scenes",
            "transactions",
        )
    ),
)

from memory_retrievers.testing.contracts.keyword import KeywordIndexContract  # noqa: E402 - see above
from memory_retrievers.testing.contracts.ledger import LedgerContract  # noqa: E402
from memory_retrievers.testing.contracts.projection import VectorProjectionContract  # noqa: E402
from memory_retrievers.testing.contracts.vector import VectorIndexContract  # noqa: E402

__all__ = ["KeywordIndexContract", "LedgerContract", "VectorIndexContract", "VectorProjectionContract"]
