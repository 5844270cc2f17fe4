"""From messages to episodes and reviews (specification §2.12 to §2.14): nothing lost, nothing twice."""

import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pydantic
import pytest
from patience import PATIENCE

from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    EmbeddingError,
    LanguageModelError,
    Message,
    NotFoundError,
    Rating,
    ValidationError,
)
from memory_retrievers.ingestion.facts import ConsolidationAnswer
from memory_retrievers.ingestion.segmenters import OfflineSegmenter
from memory_retrievers.models import EpisodicDraft
from memory_retrievers.protocols import Segment
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.testing import HashEmbedder, inside


def texts(episode):
    return [message.content for message in episode.messages]


def numbers(first, behind):
    return [f"message number {n}" for n in range(first, behind)]


def told(report):
    return [text for episode in report.episodes for text in texts(episode)]


def waiting(pipeline, scope="c"):
    return [each.message.content for each in pipeline._conversations.head(scope, limit=1_000)]


def test_nothing_happens_before_it_is_due(pipeline, segmenter, said):
    pipeline.push("c", said(19))
    report = pipeline.process("c")
    assert report.episodes == ()
    assert report.waiting == 19
    assert segmenter.seen == []


def test_all_segments_but_the_last_become_episodes(pipeline, segmenter, said, plain):
    segmenter.length = 8
    pipeline.push("c", said(20))
    report = pipeline.process("c")
    assert [texts(episode) for episode in report.episodes] == [numbers(0, 8), numbers(8, 16)]
    assert report.waiting == 4
    assert waiting(pipeline) == numbers(16, 20)
    assert pipeline._conversations.state("c").previous_summary == report.episodes[-1].summary
    assert [plain.get(episode.id, scope="c") for episode in report.episodes] == list(report.episodes)


def test_a_single_segment_doubles_the_window_and_then_becomes_an_episode(pipeline, segmenter, said):
    segmenter.length = 100
    pipeline.push("c", said(20))
    assert pipeline.process("c").episodes == ()
    assert pipeline._conversations.state("c").window_doubled
    pipeline.push("c", said(19, first=20))
    assert pipeline.process("c").episodes == ()
    assert len(segmenter.seen) == 1
    pipeline.push("c", said(1, first=39))
    report = pipeline.process("c")
    assert [texts(episode) for episode in report.episodes] == [numbers(0, 40)]
    state = pipeline._conversations.state("c")
    assert (state.messages, state.window_doubled, state.previous_summary, state.leased_at) == (0, False, None, None)


def test_many_messages_at_once_are_worked_off_window_by_window(pipeline, segmenter, said):
    segmenter.length = 7
    pipeline.push("c", said(200))
    report = pipeline.process("c")
    assert told(report) + waiting(pipeline) == numbers(0, 200)
    assert max(len(messages) for messages, _ in segmenter.seen) == 20
    assert report.waiting == len(waiting(pipeline)) < 20


def test_flush_leaves_nothing(pipeline, segmenter, said):
    segmenter.length = 7
    pipeline.push("c", said(33))
    report = pipeline.flush("c")
    assert told(report) == numbers(0, 33)
    assert report.waiting == 0
    assert pipeline.flush("c").episodes == ()
    assert pipeline.flush("nobody").episodes == ()


def test_flush_makes_one_episode_of_a_single_message(pipeline, said):
    pipeline.push("c", said(1))
    (episode,) = pipeline.flush("c").episodes
    assert texts(episode) == ["message number 0"]
    assert episode.summary
    assert episode.title


def test_an_episode_has_its_times_its_origin_and_a_summary_of_its_own(pipeline, segmenter, said, clock):
    start = clock.now() - timedelta(hours=1)
    pipeline.push("c", said(20, start=start))
    (episode,) = pipeline.process("c").episodes
    assert (episode.start_at, episode.end_at) == (start, start + timedelta(minutes=9))
    assert episode.created_at == episode.last_reviewed_at == clock.now()
    assert episode.origin == "conversation"
    assert episode.summary
    assert episode.title
    assert "\n" not in episode.summary + episode.title
    assert episode.surprise == 0.2


