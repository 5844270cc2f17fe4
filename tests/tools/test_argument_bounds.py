"""No argument of a tool is without a bound: what is endless is refused in a short sentence, and looks nothing up."""

import pytest
from cases import try_each

from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext

ENDLESS = "ab " * 400_000
MANY = 100_000
LONGEST_MESSAGE = 2_000  # characters; what is wrong may be repeated, but not whole

REQUIRED = {
    "query": "x", "content": "hello", "id": "a1", "memory_id": "a1", "score": 0.5, "memory_ids": ["a1", "a2"],
    "items": [{"content": "b"}], "updates": [{"id": "a1"}], "operation": "get", "target_scope": ".", "action": "list",
    "chat_length": 5,
}  # fmt: skip
# What one argument needs beside it to have a meaning.
BESIDE = {("memory_sync", "data"): {"operation": "import"}, ("memory_sync", "file_path"): {"operation": "import"}}
SCHEMAS = {name: tool.arguments.model_json_schema()["properties"] for name, tool in REGISTRY.items()}


def _types(schema):
    return {each.get("type") for each in (schema, *schema.get("anyOf", ()))}


def _of_type(kind):
    return [(name, field) for name, fields in SCHEMAS.items() for field in fields if kind in _types(fields[field])]


TEXTS, LISTS = _of_type("string"), _of_type("array")


def test_the_registry_is_walked_whole():
    every = {(name, field) for name, fields in SCHEMAS.items() for field in fields}
    others = {_type for name, field in every - {*TEXTS, *LISTS} for _type in _types(SCHEMAS[name][field])}
    assert others <= {"integer", "number", "boolean", "object", "null", None}
    assert len(TEXTS) > 60
    assert len(LISTS) > 10


@pytest.fixture
def refused(small):
    """Calls a tool that refuses, and gives its message."""
    toolbox = LocalToolbox(ToolContext(memory=small, root="user/alice", allow_scopes=True, kinds="all"))

    def refused(name, argument, value):
        fields = REGISTRY[name].arguments.model_fields
        needed = {each: REQUIRED[each] for each in fields if fields[each].is_required()}
        output = toolbox.call(name, needed | BESIDE.get((name, argument), {}) | {argument: value})
        errors = [output.artifact] if output.is_error else output.artifact.get("errors", [])  # a batch has one each
        assert {error["error_type"] for error in errors} == {"ValidationError"}, output.content[:200]
        return output.content

    return refused


def test_no_text_is_endless(refused):
    def check(name, argument):
        assert len(refused(name, argument, ENDLESS)) < LONGEST_MESSAGE

    try_each(check, TEXTS)


def test_no_list_is_endless_nor_what_is_in_it(refused):
    endless = (["x"] * MANY, [f"x{number}" for number in range(MANY)], [ENDLESS])

    def check(name, argument):
        for value in endless:
            assert len(refused(name, argument, value)) < LONGEST_MESSAGE
        if "object" not in _types(SCHEMAS[name][argument].get("items", {})):
            assert len(refused(name, argument, ["x", ENDLESS])) < LONGEST_MESSAGE

    try_each(check, LISTS)


@pytest.mark.parametrize("element", ["id", "content", "tags", "agent_id"])
def test_no_text_in_an_element_of_a_batch_is_endless(refused, element):
    endless = [ENDLESS] if element == "tags" else ENDLESS
    if element != "agent_id":
        assert len(refused("memory_batch_update", "updates", [{"id": "a1"} | {element: endless}])) < LONGEST_MESSAGE
    if element != "id":
        assert len(refused("memory_batch_store", "items", [{"content": "x"} | {element: endless}])) < LONGEST_MESSAGE
