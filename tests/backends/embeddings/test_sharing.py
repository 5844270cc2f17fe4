"""One model a process: all stores share it, and it goes with the last that is closed."""

import os
import subprocess
import sys
import weakref

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.backends.embeddings import minilm
from memory_retrievers.errors import ConfigurationError

SCOPE = "user/alice"

LIVING = """
import gc, os, sys
from memory_retrievers import AgentMemory
from memory_retrievers.backends.embeddings import minilm

loads = []
class Counted(minilm._Model):
    def __init__(self, directory):
        loads.append(directory)
        super().__init__(directory)
minilm._Model = Counted

def threads():
    return len(os.listdir("/proc/self/task"))

def used(memory):
    memory.remember_fact(scope="user/alice", fact="Alice has a dog.")
    assert memory.retrieve("dog", scope="user/alice").semantic
    return memory

gc.disable()
with used(AgentMemory.in_memory()):
    one = threads()
held = []
for _ in range(3):
    first, second = used(AgentMemory.in_memory()), used(AgentMemory.in_memory())
    assert len(minilm._shared) == 1
    first.close()
    assert len(minilm._shared) == 1
    used(second).close()
    held += first, second
    assert len(minilm._shared) == 0, "the model is in memory although the last store is closed"
print(len(loads), threads() < one)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_stores_share_one_model_that_goes_with_the_last_although_they_are_held():
    done = subprocess.run([sys.executable, "-c", LIVING], capture_output=True, text=True)
    assert done.stdout.split() == ["4", "True"], done.stderr


def test_a_closed_store_holds_no_embedder_of_the_caller():
    from memory_retrievers.testing import HashEmbedder

    embedder = HashEmbedder()
    known = weakref.ref(embedder)
    memory = AgentMemory.in_memory(embedder=embedder)
    memory.remember_fact(scope=SCOPE, fact="Alice has a dog.")
    memory.retrieve("dog", scope=SCOPE)
    manager = memory.manager
    memory.close()
    del embedder
    assert known() is None
    with pytest.raises(ConfigurationError, match="closed"):
        memory.retrieve("dog", scope=SCOPE)
    assert manager is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_loads_its_own():
    embedder = minilm.MiniLMEmbedder()
    embedder.embed_query("tea")
    child = os.fork()
    if child == 0:
        os._exit(len(minilm._shared))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(minilm._shared) >= 1
