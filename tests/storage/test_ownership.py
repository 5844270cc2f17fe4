"""Any number of processes write a store; in one process all handles share it."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from kept import kept_snapshots, kept_terms
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    Message,
    RetrievalSettings,
    StoreLockedError,
    ValidationError,
)
from memory_retrievers.backends.processes import attached
from memory_retrievers.backends.sqlite import attachment
from memory_retrievers.memory import engine
from memory_retrievers.models import EpisodicDraft
from memory_retrievers.retrieval import retriever
from memory_retrievers.testing import FixedClock, HashEmbedder, ScriptedLanguageModel, inside

HOLD = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
memory.remember_fact(scope="c1", fact="User lives in Lyon", id="f1")
print("ready", flush=True)
for line in sys.stdin:
    memory.remember_fact(scope="c1", fact=line.strip())
    print("stored", flush=True)
"""

FEED = HOLD.replace("HashEmbedder())", 'HashEmbedder(), dense="chroma")').replace(
    'print("ready"', 'memory.retrieve("Lyon", scope="c1")\nprint("ready"'
)
"""The same, and it is this process that has Chroma."""

TEND = HOLD.replace('memory.remember_fact(scope="c1", fact=line.strip())', "getattr(memory, line.strip())()")

FORGET = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
sys.stdin.readline()
with AgentMemory.open(sys.argv[1], embedder=HashEmbedder()) as memory:
    memory.forget("f1", scope="c1")
"""

FORK = """
import os, sys
from memory_retrievers import AgentMemory, ConfigurationError
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
memory.remember_fact(scope="c1", fact="User lives in Lyon")
memory.retrieve("Lyon", scope="c1")
child = os.fork()
if child == 0:
    outcome = []
    for call in (
        lambda: memory.retrieve("Lyon", scope="c1"),
        lambda: memory.remember_fact(scope="c1", fact="x"),
    ):
        try:
            call()
        except ConfigurationError as error:
            outcome.append(type(error).__name__)
    memory.close()
    with AgentMemory.open(sys.argv[1], embedder=HashEmbedder()) as own:
        own.remember_fact(scope="c1", fact="User has left Lyon")
        outcome.append(str(len(own.retrieve("Lyon", scope="c1").semantic)))
    print(*outcome, flush=True)
    os._exit(0)
os.waitpid(child, 0)
memory.remember_fact(scope="c1", fact="User likes Lyon")
print(len(memory.retrieve("Lyon", scope="c1").semantic), flush=True)
memory.close()
"""

FORK_WHILE_OPENING = """
import os, signal, sys, threading, time
from pathlib import Path
from memory_retrievers import AgentMemory
from memory_retrievers.memory import engine
from memory_retrievers.testing import HashEmbedder
in_file = engine.in_file
def slowly(*given):
    begun.set()
    time.sleep(0.5)
    raise SystemExit  # ends the thread
engine.in_file = slowly
begun = threading.Event()
opening = threading.Thread(target=lambda: AgentMemory.open(sys.argv[1], embedder=HashEmbedder()))
opening.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    engine.in_file = in_file
    AgentMemory.open(sys.argv[2], embedder=HashEmbedder()).close()
    os._exit(0)
_, status = os.waitpid(child, 0)
opening.join()
sys.exit(status != 0)
"""


DROP_IN_DAEMON = """
import sys, threading
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

def drop():
    memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
    memory.start_worker()
    memory.remember_episode(scope="u", summary="They met.")
    del memory
    dropped.set()

