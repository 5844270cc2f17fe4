"""Applications and MCP servers on one directory, some of which are killed, lose, double and refuse nothing."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import windows
from fleet_process import RATED_EPISODES

from memory_retrievers import AgentMemory
from memory_retrievers.ingestion.reviews import review_one
from memory_retrievers.testing import HashEmbedder, inside


@pytest.mark.parametrize("beside", [(), ("reembed", "take in", "purge")], ids=["alone", "beside upkeep"])
def test_processes_on_one_directory_lose_double_and_refuse_nothing_when_some_are_killed(tmp_path, beside):
    asked = windows.Asked(seconds=4, processes=4, kill_every=1.5, beside=beside)
    outcome = windows.run(tmp_path, asked)
    assert outcome.problems == []
    assert int(outcome.figures["kills"]) >= 1
    assert int(outcome.figures["facts"].replace(",", "")) > 0
    assert int(outcome.figures["writes that another process looked for"].replace(",", "")) > 0
    with windows.opened(tmp_path / "store") as memory:
        assert memory.stats().episodes >= RATED_EPISODES
        assert memory.verify().ok


class Slow(threading.Thread):
    """A window that waits before the second of its two steps, of which one is its work."""

    def __init__(self, account, ending, order):
        super().__init__()
        self.ready, self.account, self.ending, self.order = threading.Event(), account, ending, order

    def work(self):
        if not self.ending.is_set():
            self.account.looked_after.append(0.0)

    def run(self):
        first, second = (self.work, self.ready.set)[:: self.order]
        first()
        time.sleep(0.3)
        second()


@pytest.mark.parametrize(("order", "longest"), [(1, 0.1), (-1, 60)], ids=["begin", "work"])
def test_processes_that_are_slow_to_begin_or_to_work_are_waited_for(monkeypatch, order, longest):
    monkeypatch.setattr(windows, "LONGEST_WAIT", longest)  # of a call
    account, ending = windows.Account(), threading.Event()
    assert windows._worked([Slow(account, ending, order)], windows.Asked(seconds=0), account, ending) == 0
    assert account.looked_after
    assert account.ended == []


def test_an_import_that_is_there_in_part_and_a_fact_that_is_there_twice_are_noticed():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for text in ("a", "a", "b"):
            memory.remember_fact(scope="c1", fact=text, allow_duplicates=True)
        taken = {"did": "take in", "ok": False, "texts": ["b", "c"]}
        journal = [taken, taken | {"texts": ["x", "y"]}, taken | {"texts": ["b"], "ok": True}]
        assert windows._doubled(memory, [journal]) == [
            "'a' is there 2 times",
            "of 2 memories taken in at once, 1 are there",
        ]


def test_a_review_that_was_overtaken_is_another_one_and_one_that_counts_twice_is_noticed(tmp_path):
    later = datetime(2026, 3, 2, 12, tzinfo=UTC)
    with windows.opened(tmp_path) as memory:
        memory.remember_episode(scope="c1", summary="A visit", id="rated")
    windows._watch_reviews(tmp_path)
    with windows.opened(tmp_path) as memory:
        for now, expected in zip((later, later - timedelta(seconds=1), later), ([1], [1, 1], [1, 2]), strict=True):
            review_one(inside(memory).store, "rated", scope="c1", rating="good", now=now)
            with inside(memory).ledger.database.read() as connection:
                assert sorted(times for *_, times in connection.execute(windows.REVIEWS)) == expected


def test_plain_sqlite_writes_the_rows_that_the_store_has_written(tmp_path):
    outcome = windows.rates(tmp_path, processes=2, seconds=1)
    # not the writes a second, whose figure is 0 where the machine does other work for some seconds
    assert float(outcome.figures["processor time of a write (ms)"]) > 0
    assert float(outcome.figures["plain sqlite3, processor time of a write (ms)"]) > 0