def test_messages_out_of_order_are_kept_in_theirs_and_the_episode_spans_them(pipeline, clock):
    now = clock.now()
    times = [now - timedelta(hours=hours) for hours in (3, 5, 1, 4, 2)]
    pipeline.push("c", [Message(role="user", content=f"at {time}", timestamp=time) for time in times])
    (episode,) = pipeline.flush("c").episodes
    assert [message.timestamp for message in episode.messages] == times
    assert (episode.start_at, episode.end_at) == (min(times), max(times))


def test_the_segmenter_knows_what_came_before(pipeline, segmenter, said):
    pipeline.push("c", said(20))
    (episode,) = pipeline.process("c").episodes
    pipeline.push("c", said(10, first=20))
    pipeline.process("c")
    _, background = segmenter.seen[-1]
    assert background.previous_summary == episode.summary
    assert [recent.id for recent in background.recent] == [episode.id]
    assert background.embed(["tea"]).shape == (1, 256)


def test_scopes_do_not_mix(pipeline, said):
    pipeline.push("a", said(20))
    pipeline.push("a/b", said(20, first=100))
    report = pipeline.process_all()
    assert {episode.scope: texts(episode)[0] for episode in report.episodes} == {
        "a": "message number 0",
        "a/b": "message number 100",
    }


@pytest.mark.parametrize("failure", [LanguageModelError("nonsense"), EmbeddingError("gone"), ZeroDivisionError()])
def test_a_segmenter_that_fails_leaves_the_queue_as_it_was(pipeline, segmenter, said, failure):
    pipeline.push("c", said(20))
    segmenter.fails_with = failure
    for _ in range(2):
        with pytest.raises(type(failure)):
            pipeline.process("c")
    assert waiting(pipeline) == numbers(0, 20)
    segmenter.fails_with = None
    assert len(pipeline.process("c").episodes) == 1


class Mistyped:
    """A segmenter of the application's that gives what cannot be stored."""

    def segment(self, messages, background):
        return [Segment(messages=len(messages), title=7, summary="", surprise=0.2)]


def test_segments_that_cannot_be_stored_are_refused_each_time_and_nobody_is_held_up(pipeline, segmenter, said):
    pipeline.push("c", said(40))
    pipeline._segmenter = Mistyped()
    for _ in range(2):
        with pytest.raises(AttributeError):
            pipeline.process("c")
    pipeline._segmenter = segmenter
    assert len(pipeline.process("c").episodes) == 3


@pytest.mark.parametrize("step", ["claimed", "read", "released"])
def test_a_database_that_is_away_for_a_moment_holds_no_conversation_up(pipeline, segmenter, said, plain, step):
    """As long as its process lives nobody else would take over its lease, for two hours."""
    conversations, database = inside(plain).ledger.conversations, inside(plain).ledger.database
    lost = pytest.MonkeyPatch()

    @contextmanager
    def away(*_scopes):
        raise BackendError("the connection was lost")
        yield

    @contextmanager
    def away_at_the_end(*scopes):
        with write(*scopes) as connection:
            yield connection
        raise BackendError("the connection was lost")

    write = database.write
    pipeline.push("c", said(20))
    if step == "claimed":
        lost.setattr(database, "write", away_at_the_end)
    elif step == "read":
        lost.setattr(conversations, "head", lambda *_, **__: away().__enter__())
    else:
        lost.setattr(segmenter, "segment", lambda *_: [lost.setattr(database, "write", away), away().__enter__()])
    with pytest.raises(BackendError):
        pipeline.process("c")
    lost.undo()
    assert len(pipeline.process("c").episodes) == 1


