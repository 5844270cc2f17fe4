"""Collections of LlamaIndex: the user's text and metadata become memories, and LlamaIndex's own fields stay its own."""

import json

import pytest
from cases import tried_in_one
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.chroma import ChromaVectorStore

from memory_retrievers import AdoptionReport, AgentMemory
from memory_retrievers.storage.chroma_sync.collection import embedded_text, without_own_fields
from memory_retrievers.testing import HashEmbedder, inside

OWN = {"_node_content", "_node_type", "document_id", "doc_id", "ref_doc_id"}


@pytest.fixture
def nodes(make_collection, texts):
    """A collection that LlamaIndex filled with the nodes n0, n1 …, all cut from one document."""
    collection = make_collection()
    made = [
        TextNode(
            id_=f"n{number}",
            text=text,
            metadata={"page": number, "file": "notes.md"},
            embedding=HashEmbedder().embed_query(text),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="the-document")},
        )
        for number, text in enumerate(texts)
    ]
    ChromaVectorStore(chroma_collection=collection).add(made)
    return collection


@pytest.fixture
def asked(nodes):
    """What LlamaIndex answers from its collection: text and metadata of each node, by its id."""

    def asked():
        query = VectorStoreQuery(query_embedding=HashEmbedder().embed_query("x"), similarity_top_k=10)
        found = ChromaVectorStore(chroma_collection=nodes).query(query)
        return {node.node_id: (node.text, node.metadata, node.ref_doc_id) for node in found.nodes}

    return asked


def test_metadata_and_prompts_show_what_is_the_users_alone(nodes, adopt, texts):
    memory = adopt(nodes)
    assert memory.get("n2", scope="user/a").metadata == {"page": 2, "file": "notes.md"}
    assert memory.get("n2", scope="user/a").fact == texts[2]
    found = memory.retrieve("nuts", scope="user/a")
    for shown in (memory.context("nuts", scope="user/a").to_markdown(), json.dumps(found.to_dict())):
        assert not any(field in shown for field in OWN)
        assert "the-document" not in shown


def test_a_key_of_the_users_own_is_kept_where_no_llama_index_wrote(make_collection, fill, adopt):
    collection = fill(make_collection(), metadatas=[{"doc_id": "d1", "_node_content": "x"}] * 4)
    assert adopt(collection).get("r0", scope="user/a").metadata == {"doc_id": "d1", "_node_content": "x"}


def test_the_document_of_a_node_may_name_its_scope(nodes, adopt):
    assert adopt(nodes, scope_key="ref_doc_id").scopes() == ["the-document"]


def test_a_node_without_a_document_has_its_text_in_the_node(make_collection, adopt, texts):
    collection = make_collection()
    for number, content in enumerate(({"text": texts[0]}, {"text_resource": {"text": texts[1]}})):
        collection.add(
            ids=[f"n{number}"],
            embeddings=[HashEmbedder().embed_query(texts[number])],
            metadatas=[{"_node_content": json.dumps(content), "_node_type": "TextNode"}],
        )
    memory = adopt(collection)
    assert [memory.get(f"n{number}", scope="user/a").fact for number in range(2)] == texts[:2]


@pytest.mark.parametrize(
    "content",
    ["[" * 500_000, '{"metadata":' * 200_000, '{"text": "' + "x" * 3_000_000 + '"}', "[]", "null", "{", ""],
    ids=["deep", "deep objects", "long", "list", "null", "cut", "empty"],
)
def test_a_node_that_cannot_be_read_is_taken_by_its_plain_fields_or_skipped(make_collection, adopt, skipped, content):
    collection = make_collection()
    metadata = {"_node_content": content, "_node_type": "TextNode", "page": 1}
    vector = HashEmbedder().embed_query("Ruth keeps bees")
    collection.add(ids=["good"], embeddings=[vector], documents=["Ruth keeps bees"], metadatas=[metadata])
    collection.add(ids=["bare"], embeddings=[vector], metadatas=[metadata])
    memory = adopt(collection)
    assert memory.get("good", scope="user/a").metadata == {"page": 1}
    assert skipped(memory.adoption) == {"no_text": (1, ("bare",))}
    memory.sync_chroma(collection)


