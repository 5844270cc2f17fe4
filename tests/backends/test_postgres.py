"""The ledger and the indexes on a real PostgreSQL server: every contract that the embedded ones keep."""

import pytest

from memory_retrievers.backends.exact import ExactVectorIndex
from memory_retrievers.backends.postgres import PostgresLedger
from memory_retrievers.backends.rank_bm25 import RankBM25KeywordIndex
from memory_retrievers.backends.sql.keyword import SCAN_LIMIT, PostingsKeywordIndex
from memory_retrievers.testing.contracts import KeywordIndexContract, LedgerContract, VectorIndexContract


@pytest.fixture
def ledger(postgres_url):
    ledger = PostgresLedger(postgres_url, pool_size=4)
    yield ledger
    ledger.close()


class TestPostgresLedger(LedgerContract):
    pass


class TestPostings(KeywordIndexContract):
    @pytest.fixture(params=[SCAN_LIMIT, -1], ids=["small scope", "large scope"])
    def index(self, ledger, request):
        return PostingsKeywordIndex(ledger, k1=0.9, b=0.4, scan_limit=request.param)


class TestRankBM25(KeywordIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return RankBM25KeywordIndex(ledger, k1=0.9, b=0.4)


class TestExactVectors(VectorIndexContract):
    @pytest.fixture
    def index(self, ledger):
        return ExactVectorIndex(ledger)
