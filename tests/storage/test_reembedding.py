"""A store moves to another embedder: resumable, while it is used, and all at once."""

import itertools
import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from patience import PATIENCE, until

from memory_retrievers import (
    AgentMemory,
    BackendError,
    ConfigurationError,
    EmbeddingError,
    EmbeddingMismatchError,
    EpisodicMemory,
    SemanticMemory,
)
from memory_retrievers.backends.sql.snapshots import Snapshots
from memory_retrievers.retrieval import candidates
from memory_retrievers.storage.maintenance import PASSAGES_AT_ONCE
from memory_retrievers.testing import HashEmbedder, inside

COUNT = 2 * PASSAGES_AT_ONCE + 88

MOVE_BESIDE_A_TRANSACTION = """
import sys, threading
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder, inside
with AgentMemory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    store, is_moving = inside(memory).store, threading.Event()
    new = store.embedder.current()
    begin = store.ledger.database.write
    def begin_noted(*scopes):
        is_moving.set()
        return begin(*scopes)
    move = threading.Thread(target=store.embedder.replace, args=(new, lambda: False))
    with store.transaction():
        store.ledger.database.write = begin_noted
        move.start()
        is_moving.wait()  # and from here on for the end of this transaction
        store.ledger.database.write = begin
        for fact in ("the first that has vectors", "another after it"):
            memory.remember_fact(scope="c1", fact=fact)
    move.join()
    print(memory.verify().ok, memory.stats().facts)
"""

DIE_IN_THE_THIRD_PAGE = """
import sys, time
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
class Stalls(HashEmbedder):
    pages = 0
    def embed_documents(self, texts):
        self.pages += 1
        if self.pages == 3:
            print("stalled", flush=True)
            time.sleep(600)
        return super().embed_documents(texts)
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder(256), embedder_id="large")
memory.reembed(Stalls(64), embedder_id="small")
"""

WRITER = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder(256), embedder_id="large")
print("ready", flush=True)
for line in sys.stdin:
    memory.reembed(HashEmbedder(int(line)), embedder_id="large" if int(line) == 256 else "small")
    print("done", flush=True)
memory.close()
"""


class Mirrored(HashEmbedder):
    """Another model of the same dimension: what is near by it is far by the other."""

    def embed_query(self, text):
        return [-component for component in super().embed_query(text)]


class Counting(HashEmbedder):
    """Keeps what it embedded; its probe and questions are no documents."""

    def __init__(self, dimension=256):
        super().__init__(dimension)
        self.texts = []

    def embed_documents(self, texts):
        self.texts += texts
        return super().embed_documents(texts)


class Gated(HashEmbedder):
    """Stops at every text with the word "gate" in it until it is let through; tells that it has come there."""

    def __init__(self, dimension=256):
        super().__init__(dimension)
        self.come, self.go = threading.Event(), threading.Event()

    def embed_query(self, text):
        if "gate" in text:
            self.come.set()
            assert self.go.wait(PATIENCE)
        return super().embed_query(text)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture(params=["on disk", "in memory"])
def memory(request, store):
    large = {"embedder": HashEmbedder(256), "embedder_id": "large"}
    with AgentMemory.open(store, **large) if request.param == "on disk" else AgentMemory.in_memory(**large) as memory:
        yield memory


@pytest.fixture
def filled(memory):
    fill(memory)
    return memory


def opened(store, *, dimension=256, embedder_id="large", **given):
    return AgentMemory.open(store, embedder=HashEmbedder(dimension), embedder_id=embedder_id, **given)


def fill(memory, count=20):
    facts = [SemanticMemory.new(scope="c1", id=f"f{n}", fact=text(n), category="goal") for n in range(count - 1)]
    memory.remember_many(
        [*facts, EpisodicMemory.new(scope="c2", id="e1", summary="They moved to Lyon.", title="Moving")]
    )


def text(number):
    return f"item{number} lies on shelf{number}"


def dimensions(memory):
    with inside(memory).ledger.contents() as contents:
        return {len(passage.vector) for stored in contents.memories for passage in stored.passages}


def nearest(memory, question, *, scope="c1"):
    """The fact or episode whose vector is nearest to the question's."""
    found = memory.retrieve(question, scope=scope)
    return next(hit.memory.id for hit in (*found.semantic, *found.episodic) if hit.explanation.dense_rank == 1)