@pytest.mark.parametrize(
    "node",
    [
        {"metadata": {"a": "x" * 100_000}, "metadata_template": "{value}" * 100_000},
        {"metadata": {"{value}" * 50_000: "x" * 100_000}, "metadata_template": "{key}"},
        {"metadata": {str(n): n for n in range(100_000)}, "metadata_separator": "x" * 900},
        {"metadata": {"a": 1}, "text_template": "{metadata_str}" * 100},
        {"metadata": {"a": 1}, "excluded_embed_metadata_keys": 7},
    ],
)
def test_templates_of_a_node_cannot_blow_its_text_up(node):
    content = {"_node_content": json.dumps(node), "_node_type": "TextNode"}
    assert len(embedded_text(content, "bees") or "") < 1_000_000


def test_what_is_written_through_leaves_llama_index_its_nodes_and_shows_it_the_changes(nodes, adopt, asked, texts):
    before = asked()
    memory = adopt(nodes, write_through=True)
    memory.update("n0", scope="user/a", fact="Alice likes rum")
    memory.update("n1", scope="user/a", metadata={"page": 7, "seen": True})
    memory.remember_fact(scope="user/a", fact="Emil sings", id="new")
    memory.remember_fact(scope="user/a", fact="Frieda dances", id="with", metadata={"page": 9})
    after = asked()
    assert after["n0"] == ("Alice likes rum", {"page": 0, "file": "notes.md"}, "the-document")
    assert after["n1"] == (texts[1], {"page": 7, "seen": True}, "the-document")
    assert (after["n2"], after["n3"]) == (before["n2"], before["n3"])
    assert after["with"] == ("Frieda dances", {"page": 9}, None)
    assert after["new"][0] == "Emil sings"
    rows = nodes.get(ids=["n0", "n1", "n2"])["metadatas"]
    assert all(row["ref_doc_id"] == "the-document" for row in rows)
    assert without_own_fields(rows[1]) == {"page": 7, "seen": True}
    assert memory.sync_chroma(nodes) == AdoptionReport(unchanged=6)
    ChromaVectorStore(chroma_collection=nodes).delete("the-document")
    assert memory.sync_chroma(nodes, confirm=True).forgotten == 4


@pytest.mark.parametrize("depth", [100, 900, 960, 990, 2_000, 50_000])
def test_a_node_with_odd_values_in_it_neither_stops_a_change_here_nor_is_lost(make_collection, adopt, depth):
    collection = make_collection()
    odd = '{"metadata": {"page": 1, "deep": ' + "[" * depth + "]" * depth + ', "half": "\\ud800"}, "text": "\\ud800"}'
    metadata = {"_node_content": odd, "_node_type": "TextNode", "page": 1}
    vector = HashEmbedder().embed_query("something else")
    collection.add(ids=["n0"], embeddings=[vector], documents=["Ruth keeps bees"], metadatas=[metadata])
    collection.add(ids=["bare"], embeddings=[vector], metadatas=[metadata])
    memory = adopt(collection, write_through=True, embedder=lambda texts: [vector] * len(texts))
    memory.update("n0", scope="user/a", metadata={"page": 2})
    assert all(each.fact.encode() for each in memory.list("user/a").memories)
    (row,) = collection.get(ids=["n0"])["metadatas"]
    assert without_own_fields(row) == {"page": 2}
    assert len(row["_node_content"]) >= 2 * depth
    assert inside(memory).adopted.unwritten(limit=1) is None
    memory.sync_chroma(collection)


@tried_in_one("depth", [100, 900, 960, 990, 2_000, 50_000])
def test_a_node_with_odd_values_has_no_other_text_to_be_embedded(depth):
    odd = '{"metadata": {"deep": ' + "[" * depth + "]" * depth + "}}"
    assert embedded_text({"_node_content": odd, "_node_type": "TextNode"}, "bees") is None


def test_a_store_that_follows_nodes_is_opened_and_followed_by_its_path(nodes, adopt, tmp_path):
    adopt(nodes, path=tmp_path / "store").close()
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), dense="exact") as memory:
        assert memory.sync_chroma(ChromaVectorStore(chroma_collection=nodes)) == AdoptionReport(unchanged=4)
