"""A write under an ``Idempotency-Key`` is done once by all processes of a store together, also when one is killed."""

import contextlib
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from patience import PATIENCE, until
from ports import free_port

from memory_retrievers import AgentMemory
from memory_retrievers.backends.processes import attached
from memory_retrievers.testing import HashEmbedder

from .test_workers import APPLICATION, answers

pytestmark = pytest.mark.enable_socket


@contextlib.contextmanager
def server(directory):
    """A server of the store in a process of its own; gives its port and the process."""
    (directory / "application.py").write_text(APPLICATION)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "application:make", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"],
        cwd=directory,
        env={"STORE": str(directory / "store"), "PYTHONPATH": str(directory)},
    ) as process:
        try:
            until(lambda: process.poll() is not None or answers(port), "the server")
            yield port, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def ask(port, key, path="remember", **body):
    url = f"http://127.0.0.1:{port}/api/v0/{path}"
    return httpx.post(url, json={"conversation_id": "c1"} | body, headers={"Idempotency-Key": key}, timeout=PATIENCE)


def said(port, key, text):
    """Send a fact until the answer is final, as clients do."""
    while True:
        answer = ask(port, key, facts=[{"fact": text}], allow_duplicates=True)
        if "retry-after" not in answer.headers:
            return answer


def facts(store):
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        assert memory.verify().ok
        return [each.fact for each in memory.list("c1", kind="semantic", limit=1_000).memories]


def test_what_one_process_has_done_another_does_not_do_again(tmp_path):
    with server(tmp_path) as (first, _), server(tmp_path) as (second, _):
        done, again = (said(port, "a", "The heron is grey") for port in (first, second))
        assert (done.status_code, done.json()) == (again.status_code, again.json()) == (200, done.json())
        assert said(second, "a", "The stork is white").status_code == 422
        hello = {"message": {"role": "user", "content": "Hello."}}
        queued = [ask(port, "b", "add_message", **hello) for port in (first, second)]
        assert [each.status_code for each in queued] == [200, 409]
        assert "is done" in queued[1].json()["message"]
        with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
            assert memory.stats("c1").facts == memory.stats("c1").queued_messages == 1
            (heron,) = memory.list("c1").memories
            memory.forget(heron.id, scope="c1")
        gone = said(second, "a", "The heron is grey")
        assert gone.status_code == 409
        assert "heron" not in gone.text
    assert facts(tmp_path / "store") == []


def test_of_two_processes_that_are_asked_at_the_same_moment_one_does_it(tmp_path):
    with server(tmp_path) as (first, _), server(tmp_path) as (second, _), ThreadPoolExecutor(2) as pool:
        for number in range(25):
            together = threading.Barrier(2)

            def sent(port, number=number, together=together):
                together.wait(PATIENCE)
                return said(port, f"k{number}", f"Bird number {number}")

            answers_of_both = list(pool.map(sent, (first, second)))
            assert [each.status_code for each in answers_of_both] == [200, 200]
            assert len({each.json()["facts"][0]["id"] for each in answers_of_both}) == 1
    assert sorted(facts(tmp_path / "store")) == sorted(f"Bird number {number}" for number in range(25))


def test_what_a_process_has_done_that_was_killed_is_not_done_again(tmp_path):
    sent = 0

    def kill(process):
        try:
            until(lambda: sent > 20, "what is answered before")
        finally:
            process.kill()

    with server(tmp_path) as (first, killed), server(tmp_path) as (second, _), ThreadPoolExecutor(1) as killer:
        killer.submit(kill, killed)
        with contextlib.suppress(httpx.TransportError):
            while True:
                sent += 1
                said(first, f"k{sent}", f"Bird number {sent}")
        for each in range(1, sent + 1):  # the client cannot know which of the last were done
            assert said(second, f"k{each}", f"Bird number {each}").status_code == 200
    assert sent > 20
    assert sorted(facts(tmp_path / "store")) == sorted(f"Bird number {each}" for each in range(1, sent + 1))
    assert attached(tmp_path / "store") == []
