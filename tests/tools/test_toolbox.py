import json

import pytest

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError, error_object
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import Tool, ToolContext, ToolOutput, run_tool


class Nothing(ManagementArguments):
    """No arguments but the level."""


def failing(error):
    """A tool that manages memories, and fails."""

    def fail(context, arguments):
        raise error

    return Tool(name="fail", description="Fails.", arguments=Nothing, function=fail)


def test_a_toolbox_calls_tools_by_name(context):
    output = LocalToolbox(context).call("recent_memory", {"limit": 1})
    assert output == REGISTRY["recent_memory"].call(context, {"limit": 1})
    assert not output.is_error


def test_a_toolbox_names_the_tools_it_knows_when_asked_for_another(context):
    output = LocalToolbox(context).call("memory_wipe", {})
    assert output.is_error
    assert output.artifact["error_type"] == "NotFoundError"
    assert output.artifact["message"].startswith("Unknown tool: memory_wipe. Known tools: retrieve_memory, ")


def test_what_goes_wrong_is_answered_and_not_raised(context):
    output = LocalToolbox(context).call("retrieve_memory", {})
    assert output.is_error
    assert output.artifact == {"error": True, "error_type": "ValidationError", "message": "query: Field required"}
    assert json.loads(output.content) == output.artifact


@pytest.mark.parametrize("arguments", [None, [], "", 1, [{"query": "tea"}]])
def test_arguments_that_are_no_object_are_answered_with_an_error(context, arguments):
    output = LocalToolbox(context).call("recent_memory", arguments)
    assert output.is_error
    assert "must be a JSON object" in output.content


@pytest.mark.parametrize("level", ["minimal", "standard", "full", None])
def test_an_error_without_details_looks_the_same_at_all_levels(context, level):
    output = run_tool(failing(NotFoundError("Memory not found: m9")), context, {"response_level": level})
    assert output.artifact == {
        "success": False, "error": True, "error_type": "NotFoundError", "message": "Memory not found: m9",
    }  # fmt: skip


def test_details_are_told_at_the_full_level_alone(context):
    tool = failing(ValidationError("too many", details={"items_count": 101}))
    told = {
        level: run_tool(tool, context, {"response_level": level}).artifact.get("details")
        for level in ("minimal", "standard", "full", "FULL")
    }
    assert told == {"minimal": None, "standard": None, "full": {"items_count": 101}, "FULL": {"items_count": 101}}


def test_in_the_plain_format_an_error_has_its_details_and_no_success(filled):
    context = ToolContext(memory=filled, root="user/alice", response_format="plain")
    output = run_tool(failing(ValidationError("too many", details={"items_count": 101})), context, {})
    assert output.artifact == {
        "error": True, "error_type": "ValidationError", "message": "too many", "details": {"items_count": 101},
    }  # fmt: skip


def test_a_strategy_that_is_not_there_is_an_answer_too(context):
    output = run_tool(failing(NotImplementedError("abstractive")), context, {})
    assert (output.artifact["error_type"], output.is_error) == ("NotImplementedError", True)


def test_a_mistake_in_our_own_code_is_not_hidden(context):
    with pytest.raises(KeyError):
        run_tool(failing(KeyError("k")), context, {})


@pytest.mark.parametrize("level", ["loud", "", 3])
def test_an_unknown_level_is_refused_with_the_known_ones(context, level):
    output = run_tool(failing(KeyError("never reached")), context, {"response_level": level})
    assert output.artifact["message"] == (f"Invalid response_level: {level}. Must be one of: minimal, standard, full")


@pytest.mark.parametrize("error", [NotFoundError("Memory not found: m9"), ConfigurationError("no"), KeyError("k")])
def test_every_error_has_one_shape(error):
    assert error_object(error) == {"error": True, "error_type": type(error).__name__, "message": str(error)}


def test_an_answer_for_a_model_is_compact_json_in_its_own_script():
    output = ToolOutput.of({"message": "not found: 咖啡", "ids": [1, 2]})
    assert output.content == '{"message":"not found: 咖啡","ids":[1,2]}'
