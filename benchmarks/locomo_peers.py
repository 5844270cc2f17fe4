"""What people put together today, on the conversations of LoCoMo, by the measures and vectors of ``eval locomo``.

Every peer is given the turns of a conversation, each as "speaker: text", and used as its documentation shows; nothing
is tuned, and no dates are put into the texts. Sessions rank by their best turn; what is read are the turns, one a line.

    LOCOMO_PATH=locomo10.json python benchmarks/locomo_peers.py

LlamaIndex has its BM25 retriever in a package of its own, which holds PyStemmer below version 3. If it is not there,
its row is left out: pip install llama-index-retrievers-bm25
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import chromadb
from chromadb.config import Settings
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.evaluation import datasets, report
from memory_retrievers.evaluation.conversations import Conversation, Question, RememberedVectors
from memory_retrievers.evaluation.measure import (
    BUDGETS,
    Answer,
    Score,
    TokenCounter,
    score,
    token_counter,
    turns_within,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the package says that nobody looks after it any more
    from langchain_community.retrievers import BM25Retriever

K: Final = 20
"""So many turns each list of the frameworks gives. LangChain returns all that are in either, LlamaIndex so many."""

DEPTH: Final = 100
"""So many Chroma alone gives, which costs it nothing."""

Search: TypeAlias = Callable[[str], list[str]]
"""From a question to the ids of turns, best first."""

Build: TypeAlias = Callable[[Mapping[str, str], RememberedVectors], Search]
"""From the texts of turns by their ids to the search in them."""


def chroma_alone(texts: Mapping[str, str], embedder: RememberedVectors) -> Search:
    collection = _client().create_collection(
        uuid.uuid4().hex, embedding_function=None, configuration={"hnsw": {"space": "cosine", "ef_search": DEPTH}}
    )
    collection.add(ids=list(texts), embeddings=embedder.embed_documents(list(texts.values())))
    return lambda query: collection.query(
        query_embeddings=[embedder.embed_query(query)], n_results=min(DEPTH, len(texts)), include=[]
    )["ids"][0]


def langchain_ensemble(texts: Mapping[str, str], embedder: RememberedVectors) -> Search:
    documents = [Document(text, id=turn, metadata={"turn": turn}) for turn, text in texts.items()]
    store = Chroma(uuid.uuid4().hex, embedding_function=_LangChainVectors(embedder), client=_client())
    store.add_documents(documents)
    by_words = BM25Retriever.from_documents(documents, k=K)
    both = EnsembleRetriever(
        retrievers=[by_words, store.as_retriever(search_kwargs={"k": K})], weights=[0.5, 0.5], id_key="turn"
    )
    return lambda query: [document.metadata["turn"] for document in both.invoke(query)]


def llama_index_fusion(texts: Mapping[str, str], embedder: RememberedVectors) -> Search:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever as LlamaIndexBM25

    class Vectors(BaseEmbedding):
        """The embedder in LlamaIndex's shape."""

        def _get_text_embedding(self, text: str) -> list[float]:
            return embedder.embed_documents([text])[0].tolist()

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embedder.embed_documents(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return embedder.embed_query(query).tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    nodes = [TextNode(id_=turn, text=text) for turn, text in texts.items()]
    near = VectorStoreIndex(nodes, embed_model=Vectors()).as_retriever(similarity_top_k=K)
    fusion = QueryFusionRetriever(
        [near, LlamaIndexBM25.from_defaults(nodes=nodes, similarity_top_k=K)],
        llm=MockLLM(),
        mode="reciprocal_rerank",
        similarity_top_k=K,
        num_queries=1,  # more need a language model
        use_async=False,
    )
    return lambda query: [found.node.node_id for found in fusion.retrieve(query)]


PEERS: Final[Mapping[str, Build]] = {
    f"LangChain EnsembleRetriever, turns, k = {K}": langchain_ensemble,
    f"LlamaIndex QueryFusionRetriever, turns, k = {K}": llama_index_fusion,
    "Chroma, dense, turns": chroma_alone,
}


class _LangChainVectors(Embeddings):
    """The embedder in LangChain's shape."""

    def __init__(self, embedder: RememberedVectors) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.embed_documents(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self._embedder.embed_query(text).tolist()


def _client() -> chromadb.ClientAPI:
    return chromadb.EphemeralClient(Settings(anonymized_telemetry=False))


def _measure(
    conversations: Sequence[Conversation], build: Build, embedder: RememberedVectors, tokens: TokenCounter
) -> Iterator[Score]:
    for conversation in conversations:
        texts = {turn.id: f"{turn.speaker}: {turn.text}" for turn in conversation.turns.values()}
        search = build(texts, embedder)
        for question in conversation.questions:
            embedder.embed_query(question.text)
            started = time.perf_counter()
            turns = search(question.text)
            answer = _answer(conversation, question, turns, time.perf_counter() - started, tokens)
            yield score(conversation, question, answer)


def _answer(
    conversation: Conversation, question: Question, turns: Sequence[str], seconds: float, tokens: TokenCounter
) -> Answer:
    told = "\n".join(f"{conversation.turns[turn].speaker}: {conversation.turns[turn].text}" for turn in turns)
    return Answer(
        sessions=list(dict.fromkeys(conversation.session_of[turn] for turn in turns)),
        turns=turns,
        evidence=turns_within(conversation, question.gold, told, budgets=BUDGETS, tokens=tokens),
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", default=os.environ.get("LOCOMO_PATH"))
    parser.add_argument("--conversations", type=int, help="only the first so many")
    parser.add_argument("--vectors", type=Path, help="an .npz file that keeps vectors, as of eval locomo")
    arguments = parser.parse_args()
    if arguments.path is None:
        parser.error("name the file, or set LOCOMO_PATH")
    conversations = datasets.load_locomo(Path(arguments.path))[: arguments.conversations]
    embedder, tokens = RememberedVectors(MiniLMEmbedder(), file=arguments.vectors), token_counter()
    measured = {}
    for name, build in PEERS.items():
        try:
            with contextlib.redirect_stderr(None):  # progress bars
                measured[name] = list(_measure(conversations, build, embedder, tokens))
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    embedder.save()
    headings = report.headings(measured)
    print("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
    for row in report.rows(measured):
        print("| " + " | ".join(row) + " |")
    print(f"\n{report.counted(tokens)}")


if __name__ == "__main__":
    main()
