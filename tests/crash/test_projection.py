"""Killed while Chroma is fed, made anew or thrown away, a process leaves nothing that the next one does not put right."""

import signal
import threading
import time

import pytest
from chromadb.api.rust import RustBindingsAPI
from crash.writer import MANY, opened
from patience import PATIENCE

KILLED = -signal.SIGKILL


@pytest.fixture
def dense():
    return "chroma"


@pytest.mark.parametrize("point", ["before:upsert:9", "after:upsert:9", "before:delete:3", "after:delete:3"])
def test_killed_beside_chroma_the_ledger_has_it_told_again(write, point):
    assert write("--steps", 500, "--fault", point).exitcode == KILLED
    assert write("--steps", 20).exitcode == 0


@pytest.mark.parametrize("point", ["after:upsert:1", "before:upsert:2", "after:upsert:2"])
def test_killed_between_the_batches_of_a_long_feed_the_rest_is_fed_later(write, journal, point):
    assert write("--act", "fill", "--dense", "exact").exitcode == 0
    # the searches of its report come first, and feed
    died = write("--fault", point, "--live", "opening")
    assert (died.exitcode, "problems" in died.said) == (KILLED, False)
    assert write().exitcode == 0
    assert len(journal.acknowledged) == MANY


@pytest.mark.parametrize(
    "point",
    [
        "before:rmtree:1",
        "after:rmtree:1",
        "before:create_collection:1",
        "after:create_collection:1",
        "after:UPDATE projection SET generation:1",
        "before:upsert:1",
        "after:upsert:1",
    ],
)
def test_killed_while_chroma_is_made_anew_it_is_made_anew_again(write, point):
    killed = write("--steps", 60, "--act", "rebuild dense", "--fault", point, "--live", "act")
    assert killed.exitcode == KILLED
    assert write("--steps", 20).exitcode == 0


@pytest.mark.parametrize(
    ("point", "purged_as"),
    [
        ("after:COMMIT:2", "auto"),
        ("before:rmtree:1", "chroma"),
        ("after:rmtree:1", "auto"),
        ("before:rmtree:1", "exact"),
    ],
)
def test_what_a_killed_purge_has_left_goes_with_the_next(write, store, journal, point, purged_as):
    assert write("--steps", 30).exitcode == 0
    words = [(each.get("summary") or each["fact"]).split()[-1].encode() for each in journal.acknowledged.values()]
    assert write("--act", "clear").exitcode == 0
    assert holding(store, words)
    assert write("--act", "purge", "--fault", point, "--live", "act").exitcode == KILLED
    assert write("--act", "purge", "--dense", purged_as).exitcode == 0
    assert holding(store, words) == []


def holding(store, words):
    files = {file.name: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    return sorted(name for name, content in files.items() if any(word in content for word in words))


def test_a_store_is_verified_while_chroma_is_being_opened_in_the_background(write, store, monkeypatch):
    assert write("--steps", 60).exitcode == 0
    opening, start = threading.Event(), RustBindingsAPI.start

    def slow_start(api):
        opening.set()
        time.sleep(0.3)
        start(api)

    monkeypatch.setattr(RustBindingsAPI, "start", slow_start)
    with opened(store, dense="auto") as memory:
        memory.retrieve("tea", scope="team", record=False)
        assert opening.wait(PATIENCE)
        assert memory.verify().problems == ()
