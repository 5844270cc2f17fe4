"""Exact in small scopes, Chroma in wide ones: when each answers, and what happens when Chroma cannot."""

import logging
import sys
import threading
import time
from datetime import timedelta

import numpy as np
import pytest
from contracts.samples import NOW, SCOPE, add, fact, facts_in
from patience import PATIENCE, until

from memory_retrievers import (
    AgentMemory,
    BackendError,
    IndexOutOfStepError,
    RetrievalSettings,
    SemanticMemory,
    StoreLockedError,
)
from memory_retrievers.backends import chroma as indexing
from memory_retrievers.backends.chroma import ProjectedVectorIndex, clients
from memory_retrievers.backends.chroma.collection import ChromaProjection
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database
from memory_retrievers.backends.vectors import ExactVectorIndex
from memory_retrievers.models import MemoryKey
from memory_retrievers.testing import HashEmbedder, inside


class Recording(ChromaProjection):
    """The real thing, which also counts its searches and can be told to fail."""

    def __init__(self, directory=None):
        super().__init__(directory)
        self.searches = 0
        self.created = 0
        self.given = []
        self.fails_with = None

    def put(self, passages):
        self.given.append(len(passages))
        super().put(passages)

    def search(self, vector, selection, *, limit):
        self.searches += 1
        if self.fails_with is not None:
            raise self.fails_with
        return super().search(vector, selection, limit=limit)

    def create(self, generation):
        self.created += 1
        if self.fails_with is not None:
            raise self.fails_with
        super().create(generation)


@pytest.fixture
def ledger():
    ledger = SQLLedger(Database(None))
    yield ledger
    ledger.close()


@pytest.fixture
def projection():
    return Recording()


@pytest.fixture
def both(tmp_path):
    """Two indexes of one store in a directory, as two processes have them."""
    ledgers = [SQLLedger(Database(tmp_path / "memory.db")) for _ in range(2)]
    projections = [Recording(tmp_path / "chroma") for _ in range(2)]
    indexes = [made(*each, at_once=True) for each in zip(ledgers, projections, strict=True)]
    yield ledgers, projections, indexes
    for index, ledger in zip(indexes, ledgers, strict=True):
        index.close()
        ledger.close()


def made(ledger, projection, *, exact_limit=10, at_once=False):
    return ProjectedVectorIndex(ledger, projection=projection, exact_limit=exact_limit, at_once=at_once)


@pytest.fixture
def index(ledger, projection):
    index = made(ledger, projection)
    yield index
    index.close()


@pytest.fixture
def at_once(ledger, projection):
    index = made(ledger, projection, exact_limit=0, at_once=True)
    yield index
    index.close()


