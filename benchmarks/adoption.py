"""How fast a Chroma collection is taken in, how much memory that takes, and that it is the same afterwards.

Nothing is embedded but five samples: the vectors come from the collection.

    python benchmarks/adoption.py --rows 50000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import chromadb
import numpy as np
from chromadb.config import Settings
from corpus import DIMENSION, VectorTable, Words

from memory_retrievers import AgentMemory

PAGE: Final = 1_000
MEGABYTE: Final = 2**20
SEED: Final = 7


def fill(collection: chromadb.Collection, embedder: VectorTable, *, rows: int) -> None:
    """Give the collection rows of 30 words in 100 scopes."""
    words = Words(SEED)
    for start in range(0, rows, PAGE):
        numbers = range(start, min(start + PAGE, rows))
        texts = [words.sentence(30) for _ in numbers]
        collection.add(
            ids=[f"row-{number}" for number in numbers],
            documents=texts,
            embeddings=list(embedder.embed_documents(texts)),
            metadatas=[{"user": f"user/{number % 100}", "page": number} for number in numbers],
        )


def digest_of(collection: chromadb.Collection) -> str:
    """Changes with any id, text, metadata or vector."""
    digest = hashlib.sha256()
    for offset in range(0, collection.count(), PAGE):
        page = collection.get(limit=PAGE, offset=offset, include=["documents", "metadatas", "embeddings"])
        # keys sorted: Chroma gives them in another order each time
        digest.update(json.dumps([page["ids"], page["documents"], page["metadatas"]], sort_keys=True).encode())
        digest.update(np.asarray(page["embeddings"], dtype=np.float32).tobytes())
    return digest.hexdigest()


def resident_bytes() -> int:
    """How much memory the process holds; Linux only, like the figures in the documents."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """The largest resident size of the process since it was entered."""

    def __init__(self) -> None:
        self.before = self.highest = resident_bytes()
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[Peak]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.highest = max(self.highest, resident_bytes())


def measure(directory: Path, *, rows: int) -> None:
    client = chromadb.PersistentClient(directory / "source", settings=Settings(anonymized_telemetry=False))
    collection = client.create_collection("source", embedding_function=None)
    embedder = VectorTable(SEED)
    fill(collection, embedder, rows=rows)
    before = digest_of(collection)

    with Peak().watched() as peak:
        start = time.perf_counter()
        memory = AgentMemory.from_chroma(collection, path=directory / "store", embedder=embedder, scope_key="user")
        adopting = time.perf_counter() - start
    with memory:
        start = time.perf_counter()
        report = memory.sync_chroma(collection)
        syncing = time.perf_counter() - start
        assert memory.adoption is not None
        assert memory.adoption.adopted == report.unchanged == memory.stats().facts == rows

    print(f"{rows:,} rows of {DIMENSION} dimensions, chromadb {chromadb.__version__}")
    print(f"adopted in {adopting:.1f} s: {rows / adopting:,.0f} rows a second")
    print(f"nothing to do in a sync: {syncing:.1f} s, {rows / syncing:,.0f} rows a second")
    grown, size = (peak.highest - peak.before) / MEGABYTE, peak.before / MEGABYTE
    print(f"resident size at its peak: {grown:,.0f} MB above the {size:,.0f} MB of before")
    same = digest_of(collection) == before
    print(f"the collection is {'the same as' if same else 'NOT the same as'} before")
    client.close()
    if not same:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="how fast a Chroma collection is adopted")
    parser.add_argument("--rows", type=int, default=50_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory), rows=rows)


if __name__ == "__main__":
    main()
