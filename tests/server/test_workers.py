"""Workers of a web server, each of which opens the store."""

import signal
import subprocess
import sys

import httpx
import pytest
from patience import A_LONG_TIME, PATIENCE, until
from ports import free_port

from memory_retrievers import AgentMemory
from memory_retrievers.backends.processes import attached
from memory_retrievers.testing import HashEmbedder

APPLICATION = """
import os
from memory_retrievers import AgentMemory
from memory_retrievers.server import create_app
from memory_retrievers.testing import HashEmbedder

def make():
    return create_app(AgentMemory.open(os.environ["STORE"], embedder=HashEmbedder()))
"""


def remember(port, number):
    body = {"conversation_id": "c1", "facts": [{"fact": f"Bird number {number}"}]}
    return httpx.post(f"http://127.0.0.1:{port}/api/v0/remember", json=body, timeout=PATIENCE).status_code


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE).is_success
    except httpx.TransportError:  # nobody listens yet
        return False


@pytest.mark.enable_socket
def test_two_workers_serve_one_store_beside_a_process_that_has_it_open(tmp_path):
    (tmp_path / "application.py").write_text(APPLICATION)
    store, port = tmp_path / "store", free_port()
    arguments = [sys.executable, "-m", "uvicorn", "--factory", "application:make", "--workers", "2"]
    arguments += ["--timeout-worker-healthcheck", str(A_LONG_TIME)]  # one that stood still for a moment is no dead one
    with subprocess.Popen(
        [*arguments, "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"],
        cwd=tmp_path,
        env={"STORE": str(store), "PYTHONPATH": str(tmp_path)},
    ) as server:
        try:
            until(lambda: server.poll() is not None or (answers(port) and len(attached(store)) == 2), "both workers")
            with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
                assert [remember(port, number) for number in range(30)] == [200] * 30
                assert memory.stats().facts == 30
                assert memory.verify().ok
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)
    assert attached(store) == []
