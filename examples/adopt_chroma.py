"""A Chroma collection that exists already becomes a memory, with its vectors as they are.

Run it with ``python examples/adopt_chroma.py``; it needs ``pip install memory-retrievers``.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

import chromadb

from memory_retrievers import AgentMemory
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder

NOTES = {
    "n1": ("The espresso machine needs descaling every month", "user/bo"),
    "n2": ("Filters are kept in the drawer below the espresso machine", "user/bo"),
    "n3": ("The door code of the workshop is 4711", "user/alice"),
}


def main() -> None:
    """Take a collection in, ask it something, follow what changes in it."""
    embedder = MiniLMEmbedder()  # in your case: what the collection was filled with, such as OpenAIEmbeddings()
    with TemporaryDirectory() as directory:
        client = chromadb.PersistentClient(f"{directory}/chroma")
        notes = client.create_collection("notes", embedding_function=None)  # or get_collection, or a LangChain Chroma
        texts = [text for text, _ in NOTES.values()]
        notes.add(
            ids=list(NOTES),
            documents=texts,
            embeddings=embedder.embed_documents(texts),
            metadatas=[{"owner": owner} for _, owner in NOTES.values()],
        )
        with AgentMemory.from_chroma(
            notes, path=f"{directory}/memory", embedder=embedder, scope_key="owner", write_through=True
        ) as memory:
            print(memory.adoption)
            print(memory.context("coffee maker care", scope="user/bo").to_markdown())
            # 1. what changes in the collection is followed
            notes.delete(ids=["n2"])
            print(memory.sync_chroma(notes))
            # 2. and, with write_through=True, what changes here reaches the collection
            memory.remember_fact(scope="user/bo", fact="The espresso machine was descaled today")
            print(f"in the collection: {sorted(notes.get()['documents'] or ())}")
        client.close()


if __name__ == "__main__":
    main()
