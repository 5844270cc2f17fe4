"""The LangChain and LlamaIndex classes and the toolboxes answer over a server as they do over the memory itself."""

import asyncio
import json

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from llama_index.core.base.llms.types import ChatMessage

from memory_retrievers import SceneEvent, langchain, llama_index
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext

ALICE = "user/alice"


@pytest.fixture(params=["here", "there"])
def either(request, memory, remote):
    """The memory itself, or the same memory over the server."""
    return memory if request.param == "here" else remote


def test_both_retrievers_find_the_same_documents(either, memory):
    documents = langchain.MemoryRetriever(memory=either, scope=ALICE, k=3, detail="high", with_scores=True).invoke(
        "Lyon"
    )
    expected = langchain.MemoryRetriever(memory=memory, scope=ALICE, k=3, detail="high", with_scores=True).invoke(
        "Lyon"
    )
    assert documents == expected
    assert documents[0].metadata["dense_rank"]

    nodes = llama_index.MemoryRetriever(memory=either, scope=ALICE, k=3).retrieve("Lyon")
    expected = llama_index.MemoryRetriever(memory=memory, scope=ALICE, k=3).retrieve("Lyon")
    assert [(node.score, node.text, node.metadata) for node in nodes] == [
        (node.score, node.text, node.metadata) for node in expected
    ]
    assert nodes


def test_a_classic_memory_recalls_and_keeps(either, memory):
    conversation = langchain.ConversationMemory(memory=either, scope=ALICE)
    assert "Alice lives in Lyon" in conversation.load_memory_variables({"input": "Lyon"})["history"]
    conversation.save_context({"input": "I bought bees"}, {"output": "How many?"})
    assert memory.stats(ALICE).queued_messages == 2
    conversation.clear()
    assert memory.stats(ALICE).facts == 0


def test_a_memory_of_llama_index_recalls_and_keeps(either, memory):
    conversation = llama_index.ConversationMemory.from_defaults(memory=either, scope=ALICE)
    conversation.put(ChatMessage(role="user", content="Where do I live? In Lyon?"))
    block, *_ = conversation.get()
    assert "Alice lives in Lyon" in block.content
    assert memory.stats(ALICE).queued_messages == 1


async def test_a_middleware_gives_an_agent_its_memory(either, memory):
    from langchain.agents import create_agent

    model = GenericFakeChatModel(messages=iter([AIMessage("In Lyon.")]))
    agent = create_agent(model, middleware=[langchain.AgentMemoryMiddleware(memory=either)])
    configured = {"configurable": {"user_id": ALICE}}
    answer = await agent.ainvoke({"messages": [("user", "Where do I live?")]}, configured)
    assert answer["messages"][-1].content == "In Lyon."
    assert memory.stats(ALICE).queued_messages == 2


async def test_a_block_recalls_and_keeps(either, memory):
    block = llama_index.LongTermMemoryBlock(memory=either, scope=ALICE)
    content = await block.aget([ChatMessage(role="user", content="Where does Alice live? Lyon?")])
    assert "Alice lives in Lyon" in str(content)
    await block.aput([ChatMessage(role="user", content="I bought bees")])
    assert memory.stats(ALICE).queued_messages == 1


def test_a_toolkit_stores_finds_and_deletes(either, memory):
    tools = {tool.name: tool for tool in langchain.MemoryToolkit(either, scope=ALICE, tools="all").get_tools()}
    stored = json.loads(tools["memory_store"].invoke({"content": "Alice keeps bees"}))
    assert memory.get(stored["id"], scope=ALICE).fact == "Alice keeps bees"
    assert "Alice keeps bees" in tools["memory_search"].invoke({"query": "bees"})
    assert json.loads(tools["memory_delete"].invoke({"id": stored["id"]}))["success"]
    message = tools["memory_get"].invoke({"type": "tool_call", "id": "1", "name": "x", "args": {"id": stored["id"]}})
    assert message.status == "error"
    assert json.loads(message.content) == {
        "success": False,
        "error": True,
        "error_type": "NotFoundError",
        "message": f"Memory not found: {stored['id']}",
    }


def test_a_tool_spec_stores_and_finds(either, memory):
    tools = {
        tool.metadata.name: tool for tool in llama_index.MemoryToolSpec(either, scope=ALICE, tools="all").to_tool_list()
    }
    stored = asyncio.run(tools["memory_store"].acall(content="Alice keeps bees"))
    assert memory.get(stored.raw_output["id"], scope=ALICE).fact == "Alice keeps bees"
    assert tools["memory_get"](id="b1").is_error


