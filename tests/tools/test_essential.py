import json

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.text.analysis import estimate_tokens
from memory_retrievers.tools.arguments import LEVEL_ARGUMENT
from memory_retrievers.tools.registry import REGISTRY, offered_tools, parse_tool_choice
from memory_retrievers.tools.tool import ToolContext, run_tool

FOUR = ["retrieve_memory", "memory_store", "memory_update", "memory_delete"]
MOST_TOKENS = 1_200


def schemas(choice, *, allow_scopes=False):
    """What a model is told of the tools, as providers take it."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.offered_arguments(allow_scopes=allow_scopes).model_json_schema(),
            },
        }
        for tool in offered_tools(choice, allow_scopes=allow_scopes)
    ]


def written(choice, **options):
    return json.dumps(schemas(choice, **options), ensure_ascii=False)


@pytest.fixture
def context():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        yield ToolContext(memory=memory, root="user/alice")


def call(context, name, **arguments):
    tool = next(tool for tool in offered_tools("essential", allow_scopes=False) if tool.name == name)
    return run_tool(tool, context, arguments)


def test_what_is_near_is_put_right_by_arguments_that_are_offered(context):
    first = call(context, "memory_store", content="User's door code is 4711").artifact
    answer = call(context, "memory_store", content="User's door code is 4712").artifact
    assert answer["near"][0]["id"] == first["id"]
    assert "replaces" not in answer["hint"]
    assert "memory_update" in answer["hint"]
    everything = next(tool for tool in offered_tools("all", allow_scopes=False) if tool.name == "memory_store")
    answer = run_tool(everything, context, {"content": "User's door code is 4713"}).artifact
    assert "replaces=" in answer["hint"]


@pytest.mark.parametrize("allow_scopes", [False, True])
def test_the_four_essential_tools_cost_at_most_1200_tokens_together(allow_scopes):
    assert [tool.name for tool in offered_tools("essential", allow_scopes=allow_scopes)] == FOUR
    assert estimate_tokens(written("essential", allow_scopes=allow_scopes)) <= MOST_TOKENS
    assert estimate_tokens(written("essential")) < estimate_tokens(written(FOUR)) < estimate_tokens(written("all"))


def test_the_four_essential_tools_cost_at_most_1200_tokens_as_a_tokenizer_counts():
    pytest.importorskip("tiktoken")
    tokens = pytest.importorskip("llama_index.core.utils").get_tokenizer()  # which brings a vocabulary along
    assert 0 < len(tokens(written("essential", allow_scopes=True))) <= MOST_TOKENS


@pytest.mark.parametrize("choice", ["essential", "all"])
def test_every_tool_takes_a_response_level(choice):
    for tool in offered_tools(choice, allow_scopes=True):
        assert LEVEL_ARGUMENT in tool.offered_arguments(allow_scopes=True).model_json_schema()["properties"], tool.name


def test_no_schema_spends_tokens_on_what_only_repeats_its_names():
    for schema in schemas("all", allow_scopes=True):
        parameters = schema["function"]["parameters"]
        assert "description" not in parameters
        assert not [name for name, shape in parameters["properties"].items() if "title" in shape]


def test_an_essential_tool_names_no_tool_that_is_not_offered_with_it():
    told = written("essential", allow_scopes=True)
    assert not [name for name in REGISTRY if name not in FOUR and name in told]


def test_an_essential_tool_refuses_what_it_is_not_offered_with(context):
    for name, arguments in {
        "retrieve_memory": {"query": "x", "episodic_limit": 1},
        "memory_store": {"content": "x", "ttl_seconds": 5},
        "memory_update": {"id": "x", "memory_tier": "working"},
        "memory_delete": {"id": "x", "older_than": "2026-01-01T00:00:00Z"},
    }.items():
        output = call(context, name, **arguments)
        assert output.is_error
        assert "Extra inputs are not permitted" in output.content
    assert "Say what to delete: give id, or message" in call(context, "memory_delete").content
    assert "scope: Extra inputs are not permitted" in call(context, "memory_store", content="x", scope="y").content


def test_what_the_host_has_stored_is_found_changed_and_deleted_by_the_id_that_is_told(context):
    known = context.memory.remember_fact(scope="user/alice", fact="The bakery opens at seven")
    assert known.id not in call(context, "retrieve_memory", query="bakery").content
    told = call(context, "retrieve_memory", query="bakery", response_level="full").content
    assert f"## Ids\n- {known.id}: The bakery opens at seven" in told
    assert not call(context, "memory_update", id=known.id, content="The bakery opens at eight").is_error
    assert "eight" in call(context, "retrieve_memory", query="bakery").content
    assert call(context, "memory_delete", id=known.id).artifact["deleted_count"] == 1
    assert call(context, "retrieve_memory", query="bakery").content == "No relevant memories found."


def test_the_id_that_storing_tells_is_the_one_that_deleting_takes(context):
    stored = call(context, "memory_store", content="The door code is 4711", category="note", tags=["door"])
    assert call(context, "memory_delete", id=stored.artifact["id"]).artifact["deleted_count"] == 1


@pytest.mark.parametrize("word", ["everything", "", "Essential"])
def test_another_word_for_a_choice_is_refused(word):
    with pytest.raises(ConfigurationError, match=f"not {word!r}$"):
        offered_tools(word, allow_scopes=False)


def test_a_choice_can_be_written_in_one_line():
    assert parse_tool_choice("all") == "all"
    assert parse_tool_choice("memory_get,memory_list") == ("memory_get", "memory_list")
    with pytest.raises(NotFoundError, match="Unknown tool: everything"):
        offered_tools(parse_tool_choice("everything"), allow_scopes=False)


def test_kinds_that_are_none_are_refused():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory, pytest.raises(ConfigurationError, match="deletes"):
        ToolContext(memory=memory, root="user/alice", deletes="some")
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory, pytest.raises(ValidationError):
        ToolContext(memory=memory, root="..", deletes="all")
