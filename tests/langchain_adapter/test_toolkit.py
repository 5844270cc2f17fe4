"""An agent that manages its own memory."""

import json

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.langchain import MemoryToolkit, RegistryTool
from memory_retrievers.tools.registry import REGISTRY, offered_tools


class PlanningChatModel(BaseChatModel):
    """Calls a tool at each step; a step is a function of what the tools have answered so far."""

    steps: list

    @property
    def _llm_type(self):
        return "planning"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, *args, **kwargs):
        told = [json.loads(message.content) for message in messages if isinstance(message, ToolMessage)]
        if len(told) == len(self.steps):
            said = AIMessage("Done.")
        else:
            name, arguments = self.steps[len(told)](told)
            call = {"name": name, "args": arguments, "id": f"call-{len(told)}", "type": "tool_call"}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


LIFE = [
    lambda told: ("memory_store", {"content": "The door code is 4711", "tags": ["door"]}),
    lambda told: ("memory_store", {"content": "The cellar door sticks", "tags": ["door"]}),
    lambda told: ("memory_search", {"query": "door code", "top_k": 1}),
    lambda told: ("memory_update", {"id": told[2]["results"][0]["id"], "content": "The door code is 4712"}),
    lambda told: ("memory_get", {"id": "no such memory"}),
    lambda told: (
        "memory_consolidate",
        {"memory_ids": [told[0]["memory_id"], told[1]["memory_id"]], "preserve_originals": False},
    ),
    lambda told: ("memory_list", {}),
    lambda told: ("memory_delete", {"id": told[5]["consolidated_memory_id"]}),
    lambda told: ("memory_search", {"query": "door"}),
]


def names(toolkit):
    return [tool.name for tool in toolkit.get_tools()]


async def test_an_agent_stores_searches_updates_merges_and_deletes(memory):
    tools = MemoryToolkit(memory, scope="user/alice", tools="all", kinds="tool").get_tools()
    agent = create_agent(PlanningChatModel(steps=LIFE), tools=tools)
    state = await agent.ainvoke({"messages": [{"role": "user", "content": "Look after the doors"}]})
    messages = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    told = [json.loads(message.content) for message in messages]
    assert [message.status for message in messages] == ["success"] * 4 + ["error"] + ["success"] * 4
    assert told[2]["results"][0]["content"] == "The door code is 4711"
    assert told[3]["updated"] is True
    assert told[4] == {
        "success": False, "error": True, "error_type": "NotFoundError", "message": "Memory not found: no such memory",
    }  # fmt: skip
    assert (told[5]["original_count"], told[6]["total"]) == (2, 1)
    assert told[6]["memories"][0]["content"] == "The door code is 4712\n\n---\n\nThe cellar door sticks"
    assert (told[7]["deleted_count"], told[8]["total_count"]) == (1, 0)
    assert [message.artifact for message in messages if message.status == "success"] == told[:4] + told[5:]
    assert state["messages"][-1].content == "Done."


def test_the_four_essential_tools_are_offered_unless_others_are_asked_for(memory):
    four = ["retrieve_memory", "memory_store", "memory_update", "memory_delete"]
    assert names(MemoryToolkit(memory, scope="user/alice")) == four
    assert names(MemoryToolkit(memory, scope="user/alice", tools="essential", allow_scopes=True)) == four


def test_every_tool_is_offered_that_needs_no_scope_from_the_model(memory):
    toolkit = MemoryToolkit(memory, scope="user/alice", tools="all")
    assert names(toolkit) == [tool.name for tool in offered_tools("all", allow_scopes=False)]
    assert all(isinstance(tool, RegistryTool) for tool in toolkit.get_tools())
    assert names(MemoryToolkit(memory, scope="user/alice", tools="all", allow_scopes=True)) == list(REGISTRY)


def test_some_of_the_tools_can_be_chosen(memory):
    chosen = MemoryToolkit(memory, scope="user/alice", tools=["memory_store", "retrieve_memory"])
    assert names(chosen) == ["memory_store", "retrieve_memory"]
    reading = names(MemoryToolkit(memory, scope="user/alice", tools="read"))
    assert {"memory_search", "memory_get"} < set(reading)
    assert not [name for name in reading if REGISTRY[name].writes]