def test_a_scope_that_fails_does_not_keep_the_others_from_their_turn(pipeline, segmenter, said, plain):
    class FailsForA:
        def segment(self, messages, background):
            if "message number 0" in {message.content for message in messages}:
                raise LanguageModelError("nonsense")
            return segmenter.segment(messages, background)

    pipeline._segmenter = FailsForA()
    pipeline.push("a", said(20))
    pipeline.push("b", said(20, first=100))
    with pytest.raises(LanguageModelError):
        pipeline.process_all()
    assert plain.stats("b").episodes == 1
    assert len(waiting(pipeline, "a")) == 20


class RefusesTheFirst:
    """A segmenter that never takes a certain conversation, as the filter of a provider does."""

    def __init__(self, segmenter):
        self.segmenter = segmenter

    def segment(self, messages, background):
        if "message number 0" in {message.content for message in messages}:
            raise LanguageModelError("refused")
        return self.segmenter.segment(messages, background)


@pytest.mark.parametrize("do", ["process", "flush"])
def test_a_conversation_that_always_fails_does_not_keep_the_others_of_its_scope(pipeline, segmenter, said, plain, do):
    pipeline._segmenter = RefusesTheFirst(segmenter)
    for number in range(3):
        pipeline.push("c", said(20, first=20 * number), conversation=f"thread-{number}")
    with pytest.raises(LanguageModelError, match="refused"):
        getattr(pipeline, do)("c")
    assert {each.conversation_id for each in plain.list("c").memories} == {"thread-1", "thread-2"}
    assert plain.stats("c").queued_messages == (20 if do == "flush" else 40)


def test_a_conversation_or_a_review_that_fails_does_not_keep_a_scope_from_its_facts(clock, said):
    class Refuses:
        def rate(self, conversation, memories, *, embed):
            raise LanguageModelError("refused")

    class Learns:
        def generate(self, system, user, schema):
            return schema.model_validate({"facts": [{"action": "new", "fact": "User counts messages"}]})

    segmenter = RefusesTheFirst(OfflineSegmenter())
    settings = IngestionSettings(consolidate_from=1)
    with open_memory(
        clock, language_model=Learns(), segmenter=segmenter, judge=Refuses(), ingestion=settings
    ) as memory:
        old = memory.remember_episode(scope="c", summary="The user counts messages")
        clock.advance(days=3)
        assert memory.retrieve("messages", scope="c").episodic[0].memory.id == old.id
        for number in range(2):
            memory.add_messages("c", said(20, first=20 * number), conversation=f"thread-{number}")
        with pytest.raises(LanguageModelError, match="refused"):
            memory.flush("c")
        assert memory.stats("c").facts == 1