def distinct(count, *embedders):
    """The numbers whose text is nearest to itself by all the embedders; hashed words may collide."""
    found = set(range(count - 1))
    for embedder in embedders:
        questions = np.array([embedder.embed_query(text(n)) for n in range(count - 1)])
        similar = questions @ np.array([embedder.embed_query(f"goal: {text(n)}") for n in range(count - 1)]).T
        own = similar.diagonal().copy()
        np.fill_diagonal(similar, -1.0)
        found &= set(np.flatnonzero(own > similar.max(axis=1) + 1e-3).tolist())
    assert len(found) > count / 3
    return sorted(found)


def noted(memory):
    return inside(memory).ledger.notes()


def test_every_vector_is_made_anew_and_the_records_stay(filled):
    before = [filled.get(f"f{n}", scope="c1") for n in range(19)]
    small = Counting(64)
    filled.reembed(small, embedder_id="small")
    assert dimensions(filled) == {64}
    assert [filled.get(f"f{n}", scope="c1") for n in range(19)] == before
    assert nearest(filled, text(7)) == "f7"
    assert nearest(filled, "They moved to Lyon.", scope="c2") == "e1"
    assert filled.verify().problems == ()
    # what is embedded of a fact is more than its words are found by
    assert sorted(small.texts) == sorted([*(f"goal: {text(n)}" for n in range(19)), "They moved to Lyon."])


def test_the_vectors_are_those_the_new_embedder_would_have_stored(filled, tmp_path):
    filled.reembed(HashEmbedder(64), embedder_id="small")
    with opened(tmp_path / "fresh", dimension=64, embedder_id="small") as fresh:
        fill(fresh)
        with inside(filled).ledger.contents() as moved, inside(fresh).ledger.contents() as made:
            for ours, theirs in zip(moved.memories, made.memories, strict=True):
                assert ours.passages[0].vector.tobytes() == theirs.passages[0].vector.tobytes()
        assert {name: noted(filled)[name] for name in ("embedder_id", "dimension", "probe")} == noted(fresh)


def test_the_store_goes_on_with_the_new_embedder(filled):
    filled.reembed(HashEmbedder(64), embedder_id="small")
    filled.remember_fact(scope="c1", fact="User plays chess", id="new")
    filled.update("f3", scope="c1", fact="User drinks coffee")
    assert nearest(filled, "note: User plays chess") == "new"
    assert nearest(filled, "goal: User drinks coffee") == "f3"
    assert dimensions(filled) == {64}
    assert filled.verify().problems == ()


def test_another_model_of_the_same_dimension_leaves_no_remembered_vector_behind(filled):
    assert nearest(filled, text(7)) == "f7"
    filled.reembed(Mirrored(256), embedder_id="mirrored")
    for n in range(19):
        assert nearest(filled, text(n)) == f"f{n}"


def test_an_index_that_cannot_be_rebuilt_is_reported_and_the_move_stands(filled, monkeypatch, caplog):
    def fail():
        raise BackendError("the disk is full")

    assert nearest(filled, text(7)) == "f7"
    monkeypatch.setattr(inside(filled).dense, "rebuild", fail)
    filled.reembed(Mirrored(256), embedder_id="mirrored")
    assert "the disk is full" in caplog.text
    assert nearest(filled, text(7)) == "f7"


@pytest.mark.embedded("Chroma in the folder of a store")
@pytest.mark.parametrize("new", [HashEmbedder(64), Mirrored(256)], ids=["other dimension", "same dimension"])
def test_chroma_is_filled_anew_with_the_new_vectors(store, new):
    with AgentMemory.open(store, embedder=HashEmbedder(256), embedder_id="large", dense="chroma") as memory:
        fill(memory)
        assert nearest(memory, text(7)) == "f7"
        memory.reembed(new, embedder_id="new")
        report = memory.verify()
        assert (report.projected, report.problems) == (20, ())
        assert nearest(memory, text(7)) == "f7"
    with AgentMemory.open(store, embedder=new, embedder_id="new", dense="chroma") as memory:
        assert nearest(memory, text(7)) == "f7"
        assert memory.verify().problems == ()


def test_moving_again_and_back_works(filled):
    for dimension, name in ((64, "small"), (64, "small"), (128, "middle"), (256, "large")):
        filled.reembed(HashEmbedder(dimension), embedder_id=name)
        assert dimensions(filled) == {dimension}
        assert nearest(filled, text(5)) == "f5"


