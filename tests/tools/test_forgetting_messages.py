"""A model forgets one thing that was said, by the words that it was shown."""

import json

import pytest

from memory_retrievers import AgentMemory, EmbeddingError, Message
from memory_retrievers.tools.registry import offered_tools
from memory_retrievers.tools.tool import ToolContext, run_tool

TOLD = "I was diagnosed with diabetes last spring."
LONG = (
    f"{TOLD} A nurse showed me how to measure it, and they had many questions about food, sports, sleep and my family."
)
TALK = [
    ("user", TOLD),
    ("assistant", "Sorry about your diabetes."),
    ("user", 'The "nightly" import\ndied again.'),
    ("assistant", "Want to stream it through Kafka?"),
]


@pytest.fixture(params=["queued", "episode"])
def memory(request, clock):
    with AgentMemory.in_memory(clock=clock) as memory:
        for scope in ("user/alice", "user/bob"):
            memory.add_messages(scope, [Message(role=role, content=text) for role, text in TALK])
            if request.param == "episode":
                memory.flush(scope)
        yield memory


@pytest.fixture
def call(memory):
    tools = {tool.name: tool for tool in offered_tools("essential", allow_scopes=False)}
    context = ToolContext(memory=memory, root="user/alice")
    return lambda name, **arguments: run_tool(tools[name], context, arguments)


def said(memory, scope="user/alice"):
    return [message.content for message in memory.transcript(scope)]


def test_what_was_told_is_forgotten_by_following_the_answers_alone(memory, call):
    fact = memory.remember_fact(scope="user/alice", fact="Alice has diabetes")
    memory.remember_fact(scope="user/alice", fact="Alice runs the import of prices")
    answer = call("memory_delete", id=fact.id).artifact
    assert answer["deleted_ids"] == [fact.id]
    assert "memory_delete" in answer["hint"]
    assert "message" in answer["hint"]
    while answer.get("still_known"):
        (first, *_) = answer["still_known"]
        assert set(first) == {"message"}
        answer = call("memory_delete", message=first["message"]).artifact
        assert (answer["success"], answer["deleted_messages"]) == (True, 1)
    assert said(memory) == [text for _, text in TALK[2:]]
    assert "diabetes" not in call("retrieve_memory", query="diabetes", response_level="full").content
    assert said(memory, "user/bob") == [text for _, text in TALK]


def test_a_fact_that_still_tells_what_was_said_is_named_with_its_id(memory, call):
    fact = memory.remember_fact(scope="user/alice", fact="Alice has diabetes")
    memory.remember_fact(scope="user/alice", fact="Alice likes walks in spring")
    known = call("memory_delete", message=TOLD).artifact["still_known"]
    assert {"id": fact.id, "content": "Alice has diabetes"} in known
    assert {"message": TALK[1][1]} in known
    assert len(known) == 2


@pytest.mark.parametrize(
    "given",
    [
        TALK[2][1],
        'The "nightly" import died again.',
        'user: The "nightly" import died again.',
        '- user: "The \\"nightly\\" import\\ndied again."',
        json.dumps(TALK[2][1]),
        'The "nightly" import…',
    ],
)
def test_a_message_is_named_as_any_block_shows_it(memory, call, given):
    assert call("memory_delete", message=given).artifact["deleted_messages"] == 1
    assert TALK[2][1] not in said(memory)
    assert len(said(memory)) == 3


def test_every_line_that_a_search_shows_names_its_message(memory, call):
    for level in ("standard", "full"):
        shown = call("retrieve_memory", query="nightly import Kafka", response_level=level).content
        lines = [line for line in shown.split("\n") if line.startswith(("- user:", "- assistant:"))]
        assert lines
        assert call("memory_delete", message=lines[0]).artifact["deleted_messages"] == 1


def test_a_long_message_is_told_in_short_and_named_so(memory, call):
    memory.add_messages("user/alice", [Message(role="user", content=LONG)], conversation="long")
    fact = memory.remember_fact(scope="user/alice", fact="Alice was diagnosed with diabetes that day")
    memory.forget_messages("user/alice", [TOLD, TALK[1][1]])
    answer = call("memory_delete", id=fact.id)
    assert len(answer.content) < 800
    (long,) = [each["message"] for each in answer.artifact["still_known"] if each["message"].endswith("…")]
    assert call("memory_delete", message=long).artifact["deleted_messages"] == 1
    assert memory.transcript("user/alice", "long") == []


