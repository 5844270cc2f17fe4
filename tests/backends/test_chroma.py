"""Chroma as a projection: the contract in a directory, in memory and behind a server, and what is particular to each."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from contracts import VectorProjectionContract
from contracts.projection import _passage
from contracts.samples import facts_in

from memory_retrievers import BackendError, IndexOutOfStepError
from memory_retrievers.backends.chroma import Feeder
from memory_retrievers.backends.chroma.collection import ChromaProjection
from memory_retrievers.backends.sql.ledger import SQLLedger
from memory_retrievers.backends.sqlite import Database

EAST = np.eye(8, dtype=np.float32)[0]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "chroma"


class TestInADirectory(VectorProjectionContract):
    @pytest.fixture
    def projection(self, directory):
        projection = ChromaProjection(directory)
        yield projection
        projection.close()


class TestInMemory(VectorProjectionContract):
    @pytest.fixture
    def projection(self):
        projection = ChromaProjection()
        yield projection
        projection.close()


class TestBehindAServer(VectorProjectionContract):
    @pytest.fixture
    def projection(self, chroma_client):
        projection = ChromaProjection(client=chroma_client)
        yield projection
        for generation in ("one", "two"):
            projection.destroy(generation)
        projection.close()


def filled(directory, number=50):
    projection = ChromaProjection(directory)
    projection.create("one")
    projection.put([_passage(each) for each in range(1, number + 1)])
    return projection


def test_a_directory_is_found_again_by_its_name_only(directory):
    filled(directory).close()
    again = ChromaProjection(directory)
    assert not again.open("two")
    assert again.open("one")
    assert again.count() == 50
    assert again.search(EAST, facts_in(), limit=2) == [1, 2]
    again.close()


def test_a_collection_on_a_server_is_found_again_by_its_name_only(chroma_client):
    first = ChromaProjection(client=chroma_client)
    first.create("lasting")
    first.put([_passage(1)])
    first.close()
    again = ChromaProjection(client=chroma_client)
    assert not again.open("other")
    assert again.open("lasting")
    assert again.ids() == [1]
    again.destroy("lasting")
    assert not again.open("lasting")


def test_any_chroma_tool_can_read_the_collection(directory):
    filled(directory, 1).close()
    client = chromadb.PersistentClient(directory, settings=Settings(anonymized_telemetry=False))
    assert client.count_collections() == 1
    collection = client.get_collection("memories", embedding_function=None)
    assert collection.configuration_json["hnsw"]["space"] == "cosine"
    (row,) = collection.get(include=["metadatas"])["metadatas"]
    assert row == {
        "memory_id": "m1",
        "kind": "semantic",
        "part": "semantic",
        "origin": "api",
        "created_at": 1772366400,
        "category": "note",
        "tier": "long_term",
        "expires_at": 2**53,
        "scope": "user/1",
        "s1": "user",
        "s2": "user/1",
    }
    assert collection.get(ids=["p1"])["documents"] == ["The user likes tea"]
    client.close()


def test_nothing_is_made_by_looking(directory):
    projection = ChromaProjection(directory)
    assert not projection.open("one")
    assert not directory.exists()
    projection.close()


def test_destroying_leaves_no_file(directory):
    projection = filled(directory)
    projection.destroy("one")
    assert not directory.exists()
    assert list(directory.parent.iterdir()) == []


def test_a_directory_that_somebody_else_has_open_is_emptied_in_place(directory):
    projection = filled(directory)
    other = chromadb.PersistentClient(directory, settings=Settings(anonymized_telemetry=False))
    projection.destroy("one")
    assert other.list_collections() == []
    projection.create("two")
    projection.put([_passage(1)])
    assert projection.ids() == [1]
    projection.close()
    other.close()


def test_the_settings_of_a_client_in_the_same_place_are_taken_over(directory):
    other = chromadb.PersistentClient(directory)  # with telemetry switched on, which ours is not
    projection = filled(directory, 1)
    assert projection.count() == 1
    projection.close()
    other.close()


def test_a_row_of_somebody_else_is_noticed(directory):
    projection = filled(directory, 1)
    projection._collection.add(ids=["stranger"], embeddings=[EAST], documents=["x"], metadatas=[{"kind": "x"}])
    with pytest.raises(IndexOutOfStepError, match="not written from here"):
        projection.ids()
    projection.close()


def test_a_closed_projection_says_so(directory):
    projection = filled(directory, 1)
    projection.close()
    with pytest.raises(BackendError, match="closed"):
        projection.count()


def test_a_server_that_is_gone_is_unreachable_and_not_damaged(tmp_path, run_chroma):
    with run_chroma(tmp_path) as client:
        projection = ChromaProjection(client=client)
        projection.create("one")
    with pytest.raises(BackendError) as raised:
        projection.count()
    assert not isinstance(raised.value, IndexOutOfStepError)


def test_a_collection_that_somebody_has_deleted_is_to_be_made_anew(chroma_client):
    projection = ChromaProjection(client=chroma_client)
    projection.create("deleted")
    chroma_client.delete_collection("memories-deleted")
    with pytest.raises(IndexOutOfStepError):
        projection.count()


DIES_IN_CHROMA = """
import os, signal, sys
from pathlib import Path
from memory_retrievers.backends.chroma.collection import ChromaProjection
projection = ChromaProjection(Path(sys.argv[1]))
assert projection.open("one")
with projection._wrapped("search"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_deaths_in_a_row_in_native_code_are_damage(directory):
    filled(directory).close()
    for _ in range(2):
        again = ChromaProjection(directory)
        assert again.open("one")
        again.close()
        subprocess.run([sys.executable, "-c", DIES_IN_CHROMA, directory], check=False)
    again = ChromaProjection(directory)
    with pytest.raises(IndexOutOfStepError, match="twice in a row"):
        again.open("one")
    again.destroy("one")
    again.create("two")
    assert again.count() == 0
    again.close()
    assert [file.name for file in directory.parent.iterdir()] == ["chroma"]


def test_a_death_with_a_search_that_ended_well_behind_it_is_none(directory):
    filled(directory).close()
    for _ in range(3):
        subprocess.run([sys.executable, "-c", DIES_IN_CHROMA, directory], check=False)
        again = ChromaProjection(directory)
        assert again.open("one")
        assert again.search(EAST, None, limit=1) == [1]
        again.close()


ROOM = ("data_level0.bin", "length.bin")


def texts_and_vectors(projection, number):
    """Give passages to a projection whose process has just let go of much text, as any has that has worked for a while."""
    for start in range(1, number + 1, 25):
        said = [f"xyzzy-marker {n} " * 400 for n in range(5_000)]
        del said
        projection.put([_passage(each) for each in range(start, start + 25)])


def test_what_the_process_had_in_memory_is_not_in_the_room_that_chroma_makes_for_more(directory):
    projection = ChromaProjection(directory)
    projection.create("one")
    texts_and_vectors(projection, 75)
    made = [file for name in ROOM for file in directory.rglob(name)]
    assert len(made) == len(ROOM)
    assert [file.name for file in made if any(file.read_bytes())] == []  # no vector is in them yet
    projection.close()


def test_what_was_left_in_that_room_before_goes_when_it_is_opened_and_no_vector_with_it(directory):
    number = 1_025
    filled(directory, number).close()
    made = [file for name in ROOM for file in directory.rglob(name)]
    before = {file: file.read_bytes() for file in made}
    for file, held in before.items():
        assert held
        file.write_bytes(held + b"xyzzy-marker " * 9)
    again = ChromaProjection(directory)
    assert again.open("one")
    assert {file: file.read_bytes().rstrip(b"\0") for file in made} == {
        file: held.rstrip(b"\0") for file, held in before.items()
    }
    assert again.count() == number
    assert again.differences([_passage(each) for each in range(1, number + 1)]) == []
    assert set(again.search(EAST, None, limit=number)) <= set(range(1, number + 1))
    again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_where_the_file_system_has_no_locks_no_file_stays_open(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    ledger = SQLLedger(Database(tmp_path / "memory.db"))
    feeder = Feeder(ledger.outbox, ChromaProjection(tmp_path / "chroma"))
    monkeypatch.setattr("fcntl.flock", no_locks)
    own = Path("/proc/self/fd")
    before = len([*own.iterdir()])
    for _ in range(20):
        with pytest.raises(BackendError, match="No locks available"):
            feeder.catch_up()
    assert len([*own.iterdir()]) <= before
    monkeypatch.undo()
    feeder.catch_up()
    assert feeder.ready
    feeder.close()
    ledger.close()