CALLS = [
    ("retrieve_memory", {"query": "Lyon", "response_level": "full"}),
    ("retrieve_memory", {"query": "Lyon", "response_level": "minimal"}),
    ("context_pre_retrieve", {"query": "Lyon"}),
    ("context_pre_retrieve", {"query": "Lyon", "response_level": "minimal"}),
    ("recent_memory", {"limit": 1}),
    ("recent_memory", {"limit": 1, "response_level": "full"}),
    ("memory_get", {"id": "f1", "response_level": "full"}),
    ("memory_get", {"id": "b1"}),
    ("memory_get", {}),
    ("memory_store", {"content": "x", "scope": "work"}),
    ("memory_batch_store", {"items": [{"content": "x"}, {"content": ""}], "response_level": "full"}),
    ("memory_set_score", {"id": "f1", "score": 0.25}),
    ("memory_move", {"memory_ids": ["f1"], "target_scope": "work"}),
    ("no_such_tool", {}),
    ("memory_search", {"query": "Lyon"}),
    ("memory_update", {"id": "f1", "tags": ["home"]}),
    ("memory_delete", {"id": "f1"}),
    ("memory_batch_update", {"updates": [{"id": "f1", "metadata": {"a": 1}}]}),
    ("memory_get_score", {"id": "f1"}),
    ("memory_consolidate", {"memory_ids": ["f1"]}),
    ("memory_manage", {"operation": "update", "memory_id": "f1", "tags": ["home"]}),
    ("memory_discover_associations", {"memory_id": "f1"}),
    ("memory_list_all", {}),
    ("memory_sync", {"operation": "export"}),
    ("scope_list", {"response_level": "full"}),
    ("scope_suggest", {"content": "A bug in the code"}),
    ("session_manage", {"action": "create", "session_id": "planning"}),
    ("memory_list", {}),
    ("scene", {"chat_length": 60}),
    ("scene", {"chat_length": -1}),
]


def test_every_tool_is_called_on_a_server_too():
    assert {name for name, _ in CALLS} == {*REGISTRY, "no_such_tool"}


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=str)
def test_a_toolbox_on_a_server_answers_as_one_in_this_process(twin, served, tokens, name, arguments):
    expected = LocalToolbox(ToolContext(memory=twin, root=ALICE)).call(name, arguments)
    with RemoteMemory(served[1], tokens["writer"]) as there:
        assert LocalToolbox(ToolContext(memory=there, root=ALICE)).call(name, arguments) == expected


def test_a_toolbox_tells_the_scene_of_the_server(served, tokens):
    memory, url = served
    mara = {"message_ids": [3], "characters_involved": ["Mara"], "emotional_impact": {"Mara": "glad"}}
    memory.add_scene_events(ALICE, [SceneEvent(summary="Mara found the key", **mara)])
    memory.add_scene_events("user/bob", [SceneEvent(summary="A zebra won the race", **mara)])
    arguments = {"chat_length": 60, "present": ["Oren"], "query": "the key", "response_level": "full"}
    with RemoteMemory(url, tokens["reader"]) as there:
        output = LocalToolbox(ToolContext(memory=there, root=ALICE)).call("scene", arguments)
    assert output == LocalToolbox(ToolContext(memory=memory, root=ALICE)).call("scene", arguments)
    assert "Present: Oren\nEmotions: Mara glad\n\n[★★★] Mara found the key\n" in output.artifact["scene"]
    assert "zebra" not in output.content


def test_what_is_the_servers_to_fix_cannot_be_fixed_here(remote):
    (tool,) = langchain.MemoryToolkit(remote, scope="user/alice", kinds="all", tools=["memory_get"]).get_tools()
    assert "are the server's" in tool.invoke({"id": "f1"})
    (tool,) = langchain.MemoryToolkit(remote, scope="user/alice/work", root=ALICE, tools=["memory_get"]).get_tools()
    assert "the scope is the root" in tool.invoke({"id": "f1"})
    with pytest.raises(ConfigurationError, match="needs an AgentMemory"):
        langchain.MemoryStoreAdapter(remote, scope=ALICE)


class TestRetrieverOverAServer(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _served(self, remote):
        type(self).remote = remote

    @property
    def retriever_constructor(self):
        return langchain.MemoryRetriever

    @property
    def retriever_constructor_params(self):
        return {"memory": self.remote, "scope": ALICE}

    @property
    def retriever_query_example(self):
        return "What happened in Lyon?"


class TestToolOverAServer(ToolsIntegrationTests):
    @pytest.fixture(autouse=True)
    def _served(self, remote):
        type(self).remote = remote

    @property
    def tool_constructor(self):
        return langchain.RetrieveMemoryTool

    @property
    def tool_constructor_params(self):
        return {"memory": self.remote, "scope": ALICE}

    @property
    def tool_invoke_params_example(self):
        return {"query": "Lyon", "episodic_limit": 2, "detail": "high"}
