"""From LangChain's ``EnsembleRetriever`` to a memory: the same Chroma collection, the same chain, another retriever.

Run it with ``python examples/migrate_from_ensemble.py``; it needs ``pip install "memory-retrievers[classic]"
langchain-chroma langchain-community rank-bm25``, the last three only for what is left behind.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

import chromadb
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.retrievers import BaseRetriever

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.testing import HashEmbedder

NOTES = (
    "Teal paint is mixed from two parts blue and one part green.",
    "The nightly import of the shop runs through Kafka.",
    "Staging is restored on Fridays.",
    "The shop is painted every spring.",
)
QUESTION = "How is TEAL mixed?"


def main() -> None:
    """Ask the old retriever and the new one, and add a note to the new one."""
    embeddings = HashEmbedder()  # or OpenAIEmbeddings(): whatever the collection was filled with
    with TemporaryDirectory() as directory:
        client = chromadb.PersistentClient(f"{directory}/chroma")
        # 1. before: a keyword index that every start rebuilds, beside the vectors
        vectors = Chroma("notes", embeddings, client=client)
        vectors.add_texts(list(NOTES), ids=[f"n{number}" for number, _ in enumerate(NOTES)])
        words, nearest = BM25Retriever.from_texts(NOTES, k=2), vectors.as_retriever(search_kwargs={"k": 2})
        ensemble = EnsembleRetriever(retrievers=[words, nearest], weights=[0.5, 0.5])
        show("EnsembleRetriever", ensemble)
        # 2. after: keywords and vectors in one store, read once from the collection, with its embedder
        with AgentMemory.from_chroma(vectors, path=f"{directory}/memory", scope="notes") as memory:
            retriever = MemoryRetriever(memory=memory, scope="notes", k=2, with_scores=True)
            show("MemoryRetriever", retriever)
            memory.remember_fact(scope="notes", fact="TEAL-7 is mixed without green.")  # and is found at once
            show("with a new note", retriever)
        client.close()


def show(name: str, retriever: BaseRetriever) -> None:
    """What a retriever finds; either goes into the same chain."""
    print(f"\n== {name}")
    for document in retriever.invoke(QUESTION):
        scores = [f"{key} {document.metadata[key]}" for key in ("dense_rank", "bm25_rank") if key in document.metadata]
        print(", ".join([document.page_content, *scores]))


if __name__ == "__main__":
    main()
