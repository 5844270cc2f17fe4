"""The command that opens a window, in a process of its own, beside processes that write."""

import contextlib
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from patience import PATIENCE, until

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

COMMAND = [str(Path(sys.executable).parent / "memory-retrievers"), "ui"]
HASHED = ["--embedder", "memory_retrievers.testing:HashEmbedder"]
SCOPE = "user/alice"

pytestmark = [pytest.mark.enable_socket, pytest.mark.embedded("it names directories and databases itself")]

WRITES = """
import sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
at = sys.argv[1]
opens = AgentMemory.connect if "://" in at else AgentMemory.open
with opens(at, embedder=HashEmbedder()) as memory:
    for number, _ in enumerate(sys.stdin):
        memory.remember_fact(scope="user/alice", id=f"n{number}", fact=f"number {number}")
        print(number, flush=True)
"""


@contextmanager
def window_into(store, *options):
    """A browser that has opened the window of a command."""
    command = [*COMMAND, *HASHED, "--store", str(store), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=\S+", process.stdout.readline())
            with httpx.Client(base_url=address.group(1), timeout=PATIENCE) as client:
                assert client.get("/api/about").status_code == 401
                assert client.get(address.group(0), follow_redirects=True).status_code == 200
                client.process = process
                yield client
        finally:
            process.kill()


class Writer:
    """Another process, which writes a fact each time it is asked for one, numbered from 0."""

    def __init__(self, process):
        self._process = process

    def ask(self, facts):
        """Have it write so many, one after the other."""
        self._process.stdin.write("\n" * facts)
        self._process.stdin.flush()

    def written(self):
        """The number of the next fact that it has written."""
        return int(self._process.stdout.readline())


@contextmanager
def writer(store):
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WRITES, str(store)], **piped) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


@pytest.fixture(params=["directory", "database"])
def store(request, tmp_path):
    if request.param == "database":
        at = request.getfixturevalue("postgres_url")
        memory = AgentMemory.connect(at, embedder=HashEmbedder())
    else:
        at = tmp_path / "store"
        memory = AgentMemory.open(at, embedder=HashEmbedder())
    with memory:
        memory.remember_fact(scope=SCOPE, id="first", fact="User lives in Lyon")
    return at


def test_what_is_written_beside_the_window_is_in_its_next_answer(store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    with window_into(store) as client, writer(store) as other:
        pulses = set()
        for _ in range(20):
            other.ask(1)
            written = other.written()
            pulses.add(client.get("/api/pulse", params={"scope": SCOPE}).json()["version"])
            found = client.get("/api/memories", params={"scope": SCOPE, "limit": 200}).json()["memories"]
            assert f"n{written}" in {each["id"] for each in found}
        assert len(pulses) == 20
        # and both change the store at once
        other.ask(100)
        for number in range(5):
            answer = client.post("/api/act", json={"action": "forget", "scope": SCOPE, "id": f"n{number}"})
            assert answer.status_code == 200, answer.text
        body = {"action": "update", "scope": SCOPE, "id": "first", "text": "User lives in Nice"}
        change = client.post("/api/act", json=body).json()["change"]
        assert client.post("/api/undo", json={"change": change}).status_code == 200
        last = [other.written() for _ in range(100)][-1]
        assert client.get("/api/memory", params={"scope": SCOPE, "id": f"n{last}"}).status_code == 200
    journals = [*tmp_path.rglob("*window-changes.jsonl")]
    assert len(journals) == 1
    assert journals[0].stat().st_mode & 0o077 == 0
    assert "Nice" not in journals[0].read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_the_window_and_leaves_a_store_that_opens(tmp_path, number):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, id="first", fact="User lives in Lyon")
    with window_into(store) as client:
        client.post("/api/act", json={"action": "pin", "scope": SCOPE, "id": "first"})
        client.process.send_signal(number)
        assert client.process.wait(PATIENCE) == 0
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        assert memory.get("first", scope=SCOPE).is_pinned
        assert memory.verify().problems == ()


