"""``write_through=True``: what changes here changes in the collection, and nothing else there does."""

import logging
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from patience import until

from memory_retrievers import AdoptionReport, AgentMemory, BackendError, Message, RetrievalSettings
from memory_retrievers.storage.maintenance import reindex
from memory_retrievers.testing import HashEmbedder, inside


class Interrupted:
    """A real collection behind a connection that can be cut, before a write or right after it."""

    def __init__(self, collection):
        self.collection = collection
        self.cut = None

    def __getattr__(self, name):
        reached = getattr(self.collection, name)
        if name not in {"get", "count", "upsert", "delete"}:
            return reached

        def call(*arguments, **named):
            if self.cut == "before":
                raise ConnectionError("no route to the server")
            answer = reached(*arguments, **named)
            if self.cut == "after" and name in {"upsert", "delete"}:
                raise ConnectionError("the answer was lost")
            return answer

        return call


def rows_of(collection):
    found = collection.get(include=["documents", "metadatas"])
    return {
        id: (document, metadata)
        for id, document, metadata in zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    }


def test_a_collection_that_does_not_answer_is_not_waited_for_at_every_change(collection, adopt, monkeypatch):
    cut = Interrupted(collection)
    memory, now, tried = adopt(cut, write_through=True), [100.0], []

    def metadata_of(*_):
        now[0] += 30
        tried.append(now[0])
        raise BackendError("no answer")

    # the clock of this module alone: others wait by it
    monkeypatch.setattr("memory_retrievers.storage.chroma_sync.time", SimpleNamespace(monotonic=lambda: now[0]))
    with monkeypatch.context() as patched:
        patched.setattr("memory_retrievers.storage.chroma_sync.source.metadata_of", metadata_of)
        for number in range(3):
            memory.remember_fact(scope="user/a", fact=f"Emil sings {number}", id=f"new{number}")
        assert len(tried) == 1
        now[0] += 31
        memory.forget("new0", scope="user/a")
        assert len(tried) == 2
    now[0] += 31
    memory.forget("new1", scope="user/a")
    assert "new2" in rows_of(collection)


def test_what_is_remembered_updated_and_forgotten_reaches_the_collection(collection, adopt, texts):
    memory = adopt(collection, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new", metadata={"page": 1, "nested": {"a": 1}})
    memory.update("r0", scope="user/a", fact="Alice likes rum")
    memory.forget("r1", scope="user/a")
    assert rows_of(collection) == {
        "r0": ("Alice likes rum", None),
        "r2": (texts[2], None),
        "r3": (texts[3], None),
        "new": ("Emil sings", {"page": 1}),  # Chroma cannot keep what is nested
    }
    stored = collection.get(ids=["new"], include=["embeddings"])["embeddings"][0]
    assert np.allclose(stored, HashEmbedder().embed_query("note: Emil sings"), atol=1e-6)
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=4)


def test_episodes_and_many_at_once_reach_it_too_and_a_forgotten_scope_leaves_it(collection, adopt):
    memory = adopt(collection, write_through=True)
    memory.remember_episode(scope="user/a/trip", summary="The train to Lyon was late", id="e1")
    assert rows_of(collection)["e1"] == ("The train to Lyon was late", None)
    memory.forget_scope("user/a")
    assert rows_of(collection) == {}


def test_what_the_worker_makes_reaches_it_at_once(collection, adopt):
    memory = adopt(collection, write_through=True)
    memory.start_worker()
    memory.add_messages("user/a", [Message(role="user", content=f"Train {n} to Lyon was late") for n in range(60)])
    until(lambda: len(rows_of(collection)) > 4, "an episode in the collection")
    assert all(text for text, _ in rows_of(collection).values())


