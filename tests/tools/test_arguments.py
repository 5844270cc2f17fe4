import pytest
from pydantic import Field

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import ResponseLevel
from memory_retrievers.tools.arguments import ManagementArguments, without
from memory_retrievers.tools.registry import offered_tools
from memory_retrievers.tools.tool import Tool, ToolContext, ToolOutput


class Arguments(ManagementArguments):
    """Everything a schema has to cope with."""

    content: str = Field(description="What to keep.")
    items: list[str] = Field(default=[], description="More of them.")
    scope: str | None = Field(default=None, description="Where to keep it.")
    target_scope: str = Field(default=".", description="Where to move it.")


def echo(context, arguments):
    return ToolOutput.of(arguments.model_dump(mode="json"))


@pytest.fixture
def tool():
    return Tool(name="keep", description="Keeps.", arguments=Arguments, function=echo, scoped=("scope",))


def test_the_level_is_offered_last_and_standard_unless_given():
    assert Arguments.offered() == ["content", "items", "scope", "target_scope", "response_level"]
    assert list(Arguments.model_json_schema()["properties"]) == Arguments.offered()
    assert Arguments(content="x").response_level is ResponseLevel.STANDARD
    assert Arguments(content="x", response_level=None).response_level is ResponseLevel.STANDARD
    assert Arguments(content="x", response_level="Full").response_level is ResponseLevel.FULL


def test_the_level_is_described_as_specified():
    shown = Arguments.model_json_schema()["properties"]["response_level"]
    assert shown["enum"] == ["minimal", "standard", "full"]
    assert shown["description"].splitlines() == [
        "Response detail level:",
        "• minimal: Success status + essential IDs only (minimal tokens)",
        "• standard: Balanced info for workflow continuity + content previews",
        "• full: Complete data + metadata + associations (maximum detail)",
    ]


@pytest.mark.parametrize("allow_scopes", [True, False])
def test_no_schema_of_a_tool_refers_to_a_definition(allow_scopes):
    for choice in ("all", "essential"):
        for each in offered_tools(choice, allow_scopes=allow_scopes):
            schema = repr(each.offered_arguments(allow_scopes=allow_scopes).model_json_schema())
            assert "$defs" not in schema, each.name
            assert "$ref" not in schema, each.name


def test_arguments_that_name_scopes_are_neither_told_nor_taken_unless_allowed(tool, memory):
    hidden, shown = (tool.offered_arguments(allow_scopes=allowed).model_json_schema() for allowed in (False, True))
    assert set(shown["properties"]) - set(hidden["properties"]) == {"scope"}
    closed = ToolContext(memory=memory, root="user/alice")
    with pytest.raises(ValidationError, match=r"^scope: Extra inputs are not permitted$"):
        tool.call(closed, {"content": "x", "scope": "work"})
    assert tool.call(closed, {"content": "x", "scope": None}).artifact["scope"] is None
    open_ = ToolContext(memory=memory, root="user/alice", allow_scopes=True)
    assert tool.call(open_, {"content": "x", "scope": "work"}).artifact["scope"] == "work"


def test_what_is_hidden_keeps_its_default():
    assert without(Arguments, ("target_scope",))(content="x").target_scope == "."
    assert without(Arguments, ()) is Arguments


def test_a_tool_that_cannot_do_without_a_scope_is_about_scopes(tool):
    class Move(ManagementArguments):
        """A scope that has to be given."""

        target_scope: str

    assert not tool.is_about_scopes
    assert Tool(
        name="move", description="Moves.", arguments=Move, function=echo, scoped=("target_scope",)
    ).is_about_scopes
