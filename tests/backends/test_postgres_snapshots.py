"""Snapshots on a PostgreSQL server: they equal those made anew whatever two processes do to one database."""

from contextlib import ExitStack

import pytest
from backends.test_snapshots import Life, store_of
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from memory_retrievers import AgentMemory, RetrievalSettings
from memory_retrievers.backends.postgres import PostgresLedger
from memory_retrievers.testing import HashEmbedder, inside

pytestmark = pytest.mark.embedded("it opens its own databases")


def test_a_snapshot_equals_one_made_anew_whatever_two_connections_do(server):
    class OnServer(Life):
        def begin(self):
            self.stack = ExitStack()
            self.url = self.stack.enter_context(server.lent())

        def opened(self):
            ledger = PostgresLedger(self.url, pool_size=2)
            ledger.snapshots.takes_turns = False
            return store_of(ledger, self.clock)

        def end(self):
            self.stack.close()

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=5, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_as_many_passages_are_measured_exactly_as_on_disk(server, tmp_path):
    options = {"embedder": HashEmbedder(8), "embedder_id": "hash"}
    with server.lent() as url, AgentMemory.connect(url, **options) as shared:
        with AgentMemory.open(tmp_path, **options) as own:
            assert inside(shared).dense.exact_limit == inside(own).dense.exact_limit > 100_000
        with AgentMemory.connect(url, **options, retrieval=RetrievalSettings(exact_limit=7)) as limited:
            assert inside(limited).dense.exact_limit == 7