def test_an_empty_store_just_changes_its_embedder(memory):
    memory.reembed(HashEmbedder(64), embedder_id="small")
    fill(memory)
    assert dimensions(memory) == {64}
    assert nearest(memory, text(5)) == "f5"


def test_invalidated_facts_are_moved_too(filled):
    filled.invalidate("f1", scope="c1")
    filled.reembed(HashEmbedder(64), embedder_id="small")
    assert dimensions(filled) == {64}


def test_progress_is_told_after_every_page_to_the_end(memory):
    fill(memory, COUNT)
    told = []
    memory.reembed(HashEmbedder(64), embedder_id="small", progress=lambda done, total: told.append((done, total)))
    assert told == [(PASSAGES_AT_ONCE, COUNT), (2 * PASSAGES_AT_ONCE, COUNT), (COUNT, COUNT)]


def test_an_embedder_that_fails_half_way_leaves_the_old_one_serving_and_can_go_on(memory):
    fill(memory, COUNT)
    failing = Counting(64)
    embed = failing.embed_documents

    def fail_in_the_second_page(texts):
        if failing.texts:
            raise RuntimeError("out of quota")
        return embed(texts)

    failing.embed_documents = fail_in_the_second_page
    with pytest.raises(EmbeddingError, match="out of quota"):
        memory.reembed(failing, embedder_id="small")
    assert dimensions(memory) == {256}
    assert noted(memory)["embedder_id"] == "large"
    assert nearest(memory, text(7)) == "f7"
    memory.remember_fact(scope="c1", fact="User plays chess")
    healed = Counting(64)
    memory.reembed(healed, embedder_id="small")
    assert len(healed.texts) == COUNT + 1 - PASSAGES_AT_ONCE
    assert dimensions(memory) == {64}


@pytest.mark.parametrize(
    ("other", "name"),
    [(HashEmbedder(64), "other"), (HashEmbedder(32), "small"), (Mirrored(64), "small")],
    ids=["other name", "other dimension", "other vectors"],
)
def test_another_embedder_starts_over(filled, other, name):
    def stop(done, total):
        assert done == total == 20
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled.reembed(HashEmbedder(64), embedder_id="small", progress=stop)
    told = []
    filled.reembed(other, embedder_id=name, progress=lambda done, total: told.append((done, total)))
    assert told == [(20, 20)]  # and not none, as when nothing had been left to do
    assert filled.verify().problems == ()
    assert "reembedding" not in noted(filled)
    with inside(filled).ledger.contents("c2") as contents:
        (episode,) = contents.memories
    expected = np.array(other.embed_query("They moved to Lyon."), np.float32)
    assert np.allclose(episode.passages[0].vector, expected, atol=1e-6)


