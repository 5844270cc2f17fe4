import pytest
from pydantic import BaseModel

from memory_retrievers.errors import NotFoundError
from memory_retrievers.tools.registry import REGISTRY, find_tool, offered_tools

CATEGORIES = [
    "identity", "preference", "interest", "personality", "relationship", "experience", "goal", "guideline", "note",
]  # fmt: skip


def test_the_table_lists_the_tools_under_their_names():
    assert list(REGISTRY) == [
        "retrieve_memory", "context_pre_retrieve", "recent_memory",
        "memory_store", "memory_search", "memory_get", "memory_update", "memory_delete", "memory_list",
        "memory_batch_store", "memory_batch_update", "memory_get_score", "memory_set_score", "memory_consolidate",
        "memory_manage", "memory_discover_associations", "memory_move", "memory_list_all", "memory_sync",
        "scope_list", "scope_suggest", "session_manage", "scene",
    ]  # fmt: skip
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
    schema = spec.offered_arguments(allow_scopes=False).model_json_schema()
    assert not {"scope", "root", "kinds", "user_id", "conversation_id"} & set(schema["properties"])
    assert not set(spec.scoped) & set(schema["properties"])
    assert "$ref" not in repr(schema)
    assert "$defs" not in schema
    assert schema["additionalProperties"] is False


def test_whatever_names_a_scope_is_known_to_do_so():
    """A new argument with such a name has to be listed, or it would be shown to every model."""
    for spec in REGISTRY.values():
        named = {name for name in spec.arguments.model_fields if "scope" in name}
        assert named - {"include_child_scopes"} == set(spec.scoped), spec.name


def test_without_scopes_only_the_tools_that_are_about_them_are_missing():
    every = {tool.name for tool in offered_tools("all", allow_scopes=True)}
    assert every == set(REGISTRY)
    assert every - {tool.name for tool in offered_tools("all", allow_scopes=False)} == {"memory_move"}
    with pytest.raises(NotFoundError, match="memory_move is about scopes"):
        offered_tools(["memory_get", "memory_move"], allow_scopes=False)


def test_tools_that_only_read_can_be_chosen_in_a_word():
    assert [tool.name for tool in offered_tools("read", allow_scopes=True)] == [
        "retrieve_memory", "context_pre_retrieve", "recent_memory", "memory_search", "memory_get", "memory_list",
        "memory_get_score", "memory_discover_associations", "memory_list_all", "scope_list", "scope_suggest",
        "scene",
    ]  # fmt: skip


def _outline(name):
    """The schema of a tool's arguments without the prose."""
    schema = REGISTRY[name].arguments.model_json_schema()
    properties = {
        argument: {key: value for key, value in shape.items() if key not in {"title", "description"}}
        for argument, shape in schema["properties"].items()
    }
    return properties, schema.get("required", [])


MAX_TOKENS = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": None}
SCALARS = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]},
    "maxProperties": 16,
}


def test_the_arguments_of_retrieve_memory():
    assert _outline("retrieve_memory") == (
        {
            "query": {"type": "string"},
            "episodic_limit": {"type": "integer", "minimum": 0, "default": 5},
            "semantic_limit": {"type": "integer", "minimum": 0, "default": 20},
            "detail": {"type": "string", "enum": ["auto", "none", "low", "high", "excerpts"], "default": "auto"},
            "max_tokens": MAX_TOKENS,
            "category": {"anyOf": [{"type": "string", "enum": CATEGORIES}, {"type": "null"}], "default": None},
            "min_relevance": {
                "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": "auto"}],
                "default": 0.0,
            },
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "metadata": {"anyOf": [SCALARS, {"type": "null"}], "default": None},
            "since": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            "until": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            "where": {"anyOf": [{"type": "object", "additionalProperties": {}}, {"type": "null"}], "default": None},
            "response_level": {"type": "string", "enum": ["minimal", "standard", "full"], "default": "standard"},
        },
        ["query"],
    )


def test_the_arguments_of_context_pre_retrieve():
    assert _outline("context_pre_retrieve") == (
        {
            "query": {"type": "string"},
            "semantic_limit": {"type": "integer", "minimum": 0, "default": 20},
            "max_tokens": MAX_TOKENS,
            "category": {"anyOf": [{"type": "string", "enum": CATEGORIES}, {"type": "null"}], "default": None},
            "response_level": {"type": "string", "enum": ["minimal", "standard", "full"], "default": "standard"},
        },
        ["query"],
    )


def test_the_arguments_of_recent_memory():
    assert _outline("recent_memory") == (
        {
            "limit": {"type": "integer", "default": 10},
            "days_limit": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
            "response_level": {"type": "string", "enum": ["minimal", "standard", "full"], "default": "standard"},
        },
        [],
    )
