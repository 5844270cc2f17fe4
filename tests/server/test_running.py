"""A real server in a process of its own."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from patience import PATIENCE, until
from ports import free_port
from starlette.testclient import TestClient

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.server import ServerSettings, create_app, serve
from memory_retrievers.testing import HashEmbedder, inside

COMMAND = [str(Path(sys.executable).parent / "memory-retrievers"), "serve", "--port", "0"]
HASHED = ["--embedder", "memory_retrievers.testing:HashEmbedder"]


@pytest.mark.enable_socket
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_serves_until_a_signal_and_leaves_a_store_that_opens(tmp_path, number):
    store = tmp_path / "store"
    with subprocess.Popen([*COMMAND, *HASHED, "--store", str(store)], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:
                body = {"conversation_id": "user/alice", "facts": [{"id": "f1", "fact": "User lives in Lyon"}]}
                assert client.post("/api/v0/remember", json=body).status_code == 200
                message = {"role": "user", "content": "Hello."}
                queued = {"conversation_id": "user/alice", "message": message}
                assert client.post("/api/v0/add_message", json=queued).json()["accepted"] == 1
                asked = {"conversation_id": "user/alice", "query": "Lyon"}
                assert "User lives in Lyon" in client.post("/api/v0/retrieve_memory", json=asked).text
            process.send_signal(number)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        assert memory.get("f1", scope="user/alice").fact == "User lives in Lyon"
        assert memory.stats("user/alice").queued_messages == 1
        assert memory.verify().problems == ()


@pytest.mark.enable_socket
def test_what_a_command_stores_or_forgets_beside_a_server_the_server_knows_at_once(tmp_path):
    store, command = ["--store", str(tmp_path / "store")], COMMAND[0]
    alice = {"conversation_id": "user/alice"}
    with subprocess.Popen([*COMMAND, *HASHED, *store], stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:

                def found(query):
                    return client.post("/api/v0/retrieve_memory", json=alice | {"query": query}).text

                def run(*arguments):
                    return subprocess.run(
                        [command, *arguments, *store], capture_output=True, text=True, check=True, timeout=PATIENCE
                    ).stdout.strip()

                assert "Lyon" not in found("Where does Alice live?")
                fact = run("remember", "--scope", "user/alice", "--fact", "Alice lives in Lyon", *HASHED)
                assert "Alice lives in Lyon" in found("Where does Alice live?")
                body = alice | {"facts": [{"id": "f1", "fact": "Alice keeps bees"}]}
                assert client.post("/api/v0/remember", json=body).status_code == 200
                assert "Alice keeps bees" in run("retrieve", "bees", "--scope", "user/alice", *HASHED)
                run("forget", fact, "--scope", "user/alice")
                run("purge")
                assert "Lyon" not in found("Where does Alice live?")
                assert "Alice keeps bees" in found("bees")
                (user,) = json.loads(run("doctor", "--json"))["users"]
                assert (user["pid"], user["program"]) == (process.pid, "memory-retrievers")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_a_client_of_mcp_that_reads_no_more_ends_it_quietly(tmp_path):
    pytest.importorskip("mcp")
    command = [COMMAND[0], "mcp", *HASHED, "--scope", "user/alice", "--store", str(tmp_path / "store")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdout.close()
        _, told = process.communicate('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n', timeout=PATIENCE)
    assert (process.returncode, told) == (1, "")


@pytest.mark.enable_socket
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
@pytest.mark.parametrize("command", [["serve"], ["mcp", "--http", "--scope", "user/alice"]])
def test_a_server_that_cannot_say_where_it_listens_serves_all_the_same(tmp_path, command, output):
    port = free_port()
    options = [*HASHED, "--port", str(port), "--store", str(tmp_path / "store")]
    shell = ["/bin/sh", "-c", f'exec "$@" {output}', "sh"]
    with subprocess.Popen([*shell, COMMAND[0], *command, *options]) as process:
        try:

            def answer():
                assert process.poll() is None
                with contextlib.suppress(httpx.TransportError):
                    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE).status_code

            assert until(answer, "an answer") == (200 if command == ["serve"] else 404)
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        finally:
            process.kill()


AT_ONCE = """
import os, sys
from memory_retrievers import AgentMemory
from memory_retrievers.server import ServerSettings, serve
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
serve(memory, settings=ServerSettings(port=0), announce=lambda _: os.kill(os.getpid(), int(sys.argv[2])))
print("ended")
"""


@pytest.mark.enable_socket
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_moment_after_the_announcement_ends_a_server(tmp_path, number):
    command = [sys.executable, "-c", AT_ONCE, str(tmp_path / "store"), str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        assert memory.verify().ok


@pytest.mark.enable_socket
def test_a_port_that_is_taken_is_said_in_one_sentence_and_the_memory_is_closed():
    memory = AgentMemory.in_memory(embedder=HashEmbedder())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on .* port {port}"):
            serve(memory, settings=ServerSettings(port=port))
    with pytest.raises(ConfigurationError, match="closed"):
        memory.stats()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host", "0.0.0.0"], "give tokens"),  # noqa: S104 - refused
        (["--tokens", "nowhere.txt"], "cannot be read"),
    ],
)
def test_the_command_refuses_what_is_unsafe_before_it_makes_a_store(tmp_path, arguments, complaint):
    done = subprocess.run(
        [*COMMAND, "--store", str(tmp_path / "store"), *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, complaint in done.stderr) == (2, True)
    assert not (tmp_path / "store").exists()


SLOW = """
import os, pathlib, time
from memory_retrievers.testing import HashEmbedder