def test_a_failure_while_storing_undoes_all_and_is_tried_again(pipeline, said, plain, monkeypatch):
    pipeline.push("c", said(20))
    take = pipeline._conversations.take_reviews
    monkeypatch.setattr(pipeline._conversations, "take_reviews", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pipeline.process("c")
    assert plain.stats("c").episodes == 0
    assert waiting(pipeline) == numbers(0, 20)
    monkeypatch.setattr(pipeline._conversations, "take_reviews", take)
    assert len(pipeline.process("c").episodes) == 1
    assert plain.stats("c").episodes == 1


def test_a_worker_that_is_overtaken_stores_nothing(pipeline, segmenter, said, plain, clock):
    class Slow:
        def segment(self, messages, background):
            clock.advance(hours=3)
            parts = replace(plain._engine._parts, segmenter=segmenter, judge=pipeline._judge)
            others = type(pipeline)(inside(plain).store, plain._engine.retriever, parts)
            others.process("c")
            return segmenter.segment(messages, background)

    pipeline._segmenter = Slow()
    pipeline.push("c", said(20))
    claim = pipeline.queue.claim("c")
    assert pipeline._work(claim).episodes == ()
    stored = [plain.get(episode.id, scope="c") for episode in plain.list("c").memories]
    assert sorted(map(texts, stored)) == [numbers(0, 10), numbers(10, 20)]
    assert waiting(pipeline) == []


def test_a_flush_that_is_interrupted_at_any_line_leaves_no_lease(pipeline, said):
    """As by Ctrl-C or the time limit of a job: the next ``flush`` of the process would wait for it for two hours."""
    files, before = (
        {code.co_filename for code in (type(pipeline).flush.__code__, type(pipeline.queue).claim.__code__)},
        sys.gettrace(),
    )
    line, is_done = 0, False

    def interrupting(frame, event, _arg):
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        left -= event == "line"
        if not left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupting

    while not is_done:
        line, left = line + 1, line + 1
        pipeline.push("c", said(1, first=line))
        sys.settrace(interrupting)
        try:
            pipeline.flush("c")
            is_done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert pipeline._conversations.state("c").leased_at is None, f"interrupted at line {line} of a flush"
    assert line > 50
    assert waiting(pipeline) == []


def test_a_scope_forgotten_meanwhile_stays_forgotten(pipeline, segmenter, said, plain):
    class Forgets:
        def segment(self, messages, background):
            plain.forget_scope("c")
            return segmenter.segment(messages, background)

    pipeline._segmenter = Forgets()
    pipeline.push("c", said(20))
    assert pipeline.process("c").episodes == ()
    assert plain.scopes() == []
    assert plain.stats().queued_messages == 0


def test_many_threads_make_each_episode_once(pipeline, segmenter, said):
    segmenter.length = 5
    done = []

    def work(number):
        for round_number in range(5):
            pipeline.push("c", said(8, first=1_000 * number + 8 * round_number))
            done.extend(pipeline.process("c").episodes)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.extend(pipeline.flush("c").episodes)
    stored = [text for episode in done for text in texts(episode)]
    assert len(stored) == len(set(stored)) == 6 * 5 * 8
    for number in range(6):
        own = [text for text in stored if int(text.split()[-1]) // 1_000 == number]
        assert sorted(own, key=lambda text: int(text.split()[-1])) == numbers(1_000 * number, 1_000 * number + 40)


def test_flush_waits_for_whoever_works_on_the_queue(pipeline, segmenter, said):
    entered, leave = threading.Event(), threading.Event()

    class Waits:
        def segment(self, messages, background):
            entered.set()
            assert leave.wait(2 * PATIENCE)
            return segmenter.segment(messages, background)

    pipeline._segmenter = Waits()
    pipeline.push("c", said(20))
    first = threading.Thread(target=pipeline.process, args=("c",))
    first.start()
    assert entered.wait(PATIENCE)
    flushed = []
    second = threading.Thread(target=lambda: flushed.append(pipeline.flush("c")))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    leave.set()
    first.join()
    second.join()
    assert [texts(episode) for episode in flushed[0].episodes] == [numbers(10, 20)]


def test_retrieved_episodes_are_reviewed_by_the_conversation_that_is_drained(pipeline, plain, judge, said, clock):
    episode = plain.remember_episode(scope="c", summary="The user likes green tea")
    clock.advance(days=3)
    plain.retrieve("green tea", scope="c")
    plain.pending_reviews("c")
    pipeline.push("c", said(20))
    report = pipeline.process("c")
    assert [(key.id, rating) for key, rating in report.reviews] == [(episode.id, Rating.GOOD)]
    reviewed = plain.get(episode.id, scope="c")
    assert reviewed.last_reviewed_at == clock.now()
    assert reviewed.stability > episode.stability
    ((conversation, memories),) = judge.seen
    assert len(conversation) == 20
    assert [(memory.memory.id, memory.queries) for memory in memories] == [(episode.id, ("green tea",))]
    assert plain.pending_reviews("c") == []


def test_doubling_the_window_takes_no_reviews(pipeline, plain, segmenter, judge, said, clock):
    segmenter.length = 100
    plain.remember_episode(scope="c", summary="The user likes green tea")
    clock.advance(days=3)
    plain.retrieve("green tea", scope="c")
    pipeline.push("c", said(20))
    pipeline.process("c")
    assert judge.seen == []
    assert len(plain.pending_reviews("c")) == 1


def test_a_judge_that_fails_is_asked_again_later(pipeline, plain, judge, said, clock, monkeypatch):
    plain.remember_episode(scope="c", summary="The user likes green tea")
    clock.advance(days=3)
    plain.retrieve("green tea", scope="c")
    plain.pending_reviews("c")
    pipeline.push("c", said(20))

    def fail(*_, **__):
        raise LanguageModelError("nonsense")

    monkeypatch.setattr(judge, "rate", fail)
    with pytest.raises(LanguageModelError):
        pipeline.process("c")
    assert plain.stats("c").episodes == 2
    monkeypatch.undo()
    assert len(pipeline.process("c").reviews) == 1
    assert pipeline.process("c").reviews == ()


def open_memory(clock, **given):
    return AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, **given)


def test_nothing_is_queued_or_stored_past_before_store(clock, said):
    def redact(record):
        if isinstance(record, Message):
            return None if "number 3" in record.content else record.model_copy(update={"content": "***"})
        if "secret" in record.search_text:
            return None
        return record.model_copy(update={"metadata": {"seen": True}})

    with open_memory(clock, before_store=redact) as memory:
        queued = memory.add_messages("c", said(6))
        assert (queued.accepted, queued.queued) == (5, 5)
        (episode,) = memory.flush("c").episodes
        assert set(texts(episode)) == {"***"}
        assert episode.metadata == {"seen": True}
        with pytest.raises(ValidationError, match="rejected this"):
            memory.remember_fact(scope="c", fact="the secret is out")
        kept = memory.remember_fact(scope="c", fact="the weather is fine")
        with pytest.raises(ValidationError, match="rejected this"):
            memory.update(kept.id, scope="c", fact="a secret")
        assert memory.get(kept.id, scope="c").fact == "the weather is fine"
        assert memory.stats("c").facts == 1


def test_an_episode_that_is_held_back_takes_its_messages_with_it(clock, said):
    with open_memory(clock, before_store=lambda record: record if isinstance(record, Message) else None) as memory:
        memory.add_messages("c", said(6))
        assert memory.flush("c").episodes == ()
        assert memory.stats().queued_messages == 0


@pytest.mark.parametrize("give", ["text", 3])
def test_before_store_must_give_a_record_of_the_same_kind(clock, give):
    with (
        open_memory(clock, before_store=lambda _: give) as memory,
        pytest.raises(ConfigurationError, match="before_store"),
    ):
        memory.remember_fact(scope="c", fact="tea")


@pytest.mark.parametrize(
    "give",
    [
        lambda record: record.model_construct(**dict(record) | {"fact": " "}),
        lambda record: record.model_copy(update={"fact": ""}),
        lambda record: record.metadata.update(x=float("nan")) or record,
    ],
)
def test_what_before_store_gives_is_checked(clock, give):
    with (
        open_memory(clock, before_store=give) as memory,
        pytest.raises(pydantic.ValidationError, match=r"must not be blank|must be JSON"),
    ):
        memory.remember_fact(scope="c1", fact="Ana likes tea", metadata={"a": 1})


def test_before_store_cannot_move_a_record_to_another_scope(clock):
    with (
        open_memory(clock, before_store=lambda record: record.model_copy(update={"scope": "other"})) as memory,
        pytest.raises(ConfigurationError, match="same scope"),
    ):
        memory.remember_fact(scope="c", fact="tea")


def test_messages_of_old_episodes_are_erased_when_they_are_not_to_be_kept(clock, said):
    with open_memory(clock, ingestion=IngestionSettings(keep_messages_days=30)) as memory:
        memory.add_messages("c", said(6))
        (episode,) = memory.flush("c").episodes
        memory.process_due()
        assert memory.get(episode.id, scope="c").messages
        clock.advance(days=31)
        memory.process_due()
        kept = memory.get(episode.id, scope="c")
        assert kept.messages == ()
        assert (kept.title, kept.summary) == (episode.title, episode.summary)
        assert [hit.memory.id for hit in memory.retrieve(episode.summary, scope="c").episodic] == [episode.id]


def test_a_flashbulb_never_fades_where_that_is_asked_for(clock, said, segmenter):
    for keep in (False, True):
        with open_memory(clock, ingestion=IngestionSettings(keep_flashbulbs=keep)) as memory:
            from memory_retrievers.protocols import Segment

            class Shocked:
                def segment(self, messages, background):
                    return [Segment(messages=len(messages), title="t", summary="the house burnt down", surprise=0.9)]

            inside(memory).pipeline._segmenter = Shocked()
            memory.add_messages("c", said(6))
            (episode,) = memory.flush("c").episodes
            assert episode.is_flashbulb is keep
            clock.advance(days=100)
            (hit,) = memory.retrieve("the house", scope="c").episodic
            assert (hit.explanation.retrievability == 1.0) is keep


def test_what_a_segmenter_leaves_out_is_made_from_the_messages(clock, said):
    class Careless:
        def segment(self, messages, background):
            return [Segment(messages=len(messages), title=None, summary=None, surprise=None)]

    with open_memory(clock, segmenter=Careless()) as memory:
        memory.add_messages("c", said(6))
        (episode,) = memory.flush("c").episodes
        assert episode.title
        assert episode.summary_by == "rules"


def test_rating_a_memory_by_hand(plain, clock):
    episode = plain.remember_episode(scope="c", summary="The user likes green tea")
    clock.advance(days=5)
    reviewed = plain.review(episode.id, scope="c", rating="easy")
    assert reviewed == plain.get(episode.id, scope="c")
    assert reviewed.stability > episode.stability
    assert reviewed.last_reviewed_at == clock.now()
    fact = plain.remember_fact(scope="c", fact="tea")
    for bad, error in (
        (lambda: plain.review(fact.id, scope="c", rating="good"), ValidationError),
        (lambda: plain.review(episode.id, scope="c", rating="splendid"), ValidationError),
        (lambda: plain.review(episode.id, scope="other", rating="good"), NotFoundError),
        (lambda: plain.review("nobody", scope="c", rating="good"), NotFoundError),
    ):
        with pytest.raises(error):
            bad()


def test_the_history_of_a_fact_is_every_version_of_it(plain, clock):
    first = plain.remember_fact(scope="c", fact="lives in Lyon", id="f1")
    for number in (2, 3):
        clock.advance(days=10)
        plain.remember_fact(scope="c", fact=f"lives in city {number}", id=f"f{number}")
        inside(plain).ledger.invalidate(scope="c", id=f"f{number - 1}", at=clock.now(), replaced_by=f"f{number}")
    plain.remember_fact(scope="c", fact="likes tea", id="other")
    for asked in ("f1", "f2", "f3"):
        assert [version.id for version in plain.history(asked, scope="c")] == ["f1", "f2", "f3"]
    assert plain.history("f1", scope="c")[0].replaced_by == "f2"
    assert [version.id for version in plain.history("other", scope="c")] == ["other"]
    for missing, scope in (("nobody", "c"), (first.id, "d")):
        with pytest.raises(NotFoundError):
            plain.history(missing, scope=scope)


def test_what_held_at_a_moment_is_found_as_of_it(memory, clock):
    start = clock.now()
    memory.remember_fact(scope="c", fact="lives in Lyon", id="f1")
    memory.remember_episode(scope="c", summary="talked about where the user lives", id="e1")
    clock.advance(days=10)
    memory.remember_fact(scope="c", fact="lives in Paris", id="f2")
    inside(memory).ledger.invalidate(scope="c", id="f1", at=clock.now(), replaced_by="f2")
    memory.remember_episode(scope="c", summary="talked about where the user lives now", id="e2")
    clock.advance(days=10)

    def found(as_of):
        result = memory.retrieve("where does the user live", scope="c", as_of=as_of)
        return {hit.memory.id for hit in (*result.semantic, *result.episodic)}

    assert found(None) == {"f2", "e1", "e2"}
    assert found(start + timedelta(days=5)) == {"f1", "e1"}
    assert found(start + timedelta(days=10)) == {"f2", "e1", "e2"}
    assert found(start - timedelta(seconds=1)) == set()
    assert found((start + timedelta(days=5)).replace(tzinfo=None).isoformat()) == {"f1", "e1"}
    with pytest.raises(ValidationError, match="as_of"):
        memory.retrieve("tea", scope="c", as_of="yesterday")


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ("hello", "^messages must be a list of messages"),
        ([{"role": "user"}], r"^messages\.0\.content: Field required"),
        ([None], r"^messages\.0: Input should be .*Message"),
    ],
)
def test_what_is_no_message_is_refused_and_nothing_is_queued(plain, messages, complaint):
    with pytest.raises(ValidationError, match=complaint):
        plain.add_messages("c", messages)
    assert plain.stats().queued_messages == 0


