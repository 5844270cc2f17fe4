"""Arguments that break programs: whatever a model gives, the answer is the error object, and can be sent on."""

import json
import sys

import pytest
from cases import try_each

from memory_retrievers.tools.registry import REGISTRY, LocalToolbox
from memory_retrievers.tools.tool import ToolContext


def _nested(depth):
    value = "x"
    for _ in range(depth):
        value = [value]
    return value


REQUIRED = {
    "query": "x", "content": "hello", "id": "a1", "memory_id": "a1", "score": 0.5, "memory_ids": ["a1", "a2"],
    "items": [{"content": "b"}], "updates": [{"id": "a1"}], "operation": "get", "target_scope": ".", "action": "list",
    "chat_length": 5,
}  # fmt: skip


def _call(toolbox, name, **given):
    fields = REGISTRY[name].arguments.model_fields
    return toolbox.call(name, {each: REQUIRED[each] for each in fields if fields[each].is_required()} | given)


@pytest.mark.parametrize("name", REGISTRY)
def test_what_is_nested_endlessly_is_refused_in_every_argument(toolbox, name):
    endless = _nested(5_000)

    def check(argument):
        for given in (endless, {"a": endless}):
            output = _call(toolbox, name, **{argument: given})
            assert output.is_error
            assert output.artifact["error_type"] == "ValidationError"

    try_each(check, REGISTRY[name].arguments.model_fields)


def test_nesting_is_refused_at_the_same_depth_whatever_the_interpreter_would_take(toolbox):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # a library may have raised it
    try:
        output = _call(toolbox, "memory_batch_store", items=_nested(5_000))
        known = _call(toolbox, "memory_store", metadata={"deep": _nested(200)})
    finally:
        sys.setrecursionlimit(limit)
    assert output.is_error
    assert output.artifact["message"] == "the arguments of memory_batch_store are nested too deeply: give them flat"
    assert "nested too deeply" not in known.content


@pytest.mark.parametrize("name", REGISTRY)
def test_an_answer_is_text_that_can_be_sent_on(toolbox, name):
    element = {"id": "\ud800", "content": "\ud800", "metadata": {"\ud800": "\ud800"}}

    def check(argument):
        for broken in ("\ud800", ["\ud800"], [element], element):
            output = _call(toolbox, name, **{argument: broken})
            output.content.encode()
            json.dumps(output.artifact, ensure_ascii=False).encode()

    try_each(check, [*REGISTRY[name].arguments.model_fields, "\ud800"])


@pytest.fixture
def toolbox(small):
    return LocalToolbox(ToolContext(memory=small, root="user/alice", allow_scopes=True, kinds="all"))
