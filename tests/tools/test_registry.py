import pytest
from pydantic import BaseModel

from memory_retrievers.errors import NotFoundError
from memory_retrievers.tools.registry import REGISTRY, find_tool

CATEGORIES = [
    "identity", "preference", "interest", "personality", "relationship", "experience", "goal", "guideline", "note",
]  # fmt: skip


def test_the_table_lists_the_tools_under_their_names():
    assert list(REGISTRY) == ["retrieve_memory", "context_pre_retrieve", "recent_memory"]
    assert [spec.name for spec in REGISTRY.values()] == list(REGISTRY)


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        REGISTRY["retrieve_memory"] = REGISTRY["recent_memory"]


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(NotFoundError, match=r"^Unknown tool: forget_all\. Known tools: retrieve_memory, context_pre_"):
        find_tool("forget_all")


@pytest.mark.parametrize("spec", REGISTRY.values(), ids=REGISTRY)
def test_every_tool_and_every_argument_is_described(spec):
    assert issubclass(spec.arguments, BaseModel)
    assert 40 < len(spec.description) <= 1024  # OpenAI's limit
    for name, argument in spec.arguments.model_json_schema()["properties"].items():
        assert argument.get("description"), name


@pytest.mark.parametrize("spec", REGISTRY.values(), ids=REGISTRY)
def test_no_tool_lets_a_model_choose_the_scope_or_refers_to_definitions_elsewhere(spec):
    schema = spec.arguments.model_json_schema()
    assert not {"scope", "root", "kinds", "user_id", "conversation_id"} & set(schema["properties"])
    assert "$defs" not in schema
    assert schema["additionalProperties"] is False


def _outline(name):
    """The schema of a tool's arguments without the prose."""
    schema = REGISTRY[name].arguments.model_json_schema()
    properties = {
        argument: {key: value for key, value in shape.items() if key not in {"title", "description"}}
        for argument, shape in schema["properties"].items()
    }
    return properties, schema.get("required", [])


def test_the_arguments_of_retrieve_memory():
    assert _outline("retrieve_memory") == (
        {
            "query": {"type": "string"},
            "episodic_limit": {"type": "integer", "minimum": 0, "default": 5},
            "semantic_limit": {"type": "integer", "minimum": 0, "default": 20},
            "detail": {"type": "string", "enum": ["auto", "none", "low", "high"], "default": "auto"},
            "category": {"anyOf": [{"type": "string", "enum": CATEGORIES}, {"type": "null"}], "default": None},
        },
        ["query"],
    )


def test_the_arguments_of_context_pre_retrieve():
    assert _outline("context_pre_retrieve") == (
        {
            "query": {"type": "string"},
            "semantic_limit": {"type": "integer", "minimum": 0, "default": 20},
            "category": {"anyOf": [{"type": "string", "enum": CATEGORIES}, {"type": "null"}], "default": None},
        },
        ["query"],
    )


def test_the_arguments_of_recent_memory():
    assert _outline("recent_memory") == (
        {
            "limit": {"type": "integer", "default": 10},
            "days_limit": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
        },
        [],
    )