def test_the_messages_of_an_episode_stay_here_when_its_row_is_written_or_followed(collection, adopt):
    memory = adopt(collection, write_through=True)
    said = [Message(role="Ana", content="The train was late"), Message(role="Ben", content="Again?")]
    memory.remember_episode(scope="user/a", summary="They spoke of trains", messages=said, id="e1")
    assert rows_of(collection)["e1"] == ("They spoke of trains", None)
    stored = collection.get(ids=["e1"], include=["embeddings"])["embeddings"][0]
    assert np.allclose(stored, HashEmbedder().embed_query("They spoke of trains"), atol=1e-6)
    vector = HashEmbedder().embed_query("They spoke of ships")
    collection.update(ids=["e1"], documents=["They spoke of ships"], embeddings=[vector])
    assert memory.sync_chroma(collection) == AdoptionReport(updated=1, unchanged=4)
    texts = {passage.part: passage.text for passage in inside(memory).ledger.passages_of("user/a", id="e1")}
    assert texts.pop("episodic") == "They spoke of ships"
    assert [text.split(" ", 3)[3] for text in texts.values()] == ["Ana: The train was late", "Ben: Again?"]
    assert memory.reindex() == 0
    assert memory.verify().problems == ()


def test_bringing_a_store_to_its_settings_lists_nothing_for_the_collection(collection, adopt, tmp_path):
    for passages, changed in (("summary", 0), ("turns", 1)):
        memory = adopt(
            collection, path=tmp_path / "store", write_through=True, retrieval=RetrievalSettings(passages=passages)
        )
        if passages == "summary":
            said = [Message(role="Ana", content="Late")]
            memory.remember_episode(scope="user/a", summary="Trains", messages=said, id="e1")
        assert reindex(inside(memory).store) == changed  # without the write that the memory's own call ends with
        assert inside(memory).adopted.unwritten(limit=10) is None
        memory.close()


def test_without_it_nothing_is_written(collection, adopt, everything):
    before = everything(collection)
    memory = adopt(collection)
    memory.remember_fact(scope="user/a", fact="Emil sings")
    memory.forget("r0", scope="user/a")
    memory.close()
    assert everything(collection) == before
    assert memory.adoption.adopted == 4


def test_metadata_keys_that_are_gone_are_gone_there_and_the_scope_key_stays(make_collection, fill, adopt):
    collection = fill(make_collection(), metadatas=[{"who": 7, "page": 1}] * 4)
    memory = adopt(collection, scope_key="who", write_through=True)
    memory.update("r0", scope="7", metadata={"chapter": 2})
    memory.remember_fact(scope="8", fact="Emil sings", id="new")
    assert rows_of(collection)["r0"][1] == {"who": "7", "chapter": 2}
    assert rows_of(collection)["r1"][1] == {"who": 7, "page": 1}
    assert rows_of(collection)["new"][1] == {"who": "8"}
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=5)


def test_the_text_goes_under_the_text_key(make_collection, fill, adopt, texts):
    collection = fill(make_collection(), metadatas=[{"body": text} for text in texts])
    memory = adopt(collection, text_key="body", write_through=True)
    memory.update("r0", scope="user/a", fact="Alice likes rum")
    assert rows_of(collection)["r0"] == (texts[0], {"body": "Alice likes rum"})
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=4)


def test_a_row_that_is_not_ours_is_never_touched_though_a_memory_has_its_id(collection, adopt, put):
    memory = adopt(collection, write_through=True)
    put(collection, "theirs", "written by somebody else")
    memory.remember_fact(scope="user/a", fact="ours", id="theirs")
    memory.remember_fact(scope="user/b", fact="ours too", id="r0")
    rows = rows_of(collection)
    assert rows["theirs"][0] == "written by somebody else"
    assert rows["r0"][0] == "Alice likes green tea"
    assert sorted(text for text, _ in rows.values() if text.startswith("ours")) == ["ours", "ours too"]
    memory.forget("theirs", scope="user/a")
    memory.forget("r0", scope="user/b")
    assert rows_of(collection).keys() == {"r0", "r1", "r2", "r3", "theirs"}


