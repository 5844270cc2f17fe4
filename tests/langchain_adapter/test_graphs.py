"""Agents with a memory in the graphs that other packages build of them, and what those put into their threads."""

from typing import Annotated, NotRequired

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import OmitFromSchema
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from memory_retrievers.langchain import AgentMemoryMiddleware

ALICE = {"configurable": {"thread_id": "t1", "user_id": "user/alice"}}


def recorded(memory):
    return [message.content for message in memory.transcript("user/alice", "t1")]


class Fork(AgentState):
    _deepagents_forked_context: NotRequired[Annotated[bool, OmitFromSchema(input=False, output=True)]]


class Forked(AgentMiddleware):
    """Declares what deepagents declares for its forks."""

    state_schema = Fork


def test_a_fork_recalls_and_records_nothing_of_its_task(memory, saying):
    model = saying("A hotel.")
    middleware = AgentMemoryMiddleware(memory=memory)
    fork = create_agent(model, middleware=[Forked(), middleware])
    task = [HumanMessage("Where do I live?"), HumanMessage("TASK: find a hotel in Lyon")]
    fork.invoke({"messages": task, "_deepagents_forked_context": True}, ALICE)
    assert "<memory>" in str(model.heard)
    assert (recorded(memory), len(middleware._runs)) == ([], 0)


def test_what_a_supervisor_says_for_an_agent_that_hands_back_is_not_recorded(memory, saying):
    made = {"response_metadata": {"__is_handoff_back": True}}
    call = {"name": "transfer_back_to_supervisor", "args": {}, "id": "1", "type": "tool_call"}
    thread = [
        HumanMessage("Where do I live?"),
        AIMessage("In Lyon.", name="alpha"),
        AIMessage("Transferring back to supervisor", name="alpha", tool_calls=[call], **made),
        ToolMessage("Successfully transferred back to supervisor", tool_call_id="1", **made),
    ]
    agent = create_agent(saying("By the river."), middleware=[AgentMemoryMiddleware(memory=memory)])
    agent.invoke({"messages": thread}, ALICE)
    assert recorded(memory) == ["Where do I live?", "By the river."]


@pytest.mark.parametrize(
    "marks",
    [
        {"lc_source": "summarization"},
        {"lc_source": "rubric_grader"},
        {"deepagents_notification": {"task_id": "7"}},
        {"read_file_media_result": True},
    ],
    ids=["summary", "grader", "task", "film"],
)
def test_what_no_user_typed_is_neither_recorded_nor_asked_for(memory, saying, marks):
    model = saying("In Lyon.")
    agent = create_agent(model, middleware=[AgentMemoryMiddleware(memory)])
    agent.invoke(
        {"messages": [HumanMessage("Where do I live?"), {"role": "user", "content": "Go on.", **marks}]}, ALICE
    )
    assert recorded(memory) == ["Where do I live?", "In Lyon."]
    question, other = model.heard[0][-2:]
    assert "<memory>" in question.text
    assert "<memory>" not in other.text


def test_what_a_notification_begins_is_asked_by_it_and_not_by_an_older_question(memory, saying):
    model = saying("Fine.")
    told = {"role": "user", "content": "The hotel in Lyon is booked.", "deepagents_notification": {"task_id": "7"}}
    thread = [HumanMessage("Where do I live?"), AIMessage("In Lyon."), told]
    create_agent(model, middleware=[AgentMemoryMiddleware(memory)]).invoke({"messages": thread}, ALICE)
    assert ["<memory>" in each.text for each in model.heard[0][-3:]] == [False, False, True]


def test_what_a_person_answers_in_place_of_a_tool_is_no_notification(memory, saying):
    call = {"name": "ask", "args": {}, "id": "1", "type": "tool_call"}
    decided = ToolMessage("I like tea.", tool_call_id="1", additional_kwargs={"lc_source": "hitl_interrupt_decision"})
    thread = [HumanMessage("Order something."), AIMessage("", tool_calls=[call]), decided]
    agent = create_agent(saying("Tea it is."), middleware=[AgentMemoryMiddleware(memory, include_tools=True)])
    agent.invoke({"messages": thread}, ALICE)
    assert "I like tea." in recorded(memory)
