"""A served memory of two users, and a client for each kind of sender."""

import contextlib

import pytest
from starlette.testclient import TestClient

from memory_retrievers import AgentMemory, Message
from memory_retrievers.server import AccessToken, ServerSettings, create_app
from memory_retrievers.testing import HashEmbedder

OWN = "http://127.0.0.1:8000"
ALICE, ALICE_READS, BOB, OPERATOR = (
    "alice-may-write-0001",
    "alice-may-read-00001",
    "bob-may-write-000001",
    "operator-of-all-0001",
)
TOKENS = (
    AccessToken(secret=ALICE, root="user/alice"),
    AccessToken(secret=ALICE_READS, root="user/alice", right="read"),
    AccessToken(secret=BOB, root="user/bob"),
    AccessToken(secret=OPERATOR),
)


def fill(memory, scope, *, word):
    """A fact and an episode that both hold a word."""
    fact = {"id": f"fact-{word}", "fact": f"The user keeps a {word} in Lyon", "category": "identity"}
    episode = {
        "id": f"episode-{word}",
        "title": f"The {word}",
        "summary": f"The user spoke of a {word} in Lyon.",
        "messages": [Message(role="user", content=f"My {word} is well.")],
        "surprise": 0.9,
    }
    memory.remember_many([{"scope": scope, **each} for each in (fact, episode)])


@contextlib.contextmanager
def serving(memory, *, token=None, **settings):
    """A client of a memory that is served in this process; the memory is closed at the end."""
    app = create_app(memory, settings=ServerSettings(**{"worker": False, "requests_per_minute": None} | settings))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with TestClient(app, base_url=OWN, headers=headers, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def memory(clock):
    """Alice has an otter, Bob a zebra."""
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        fill(memory, "user/alice", word="otter")
        fill(memory, "user/bob", word="zebra")
        yield memory


@pytest.fixture
def client(memory):
    """Anybody on this machine."""
    with serving(memory) as client:
        yield client


@pytest.fixture
def guarded(memory):
    """The same server with tokens: ask with ``headers=by(token)``."""
    with serving(memory, tokens=TOKENS) as client:
        yield client


def by(token):
    return {"Authorization": f"Bearer {token}"}


def of_alice(**fields):
    return {"conversation_id": "user/alice", **fields}


def error_of(response):
    """The error object of an answer, after a look at its shape."""
    answer = response.json()
    assert answer["error"] is True
    assert set(answer) <= {"success", "error", "error_type", "message", "details"}
    assert "Traceback" not in response.text
    return response.status_code, answer["error_type"]