@pytest.mark.parametrize(("chosen", "problem"), [(["wipe"], "Unknown tool: wipe"), (["memory_move"], "about scopes")])
def test_a_tool_that_is_not_offered_is_refused(memory, chosen, problem):
    with pytest.raises(NotFoundError, match=problem):
        MemoryToolkit(memory, scope="user/alice", tools=chosen)
    with pytest.raises(ConfigurationError, match="'essential', 'all', 'read' or a list of names, not 'everything'"):
        MemoryToolkit(memory, scope="user/alice", tools="everything")


@pytest.mark.parametrize("rules", [{"root": "user/bob"}, {"kinds": "every"}, {"response_format": "xml"}])
def test_rules_that_no_call_could_follow_are_refused_at_once(memory, rules):
    with pytest.raises(ConfigurationError):
        MemoryToolkit(memory, scope="user/alice", **rules)
    with pytest.raises(ValidationError):
        MemoryToolkit(memory, root="..")
    with pytest.raises(ValidationError):
        MemoryToolkit(memory, scope="user/alice", scope_from="thread")


def run(toolkit, name, config=None, **arguments):
    tool = next(tool for tool in toolkit.get_tools() if tool.name == name)
    return json.loads(tool.invoke({"name": name, "args": arguments, "id": "1", "type": "tool_call"}, config).content)


def test_the_scope_may_come_from_the_configuration_of_each_call(memory):
    toolkit = MemoryToolkit(memory, tools="all")
    bob, eve = ({"configurable": {"user_id": f"user/{name}"}} for name in ("bob", "eve"))
    stored = run(toolkit, "memory_store", bob, content="The door code is 4711")
    assert run(toolkit, "memory_get", bob, id=stored["id"])["content"] == "The door code is 4711"
    assert run(toolkit, "memory_get", eve, id=stored["id"])["error_type"] == "NotFoundError"
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        run(toolkit, "memory_list")
    tool = MemoryToolkit(memory, scope_from=lambda config: "user/bob", tools=["memory_list"]).get_tools()[0]
    assert json.loads(tool.invoke({}))["total"] == 2


def test_scopes_are_relative_to_the_root_where_a_model_may_name_them(memory):
    toolkit = MemoryToolkit(memory, scope="user/alice/home", root="user/alice", allow_scopes=True)
    assert run(toolkit, "memory_store", content="At home")["scope"] == "home"
    assert run(toolkit, "memory_store", content="At work", scope="work")["scope"] == "work"
    assert run(toolkit, "memory_store", content="At the root", scope=".")["scope"] == "."
    assert run(toolkit, "memory_store", content="Elsewhere", scope="../bob")["error_type"] == "ValidationError"
    assert set(memory.scopes()) == {"user/alice", "user/alice/home", "user/alice/work", "user/bob"}


def test_kinds_and_the_format_of_the_answers_are_the_hosts(memory):
    assert run(MemoryToolkit(memory, scope="user/alice", tools="all"), "memory_list")["total"] == 3
    own = MemoryToolkit(memory, scope="user/alice", tools="all", response_format="plain")
    assert run(own, "memory_list")["total"] == 0
    everything = MemoryToolkit(memory, scope="user/alice", tools="all", kinds="all", response_format="plain")
    assert list(run(everything, "memory_list")) == ["memories", "total", "limit", "offset"]
    assert run(everything, "memory_list")["total"] == 3
    assert run(everything, "memory_get", id="m9") == {
        "error": True, "error_type": "NotFoundError", "message": "Memory not found: m9",
    }  # fmt: skip


def test_the_live_memory_is_neither_shown_nor_dumped(memory):
    toolkit = MemoryToolkit(memory, scope="user/alice")
    assert "AgentMemory" not in repr(toolkit)
    assert "memory" not in toolkit.model_dump()


def test_an_unknown_option_is_refused_with_the_known_ones(memory):
    expected = (
        "^unexpected keyword argument 'tool'; the arguments of MemoryToolkit are memory, scope, scope_from, tools, al"
    )
    with pytest.raises(TypeError, match=expected):
        MemoryToolkit(memory, scope="user/bob", tool="all")