def test_no_messages_are_no_mistake(plain):
    queued = plain.add_messages("c", [])
    assert (queued.accepted, queued.queued, queued.due) == (0, 0, False)
    assert plain.process_due("c").episodes == plain.flush("c").episodes == ()
    assert plain.process_due().episodes == ()


@pytest.mark.parametrize("scope", ["", "a//b", "..", None, 3])
def test_a_malformed_scope_is_refused(plain, said, scope):
    for call in (lambda: plain.add_messages(scope, said(1)), lambda: plain.flush(scope)):
        with pytest.raises(ValidationError, match="scope"):
            call()


def test_a_read_only_memory_takes_no_messages(tmp_path, clock, said):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_fact(scope="c", fact="tea")
        with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, read_only=True) as look:
            for call in (lambda: look.add_messages("c", said(1)), lambda: look.review("x", scope="c", rating="good")):
                with pytest.raises((ConfigurationError, NotFoundError)):
                    call()


def test_everything_survives_a_restart(tmp_path, clock, said):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_messages("c", said(12))
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.stats("c").queued_messages == 12
        assert sum(len(episode.messages) for episode in memory.flush("c").episodes) == 12


@pytest.mark.embedded(
    "only a file has one writer, so that a lease found in it is nobody's; on a server it goes with the process"
)
def test_a_lease_of_a_process_that_is_gone_does_not_hold_up_the_next(tmp_path, clock, said):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.add_messages("c", said(25))
        assert inside(memory).pipeline.queue.claim("c") is not None
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        assert memory.flush("c").waiting == 0


