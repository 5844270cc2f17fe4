"""Collections as LangChain and LlamaIndex fill them, embedded and behind a server."""

import chromadb
import pytest
from chromadb.config import Settings
from langchain_chroma import Chroma
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore

from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.testing import HashEmbedder


class LlamaEmbedding(BaseEmbedding):
    """``HashEmbedder`` in LlamaIndex's shape."""

    def _get_text_embedding(self, text):
        return HashEmbedder().embed_query(text)

    def _get_query_embedding(self, query):
        return HashEmbedder().embed_query(query)

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


@pytest.fixture(params=["ephemeral", "persistent", "http"])
def client(request, tmp_path):
    settings = Settings(anonymized_telemetry=False)
    if request.param == "http":
        yield request.getfixturevalue("chroma_client")
    elif request.param == "persistent":
        client = chromadb.PersistentClient(tmp_path / "chroma", settings=settings)
        yield client
        client.close()
    else:
        yield chromadb.EphemeralClient()


@pytest.fixture
def name(request):
    return f"sources-{abs(hash(request.node.name))}"


def test_a_collection_that_langchain_filled(client, name, adopt, texts, everything):
    store = Chroma(collection_name=name, embedding_function=HashEmbedder(), client=client)
    metadatas = [{"user": "user/a" if number % 2 else "user/b"} for number in range(len(texts))]
    store.add_texts(texts, metadatas=metadatas, ids=[f"d{number}" for number in range(len(texts))])
    collection = client.get_collection(name, embedding_function=None)
    before = everything(collection)
    memory = adopt(collection, scope_key="user")
    documents = MemoryRetriever(memory=memory, scope="user/b", k=1).invoke("who must not eat nuts?")
    assert [(document.id, document.page_content) for document in documents] == [("d2", texts[2])]
    assert documents[0].metadata["user"] == "user/b"
    assert {each.id for each in memory.list("user/a").memories} == {"d1", "d3"}
    assert everything(collection) == before


def test_a_collection_that_llama_index_filled(client, name, adopt, texts, everything):
    # LlamaIndex embeds a text with its metadata before it, and keeps the bare text as the document
    collection = client.create_collection(name, embedding_function=None)
    metadata = {"file_path": "/home/somebody/documents/notes/2026/march/first.md", "page": 3, "secret": "x"}
    nodes = [
        TextNode(id_=f"n{number}", text=text, metadata=metadata, excluded_embed_metadata_keys=["secret"])
        for number, text in enumerate(texts)
    ]
    ChromaVectorStore(chroma_collection=collection).add(LlamaEmbedding()(nodes))
    before = everything(collection)
    memory = adopt(collection, embedder=LlamaEmbedding())
    fact = memory.get("n2", scope="user/a")
    assert (fact.fact, fact.metadata["page"]) == (texts[2], 3)
    assert fact.metadata == metadata
    assert memory.retrieve("nuts", scope="user/a").semantic[0].memory.id == "n2"
    assert everything(collection) == before


def test_changes_reach_a_collection_and_are_followed(client, name, adopt, fill, put):
    collection = fill(client.create_collection(name, embedding_function=None))
    memory = adopt(collection, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    memory.forget("r0", scope="user/a")
    put(collection, "r1", "Bob plays go")
    report = memory.sync_chroma(collection)
    assert (report.updated, report.unchanged) == (1, 3)
    assert set(collection.get(include=[])["ids"]) == {"r1", "r2", "r3", "new"}
    memory.close()
