import copy
import gc
import json
import pickle
import weakref

import pytest
from blockbuster import BlockingError
from llama_index.core.agent.workflow import CodeActAgent, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolMetadata
from llama_index.core.tools.calling import acall_tool, call_tool

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.llama_index import MemoryToolSpec
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.registry import REGISTRY


def tools_of(memory, scope="user/alice", **options):
    spec = MemoryToolSpec(memory, scope=scope, **{"tools": "all"} | options)
    return {tool.metadata.name: tool for tool in spec.to_tool_list()}


@pytest.fixture
def tool(memory):
    return tools_of(memory)["retrieve_memory"]


def test_every_tool_of_the_registry_is_offered(memory):
    tools = tools_of(memory, allow_scopes=True)
    assert list(tools) == list(REGISTRY)
    for name, tool in tools.items():
        assert isinstance(tool, FunctionTool)
        assert tool.metadata.description == REGISTRY[name].description


def test_today_is_that_of_who_asks(memory):
    memory.remember_fact(scope="user/alice", fact="Alice sees the dentist tomorrow")
    zones = iter(["Pacific/Kiritimati", None])
    tool = tools_of(memory, time_zone=lambda: next(zones))["retrieve_memory"]
    for day in ("2026-03-02", "2026-03-01"):
        assert f"as of {day}] Alice sees the dentist" in tool.call(query="dentist").content
    with pytest.raises(ValidationError, match="Mars/Olympus"):
        tools_of(memory, time_zone="Mars/Olympus")


@pytest.mark.parametrize("allow_scopes", [False, True])
def test_a_model_sees_the_arguments_of_the_registry_and_scopes_only_if_it_may(memory, allow_scopes):
    for name, tool in tools_of(memory, allow_scopes=allow_scopes).items():
        shown = tool.metadata.to_openai_tool()["function"]["parameters"]
        spec = REGISTRY[name]
        assert (
            shown["properties"] == (spec.offered_arguments(allow_scopes=allow_scopes).model_json_schema()["properties"])
        )
        assert "$ref" not in repr(shown)
        assert allow_scopes or not set(spec.scoped) & set(shown["properties"])


def test_content_is_the_markdown_and_the_raw_output_the_raw_object(tool, memory):
    output = tool(query="Lyon", episodic_limit=1)
    expected = memory.retrieve("Lyon", scope="user/alice", episodic_limit=1, record=False)
    assert output.content == expected.to_markdown()
    assert output.raw_output == expected.to_dict()
    assert output.raw_input == {"args": (), "kwargs": {"query": "Lyon", "episodic_limit": 1}}
    assert (output.tool_name, output.is_error) == ("retrieve_memory", False)


async def test_asynchronously_it_answers_the_same(tool):
    assert await tool.acall(query="Lyon") == tool(query="Lyon")
    assert await acall_tool(tool, {"query": "Lyon"}) == call_tool(tool, {"query": "Lyon"})


def test_nothing_to_inject_is_an_empty_content(memory):
    output = tools_of(memory, "nobody")["context_pre_retrieve"](query="Lyon")
    assert (output.content, output.is_error) == ("", False)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "query: Field required"),
        ({"query": "Who?", "scope": "user/bob"}, "scope: Extra inputs are not permitted"),
        ({"query": "Who?", "detail": "loud"}, "unknown detail 'loud'"),
        ({"query": " "}, "Query cannot be empty"),
    ],
)
async def test_an_error_is_answered_with_the_error_object(tool, arguments, problem):
    for output in (tool(**arguments), await tool.acall(**arguments)):
        assert output.is_error
        assert json.loads(output.content) == output.raw_output
        assert output.raw_output["error_type"] == "ValidationError"
        assert problem in output.raw_output["message"]


def test_some_of_the_tools_can_be_chosen(memory):
    spec = MemoryToolSpec(memory, scope="user/alice", tools=["recent_memory", "retrieve_memory"])
    assert [tool.metadata.name for tool in spec.to_tool_list()] == ["recent_memory", "retrieve_memory"]
    assert [tool.metadata.name for tool in spec.to_tool_list(["retrieve_memory"])] == ["retrieve_memory"]
    assert [tool.metadata.name for tool in spec.to_tool_list([("retrieve_memory", "unused")])] == ["retrieve_memory"]


