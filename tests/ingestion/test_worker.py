"""The worker: a thread that does what is due, and ends with the memory."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, LanguageModelError, Message
from memory_retrievers.ingestion import worker as working
from memory_retrievers.storage.open_episodes import EMBEDDED_TOGETHER
from memory_retrievers.testing import HashEmbedder, inside


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "memory-retrievers-worker"]


@pytest.fixture
def opened(clock, tmp_path, segmenter):
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock) as memory:
        inside(memory).pipeline._segmenter = segmenter
        yield memory


def test_messages_become_episodes_as_they_arrive(opened, said):
    opened.start_worker()
    opened.add_messages("c", said(19))
    opened.add_messages("c", said(1, first=19))
    until(lambda: opened.stats("c").episodes == 1)
    assert opened.stats("c").queued_messages == 10


def test_what_was_due_before_is_done_at_the_start(opened, said):
    opened.add_messages("c", said(20))
    opened.start_worker()
    until(lambda: opened.stats("c").episodes == 1)


def test_a_conversation_is_ended_when_it_has_been_silent_long_enough(opened, said, clock, monkeypatch):
    monkeypatch.setattr(working, "LONGEST_SLEEP", 0.05)
    opened.start_worker()
    opened.add_messages("c", said(12, start=clock.now()))
    time.sleep(0.3)
    assert opened.stats("c").episodes == 0
    clock.advance(minutes=30)
    until(lambda: opened.stats("c").queued_messages == 0)
    assert opened.stats("c").episodes == 2


def test_there_is_one_worker_and_it_ends_with_the_memory(opened):
    before = workers()  # another test may have left one
    opened.start_worker()
    opened.start_worker()
    (worker,) = [each for each in workers() if each not in before]
    opened.close()
    assert not worker.is_alive()


def test_a_failure_is_logged_without_any_text_and_tried_again(opened, said, segmenter, monkeypatch, caplog):
    monkeypatch.setattr(working, "FIRST_PAUSE", 0.05)
    segmenter.fails_with = LanguageModelError("message number 3 made no sense")
    with caplog.at_level(logging.DEBUG, "memory_retrievers"):
        opened.start_worker()
        opened.add_messages("c", said(20))
        until(lambda: len(segmenter.seen) >= 2)
    assert "LanguageModelError" in caplog.text
    assert "number 3" not in caplog.text
    segmenter.fails_with = None
    until(lambda: opened.stats("c").episodes == 1)


def test_closing_does_not_wait_for_the_next_attempt(opened, said, segmenter, monkeypatch):
    monkeypatch.setattr(working, "FIRST_PAUSE", A_LONG_TIME)
    monkeypatch.setattr(working, "LONGEST_PAUSE", A_LONG_TIME)
    segmenter.fails_with = LanguageModelError("nonsense")
    opened.start_worker()
    opened.add_messages("c", said(20))
    until(lambda: segmenter.seen)
    closing = threading.Thread(target=opened.close, daemon=True)
    closing.start()
    closing.join(PATIENCE)
    assert not closing.is_alive()


def test_closing_waits_for_a_window_of_a_long_conversation_and_the_rest_stays_due(opened, said, segmenter, tmp_path):
    """A supervisor gives it some ten seconds; all of a conversation of thousands of messages takes minutes."""
    opened.add_messages("c", said(200))
    segment, closing = segmenter.segment, threading.Thread(target=opened.close, daemon=True)
    stopping = inside(opened).pipeline.stopping

    def segmented(messages, context):
        if not closing.ident:
            closing.start()
        assert stopping.wait(PATIENCE)
        return segment(messages, context)

    segmenter.segment = segmented
    opened.start_worker()
    until(lambda: closing.ident)
    closing.join(PATIENCE)
    assert (closing.is_alive(), len(segmenter.seen)) == (False, 1)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as again:
        assert (again.stats("c").episodes, again.stats("c").queued_messages) == (1, 190)
        assert again.flush("c").waiting == 0
        assert again.verify().ok


def test_closing_waits_for_a_batch_of_the_queued_messages_that_are_embedded(opened, said):
    opened.add_messages("c", said(5 * EMBEDDED_TOGETHER))
    pipeline = inside(opened).pipeline
    open_episodes, batches = inside(opened).store.open_episodes, []
    embed = open_episodes._embed

    def embedded(rows):
        batches.append(rows)
        pipeline.stopping.set()
        embed(rows)

    open_episodes._embed = embedded
    pipeline.embed_open()
    assert len(batches) == 1


def test_a_store_that_is_only_looked_into_has_no_worker(opened, tmp_path, clock):
    with (
        AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock, read_only=True) as look,
        pytest.raises(ConfigurationError, match="read-only"),
    ):
        look.start_worker()


class Refuses:
    """Fails for one conversation, as a model does that will not speak of something."""

    def __init__(self, segmenter, text):
        self._segmenter = segmenter
        self._text = text
        self.refused = 0

    def segment(self, messages, background):
        if any(self._text in message.content for message in messages):
            self.refused += 1
            raise LanguageModelError("no")
        return self._segmenter.segment(messages, background)


def test_a_scope_that_always_fails_does_not_keep_the_others_from_their_turn(opened, said, segmenter):
    inside(opened).pipeline._segmenter = Refuses(segmenter, "number 100")
    opened.add_messages("a", said(20, first=100))
    opened.add_messages("b", said(20))
    opened.start_worker()
    until(lambda: opened.stats("b").episodes == 1)
    assert opened.stats("a").queued_messages == 20


def test_what_failed_waits_alone_while_others_are_served(opened, said, segmenter, monkeypatch):
    """A conversation that a model always refuses would hold up all other users for ten minutes each time."""
    monkeypatch.setattr(working, "FIRST_PAUSE", A_LONG_TIME)
    monkeypatch.setattr(working, "LONGEST_PAUSE", A_LONG_TIME)
    refuses = Refuses(segmenter, "number 100")
    inside(opened).pipeline._segmenter = refuses
    opened.start_worker()
    opened.add_messages("a", said(20, first=100))
    until(lambda: refuses.refused)
    for scope in "bcd":
        opened.add_messages(scope, said(20))
        until(lambda scope=scope: opened.stats(scope).episodes == 1)
        assert (opened.stats("a").queued_messages, refuses.refused) == (20, 1)


def test_what_is_refused_waits_alone_in_a_scope_that_many_people_share(opened, said, segmenter, monkeypatch):
    monkeypatch.setattr(working, "FIRST_PAUSE", A_LONG_TIME)
    monkeypatch.setattr(working, "LONGEST_PAUSE", A_LONG_TIME)
    refuses = Refuses(segmenter, "number 100")
    inside(opened).pipeline._segmenter = refuses
    opened.start_worker()
    opened.add_messages("app", said(20, first=100), conversation="anna")
    until(lambda: refuses.refused)
    for number, name in enumerate(("bo", "kim"), start=1):
        opened.add_messages("app", said(20), conversation=name)
        until(lambda number=number: opened.stats("app").episodes == number)
    assert refuses.refused == 1


def test_a_worker_that_cannot_look_for_what_is_due_waits_before_it_looks_again(opened, said, clock, monkeypatch):
    rounds = []

    def fails():
        rounds.append(0)
        raise BackendError("the database is away")

    opened.add_messages("a", said(12, start=clock.now()))
    clock.advance(minutes=31)
    monkeypatch.setattr(working, "FIRST_PAUSE", A_LONG_TIME)
    monkeypatch.setattr(inside(opened).pipeline, "due", fails)
    opened.start_worker()
    until(lambda: rounds, "the first look")
    time.sleep(1.0)
    assert len(rounds) == 1


def test_what_failed_and_was_forgotten_is_not_waited_for(opened, said, segmenter, monkeypatch):
    monkeypatch.setattr(working, "FIRST_PAUSE", 0.01)
    refuses = Refuses(segmenter, "number 100")
    inside(opened).pipeline._segmenter = refuses
    opened.add_messages("a", said(20, first=100))
    opened.start_worker()
    until(lambda: refuses.refused)
    opened.forget_scope("a")
    rounds = []
    monkeypatch.setattr(inside(opened).pipeline, "due", lambda: rounds.append(0) or {})
    time.sleep(1.0)
    assert len(rounds) <= 3


def test_what_another_process_is_at_is_not_looked_for_again_and_again(opened, said, clock, monkeypatch):
    """One that was killed at it holds its claim for two hours."""
    opened.add_messages("a", said(12, start=clock.now()))
    clock.advance(minutes=31)
    assert inside(opened).pipeline.queue.claim("a") is not None
    rounds = []
    monkeypatch.setattr(inside(opened).pipeline, "embed_open", lambda: rounds.append(0))
    opened.start_worker()
    time.sleep(1.0)
    assert len(rounds) <= 3


def test_thousands_of_scopes_that_fail_are_not_each_compared_with_all(opened, said, monkeypatch):
    compared, tried, rounds = [], [], []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(0)
            return str.__eq__(self, other)

    def process(scope, _):
        tried.append(scope)
        raise LanguageModelError("there is no model")

    names = [Name(f"u{number}") for number in range(200)]
    monkeypatch.setattr(working, "FIRST_PAUSE", A_LONG_TIME)
    monkeypatch.setattr(inside(opened).pipeline, "due", lambda: {name: [None] for name in names})
    monkeypatch.setattr(inside(opened).pipeline, "process_conversation", process)
    monkeypatch.setattr(inside(opened).pipeline, "embed_open", lambda: rounds.append(0))
    opened.start_worker()
    until(lambda: len(tried) == len(names) and rounds)
    opened.add_messages("c", said(20))
    until(lambda: len(rounds) > 1)
    assert len(compared) <= 5 * len(names)


def test_who_has_just_said_something_is_not_visited_with_every_message_of_others(opened, said, clock):
    """Of thousands of users each message would bring some queries for all, half a minute of them on PostgreSQL."""
    pipeline = inside(opened).pipeline
    for scope in "abc":
        opened.add_messages(scope, said(2, start=clock.now()))
    assert pipeline.due() == {}
    opened.add_messages("b", said(20, start=clock.now()))
    assert pipeline.due() == {"b": [None]}
    clock.advance(minutes=31)
    opened.add_messages("c", said(1, start=clock.now()))  # what a silence has ended stands before it
    assert list(pipeline.due()) == ["a", "b", "c"]
    for scope in "abc":
        opened.process_due(scope)
    assert (pipeline.due(), opened.stats("c").queued_messages) == ({}, 1)


def test_what_waits_is_counted_also_where_nothing_is_due(opened, said, clock):
    for scope in ("team/anna", "team/bo", "other"):
        opened.add_messages(scope, said(2, start=clock.now()))
    opened.add_messages("team/bo", said(20, start=clock.now()), conversation="long")
    assert opened.process_due("team", include_child_scopes=True).waiting == 14
    assert opened.process_due().waiting == 16


def test_a_before_store_that_raises_is_survived(clock, tmp_path, said, segmenter, monkeypatch, caplog):
    monkeypatch.setattr(working, "FIRST_PAUSE", 0.05)
    failing = True

    def before_store(record):
        if failing and not isinstance(record, Message):
            raise RuntimeError("the redactor does not like message number 3")
        return record

    with AgentMemory.open(
        tmp_path / "store", embedder=HashEmbedder(), clock=clock, before_store=before_store
    ) as memory:
        inside(memory).pipeline._segmenter = segmenter
        memory.start_worker()
        memory.add_messages("c", said(20))
        until(lambda: "RuntimeError" in caplog.text)
        assert "number 3" not in caplog.text
        failing = False
        until(lambda: memory.stats("c").episodes == 1)


def test_a_message_of_the_last_day_there_is_does_not_stop_the_work(opened, said):
    opened.add_messages("a", said(6, start=datetime.max.replace(tzinfo=UTC) - timedelta(minutes=9)))
    opened.start_worker()
    time.sleep(0.2)
    opened.add_messages("c", said(20))
    until(lambda: opened.stats("c").episodes == 1)