class SlowEmbedder(HashEmbedder):
    def embed_documents(self, texts):
        if len(texts) > 100 and not os.path.exists(os.environ["BEGUN"]):
            pathlib.Path(os.environ["BEGUN"]).touch()
            while not os.path.exists(os.environ["GO_ON"]):
                time.sleep(0.01)
        return super().embed_documents(texts)
"""


def refuses(address):
    """Whether a server takes no more connections. A request would tell less: of a server that is just ending it may be
    refused, cut off, or closed before an answer."""
    url = httpx.URL(address)
    try:
        socket.create_connection((url.host, url.port), PATIENCE).close()
    except ConnectionError:
        return True
    return False


@pytest.mark.enable_socket
def test_a_write_that_is_under_way_is_finished_before_the_server_ends(tmp_path):
    store = tmp_path / "store"
    (tmp_path / "slow_embedder.py").write_text(SLOW, "utf-8")
    command = [*COMMAND, "--embedder", "slow_embedder:SlowEmbedder", "--embedder-id", "slow", "--store", str(store)]
    begun = tmp_path / "begun"
    go_on = tmp_path / "go on"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "BEGUN": str(begun), "GO_ON": str(go_on)}
    facts = [{"id": f"f{number}", "fact": f"Fact number {number}"} for number in range(256)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process,
        ThreadPoolExecutor(1) as executor,
    ):
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline()).group()
            body = {"conversation_id": "user/alice", "facts": facts}
            answer = executor.submit(httpx.post, f"{address}/api/v0/remember", json=body, timeout=PATIENCE)
            until(lambda: begun.exists() or answer.done(), "the write")
            assert not answer.done(), "it was refused"
            process.send_signal(signal.SIGTERM)
            until(lambda: refuses(address), "the server's end")
            go_on.touch()
            assert answer.result(PATIENCE).status_code == 200
            assert process.wait(PATIENCE) == 0
        finally:
            go_on.touch()
            process.kill()
    with AgentMemory.open(store, embedder=HashEmbedder(), embedder_id="slow") as memory:
        assert memory.stats("user/alice").facts == 256
        assert memory.verify().problems == ()


def test_a_flush_that_nobody_waits_for_ends_with_its_server_and_leaves_the_rest_queued(tmp_path):
    """A supervisor would kill a server that goes on for minutes with a long conversation."""
    memory = AgentMemory.open(tmp_path / "store", embedder=HashEmbedder())
    said = [{"role": "user", "content": f"Word{number} about thing{number}"} for number in range(300)]
    memory.add_messages("user/alice", said)
    pipeline, begun = inside(memory).pipeline, threading.Event()
    app = create_app(memory, settings=ServerSettings(worker=False))
    segment, looks = pipeline._segments, []

    def segments(messages, claim):
        looks.append(len(messages))
        begun.set()
        until(lambda: app.state.is_ending, "the end of the server")
        return segment(messages, claim)

    pipeline._segments = segments
    key = {"Idempotency-Key": "one"}

    async def serve_and_end():
        async with app.router.lifespan_context(app):
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000")
            body = {"conversation_id": "user/alice"}
            asked = asyncio.create_task(client.post("/api/v0/flush", json=body, headers=key))
            await asyncio.to_thread(begun.wait, PATIENCE)
            asked.cancel()  # as uvicorn does
            await asyncio.wait([asked])
        return asked.result()

    answer = asyncio.run(serve_and_end())
    assert (answer.status_code, len(looks)) == (503, 1)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as again:
        left = again.stats("user/alice").queued_messages
        assert 0 < left <= 300
        with TestClient(create_app(again), base_url="http://127.0.0.1:8000") as client:
            answer = client.post("/api/v0/flush", json={"conversation_id": "user/alice"}, headers=key)
            assert (answer.status_code, again.stats("user/alice").queued_messages) == (200, 0)  # not noted as done