def test_the_four_essential_tools_are_offered_unless_others_are_asked_for(memory):
    spec = MemoryToolSpec(memory, scope="user/alice")
    four = ["retrieve_memory", "memory_store", "memory_update", "memory_delete"]
    assert [tool.metadata.name for tool in spec.to_tool_list()] == spec.spec_functions == four
    further, brief = spec.to_tool_list(["memory_get", "memory_delete"])
    assert further.metadata.description == REGISTRY["memory_get"].description
    assert list(brief.metadata.to_openai_tool()["function"]["parameters"]["properties"]) == [
        "id",
        "message",
        "response_level",
    ]
    with pytest.raises(ConfigurationError, match="not 'everything'"):
        MemoryToolSpec(memory, scope="user/alice", tools="everything")


def test_an_unknown_tool_is_refused(memory):
    with pytest.raises(NotFoundError, match="Unknown tool: memory_wipe"):
        MemoryToolSpec(memory, scope="user/alice", tools=["memory_wipe"])
    with pytest.raises(NotFoundError, match="Unknown tool: memory_wipe"):
        MemoryToolSpec(memory, scope="user/alice").to_tool_list(["memory_wipe"])
    with pytest.raises(ConfigurationError, match=r"must be a list of names: write \['memory_store'\]"):
        MemoryToolSpec(memory, scope="user/alice").to_tool_list("memory_store")
    with pytest.raises(ConfigurationError, match="a list of names, not None"):
        MemoryToolSpec(memory, scope="user/alice", tools=None)


def test_metadata_can_be_given_for_a_tool(memory):
    own = ToolMetadata("Remember.", name="recall", fn_schema=REGISTRY["retrieve_memory"].arguments)
    (tool,) = MemoryToolSpec(memory, scope="user/bob").to_tool_list(["retrieve_memory"], {"retrieve_memory": own})
    assert tool.metadata is own
    assert "Bergen" in tool(query="Who?").content


def test_a_malformed_scope_is_refused(memory):
    with pytest.raises(ValidationError, match="scope must not be empty"):
        MemoryToolSpec(memory, scope="")


@pytest.mark.parametrize("name", ["retrieve_memory", "context_pre_retrieve", "recent_memory"])
def test_scopes_of_like_names_stay_apart(memory, name):
    for scope in ("user/1", "user/10", "user/1/work"):
        memory.remember_fact(scope=scope, fact=f"The code of {scope!r}")
        memory.remember_episode(scope=scope, summary=f"The code of {scope!r} was changed")
    arguments = {} if name == "recent_memory" else {"query": "The code of user/1 and user/10"}
    for scope in ("user/1", "user/10", "user/1/work"):
        output = tools_of(memory, scope)[name](**arguments)
        told = {other for other in ("user/1", "user/10", "user/1/work") if repr(other) in output.content}
        assert told == {scope}


def test_a_function_is_asked_for_the_scope_at_each_call(memory):
    users = iter(["user/bob", "nobody"])
    tool = tools_of(memory, lambda: next(users))["retrieve_memory"]
    assert "Bergen" in tool(query="Who?").content
    assert tool(query="Who?").content == "No relevant memories found."


async def test_the_guard_notices_a_tool_run_on_the_event_loop(tool, no_blocking):
    with pytest.raises(BlockingError):
        tool(query="Lyon")


async def test_a_tool_does_not_block_the_event_loop(tool, no_blocking):
    assert "Lyon" in (await tool.acall(query="Lyon")).content


# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic included.
looks_at_deprecated_attributes = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


