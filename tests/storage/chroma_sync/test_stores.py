"""What may be given as a collection: LangChain's and LlamaIndex's vector stores as they are."""

import warnings

import pytest
from langchain_chroma import Chroma
from llama_index.vector_stores.chroma import ChromaVectorStore

from memory_retrievers import AgentMemory, ConfigurationError, EmbeddingMismatchError
from memory_retrievers.testing import HashEmbedder, inside


@pytest.fixture
def client():
    import chromadb

    return chromadb.EphemeralClient()


@pytest.fixture
def community_chroma():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_community.vectorstores.chroma import Chroma as CommunityChroma

        yield CommunityChroma


@pytest.fixture(params=["langchain_chroma", "langchain_community"])
def chroma(request, client, texts, community_chroma):
    """A LangChain store with the documents d0, d1 …"""
    kind = Chroma if request.param == "langchain_chroma" else community_chroma
    store = kind(collection_name=f"s-{abs(hash(request.node.name))}", embedding_function=Embeddings(), client=client)
    store.add_texts(texts, metadatas=[{"n": number} for number in range(4)], ids=[f"d{n}" for n in range(4)])
    return store


class Embeddings(HashEmbedder):
    """An embedder with a name of its own, in LangChain's shape."""


def test_a_langchain_chroma_is_taken_and_followed_with_the_embedder_it_has(chroma, texts, tmp_path, clock):
    path = tmp_path / "store"
    with AgentMemory.from_chroma(chroma, path=path, scope="user/a", clock=clock) as memory:
        assert memory.get("d2", scope="user/a").fact == texts[2]
        assert inside(memory).embedder.id == "Embeddings"
        chroma.add_texts(["Emil sings"], metadatas=[{"n": 4}], ids=["d4"])
        chroma.delete(ids=["d0"])
        report = memory.sync_chroma(chroma)
        assert (report.adopted, report.forgotten) == (1, 1)
        assert memory.retrieve("Emil sings", scope="user/a").semantic[0].memory.id == "d4"


def test_an_embedder_that_is_given_goes_before_the_one_of_the_store(chroma, adopt):
    with pytest.raises(EmbeddingMismatchError, match="64 numbers"):
        adopt(chroma, embedder=HashEmbedder(64))
    assert inside(adopt(chroma, embedder_id="mine")).embedder.id == "mine"


def test_changes_are_written_through_to_a_langchain_chroma(chroma, adopt):
    memory = adopt(chroma, write_through=True)
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    memory.update("d1", scope="user/a", metadata={"n": 7})
    memory.forget("d0", scope="user/a")
    assert set(chroma.get()["ids"]) == {"d1", "d2", "d3", "new"}
    (found,) = chroma.similarity_search("note: Emil sings", k=1)
    assert found.page_content == "Emil sings"
    assert chroma.get(ids=["d1"])["metadatas"] == [{"n": 7}]


def test_a_llama_index_store_is_taken_and_followed_with_the_embedder_that_is_given(collection, adopt, put):
    store = ChromaVectorStore(chroma_collection=collection)
    memory = adopt(store)
    put(collection, "r4", "Emil sings")
    assert memory.sync_chroma(store).adopted == 1
    with pytest.raises(EmbeddingMismatchError, match="gives vectors of 384 numbers"):
        adopt(store, embedder=None)


def test_a_store_that_has_lost_its_collection_says_so(client, adopt):
    store = Chroma(collection_name="lost", embedding_function=HashEmbedder(), client=client)
    store.delete_collection()
    with pytest.raises(ConfigurationError, match="this Chroma no longer has a collection"):
        adopt(store)


@pytest.mark.parametrize("thing", [None, "documents", object(), HashEmbedder(), Chroma, ["r0"]])
def test_what_is_neither_is_refused_with_what_is_taken(collection, adopt, thing):
    taken = r"not a Chroma collection: give what client\.get_collection\(\.\.\.\) gives, a LangChain Chroma, or a Llama"
    with pytest.raises(ConfigurationError, match=taken):
        adopt(thing)
    with pytest.raises(ConfigurationError, match=taken):
        adopt(collection).sync_chroma(thing)
