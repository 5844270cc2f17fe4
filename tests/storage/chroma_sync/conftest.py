"""Collections in real Chroma, filled with what the tests start from."""

from uuid import uuid4

import chromadb
import numpy as np
import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder


@pytest.fixture
def texts():
    return ["Alice likes green tea", "Bob plays chess on Sundays", "Carol is allergic to nuts", "Dora lives in Lyon"]


@pytest.fixture
def everything():
    """All a collection holds, to be compared with what it held before."""

    def everything(collection):
        found = collection.get(include=["documents", "metadatas", "embeddings"])
        return found["ids"], found["documents"], found["metadatas"], np.asarray(found["embeddings"]).tolist()

    return everything


@pytest.fixture
def fill(texts):
    """Give a collection the rows ``r0``, ``r1`` …, and give it back."""

    def fill(collection, texts=texts, *, metadatas=None, factor=1.0):
        vectors = [[factor * number for number in vector] for vector in HashEmbedder().embed_documents(texts)]
        ids = [f"r{number}" for number in range(len(texts))]
        collection.add(ids=ids, embeddings=vectors, documents=list(texts), metadatas=metadatas)
        return collection

    return fill


@pytest.fixture
def put():
    """Write one row, over the one that is there."""

    def put(collection, id, text, metadata=None):
        vectors = HashEmbedder().embed_documents([text])
        collection.upsert(ids=[id], embeddings=vectors, documents=[text], metadatas=[metadata])

    return put


@pytest.fixture
def skipped():
    """What a report says about the rows that were skipped."""
    return lambda report: {each.reason: (each.rows, each.examples) for each in report.skipped}


@pytest.fixture
def make_collection():
    """A new empty collection; its client's memory is that of the process, so names must differ."""
    client = chromadb.EphemeralClient()

    def make(space="cosine"):
        configuration = {"hnsw": {"space": space}}
        return client.create_collection(f"c-{uuid4()}", configuration=configuration, embedding_function=None)

    return make


@pytest.fixture
def collection(make_collection, fill):
    return fill(make_collection())


@pytest.fixture
def adopt(clock):
    """``AgentMemory.from_chroma`` with what most tests give it; whatever was opened is closed at the end."""
    opened = []

    def adopt(collection, **arguments):
        if "scope_key" not in arguments:
            arguments.setdefault("scope", "user/a")
        arguments = {"embedder": HashEmbedder(), "dense": "exact", "clock": clock, **arguments}
        opened.append(AgentMemory.from_chroma(collection, **arguments))
        return opened[-1]

    yield adopt
    for memory in opened:
        memory.close()