def _agent(tools, *calls):
    """An agent whose model makes the given calls one after the other, then says what it was told last."""
    steps = iter(calls)

    def answer(messages, **_):
        arguments = next(steps, None)
        if arguments is None:
            return ChatMessage(role="assistant", content=f"I was told: {messages[-1].content}")
        call = ToolCallBlock(tool_call_id="1", tool_name="retrieve_memory", tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return FunctionAgent(tools=tools, llm=MockFunctionCallingLLM(response_generator=answer, is_chat_model=True))


async def _run(agent):
    handler = agent.run("Where does Bob live?")
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    return results, str(await handler)


@looks_at_deprecated_attributes
async def test_an_agent_looks_things_up(memory):
    tools = MemoryToolSpec(memory, scope="user/bob").to_tool_list()
    (result,), answer = await _run(_agent(tools, {"query": "Where does Bob live?"}))
    assert result.tool_output.raw_output["semantic"][0]["fact"] == "Bob lives in Bergen"
    assert answer == f"I was told: {result.tool_output.content}"
    assert "Bob lives in Bergen" in answer


@looks_at_deprecated_attributes
async def test_an_agent_reads_of_its_mistake_and_tries_again(memory):
    tools = MemoryToolSpec(memory, scope="user/bob").to_tool_list()
    agent = _agent(tools, {"query": "Who?", "scope": "user/alice"}, {"query": "Who?"})
    (mistake, result), answer = await _run(agent)
    assert mistake.tool_output.is_error
    assert not result.tool_output.is_error
    assert "Bob lives in Bergen" in answer


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


def _planning_agent(tools, steps):
    """An agent whose model calls a tool at each step, which is a function of what the tools have answered so far."""

    def answer(messages, **_):
        told = [json.loads(message.content) for message in messages if message.role == "tool"]
        if len(told) == len(steps):
            return ChatMessage(role="assistant", content="Done.")
        name, arguments = steps[len(told)](told)
        call = ToolCallBlock(tool_call_id=str(len(told)), tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[call])

    return FunctionAgent(tools=tools, llm=MockFunctionCallingLLM(response_generator=answer, is_chat_model=True))


@looks_at_deprecated_attributes
async def test_an_agent_stores_searches_updates_merges_and_deletes(memory):
    tools = MemoryToolSpec(memory, scope="user/alice", tools="all", kinds="tool").to_tool_list()
    results, answer = await _run(_planning_agent(tools, LIFE))
    told = [result.tool_output.raw_output for result in results]
    assert [result.tool_output.is_error for result in results] == [False] * 4 + [True] + [False] * 4
    assert told[2]["results"][0]["content"] == "The door code is 4711"
    assert told[3]["updated"] is True
    assert told[4] == {
        "success": False, "error": True, "error_type": "NotFoundError", "message": "Memory not found: no such memory",
    }  # fmt: skip
    assert (told[5]["original_count"], told[6]["total"]) == (2, 1)
    assert told[6]["memories"][0]["content"] == "The door code is 4712\n\n---\n\nThe cellar door sticks"
    assert (told[7]["deleted_count"], told[8]["total_count"]) == (1, 0)
    assert answer == "Done."


def test_scopes_are_relative_to_the_root_where_a_model_may_name_them(memory):
    tools = tools_of(memory, "user/alice/home", root="user/alice", allow_scopes=True)
    assert tools["memory_store"](content="At home").raw_output["scope"] == "home"
    assert tools["memory_store"](content="At work", scope="work").raw_output["scope"] == "work"
    assert tools["memory_store"](content="Elsewhere", scope="../bob").is_error
    assert set(memory.scopes()) == {"user/alice", "user/alice/home", "user/alice/work", "user/bob"}


def test_tools_that_only_read_can_be_chosen_in_a_word(memory):
    reading = tools_of(memory, tools="read")
    assert {"memory_search", "memory_get"} < set(reading)
    assert not [name for name in reading if REGISTRY[name].writes]


@pytest.mark.parametrize(
    "rules",
    [
        {"root": "user/bob"},
        {"kinds": "every"},
        {"kinds": ["all"]},
        {"response_format": "xml"},
        {"sync_directory": ""},
    ],
)
def test_rules_that_no_call_could_follow_are_refused_at_once(memory, rules):
    with pytest.raises(ConfigurationError):
        MemoryToolSpec(memory, scope="user/alice", **rules)


def test_in_the_plain_format_answers_are_plain(memory):
    tools = tools_of(memory, response_format="plain", kinds="all")
    assert list(tools["memory_list"]().raw_output) == ["memories", "total", "limit", "offset"]
    assert tools["memory_list"]().raw_output["total"] == 3


@pytest.mark.parametrize("way", ["to_langchain_tool", "to_langchain_structured_tool"])
async def test_a_tool_becomes_one_for_langchain(memory, way):
    pytest.importorskip("langchain_core", reason="LlamaIndex alone does not bring it")
    [found] = MemoryToolSpec(memory, scope="user/alice", tools=["retrieve_memory"]).to_tool_list()
    tool = getattr(found, way)()
    assert "user/bob" not in str(tool.args)
    called = {"type": "tool_call", "id": "1", "name": tool.name, "args": {"query": "Where does Alice live?"}}
    message = tool.invoke(called)
    assert (message.status, message.content) == ("success", found(query="Where does Alice live?").content)
    assert message.artifact["semantic"][0]["fact"] == "Alice lives in Lyon"
    assert (await tool.ainvoke(called)).content == message.content
    refused = tool.invoke(called | {"args": {"query": "", "scope": "user/bob"}})
    assert (refused.status, json.loads(refused.content)["error_type"]) == ("error", "ValidationError")


@pytest.mark.embedded("a directory is opened again")
@pytest.mark.parametrize("tools", ["essential", "all"])
def test_a_copy_of_the_tools_shares_the_store_and_a_pickle_opens_it_again(tmp_path, tools):
    with AgentMemory.open(tmp_path / "memory", embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope="s", fact="Bob lives in Bergen")
        made = MemoryToolSpec(memory, scope="s", tools=tools)
        for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):  # noqa: S301 - our own
            assert "Bergen" in copied.to_tool_list()[0](query="Bergen").content


