"""Who has a store open, as the files of its processes tell."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import types
from contextlib import closing, contextmanager

import pytest
from patience import A_LONG_TIME, PATIENCE, until

from memory_retrievers import ConfigurationError
from memory_retrievers.backends import locks
from memory_retrievers.backends.files import SHARED_GROUP, Folder
from memory_retrievers.backends.locks import FileLock, Turnstile, WriteTurn
from memory_retrievers.backends.processes import DIRECTORY, Attachment, attached

HOLD = """
import sys
from pathlib import Path
import memory_retrievers
from memory_retrievers.backends.processes import Attachment
held = Attachment(Path(sys.argv[1]), schema=7)
with held.gate():
    held.enter()
print(held.id, flush=True)
sys.stdin.read()
with held.gate():
    held.leave()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that is attached, with its id."""
    arguments = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def entered(directory, **given):
    attachment = Attachment(directory, schema=7, **given)
    with attachment.gate():
        attachment.enter()
    return attachment


def test_a_directory_that_no_process_has_written_has_none_and_is_left_as_it_is(tmp_path):
    assert attached(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_has_a_store_open_is_listed_until_it_leaves(tmp_path, other):
    process, its_id = other
    (found,) = attached(tmp_path)
    assert (found.id, found.pid, found.schema, found.is_alive) == (its_id, process.pid, 7, True)
    assert found.program == "-c"
    process.stdin.close()
    process.wait(PATIENCE)
    assert attached(tmp_path) == []


def test_a_process_that_was_killed_is_told_from_a_living_one_and_swept_away_by_the_next(tmp_path, other):
    process, its_id = other
    mine = entered(tmp_path)
    assert [each.id for each in mine.others()] == [its_id]
    assert not mine.is_gone(its_id)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    assert mine.is_gone(its_id)
    assert mine.others() == []
    assert {each.id: each.is_alive for each in attached(tmp_path)} == {its_id: False, mine.id: True}
    with mine.gate():
        mine.sweep()
    assert [each.id for each in attached(tmp_path)] == [mine.id]
    mine.close()


def test_looking_disturbs_nobody(tmp_path):
    mine = entered(tmp_path)
    for _ in range(3):
        assert [each.is_alive for each in attached(tmp_path)] == [True]
    mine.close()


def test_what_a_stranger_has_put_there_is_neither_followed_nor_believed(tmp_path):
    mine = entered(tmp_path)
    outside = tmp_path / "outside"
    outside.write_text(json.dumps({"pid": 1}))
    folder = tmp_path / DIRECTORY
    (folder / ("a" * 32)).symlink_to(outside)
    (folder / ("b" * 32)).write_text("[" * 5_000)
    (folder / ("c" * 32)).write_text('{"pid": "one", "schema": -1, "program": ' + json.dumps("x" * 1_000) + "}")
    (folder / ("d" * 32)).mkdir()
    found = {each.id[0]: each for each in attached(tmp_path) if each.id != mine.id}
    assert set(found) == {"b", "c"}
    assert (found["b"].pid, found["c"].pid, found["c"].schema, len(found["c"].program)) == (0, 0, 0, 100)
    assert mine.is_gone("../outside") is False
    mine.close()
    assert outside.exists()


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / DIRECTORY).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="link, or not a directory"):
        Attachment(tmp_path, schema=7)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="no modes here")
def test_its_files_are_for_the_owner_alone_or_for_the_group(tmp_path):
    for name, given, file_mode, directory_mode in (
        ("own", {}, 0o600, 0o700),
        ("group", {"access": SHARED_GROUP}, 0o660, 0o770),
    ):
        (tmp_path / name).mkdir()
        attachment = entered(tmp_path / name, **given)
        folder = tmp_path / name / DIRECTORY
        assert folder.stat().st_mode & 0o777 == directory_mode
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {file_mode}
        attachment.close()


def test_a_lock_is_waited_for_and_no_longer_than_asked(tmp_path):
    with Folder(tmp_path) as folder, FileLock(folder, "lock") as first, FileLock(folder, "lock") as second:
        assert first.acquire(0)
        assert not second.acquire(0)
        assert not second.acquire(0.01)
        waiting = threading.Thread(target=second.acquire, args=(PATIENCE,))
        waiting.start()
        first.release()
        waiting.join(PATIENCE)
        assert not first.acquire(0)
        second.release()
        assert first.acquire(0)


def test_who_gave_up_waiting_does_not_hold_the_lock_later(tmp_path):
    with Folder(tmp_path) as folder, FileLock(folder, "lock") as first, FileLock(folder, "lock") as second:
        assert first.acquire(0)
        assert not second.acquire(0.01)
        first.release()
        assert first.acquire(PATIENCE)


@pytest.mark.parametrize("kind", [FileLock, Turnstile])
def test_one_thread_waits_for_a_lock_time_after_time(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(locks, "_STAYS", A_LONG_TIME)
    with Folder(tmp_path) as folder, kind(folder, "lock") as first, kind(folder, "lock") as second:
        waiters = []
        queue = second._queue
        second._queue = lambda: (waiters.append(threading.get_ident()), first.release(), queue())
        for _ in range(5):
            assert first.acquire(0)
            assert second.acquire(PATIENCE)
            second.release()
        assert len(waiters) == 5
        assert len({*waiters, threading.get_ident()}) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_takes_no_lock_from_its_parent(tmp_path):
    with Folder(tmp_path) as folder, FileLock(folder, "lock") as lock, FileLock(folder, "lock") as contender:
        assert lock.acquire(0)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert not contender.acquire(0)


def test_nobody_gets_a_second_turn_while_another_waits(tmp_path):
    with Folder(tmp_path) as folder:
        first, second = Turnstile(folder, "turn"), Turnstile(folder, "turn")
        assert first.acquire(0)
        got = threading.Event()

        def wait():
            assert second.acquire(PATIENCE)
            got.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        with FileLock(folder, "turn-next") as look:
            while look.acquire(0):  # until the other one stands at the turnstile
                look.release()
        first.release()
        assert not first.acquire(0) or got.wait(PATIENCE)
        assert got.wait(PATIENCE)
        waiting.join(PATIENCE)
        second.release()
        first.close()
        second.close()


@contextmanager
def waiting_for(turn):
    """Another thread waits for a turn to write; the event is set once it has had it."""
    had = threading.Event()

    def wait():
        assert turn.acquire(PATIENCE)
        turn.release()
        had.set()

    thread = threading.Thread(target=wait)
    thread.start()
    yield had
    thread.join(PATIENCE)


def write(turn):
    assert turn.acquire(PATIENCE)
    turn.release()


@pytest.fixture
def later(monkeypatch):
    """The clock of the turns stands still; it is set forward by so many seconds."""
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: time.sleep(0.001))
    monkeypatch.setattr(locks, "time", clock)
    monkeypatch.setattr(locks, "_QUEUE", PATIENCE)

    def later(seconds):
        now[0] += seconds

    return later


@contextmanager
def contended(folder, first):
    """One writes while another of the same place has come to wait, and ends; yields the event of the other."""
    write(first)
    assert first.acquire(PATIENCE)
    with closing(WriteTurn(folder, "turn", 2)) as second, waiting_for(second) as had:
        until(first._place.is_wanted, "the other's wait")
        first.release()
        yield had
        assert had.wait(PATIENCE)


def test_who_writes_without_a_pause_writes_many_times_in_a_row_and_lets_others_in_all_the_same(tmp_path, later):
    with Folder(tmp_path) as folder, closing(WriteTurn(folder, "turn", 0)) as first, contended(folder, first) as had:
        writes, step = 0, locks._PAUSE / 2
        while (writes + 1) * step < locks._STAY:
            later(step)
            write(first)
            writes += 1
        assert writes > 10
        assert first._has_place
        assert not had.is_set()
        later(step)
        write(first)
        assert had.wait(PATIENCE)


def test_a_place_is_given_up_by_who_writes_no_more(tmp_path, later):
    with Folder(tmp_path) as folder, closing(WriteTurn(folder, "turn", 0)) as first, contended(folder, first) as had:
        assert first._has_place
        later(locks._PAUSE)
        assert had.wait(PATIENCE)
        assert not first._has_place


@pytest.mark.usefixtures("later")
def test_a_place_is_given_up_by_who_is_closed(tmp_path):
    with Folder(tmp_path) as folder, closing(WriteTurn(folder, "turn", 0)) as first, contended(folder, first) as had:
        first.close()
        first.close()
        assert had.wait(PATIENCE)


def test_nobody_keeps_a_place_that_nobody_waits_for(tmp_path):
    with Folder(tmp_path) as folder, closing(WriteTurn(folder, "turn", 0)) as first:
        for _ in range(5):
            write(first)
        with FileLock(folder, "turn-place-0") as look:
            assert look.acquire(0)


def test_the_turn_can_be_had_while_the_place_is_held_by_a_process_that_was_stopped(tmp_path):
    with Folder(tmp_path) as folder, FileLock(folder, "turn-place-0") as stopped:
        assert stopped.acquire(0)
        with closing(WriteTurn(folder, "turn", 0)) as turn:
            write(turn)
            write(turn)
            assert not turn._has_place


@pytest.mark.parametrize("number", [1, 2], ids=["of another place", "of the same place"])
def test_one_at_a_time_has_the_turn_to_write(tmp_path, number):
    with Folder(tmp_path) as folder, closing(WriteTurn(folder, "turn", 0)) as first:
        assert first.acquire(PATIENCE)
        with closing(WriteTurn(folder, "turn", number)) as second:
            assert not second.acquire(0.01)
            with waiting_for(second) as had:
                first.release()
                assert had.wait(PATIENCE)
