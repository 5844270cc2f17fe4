"""The real server in a thread, on loopback, before a memory that the test holds as well."""

import asyncio
import threading
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
import uvicorn
from patience import A_LONG_TIME, PATIENCE

from memory_retrievers import AgentMemory, Message
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.server import AccessToken, Right, ServerSettings, create_app
from memory_retrievers.testing import FixedClock, HashEmbedder

WRITER, READER, ALICES = "writer-0123456789", "reader-0123456789", "alices-0123456789"


@pytest.fixture(autouse=True)
def _loopback(socket_enabled):
    """The server is reached over a socket."""


def filled_memory():
    memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=FixedClock(datetime(2026, 3, 1, 12, tzinfo=UTC)))
    fill(memory)
    return memory


def fill(memory):
    """What there is to find: facts and episodes of Alice, one fact of Bob; a long fact, tags, all of it."""
    memory.remember_many(
        [
            {
                "id": "f1",
                "scope": "user/alice",
                "fact": "Alice lives in Lyon",
                "category": "identity",
                "keywords": ["Lyon"],
                "source_episodic_ids": ["e1"],
                "tags": ["home"],
                "metadata": {"by": {"whom": "Émile"}},
            },
            {"id": "f2", "scope": "user/alice", "fact": "Answer in metric units. " + "Always. " * 60},
            {"id": "f3", "scope": "user/alice/work", "fact": "Alice works in Geneva"},
            {
                "id": "e1",
                "scope": "user/alice",
                "title": "Broken import",
                "summary": "The nightly import in Lyon failed again.",
                "messages": [Message(role="user", content='It died again.\nThird time "this week" 💥')],
                "surprise": 0.9,
                "tags": ["work"],
                "created_at": datetime(2026, 2, 20, 9, 30, 0, 250_000, tzinfo=UTC),
            },
            {"id": "e2", "scope": "user/alice", "summary": "Alice planned a garden in Lyon.", "surprise": 1 / 3},
            {"id": "b1", "scope": "user/bob", "fact": "Bob lives in Bergen", "category": "identity"},
        ]
    )


class _Hasty:
    """``asyncio`` for uvicorn's server, which else looks ten times a second whether it is to end, and waits then."""

    def __getattr__(self, name):
        return getattr(asyncio, name)

    def sleep(self, seconds):
        return asyncio.sleep(seconds / 10)


@contextmanager
def listening(app):
    """Serve an application in a thread, and give its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _Hasty())
        yield from _listening(app)


def _listening(app):
    seconds = {"timeout_graceful_shutdown": 5, "timeout_keep_alive": A_LONG_TIME}  # no pause ends a connection
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on", **seconds))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server has ended"
            thread.join(0.01)
        host, port = server.servers[0].sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=PATIENCE)


def application(memory, **rules):
    tokens = (
        AccessToken(secret=WRITER),
        AccessToken(secret=READER, right=Right.READ),
        AccessToken(secret=ALICES, root="user/alice"),
    )
    return create_app(memory, settings=ServerSettings(tokens=tokens, worker=False, **rules))


@pytest.fixture
def served():
    """A memory, and the address of the server before it."""
    with filled_memory() as memory, listening(application(memory)) as url:
        yield memory, url


@pytest.fixture
def memory(served):
    return served[0]


@pytest.fixture
def remote(served):
    with RemoteMemory(served[1], WRITER, timeout=PATIENCE) as remote:
        yield remote


@pytest.fixture
def tokens():
    return {"writer": WRITER, "reader": READER, "alices": ALICES}


@pytest.fixture
def serving():
    """Serve any application: ``with serving(app) as url``."""
    return listening


@pytest.fixture
def guarded():
    """A filled memory, and the application before it, not served yet."""
    with filled_memory() as memory:
        yield memory, application(memory)


@pytest.fixture
def twin():
    """A memory that holds the same as the one that is served."""
    with filled_memory() as memory:
        yield memory