@pytest.mark.parametrize("given", ["diabetes", "I was diagnosed", "…", "%", TOLD.upper(), "[" * 90_000, "x…" * 40_000])
def test_what_nobody_has_said_is_told_and_nothing_is_forgotten(memory, call, given):
    output = call("memory_delete", message=given)
    assert output.is_error
    assert output.artifact["error_type"] == "NotFoundError"
    assert "retrieve_memory" in output.artifact["message"]
    assert said(memory) == [text for _, text in TALK]


def test_a_whole_memory_and_a_message_at_once_are_refused(memory, call):
    (episode,) = memory.recent("user/alice").episodic
    output = call("memory_delete", id=episode.id, message=TOLD)
    assert output.is_error
    assert "message" in output.artifact["message"]
    assert said(memory) == [text for _, text in TALK]


def test_what_is_given_as_null_or_not_at_all_is_told(call):
    for arguments in ({}, {"id": None, "message": None}):
        assert "give id, or message" in call("memory_delete", **arguments).artifact["message"]
    assert call("memory_delete", message=" ").is_error


def test_nothing_is_told_at_the_least_level_or_of_what_nobody_tells(memory, call):
    fact = memory.remember_fact(scope="user/alice", fact="Alice has diabetes")
    assert set(call("memory_delete", id=fact.id, response_level="minimal").artifact) == {
        "success",
        "deleted_count",
        "deleted_ids",
    }
    fact = memory.remember_fact(scope="user/alice", fact="Alice plays the cello")
    assert set(call("memory_delete", id=fact.id).artifact) == {"success", "deleted_count", "deleted_ids"}


def test_a_deletion_is_answered_where_what_is_still_known_cannot_be_looked_up(memory, call, monkeypatch):
    def fail(*args, **kwargs):
        raise EmbeddingError("down")

    fact = memory.remember_fact(scope="user/alice", fact="Alice has diabetes")
    monkeypatch.setattr(memory, "retrieve", fail)
    assert call("memory_delete", id=fact.id).artifact["deleted_count"] == 1


def test_a_model_that_sees_only_what_tools_have_stored_is_told_of_nothing_else(memory):
    tool = next(tool for tool in offered_tools("essential", allow_scopes=False) if tool.name == "memory_delete")
    fact = memory.remember_fact(scope="user/alice", fact="Alice has diabetes")
    output = run_tool(tool, ToolContext(memory=memory, root="user/alice", kinds="tool"), {"id": fact.id})
    assert set(output.artifact) == {"success", "deleted_count", "deleted_ids"}


def test_who_may_only_look_forgets_nothing(memory):
    tool = next(tool for tool in offered_tools("essential", allow_scopes=False) if tool.name == "memory_delete")
    output = run_tool(tool, ToolContext(memory=memory, root="user/alice", read_only=True), {"message": TOLD})
    assert output.is_error
    assert TOLD in said(memory)


def test_the_plain_answer_counts(memory):
    everything = {tool.name: tool for tool in offered_tools("all", allow_scopes=False)}
    context = ToolContext(memory=memory, root="user/alice", response_format="plain")
    assert run_tool(everything["memory_delete"], context, {"message": TOLD}).artifact == {"deleted_messages": 1}


NUTS = "I am allergic to nuts and strawberries."
PEOPLE = ["Anna", "Tom", "# Maximiliana Wilhelmina von Hohenzollern-Sigmaringen zu Burgen", 'Ida "Tim":']


@pytest.fixture
def of_several(memory):
    memory.forget_scope("user/alice")
    memory.add_messages("user/alice", [Message(role=name, content=NUTS) for name in PEOPLE])
    return memory


@pytest.mark.parametrize("level", ["standard", "full"])
def test_of_what_several_people_say_in_the_same_words_theirs_is_forgotten_who_is_named(of_several, call, level):
    shown = call("retrieve_memory", query="Who is allergic to nuts?", response_level=level).content
    lines = [line for line in shown.split("\n") if line.startswith("- ") and line.endswith(f'"{NUTS}"')]
    assert lines
    for line in lines:
        assert call("memory_delete", message=line).artifact["deleted_messages"] == 1
        assert call("memory_delete", message=line).is_error
    assert len(said(of_several)) == len(PEOPLE) - len(lines)


def test_who_still_tells_it_is_named_where_it_is_one_of_several(of_several, call):
    known = call("memory_delete", message=f"Anna: {NUTS}").artifact["still_known"]
    assert {"message": f"Tom: {NUTS}"} in known
    assert call("memory_delete", message=known[0]["message"]).artifact["deleted_messages"] == 1
    assert len(said(of_several)) == len(PEOPLE) - 2
