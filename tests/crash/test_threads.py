"""Eight threads that write and read at once: each finds what it wrote, and nothing of another scope."""

import threading
import time

import pytest

from memory_retrievers import AgentMemory, NotFoundError, RetrievalSettings
from memory_retrievers.testing import HashEmbedder

pytestmark = pytest.mark.slow

THREADS = 8
SECONDS = 2.0
ROUNDS = 5
"""Each thread goes on for so long, and for so many rounds: in five of them it does everything that it does."""

SHARED = ("team/red", "team/blue")


@pytest.fixture(params=["in memory", "exact", "auto", "chroma"])
def memory(request, tmp_path, keyword):
    embedder = HashEmbedder(64)
    if request.param == "in memory":
        opened = AgentMemory.in_memory(embedder=embedder, keyword=keyword, dense="exact")
    else:
        opened = AgentMemory.open(
            tmp_path / "store",
            embedder=embedder,
            keyword=keyword,
            dense=request.param,
            retrieval=RetrievalSettings(exact_limit=20),  # so that searches change over while the threads run
        )
    with opened as memory:
        yield memory


class Worker(threading.Thread):
    """Writes into two scopes that all share, and into one of its own; every text names its scope."""

    def __init__(self, memory, number, until):
        super().__init__()
        self.memory = memory
        self.number = number
        self.until = until
        self.kept = {scope: [] for scope in (*SHARED, f"own/{number}")}
        self.rounds = 0
        self.failure = None

    def run(self):
        try:
            while self.rounds < ROUNDS or time.monotonic() < self.until:
                for scope, kept in self.kept.items():
                    self.round(scope, kept)
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - told by the test, of whichever thread it is
            self.failure = error

    def round(self, scope, kept):
        word = f"w{self.number}x{self.rounds}"
        text = f"tea {word} in {scope}"
        fact = self.memory.remember_fact(scope=scope, fact=text)
        self.memory.remember_episode(scope=scope, summary=text, id=f"e-{word}")
        self.expect(scope, text, {fact.id, f"e-{word}"})
        if self.rounds % 3 == 0:
            self.memory.forget(f"e-{word}", scope=scope)
            assert f"e-{word}" not in self.found(scope, text)
            with pytest.raises(NotFoundError):
                self.memory.get(f"e-{word}", scope=scope)
        if self.rounds % 3 == 1:
            changed = f"{text} again{word}"
            self.memory.update(fact.id, scope=scope, fact=changed)
            self.expect(scope, changed, {fact.id})
        if self.rounds % 5 == 4:
            self.memory.invalidate(fact.id, scope=scope)
            assert fact.id not in self.found(scope, text)
        else:
            kept.append(fact.id)

    def expect(self, scope, text, ids):
        assert ids <= self.found(scope, text).keys()

    def found(self, scope, text):
        result = self.memory.retrieve(text, scope=scope, episodic_limit=20, semantic_limit=20, limit=40)
        texts = {hit.memory.id: hit.memory.fact for hit in result.semantic}
        texts |= {hit.memory.id: hit.memory.summary for hit in result.episodic}
        assert all(f"in {scope}" in text for text in texts.values())
        assert all(hit.memory.scope == scope for hit in (*result.semantic, *result.episodic))
        return texts


def test_eight_threads_find_what_they_wrote_and_nothing_else(memory):
    workers = [Worker(memory, number, time.monotonic() + SECONDS) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.failure for worker in workers] == [None] * THREADS
    for worker in workers:
        for scope, kept in worker.kept.items():
            assert [memory.get(id, scope=scope).id for id in kept] == kept
    assert memory.verify().ok
