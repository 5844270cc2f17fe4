"""A window into the memories of two users, and the browser that was let in."""

import contextlib
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from memory_retrievers import AgentMemory, Message
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.window.app import Sessions, create_app
from memory_retrievers.window.state import WindowSettings

OWN = "http://127.0.0.1:8123"
ALICE, BOB = "user/alice", "user/bob"
THEN = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)


class Browser:
    """What a page asks of its window."""

    def __init__(self, client, sessions):
        self.client, self.sessions = client, sessions

    def sign_in(self):
        answer = self.client.get("/", params={"token": self.sessions.token}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        return self

    def get(self, path, **query):
        answer = self.client.get(f"/api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path, **body):
        answer = self.client.post(f"/api/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def act(self, action, id, scope=ALICE, **more):
        return self.post("act", action=action, scope=scope, id=id, **more)

    def refused(self, path, *, get=None, **body):
        """The status and the code of a request that is refused."""
        own = f"/api/{path}"
        if get is not None:
            answer = self.client.get(own, params=get)
        else:  # with escapes, so that a text may be no UTF-8
            answer = self.client.post(own, content=json.dumps(body), headers={"Content-Type": "application/json"})
        error = answer.json()
        assert {*error} - {"details"} == {"error", "error_type", "message"}
        assert error["message"]
        return answer.status_code, error["error_type"]


@contextlib.contextmanager
def looking_into(memory, *, signed_in=True, **settings):
    """A browser before a window into a memory, which is closed at the end."""
    sessions = Sessions(8123)
    with tempfile.TemporaryDirectory() as folder:
        places = {"journal": Path(folder, "changes.jsonl"), "address": Path(folder, "elsewhere")}
        chosen = WindowSettings(title="notes", port=8123, **places | settings)
        app = create_app(memory, settings=chosen, sessions=sessions)
        with TestClient(app, base_url=OWN, raise_server_exceptions=False) as client:
            browser = Browser(client, sessions)
            yield browser.sign_in() if signed_in else browser


def fill(memory, scope, word):
    memory.remember_fact(
        scope=scope, id="fact", fact=f"The user keeps a {word} in Lyon", category="identity", created_at=THEN
    )
    memory.remember_fact(scope=scope, id=f"own-{word}", fact=f"The {word} sleeps late", tags=["night"], created_at=THEN)
    memory.remember_episode(
        scope=scope,
        id="episode",
        title=f"The {word}",
        summary=f"They spoke of the {word}.",
        messages=[Message(role="user", content=f"My {word} is well.")],
        created_at=THEN,
    )


@pytest.fixture
def memory(clock):
    """Alice has an otter, Bob a zebra."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        fill(memory, ALICE, "otter")
        fill(memory, BOB, "zebra")
        memory.remember_fact(scope="user/alice/work", id="job", fact="Alice is a carpenter")
        memory.add_messages(ALICE, [{"role": "user", "content": "The boat leaks."}], conversation="boat")
        yield memory


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "changes.jsonl"


@pytest.fixture
def window(memory, journal):
    with looking_into(memory, journal=journal) as browser:
        yield browser
