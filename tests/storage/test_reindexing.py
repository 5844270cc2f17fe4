"""What is searched of episodes follows the settings, and an existing store is brought to them."""

import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from patience import PATIENCE

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    EmbeddingError,
    EpisodicMemory,
    Message,
    RetrievalSettings,
    SemanticMemory,
)
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.models import Kind
from memory_retrievers.models.selection import Selection
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.storage.maintenance import EPISODES_AT_ONCE
from memory_retrievers.testing import HashEmbedder, inside

COUNT = 2 * EPISODES_AT_ONCE + 5
SUMMARY, TURNS = RetrievalSettings(passages="summary"), RetrievalSettings(passages="turns")

DIE_IN_THE_SECOND_PAGE = """
import sys, time
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
class Stalls(HashEmbedder):
    pages = 0
    def embed_documents(self, texts):
        self.pages += 1
        if self.pages == 2:
            print("stalled", flush=True)
            time.sleep(600)
        return super().embed_documents(texts)
AgentMemory.open(sys.argv[1], embedder=Stalls(), embedder_id="HashEmbedder").reindex()
"""


class Counting(HashEmbedder):
    """Keeps what it embedded; told to, it fails after some texts, or waits."""

    def __init__(self):
        super().__init__()
        self.texts, self.most, self.before = [], None, lambda: None

    def embed_documents(self, texts):
        self.before()
        self.texts += texts
        if self.most is not None and len(self.texts) > self.most:
            raise EmbeddingError("the model is gone")
        return super().embed_documents(texts)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def embedder():
    return Counting()


def draft(number, *, scope="c", **fields):
    said = (
        Message(role="Ana", content=f"Item{number} lies on shelf{number}"),
        Message(role="Ben", content=f"I saw bird{number} yesterday"),
    )
    return EpisodicMemory.new(scope=scope, id=f"e{number}", summary=f"Talk{number}", messages=said, **fields)


def opened(store, embedder, settings=TURNS, **given):
    return AgentMemory.open(store, embedder=embedder, retrieval=settings, **given)


def parts(memory, id="e0", *, scope="c"):
    return [passage.part for passage in inside(memory).ledger.passages_of(scope, id=id)]


def found(memory, term, *, scope="c"):
    """The texts that hold a term, by the stored postings."""
    selection = Selection(scope=scope, kind=Kind.EPISODIC, now=inside(memory).store.now(), every_passage=True)
    hits = inside(memory).keyword.search([term], selection, limit=100)
    return [text for _, text in sorted(inside(memory).ledger.texts(hits.passages).items())]


def contents(memory):
    with inside(memory).ledger.contents() as everything:
        return [
            (stored.memory, sorted((each.part, each.text, each.speaker, each.tells_time, each.vector.tobytes())
                                   for each in stored.passages))
            for stored in everything.memories
        ]  # fmt: skip


def test_what_is_stored_of_an_episode_follows_the_settings(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(0)])
        assert parts(memory) == ["episodic"]
        assert found(memory, "bird0") == []
    with opened(store, embedder) as memory:
        assert parts(memory) == ["episodic"]  # opening changes nothing
        memory.remember_many([draft(1)])
        assert parts(memory, "e1") == ["episodic", "turn 0", "turn 1"]
        assert len(found(memory, "bird1")) == 1
        assert memory.verify().problems == ()


def test_a_store_that_was_brought_to_a_setting_is_as_if_it_had_been_filled_with_it(store, embedder, clock, tmp_path):
    drafts = [draft(n, scope=f"c{n % 3}") for n in range(COUNT)]
    drafts += [SemanticMemory.new(scope="c1", id="f1", fact="Ana likes tea")]
    made = {}
    for name, settings in (("summary", SUMMARY), ("turns", TURNS)):
        with opened(tmp_path / name, embedder, settings, clock=clock) as memory:
            memory.remember_many(drafts)
            made[name] = contents(memory)
    for before, after, settings in (("summary", "turns", TURNS), ("turns", "summary", SUMMARY)):
        with opened(tmp_path / before, embedder, settings, clock=clock) as memory:
            assert memory.reindex() == COUNT
            assert contents(memory) == made[after]
            assert memory.verify().problems == ()
            embedder.texts.clear()
            assert memory.reindex() == 0
            assert embedder.texts == []


