import json

import pytest
from langchain_core.tools import ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.langchain import RegistryTool, RetrieveMemoryTool
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.tool import ToolPolicy

BOB = {"configurable": {"user_id": "user/bob"}}


@pytest.fixture
def tool(memory):
    return RetrieveMemoryTool(memory=memory)


def call(name="retrieve_memory", **arguments):
    return {"name": name, "args": arguments, "id": "call-1", "type": "tool_call"}


def test_content_is_the_markdown_and_the_artifact_the_raw_object(tool, memory):
    message = tool.invoke(call(query="Lyon"), {"configurable": {"user_id": "user/alice"}})
    expected = memory.retrieve("Lyon", scope="user/alice", record=False)
    assert message.content == expected.to_markdown()
    assert message.artifact == expected.to_dict()
    assert (message.status, message.name, message.tool_call_id) == ("success", "retrieve_memory", "call-1")


def test_today_is_that_of_who_asks(tool, memory):
    memory.remember_fact(scope="user/bob", fact="Bob sees the dentist tomorrow")
    for zone, day in (("Pacific/Kiritimati", "2026-03-02"), (None, "2026-03-01")):
        config = {"configurable": {"user_id": "user/bob", "time_zone": zone}}
        assert f"as of {day}] Bob sees the dentist" in tool.invoke({"query": "dentist"}, config)


def test_nothing_found_is_said_and_is_no_error(memory):
    message = RetrieveMemoryTool(memory=memory, scope="nobody").invoke(call(query="Lyon"))
    assert message.content == "No relevant memories found."
    assert message.artifact == {"semantic": [], "episodic": []}
    assert message.status == "success"


def test_it_can_be_called_with_arguments_alone_or_with_a_bare_question(tool):
    expected = "## Semantic Memory\n- [identity] Bob lives in Bergen"
    assert tool.invoke({"query": "Who?"}, BOB) == expected
    assert tool.invoke("Who?", BOB) == expected


async def test_it_can_be_called_in_all_these_ways_asynchronously(tool):
    expected = "## Semantic Memory\n- [identity] Bob lives in Bergen"
    assert await tool.ainvoke({"query": "Who?"}, BOB) == expected
    assert await tool.ainvoke("Who?", BOB) == expected
    message = await tool.ainvoke(call(query="Who?"), BOB)
    assert (message.content, message.artifact["episodic"]) == (expected, [])


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("allow_scopes", [False, True])
def test_a_model_sees_the_arguments_of_the_registry_and_scopes_only_if_it_may(memory, name, allow_scopes):
    spec = REGISTRY[name]
    tool = RegistryTool(spec=spec, memory=memory, rules=ToolPolicy(allow_scopes=allow_scopes))
    function = convert_to_openai_tool(tool)["function"]
    shown = spec.offered_arguments(allow_scopes=allow_scopes).model_json_schema()["properties"]
    assert allow_scopes or not set(spec.scoped) & set(shown)
    assert not {"config", "memory", "root", "kinds"} & set(shown)
    assert (function["name"], function["description"]) == (name, spec.description)
    assert list(function["parameters"]["properties"]) == list(shown)
    for argument, described in function["parameters"]["properties"].items():
        assert described["description"] == shown[argument]["description"]
        assert described.get("enum") == shown[argument].get("enum")


def test_name_and_description_can_be_given(memory):
    tool = RetrieveMemoryTool(memory=memory, scope="user/bob", name="recall", description="Remember things.")
    assert (tool.name, tool.description) == ("recall", "Remember things.")
    assert "Bergen" in tool.invoke(call("recall", query="Who?")).content


def test_limit_is_another_name_of_the_episodic_limit(memory):
    tool = RetrieveMemoryTool(memory=memory, scope="user/alice")
    assert tool.invoke(call(query="Lyon", limit=0)).artifact["episodic"] == []
    assert len(tool.invoke(call(query="Lyon", limit=1)).artifact["episodic"]) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "query: Field required"),
        ({"query": "Who?", "episodic_limit": -1}, "episodic_limit: Input should be greater than or equal to 0"),
        ({"query": "Who?", "scope": "user/alice"}, "scope: Extra inputs are not permitted"),
        ({"query": "Who?", "config": {}, "self": 1}, "config: Extra inputs are not permitted; self: Extra inputs"),
        ({"query": "Who?", "limit": 1, "episodic_limit": 2}, "limit is another name of episodic_limit"),
        ({"query": "Who?", "detail": "loud"}, "unknown detail 'loud'"),
        ({"query": "Who?", "category": "hobby"}, "unknown category 'hobby'"),
        ({"query": "  "}, "Query cannot be empty"),
    ],
)
async def test_an_error_is_answered_with_the_error_object(tool, arguments, problem):
    for message in (tool.invoke(call(**arguments), BOB), await tool.ainvoke(call(**arguments), BOB)):
        error = json.loads(message.content)
        assert message.status == "error"
        assert problem in error.pop("message")
        assert error == {"error": True, "error_type": "ValidationError"}


def test_a_host_can_have_errors_raised_instead(memory):
    tool = RetrieveMemoryTool(memory=memory, scope="user/bob", handle_tool_error=False)
    with pytest.raises(ToolException, match="Query cannot be empty") as caught:
        tool.invoke(call(query=" "))
    assert isinstance(caught.value.__cause__, ValidationError)


async def test_a_missing_or_malformed_scope_is_the_hosts_mistake_and_raises(tool):
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        tool.invoke(call(query="Who?"))
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        await tool.ainvoke(call(query="Who?"), {"configurable": {"thread_id": "t1"}})
    with pytest.raises(ValidationError, match="malformed"):
        tool.invoke(call(query="Who?"), {"configurable": {"user_id": "../bob"}})


def test_an_unknown_field_of_the_constructor_is_refused(memory):
    with pytest.raises(ValidationError, match=r"^user_id: Extra inputs .*; RetrieveMemoryTool takes .*scope"):
        RetrieveMemoryTool(memory=memory, user_id="alice")


def test_the_live_memory_is_neither_shown_nor_dumped(memory):
    tool = RetrieveMemoryTool(memory=memory, scope="user/alice")
    assert "AgentMemory" not in repr(tool)
    assert "memory" not in tool.model_dump()
