"""Snapshots on a PostgreSQL server: they equal those made anew whatever two processes do to one database."""

from contextlib import ExitStack, closing

import pytest
from backends.test_snapshots import Life, reads_in_a_transaction, store_of
from contracts.samples import SCOPE, add, fact, facts_in
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from kept import held_bytes

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.backends.postgres import Database
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.testing import HashEmbedder, inside

pytestmark = pytest.mark.embedded("it opens its own databases")


def test_a_snapshot_equals_one_made_anew_whatever_two_connections_do(server):
    class OnServer(Life):
        def begin(self):
            self.stack = ExitStack()
            self.url = self.stack.enter_context(server.lent())

        def opened(self):
            return store_of(SQLLedger(Database(self.url, pool_size=2)), self.clock)

        def end(self):
            self.stack.close()

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=5, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_transaction_asks_for_a_state_once_until_it_writes_and_keeps_what_it_loads(server, monkeypatch):
    with server.lent() as url, closing(SQLLedger(Database(url))) as ledger:
        reads_in_a_transaction(ledger, monkeypatch)


def test_a_transaction_keeps_nothing_of_a_scope_that_others_may_write_to_meanwhile(server):
    with server.lent() as url, closing(SQLLedger(Database(url))) as ledger:
        add(ledger, [fact("f1"), fact("elsewhere", scope="user/2")])
        with ledger.database.write(SCOPE):
            assert len(ledger.snapshots.of(facts_in())) == len(ledger.snapshots.of(facts_in("user/2"))) == 1
        assert [*held_bytes(ledger)] == [SCOPE]


def test_as_many_passages_are_measured_exactly_as_on_disk(server, tmp_path):
    options = {"embedder": HashEmbedder(8), "embedder_id": "hash"}
    with server.lent() as url, AgentMemory.connect(url, **options) as shared:
        with AgentMemory.open(tmp_path, **options) as own:
            assert inside(shared).dense.exact_limit == inside(own).dense.exact_limit > 100_000
        with AgentMemory.connect(url, **options, retrieval=RetrievalSettings(exact_limit=7)) as limited:
            assert inside(limited).dense.exact_limit == 7
