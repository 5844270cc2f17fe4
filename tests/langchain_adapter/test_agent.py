"""An agent that looks things up by itself."""

import json

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver

from memory_retrievers import Message
from memory_retrievers.errors import ConfigurationError
from memory_retrievers.langchain import AgentMemoryMiddleware, MemoryRetriever, RetrieveMemoryTool
from memory_retrievers.langchain.scope import resolve_scope


class ScriptedChatModel(GenericFakeChatModel):
    """Says what it was told to say, and accepts tools."""

    def bind_tools(self, tools, **kwargs):
        return self


def script(*steps):
    """Each step is a text to say or a (tool, arguments) pair to call."""
    messages = [
        AIMessage(step) if isinstance(step, str) else AIMessage("", tool_calls=[_call(number, *step)])
        for number, step in enumerate(steps)
    ]
    return ScriptedChatModel(messages=iter(messages))


def _call(number, name, arguments):
    return {"name": name, "args": arguments, "id": f"call-{number}", "type": "tool_call"}


def run_of(user, thread):
    return {"configurable": {"user_id": user, "thread_id": thread}}


def heard(state):
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.fixture
def remember(memory):
    @tool
    def remember(fact: str, config: RunnableConfig) -> str:
        """Keep a fact."""
        memory.remember_fact(scope=resolve_scope(config), fact=fact)
        return "kept"

    return remember


RECALL = ("retrieve_memory", {"query": "Which cheese does the user like?"})
QUESTION = {"messages": [{"role": "user", "content": "Which cheese do I like?"}]}


def _agent(memory, remember, *steps):
    tools = [RetrieveMemoryTool(memory=memory), remember]
    return create_agent(script(*steps), tools=tools, checkpointer=InMemorySaver())


def test_a_second_thread_recalls_what_the_first_one_stored_and_another_user_does_not(memory, remember):
    agent = _agent(
        memory,
        remember,
        *(("remember", {"fact": "User likes Comté cheese"}), "Noted."),
        *(RECALL, "Comté."),
        *(RECALL, "I do not know."),
    )
    agent.invoke(QUESTION, run_of("carol", "t1"))
    second_thread = agent.invoke(QUESTION, run_of("carol", "t2"))
    another_user = agent.invoke(QUESTION, run_of("dave", "t3"))

    (recalled,) = heard(second_thread)
    assert "User likes Comté cheese" in recalled.content
    assert [fact["fact"] for fact in recalled.artifact["semantic"]] == ["User likes Comté cheese"]
    assert second_thread["messages"][-1].content == "Comté."
    (nothing,) = heard(another_user)
    assert nothing.content == "No relevant memories found."


async def test_the_same_holds_asynchronously(memory, remember):
    agent = _agent(
        memory,
        remember,
        *(("remember", {"fact": "User likes Comté cheese"}), "Noted."),
        *(RECALL, "Comté."),
        *(RECALL, "I do not know."),
    )
    await agent.ainvoke(QUESTION, run_of("carol", "t1"))
    (recalled,) = heard(await agent.ainvoke(QUESTION, run_of("carol", "t2")))
    (nothing,) = heard(await agent.ainvoke(QUESTION, run_of("dave", "t3")))
    assert "User likes Comté cheese" in recalled.content
    assert nothing.content == "No relevant memories found."


def test_an_agent_reads_of_its_mistake_and_goes_on(memory, remember):
    agent = _agent(memory, remember, ("retrieve_memory", {"question": "cheese?"}), "I could not look that up.")
    state = agent.invoke(QUESTION, run_of("carol", "t1"))
    (mistake,) = heard(state)
    assert mistake.status == "error"
    assert json.loads(mistake.content)["error_type"] == "ValidationError"
    assert state["messages"][-1].content == "I could not look that up."


def test_an_agent_run_without_a_user_fails_loudly(memory, remember):
    agent = _agent(memory, remember, RECALL, "never said")
    with pytest.raises(ConfigurationError, match="whose memory is this"):
        agent.invoke(QUESTION, {"configurable": {"thread_id": "t1"}})


def test_a_model_cannot_choose_whose_memory_it_reads(memory, remember):
    agent = _agent(memory, remember, ("retrieve_memory", {"query": "Who?", "scope": "user/bob"}), "Hm.")
    (answer,) = heard(agent.invoke(QUESTION, run_of("carol", "t1")))
    assert answer.status == "error"
    assert "Bergen" not in answer.content


def test_what_the_user_has_just_said_is_no_memory_to_a_tool_that_answers_it_and_one_to_another_agent(memory):
    memory.add_messages("user/dan", [Message(role="user", content="My sister marries in May.")], conversation="other")
    said = "When does my sister marry? I keep forgetting."
    search = RetrieveMemoryTool(memory=memory)
    searching = ("retrieve_memory", {"query": "wedding of the sister"})
    subagent = create_agent(script(searching, "In May."), [search])

    @tool
    def delegate() -> str:
        """Ask another agent, which has not heard the user."""
        return heard(subagent.invoke({"messages": [{"role": "user", "content": "What of the wedding?"}]}))[0].content

    model, middleware = script(searching, ("delegate", {}), "In May."), [AgentMemoryMiddleware(memory=memory)]
    agent = create_agent(model, [search, delegate], middleware=middleware, checkpointer=InMemorySaver())
    own, others = heard(agent.invoke({"messages": [{"role": "user", "content": said}]}, run_of("user/dan", "monday")))
    assert "My sister marries in May." in own.content
    assert said not in own.content
    assert said in others.content


@pytest.mark.parametrize("way", ["tool", "retriever", "retriever with a configuration"])
async def test_what_the_user_has_just_said_is_no_document_to_a_retriever_in_a_tool(memory, way):
    memory.add_messages("user/dan", [Message(role="user", content="My sister marries in May.")], conversation="other")
    said, retriever = "When does my sister marry? I keep forgetting.", MemoryRetriever(memory=memory)

    @tool
    async def look_up(query: str) -> str:
        """Look something up."""
        config = {"configurable": {"user_id": "user/dan"}} if way == "retriever with a configuration" else None
        return "\n".join(each.page_content for each in await retriever.ainvoke(query, config))

    search = create_retriever_tool(retriever, "look_up", "Look something up.") if way == "tool" else look_up
    model = script(("look_up", {"query": "wedding of the sister"}), "In May.")
    agent = create_agent(model, [search], middleware=[AgentMemoryMiddleware(memory=memory)])
    asked = {"messages": [{"role": "user", "content": said}]}
    (found,) = heard(await agent.ainvoke(asked, run_of("user/dan", "monday")))
    assert "My sister marries in May." in found.content
    assert said not in found.content