def directions(number, *, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((number, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def store(ledger, number, *, scope=SCOPE, first=0):
    vectors = directions(number, seed=first + 1)
    return [p.id for p in add(ledger, [fact(f"f{first + n}", scope=scope) for n in range(number)], vectors)]


QUESTION = directions(1, seed=99)[0]


def same_as_exact(index, ledger, selection=None, *, limit=10):
    selection = selection or facts_in()
    found = index.search(QUESTION, selection, limit=limit)
    assert found == ExactVectorIndex(ledger).search(QUESTION, selection, limit=limit)
    return found


def wait_until_ready(index):
    until(lambda: index._feeder.ready, "the feeding")


def test_a_small_scope_never_asks_the_projection(ledger, index, projection):
    store(ledger, 10)
    same_as_exact(index, ledger)
    assert projection.searches == projection.created == 0
    assert ledger.outbox.state().generation is None


def test_the_first_wide_search_is_exact_and_later_ones_are_not(ledger, index, projection):
    store(ledger, 50)
    same_as_exact(index, ledger)
    assert projection.searches == 0
    wait_until_ready(index)
    same_as_exact(index, ledger)
    assert projection.searches > 0


def test_what_is_waiting_is_found_beside_what_is_projected(ledger, index, projection):
    ids = store(ledger, 50)
    index.search(QUESTION, facts_in(), limit=10)
    wait_until_ready(index)
    best = same_as_exact(index, ledger, limit=1).passages[0]
    ledger.remove([MemoryKey(scope=SCOPE, id=f"f{ids.index(best)}")])
    (newest,) = (p.id for p in add(ledger, [fact("new")], QUESTION[None]))
    found = same_as_exact(index, ledger)
    assert found.passages[0] == newest
    assert best not in found.passages
    assert len(ledger.outbox.waiting(at_most=10)) == 2
    assert projection.count() == 50


def test_many_waiting_passages_wake_the_feeder(ledger, index, projection, monkeypatch):
    monkeypatch.setattr(indexing, "FEED_FROM", 20)
    store(ledger, 50)
    index.search(QUESTION, facts_in(), limit=10)
    wait_until_ready(index)
    store(ledger, 30, first=50)
    same_as_exact(index, ledger)
    until(lambda: not ledger.outbox.waiting(at_most=1), "the feeding")
    assert projection.count() == 80
    same_as_exact(index, ledger)


def test_in_the_background_few_passages_are_given_at_once_so_that_searches_come_between(
    ledger, index, projection, monkeypatch
):
    monkeypatch.setattr(indexing, "AT_ONCE", 20)
    store(ledger, 50)
    same_as_exact(index, ledger)
    wait_until_ready(index)
    assert projection.given == [20, 20, 10]
    index.rebuild()  # whoever called is waiting for it
    assert projection.given[3:] == [50]
    assert projection.count() == 50


def test_too_many_waiting_passages_make_the_whole_search_exact(ledger, index, projection, monkeypatch):
    store(ledger, 50)
    index.search(QUESTION, facts_in(), limit=10)
    wait_until_ready(index)
    monkeypatch.setattr(indexing, "MOST_WAITING", 20)
    store(ledger, 30, first=50)
    same_as_exact(index, ledger)
    assert projection.searches == 0


def test_a_wide_search_over_child_scopes_sees_them_and_nothing_else(ledger, at_once):
    store(ledger, 30, scope="user/1/a")
    store(ledger, 30, scope="user/10", first=100)
    store(ledger, 5, scope="user/1", first=200)
    found = same_as_exact(at_once, ledger, facts_in("user/1", include_child_scopes=True), limit=100)
    assert len(found.passages) == 35


def test_a_scope_that_is_a_small_part_of_a_wide_store_is_searched_with_the_filter(ledger, at_once, monkeypatch):
    monkeypatch.setattr(indexing, "OVERSHOTS", (1,))
    for number in range(10):
        store(ledger, 30, scope=f"user/{number}", first=100 * number)
    assert len(same_as_exact(at_once, ledger, facts_in("user/3"), limit=20).passages) == 20


def test_what_has_expired_is_not_found_though_it_is_projected(ledger, at_once):
    add(ledger, [fact(f"f{n}", expires_at=NOW + timedelta(seconds=n)) for n in range(40)], directions(40))
    assert len(same_as_exact(at_once, ledger, facts_in(now=NOW), limit=100).passages) == 39
    later = facts_in(now=NOW + timedelta(seconds=20, milliseconds=300))
    assert len(same_as_exact(at_once, ledger, later, limit=100).passages) == 19


def test_a_projection_that_fails_is_answered_for_exactly_and_left_alone_for_a_while(
    ledger, at_once, projection, caplog
):
    store(ledger, 30)
    same_as_exact(at_once, ledger)
    projection.fails_with = BackendError("gone for lunch")
    with caplog.at_level(logging.WARNING, "memory_retrievers"):
        same_as_exact(at_once, ledger)
    assert "gone for lunch" in caplog.text
    asked = projection.searches
    same_as_exact(at_once, ledger)
    assert projection.searches == asked
    assert projection.created == 1


def test_after_the_pause_an_unreachable_projection_is_used_again_as_it_is(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 0.0)
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection, exact_limit=0, at_once=True)
    store(ledger, 30)
    same_as_exact(index, ledger)
    projection.fails_with = BackendError("gone for lunch")
    same_as_exact(index, ledger)
    projection.fails_with = None
    asked = projection.searches
    same_as_exact(index, ledger)
    assert projection.searches > asked
    assert projection.created == 1
    index.close()


def test_a_damaged_projection_is_made_anew(ledger, at_once, projection, monkeypatch):
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 0.0)
    store(ledger, 30)
    same_as_exact(at_once, ledger)
    projection.fails_with = IndexOutOfStepError("scrambled")
    same_as_exact(at_once, ledger)
    projection.fails_with = None
    same_as_exact(at_once, ledger)
    assert projection.created == 2
    assert at_once.verify().projected == 30


def test_pauses_grow_with_failures_in_a_row(ledger, projection, monkeypatch):
    index = made(ledger, projection, exact_limit=0, at_once=True)
    store(ledger, 30)
    projection.fails_with = BackendError("closed today")
    pauses = []
    for _ in range(9):
        monkeypatch.setattr(index._feeder, "_next_attempt", 0.0)
        same_as_exact(index, ledger)
        pauses.append(round((index._feeder._next_attempt - time.monotonic()) / 60))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    index.close()


def test_searches_that_fail_at_once_count_as_one_failure(ledger, projection):
    index = made(ledger, projection, exact_limit=0, at_once=True)
    for _ in range(5):
        index._feeder.distrust(BackendError("it has not answered"))
    assert index._feeder._next_attempt - time.monotonic() <= indexing.FIRST_PAUSE
    index.close()


def test_a_projection_that_has_lost_rows_is_made_anew_at_its_first_use(tmp_path):
    ledger = SQLLedger(Database(None))
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection, exact_limit=0, at_once=True)
    ids = store(ledger, 30)
    same_as_exact(index, ledger)
    projection.remove(ids[:3])
    index.close()
    again = made(ledger, projection, exact_limit=0, at_once=True)
    same_as_exact(again, ledger)
    assert projection.created == 2
    assert projection.count() == 30
    again.close()
    ledger.close()