@pytest.mark.parametrize("cut", ["before", "after"])
def test_what_cannot_be_written_waits_and_is_written_once_with_the_next_change(collection, adopt, cut, caplog):
    interrupted = Interrupted(collection)
    memory = adopt(interrupted, write_through=True)
    interrupted.cut = cut
    with caplog.at_level(logging.WARNING, logger="memory_retrievers"):
        memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
        memory.forget("r0", scope="user/a")
    assert "changes wait in the store" in caplog.text
    assert "Emil" not in caplog.text
    assert memory.get("new", scope="user/a").fact == "Emil sings"
    interrupted.cut = None
    memory.update("r1", scope="user/a", fact="Bob plays go")
    assert {id: text for id, (text, _) in rows_of(collection).items()} == {
        "r1": "Bob plays go",
        "r2": "Carol is allergic to nuts",
        "r3": "Dora lives in Lyon",
        "new": "Emil sings",
    }
    assert inside(memory).adopted.unwritten(limit=10) is None


def test_what_waits_outlasts_the_process_and_goes_out_before_a_sync_forgets_it(collection, adopt, tmp_path):
    interrupted = Interrupted(collection)
    memory = adopt(interrupted, write_through=True, path=tmp_path / "store")
    interrupted.cut = "before"
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    memory.close()
    assert "new" not in rows_of(collection)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), dense="exact") as memory:
        with pytest.raises(BackendError, match="no route to the server"):
            memory.sync_chroma(interrupted)
        assert memory.sync_chroma(collection) == AdoptionReport(unchanged=5)
        assert rows_of(collection)["new"][0] == "Emil sings"
        memory.forget("new", scope="user/a")  # from here on changes reach it again
    assert "new" not in rows_of(collection)


def test_what_waits_is_written_on_close(collection, adopt):
    interrupted = Interrupted(collection)
    memory = adopt(interrupted, write_through=True)
    interrupted.cut = "before"
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    interrupted.cut = None
    memory.close()
    assert rows_of(collection)["new"][0] == "Emil sings"


def test_a_row_deleted_in_the_collection_is_forgotten_though_it_was_made_here(collection, adopt):
    memory = adopt(collection, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    collection.delete(ids=["new"])
    assert memory.sync_chroma(collection).forgotten == 1
    assert rows_of(collection).keys() == {"r0", "r1", "r2", "r3"}


def test_it_can_be_switched_off_again(collection, adopt, tmp_path):
    adopt(collection, path=tmp_path / "store", write_through=True).close()
    memory = adopt(collection, path=tmp_path / "store")
    memory.forget("r0", scope="user/a")
    assert "r0" in rows_of(collection)


def test_what_is_forgotten_while_it_is_being_written_does_not_stay_in_the_collection(collection, adopt):
    class Slow(Interrupted):
        """Before the first answer about the new id arrives, somebody else forgets the memory."""

        def __getattr__(self, name):
            if name == "get" and self.cut == "forget":
                self.cut = None
                somebody_else.start()
                until(lambda: memory.stats("user/a").facts == 4, "forgetting")
            return super().__getattr__(name)

    slow = Slow(collection)
    memory = adopt(slow, write_through=True)
    somebody_else = Thread(target=memory.forget, args=("new",), kwargs={"scope": "user/a"})
    slow.cut = "forget"
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    somebody_else.join()
    assert rows_of(collection).keys() == {"r0", "r1", "r2", "r3"}
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=4)


def test_a_memory_that_moves_moves_there_too_where_rows_name_their_scope(make_collection, fill, adopt):
    collection = fill(make_collection(), metadatas=[{"who": "a"}] * 4)
    memory = adopt(collection, scope_key="who", write_through=True)
    memory.manager.move([memory.get("r0", scope="a")], target_scope="b")
    assert rows_of(collection)["r0"][1] == {"who": "b"}
    assert memory.sync_chroma(collection) == AdoptionReport(unchanged=4)


@pytest.mark.parametrize("key", ["", "#document", "$a", "chroma:document"])
def test_a_key_that_chroma_refuses_stays_here_and_holds_up_nothing(collection, adopt, key):
    memory = adopt(collection, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="e", metadata={key: 1, "page": 2})
    memory.remember_fact(scope="user/a", fact="Fay paints", id="f")
    rows = rows_of(collection)
    assert {"e", "f"} <= rows.keys()
    assert rows["e"][1]["page"] == 2
    assert memory.get("e", scope="user/a").metadata == {key: 1, "page": 2}