@pytest.mark.parametrize("dense", ["exact", "chroma"])
@pytest.mark.parametrize("keyword", ["sqlite_bm25", "rank_bm25"])
def test_searches_see_what_was_added_and_no_longer_what_was_given_up(store, embedder, keyword, dense):
    engines = {"keyword": keyword, "dense": dense}
    with opened(store, embedder, SUMMARY, **engines) as memory:
        memory.remember_many([draft(n) for n in range(3)])
        assert memory.retrieve("bird1", scope="c").episodic[0].explanation.bm25_rank is None
    with opened(store, embedder, **engines) as memory:
        memory.retrieve("bird1", scope="c")  # what is remembered of the scope is outdated by what follows
        memory.reindex()
        assert found(memory, "bird1")
        vector = inside(memory).store.embedder.current().embed_query("Ben: I saw bird1 yesterday")
        asked = Selection(scope="c", kind=Kind.EPISODIC, now=inside(memory).store.now(), every_passage=True)
        (best, *_) = inside(memory).dense.search(vector, asked, limit=5).passages
        assert inside(memory).ledger.texts([best])[best].endswith("Ben: I saw bird1 yesterday")
        whole = inside(memory).dense.search(vector, replace(asked, every_passage=False), limit=50).passages
        assert sorted(inside(memory).ledger.texts(whole).values()) == ["Talk0", "Talk1", "Talk2"]
        assert memory.verify().problems == ()
    with opened(store, embedder, SUMMARY, **engines) as memory:
        assert found(memory, "bird1")
        memory.reindex()
        assert found(memory, "bird1") == []
        assert len(inside(memory).dense.search(vector, asked, limit=50).passages) == 3
        assert memory.verify().problems == ()


def test_progress_is_told_to_the_end_and_only_what_is_missing_is_embedded(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(n) for n in range(COUNT)])
    embedder.texts.clear()
    told = []
    with opened(store, embedder) as memory:
        memory.reindex(progress=lambda done, total: told.append((done, total)))
    assert told == [(EPISODES_AT_ONCE, COUNT), (2 * EPISODES_AT_ONCE, COUNT), (COUNT, COUNT)]
    assert len(embedder.texts) == 2 * COUNT
    assert not any(text.startswith("Talk") for text in embedder.texts)


def test_an_embedder_that_fails_leaves_whole_episodes_and_the_next_call_goes_on(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(n) for n in range(COUNT)])
    with opened(store, embedder) as memory:
        embedder.texts.clear()
        embedder.most = 2 * EPISODES_AT_ONCE
        with pytest.raises(EmbeddingError, match="gone"):
            memory.reindex()
        assert memory.verify().problems == ()
        done = [n for n in range(COUNT) if len(parts(memory, f"e{n}")) == 3]
        assert len(done) == EPISODES_AT_ONCE
        embedder.most = None
        embedder.texts.clear()
        assert memory.reindex() == COUNT - EPISODES_AT_ONCE
        assert len(embedder.texts) == 2 * (COUNT - EPISODES_AT_ONCE)


@pytest.mark.embedded("another process opens the directory, and is killed")
def test_a_process_that_is_killed_leaves_whole_episodes_and_the_next_goes_on(store):
    with opened(store, HashEmbedder(), SUMMARY) as memory:
        memory.remember_many([draft(n) for n in range(COUNT)])
    command = [sys.executable, "-c", DIE_IN_THE_SECOND_PAGE, store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "stalled\n"
        process.send_signal(signal.SIGKILL)
    with opened(store, HashEmbedder()) as memory:
        assert memory.verify().problems == ()
        assert [len(parts(memory, f"e{n}")) for n in range(COUNT)] == [3] * EPISODES_AT_ONCE + [1] * (
            COUNT - EPISODES_AT_ONCE
        )
        assert memory.reindex() == COUNT - EPISODES_AT_ONCE
        assert memory.verify().problems == ()


def test_what_is_forgotten_or_changed_meanwhile_is_not_brought_back(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(n) for n in range(3)])
    with opened(store, embedder) as memory:

        def change():
            embedder.before = lambda: None
            memory.forget("e0", scope="c")
            memory.update("e1", scope="c", summary="Parley9")

        embedder.before = change
        assert memory.reindex() == 2
        assert parts(memory) == []
        assert found(memory, "parley9") == ["Parley9"]
        assert found(memory, "talk1") == found(memory, "bird0") == []
        assert memory.verify().problems == ()


def test_searches_and_writes_go_on_meanwhile(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(n) for n in range(COUNT)])
    with opened(store, embedder) as memory:
        come, go = threading.Event(), threading.Event()

        def wait():
            embedder.before = lambda: None
            come.set()
            assert go.wait(PATIENCE)

        embedder.before = wait
        thread = threading.Thread(target=memory.reindex)
        thread.start()
        assert come.wait(PATIENCE)
        assert memory.retrieve("Talk7", scope="c").episodic[0].memory.id == "e7"
        memory.remember_many([draft(COUNT)])
        go.set()
        thread.join()
        assert all(len(parts(memory, f"e{n}")) == 3 for n in range(COUNT + 1))


