"""A process that dies while it takes in a collection."""

import os
import signal
import subprocess
import sys

import chromadb
import pytest
from chromadb.config import Settings

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder, inside

DIES = """
import os, signal, sys
import chromadb
from chromadb.config import Settings
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder

def die(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
collection = client.get_collection("source", embedding_function=None)
AgentMemory.from_chroma(collection, path=sys.argv[2], embedder=HashEmbedder(), scope="s", dense="exact", progress=die)
"""


def contents(memory):
    ledger = inside(memory).ledger
    with ledger.contents() as found:
        return [
            (each.memory.id, each.memory.fact, each.memory.metadata, each.passages[0].vector.tobytes())
            for each in sorted(found.memories, key=lambda stored: stored.memory.id)
        ]


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
@pytest.mark.parametrize("done", [1_000, 2_000])
def test_calling_again_after_a_kill_ends_with_the_same_store(tmp_path, fill, done):
    client = chromadb.PersistentClient(tmp_path / "chroma", settings=Settings(anonymized_telemetry=False))
    fill(client.create_collection("source", embedding_function=None), [f"fact number {n}" for n in range(2_500)])
    client.close()
    killed = subprocess.run([sys.executable, "-c", DIES, tmp_path / "chroma", tmp_path / "store", str(done)])
    assert killed.returncode == -signal.SIGKILL

    client = chromadb.PersistentClient(tmp_path / "chroma", settings=Settings(anonymized_telemetry=False))
    collection = client.get_collection("source", embedding_function=None)
    same = {"embedder": HashEmbedder(), "scope": "s", "dense": "exact"}
    with (
        AgentMemory.from_chroma(collection, path=tmp_path / "store", **same) as resumed,
        AgentMemory.from_chroma(collection, **same) as undisturbed,
    ):
        assert (resumed.adoption.unchanged, resumed.adoption.adopted) == (done, 2_500 - done)
        assert contents(resumed) == contents(undisturbed)
        assert resumed.verify().ok
        assert resumed.sync_chroma(collection).unchanged == 2_500
    client.close()
