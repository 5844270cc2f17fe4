import pytest

from memory_retrievers import AgentMemory, SemanticMemory
from memory_retrievers.backends.sql import snapshots
from memory_retrievers.langchain import MemoryRetriever as LangChainRetriever
from memory_retrievers.llama_index import MemoryRetriever as LlamaIndexRetriever
from memory_retrievers.settings import ToolSettings
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext


def test_short_term_memories_expire_by_themselves_only_where_the_host_wants_it(clock):
    settings = ToolSettings(short_term_expires=True)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        toolbox.call("memory_store", {"content": "soon gone", "memory_tier": "short_term"})
        clock.advance(seconds=3_599)
        assert toolbox.call("memory_list", {}).artifact["total"] == 1
        clock.advance(seconds=1)
        assert toolbox.call("memory_list", {}).artifact["total"] == 0


def test_the_limits_are_the_hosts(clock):
    settings = ToolSettings(max_content_length=10, max_tags=1)
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings) as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        for arguments in ({"content": "x" * 11}, {"content": "x", "tags": ["a", "b"]}):
            assert toolbox.call("memory_store", arguments).is_error
        assert not toolbox.call("memory_store", {"content": "x" * 10, "tags": ["a"]}).is_error


def test_what_the_host_holds_back_is_not_stored(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, before_store=lambda record: None) as memory:
        answer = LocalToolbox(ToolContext(memory=memory, root="c1")).call("memory_store", {"content": "x"}).artifact
        assert answer["message"] == "before_store rejected this; nothing was stored"
        assert memory.list("c1").memories == ()


def test_a_stored_memory_is_found_by_every_way_of_retrieving(small, tool, plain_tool):
    id = tool("memory_store", content="The irrigation pump is in the cellar")["id"]
    question = "Where is the irrigation pump?"
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice"))
    assert "irrigation pump is in the cellar" in toolbox.call("retrieve_memory", {"query": question}).content
    langchain = LangChainRetriever(memory=small, scope="user/alice", k=1)
    assert [document.id for document in langchain.invoke(question)] == [id]
    llama_index = LlamaIndexRetriever(memory=small, scope="user/alice", k=1)
    assert [hit.node.node_id for hit in llama_index.retrieve(question)] == [id]
    for mode in ("semantic", "keyword", "hybrid"):
        assert [hit["id"] for hit in plain_tool("memory_search", query=question, search_mode=mode)["results"]] == [id]


def test_what_was_stored_survives_a_restart(tmp_path, clock):
    def opened():
        return AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock)

    with opened() as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1", response_format="plain"))
        arguments = {"content": "Kept for good", "tags": ["a"], "metadata": {"n": 1}, "agent_id": "x"}
        id = toolbox.call("memory_store", arguments).artifact["id"]
        toolbox.call("memory_set_score", {"id": id, "score": 0.0})
        before = toolbox.call("memory_get", {"id": id}).artifact
    with opened() as memory:
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1", response_format="plain"))
        assert toolbox.call("memory_get", {"id": id}).artifact == before
        score = toolbox.call("memory_get_score", {"id": id}).artifact
        assert (score["importance_score"], score["access_count"]) == (0.0, 2)
        assert toolbox.call("memory_search", {"query": "Kept for good"}).artifact["results"][0]["id"] == id


def test_a_store_that_is_only_looked_into_refuses_to_store(tmp_path, clock):
    AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock).close()
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock, read_only=True) as memory:
        answer = LocalToolbox(ToolContext(memory=memory, root="c1")).call("memory_store", {"content": "x"}).artifact
        assert answer["error_type"] == "ConfigurationError"


@pytest.fixture
def loads(monkeypatch):
    """Whether each snapshot of a scope was loaded inside a transaction; every one counts as large."""
    loads, load = [], snapshots.Snapshots._load

    def noting(self, connection, selection):
        loads.append(connection.in_transaction and self._passages.database.is_writing)
        return load(self, connection, selection)

    monkeypatch.setattr(snapshots, "_SMALL", -1)
    monkeypatch.setattr(snapshots.Snapshots, "_load", noting)
    return loads


ONE = {"content": "The mill grinds rye", "duplicate_threshold": 0.99}
MANY = {"items": [ONE | {"content": f"The mill grinds {grain}"} for grain in ("rye", "oats", "spelt")]}


@pytest.mark.parametrize(("name", "arguments"), [("memory_store", ONE), ("memory_batch_store", MANY)])
def test_nobody_waits_while_what_is_compared_with_is_loaded(tmp_path, clock, loads, name, arguments):
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_many(
            [SemanticMemory.new(scope="c1", fact=f"Field {number} lies fallow") for number in range(5)]
        )
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        loads.clear()
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        assert toolbox.call(name, arguments).artifact["success"]
        assert loads
        assert not any(loads)
        first = len(loads)
        assert not toolbox.call("memory_store", {"content": "The barn is full of hay"}).is_error
        assert len(loads) == first


def test_what_finds_no_room_in_memory_is_loaded_where_it_is_needed(tmp_path, clock, loads, monkeypatch):
    monkeypatch.setattr(snapshots.Snapshots, "_keep", lambda self, key, entry: None)
    with AgentMemory.open(tmp_path, embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_many(
            [SemanticMemory.new(scope="c1", fact=f"Field {number} lies fallow") for number in range(5)]
        )
        loads.clear()
        toolbox = LocalToolbox(ToolContext(memory=memory, root="c1"))
        assert toolbox.call("memory_store", ONE).artifact["success"]
        assert loads.count(True) >= 1
        assert len(memory.list("c1").memories) == 6