dropped = threading.Event()
threading.Thread(target=drop, daemon=True).start()
dropped.wait()
"""


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def holder(store):
    """Another process that has the store open."""
    arguments = [sys.executable, "-c", HOLD, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def opened(store, **given):
    return AgentMemory.open(store, embedder=HashEmbedder(), **given)


def test_a_store_that_another_process_writes_is_written_here_too_and_each_finds_what_the_other_wrote(store, holder):
    with opened(store) as memory:
        assert {process.pid for process in attached(store)} == {holder.pid, os.getpid()}
        assert len(memory.retrieve("Lyon", scope="c1").semantic) == 1
        for number in range(3):
            memory.remember_fact(scope="c1", fact=f"User has seen Lyon {number} times")
            holder.stdin.write(f"User likes Lyon, place {number}\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "stored\n"
            assert len(memory.retrieve("Lyon", scope="c1", semantic_limit=20).semantic) == 3 + 2 * number
    assert [process.pid for process in attached(store)] == [holder.pid]


def test_a_purge_beside_a_process_that_has_chroma_is_refused_by_name_and_loses_nothing(store):
    arguments = [sys.executable, "-c", FEED, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as feeder:
        assert feeder.stdout.readline() == "ready\n"
        with opened(store, dense="chroma") as memory:
            memory.remember_fact(scope="c1", fact="The marker is Xyzzyplugh", id="f2")
            memory.forget("f2", scope="c1")
            with pytest.raises(StoreLockedError, match="call purge there, or end it first"):
                memory.purge()
            feeder.stdin.write("User likes Lyon\n")
            feeder.stdin.flush()
            assert feeder.stdout.readline() == "stored\n"
            memory.remember_fact(scope="c1", fact="User has left Lyon")
            assert len(memory.retrieve("Lyon", scope="c1").semantic) == 3
            feeder.communicate(timeout=PATIENCE)
            memory.purge()
            assert len(memory.retrieve("Lyon", scope="c1").semantic) == 3
            assert memory.verify().ok
    assert [file for file in store.rglob("*") if file.is_file() and b"Xyzzyplugh" in file.read_bytes()] == []


@pytest.mark.parametrize(("what", "damaged"), [("purge", False), ("verify", False), ("verify", True)])
def test_a_process_that_has_once_purged_or_verified_a_store_keeps_no_other_from_it(store, what, damaged):
    with opened(store, dense="chroma") as memory:
        memory.remember_fact(scope="c1", fact="User likes Lyon")
        memory.retrieve("Lyon", scope="c1")
        memory.rebuild("dense")
    if damaged:
        with (store / "chroma" / "chroma.sqlite3").open("r+b") as file:
            file.write(b"garbage" * 3_000)
    arguments = [sys.executable, "-c", TEND, str(store)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        other.stdin.write(f"{what}\n")
        other.stdin.flush()
        assert other.stdout.readline() == "stored\n"
        with opened(store, dense="chroma") as memory:
            memory.purge()
            assert memory.verify().notes == ()
            assert memory.verify().ok


def test_what_another_process_forgets_leaves_the_memory_of_this_one(store):
    with (
        opened(store) as memory,
        subprocess.Popen(
            [sys.executable, "-c", FORGET, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        memory.remember_fact(scope="c1", fact="The code is zanzibar", id="f1")
        memory.remember_fact(scope="c1", fact="The weather is fine", id="f2")
        assert len(memory.retrieve("zanzibar weather", scope="c1").semantic) == 2
        other.communicate("\n", timeout=2 * PATIENCE)
        assert [hit.memory.id for hit in memory.retrieve("zanzibar weather", scope="c1").semantic] == ["f2"]
        assert sum(len(snapshot) for snapshot in kept_snapshots(inside(memory).ledger)) == 1


def test_what_another_process_forgets_leaves_the_memory_of_one_that_searches_no_more(store):
    with (
        opened(store) as memory,
        subprocess.Popen(
            [sys.executable, "-c", FORGET, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        memory.remember_fact(scope="c1", fact="The code is zanzibar", id="f1")
        memory.remember_fact(scope="c2", fact="The weather is fine", id="f2")
        for scope in ("c1", "c2"):
            memory.retrieve("zanzibar weather", scope=scope)
        memory.remember_fact(scope="c2", fact="The weather is fine again", id="f3")
        assert "zanzibar" in kept_terms(inside(memory))
        other.communicate("\n", timeout=2 * PATIENCE)
        until(lambda: "zanzibar" not in kept_terms(inside(memory)), "the other process's forgetting")
        assert "weather" in kept_terms(inside(memory))  # what this process has changed itself stays


def test_a_store_whose_owner_was_killed_can_be_opened_and_holds_what_was_acknowledged(store, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with opened(store) as memory:
        assert memory.get("f1", scope="c1").fact == "User lives in Lyon"


def test_one_can_look_into_a_store_beside_its_owner_and_sees_what_it_writes(store, holder):
    with opened(store, read_only=True) as memory:
        assert len(memory.retrieve("Lyon", scope="c1").semantic) == 1
        holder.stdin.write("User likes Lyon\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "stored\n"
        assert len(memory.retrieve("Lyon", scope="c1").semantic) == 2


def test_a_read_only_memory_changes_nothing(store):
    with opened(store) as memory:
        memory.remember_episode(scope="c1", summary="The user moved to Lyon.")
    with opened(store, read_only=True) as memory:
        assert len(memory.retrieve("Lyon", scope="c1").episodic) == 1
        assert memory.pending_reviews("c1") == []
        for change in (
            lambda: memory.remember_fact(scope="c1", fact="x"),
            lambda: memory.remember_many([]) or memory.remember_episode(scope="c1", summary="x"),
        ):
            with pytest.raises(ConfigurationError, match="read-only"):
                change()
    with opened(store) as memory:
        assert memory.stats().model_dump() == {
            "episodes": 1,
            "facts": 0,
            "invalidated_facts": 0,
            "pending_reviews": 0,
            "queued_messages": 0,
        }


def test_looking_makes_no_store(store):
    with pytest.raises(ConfigurationError, match="there is no memory store"):
        opened(store, read_only=True)
    assert not store.exists()


def test_opened_twice_both_handles_share_the_store_until_the_last_is_closed(store):
    first, second = opened(store), opened(store)
    first.remember_fact(scope="c1", fact="User lives in Lyon")
    first.close()
    first.close()
    with pytest.raises(ConfigurationError, match="closed"):
        first.scopes()
    assert len(second.retrieve("Lyon", scope="c1").semantic) == 1
    second.close()
    opened(store, retrieval=RetrievalSettings.reference()).close()


@pytest.mark.parametrize(
    ("which", "other"),
    [
        ("retrieval", {"retrieval": RetrievalSettings.reference()}),
        ("keyword", {"keyword": "rank_bm25"}),
        ("embedder", {"embedder_id": "another"}),
        ("language_model", {"language_model": ScriptedLanguageModel([])}),
        ("before_store, shared_group", {"before_store": lambda each: each, "shared_group": True}),
    ],
)
def test_opened_twice_with_other_settings_is_refused_and_they_are_named(store, which, other):
    with opened(store) as memory:
        with pytest.raises(ConfigurationError, match=rf"other settings \({which}\): close it first"):
            opened(store, **other)
        assert memory.scopes() == []


def test_the_same_clock_is_shared_and_another_is_not(store, clock):
    with opened(store, clock=clock), opened(store, clock=clock):
        with pytest.raises(ConfigurationError, match="other settings"):
            opened(store, clock=FixedClock(clock.now()))
        with pytest.raises(ConfigurationError, match="other settings"):
            opened(store)


def test_a_handle_that_is_dropped_lets_go_of_its_share(store):
    opened(store).remember_fact(scope="c1", fact="User lives in Lyon")
    gc.collect()
    with opened(store, retrieval=RetrievalSettings.reference()) as memory:  # nobody has it open any more
        assert memory.scopes() == ["c1"]


def test_a_dropped_handle_waits_for_nobody_who_opens_a_store(store):
    handles = [opened(store)]
    registered, dropped = threading.Event(), threading.Event()

    def look():
        with attachment.opening:  # as it is while a store is looked into, when garbage may be collected
            assert registered.wait(PATIENCE)
            handles.clear()
            dropped.set()

    def register():
        with engine._registry:  # as it is while a store is opened, which then waits for the other one
            registered.set()
            with attachment.opening:
                pass

    threads = [threading.Thread(target=each, daemon=True) for each in (look, register)]
    for each in threads:
        each.start()
    assert dropped.wait(PATIENCE)
    for each in threads:
        each.join(PATIENCE)
    with opened(store, retrieval=RetrievalSettings.reference()) as memory:
        assert memory.scopes() == []


@pytest.mark.parametrize("last", ["dropped", "closed"])
def test_a_handle_that_its_own_worker_drops_lets_the_worker_end(store, last):
    handles, done = [], threading.Event()

    def drop(record):
        if isinstance(record, EpisodicDraft):
            if last == "closed":
                handles[0].close()
            handles.clear()
            with pytest.raises(ConfigurationError, match="being closed"):
                opened(store)
            done.set()
        return record

    handles.append(opened(store, before_store=drop))
    handles[0].add_messages("c1", [Message(role="user", content=f"Message {n}") for n in range(40)])
    handles[0].start_worker()
    assert done.wait(PATIENCE)
    with opened(store) as memory:
        assert memory.stats().episodes == 1


def test_a_handle_dropped_by_who_holds_a_lock_that_the_worker_waits_for_keeps_neither(store):
    lock, working, dropped = threading.Lock(), threading.Event(), threading.Event()

    def locked(record):
        if isinstance(record, EpisodicDraft):
            working.set()
            with lock:
                pass
        return record

    def drop():
        with lock:
            assert working.wait(PATIENCE)
            handles.clear()
        dropped.set()

    handles = [opened(store, before_store=locked)]
    handles[0].add_messages("c1", [Message(role="user", content=f"Message {n}") for n in range(40)])
    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    until(lock.locked, "the lock")
    handles[0].start_worker()
    assert dropped.wait(PATIENCE)
    with opened(store) as memory:
        assert memory.stats().episodes == 1


def test_a_handle_dropped_in_a_daemon_thread_is_closed_before_the_program_ends(store):
    subprocess.run([sys.executable, "-c", DROP_IN_DAEMON, str(store)], check=True, timeout=PATIENCE)
    assert sorted(file.name for file in store.iterdir() if file.name.startswith("memory.db")) == [
        "memory.db",
        "memory.db-sum",
    ]


def test_a_worker_may_open_and_close_another_store_for_each_episode(store, tmp_path):
    done = threading.Event()

    def copy(record):
        if isinstance(record, EpisodicDraft):
            for number in range(3):
                with opened(tmp_path / "copy") as memory:
                    memory.remember_fact(scope="c1", fact=f"Fact {number}")
                shutil.copytree(tmp_path / "copy", tmp_path / f"copy{number}")
            done.set()
        return record

    with opened(store, before_store=copy) as memory:
        memory.add_messages("c1", [Message(role="user", content=f"Message {n}") for n in range(40)])
        memory.start_worker()
        assert done.wait(PATIENCE)
    with opened(store) as memory:
        assert memory.stats().episodes == 1


def test_a_handle_dropped_in_the_thread_that_writes_what_was_asked_lets_that_be_written(store, monkeypatch):
    monkeypatch.setattr(retriever, "FLUSH_SECONDS", 0.01)
    handles, done = [opened(store)], threading.Event()
    handles[0].remember_episode(scope="c1", summary="Lyon")
    inner = inside(handles[0]).store
    write = inner.add_pending_reviews

    def collected(reviews):
        handles.clear()
        done.set()
        write(reviews)

    monkeypatch.setattr(inner, "add_pending_reviews", collected)
    handles[0].retrieve("Lyon", scope="c1")
    assert done.wait(PATIENCE)
    with opened(store) as memory:
        assert len(memory.pending_reviews("c1")) == 1


def test_handles_that_come_and_go_in_many_threads_close_a_store_once_and_never_in_use(store):
    def come_and_go(number):
        for turn in range(15):
            memory = opened(store)
            memory.remember_fact(scope="c1", fact=f"Fact {number} {turn}", id=f"{number}-{turn}")
            del memory

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(come_and_go, range(8)))
    assert store.resolve() not in engine._live
    with opened(store) as memory:
        assert memory.stats().facts == 120


def test_a_directory_whose_handle_was_dropped_can_be_deleted_and_made_again_at_once(store):
    for number in range(5):
        memory = opened(store)
        memory.remember_fact(scope=f"c{number}", fact="User lives in Lyon")
        assert memory.scopes() == [f"c{number}"]
        del memory
        shutil.rmtree(store)


def test_a_store_that_cannot_be_opened_is_not_left_locked(store):
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="x")
    with pytest.raises(Exception, match="another"):
        opened(store, embedder_id="another")
    opened(store).close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_handle_carried_over_a_fork_is_refused_a_new_one_works_and_the_parent_is_unharmed(store):
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(store)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.splitlines() == ["ConfigurationError ConfigurationError 2", "3"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_a_thread_opens_a_store_can_open_another(store, tmp_path):
    store.mkdir()
    arguments = [sys.executable, "-c", FORK_WHILE_OPENING, str(store), str(tmp_path / "other")]
    subprocess.run(arguments, capture_output=True, check=True, timeout=2 * PATIENCE)


def test_what_waits_is_written_when_the_program_ends_without_closing(store):
    code = HOLD.replace(
        "for line in sys.stdin:",
        "memory.remember_episode(scope='c1', summary='Lyon')\nmemory.retrieve('Lyon', scope='c1')\nsys.exit()\nfor line in ():",
    )
    subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, check=True, timeout=2 * PATIENCE)
    with opened(store) as memory:
        assert len(memory.pending_reviews("c1")) == 1


def test_a_store_whose_worker_takes_long_to_end_holds_up_no_other_store(store, tmp_path):
    working, may_end = threading.Event(), threading.Event()

    def slow(record):
        if isinstance(record, EpisodicDraft):
            working.set()
            assert may_end.wait(2 * PATIENCE)
        return record

    memory = opened(store, before_store=slow)
    memory.add_messages("c1", [Message(role="user", content=f"Message {n}") for n in range(40)])
    memory.start_worker()
    assert working.wait(PATIENCE)
    with ThreadPoolExecutor() as threads:
        closing = threads.submit(memory.close)
        try:
            threads.submit(lambda: opened(tmp_path / "other").close()).result(timeout=PATIENCE)
            again = threads.submit(opened, store)
            assert not closing.done()
            assert not again.done()
        finally:
            may_end.set()
        closing.result(timeout=PATIENCE)
        again.result(timeout=PATIENCE).close()


def test_a_store_that_cannot_write_what_waits_is_closed_all_the_same(store, monkeypatch):
    monkeypatch.setattr(retriever, "FLUSH_SECONDS", A_LONG_TIME)  # it waits until the end
    memory = opened(store)
    memory.remember_episode(scope="c1", summary="The user moved to Lyon.")
    database = inside(memory).ledger.database
    with database.write() as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON pending_reviews BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
    memory.retrieve("Lyon", scope="c1")
    with pytest.raises(ValidationError, match="the disk is full"):
        memory.close()
    with pytest.raises(ConfigurationError, match="closed"), database.read():
        pass
    with opened(store) as memory:
        assert memory.stats().episodes == 1