@looks_at_deprecated_attributes
async def test_a_code_agent_is_shown_the_functions_by_their_names_with_their_arguments(memory):
    tools = tools_of(memory, tools="essential")
    prompts = []

    def answer(messages, **_):
        prompts.append(messages)
        return ChatMessage(role="assistant", content="<execute>...</execute>" if len(prompts) == 1 else "In Lyon.")

    def execute(code):
        return str(tools["retrieve_memory"].real_fn(query="Lyon"))

    llm = MockFunctionCallingLLM(response_generator=answer, is_chat_model=True)
    await CodeActAgent(code_execute_fn=execute, llm=llm, tools=[*tools.values()]).run("Where do I live?")
    system, code = prompts[0][0].content, prompts[1][-1].content
    assert all(f"\ndef {name}(" in system for name in tools)
    assert "def retrieve_memory(query, category=None, " in system
    assert "\nquery: What to look for, " in system
    assert "Alice lives in Lyon" in code


async def test_arguments_may_be_given_by_place_as_to_any_function_tool(memory):
    tools = tools_of(memory, tools="all")
    assert "Alice lives in Lyon" in tools["retrieve_memory"].call("Where does she live?").content
    assert "Alice lives in Lyon" in (await tools["retrieve_memory"].acall("Where does she live?")).content
    assert tools["memory_store"]("Alice skis", tags=["sport"]).raw_output["success"]
    with pytest.raises(TypeError, match="too many positional arguments"):
        tools["memory_get"].call(*"abcdefgh")


def test_metadata_that_name_no_arguments_keep_those_of_the_tool(memory):
    described = {"retrieve_memory": ToolMetadata("Recall.", name="recall"), "memory_store": ToolMetadata("Keep.")}
    recall, keep, *_ = MemoryToolSpec(memory, scope="user/bob").to_tool_list(None, described)
    assert [tool.metadata.name for tool in (recall, keep)] == ["recall", "memory_store"]
    assert recall.metadata.description == "Recall."
    assert recall.metadata.get_parameters_dict()["required"] == ["query"]
    assert "Bergen" in recall(query="Who?").content


def test_a_memory_goes_with_the_last_of_its_tools():
    memory = AgentMemory.in_memory(embedder=HashEmbedder())
    tools, kept = tools_of(memory), weakref.ref(memory)
    assert tools["retrieve_memory"].call("tea").is_error is False
    gc.collect()
    gc.disable()  # nothing waits for it
    try:
        del tools, memory
        assert kept() is None
    finally:
        gc.enable()


def test_an_unknown_option_is_refused_with_the_known_ones(memory):
    expected = (
        "unexpected keyword argument 'tool'; the arguments of MemoryToolSpec are memory, scope, tools, time_zone, al"
    )
    with pytest.raises(TypeError, match=expected):
        MemoryToolSpec(memory, scope="user/bob", tool="all")
