"""Who watches a piece of work is told its stages, and nobody else is."""

import contextlib
import threading

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.storage.tracing import BM25, DENSE, EMBED, HYDRATE, RANK, observer_of_stages, traced
from memory_retrievers.testing import HashEmbedder


@pytest.fixture
def memory():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="user/alice", fact="Alice keeps an otter")
        memory.remember_episode(scope="user/alice", summary="Alice spoke of an otter.")
        yield memory


class Watcher:
    """Notes each stage as it begins and as it ends."""

    def __init__(self):
        self.seen = []

    @contextlib.contextmanager
    def __call__(self, name):
        self.seen.append(f"{name} begins")
        try:
            yield
        finally:
            self.seen.append(f"{name} ends")


def both_ends(names):
    return [f"{name} {end}" for name in names for end in ("begins", "ends")]


def test_a_retrieval_has_five_stages_one_after_the_other_two_of_them_for_each_kind(memory):
    watcher = Watcher()
    with traced(watcher):
        memory.retrieve("otter", scope="user/alice")
    assert watcher.seen == both_ends([EMBED, DENSE, BM25, DENSE, BM25, RANK, HYDRATE])


def test_what_is_watched_finds_the_same(memory):
    alone = memory.retrieve("otter", scope="user/alice", record=False)
    with traced(Watcher()):
        watched = memory.retrieve("otter", scope="user/alice", record=False)
    assert watched.to_dict(explain=True)["semantic"] == alone.to_dict(explain=True)["semantic"]


def test_nothing_is_watched_before_after_or_in_another_thread(memory):
    watcher = Watcher()

    def retrieve():
        memory.retrieve("otter", scope="user/alice")

    retrieve()
    with traced(watcher):
        thread = threading.Thread(target=retrieve)
        thread.start()
        thread.join()
    retrieve()
    assert watcher.seen == []


def test_a_stage_that_fails_has_ended():
    watcher = Watcher()
    with pytest.raises(ZeroDivisionError), traced(watcher), observer_of_stages.get()(RANK):
        raise ZeroDivisionError
    assert watcher.seen == both_ends([RANK])