def test_a_projection_in_step_is_taken_up_again_and_only_fed_what_is_new(tmp_path):
    ledger = SQLLedger(Database(None))
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection, exact_limit=0, at_once=True)
    store(ledger, 30)
    same_as_exact(index, ledger)
    index.close()
    store(ledger, 3, first=30)
    again = made(ledger, projection, exact_limit=0, at_once=True)
    same_as_exact(again, ledger, limit=33)
    assert projection.created == 1
    assert projection.count() == 33
    again.close()
    ledger.close()


def test_closing_feeds_what_waits(tmp_path):
    ledger = SQLLedger(Database(None))
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection)
    store(ledger, 30)
    index.search(QUESTION, facts_in(), limit=10)
    wait_until_ready(index)
    store(ledger, 5, first=30)
    index.close()
    assert ledger.outbox.waiting(at_most=1) == []
    index.close()
    ledger.close()


def test_closing_in_the_middle_of_a_rebuild_keeps_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "BATCH", 10)
    ledger = SQLLedger(Database(None))
    store(ledger, 100)
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection)
    put, puts = projection.put, []

    def put_and_close(passages):
        put(passages)
        puts.append(len(passages))
        if len(puts) == 3:
            index._feeder._stop.set()

    monkeypatch.setattr(projection, "put", put_and_close)
    index.search(QUESTION, facts_in(), limit=10)
    index._feeder._thread.join()
    index.close()
    assert puts == [10, 10, 10]
    assert ledger.outbox.state().projected == 30
    again = made(ledger, projection, exact_limit=0, at_once=True)
    same_as_exact(again, ledger)
    assert puts == [10] * 10
    assert projection.created == 1
    again.close()
    ledger.close()


def test_purging_does_not_wait_for_a_long_feed(tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "BATCH", 10)
    ledger = SQLLedger(Database(None))
    store(ledger, 200)
    projection = Recording(tmp_path / "chroma")
    index = made(ledger, projection)
    put, began, puts = projection.put, threading.Event(), []

    def slow_put(passages):
        put(passages)
        puts.append(len(passages))
        if not began.is_set():
            began.set()
            assert index._feeder._stop.wait(PATIENCE)  # as slow as it takes for the purge to come

    monkeypatch.setattr(projection, "put", slow_put)
    index.search(QUESTION, facts_in(), limit=10)
    assert began.wait(PATIENCE)
    index.purge()
    assert puts == [10]  # what was under way
    assert not (tmp_path / "chroma").exists()
    same_as_exact(index, ledger)
    wait_until_ready(index)
    same_as_exact(index, ledger)
    index.close()
    ledger.close()