@pytest.mark.embedded("another process opens the directory, and is killed")
def test_what_a_killed_process_has_done_is_kept(store):
    with opened(store) as memory:
        fill(memory, COUNT)
    with subprocess.Popen(
        [sys.executable, "-c", DIE_IN_THE_THIRD_PAGE, str(store)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "stalled\n"
        process.send_signal(signal.SIGKILL)
    with opened(store) as memory:
        assert dimensions(memory) == {256}
        assert nearest(memory, text(7)) == "f7"
        memory.forget("f0", scope="c1")  # among those done
        memory.update("f1", scope="c1", fact="User drinks coffee")
        small, told = Counting(64), []
        memory.reembed(small, embedder_id="small", progress=lambda done, total: told.append((done, total)))
        assert len(small.texts) == 88 + 1 + 1  # what f1 says, and what it said before
        assert told == [(COUNT - 1, COUNT - 1)]
        assert dimensions(memory) == {64}
        assert memory.verify().problems == ()
    with opened(store, dimension=64, embedder_id="small") as memory:
        assert nearest(memory, text(7)) == "f7"
        assert nearest(memory, "goal: User drinks coffee") == "f1"


def test_memories_written_changed_and_forgotten_meanwhile_are_included(memory):
    fill(memory, COUNT)
    pages = iter(range(3))

    def meanwhile(done, total):
        page = next(pages, None)
        if page is None:
            return
        memory.remember_fact(scope="c3", fact=f"written{page} meanwhile", id=f"w{page}")
        memory.update(f"f{page}", scope="c1", fact=f"changed{page} meanwhile")
        memory.forget(f"f{page + 10}", scope="c1")
        assert nearest(memory, text(20)) == "f20"  # by the old embedder

    memory.reembed(HashEmbedder(64), embedder_id="small", progress=meanwhile)
    assert next(pages, None) is None
    assert dimensions(memory) == {64}
    for page in range(3):
        assert nearest(memory, f"note: written{page} meanwhile", scope="c3") == f"w{page}"
        assert nearest(memory, f"goal: changed{page} meanwhile") == f"f{page}"
    assert memory.stats().facts == COUNT - 1 + 3 - 3
    assert memory.verify().problems == ()


def listed(memory, scope):
    """The ids of all that a scope holds, however many pages that takes."""
    ids, cursor = [], None
    while True:
        page = memory.list(scope, cursor=cursor, limit=1000)
        ids += [each.id for each in page.memories]
        if (cursor := page.cursor) is None:
            assert len(ids) == len(set(ids))
            return set(ids)


@pytest.mark.parametrize("new", [HashEmbedder(64), Mirrored(256)], ids=["other dimension", "same dimension"])
def test_a_search_never_mixes_the_two_embedders_and_no_write_is_lost(memory, new):
    fill(memory, 300)
    asked = distinct(300, HashEmbedder(256), new)
    stop, searches = threading.Event(), []

    def search():
        for number in itertools.cycle(asked):
            if stop.is_set():
                return
            assert nearest(memory, text(number)) == f"f{number}"
            searches.append(number)

    def write(thread):
        written = []
        while not stop.is_set():
            written.append(memory.remember_fact(scope=f"w{thread}", fact=text(len(written)), category="goal").id)
            memory.update(f"f{250 + thread}", scope="c1", importance=0.5)
        return written

    def answered(count):
        return len(searches) >= count or any(reader.done() for reader in readers)

    with ThreadPoolExecutor(5) as executor:
        readers = [executor.submit(search) for _ in range(3)]
        writers = [executor.submit(write, thread) for thread in range(2)]
        try:
            for round_ in range(4):
                embedder, name = ((new, "new"), (HashEmbedder(256), "large"))[round_ % 2]
                enough = partial(answered, len(searches) + 3)  # so that every move has searches in its midst
                memory.reembed(
                    embedder, embedder_id=name, progress=lambda done, total, enough=enough: until(enough, "a search")
                )
        finally:
            stop.set()
        for reader in readers:
            reader.result()
        written = [writer.result() for writer in writers]
    assert len(searches) > 10
    assert dimensions(memory) == {256}
    assert memory.verify().problems == ()
    for thread, ids in enumerate(written):
        assert listed(memory, f"w{thread}") == set(ids)
        assert nearest(memory, text(0), scope=f"w{thread}") == ids[0]


@pytest.mark.parametrize("new", [HashEmbedder(64), Mirrored(256)], ids=["other dimension", "same dimension"])
def test_a_question_embedded_before_the_change_is_embedded_again_after_it(store, new):
    gated = Gated(256)
    with AgentMemory.open(store, embedder=gated, embedder_id="large") as memory, ThreadPoolExecutor(1) as executor:
        fill(memory)
        answer = executor.submit(nearest, memory, f"gate {text(7)}")
        assert gated.come.wait(PATIENCE)
        memory.reembed(new, embedder_id="new")
        gated.go.set()
        assert answer.result() == "f7"


@pytest.mark.parametrize("new", [HashEmbedder(64), Mirrored(256)], ids=["other dimension", "same dimension"])
def test_a_search_that_found_its_snapshot_before_the_change_does_not_bring_old_vectors_back(store, new, monkeypatch):
    come, go, current = threading.Event(), threading.Event(), Snapshots._current

    def wait_once(self, *given, **named):
        if not come.is_set():
            come.set()
            assert go.wait(PATIENCE)
        return current(self, *given, **named)

    with opened(store) as memory, ThreadPoolExecutor(1) as executor:
        fill(memory)
        asked = distinct(20, HashEmbedder(256), new)
        assert nearest(memory, text(asked[0])) == f"f{asked[0]}"
        for fact in ("it grows by the first of two", "so that the snapshot has to catch up"):
            memory.remember_fact(scope="c1", fact=fact)
        monkeypatch.setattr(Snapshots, "_current", wait_once)
        answer = executor.submit(nearest, memory, text(asked[0]))
        assert come.wait(PATIENCE)
        memory.reembed(new, embedder_id="new")
        go.set()
        assert answer.result() == f"f{asked[0]}"
        assert [nearest(memory, text(number)) for number in asked] == [f"f{number}" for number in asked]


@pytest.mark.parametrize(
    "write",
    [
        lambda memory: memory.remember_fact(scope="c1", id="new", fact="the gate is open"),
        lambda memory: memory.update("f1", scope="c1", fact="the gate is open", category="note"),
    ],
    ids=["remember", "update"],
)
def test_a_text_embedded_before_the_change_is_embedded_again_after_it(store, write):
    gated = Gated(256)
    with AgentMemory.open(store, embedder=gated, embedder_id="large") as memory, ThreadPoolExecutor(1) as executor:
        fill(memory)
        written = executor.submit(write, memory)
        assert gated.come.wait(PATIENCE)
        memory.reembed(HashEmbedder(64), embedder_id="small")
        gated.go.set()
        id = written.result().id
        assert nearest(memory, "note: the gate is open") == id
        assert dimensions(memory) == {64}
        assert memory.verify().problems == ()


def test_an_error_of_a_search_that_nothing_disturbed_is_raised_once(filled, monkeypatch):
    calls = []

    def fail(vectors, vector):
        calls.append(len(vectors))
        raise RuntimeError("the index is broken")

    monkeypatch.setattr(candidates, "similarities", fail)
    with pytest.raises(RuntimeError, match="the index is broken"):
        filled.retrieve("tea", scope="c1")
    assert len(calls) == 1


def test_a_second_one_at_the_same_time_is_refused(store):
    with opened(store) as memory, ThreadPoolExecutor(1) as executor:
        memory.remember_fact(scope="c1", fact="the gate is open")
        gated = Gated(64)
        first = executor.submit(memory.reembed, gated, embedder_id="small")
        assert gated.come.wait(PATIENCE)
        with opened(store) as second, pytest.raises(ConfigurationError, match="being re-embedded already"):
            second.reembed(HashEmbedder(32), embedder_id="smaller")
        gated.go.set()
        first.result()
        assert dimensions(memory) == {64}


@pytest.mark.embedded("handles of one directory share an engine; connections do not")
def test_all_handles_of_the_process_change_together_and_new_ones_ask_for_the_new_embedder(store):
    with opened(store) as first, opened(store) as second:
        fill(first)
        first.reembed(HashEmbedder(64), embedder_id="small")
        assert nearest(second, text(7)) == "f7"
        with pytest.raises(ConfigurationError, match="other settings"):
            opened(store)
        with opened(store, dimension=64, embedder_id="small") as third:
            assert nearest(third, text(7)) == "f7"


def test_a_closed_store_asks_for_the_new_embedder(store):
    with opened(store) as memory:
        fill(memory)
        memory.reembed(HashEmbedder(64), embedder_id="small")
    with pytest.raises(EmbeddingMismatchError, match="'small', not 'large'"):
        opened(store)


def test_a_store_whose_embedder_is_lost_is_moved_as_the_error_says(store):
    with opened(store) as memory:
        fill(memory)
    new = HashEmbedder(64)
    with pytest.raises(EmbeddingMismatchError) as refused:
        AgentMemory.open(store, embedder=new)
    assert "AgentMemory.open(path, embedder=new, embedder_id='large'), then memory.reembed(new)" in str(refused.value)
    with AgentMemory.open(store, embedder=new, embedder_id="large") as memory:
        for use in (
            lambda: memory.retrieve("tea", scope="c1"),
            lambda: memory.remember_fact(scope="c1", fact="x"),
        ):
            with pytest.raises(EmbeddingMismatchError, match=r"64 numbers, and this store holds 256.*memory\.reembed"):
                use()
        memory.reembed(new)
        assert nearest(memory, text(7)) == "f7"
    with AgentMemory.open(store, embedder=new) as memory:
        assert nearest(memory, text(7)) == "f7"
        assert dimensions(memory) == {64}


def test_the_bundled_embedder_needs_no_name(store):
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="User likes tea", id="f1")
        memory.reembed(None)
        assert dimensions(memory) == {384}
    with AgentMemory.open(store) as memory:
        assert nearest(memory, "Which hot drink?") == "f1"


def test_a_read_only_memory_does_not_reembed(store):
    with opened(store) as memory:
        fill(memory)
    with opened(store, read_only=True) as memory, pytest.raises(ConfigurationError, match="read-only"):
        memory.reembed(HashEmbedder(64), embedder_id="small")


@pytest.fixture
def writer(store):
    """Another process that has the store open, and moves it to the dimension it is told."""
    with opened(store) as memory:
        fill(memory)
    arguments = [sys.executable, "-c", WRITER, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def move(writer, dimension):
    writer.stdin.write(f"{dimension}\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "done\n"


@pytest.mark.embedded("another process opens the directory")
def test_who_looks_into_a_store_that_was_moved_by_another_process_is_told_so(store, writer):
    with opened(store, read_only=True) as memory:
        assert nearest(memory, text(7)) == "f7"
        move(writer, 64)
        for _ in range(2):
            with pytest.raises(EmbeddingMismatchError, match="'small', not 'large'"):
                memory.retrieve(text(7), scope="c1")
        with opened(store, dimension=64, embedder_id="small", read_only=True) as other:
            assert nearest(other, text(7)) == "f7"
        move(writer, 256)
        assert nearest(memory, text(7)) == "f7"  # its embedder is the store's again


def test_who_looks_keeps_no_vector_of_a_search_that_the_change_overtook(store):
    gated = Gated(256)
    with (
        opened(store) as writer,
        ThreadPoolExecutor(1) as executor,
    ):
        fill(writer)
        with AgentMemory.open(store, embedder=gated, embedder_id="large", read_only=True) as memory:
            overtaken = executor.submit(nearest, memory, f"gate {text(7)}")
            assert gated.come.wait(PATIENCE)
            writer.reembed(HashEmbedder(64), embedder_id="small")
            gated.go.set()
            with pytest.raises(EmbeddingMismatchError, match="'small', not 'large'"):
                overtaken.result()
            writer.reembed(HashEmbedder(256), embedder_id="large")
            assert nearest(memory, text(7)) == "f7"


def test_an_export_carries_the_new_embedder_and_its_vectors(filled, tmp_path):
    filled.reembed(HashEmbedder(64), embedder_id="small")
    filled.export(tmp_path / "export.jsonl")
    with (tmp_path / "export.jsonl").open() as lines:
        header = json.loads(next(lines))
    assert (header["embedder_id"], header["dimension"], len(header["probe"])) == ("small", 64, 64)
    with AgentMemory.import_(
        tmp_path / "export.jsonl", into=tmp_path / "copy", embedder=HashEmbedder(64), embedder_id="small"
    ) as copy:
        assert nearest(copy, text(7)) == "f7"


@pytest.mark.embedded("PostgreSQL is backed up by its own tools")
def test_an_export_and_a_backup_in_the_middle_are_of_the_old_embedder(store, tmp_path):
    with opened(store) as memory:
        fill(memory)

        def copy(done, total):
            memory.export(tmp_path / "export.jsonl")
            memory.backup(tmp_path / "backup")

        memory.reembed(HashEmbedder(64), embedder_id="small", progress=copy)
    assert json.loads((tmp_path / "export.jsonl").read_text().splitlines()[0])["embedder_id"] == "large"
    with opened(tmp_path / "backup") as memory:
        assert nearest(memory, text(7)) == "f7"
        small = Counting(64)
        memory.reembed(small, embedder_id="small")
        assert small.texts == []  # all had been done before the copy was made
        assert nearest(memory, text(7)) == "f7"


@pytest.mark.embedded("it looks for bytes in the files of the store")
def test_no_byte_of_an_old_vector_is_left_after_a_purge(store):
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="User likes tea")
        memory.reembed(HashEmbedder(64), embedder_id="small")
        memory.purge()
        old = np.array(HashEmbedder(256).embed_query("note: User likes tea"), "<f4").tobytes()
        files = [file for file in store.rglob("*") if file.is_file()]
        assert files
        assert not any(old in file.read_bytes() for file in files)


def test_one_thread_at_a_time_moves_a_store_on_disk_as_in_memory(filled):
    with inside(filled).ledger.database.alone("moving") as is_alone:
        assert is_alone
        with pytest.raises(ConfigurationError, match="being re-embedded already"):
            filled.reembed(HashEmbedder(64), embedder_id="new")
        with inside(filled).ledger.database.alone("feeding") as is_other:
            assert is_other
    filled.reembed(HashEmbedder(64), embedder_id="new")
    assert nearest(filled, text(7)) == "f7"


def test_who_asks_for_the_embedder_in_a_transaction_does_not_wait_for_a_move_that_waits_for_its_end(store):
    done = subprocess.run(
        [sys.executable, "-c", MOVE_BESIDE_A_TRANSACTION, str(store)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == "True 2\n", done.stderr
