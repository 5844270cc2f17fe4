"""The chat with a model of one's own remembers over a restart, whatever speaks OpenAI's protocol."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

ANSWER = "Noted, in München."


@pytest.fixture
def prompts():
    """The messages of each request, as the model got them."""
    return []


@pytest.fixture
def address(prompts, socket_enabled):
    """A server that answers every chat with the same words."""

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self):
            if "nowhere" in self.path:
                return self.send_error(404)
            prompts.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"])
            message = {"role": "assistant", "content": ANSWER}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "any", "choices": [choice]}
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())
            return None

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture
def chat(examples, address, tmp_path):
    """Runs the example in a process of its own, as a person does, and gives the lines it prints."""

    def chat(*lines):
        command = [sys.executable, examples / "chat.py", "--model", "any", "--base-url", address]
        done = subprocess.run(
            command, input="".join(f"{line}\n" for line in lines), cwd=tmp_path, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return chat


def test_what_was_said_before_a_restart_stands_behind_the_question_after_it(chat, prompts):
    assert chat("I have moved to Nantes, rue Crébillon.") == [ANSWER]
    assert "<memory>" not in str(prompts)

    assert chat("Which city do I live in?", "", "And in which street?") == [ANSWER, "-- a new thread", ANSWER]
    for question in prompts[1:]:
        assert "I have moved to Nantes, rue Crébillon." in str(question[-1]["content"])
    assert [message["role"] for message in prompts[2]] == ["user"], "the new thread knows nothing of the old one"


def test_another_user_of_the_same_store_is_told_nothing(chat, examples, address, tmp_path, prompts):
    chat("My door code is 4711.")
    command = [sys.executable, examples / "chat.py", "--model", "any", "--base-url", address, "--user", "bo"]
    subprocess.run(command, input="What is my door code?\n", cwd=tmp_path, check=True, encoding="utf-8")
    assert "4711" not in str(prompts[-1])


def test_a_model_that_does_not_answer_ends_no_chat(chat, examples, address, tmp_path):
    command = [sys.executable, examples / "chat.py", "--model", "any", "--base-url", f"{address}/nowhere"]
    done = subprocess.run(
        command, input="I have moved to Nantes.\n" * 2, cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["-- no answer from http"] * 2
    assert done.returncode == 0, done.stderr
    assert chat("Which city do I live in?") == [ANSWER]