def test_verify_tells_what_differs(ledger, at_once, projection):
    ids = store(ledger, 30)
    same_as_exact(at_once, ledger)
    assert at_once.verify().ok
    assert at_once.verify().projected == 30
    stranger = ledger.outbox.projected(after=0, limit=1)[0]
    projection.remove(ids[1:3])
    projection.put([type(stranger)(**{name: getattr(stranger, name) for name in stranger.__slots__} | {"id": 999})])
    problems = at_once.verify().problems
    assert [problem.split(" in scope")[0] for problem in problems] == [f"passage {ids[1]}", f"passage {ids[2]}"]
    ledger.outbox.begin(ledger.outbox.state().generation)
    assert at_once.verify().ok  # all of it waits, so all of it may differ


def test_a_passage_that_has_moved_up_says_nothing_of_where_it_was(ledger, at_once, projection):
    ids = [*store(ledger, 30), *store(ledger, 1, scope=f"{SCOPE}/below", first=30)]
    same_as_exact(at_once, ledger)
    ledger.management.move([MemoryKey(scope=f"{SCOPE}/below", id="f30")], target_scope=SCOPE)
    same_as_exact(at_once, ledger)
    assert at_once.verify().ok
    assert projection.count() == len(ids)


def test_rebuilding_mends_it(ledger, at_once, projection):
    ids = store(ledger, 30)
    same_as_exact(at_once, ledger)
    projection.remove(ids[:5])
    assert not at_once.verify().ok
    at_once.rebuild()
    assert at_once.verify().ok
    assert projection.count() == 30


def open_store(path, **options):
    return AgentMemory.open(path, embedder=HashEmbedder(), **options)


def remember(memory, number, *, scope="user/1"):
    return memory.remember_many([SemanticMemory.new(scope=scope, fact=f"fact number {n}") for n in range(number)])


def facts_of(result):
    return [hit.memory.fact for hit in result.semantic]


def test_two_memories_in_memory_of_different_dimension_do_not_see_each_other():
    import chromadb

    default = chromadb.Client()
    others = default.count_collections()
    with (
        AgentMemory.in_memory(embedder=HashEmbedder(64), dense="chroma") as small,
        AgentMemory.in_memory(embedder=HashEmbedder(256), dense="chroma") as large,
    ):
        small.remember_fact(scope="s", fact="tea in the morning")
        large.remember_fact(scope="s", fact="tea in the evening")
        assert facts_of(small.retrieve("tea", scope="s")) == ["tea in the morning"]
        assert facts_of(large.retrieve("tea", scope="s")) == ["tea in the evening"]
        assert default.count_collections() == others + 2
        after = chromadb.Client()
        assert after.count_collections() == others + 2
        after.close()
    assert default.count_collections() == others
    default.close()


def test_a_store_works_over_a_chroma_server(tmp_path, chroma_client):
    settings = RetrievalSettings(exact_limit=5)
    with open_store(tmp_path, dense=chroma_client, retrieval=settings) as memory:
        remember(memory, 30)
        memory.retrieve("fact number 7", scope="user/1")
        wait_until_ready(inside(memory).dense)
        assert "fact number 7" in facts_of(memory.retrieve("fact number 7", scope="user/1"))
        assert memory.verify().projected == 30
        generation = inside(memory).ledger.outbox.state().generation
        assert chroma_client.get_collection(f"memories-{generation}", embedding_function=None).count() == 30
        memory.purge()
        assert f"memories-{generation}" not in {each.name for each in chroma_client.list_collections()}
    assert not (tmp_path / "chroma").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be stopped there and go on")
def test_a_server_that_does_not_answer_holds_nobody_up_for_long(tmp_path, mute_chroma, monkeypatch, caplog):
    client, mute = mute_chroma
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 0.0)
    with open_store(tmp_path / "store", dense=client, retrieval=RetrievalSettings(exact_limit=5)) as memory:
        remember(memory, 30)
        memory.retrieve("fact number 7", scope="user/1")
        wait_until_ready(inside(memory).dense)
        with mute(), monkeypatch.context() as impatient:
            impatient.setattr(clients, "LONGEST_SEARCH", 0.1)
            impatient.setattr(clients, "LONGEST_CALL", 0.1)
            assert facts_of(memory.retrieve("fact number 7", scope="user/1"))[0] == "fact number 7"
            assert "has not answered within" in caplog.text
            memory.remember_fact(fact="the zebra is in room 5", scope="user/1")
            assert facts_of(memory.retrieve("zebra", scope="user/1"))[0] == "the zebra is in room 5"
            (problem,) = memory.verify().problems
            assert problem.endswith("has not answered within 0 seconds): searches do without it")
        inside(memory).dense._feeder.catch_up()
        assert memory.verify().problems == ()
        assert memory.verify().projected == 31
        memory.remember_fact(fact="the tiger is in room 6", scope="user/1")
        with mute(), monkeypatch.context() as impatient:
            impatient.setattr(clients, "LONGEST_CALL", 0.1)
            memory.close()  # which feeds what waits
    with open_store(tmp_path / "store", dense=client, retrieval=RetrievalSettings(exact_limit=5)) as memory:
        memory.retrieve("tiger", scope="user/1")
        wait_until_ready(inside(memory).dense)
        assert memory.verify().problems == ()
        assert memory.verify().projected == 32