@pytest.mark.embedded("it changes the tables in SQLite's own words")
def test_damaged_passages_of_messages_are_found_and_made_anew(store, embedder):
    with opened(store, embedder) as memory:
        memory.remember_many([draft(n) for n in range(4)])
        ids = {
            (n, passage.part): passage.id
            for n in range(4)
            for passage in inside(memory).ledger.passages_of("c", id=f"e{n}")
        }
    with sqlite3.connect(store / "memory.db") as damaged:
        damaged.execute("PRAGMA foreign_keys = ON")
        damaged.execute("UPDATE passage_contents SET text = 'other words' WHERE passage = ?", (ids[0, "turn 0"],))
        damaged.execute("DELETE FROM passages WHERE id = ?", (ids[1, "turn 1"],))
        damaged.execute("UPDATE passages SET part = 'turn 9' WHERE id = ?", (ids[2, "turn 1"],))
    damaged.close()
    (store / "memory.db-sum").unlink()  # changed on purpose
    with opened(store, embedder) as memory:
        problems = [
            problem for problem in memory.verify().problems if "posting" not in problem and "keyword" not in problem
        ]
        assert problems == [
            "passage 'turn 0' of memory 'e0' in scope 'c' has another text than its memory",
            "memory 'e1' in scope 'c' is not found by all of its messages",
            "memory 'e2' in scope 'c' is not found by all of its messages",
            "passage 'turn 9' of memory 'e2' in scope 'c' is of a message that its memory does not have",
        ]
        memory.rebuild("sparse")
        assert memory.reindex() == 3
        assert memory.verify().problems == ()


def test_a_changed_summary_leaves_the_messages_and_embeds_itself_alone(store, embedder):
    with opened(store, embedder) as memory:
        memory.remember_many([draft(0)])
        turns = [passage for passage in inside(memory).ledger.passages_of("c") if passage.field == "turn"]
        embedder.texts.clear()
        memory.update("e0", scope="c", summary="Parley9")
        assert embedder.texts == ["Parley9"]
        kept = inside(memory).ledger.passages_of("c")
        assert [passage for passage in kept if passage.field == "turn"] == turns
        assert [passage.text for passage in kept if passage.field == "episodic"] == ["Parley9"]
        assert found(memory, "talk0") == []
        assert memory.verify().problems == ()


def test_messages_go_with_an_episode_that_is_forgotten_and_move_with_it(store, embedder):
    with opened(store, embedder) as memory:
        memory.remember_many([draft(0), draft(1)])
        inside(memory).store.move([inside(memory).store.get("e0", scope="c")], target_scope="d")
        assert len(parts(memory, "e0", scope="d")) == 3
        assert (len(found(memory, "bird0", scope="d")), found(memory, "bird0")) == (1, [])
        memory.forget("e0", scope="d")
        assert found(memory, "bird0", scope="d") == []
        assert memory.verify().problems == ()


@pytest.mark.embedded("it looks for bytes in the files of the store")
@pytest.mark.parametrize("keyword", ["sqlite_bm25", "rank_bm25"])
@pytest.mark.parametrize("dense", ["exact", "chroma"])
def test_no_word_of_an_erased_message_stays(store, embedder, clock, keyword, dense):
    settings = IngestionSettings(keep_messages_days=30)
    with opened(store, embedder, clock=clock, keyword=keyword, dense=dense, ingestion=settings) as memory:
        memory.remember_many([draft(0), draft(1, created_at=clock.now() + timedelta(days=20))])
        assert found(memory, "bird0")
        memory.retrieve("bird0", scope="c", record=False)
        clock.advance(days=31)
        memory.process_due()
        assert parts(memory) == ["episodic"]
        assert parts(memory, "e1") == ["episodic", "turn 0", "turn 1"]
        assert found(memory, "bird0") == []
        assert found(memory, "bird1")
        assert memory.get("e0", scope="c").messages == ()
        assert memory.verify().problems == ()
        assert memory.reindex() == 0
        memory.purge()
    holding = [file for file in store.rglob("*") if file.is_file() and b"bird0" in file.read_bytes()]
    assert holding == []
    assert any(b"bird1" in file.read_bytes() for file in store.rglob("*") if file.is_file())


def test_the_words_of_more_episodes_than_are_erased_together_all_go(store, embedder, clock, monkeypatch):
    monkeypatch.setattr("memory_retrievers.storage.store._ERASED_TOGETHER", 2)
    settings = IngestionSettings(keep_messages_days=30)
    with opened(store, embedder, clock=clock, ingestion=settings) as memory:
        memory.remember_many([draft(n, scope=f"c{n}") for n in range(5)])
        clock.advance(days=31)
        pipeline = inside(memory).pipeline
        assert isinstance(pipeline, IngestionPipeline)
        assert (pipeline.erase_old_messages(), pipeline.erase_old_messages()) == (5, 0)
        assert all(parts(memory, f"e{n}", scope=f"c{n}") == ["episodic"] for n in range(5))


def test_messages_are_embedded_without_their_day_by_another_embedder_too(store, embedder):
    with opened(store, HashEmbedder(64), embedder_id="small") as memory:
        memory.remember_many([draft(0)])
        memory.reembed(embedder)
        assert sorted(embedder.texts) == [
            "Ana: Item0 lies on shelf0",
            "Ben: I saw bird0 yesterday",
            "Talk0",
        ]
        assert memory.verify().problems == ()


def test_a_store_that_is_only_looked_into_is_not_brought_anywhere(store, embedder):
    with opened(store, embedder, SUMMARY) as memory:
        memory.remember_many([draft(0)])
    with (
        opened(store, embedder, read_only=True) as memory,
        pytest.raises(ConfigurationError, match="read-only"),
    ):
        memory.reindex()