@pytest.mark.parametrize("options", [[], ["--read-only"]])
def test_health_is_told_beside_others_without_disturbing_them(tmp_path, options):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, fact="User lives in Lyon")
        with window_into(store, *options) as client:
            until(lambda: client.get("/api/health").json()["sizes"], "the diagnosis")
            told = client.get("/api/health").json()
            assert [each["level"] for each in told["findings"]] == ["ok"]
            assert len(told["processes"]) == (1 if options else 2)  # who only looks holds nothing
            assert {each["name"] for each in told["sizes"]} >= {"database", "log"}
            assert told["index"]["memories"] == 1
            memory.remember_fact(scope=SCOPE, id="more", fact="User keeps bees")
            assert client.get("/api/memory", params={"scope": SCOPE, "id": "more"}).status_code == 200


def test_a_store_that_is_locked_or_replaced_meanwhile_is_told_in_a_sentence(tmp_path):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, id="first", fact="User lives in Lyon")
    with window_into(store) as client:
        (store / "memory.db").write_bytes(b"no database at all" * 1_000)
        for name in ("memory.db-wal", "memory.db-shm"):
            (store / name).unlink(missing_ok=True)
        answers = [client.get("/api/memories", params={"scope": f"user/{number}"}) for number in range(40)]
        failed = [each for each in answers if each.status_code != 200]
        assert {each.status_code for each in failed} == {503}
        for answer in failed:
            assert answer.json()["message"]


def test_a_store_that_is_kept_locked_is_told_in_a_sentence_and_still_read(tmp_path):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, id="first", fact="User lives in Lyon")
    with window_into(store) as client, contextlib.closing(sqlite3.connect(store / "memory.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = client.post("/api/act", json={"action": "pin", "scope": SCOPE, "id": "first"})
        assert (answer.status_code, answer.json()["error_type"]) == (503, "StoreLockedError")
        assert "another program" in answer.json()["message"]
        assert client.get("/api/memory", params={"scope": SCOPE, "id": "first"}).status_code == 200
        other.rollback()
        answer = client.post("/api/act", json={"action": "pin", "scope": SCOPE, "id": "first"})
        assert answer.status_code == 200


@pytest.mark.parametrize("options", [[], ["--read-only"]])
def test_a_store_that_has_become_newer_is_told_whatever_is_asked(store, tmp_path, monkeypatch, options):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    with window_into(store, *options) as client:
        assert client.get("/api/memories", params={"scope": SCOPE}).status_code == 200
        with newer(store):
            pin = {"action": "pin", "scope": SCOPE, "id": "first"}
            for answer in (
                client.get("/api/about"),
                client.get("/api/pulse", params={"scope": SCOPE}),
                client.get("/api/memories", params={"scope": SCOPE}),
                client.post("/api/search", json={"scope": SCOPE, "query": "Lyon"}),
                *([] if options else [client.post("/api/act", json=pin)]),
            ):
                assert (answer.status_code, answer.json()["error_type"]) == (409, "ConfigurationError")
                assert "newer version" in answer.json()["message"]
            until(lambda: client.get("/api/health").json()["sizes"], "the diagnosis")
            findings = client.get("/api/health").json()["findings"]
            assert {finding["level"] for finding in findings} == {"error"}
            assert any("newer version" in finding["what"] for finding in findings)
        assert client.get("/api/memories", params={"scope": SCOPE}).status_code == 200


@contextmanager
def newer(store):
    """A store of a version that there is not yet, while this lasts."""
    if isinstance(store, Path):
        ask, put = "PRAGMA user_version", "PRAGMA user_version = {}"
        connection = contextlib.closing(sqlite3.connect(store / "memory.db", isolation_level=None))
    else:
        ask, put = "SELECT version FROM schema_version", "UPDATE schema_version SET version = {}"
        connection = psycopg.connect(store, autocommit=True)
    with connection as other:
        (version,) = other.execute(ask).fetchone()
        other.execute(put.format(99))
        try:
            yield
        finally:
            other.execute(put.format(version))


def test_the_command_says_what_is_in_its_way(tmp_path):
    def refused(*arguments):
        answer = subprocess.run(
            [*COMMAND, *HASHED, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE
        )
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.count("\n") == 1
        return answer.stderr

    assert "no memory store" in refused("--store", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, fact="User lives in Lyon")
    assert "scope" in refused("--store", store, "--scope", "a//b")
    with window_into(store) as client:
        assert "cannot listen on" in refused("--store", store, "--port", client.base_url.port)
    with contextlib.closing(sqlite3.connect(store / "memory.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "newer version" in refused("--store", store)
    assert "newer version" in refused("--store", store, "--read-only")