def test_what_a_server_may_have_written_after_all_is_made_anew(tmp_path, mute_chroma, monkeypatch):
    client, mute = mute_chroma
    monkeypatch.setattr(indexing, "FIRST_PAUSE", 0.0)
    with open_store(tmp_path / "store", dense=client, retrieval=RetrievalSettings(exact_limit=5)) as memory:
        remember(memory, 30)
        feeder = inside(memory).dense._feeder
        feeder.catch_up()
        before = inside(memory).ledger.outbox.state().generation
        memory.remember_fact(fact="the zebra is in room 5", scope="user/1")
        with mute(), monkeypatch.context() as impatient:
            impatient.setattr(clients, "LONGEST_CALL", 0.1)
            with pytest.raises(IndexOutOfStepError, match="has not answered within"):
                feeder.catch_up()
        feeder.catch_up()
        assert inside(memory).ledger.outbox.state().generation != before
        assert memory.verify().projected == 31
        assert len(client.list_collections()) == 1


def test_a_page_of_a_server_is_not_repeated_as_a_whole():
    assert str(ChromaProjection(client=object())._failure(Exception("<html>\n" + "oops " * 2_000)))[-2:] == "…)"


def test_every_engine_answers_alike(tmp_path, keyword):
    answers = []
    for dense in ("exact", "auto", "chroma"):
        with open_store(tmp_path / keyword, keyword=keyword, dense=dense) as memory:
            if not memory.scopes():
                remember(memory, 40)
            answers.append([(hit.memory.id, hit.score) for hit in memory.retrieve("number 7", scope="user/1").semantic])
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 20


def test_purge_leaves_no_byte_in_chroma_either(tmp_path):
    for dense in ("chroma", "exact"):
        with open_store(tmp_path, dense="chroma") as memory:
            remember(memory, 5)
            stored = memory.remember_fact(scope="user/1", fact="the marker is Xyzzyplugh")
            memory.retrieve("Xyzzyplugh", scope="user/1")
            memory.forget(stored.id, scope="user/1")
        with open_store(tmp_path, dense=dense) as memory:
            memory.purge()
        holding = [file for file in tmp_path.rglob("*") if file.is_file() and b"Xyzzyplugh" in file.read_bytes()]
        assert holding == []


def test_purge_says_so_where_somebody_else_keeps_chroma_s_files_open(tmp_path):
    import chromadb
    from chromadb.config import Settings

    with open_store(tmp_path, dense="chroma") as memory:
        stored = memory.remember_fact(scope="user/1", fact="the marker is Xyzzyplugh")
        memory.retrieve("Xyzzyplugh", scope="user/1")
        memory.forget(stored.id, scope="user/1")
        other = chromadb.PersistentClient(tmp_path / "chroma", settings=Settings(anonymized_telemetry=False))
        with pytest.raises(BackendError, match="close that client"):
            memory.purge()
        other.close()
        memory.purge()
        assert not (tmp_path / "chroma").exists()


def test_a_backup_has_its_projection_made_anew(tmp_path):
    with open_store(tmp_path / "store", dense="chroma") as memory:
        remember(memory, 20)
        memory.retrieve("fact", scope="user/1")
        memory.backup(tmp_path / "copy")
    assert {file.name for file in (tmp_path / "copy").iterdir()} == {"memory.db", "memory.db-sum"}
    with open_store(tmp_path / "copy", dense="chroma") as memory:
        assert memory.verify().projected == 0
        assert len(memory.retrieve("fact", scope="user/1").semantic) == 20
        assert memory.verify().projected == 20


