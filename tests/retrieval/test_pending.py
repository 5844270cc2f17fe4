"""Pending reviews are gathered and written in batches, at the latest a second later."""

import logging
import threading

import pytest
from contracts.samples import THREADS, at_once, review
from patience import PATIENCE

from memory_retrievers.errors import BackendError
from memory_retrievers.retrieval import retriever
from memory_retrievers.retrieval.retriever import PendingReviewBuffer


class Batches:
    """Takes the part of the ledger: keeps the batches it is given, and may fail."""

    def __init__(self, error=None):
        self.batches = []
        self.arrived = threading.Event()
        self._error = error

    def add_pending_reviews(self, reviews):
        self.batches.append(list(reviews))
        self.arrived.set()
        if self._error is not None:
            raise self._error


@pytest.fixture
def ledger():
    return Batches()


@pytest.fixture(autouse=True)
def _only_when_asked(monkeypatch):
    monkeypatch.setattr(retriever, "FLUSH_SECONDS", 3_600)


@pytest.fixture
def _in_background(_only_when_asked, monkeypatch):
    monkeypatch.setattr(retriever, "FLUSH_SECONDS", 0)


def _wait_for_the_end_of(timer):
    timer.join(PATIENCE)
    assert not timer.is_alive()


def test_a_review_waits_at_most_a_second(monkeypatch):
    monkeypatch.undo()
    assert retriever.FLUSH_SECONDS <= 1


def test_everything_that_waits_is_written_in_one_batch_in_order(ledger):
    buffer = PendingReviewBuffer(ledger)
    reviews = [review(str(n)) for n in range(5)]
    for each in reviews:
        buffer.add(each)
    assert ledger.batches == []
    buffer.flush()
    assert ledger.batches == [reviews]


def test_nothing_is_written_when_nothing_waits(ledger):
    buffer = PendingReviewBuffer(ledger)
    buffer.flush()
    buffer.add(review())
    buffer.flush()
    buffer.flush()
    assert ledger.batches == [[review()]]


def test_one_timer_serves_all_that_come_meanwhile_and_ends_with_the_flush(ledger):
    buffer = PendingReviewBuffer(ledger)
    buffer.add(review("first"))
    timer = buffer._timer
    buffer.add(review("second"))
    assert buffer._timer is timer
    assert timer.daemon
    buffer.flush()
    _wait_for_the_end_of(timer)
    buffer.add(review("third"))
    assert buffer._timer not in {None, timer}
    buffer.flush()


def test_an_error_of_the_ledger_reaches_whoever_flushes():
    buffer = PendingReviewBuffer(Batches(BackendError("disk full")))
    buffer.add(review())
    with pytest.raises(BackendError, match="disk full"):
        buffer.flush()


def test_what_could_not_be_written_is_written_with_what_comes_next_the_newest_of_it(monkeypatch):
    monkeypatch.setattr(retriever, "MOST_WAITING", 3)
    ledger = Batches(BackendError("the server is away"))
    buffer = PendingReviewBuffer(ledger)
    for number in range(4):
        buffer.add(review(str(number)))
    with pytest.raises(BackendError):
        buffer.flush()
    ledger._error = None
    buffer.add(review("4"))
    buffer.flush()
    assert [each.query for each in ledger.batches[-1]] == ["1", "2", "3", "4"]
    buffer.flush()
    assert len(ledger.batches) == 2


def test_reviews_from_eight_threads_are_all_written_once(ledger):
    buffer = PendingReviewBuffer(ledger)

    def add_and_flush(number):
        for n in range(20):
            buffer.add(review(f"{number}-{n}"))
            if n % 7 == number % 7:
                buffer.flush()

    at_once(add_and_flush)
    buffer.flush()
    written = [each.query for batch in ledger.batches for each in batch]
    assert sorted(written) == sorted(f"{number}-{n}" for number in range(THREADS) for n in range(20))


@pytest.mark.usefixtures("_in_background")
def test_what_waits_is_written_without_being_asked_for(ledger):
    buffer = PendingReviewBuffer(ledger)
    for n in range(2):
        ledger.arrived.clear()
        buffer.add(review(str(n)))
        assert ledger.arrived.wait(PATIENCE)
    assert ledger.batches == [[review("0")], [review("1")]]


@pytest.mark.usefixtures("_in_background")
def test_an_error_in_the_background_is_logged_without_what_was_asked(caplog, monkeypatch):
    timers = []
    start = threading.Timer.start
    monkeypatch.setattr(threading.Timer, "start", lambda timer: (timers.append(timer), start(timer)))
    with caplog.at_level(logging.DEBUG):
        PendingReviewBuffer(Batches(BackendError("disk full"))).add(review("What is the secret?"))
        _wait_for_the_end_of(timers[0])
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("memory_retrievers", logging.ERROR)
    assert "disk full" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("_in_background")
def test_flush_returns_only_when_the_batch_of_the_timer_is_written_too():
    started, go_on, written = threading.Event(), threading.Event(), []

    class Slow:
        def add_pending_reviews(self, reviews):
            started.set()
            assert go_on.wait(PATIENCE)
            written.extend(reviews)

    buffer = PendingReviewBuffer(Slow())
    buffer.add(review("q"))
    assert started.wait(PATIENCE)
    flushed = threading.Thread(target=buffer.flush)
    flushed.start()
    go_on.set()
    flushed.join(PATIENCE)
    assert [each.query for each in written] == ["q"]