def test_a_model_that_learns_from_one_scope_holds_up_no_other(clock, said):
    entered, leave = threading.Event(), threading.Event()

    class Thinks:
        def generate(self, system, user, schema):
            if schema is ConsolidationAnswer:
                entered.set()
                assert leave.wait(2 * PATIENCE)
                return {"facts": []}
            return {"segments": []}

    settings = IngestionSettings(consolidate_from=1)
    with AgentMemory.in_memory(
        embedder=HashEmbedder(), clock=clock, language_model=Thinks(), ingestion=settings
    ) as memory:
        memory.add_messages("a", said(3))
        first = threading.Thread(target=memory.flush, args=("a",))
        second = threading.Thread(target=memory.process_due, args=("b",))
        first.start()
        try:
            assert entered.wait(PATIENCE)
            second.start()
            second.join(PATIENCE)
            assert not second.is_alive()
        finally:
            leave.set()
            first.join()
            second.join()


def test_a_before_store_that_raises_loses_and_doubles_nothing(clock, said):
    failing = set()

    def before_store(record):
        if type(record) in failing:
            raise RuntimeError("the redactor is away")
        return record

    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, before_store=before_store) as memory:
        failing = {Message}
        with pytest.raises(RuntimeError):
            memory.add_messages("c", said(3))
        assert memory.stats("c").queued_messages == 0
        failing = set()
        memory.add_messages("c", said(3))
        failing = {EpisodicDraft}
        with pytest.raises(RuntimeError):
            memory.flush("c")
        assert memory.stats("c").queued_messages == 3
        failing = set()
        (episode,) = memory.flush("c").episodes
        assert texts(episode) == numbers(0, 3)