def test_a_read_only_look_leaves_chroma_alone(tmp_path):
    with open_store(tmp_path, dense="chroma") as memory:
        remember(memory, 20)
        memory.retrieve("fact", scope="user/1")
        with open_store(tmp_path, dense="chroma", read_only=True) as look:
            assert len(look.retrieve("fact", scope="user/1").semantic) == 20
            assert look.verify().projected == 0


@pytest.mark.parametrize("dense", ["hnsw", "", "Chroma"])
def test_an_unknown_engine_is_refused(tmp_path, dense):
    with pytest.raises(ValueError, match="one of: auto, exact, chroma"):
        open_store(tmp_path / "new", dense=dense)
    assert not (tmp_path / "new").exists()


def test_of_two_that_begin_one_feeds_and_the_other_answers_exactly_and_takes_over_when_it_ends(both):
    ledgers, projections, (first, second) = both
    store(ledgers[0], 30)
    selection, vector = facts_in(), directions(1)[0]
    expected = ExactVectorIndex(ledgers[0]).search(vector, selection, limit=5)
    for index in (first, second):
        assert index.search(vector, selection, limit=5) == expected
    assert [each.created for each in projections] == [1, 0]
    assert [each.searches > 0 for each in projections] == [True, False]
    with pytest.raises(StoreLockedError, match="another process uses the Chroma index"):
        second.purge()
    (note,) = second.verify().notes
    assert "another process uses" in note
    first.close()
    assert second.search(vector, selection, limit=5) == expected
    assert [each.created for each in projections] == [1, 0]  # it goes on with what is there
    assert projections[1].searches > 0
    second.purge()


def test_one_that_another_has_begun_and_is_about_to_make_is_waited_for(ledger, chroma_client, monkeypatch):
    projections = [ChromaProjection(client=chroma_client) for _ in range(2)]
    first, second = indexes = [made(ledger, each, exact_limit=0, at_once=True) for each in projections]
    other = threading.Thread(target=second._feeder.attempt)
    turn, create, asked = ledger.outbox.turn, projections[0].create, threading.Event()

    def made_late(generation):
        monkeypatch.setattr(ledger.outbox, "turn", lambda: (asked.set(), turn())[1])
        other.start()
        assert asked.wait(PATIENCE)
        create(generation)

    monkeypatch.setattr(projections[0], "create", made_late)
    store(ledger, 30)
    same_as_exact(first, ledger)
    other.join(PATIENCE)
    assert [index._feeder.ready for index in indexes] == [True, True]
    first.purge()
    for index in indexes:
        index.close()


def test_a_projection_that_another_begins_anew_is_made_anew_by_the_one_that_holds_it(both):
    ledgers, projections, (first, second) = both
    store(ledgers[0], 30)
    selection, vector = facts_in(), directions(1)[0]
    expected = first.search(vector, selection, limit=5)
    second.rebuild()
    assert ledgers[0].outbox.state().generation is None
    assert first.search(vector, selection, limit=5) == expected
    assert [each.created for each in projections] == [2, 0]


def test_rebuilding_while_another_process_rebuilds_goes_on_with_what_was_begun_last(both, monkeypatch):
    monkeypatch.setattr(indexing, "BATCH", 10)
    ledgers, projections, (first, second) = both
    store(ledgers[0], 30)
    put, puts = projections[0].put, []

    def put_beside_another(passages):
        put(passages)
        puts.append(len(passages))
        if len(puts) == 2:
            second.rebuild()

    monkeypatch.setattr(projections[0], "put", put_beside_another)
    first.rebuild()
    assert puts == [10] * 5
    assert [each.created for each in projections] == [2, 0]
    report = first.verify()
    assert (report.projected, report.problems) == (30, ())


def test_rebuilding_beside_one_who_never_ends_to_rebuild_is_given_up(both, monkeypatch):
    ledgers, projections, (first, second) = both
    store(ledgers[0], 5)
    put, puts = projections[0].put, []

    def put_beside_another(passages):
        puts.append(len(passages))
        assert len(puts) <= 2 * indexing.ROUNDS
        put(passages)
        second.rebuild()

    monkeypatch.setattr(projections[0], "put", put_beside_another)
    with pytest.raises(BackendError, match="begun to rebuild the Chroma index"):
        first.rebuild()
