"""What people put together today, over the same records, scopes, questions and vectors.

Every peer keeps its records on disk and gives the best five of 100 candidates a list. Where there is a choice it is
the one that makes the peer faster: texts and their terms are kept by scope in memory and not fetched, and rank_bm25's
index of a scope is kept until something is added to it.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import chromadb
import numpy as np
from chromadb.config import Settings
from corpus import DIMENSION, Text, VectorTable
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore
from rank_bm25 import BM25Okapi

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package says that nobody looks after it any more
    from langchain_community.retrievers import BM25Retriever

BEST: Final = 5
CANDIDATES: Final = 100
RRF_K: Final = 60
COLLECTION: Final = "bench"


class Peer(Protocol):
    """A system beside ours; ``questions`` is how many of each sort it is asked at most, since some are slow."""

    name: str
    questions: int

    def add(self, texts: Sequence[Text]) -> None: ...

    def search(self, question: Text) -> list[str]: ...

    def add_and_find(self, newcomer: Text) -> None: ...


class ChromaByHand:
    """Chroma with ``where`` on the scope, rank_bm25 over the scope's term lists, and RRF by hand."""

    name = "Chroma `where` + rank_bm25 + RRF by hand"
    questions = 60

    def __init__(self, client: chromadb.ClientAPI) -> None:
        hnsw = {"space": "cosine", "ef_search": CANDIDATES}
        self._collection = client.create_collection(COLLECTION, embedding_function=None, configuration={"hnsw": hnsw})
        self._texts: dict[str, list[Text]] = defaultdict(list)
        self._words: dict[str, str] = {}
        self._engines: dict[str, BM25Okapi] = {}

    def add(self, texts: Sequence[Text]) -> None:
        self._collection.add(
            ids=[text.key for text in texts],
            embeddings=[text.vector for text in texts],
            documents=[text.words for text in texts],
            metadatas=[{"scope": text.scope} for text in texts],
        )
        for text in texts:
            self._texts[text.scope].append(text)
            self._words[text.key] = text.words
            self._engines.pop(text.scope, None)

    def search(self, question: Text) -> list[str]:
        near = self._collection.query(
            query_embeddings=[question.vector], n_results=CANDIDATES, where={"scope": question.scope}, include=[]
        )
        scores: dict[str, float] = defaultdict(float)
        for keys in (near["ids"][0], self._by_words(question)):
            for rank, key in enumerate(keys, start=1):
                scores[key] += 1 / (RRF_K + rank)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:BEST]
        return [self._words.get(key, key) for key in best]

    def add_and_find(self, newcomer: Text) -> None:
        self.add([newcomer])
        assert newcomer.words in self.search(newcomer)

    def _by_words(self, question: Text) -> list[str]:
        texts = self._texts[question.scope]
        if question.scope not in self._engines:
            self._engines[question.scope] = BM25Okapi([text.terms for text in texts])
        scores = self._engines[question.scope].get_scores(question.terms)
        return [texts[place].key for place in np.argsort(-scores)[:CANDIDATES]]


class LangChainEnsemble:
    """EnsembleRetriever over langchain-chroma with the scope as filter and a BM25Retriever made for every question.

    BM25Retriever cannot be filtered or added to, so a right answer needs one over the scope's texts as they stand. It
    splits at white space, its own default. The Chroma collection is the one that was filled by hand.
    """

    name = "LangChain EnsembleRetriever"
    questions = 40

    def __init__(self, client: chromadb.ClientAPI, table: VectorTable) -> None:
        self._store = Chroma(COLLECTION, embedding_function=_Table(table), client=client)
        self._words: dict[str, list[str]] = defaultdict(list)

    def add(self, texts: Sequence[Text]) -> None:
        for text in texts:
            self._words[text.scope].append(text.words)

    def search(self, question: Text) -> list[str]:
        near = self._store.as_retriever(search_kwargs={"k": CANDIDATES, "filter": {"scope": question.scope}})
        by_words = BM25Retriever.from_texts(self._words[question.scope], k=CANDIDATES)
        both = EnsembleRetriever(retrievers=[near, by_words], weights=[0.5, 0.5], c=RRF_K)
        return [document.page_content for document in both.invoke(question.words)[:BEST]]

    def add_and_find(self, newcomer: Text) -> None:
        self._store.add_texts([newcomer.words], metadatas=[{"scope": newcomer.scope}], ids=[newcomer.key])
        self.add([newcomer])
        assert newcomer.words in self.search(newcomer)


class LangGraphStore:
    """LangGraph's SqliteStore: a namespace for each scope, every vector compared by sqlite-vec, no keywords."""

    name = "LangGraph SqliteStore (vectors only)"
    questions = 300

    def __init__(self, connection: sqlite3.Connection, table: VectorTable) -> None:
        # It reads "text_fields", not the "fields" of its documentation, and embeds the value as JSON without.
        index = {"dims": DIMENSION, "embed": _Table(table), "text_fields": ["text"], "distance_type": "cosine"}
        self._store = SqliteStore(connection, index=index)
        self._store.setup()

    def add(self, texts: Sequence[Text]) -> None:
        self._store.batch([PutOp(_namespace(text), text.key, {"text": text.words}) for text in texts])

    def search(self, question: Text) -> list[str]:
        found = self._store.search(_namespace(question), query=question.words, limit=BEST)
        return [item.value["text"] for item in found]

    def add_and_find(self, newcomer: Text) -> None:
        self.add([newcomer])
        assert newcomer.words in self.search(newcomer)


class _Table(Embeddings):
    """The table of vectors in LangChain's shape."""

    def __init__(self, table: VectorTable) -> None:
        self._table = table

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._table.embed_query(text).tolist()


@contextmanager
def opened_peers(directory: Path, table: VectorTable) -> Iterator[list[Peer]]:
    """All peers, empty."""
    client = chromadb.PersistentClient(directory / "chroma", settings=Settings(anonymized_telemetry=False))
    connection = _connection_with_extensions(directory / "langgraph.db")
    try:
        yield [ChromaByHand(client), LangChainEnsemble(client, table), LangGraphStore(connection, table)]
    finally:
        connection.close()
        client.close()


def _connection_with_extensions(file: Path) -> sqlite3.Connection:
    """As SqliteStore opens one; many builds of Python cannot load sqlite-vec, and pysqlite3 is built so that it can."""
    module = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        import pysqlite3 as module
    return module.connect(str(file), check_same_thread=False, isolation_level=None)


def _namespace(text: Text) -> tuple[str, ...]:
    return tuple(text.scope.split("/"))
